#include "scheduler/elastic_budgets.h"

#include <algorithm>
#include <new>

namespace hydrant {

// True if the sequence's next row may lower its budget: there is a next row, and it is not the last, after which all
// blocks are free anyway.
bool ElasticBudgets::MayLower(const Sequence& sequence) {
  return sequence.request.budget.elastic() && sequence.decodes() && !sequence.paused && sequence.in_pool() &&
         sequence.has_slot() && sequence.steps_after_next() > 0;
}

// Who waits may be one of the others.
int32_t ElasticBudgets::BlocksOthersUse(const Sequence& sequence, const Blocked& blocked) const {
  return sequence.shares ? block_manager_.BlocksOthersUse(sequence.blocks, blocked.shares) : 0;
}

// Sequences that end with this step make room without a loss; `later`: also those whose KV has to be parked first, and
// KV that is on its way out already.
void ElasticBudgets::BeginPlan(const Blocked& blocked, bool later) {
  planner_.Begin(tenants_.all(), *blocked.tenant, block_manager_.pool().total(), blocked.over_share);
  for (int32_t index : sequences_.running()) {
    const Sequence& sequence = sequences_.at(index);
    if (!sequence.decodes() || sequence.paused || !sequence.in_pool() || sequence.steps_after_next() > 0) continue;
    if (sequence.request.parks_at_end() && !later) continue;
    planner_.AddEnd(sequence.request.tenant, sequence.blocks.reserved(), BlocksOthersUse(sequence, blocked));
  }
  if (!later) return;
  const std::span<const PlanPark> parks = parking_.parks();
  for (size_t i = 0; i < parks.size(); ++i) {
    const BlockTable& table = parking_.tables()[i];
    planner_.AddEnd(parks[i].tenant, table.reserved(), block_manager_.BlocksOthersUse(table, blocked.shares));
  }
}

// Whether nothing has to fall, because what is missing becomes free in any case.
bool ElasticBudgets::RoomComes(const Blocked& blocked) {
  BeginPlan(blocked, /*later=*/true);
  return planner_.gained_by_ends() >= blocked.blocks;
}

// Adds a candidate with every budget to which it may be lowered. `losses` may be empty if only the sum of the gains is
// asked for.
void ElasticBudgets::AddCandidate(int32_t index, std::span<const float> losses, const Blocked& blocked) {
  const Sequence& sequence = sequences_.at(index);
  const KvBudget& budget = sequence.request.budget;
  const int64_t reserved = sequence.blocks.reserved();
  const int32_t live_in = budget.Decode(sequence.live).live_after;
  const int64_t steps = sequence.steps_after_next();
  const int32_t in_use = BlocksOthersUse(sequence, blocked);
  planner_.AddSequence(index, sequence.request.tenant);
  const LowerBudgets lower = LowerBudgetsOf(budget);
  for (int32_t i = 0; i < lower.count; ++i) {
    const KvBudget lowered = budget.Lowered(lower.keep_max - i * kBlockSlots);
    const bool cut = live_in > lowered.keep;
    int64_t needed = BlocksForSlots(lowered.PeakSlots(std::min(live_in, lowered.keep), steps));
    if (sequence.shares && cut) {
      // Blocks that others may read are copied first, and the copies must fit the reservation.
      const int64_t copies = std::min<int64_t>(BlocksForSlots(lowered.keep), live_in / kBlockSlots);
      if (BlocksForSlots(live_in) + copies > reserved) continue;
    } else if (sequence.shares) {
      needed = SharedDecodeBlocks(live_in, steps, lowered);
    }
    if (needed >= reserved) continue;
    planner_.AddOption({.keep = lowered.keep,
                        .returned = static_cast<int32_t>(reserved - needed),
                        .in_use = sequence.shares && cut ? in_use : 0,
                        .loss = losses.empty() ? 0.0 : static_cast<double>(losses[static_cast<size_t>(i)])});
  }
}

bool ElasticBudgets::AnybodyMayLower() const {
  const std::span<const int32_t> running = sequences_.running();
  return std::any_of(running.begin(), running.end(), [this](int32_t index) { return MayLower(sequences_.at(index)); });
}

bool ElasticBudgets::CanGain(const Blocked& blocked) {
  if (blocked.tenant == nullptr || !AnybodyMayLower()) return false;
  try {
    if (RoomComes(blocked)) return false;
    BeginPlan(blocked, /*later=*/false);
    for (int32_t index : sequences_.running()) {
      if (MayLower(sequences_.at(index))) AddCandidate(index, {}, blocked);
    }
    return planner_.CanGain(blocked.blocks);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// Chooses the rows that lower their budgets, from the answers of the step before. False: none does, but it may come to that.
bool ElasticBudgets::PlanCuts(const Blocked& blocked, uint64_t request, uint64_t step) {
  if (RoomComes(blocked)) return true;
  BeginPlan(blocked, /*later=*/false);
  for (int32_t index : sequences_.running()) {
    const Sequence& sequence = sequences_.at(index);
    const bool answered = sequence.losses_step + 1 == step && !sequence.losses.empty();
    if (MayLower(sequence) && answered) AddCandidate(index, sequence.losses, blocked);
  }
  const std::span<const ShrinkPlanner::Choice> choices = planner_.PlanFor(blocked.blocks);
  if (choices.empty()) return false;
  for (const ShrinkPlanner::Choice& choice : choices) sequences_.at(choice.sequence).lower_to = choice.keep;
  lowers_for_ = request;
  return true;
}

void ElasticBudgets::Plan(const Blocked& blocked, uint64_t request, uint64_t step) {
  lowers_for_ = 0;
  if (blocked.tenant == nullptr) return;
  try {
    if (PlanCuts(blocked, request, step)) return;
  } catch (const std::bad_alloc&) {
    return;  // nothing was chosen; the next step tries again
  }
  if (!CanGain(blocked)) return;
  for (int32_t index : sequences_.running()) sequences_.at(index).asks_losses = MayLower(sequences_.at(index));
}

}  // namespace hydrant
