// The part of Scheduler that lowers budgets whose requests agreed, when the head of line waits for blocks.
//
// It takes three steps: one asks the candidates' rows what a lower budget would cost them, the next one's rows are cut, and with
// the one behind it the head of line is let in. Each step decides anew, from the counts as they are.
#include <algorithm>
#include <cassert>

#include "scheduler/scheduler.h"

namespace hydrant {

// The largest budget below the sequence's own that may free a block, and those a block smaller each down to its floor. They
// are such that the most slots they allow fill whole blocks.
Scheduler::Cuts Scheduler::CutsOf(const KvBudget& budget) const {
  const int32_t most = (budget.keep - 1 + budget.slack) / kSlotsPerBlock;
  const int32_t least = static_cast<int32_t>(BlocksForSlots(int64_t{budget.floor} + budget.slack));
  return {most * kSlotsPerBlock - budget.slack, std::max(0, most - least + 1)};
}

// Whether its next row may lower the budget: it has one, and it is not the last, after which everything is free anyway.
bool Scheduler::MayShrink(const Sequence& sequence) const {
  return sequence.request.budget.elastic() && sequence.decodes() && !sequence.paused && StepsAfterNext(sequence) > 0;
}

int64_t Scheduler::StepsAfterNext(const Sequence& sequence) const {
  return DecodeSteps(sequence.request.max_tokens) - (sequence.scheduled - sequence.prompt_length()) - 1;
}

int32_t Scheduler::BlocksOthersUse(const Sequence& sequence) const {
  const BlockPool& pool = block_manager_.pool();
  const std::span<const int32_t> held = sequence.blocks.blocks();
  return static_cast<int32_t>(
      std::count_if(held.begin(), held.end(), [&pool](int32_t block) { return pool.references(block) > 1; }));
}

// What ends with this step makes room without a loss.
void Scheduler::BeginShrinkPlan() {
  shrink_planner_.Begin(tenants_, *blocked_.tenant, options_.blocks);
  for (int32_t index : running_) {
    const Sequence& sequence = at(index);
    if (!sequence.decodes() || sequence.paused || StepsAfterNext(sequence) > 0) continue;
    shrink_planner_.AddEnd(sequence.request.tenant, sequence.blocks.reserved(), BlocksOthersUse(sequence));
  }
}

// Adds a sequence that may shrink with everything its budget may be lowered to. `losses` may be empty when nobody asks for the
// cheapest.
void Scheduler::AddGiver(int32_t index, std::span<const float> losses) {
  const Sequence& sequence = at(index);
  const KvBudget& budget = sequence.request.budget;
  const int64_t reserved = sequence.blocks.reserved();
  const int32_t live_in = budget.Decode(sequence.live).live_after;
  const int64_t steps = StepsAfterNext(sequence);
  const int32_t in_use = BlocksOthersUse(sequence);
  shrink_planner_.AddSequence(index, sequence.request.tenant);
  const Cuts cuts = CutsOf(budget);
  for (int32_t i = 0; i < cuts.count; ++i) {
    const KvBudget lowered = budget.Lowered(cuts.keep_max - i * kSlotsPerBlock);
    const bool cut = live_in > lowered.keep;
    int64_t needed = BlocksForSlots(lowered.PeakSlots(std::min(live_in, lowered.keep), steps));
    if (sequence.shares && cut) {
      // What others may read is copied first, within the reservation.
      const int64_t copies = std::min<int64_t>(BlocksForSlots(lowered.keep), live_in / kSlotsPerBlock);
      if (BlocksForSlots(live_in) + copies > reserved) continue;
    } else if (sequence.shares) {
      needed = SharedDecodeBlocks(live_in, steps, lowered);
    }
    if (needed >= reserved) continue;
    shrink_planner_.AddOption({.keep = lowered.keep,
                               .returned = static_cast<int32_t>(reserved - needed),
                               .in_use = sequence.shares && cut ? in_use : 0,
                               .loss = losses.empty() ? 0.0 : static_cast<double>(losses[static_cast<size_t>(i)])});
  }
}

void Scheduler::PlanShrinks() {
  shrinks_for_ = 0;
  if (blocked_.tenant == nullptr) return;
  BeginShrinkPlan();
  if (shrink_planner_.won_by_ends() >= blocked_.blocks) return;
  for (int32_t index : running_) {
    const Sequence& sequence = at(index);
    const bool answered = sequence.losses_step + 1 == plan_->number && !sequence.losses.empty();
    if (MayShrink(sequence) && answered) AddGiver(index, sequence.losses);
  }
  const std::span<const ShrinkPlanner::Choice> choices = shrink_planner_.Win(blocked_.blocks);
  for (const ShrinkPlanner::Choice& choice : choices) at(choice.sequence).lower_to = choice.keep;
  if (!choices.empty()) {
    shrinks_for_ = at(blocked_.tenant->queue.front()).request.id;
    return;
  }

  BeginShrinkPlan();
  for (int32_t index : running_) {
    if (MayShrink(at(index))) AddGiver(index, {});
  }
  if (!shrink_planner_.CanWin(blocked_.blocks)) return;
  for (int32_t index : running_) at(index).asks_losses = MayShrink(at(index));
}

}  // namespace hydrant
