#include "scheduler/parked_sessions.h"

#include <cassert>
#include <iterator>
#include <limits>
#include <utility>

#include "block_manager/kv_budget.h"

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
  if (const ParkedCounts* newest = Newest(kv.id.session); newest != nullptr) {
    assert(newest->id < kv.id && newest->tenant == kv.tenant);
    const auto oldest = OldestOf(kv.id.session);
    if (oldest->first < newest->id) {
      // Nobody has said which of the two stays. The newer one does, as it most often would.
      if (oldest->second.pins > 0) return false;
      Drop(oldest->first);
    }
  }
  MakeRoom(blocks, kv, weight_of);
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

// REQUIRES: there is enough without a pin, and the session has one turn at most.
void ParkedSessions::MakeRoom(int64_t blocks, const ParkedCounts& kv, WeightOf weight_of) {
  if (blocks_ + blocks <= blocks_max_) return;
  if (const ParkedCounts* before = Newest(kv.id.session); before != nullptr && turns_.at(before->id).pins == 0) {
    Drop(before->id);
  }
  while (blocks_ + blocks > blocks_max_) {
    const Tenant* most = nullptr;
    double most_share = 0;
    for (size_t i = 0; i < tenants_.size(); ++i) {
      const Tenant& tenant = tenants_[i];
      const auto index = static_cast<int32_t>(i);
      // The tenant that parks is judged by what it is about to hold.
      const int64_t held = tenant.blocks + (index == kv.tenant ? blocks : 0);
      const double share = static_cast<double>(held) / weight_of(index);
      if (tenant.by_use.empty() || (most != nullptr && share <= most_share)) continue;
      most = &tenant;
      most_share = share;
    }
    assert(most != nullptr);
    const TurnId victim = most->by_use.begin()->second;
    assert(victim.session != kv.id.session);
    Drop(victim);
    if (Newest(victim.session) == nullptr) ++lost_;
  }
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
  const int64_t pinned = tenants_[static_cast<size_t>(entry.kv.tenant)].pinned_blocks;
  return entry.pins > 0 || pinned == 0 || pinned + BlocksForSlots(entry.kv.live) <= blocks_max;
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
