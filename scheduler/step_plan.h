// StepPlan is one step as the scheduler sees it: counts, positions and block tables. EngineCore adds what the device
// needs besides and hands it to the executor.
#ifndef HYDRANT_SCHEDULER_STEP_PLAN_H_
#define HYDRANT_SCHEDULER_STEP_PLAN_H_

#include <cstdint>
#include <span>
#include <vector>

#include "block_manager/prefix_use.h"
#include "scheduler/park_plan.h"
#include "scheduler/sequence_event.h"

namespace hydrant {

// The scores of a row's first `slots` slots as they are when the token of the last of them has been computed.
struct PlanSnapshot {
  int32_t slots = 0;           // multiple of kSlotsPerBlock
  std::vector<int32_t> sides;  // [slots / kSlotsPerBlock], where they go
};

// In the place of a decode row's token: the one that the sequence's row in the step before samples (Scheduler::PlanAhead).
inline constexpr int32_t kTokenInFlight = -1;

struct PlanRow {
  int32_t sequence = 0;             // index of the sequence, from Add until its terminal event
  int32_t state_row = 0;            // [0, sequences_max), from admission until its terminal event
  std::span<const int32_t> tokens;  // to compute now, at positions [position, position + tokens.size())
  int32_t position = 0;
  int32_t live = 0;  // slots occupied before the step
  int32_t prompt_length = 0;
  std::span<const int32_t> block_table;  // covers every slot the step touches
  std::span<const int32_t> side_table;   // beside it: where scores and positions are
  std::span<const TableCopy> copies;     // after the forward pass, before a cut
  int32_t snapshot_begin = 0;            // [snapshot_begin, snapshot_end) of StepPlan::snapshots, by ascending slots
  int32_t snapshot_end = 0;
  bool prefill = false;  // prompt tokens; else exactly one generated token
  bool reuse_victim = false;
  bool choose_victim = false;
  int32_t shrink_to = 0;      // > 0: the step ends with a cut to this many slots
  int32_t keep = 0;           // the budget in force when the step ends; 0: unlimited
  bool lowered = false;       // it fell with this step
  int32_t loss_keep_max = 0;  // asked with loss_cuts > 0: the losses of cuts to this many slots, 16 fewer, 32 fewer, …
  int32_t loss_cuts = 0;
  bool sample = false;
  // Of a session: ids that end the sequence when this row samples them. A row ahead behind such an id must leave no trace.
  std::span<const int32_t> ends;
  int32_t evicted = 0;  // tokens this step drops from the cache, in each layer and head
};

// Spans are valid until the plan is committed.
struct StepPlan {
  uint64_t number = 0;  // 1, 2, 3, …
  // Before any row, in this order.
  std::vector<PlanRestore> restores;
  std::vector<SideStart> side_starts;
  std::vector<PlanRow> rows;  // decode rows first
  std::vector<PlanSnapshot> snapshots;
  int32_t decode_tokens = 0;
  int32_t prefill_tokens = 0;
  double decode_cost = 0.0;      // of the rows, as prefill_cost.h counts
  double prefill_cost = 0.0;     // of the prompt tokens
  bool several_tenants = false;  // have something to compute
  bool shared = false;           // it was divided between tenants: some of what there was to compute waits
};

// What the executor said about one row.
struct RowResult {
  int32_t token = -1;  // the sampled token; ignored when the row did not sample
  // kError: the row's numbers are meaningless; its request ends, nobody else's. kNoMemory: the step was not computed, so all
  // of its rows fail.
  FinishReason failure = FinishReason::kNone;
  bool ends = false;                   // the text is complete with the token; a stop token counts first
  std::span<const float> losses = {};  // [PlanRow::loss_cuts]: shares of the score mass; empty where it failed
};

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_STEP_PLAN_H_
