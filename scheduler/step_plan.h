// StepPlan is one step as the scheduler sees it: counts, positions and block tables. EngineCore adds what the device
// needs besides and hands it to the executor.
#ifndef HYDRANT_SCHEDULER_STEP_PLAN_H_
#define HYDRANT_SCHEDULER_STEP_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/step/block_ops.h"
#include "kernels/step/row_plan.h"
#include "kernels/step/swap_ops.h"
#include "scheduler/park_plan.h"
#include "scheduler/request/sequence_event.h"

namespace hydrant {

struct PlanRow : RowPlan {
  int32_t sequence = 0;        // index of the sequence, from Add until its terminal event
  int32_t snapshot_begin = 0;  // [snapshot_begin, snapshot_end) of StepPlan::snapshots, by ascending slots
  int32_t snapshot_end = 0;
  int32_t keep = 0;           // the budget in force when the step ends; 0: unlimited
  bool lowered = false;       // it fell with this step
  int32_t loss_keep_max = 0;  // asked with loss_cuts > 0: the losses of cuts to this many slots, 16 fewer, 32 fewer, …
  int32_t loss_cuts = 0;
  int32_t evicted = 0;  // tokens this step drops from the cache, in each layer and head, if all of its drafts are right

  // The same if so many of them are.
  int32_t evicted_with(size_t accepted) const {
    return evicted - (reuse_victim ? drafts() - static_cast<int32_t>(accepted) : 0);
  }
};

// What leaves the pool of sequences that step aside (swapping.h), and what comes back. The tables are of all slices.
struct PlanSwapOut : SwapOut {
  int32_t sequence = 0;
  int32_t payer = 0;  // the tenant that is charged for the move: for whose sake it is made
  std::span<const int32_t> block_table = {};
  std::span<const int32_t> score_table = {};
};

struct PlanSwapIn : SwapIn {
  int32_t sequence = 0;
  int32_t payer = 0;
  std::span<const int32_t> block_table = {};
};

// Spans are valid until the plan is committed.
struct StepPlan {
  uint64_t number = 0;  // 1, 2, 3, …
  // Before any row, in this order.
  std::vector<PlanRestore> restores;
  std::vector<PlanSwapIn> swap_ins;
  std::vector<ScoreInit> score_inits;
  std::vector<PlanRow> rows;  // decode rows first
  std::vector<ScoreSnapshot> snapshots;
  int32_t decode_tokens = 0;
  int32_t draft_tokens = 0;  // of the same rows, beyond these
  int32_t prefill_tokens = 0;
  double decode_cost = 0.0;      // of the rows, as prefill_cost.h counts
  double prefill_cost = 0.0;     // of the prompt tokens
  bool several_tenants = false;  // have something to compute
  bool shared = false;           // the step was divided between tenants: part of the work waits for a later step
  // Nothing for the executor: nobody has a row, and no KV comes back.
  bool empty() const { return rows.empty() && restores.empty() && swap_ins.empty(); }
};

// What the executor said about one row.
struct RowResult {
  int32_t token = -1;  // the sampled token; ignored when the row did not sample
  // kError: the row's numbers are meaningless; its request ends, nobody else's. kNoMemory: there was
  // none for the step, so all of its rows fail, or for what follows from the token.
  FinishReason failure = FinishReason::kNone;
  // The text is complete with the token, and how: kText, kComplete, or kStop where the token only says so. A stop token counts
  // first. kNone: it goes on.
  FinishReason end = FinishReason::kNone;
  std::span<const float> losses = {};  // [PlanRow::loss_cuts]: shares of the score mass; empty where it failed
  // The tokens after `token` where drafts are what was sampled: those behind each such draft. `end` is of the last of them.
  std::span<const int32_t> more = {};
};

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_STEP_PLAN_H_
