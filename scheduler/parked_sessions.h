// ParkedSessions is what the scheduler remembers of sessions between their turns: how much KV lies parked outside the pool,
// by which turn, and for how many tokens. The bytes themselves are the executor's.
//
// When there is no room for one more, the tenant with the most blocks for its weight gives way, with the session it used
// least recently. So a tenant that parks a thousand sessions loses its own, never those of one that keeps to its share.
//
// Thread: engine. Pure.
//
// Invariants
//  1. blocks() is the sum over sessions of the blocks of their slots, and at most the capacity.
//  2. Whoever lost its KV is in dropped() until that is cleared.
//  3. What is pinned stays.
//  4. A tenant's pins are one session, or as many as fit into the blocks its driver gives it (CanPin): by queueing turns nobody
//     keeps the sessions of others from being parked.
#ifndef HYDRANT_SCHEDULER_PARKED_SESSIONS_H_
#define HYDRANT_SCHEDULER_PARKED_SESSIONS_H_

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"

namespace hydrant {

// What a turn left.
struct ParkedCounts {
  uint64_t turn = 0;
  int32_t tenant = 0;
  int32_t computed = 0;  // tokens whose keys and values were computed: the logical length
  int32_t live = 0;      // slots parked
};

class ParkedSessions {
 public:
  // Capacity in blocks' worth of slots; 0: nothing is ever parked.
  explicit ParkedSessions(int64_t blocks_max) : blocks_max_(blocks_max) {}

  // Null when nothing is parked for it. Valid until the next change.
  const ParkedCounts* Find(uint64_t session) const;

  // A tenant's weight, > 0.
  using WeightOf = absl::FunctionRef<double(int32_t tenant)>;
  // Replaces what is parked for the session. False, and nothing changes, when what is pinned leaves no room for it, or when
  // what it would replace is pinned. REQUIRES: a session stays with its tenant.
  bool Put(uint64_t session, const ParkedCounts& kv, WeightOf weight_of);

  // Whether a request may count on what is parked. `blocks_max` is what the session's tenant may pin in all; one session it
  // may, however small that is. REQUIRES: Find(session) != nullptr.
  bool CanPin(uint64_t session, int64_t blocks_max) const;
  // A request counts on what is parked, until it has been restored or the request is gone. REQUIRES: CanPin, one Unpin per
  // Pin.
  void Pin(uint64_t session);
  void Unpin(uint64_t session);

  // It was restored. REQUIRES: Find(session) != nullptr.
  void Use(uint64_t session);

  // Ignored when nothing is parked for it. What is pinned goes with its last pin.
  void Drop(uint64_t session);
  // Drop, for it could not be parked.
  void Lose(uint64_t session);

  // Sessions whose KV the executor has yet to forget.
  std::span<const uint64_t> dropped() const { return dropped_; }
  void ClearDropped() { dropped_.clear(); }

  int64_t blocks() const { return blocks_; }
  int32_t size() const { return static_cast<int32_t>(sessions_.size()); }
  uint64_t lost() const { return lost_; }  // had to make room, or found none, since the start

 private:
  struct Entry {
    ParkedCounts kv;
    uint64_t used = 0;  // higher: parked or restored later
    int32_t pins = 0;
    bool doomed = false;  // dropped while pinned
  };
  struct Tenant {
    int64_t blocks = 0;
    int64_t pinned_blocks = 0;
    std::map<uint64_t, uint64_t> by_use;  // used -> session, of those without a pin
  };

  void CountPinned(const Entry& entry, int64_t blocks);
  Tenant& tenant_of(const Entry& entry) { return tenants_[static_cast<size_t>(entry.kv.tenant)]; }
  void Erase(uint64_t session);
  void MakeRoom(int64_t blocks, uint64_t session, const ParkedCounts& kv, WeightOf weight_of);

  const int64_t blocks_max_;
  absl::flat_hash_map<uint64_t, Entry> sessions_;
  std::vector<Tenant> tenants_;  // by index; grows as they park
  std::vector<uint64_t> dropped_;
  int64_t blocks_ = 0;
  int64_t pinned_blocks_ = 0;
  uint64_t uses_ = 0;
  uint64_t lost_ = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_PARKED_SESSIONS_H_
