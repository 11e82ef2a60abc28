#include "tests/sim/swap_checks.h"

#include <algorithm>
#include <span>

#include "block_manager/kv_budget.h"

namespace hydrant::sim {
namespace {

// Own tokens between two times that a sequence steps aside.
constexpr int32_t kTokensBetween = 64;
// Plans that it takes until a budget has fallen: one asks what that costs, the next lowers it.
constexpr int32_t kPlansToFall = 4;

}  // namespace

// Once chosen it stays, whatever turns there are, until it ends or its reader is behind. It is its tenant's oldest.
void SwapChecks::CheckAnchor(const Scheduler& scheduler) {
  const int32_t index = scheduler.swapping().anchor();
  const auto advances = [&](const Sequence& sequence) {
    const SimRequest& request = *requests_[sequence.request.id - 1];
    return !sequence.retired() && !request.paused && !request.cancelled;
  };
  const std::span<const int32_t> running = scheduler.running_sequences();
  const uint64_t anchor = index < 0 ? 0 : scheduler.sequence(index).request.id;
  if (anchor != anchor_) {
    for (int32_t each : running) {
      const Sequence& sequence = scheduler.sequence(each);
      if (sequence.request.id == anchor_ && advances(sequence)) {
        failure_.Set("request ", anchor_, " was not to step aside before its end, and now it is request ", anchor);
      }
    }
  }
  anchor_ = anchor;
}

void SwapChecks::CheckChosen(const Sequence& sequence, const Known& known) {
  ++chosen_;
  const uint64_t id = sequence.request.id;
  const SimRequest& request = *requests_[id - 1];
  if (id == anchor_) failure_.Set("request ", id, " steps aside, and was never to");
  const bool soon = known.came_back_at >= 0 && sequence.scheduled - known.came_back_at < kTokensBetween;
  if (soon && !request.paused) {
    failure_.Set("request ", id, " steps aside again after ", sequence.scheduled - known.came_back_at, " tokens");
  }
}

void SwapChecks::AfterStep(const Scheduler& scheduler, int64_t outside) {
  for (const PlanSwapOut& out : scheduler.swap_outs()) failure_.Set("request ", out.id, " is not moved");
  const int64_t space = workload_.core().scheduler.swap_blocks_max;
  if (outside > space) failure_.Set(outside, " blocks are outside, there is room for ", space);
}

void SwapChecks::CheckAdmitted(const Scheduler& scheduler) {
  const bool somebody_waits =
      std::any_of(scheduler.running_sequences().begin(), scheduler.running_sequences().end(), [&](int32_t index) {
        const Sequence& sequence = scheduler.sequence(index);
        const bool is_aside = sequence.place == KvPlace::kLeaving || sequence.place == KvPlace::kOutside;
        return is_aside && !requests_[sequence.request.id - 1]->paused && !sequence.retired();
      });
  if (!somebody_waits) return;
  admission_checks_ += scheduler.waiting() > 0 ? 1 : 0;
  for (int32_t index : scheduler.running_sequences()) {
    const uint64_t id = scheduler.sequence(index).request.id;
    const std::span<const uint64_t> admitted = scheduler.admitted();
    if (std::find(admitted.begin(), admitted.end(), id) == admitted.end()) continue;
    const Tenant& tenant = scheduler.tenant(requests_[id - 1]->request.request.tenant);
    const bool seen_before = known_.contains(id);  // a plan ahead lets nobody in
    // Those that run may have grown by a block for it.
    const bool within_floor = tenant.claimed() - tenant.running <= tenant.options.floor_blocks;
    if (seen_before || scheduler.sequence(index).given_room || (within_floor && tenant.options.floor_blocks > 0))
      continue;
    failure_.Set("request ", id, " is let in while another one waits outside");
  }
}

// Whether its next row may lower its budget to the floor that its request agreed to. What others may read is left out.
bool MayGive(const Sequence& sequence, const SimRequest& request) {
  const KvBudget& asked = request.request.request.budget;
  return asked.floor < sequence.request.budget.keep && sequence.decodes() && !request.paused && !request.cancelled &&
         sequence.in_pool() && !sequence.retired() && !sequence.shares && sequence.has_slot() &&
         sequence.steps_after_next() > 0;
}

// Blocks that the budgets of those give that could have given them in the last plans, too.
int64_t SwapChecks::BudgetsGive(const Scheduler& scheduler) const {
  int64_t gives = 0;
  for (int32_t index : scheduler.running_sequences()) {
    const Sequence& sequence = scheduler.sequence(index);
    const SimRequest& request = *requests_[sequence.request.id - 1];
    const auto known = known_.find(request.id());
    if (!MayGive(sequence, request) || known == known_.end() || known->second.gives_plans < kPlansToFall) continue;
    const KvBudget& asked = request.request.request.budget;
    const KvBudget least = sequence.request.budget.Lowered(asked.floor);
    const int64_t needs =
        BlocksForSlots(least.PeakSlots(std::min(sequence.live + 1, asked.floor), sequence.steps_after_next()));
    gives += std::max<int64_t>(0, sequence.blocks.reserved() - needs);
  }
  return gives;
}

// With one tenant, which gives all that it can to itself. Nobody steps aside as long as budgets may fall by all that those that
// run lack for their next block, and the one that was never to step aside for its return.
void SwapChecks::CheckBudgetsFirst(const Scheduler& scheduler) {
  if (scheduler.tenants().size() > 1) return;
  int64_t lack = 0;
  for (int32_t index : scheduler.running_sequences()) {
    const Sequence& sequence = scheduler.sequence(index);
    const bool returns = index == scheduler.swapping().anchor() && sequence.place == KvPlace::kOutside;
    if (!returns && !sequence.in_pool() && sequence.place != KvPlace::kLeaving) continue;
    const int64_t steps = returns ? kTokensBetween : kBlockSlots;
    const KvBudget& budget = sequence.request.budget;
    const int64_t soon =
        BlocksForSlots(PeakSlotsFrom(sequence.live, sequence.scheduled, sequence.prompt_length(), steps + 2, budget));
    lack += std::max<int64_t>(0, soon - sequence.blocks.reserved());
  }
  const int64_t gives = BudgetsGive(scheduler);
  budget_checks_ += gives > 0 ? 1 : 0;
  passed_over_ = gives >= lack && gives > 0 ? passed_over_ + 1 : 0;
  // Once after some plans in which budgets were about to fall: somebody's reader was behind just then.
  if (passed_over_ > 1) {
    failure_.Set("somebody steps aside while budgets could fall by ", gives, " blocks, and ", lack, " are missing");
  }
}

// The most that those in progress may come to hold has a place, and one more of the largest.
void SwapChecks::CheckPeaks(const Scheduler& scheduler) {
  const SchedulerOptions& options = workload_.core().scheduler;
  int64_t peaks = 0;
  int64_t largest = 0;
  for (int32_t index : scheduler.running_sequences()) {
    const Sequence& sequence = scheduler.sequence(index);
    const SimRequest& request = *requests_[sequence.request.id - 1];
    const bool exact = !sequence.request.budget.limited() && sequence.restored == 0;
    const int64_t peak = exact ? request.blocks_alone : sequence.peak_blocks;
    if (sequence.peak_blocks < BlocksForSlots(sequence.live)) {
      failure_.Set("request ", request.id(), " holds more than it was let in for");
    }
    peaks += peak;
    largest = std::max(largest, peak);
  }
  if (peaks <= options.blocks || peaks + largest - 1 <= options.blocks + options.swap_blocks_max) return;
  failure_.Set("those in progress may come to hold ", peaks, " blocks, one of them ", largest, ": there are ",
               options.blocks, " and ", options.swap_blocks_max, " outside");
}

void SwapChecks::AfterPlan(const Scheduler& scheduler) {
  CheckAnchor(scheduler);
  CheckAdmitted(scheduler);
  bool chosen_now = false;
  std::map<uint64_t, Known> now;
  for (int32_t index : scheduler.running_sequences()) {
    const Sequence& sequence = scheduler.sequence(index);
    const auto before = known_.find(sequence.request.id);
    Known known = before == known_.end() ? Known() : before->second;
    const bool left = sequence.place == KvPlace::kLeaving || sequence.place == KvPlace::kOutside;
    const bool was_in = known.place == KvPlace::kPool || known.place == KvPlace::kReturning;
    if (left && was_in) CheckChosen(sequence, known);
    chosen_now |= left && was_in;
    known.gives_plans = MayGive(sequence, *requests_[sequence.request.id - 1]) ? known.gives_plans + 1 : 0;
    if (!left && !was_in) known.came_back_at = requests_[sequence.request.id - 1]->computed;
    known.place = sequence.place;
    now[sequence.request.id] = known;
  }
  if (chosen_now) CheckBudgetsFirst(scheduler);
  known_ = std::move(now);
  for (int32_t index : scheduler.running_sequences()) {
    const Sequence& sequence = scheduler.sequence(index);
    if (sequence.place != KvPlace::kLeaving) continue;
    for (const PlanSwapIn& in : scheduler.plan().swap_ins) {
      if (in.id == sequence.request.id) failure_.Set("request ", in.id, " leaves and comes back");
    }
  }
  CheckPeaks(scheduler);
}

}  // namespace hydrant::sim
