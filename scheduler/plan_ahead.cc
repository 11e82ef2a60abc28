#include "scheduler/plan_ahead.h"

#include <algorithm>

namespace hydrant {
namespace {

// True if each row computes one token and changes nothing except the slot that it writes.
bool IsPlain(const StepPlan& plan, const SequenceTable& sequences) {
  if (plan.rows.empty() || plan.shared || !plan.restores.empty() || !plan.swap_ins.empty() || !plan.score_inits.empty())
    return false;
  return std::all_of(plan.rows.begin(), plan.rows.end(), [&sequences](const PlanRow& row) {
    const bool first_eviction = row.choose_victim && sequences.at(row.sequence).shares;
    return !row.prefill && row.drafts() == 0 && row.shrink_to == 0 && !row.lowered && row.loss_cuts == 0 &&
           !first_eviction;
  });
}

// True if the sequence's next row, if it has one, is as plain (IsPlain).
bool ContinuesPlainly(const Sequence& sequence) {
  if (!sequence.continues()) return true;
  const DecodeCounts counts = sequence.request.budget.Decode(sequence.live);
  const bool first_eviction = counts.choose_victim && sequence.shares;
  return counts.shrink_to == 0 && !first_eviction && !sequence.asks_losses && sequence.lower_to == 0;
}

}  // namespace

StepAhead LookAhead(const StepPlan& plan, const SequenceTable& sequences,
                    absl::FunctionRef<bool(int32_t sequence)> can_plan_ahead) {
  if (!IsPlain(plan, sequences)) return {};
  StepAhead ahead;
  for (int32_t index : sequences.running()) {
    const Sequence& sequence = sequences.at(index);
    if (sequence.place == KvPlace::kOutside) continue;
    if (!sequence.decodes() || !ContinuesPlainly(sequence)) return {};
    if (!sequence.continues()) {
      // A turn that ends may be parked, and KV leaves the pool only when no plan is in flight.
      if (sequence.in_flight > 0 && sequence.request.parks_at_end()) return {};
      ahead.row_becomes_free |= sequence.retired() || !sequence.paused;
      continue;
    }
    if (!can_plan_ahead(index)) return {};
    ahead.plain = true;
  }
  return ahead;
}

}  // namespace hydrant
