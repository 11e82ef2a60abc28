// The part of Scheduler that plans a step while the one before it is in flight.
#include <algorithm>
#include <cassert>

#include "scheduler/scheduler.h"

namespace hydrant {

// Its rows compute one token each and change nothing but the slot they write.
bool Scheduler::IsPlain(const StepPlan& plan) const {
  if (plan.rows.empty() || plan.shared || !plan.restores.empty() || !plan.side_starts.empty()) return false;
  return std::all_of(plan.rows.begin(), plan.rows.end(), [this](const PlanRow& row) {
    const bool first_eviction = row.choose_victim && sequence(row.sequence).shares;
    return !row.prefill && row.shrink_to == 0 && !row.lowered && row.loss_cuts == 0 && !first_eviction;
  });
}

// Whether the sequence's next row, if it has one, is as plain.
bool Scheduler::ContinuesPlainly(const Sequence& sequence) const {
  if (!sequence.goes_on()) return true;
  const DecodeCounts counts = sequence.request.budget.Decode(sequence.live);
  const bool first_eviction = counts.choose_victim && sequence.shares;
  return counts.shrink_to == 0 && !first_eviction && !sequence.asks_losses && sequence.lower_to == 0;
}

const StepPlan* Scheduler::PlanAhead(absl::FunctionRef<bool(int32_t sequence)> independent) {
  assert(planned_ == 1 && parks_.empty());
  if (!IsPlain(*plan_) || !drops().empty()) return nullptr;
  int32_t rows = 0;
  bool somebody_leaves = false;
  for (int32_t index : running_) {
    const Sequence& sequence = at(index);
    if (!sequence.decodes() || !ContinuesPlainly(sequence)) return nullptr;
    if (!sequence.goes_on()) {
      if (sequence.in_flight > 0 && sequence.request.session != 0) return nullptr;
      somebody_leaves |= sequence.retired() || !sequence.paused;
      continue;
    }
    if (!independent(index)) return nullptr;
    ++rows;
  }
  const bool may_admit = waiting_ > 0 && !admission_paused_ && (somebody_leaves || !free_state_rows_.empty());
  if (rows == 0 || may_admit) return nullptr;
  ShareStep();
  if (step_shares_.bounded()) return nullptr;
  assert(admitted_.empty() && shrinks_for_ == 0);

  blocked_ = Blocked();
  StepPlan& plan = BeginPlan();
  plan.shared = false;
  plan.several_tenants = step_shares_.several();
  PlanDecodes();
  ++counters_.steps;
  return &plan;
}

}  // namespace hydrant
