#include "tests/sim/swap_checks.h"

#include <algorithm>
#include <span>

#include "block_manager/kv_budget.h"
#include "tests/sim/tenant_checks.h"

namespace hydrant::sim {
namespace {

// Own tokens between two times that a sequence steps aside.
constexpr int32_t kTokensBetween = 64;
// Plans that it takes until a budget has fallen: one asks what that costs, the next lowers it.
constexpr int32_t kPlansToFall = 4;
// Tokens before its blocks are used up when a sequence asks for more.
constexpr int32_t kAsksBefore = 4;
// Plans beyond its patience that a head of line may wait although somebody could step aside: budgets may be about to fall, and
// whom it asked for may have ended.
constexpr int32_t kWaitsMore = 10;

// Steps in a row that a stream in the pool may go without a token for what somebody else moves.
constexpr int64_t kHeldUpMax = 2;

bool IsAside(KvPlace place) { return place == KvPlace::kLeaving || place == KvPlace::kOutside; }

}  // namespace

// Once chosen it stays, whatever turns there are, until it ends or its reader is behind, or until it has had its tokens and
// somebody has been outside for long.
void SwapChecks::CheckAnchor(const Scheduler& scheduler) {
  const int32_t index = scheduler.swapping().anchor();
  const auto advances = [&](const Sequence& sequence) {
    const SimRequest& request = *requests_[sequence.request.id - 1];
    return !sequence.retired() && !request.paused && !request.cancelled;
  };
  const std::span<const int32_t> running = scheduler.running_sequences();
  const uint64_t anchor = index < 0 ? 0 : scheduler.sequence(index).request.id;
  const bool outside_long = std::any_of(known_.begin(), known_.end(), [&](const auto& known) {
    return known.second.outside_all + 1 >= workload_.core().scheduler.swap_patience;
  });
  if (anchor != anchor_) {
    for (int32_t each : running) {
      const Sequence& sequence = scheduler.sequence(each);
      const int32_t tenure = Swapping::kTenure * workload_.core().scheduler.swap_patience;
      const bool over = sequence.scheduled - anchor_since_ >= tenure && outside_long;
      if (sequence.request.id == anchor_ && advances(sequence) && !over) {
        failure_.Set("request ", anchor_, " was not to step aside before its end, and now it is request ", anchor);
      }
    }
  }
  if (anchor != anchor_) anchor_since_ = anchor == 0 ? 0 : requests_[anchor - 1]->computed;
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

bool SwapChecks::HasOutside(const Scheduler& scheduler, int32_t tenant, bool before) const {
  const std::span<const int32_t> running = scheduler.running_sequences();
  return std::any_of(running.begin(), running.end(), [&](int32_t index) {
    const Sequence& sequence = scheduler.sequence(index);
    const uint64_t id = sequence.request.id;
    return sequence.request.tenant == tenant && IsAside(sequence.place) && (!before || WasAside(id)) &&
           !requests_[id - 1]->paused;
  });
}

bool SwapChecks::WasAside(uint64_t id) const {
  const auto known = known_.find(id);
  return known != known_.end() && IsAside(known->second.place);
}

// Whether one of the tenant's sequences lacks blocks for its next tokens, or is the one that must come back; or whether its head
// of line waits, with which it stays within its share.
bool SwapChecks::Lacks(const Scheduler& scheduler, int32_t tenant) const {
  if (!scheduler.tenant(tenant).queue.empty() && WithinShareOfPool(workload_, scheduler, tenant, 0)) return true;
  const std::span<const int32_t> running = scheduler.running_sequences();
  return std::any_of(running.begin(), running.end(), [&](int32_t index) {
    const Sequence& sequence = scheduler.sequence(index);
    if (sequence.request.tenant != tenant) return false;
    if (sequence.place == KvPlace::kOutside) {
      const auto known = known_.find(sequence.request.id);
      const int64_t plans = known == known_.end() ? 0 : known->second.outside_all;
      return index == scheduler.swapping().anchor() || plans + 1 >= workload_.core().scheduler.swap_patience;
    }
    if (sequence.place == KvPlace::kReturning || !sequence.decodes()) return false;
    return BlocksForSlots(sequence.request.budget.PeakSlots(sequence.live, kAsksBefore)) > sequence.blocks.reserved();
  });
}

// A tenant within its share of the pool gives nothing for others.
void SwapChecks::CheckShares(const Scheduler& scheduler, const Sequence& chosen) {
  if (scheduler.tenants().size() == 1) return;
  ++share_checks_;
  const int32_t tenant = chosen.request.tenant;
  if (!WithinShareOfPool(workload_, scheduler, tenant, 0) || Lacks(scheduler, tenant)) return;
  if (!WithinShareOfRows(scheduler, tenant, 0)) return;
  failure_.Set("request ", chosen.request.id, " of tenant ", tenant, ", within its share, steps aside for others");
}

// Who pays lacked something when somebody was chosen for it, and takes from those above their share or from itself.
void SwapChecks::BeforeMoves(const Scheduler& scheduler, bool victim_pays) {
  for (const PlanSwapOut& out : scheduler.swap_outs()) {
    const auto known = known_.find(out.id);
    // Where the plan had no rows it is seen only after this.
    if (!out.begins || known == known_.end() || known->second.place != KvPlace::kLeaving) continue;
    const int32_t payer = victim_pays ? scheduler.sequence(out.sequence).request.tenant : out.payer;
    const std::vector<int32_t>& tenants = known->second.for_whom;
    if (std::find(tenants.begin(), tenants.end(), payer) != tenants.end()) continue;
    failure_.Set("request ", out.id, " steps aside at the cost of tenant ", payer, ", which lacked nothing");
  }
}

// As far as that can be said of a head of line without asking the scheduler: it goes on from no session and waits for nobody's
// prompt, its tenant stays within its share with it and has nobody outside, and is not served before the others.
bool SwapChecks::IsDue(const Scheduler& scheduler, int32_t index) const {
  const Tenant& tenant = scheduler.tenant(index);
  if (tenant.queue.empty() || workload_.core().scheduler.policy != SchedulingPolicy::kFair) return false;
  const Request& asked = scheduler.sequence(tenant.queue.front()).request;
  if (asked.session != 0 || MayAwaitPrefix(scheduler, asked) || HasOutside(scheduler, index)) return false;
  const int64_t blocks = FirstBlocks(asked);
  const int32_t cap = workload_.tenants()[static_cast<size_t>(index)].blocks_max;
  if (cap > 0 && ClaimedBlocks(scheduler, tenant) + blocks > cap) return false;
  for (const Tenant& other : scheduler.tenants()) {
    if (other.waits() && tenant.turn() > other.turn()) return false;
  }
  if (!RowIsFree(scheduler, index) && !WithinShareOfRows(scheduler, index, 1)) return false;
  return WithinShareOfPool(workload_, scheduler, index, blocks) && HasPlace(scheduler, asked);
}

int32_t SwapChecks::RowsOf(const Scheduler& scheduler, int32_t tenant) {
  const std::span<const int32_t> running = scheduler.running_sequences();
  return static_cast<int32_t>(std::count_if(running.begin(), running.end(), [&](int32_t index) {
    const Sequence& sequence = scheduler.sequence(index);
    return sequence.place != KvPlace::kOutside && (tenant < 0 || sequence.request.tenant == tenant);
  }));
}

bool SwapChecks::RowIsFree(const Scheduler& scheduler, int32_t tenant) const {
  int32_t free = workload_.core().scheduler.sequences_max - RowsOf(scheduler, -1);
  for (int32_t i = 0; i < std::ssize(scheduler.tenants()); ++i) {
    free -= i != tenant && scheduler.tenant(i).running > 0 && RowsOf(scheduler, i) == 0 ? 1 : 0;
  }
  return free > 0;
}

bool SwapChecks::WithinShareOfRows(const Scheduler& scheduler, int32_t tenant, int32_t more) const {
  double weights = 0;
  for (size_t i = 0; i < workload_.tenants().size(); ++i) {
    const Tenant& each = scheduler.tenant(static_cast<int32_t>(i));
    if (each.running > 0 || !each.queue.empty()) weights += workload_.tenants()[i].weight;
  }
  const int32_t rows = RowsOf(scheduler, tenant) + more;
  const double weight = workload_.tenants()[static_cast<size_t>(tenant)].weight;
  return rows <= 1 || rows * weights <= workload_.core().scheduler.sequences_max * weight;
}

int64_t SwapChecks::FirstBlocks(const Request& asked) {
  const int32_t first = std::min(asked.max_tokens, kBlockSlots + 1);
  return BlocksForSlots(PeakSlotsFrom(0, 0, static_cast<int32_t>(asked.prompt.size()), first, asked.budget));
}

// Floors and caps aside, with as much again as a margin: beside what those in progress may come to hold.
bool SwapChecks::HasPlace(const Scheduler& scheduler, const Request& asked) const {
  const SchedulerOptions& options = workload_.core().scheduler;
  if (workload_.has_floors() || workload_.tenants()[static_cast<size_t>(asked.tenant)].blocks_max > 0) return false;
  const auto prompt = static_cast<int32_t>(asked.prompt.size());
  int64_t peaks = std::max(PeakBlocks(prompt, asked.max_tokens, asked.budget),
                           PeakBlocksShared(prompt, asked.max_tokens, asked.budget));
  int64_t largest = peaks;
  for (int32_t index : scheduler.running_sequences()) {
    peaks += scheduler.sequence(index).peak_blocks;
    largest = std::max<int64_t>(largest, scheduler.sequence(index).peak_blocks);
  }
  if (scheduler.running() >= options.sequences_max && peaks > options.swap_blocks_max) return false;
  return peaks + largest - 1 <= options.blocks + options.swap_blocks_max;
}

// Whether a sequence could step aside now, if its tenant gives it.
bool SwapChecks::MayLeave(const Scheduler& scheduler, const Sequence& sequence) const {
  const SimRequest& request = *requests_[sequence.request.id - 1];
  const auto known = known_.find(request.id());
  const int32_t came_back_at = known == known_.end() ? -1 : known->second.came_back_at;
  const bool rested = came_back_at < 0 || sequence.scheduled - came_back_at >= kTokensBetween + 2;
  const int64_t room = workload_.core().scheduler.swap_blocks_max - scheduler.swapping().blocks();
  return sequence.in_pool() && !sequence.retired() && !request.cancelled && sequence.live > 0 && rested &&
         sequence.to_restore == 0 && request.id() != anchor_ && BlocksForSlots(sequence.live) <= room &&
         !sequence.shares && sequence.decodes() && sequence.steps_after_next() > 1;
}

// It has had so many tokens since it was let in or came back that it makes room for another one's return.
bool SwapChecks::IsRested(const Sequence& sequence) const {
  const auto known = known_.find(sequence.request.id);
  if (known == known_.end()) return false;
  const int32_t since = known->second.came_back_at < 0 ? sequence.prompt_length() : known->second.came_back_at;
  return sequence.scheduled - since >= (kTokensBetween << std::min(known->second.swaps, 2)) + 2;
}

// Who is outside comes back: after its patience those of its tenant make room that have rested, if they can. With one tenant, to
// whom nobody's floor is in the way.
void SwapChecks::CheckOutside(const Scheduler& scheduler) {
  const SchedulerOptions& options = workload_.core().scheduler;
  const bool still = !scheduler.moving() && scheduler.shrinks_for() == 0;
  for (int32_t index : scheduler.running_sequences()) {
    const Sequence& sequence = scheduler.sequence(index);
    Known& known = known_[sequence.request.id];
    const bool waits = sequence.place == KvPlace::kOutside && !requests_[sequence.request.id - 1]->paused &&
                       !sequence.retired() && !requests_[sequence.request.id - 1]->cancelled;
    known.outside_plans = waits ? known.outside_plans + 1 : 0;
    known.outside_all = sequence.place == KvPlace::kOutside ? known.outside_all + 1 : 0;
    outside_max_ = std::max(outside_max_, known.outside_plans);
    swaps_max_ = std::max(swaps_max_, known.swaps);
    int32_t rows = RowIsFree(scheduler, sequence.request.tenant) ? 1 : 0;
    int64_t gain = scheduler.block_manager().pool().available() - scheduler.block_manager().promised();
    int64_t room = options.swap_blocks_max - scheduler.swapping().blocks();
    for (int32_t other : scheduler.running_sequences()) {
      const Sequence& one = scheduler.sequence(other);
      const bool makes_room =
          one.request.tenant == sequence.request.tenant && IsRested(one) && MayLeave(scheduler, one);
      if (!makes_room || BlocksForSlots(one.live) > room) continue;
      gain += one.blocks.reserved();
      ++rows;
      room -= BlocksForSlots(one.live);
    }
    // If it is the one that was chosen first.
    const bool first = std::none_of(known_.begin(), known_.end(), [&](const auto& other) {
      return &other.second != &known && other.second.chosen_as <= known.chosen_as &&
             other.second.place == KvPlace::kOutside;
    });
    const bool alone =
        first && sequence.decodes() && scheduler.tenants().size() == 1 && workload_.tenants()[0].blocks_max == 0;
    const bool could =
        waits && still && alone && rows > 0 && gain >= BlocksForSlots(sequence.live + kTokensBetween + 2);
    known.could_return = could            ? known.could_return + 1
                         : waits && still ? 0
                                          : std::min<int64_t>(known.could_return, known.outside_plans);
    if (known.could_return <= options.swap_patience + kWaitsMore + kPlansToFall) continue;
    failure_.Set("request ", sequence.request.id, " has been outside for ", known.outside_plans,
                 " plans, and nobody steps aside for its return");
  }
}

// A tenant within its share waits for nobody outside, and for those above their share only as long as it may, and nobody of them
// may step aside.
void SwapChecks::CheckWaits(const Scheduler& scheduler) {
  const SchedulerOptions& options = workload_.core().scheduler;
  due_.resize(scheduler.tenants().size());
  const BlockManager& blocks = scheduler.block_manager();
  const int64_t free = blocks.pool().available() - blocks.promised();
  const std::span<const int32_t> running = scheduler.running_sequences();
  const bool somebody_may_leave = std::any_of(running.begin(), running.end(), [&](int32_t index) {
    const Sequence& sequence = scheduler.sequence(index);
    return !WithinShareOfPool(workload_, scheduler, sequence.request.tenant, 0) && MayLeave(scheduler, sequence);
  });
  const bool some_row_may_leave = std::any_of(running.begin(), running.end(), [&](int32_t index) {
    const Sequence& sequence = scheduler.sequence(index);
    return !WithinShareOfRows(scheduler, sequence.request.tenant, 0) && MayLeave(scheduler, sequence);
  });
  const bool still = !scheduler.moving() && !scheduler.admission_paused() && scheduler.admitted().empty() &&
                     scheduler.shrinks_for() == 0 && !scheduler.swapping().somebody_misses();
  for (int32_t i = 0; i < std::ssize(scheduler.tenants()); ++i) {
    Due& due = due_[static_cast<size_t>(i)];
    const bool is_due = IsDue(scheduler, i);
    const Sequence* head = is_due ? &scheduler.sequence(scheduler.tenant(i).queue.front()) : nullptr;
    if (!is_due || due.head != head->request.id || !still)
      due = {.head = is_due ? head->request.id : 0, .plans = still ? 0 : due.plans};
    if (!is_due) continue;
    due_heads_ += ++due.plans == 2 ? 1 : 0;
    due_plans_max_ = std::max(due_plans_max_, due.plans);
    const bool has_row = RowIsFree(scheduler, i);
    row_waits_ += has_row ? 0 : 1;
    const int64_t missing = FirstBlocks(head->request) + scheduler.running() - free;
    due.fits = has_row && missing <= 0 ? due.fits + 1 : 0;
    const bool comes = (has_row || some_row_may_leave) && (missing <= 0 || somebody_may_leave);
    due.makes_room = comes && (!has_row || missing > 0) ? due.makes_room + 1 : 0;
    if (due.fits > options.swap_patience + kWaitsMore || due.makes_room > options.swap_patience + kWaitsMore) {
      failure_.Set("request ", head->request.id, " of tenant ", i, ", within its share, has waited for ", due.plans,
                   " plans, ", due.fits > 0 ? "and there is room" : "and nobody steps aside for it");
    }
  }
}

void SwapChecks::CheckAdmitted(const Scheduler& scheduler) {
  const bool somebody_waits =
      std::any_of(scheduler.running_sequences().begin(), scheduler.running_sequences().end(), [&](int32_t index) {
        const Sequence& sequence = scheduler.sequence(index);
        // For a head of line somebody is chosen when the others were let in.
        return IsAside(sequence.place) && WasAside(sequence.request.id) &&
               !requests_[sequence.request.id - 1]->paused && !sequence.retired();
      });
  if (!somebody_waits) return;
  admission_checks_ += scheduler.waiting() > 0 ? 1 : 0;
  // Somebody may have been chosen for a head of line when the others were let in, of the tenant of one of them.
  const std::span<const Tenant> tenants = scheduler.tenants();
  const bool room_made = std::any_of(tenants.begin(), tenants.end(), [&](const Tenant& tenant) {
    return tenant.waits() && scheduler.sequence(tenant.queue.front()).given_room > 0;
  });
  for (int32_t index : scheduler.running_sequences()) {
    const uint64_t id = scheduler.sequence(index).request.id;
    const std::span<const uint64_t> admitted = scheduler.admitted();
    if (std::find(admitted.begin(), admitted.end(), id) == admitted.end()) continue;
    const Tenant& tenant = scheduler.tenant(requests_[id - 1]->request.request.tenant);
    const bool seen_before = known_.contains(id);  // a plan ahead lets nobody in
    // Those that run may have grown by a block for it.
    const bool within_floor = tenant.claimed() - tenant.running <= tenant.options.floor_blocks;
    if (seen_before || scheduler.sequence(index).given_room > 0 || (within_floor && tenant.options.floor_blocks > 0))
      continue;
    // Within its share, and with nobody outside, a tenant does not wait for others.
    const int32_t own = requests_[id - 1]->request.request.tenant;
    const bool within_share = WithinShareOfPool(workload_, scheduler, own, -tenant.running);
    const bool has_outside = HasOutside(scheduler, own, /*before=*/room_made);
    if (scheduler.tenants().size() > 1 && !has_outside && within_share) {
      ++passed_;
      continue;
    }
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
    KvBudget agreed = sequence.request.budget;
    agreed.floor = asked.floor;
    const LowerBudgets lower = LowerBudgetsOf(agreed);
    if (lower.count == 0) continue;
    const KvBudget least = agreed.Lowered(lower.keep_max - (lower.count - 1) * kBlockSlots);
    const int64_t needs =
        BlocksForSlots(least.PeakSlots(std::min(sequence.live + 1, least.keep), sequence.steps_after_next()));
    gives += std::max<int64_t>(0, sequence.blocks.reserved() - needs);
  }
  return gives;
}

// With one tenant, which gives all that it can to itself. Nobody steps aside as long as budgets may fall by all that those that
// run lack for their next block, and the one that was never to step aside for its return.
void SwapChecks::CheckBudgetsFirst(const Scheduler& scheduler) {
  // Its own cap is no shortage: no budget falls for it.
  if (scheduler.tenants().size() > 1 || workload_.tenants()[0].blocks_max > 0) return;
  int64_t lack = 0;
  for (int32_t index : scheduler.running_sequences()) {
    const Sequence& sequence = scheduler.sequence(index);
    const auto known = known_.find(sequence.request.id);
    const bool overdue =
        known != known_.end() && known->second.outside_all + 1 >= workload_.core().scheduler.swap_patience;
    const bool returns = sequence.place == KvPlace::kOutside && (overdue || index == scheduler.swapping().anchor());
    // Budgets win no row, and it may have been chosen for that.
    if (returns && !RowIsFree(scheduler, sequence.request.tenant)) return;
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
  if (scheduler.running() > options.sequences_max && peaks > options.swap_blocks_max) {
    failure_.Set(scheduler.running(), " are in progress with ", options.sequences_max, " rows, and may come to hold ",
                 peaks, " blocks: there are ", options.swap_blocks_max, " outside");
  }
  if (peaks <= options.blocks || peaks + largest - 1 <= options.blocks + options.swap_blocks_max) return;
  failure_.Set("those in progress may come to hold ", peaks, " blocks, one of them ", largest, ": there are ",
               options.blocks, " and ", options.swap_blocks_max, " outside");
}

// Who is going to need blocks asks for them some tokens before, so where a step may move whatever there is, somebody else's swap
// leaves a gap of two steps at most in a stream that stays. Waiting for budgets to fall is no swap, nor is it where blocks are free that
// are kept for floors: CheckFloors.
void SwapChecks::CheckHeldUp(const Scheduler& scheduler, const Sequence& sequence, Known& known) {
  const auto moves = [](const Sequence& other) {
    return other.place == KvPlace::kLeaving || other.place == KvPlace::kReturning;
  };
  const std::span<const int32_t> running = scheduler.running_sequences();
  const bool somebody_moves =
      std::any_of(running.begin(), running.end(), [&](int32_t index) { return moves(scheduler.sequence(index)); });
  const bool waits =
      sequence.would_continue() && sequence.in_pool() && !sequence.has_slot() && !scheduler.block_manager().CanAdmit(1);
  const bool counts = waits && somebody_moves && !moves_limited_ && scheduler.shrinks_for() == 0;
  known.held_up = counts ? known.held_up + 1 : 0;
  held_up_ += known.held_up == 1 ? 1 : 0;
  held_up_max_ = std::max(held_up_max_, known.held_up);
  if (known.held_up <= kHeldUpMax) return;
  failure_.Set("request ", sequence.request.id, " waits for others' swaps for ", known.held_up, " steps");
}

// Who runs leaves blocks for floors as long as all that it may come to hold fits beside them, and for a head of line for which room was
// made. Else it has its next slot if any block is free, so nobody waits for others' floors for ever, whatever is let in within them.
void SwapChecks::CheckFloors(const Scheduler& scheduler, const Sequence& sequence) {
  const int32_t index = sequence.request.tenant;
  const Tenant& tenant = scheduler.tenant(index);
  const SimRequest& request = *requests_[sequence.request.id - 1];
  const bool room_made = std::any_of(scheduler.tenants().begin(), scheduler.tenants().end(), [&](const Tenant& other) {
    return other.waits() && scheduler.sequence(other.queue.front()).given_room > 0;
  });
  const int32_t cap = workload_.tenants()[static_cast<size_t>(index)].blocks_max;
  const bool capped = cap > 0 && ClaimedBlocks(scheduler, tenant) + 1 > cap;
  const bool goes_on = sequence.decodes() && !sequence.retired() && sequence.steps_after_next() >= 0;
  const bool waits = goes_on && sequence.in_pool() && !sequence.has_slot() && !request.paused && !request.cancelled;
  if (!waits || capped || room_made || sequence.peak_blocks <= BesideFloors(index)) return;
  ++floor_waits_;
  if (!scheduler.block_manager().CanAdmit(1)) return;
  failure_.Set("request ", request.id(), " waits while blocks are free, with a peak of ", sequence.peak_blocks,
               " and room for ", BesideFloors(index), " beside the floors of others");
}

int64_t SwapChecks::BesideFloors(int32_t tenant) const {
  int64_t blocks = workload_.core().scheduler.blocks;
  for (size_t i = 0; i < workload_.tenants().size(); ++i) {
    blocks -= static_cast<int32_t>(i) == tenant ? 0 : workload_.tenants()[i].floor_blocks;
  }
  return blocks;
}

void SwapChecks::AfterPlan(const Scheduler& scheduler, bool as_planned) {
  due_.resize(scheduler.tenants().size());
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
    if (left && was_in) {
      CheckChosen(sequence, known);
      ++known.swaps;
      known.chosen_as = scheduler.plan().number;
      if (as_planned) CheckShares(scheduler, sequence);
      known.for_whom.clear();
      for (int32_t i = 0; i < std::ssize(scheduler.tenants()); ++i) {
        // Afterwards, or when budgets have fallen, nobody can say who lacked something then.
        if (!as_planned || scheduler.shrinks_for() != 0 || Lacks(scheduler, i)) known.for_whom.push_back(i);
      }
    }
    chosen_now |= left && was_in;
    CheckHeldUp(scheduler, sequence, known);
    if (as_planned) CheckFloors(scheduler, sequence);
    known.gives_plans = MayGive(sequence, *requests_[sequence.request.id - 1]) ? known.gives_plans + 1 : 0;
    if (!left && !was_in) known.came_back_at = requests_[sequence.request.id - 1]->computed;
    known.place = sequence.place;
    now[sequence.request.id] = known;
  }
  if (chosen_now && as_planned) CheckBudgetsFirst(scheduler);
  known_ = std::move(now);
  if (!failure_.any()) CheckWaits(scheduler);
  if (!failure_.any()) CheckOutside(scheduler);
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
