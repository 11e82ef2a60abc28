// The part of Swapping that says who asks for blocks, in which order, and who steps aside for it.
#include <algorithm>
#include <utility>

#include "scheduler/swapping.h"

namespace hydrant {
namespace {

// Plans in a row in which somebody who misses blocks waits for budgets to fall: one asks what that costs, with the next they
// fall. The third is for those that had no row in the first. By then who asked in time has no slot left.
constexpr int32_t kBudgetWaits = 3;

}  // namespace

// Outside for so long that it asks for its return.
bool Swapping::IsOverdue(const Aside& aside) const {
  return aside.sequence >= 0 && of(aside).place == KvPlace::kOutside && !of(aside).paused && !of(aside).retired() &&
         plan_ >= aside.asks_at;
}

// Turns change with every token, so an anchor that followed them would be safe for a step alone. Whoever is behind with
// reading does not advance, and holds nobody up.
int32_t Swapping::FindAnchor() const {
  const auto advances = [this](int32_t index) {
    const Sequence& sequence = sequences_.at(index);
    return !sequence.waiting() && !sequence.paused && !sequence.retired();
  };
  if (anchor_id_ != 0) {
    const int32_t index = sequences_.Find(anchor_id_);
    const bool is_over =
        index < 0 || sequences_.at(index).scheduled - anchor_since_ >= kTenure * static_cast<int64_t>(patience_);
    if (index >= 0 && advances(index) && !is_over) return index;
    // The first of these has been outside longest.
    const Aside* next = nullptr;
    for (const Aside& aside : asides_) {
      if (index < 0 || !is_over || !IsOverdue(aside)) continue;
      if (next == nullptr || tenants_.of(of(aside)).turn() < tenants_.of(of(*next)).turn()) next = &aside;
    }
    if (next != nullptr) return next->sequence;
    if (index >= 0 && advances(index)) return index;
  }
  int32_t anchor = -1;
  for (int32_t index : sequences_.running()) {
    if (!advances(index)) continue;
    // running() has the oldest first.
    if (anchor < 0 || tenants_.of(sequences_.at(index)).turn() < tenants_.of(sequences_.at(anchor)).turn()) {
      anchor = index;
    }
  }
  return anchor;
}

void Swapping::PlanGrowth() {
  if (!on()) return;
  missing_.assign(static_cast<size_t>(tenants_.size()), 0);
  missing_all_ = 0;
  missing_rows_ = 0;
  askers_.clear();
  if (anchor_ >= 0) Ask(anchor_);
  AskForReturns();
  for (int32_t index : sequences_.running()) {
    if (index != anchor_) Ask(index);
  }
  short_ = std::any_of(askers_.begin(), askers_.end(), [](const Asker& asker) { return asker.blocks > 0; });
  AwaitBudgets();
  for (const Asker& asker : askers_) {
    const Sequence& sequence = sequences_.at(asker.sequence);
    const bool waits = awaits_budgets_.tenant == &tenants_.at(asker.tenant) && !asker.own_alone && asker.blocks > 0;
    // Its own budget may be one of those that fall, for whomever, and then it misses nothing.
    const bool may_fall = awaits_budgets_.tenant != nullptr && sequence.losses_step + 1 == plan_;
    const bool leaves = sequence.place == KvPlace::kLeaving;  // for one that asked before
    if (waits || may_fall || leaves || MakeRoom(asker) || !asker.rotates) continue;
    FindAside(asker.sequence)->again_at = plan_ + kAskAgain;
  }
}

// In the order in which they left; of a tenant's the first alone has others make room for it. Before those that grow, for what
// became free for one would be theirs else.
void Swapping::AskForReturns() {
  settled_.assign(static_cast<size_t>(tenants_.size()), 0);
  for (Aside& aside : asides_) {
    if (!IsOverdue(aside) || aside.sequence == anchor_) continue;
    const Sequence& sequence = of(aside);
    const Tenant& tenant = tenants_.of(sequence);
    char& settled = settled_[static_cast<size_t>(sequence.request.tenant)];
    if (std::exchange(settled, 1) != 0 || plan_ < aside.again_at || Return(aside.sequence)) continue;
    const int64_t need = ReturnNeed(sequence);
    int64_t free = block_manager_.pool().available() - block_manager_.promised();
    for (const Tenant& each : tenants_.all()) free -= &each == &tenant ? 0 : each.unused_floor();
    const bool own_alone = CapHoldsBack(sequence, need);
    const int64_t missing = own_alone ? need : std::max<int64_t>(1, need - std::max<int64_t>(0, free));
    askers_.push_back({.tenant = sequence.request.tenant,
                       .sequence = aside.sequence,
                       .claims = need,
                       .blocks = MayTake(sequence, need) ? 0 : missing,
                       .own_alone = own_alone,
                       .rotates = true,
                       .row = !FindsRow(sequence)});
  }
}

// Whether budgets may fall for the tenant that was the first to ask in vain, by all that its sequences miss. Who of them has to
// have others step aside is seen when they have fallen.
void Swapping::AwaitBudgets() {
  if (elastic_.lowers_for() != 0) budget_waits_ = 0;
  awaits_budgets_ = Blocked();
  const auto first = std::find_if(askers_.begin(), askers_.end(),
                                  [](const Asker& asker) { return !asker.own_alone && asker.blocks > 0; });
  if (first == askers_.end()) {
    budget_waits_ = 0;
    return;
  }
  const Tenant& tenant = tenants_.at(first->tenant);
  int64_t missing = -Leaving(-1);
  int64_t claims = 0;
  for (const Asker& asker : askers_) {
    if (asker.tenant != first->tenant || asker.own_alone || asker.blocks == 0) continue;
    missing += asker.blocks;
    claims += asker.claims;
  }
  if (missing <= 0 || budget_waits_ == kBudgetWaits) {
    budget_waits_ = 0;
    return;
  }
  const bool over_share = tenants_.fair() && !WithinShare(tenant, tenant.claimed() + claims,
                                                          WeightsInUse(tenants_.all()), block_manager_.pool().total());
  const Blocked blocked = {&tenant, missing, over_share, {}};
  if (!elastic_.CanGain(blocked)) return;
  awaits_budgets_ = blocked;
  awaits_budgets_for_ = sequences_.at(first->sequence).request.id;
  ++budget_waits_;
}

void Swapping::Ask(int32_t index) {
  Sequence& sequence = sequences_.at(index);
  if (index == anchor_ && sequence.place == KvPlace::kOutside) {
    const int64_t need = ReturnNeed(sequence);
    if (!Return(index)) Miss(index, MayTake(sequence, need) ? 0 : need, !FindsRow(sequence));
    return;
  }
  if (!sequence.in_pool() || !sequence.would_continue()) return;
  const int64_t wish = Wish(sequence);
  if (wish > sequence.blocks.reserved() && !Reserve(sequence, wish)) {
    Miss(index, wish - sequence.blocks.reserved(), /*row=*/false);
  }
}

bool Swapping::GrowAhead(uint64_t plan) {
  if (!on()) return true;
  plan_ = plan;
  if (moving()) return false;
  CountOverlaps();
  for (const Aside& aside : asides_) {
    if (aside.sequence < 0 || of(aside).paused) continue;
    const Sequence& sequence = of(aside);
    const bool finds_room = FindsRow(sequence) && MayTake(sequence, ReturnNeed(sequence));
    if (plan >= std::max(aside.asks_at, aside.again_at) || finds_room) return false;
  }
  for (int32_t index : sequences_.running()) {
    Sequence& sequence = sequences_.at(index);
    if (!sequence.in_pool() || !sequence.would_continue()) continue;
    const int64_t wish = Wish(sequence);
    if (wish > sequence.blocks.reserved() && !Reserve(sequence, wish)) return false;
  }
  return true;
}

// Blocks that become free because somebody was chosen: of one tenant, or of all (-1).
int64_t Swapping::Leaving(int32_t tenant) const {
  int64_t blocks = 0;
  for (const Aside& aside : asides_) {
    if (aside.sequence < 0 || of(aside).place != KvPlace::kLeaving) continue;
    if (tenant < 0 || of(aside).request.tenant == tenant) blocks += aside.gain;
  }
  return blocks;
}

// These, and those that become free in any case.
int64_t Swapping::Coming(int32_t tenant) const {
  int64_t blocks = Leaving(tenant);
  for (int32_t i = 0; i < tenants_.size(); ++i) blocks += tenant < 0 || tenant == i ? parking_.ReservedOf(i) : 0;
  for (int32_t index : sequences_.running()) {
    const Sequence& sequence = sequences_.at(index);
    const bool counts = tenant < 0 || sequence.request.tenant == tenant;
    if (counts && Victims::EndsSoon(sequence)) blocks += sequence.blocks.reserved();
  }
  return blocks;
}

// State rows that become free in any case.
int32_t Swapping::RowsComing() const {
  const std::span<const int32_t> running = sequences_.running();
  return static_cast<int32_t>(std::count_if(running.begin(), running.end(), [this](int32_t index) {
    const Sequence& sequence = sequences_.at(index);
    return sequence.place == KvPlace::kLeaving || Victims::EndsSoon(sequence);
  }));
}

void Swapping::Miss(int32_t index, int64_t blocks, bool row) {
  const Sequence& sequence = sequences_.at(index);
  askers_.push_back({.tenant = sequence.request.tenant,
                     .sequence = index,
                     .claims = blocks,
                     .blocks = blocks,
                     .own_alone = CapHoldsBack(sequence, blocks),
                     .row = row});
}

// There are too few blocks for the asker, or no row: others step aside, or it does. False: not as many as it needs.
bool Swapping::MakeRoom(const Asker& asker) {
  if (asker.blocks <= 0) return !asker.row || MakeRow(asker);
  int64_t& missing = asker.own_alone ? missing_[static_cast<size_t>(asker.tenant)] : missing_all_;
  missing += asker.blocks;
  while (Coming(asker.own_alone ? asker.tenant : -1) < missing) {
    const int32_t victim = victims_.Choose(asker, anchor_, blocks_max_ - blocks_);
    if (victim < 0 || !SetAside(victim, asker)) {
      // Who comes back later has no claim to what those need that run.
      if (asker.rotates) missing -= asker.blocks;
      return false;
    }
    if (victim == asker.sequence) {
      missing -= asker.blocks;
      return true;
    }
  }
  return !asker.row || MakeRow(asker);
}

// Each that leaves gives its row as well.
bool Swapping::MakeRow(const Asker& asker) {
  ++missing_rows_;
  while (RowsComing() < missing_rows_) {
    const int32_t victim = victims_.ChooseForRow(asker, anchor_, blocks_max_ - blocks_);
    if (victim < 0 || !SetAside(victim, asker)) {
      --missing_rows_;
      return false;
    }
  }
  return true;
}

bool Swapping::MakeRoomForHead(int32_t tenant, int64_t blocks, int64_t missing, bool row) {
  const bool made = MakeRoom({.tenant = tenant, .blocks = missing, .others_alone = true, .row = row});
  if ((missing > 0 && Coming(-1) < missing_all_) || (row && !made)) return false;
  kept_tenant_ = tenant;
  kept_blocks_ = blocks;
  kept_row_ = row;
  return true;
}

}  // namespace hydrant
