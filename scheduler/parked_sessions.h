// ParkedSessions is what the scheduler remembers of sessions between their turns: how much KV lies parked outside the pool,
// by which turn, and for how many tokens. The bytes themselves are the executor's.
//
// If there is no room for another session, the tenant with the most blocks for its weight loses its least recently used
// one. So a tenant that parks a thousand sessions loses its own sessions, never those of a tenant that keeps to its
// share.
//
// Thread: engine. Pure.
//
// Invariants
//  1. blocks() is the sum over sessions of the blocks of their slots, and at most the capacity.
//  2. A session that lost its KV is in dropped() until that list is cleared.
//  3. Pinned KV stays.
//  4. A tenant pins one session, or as many as fit into the blocks that the caller allows it (CanPin): no tenant can
//     keep others' sessions from being parked by queueing turns.
#ifndef HYDRANT_SCHEDULER_PARKED_SESSIONS_H_
#define HYDRANT_SCHEDULER_PARKED_SESSIONS_H_

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"

namespace hydrant {

// The counts of a turn's parked KV.
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

  // A session's parked KV; null if there is none. Valid until the next change.
  const ParkedCounts* Find(uint64_t session) const;

  // A tenant's weight, > 0.
  using WeightOf = absl::FunctionRef<double(int32_t tenant)>;
  // Replaces a session's parked KV. Returns false and changes nothing if pinned KV leaves no room for it, or if the KV
  // that it would replace is pinned. REQUIRES: a session stays with its tenant.
  bool Put(uint64_t session, const ParkedCounts& kv, WeightOf weight_of);

  // True if a request may rely on the session's parked KV. `blocks_max`: how many blocks the session's tenant may pin
  // in all; it may always pin one session. REQUIRES: Find(session) != nullptr.
  bool CanPin(uint64_t session, int64_t blocks_max) const;
  // A request relies on the session's parked KV until it is restored or the request ends. REQUIRES: CanPin, one Unpin
  // per Pin. None of Pin, Unpin and Use allocates.
  void Pin(uint64_t session);
  void Unpin(uint64_t session);

  // It was restored. REQUIRES: Find(session) != nullptr.
  void Use(uint64_t session);

  // Forgets a session's parked KV, if there is any. Pinned KV is forgotten with its last pin.
  void Drop(uint64_t session);
  // Drop, and counts the session as lost: its KV could not be parked.
  void Lose(uint64_t session);

  // Sessions whose KV the executor has yet to forget.
  std::span<const uint64_t> dropped() const { return dropped_; }
  void ClearDropped() { dropped_.clear(); }

  int64_t blocks() const { return blocks_; }
  int32_t size() const { return static_cast<int32_t>(sessions_.size()); }
  uint64_t lost() const { return lost_; }  // had to make room, or found none, since the start

 private:
  using ByUse = std::map<uint64_t, uint64_t>;  // used -> session
  struct Entry {
    ParkedCounts kv;
    uint64_t used = 0;  // higher: parked or restored later
    int32_t pins = 0;
    bool doomed = false;        // dropped while pinned
    ByUse::node_type unlisted;  // while pinned: its node of by_use, so that Unpin allocates nothing
  };
  struct Tenant {
    int64_t blocks = 0;
    int64_t pinned_blocks = 0;
    ByUse by_use;  // those without a pin
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
