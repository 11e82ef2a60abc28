// ParkedSessions is what the scheduler remembers of sessions between their turns: how much KV lies parked outside the pool,
// and for how many tokens. The bytes themselves are the executor's. When there is no room for one more, the least recently
// used session loses what it had.
//
// Thread: engine. Pure.
//
// Invariants
//  1. blocks() is the sum over sessions of the blocks of their slots, and at most the capacity.
//  2. Whoever lost its KV is in dropped() until that is cleared.
#ifndef HYDRANT_SCHEDULER_PARKED_SESSIONS_H_
#define HYDRANT_SCHEDULER_PARKED_SESSIONS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace hydrant {

struct ParkedSession {
  int32_t computed = 0;  // tokens whose keys and values were computed: the logical length
  int32_t live = 0;      // slots parked
  uint64_t used = 0;     // higher: parked or restored later
};

class ParkedSessions {
 public:
  // Capacity in blocks' worth of slots; 0: nothing is ever parked.
  explicit ParkedSessions(int64_t blocks_max) : blocks_max_(blocks_max) {}

  // Null when nothing is parked for it. Valid until the next change.
  const ParkedSession* Find(uint64_t session) const;

  // Replaces what is parked for the session. False, and nothing changes, when it could never fit.
  bool Put(uint64_t session, int32_t computed, int32_t live);

  // It was restored. REQUIRES: Find(session) != nullptr.
  void Use(uint64_t session);

  // Ignored when nothing is parked for it.
  void Drop(uint64_t session);

  // Sessions whose KV the executor has yet to forget.
  std::span<const uint64_t> dropped() const { return dropped_; }
  void ClearDropped() { dropped_.clear(); }

  int64_t blocks() const { return blocks_; }
  int32_t size() const { return static_cast<int32_t>(sessions_.size()); }
  uint64_t lost() const { return lost_; }  // had to make room, since the start

 private:
  const int64_t blocks_max_;
  absl::flat_hash_map<uint64_t, ParkedSession> sessions_;
  std::vector<uint64_t> dropped_;
  int64_t blocks_ = 0;
  uint64_t uses_ = 0;
  uint64_t lost_ = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_PARKED_SESSIONS_H_
