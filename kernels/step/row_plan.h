// RowPlan is one sequence's share of a step, as the scheduler plans it and the executor reads it. Each derives its own
// row from it (PlanRow in scheduler/step_plan.h, StepRow in model/run/executor.h).
//
// Thread: any (plain data). Spans are the planner's, valid until the step is committed.
#ifndef HYDRANT_KERNELS_STEP_ROW_PLAN_H_
#define HYDRANT_KERNELS_STEP_ROW_PLAN_H_

#include <cstdint>
#include <span>

#include "kernels/step/block_ops.h"

namespace hydrant {

// Placeholder token of a decode row: the token last sampled for its state row. Only the device knows it; the step that
// samples it may still be in flight.
inline constexpr int32_t kSampledId = -1;

// A row's counts: the same numbers for whoever plans it, computes it or has it in a device's memory. Plain data without
// pointers.
struct RowCounts {
  int32_t state_row = 0;       // the sequence's place in device state, from admission until its terminal event
  int32_t position = 0;        // logical position of the row's first token
  int32_t live = 0;            // slots occupied before the step
  int32_t prompt_length = 0;   // tokens of the whole prompt
  bool prefill = false;        // prompt tokens; else one generated token, and perhaps drafts of those after it
  bool reuse_victim = false;   // decode at the budget: the token overwrites the victim, `live` stays
  bool choose_victim = false;  // decode: after scoring, choose the slot that the next token overwrites
  int32_t adapter = -1;        // the slot of the row's adapter (kernels/adapter_weight.h); -1: none

  // True if every slot of the row, its own tokens' included, holds the token whose position is the slot's number: nothing
  // was evicted so far, and nothing is overwritten now.
  constexpr bool in_order() const { return live == position && !reuse_victim; }
  // Slots occupied when `tokens` of the row have theirs. At the budget each overwrites a victim.
  constexpr int32_t slots_with(int32_t tokens) const { return reuse_victim ? live : live + tokens; }
};

// A row's tables, in host memory.
struct RowTables {
  std::span<const int32_t> block_table = {};  // covers every slot the step touches
  // The score blocks that have the scores and positions of these slots. A device takes an empty one for each block's
  // own.
  std::span<const int32_t> score_table = {};

  std::span<const int32_t> score_blocks() const { return score_table.empty() ? block_table : score_table; }
};

struct RowPlan : RowCounts, RowTables {
  // The tokens to compute, at positions [position, position + tokens.size()). kSampledId stands for the token that this
  // state row's last row samples; it is 0 if that row fails.
  std::span<const int32_t> tokens = {};
  // Tokens that a decode row computes on the guess that they are sampled one after the other. Such a row has neither copies nor a
  // cut, and it chooses victims if it overwrites them: then each of its tokens does both.
  int32_t drafts() const { return prefill || tokens.empty() ? 0 : static_cast<int32_t>(tokens.size()) - 1; }
  // Copies to make after the forward pass and before a cut: the cut works on the copies, not on their sources.
  std::span<const BlockCopy> copies = {};
  int32_t shrink_to = 0;  // > 0: the step ends with a cut to this many slots
  bool sample = false;    // a token from the last token's logits
  // For a session: ids that end the sequence when this row samples them. A row planned ahead after such an id must
  // leave no trace in the cache, and its sample is undefined.
  std::span<const int32_t> stop_ids = {};
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_STEP_ROW_PLAN_H_
