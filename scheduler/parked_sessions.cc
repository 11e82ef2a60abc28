#include "scheduler/parked_sessions.h"

#include <cassert>

#include "block_manager/kv_budget.h"

namespace hydrant {

const ParkedSession* ParkedSessions::Find(uint64_t session) const {
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? nullptr : &found->second;
}

bool ParkedSessions::Put(uint64_t session, int32_t computed, int32_t live) {
  const int64_t blocks = BlocksForSlots(live);
  if (blocks > blocks_max_) return false;
  const ParkedSession* own = Find(session);
  const int64_t replaced = own == nullptr ? 0 : BlocksForSlots(own->live);
  while (blocks_ - replaced + blocks > blocks_max_) {
    auto oldest = sessions_.end();
    for (auto it = sessions_.begin(); it != sessions_.end(); ++it) {
      if (it->first != session && (oldest == sessions_.end() || it->second.used < oldest->second.used)) oldest = it;
    }
    assert(oldest != sessions_.end());
    ++lost_;
    Drop(oldest->first);
  }
  blocks_ += blocks - replaced;
  sessions_[session] = {computed, live, ++uses_};
  return true;
}

void ParkedSessions::Use(uint64_t session) {
  const auto found = sessions_.find(session);
  assert(found != sessions_.end());
  found->second.used = ++uses_;
}

void ParkedSessions::Drop(uint64_t session) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  blocks_ -= BlocksForSlots(found->second.live);
  sessions_.erase(found);
  dropped_.push_back(session);
}

}  // namespace hydrant
