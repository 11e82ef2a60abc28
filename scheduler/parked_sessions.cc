#include "scheduler/parked_sessions.h"

#include <cassert>
#include <iterator>
#include <limits>
#include <utility>

#include "block_manager/kv_budget.h"
#include "scheduler/fairness/over_share.h"

namespace hydrant {

const ParkedCounts* ParkedSessions::Find(const TurnId& id) const {
  const auto found = turns_.find(id);
  return found == turns_.end() ? nullptr : &found->second.kv;
}

const ParkedCounts* ParkedSessions::Newest(uint64_t session) const {
  const auto behind = turns_.upper_bound(TurnId{session, std::numeric_limits<uint64_t>::max()});
  if (behind == turns_.begin()) return nullptr;
  const auto newest = std::prev(behind);
  return IsOf(newest, session) ? &newest->second.kv : nullptr;
}

bool ParkedSessions::Put(const ParkedCounts& kv, WeightOf weight_of) {
  const int64_t blocks = BlocksForSlots(kv.live);
  if (pinned_blocks_ + blocks > blocks_max_) return false;
  // What takes memory comes first. Every turn has its place in dropped_, so that Drop takes none.
  const size_t places = dropped_.size() + turns_.size() + 1;
  if (dropped_.capacity() < places) dropped_.reserve(2 * places);
  if (tenants_.size() <= static_cast<size_t>(kv.tenant)) tenants_.resize(static_cast<size_t>(kv.tenant) + 1);
  ByUse listed;
  listed.emplace(uses_ + 1, kv.id);
  Turns added;
  added[kv.id].kv = kv;
  std::vector<TurnId> victims;
  if (!FindRoom(kv, weight_of, &victims)) return false;
  for (const TurnId& victim : victims) {
    Drop(victim);
    if (victim.session != kv.id.session && Newest(victim.session) == nullptr) ++lost_;
  }
  if (Newest(kv.id.session) == nullptr) ++sessions_;
  Entry& entry = turns_.insert(added.extract(kv.id)).position->second;
  entry.used = ++uses_;
  blocks_ += blocks;
  Tenant& tenant = tenant_of(entry);
  tenant.blocks += blocks;
  tenant.by_use.insert(listed.extract(entry.used));
  return true;
}

bool ParkedSessions::Adopt(const ParkedCounts& kv, WeightOf weight_of) {
  if (Find(kv.id) != nullptr) return true;
  const ParkedCounts* newest = Newest(kv.id.session);
  if (newest != nullptr && (kv.id < newest->id || newest->tenant != kv.tenant)) return false;
  if (!Put(kv, weight_of)) return false;
  std::erase(dropped_, kv.id);
  return true;
}

// Which turns have to go for this one. False: one of them is pinned, or it would be others' for a tenant that has more than they have.
// REQUIRES: there is enough without a pin.
bool ParkedSessions::FindRoom(const ParkedCounts& kv, WeightOf weight_of, std::vector<TurnId>* victims) const {
  struct Left {
    int64_t blocks;
    ByUse::const_iterator next, end;
  };
  std::vector<Left> tenants;
  tenants.reserve(tenants_.size());
  for (const Tenant& tenant : tenants_) tenants.push_back({tenant.blocks, tenant.by_use.begin(), tenant.by_use.end()});
  // The tenant that parks is judged by what it is about to hold.
  Left& own = tenants[static_cast<size_t>(kv.tenant)];
  own.blocks += BlocksForSlots(kv.live);
  int64_t all = blocks_ + BlocksForSlots(kv.live);
  const auto take = [&](const TurnId& id, Left* from) {
    const int64_t blocks = BlocksForSlots(turns_.at(id).kv.live);
    from->blocks -= blocks;
    all -= blocks;
    victims->push_back(id);
  };
  if (const ParkedCounts* newest = Newest(kv.id.session); newest != nullptr) {
    assert(newest->id < kv.id && newest->tenant == kv.tenant);
    const auto oldest = turns_.lower_bound(TurnId{kv.id.session, 0});
    if (oldest->first < newest->id) {
      // Nobody has said which of the two stays. The newer one does, as it most often would.
      if (oldest->second.pins > 0) return false;
      take(oldest->first, &own);
    }
    if (all > blocks_max_ && turns_.at(newest->id).pins == 0) take(newest->id, &own);
  }
  const auto held_of = [&](const Left& left) {
    return ShareHeld{left.blocks, weight_of(static_cast<int32_t>(&left - tenants.data())), left.next != left.end};
  };
  while (all > blocks_max_) {
    while (own.next != own.end && own.next->second.session == kv.id.session) ++own.next;  // gone
    Left* loser = WhoLoses(tenants, &own, held_of);
    if (loser == nullptr) return false;
    take((loser->next++)->second, loser);
  }
  return true;
}

void ParkedSessions::Settle(const TurnId& id, bool keep) {
  if (!keep) return Drop(id);
  for (auto turn = OldestOf(id.session); IsOf(turn, id.session) && turn->first < id;) {
    const TurnId earlier = (turn++)->first;
    Drop(earlier);
  }
}

bool ParkedSessions::CanPin(const TurnId& id, int64_t blocks_max) const {
  const auto found = turns_.find(id);
  assert(found != turns_.end());
  const Entry& entry = found->second;
  const Tenant& tenant = tenants_[static_cast<size_t>(entry.kv.tenant)];
  const int64_t blocks = BlocksForSlots(entry.kv.live);
  if (entry.pins > 0 || tenant.pinned_blocks + blocks <= blocks_max) return true;
  const bool leaves_room = blocks <= blocks_max_ - pinned_blocks_ - blocks || tenant.blocks == blocks_;
  return tenant.pinned_blocks == 0 && leaves_room;
}

void ParkedSessions::CountPinned(const Entry& entry, int64_t blocks) {
  pinned_blocks_ += blocks;
  tenant_of(entry).pinned_blocks += blocks;
}

void ParkedSessions::Pin(const TurnId& id) {
  const auto found = turns_.find(id);
  assert(found != turns_.end());
  Entry& entry = found->second;
  if (++entry.pins > 1) return;
  CountPinned(entry, BlocksForSlots(entry.kv.live));
  entry.unlisted = tenant_of(entry).by_use.extract(entry.used);
}

void ParkedSessions::Unpin(const TurnId& id) {
  const auto found = turns_.find(id);
  assert(found != turns_.end() && found->second.pins > 0);
  Entry& entry = found->second;
  if (--entry.pins > 0) return;
  CountPinned(entry, -BlocksForSlots(entry.kv.live));
  entry.unlisted.key() = entry.used;
  tenant_of(entry).by_use.insert(std::move(entry.unlisted));
  if (entry.doomed) Drop(id);
}

void ParkedSessions::Use(const TurnId& id) {
  const auto found = turns_.find(id);
  assert(found != turns_.end());
  Entry& entry = found->second;
  Tenant& tenant = tenant_of(entry);
  ByUse::node_type listed = tenant.by_use.extract(entry.used);
  entry.used = ++uses_;
  if (listed.empty()) return;
  listed.key() = entry.used;
  tenant.by_use.insert(std::move(listed));
}

void ParkedSessions::Drop(const TurnId& id) {
  const auto found = turns_.find(id);
  if (found == turns_.end()) return;
  Entry& entry = found->second;
  if (entry.pins > 0) {
    entry.doomed = true;
    return;
  }
  dropped_.push_back(entry.kv.id);
  const int64_t blocks = BlocksForSlots(entry.kv.live);
  blocks_ -= blocks;
  Tenant& tenant = tenant_of(entry);
  tenant.blocks -= blocks;
  tenant.by_use.erase(entry.used);
  turns_.erase(found);
  if (Newest(dropped_.back().session) == nullptr) --sessions_;
}

void ParkedSessions::Lose(const TurnId& id) {
  Drop(id);
  assert(Find(id) == nullptr);
  ++lost_;
}

void ParkedSessions::DropSession(uint64_t session) {
  for (auto turn = OldestOf(session); IsOf(turn, session);) {
    const TurnId id = (turn++)->first;
    Drop(id);
  }
}

}  // namespace hydrant
