#include "scheduler/parked_sessions.h"

#include <cassert>
#include <utility>

#include "block_manager/kv_budget.h"

namespace hydrant {

const ParkedCounts* ParkedSessions::Find(uint64_t session) const {
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? nullptr : &found->second.kv;
}

bool ParkedSessions::Put(uint64_t session, const ParkedCounts& kv, WeightOf weight_of) {
  const int64_t blocks = BlocksForSlots(kv.live);
  if (pinned_blocks_ + blocks > blocks_max_) return false;
  if (const auto own = sessions_.find(session); own != sessions_.end()) {
    assert(own->second.kv.tenant == kv.tenant);
    if (own->second.pins > 0) return false;
    Erase(session);
  }
  if (tenants_.size() <= static_cast<size_t>(kv.tenant)) tenants_.resize(static_cast<size_t>(kv.tenant) + 1);
  MakeRoom(blocks, session, kv, weight_of);
  Entry& entry = sessions_[session];
  entry.kv = kv;
  entry.used = ++uses_;
  blocks_ += blocks;
  Tenant& tenant = tenant_of(entry);
  tenant.blocks += blocks;
  tenant.by_use.emplace(entry.used, session);
  return true;
}

// REQUIRES: there is enough without a pin.
void ParkedSessions::MakeRoom(int64_t blocks, uint64_t session, const ParkedCounts& kv, WeightOf weight_of) {
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
    const uint64_t victim = most->by_use.begin()->second;
    assert(victim != session);
    Erase(victim);
    dropped_.push_back(victim);
    ++lost_;
  }
}

bool ParkedSessions::CanPin(uint64_t session, int64_t blocks_max) const {
  const auto found = sessions_.find(session);
  assert(found != sessions_.end());
  const Entry& entry = found->second;
  const int64_t pinned = tenants_[static_cast<size_t>(entry.kv.tenant)].pinned_blocks;
  return entry.pins > 0 || pinned == 0 || pinned + BlocksForSlots(entry.kv.live) <= blocks_max;
}

void ParkedSessions::CountPinned(const Entry& entry, int64_t blocks) {
  pinned_blocks_ += blocks;
  tenant_of(entry).pinned_blocks += blocks;
}

void ParkedSessions::Pin(uint64_t session) {
  const auto found = sessions_.find(session);
  assert(found != sessions_.end());
  Entry& entry = found->second;
  if (++entry.pins > 1) return;
  CountPinned(entry, BlocksForSlots(entry.kv.live));
  entry.unlisted = tenant_of(entry).by_use.extract(entry.used);
}

void ParkedSessions::Unpin(uint64_t session) {
  const auto found = sessions_.find(session);
  assert(found != sessions_.end() && found->second.pins > 0);
  Entry& entry = found->second;
  if (--entry.pins > 0) return;
  CountPinned(entry, -BlocksForSlots(entry.kv.live));
  entry.unlisted.key() = entry.used;
  tenant_of(entry).by_use.insert(std::move(entry.unlisted));
  if (entry.doomed) Drop(session);
}

void ParkedSessions::Use(uint64_t session) {
  const auto found = sessions_.find(session);
  assert(found != sessions_.end());
  Entry& entry = found->second;
  Tenant& tenant = tenant_of(entry);
  ByUse::node_type listed = tenant.by_use.extract(entry.used);
  entry.used = ++uses_;
  if (listed.empty()) return;
  listed.key() = entry.used;
  tenant.by_use.insert(std::move(listed));
}

void ParkedSessions::Drop(uint64_t session) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  if (found->second.pins > 0) {
    found->second.doomed = true;
    return;
  }
  Erase(session);
  dropped_.push_back(session);
}

void ParkedSessions::Lose(uint64_t session) {
  Drop(session);
  ++lost_;
}

// REQUIRES: it is there, without a pin.
void ParkedSessions::Erase(uint64_t session) {
  const auto found = sessions_.find(session);
  const Entry& entry = found->second;
  const int64_t blocks = BlocksForSlots(entry.kv.live);
  blocks_ -= blocks;
  tenant_of(entry).blocks -= blocks;
  tenant_of(entry).by_use.erase(entry.used);
  sessions_.erase(found);
}

}  // namespace hydrant
