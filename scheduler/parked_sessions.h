// ParkedSessions is what the scheduler remembers of sessions between their turns: how much KV lies parked outside the pool,
// by which turn, and for how many tokens. The bytes themselves are the executor's.
//
// A turn is parked beside the one before it until it is settled which of the two the session goes on from (Settle): a
// client that leaves while its turn's last step is computed goes on from the one before. If there is no room for both,
// the one before gives way, before anybody else's does: a turn costs others what it needs itself, and never more.
//
// If there is no room for another turn, the tenant with the most blocks for its weight loses its least recently used
// one. So a tenant that parks a thousand sessions, or a very large one, loses its own sessions, never those of a tenant
// that keeps to its share: where it has the most and nothing else to lose, the turn is not parked.
//
// Thread: engine. Pure.
//
// Invariants
//  1. blocks() is the sum over turns of the blocks of their slots, and at most the capacity.
//  2. A turn that lost its KV is in dropped() until that list is cleared.
//  3. Pinned KV stays.
//  4. A tenant's waiting requests pin as many turns as fit into the blocks that the caller allows it, or one that leaves
//     as much unpinned as it takes, or that came while nobody else had anything parked (CanPin): no tenant can keep
//     others' sessions from being parked by queueing turns. What is being restored is pinned, too: its sequence holds
//     as many blocks of the pool.
//  5. A session has at most two turns parked, also where Settle is never called.
#ifndef HYDRANT_SCHEDULER_PARKED_SESSIONS_H_
#define HYDRANT_SCHEDULER_PARKED_SESSIONS_H_

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "kernels/step/block_ops.h"
#include "kernels/step/session_ops.h"

namespace hydrant {

// The counts of a turn's parked KV.
struct ParkedCounts {
  TurnId id;
  int32_t tenant = 0;
  int32_t computed = 0;  // tokens whose keys and values were computed: the logical length
  int32_t live = 0;      // slots parked
};

class ParkedSessions {
 public:
  // Capacity in blocks' worth of slots; 0: nothing is ever parked.
  explicit ParkedSessions(int64_t blocks_max) : blocks_max_(blocks_max) {}

  // A turn's parked KV; null if there is none. Valid until the next change.
  const ParkedCounts* Find(const TurnId& id) const;
  // The parked KV of the session's newest turn that has any; null if none has. Valid until the next change.
  const ParkedCounts* Newest(uint64_t session) const;

  // A tenant's weight, > 0.
  using WeightOf = absl::FunctionRef<double(int32_t tenant)>;
  // Adds a turn's parked KV. Returns false and changes nothing if pinned KV leaves no room for it, if its tenant would
  // have the most for its weight and has no other session to lose for it, or if the session has two turns already, of
  // which the older one is pinned. REQUIRES: a session stays with its tenant; the turn is newer than those of the
  // session that are parked.
  bool Put(const ParkedCounts& kv, WeightOf weight_of);

  // Put, of KV that comes back from somewhere else after it was parked, and perhaps dropped, here: a drop that the executor was not told
  // of yet is forgotten. False also if the session has a newer turn, and true if this one is parked already.
  bool Adopt(const ParkedCounts& kv, WeightOf weight_of);

  // The session goes on from this turn, and what is parked of earlier ones is forgotten (`keep`); or it does not, and
  // this turn's is. Either may be gone already, or never have been parked.
  void Settle(const TurnId& id, bool keep);

  // True if a request may rely on the turn's parked KV. `blocks_max`: how many blocks the session's tenant may pin
  // in all; beyond that, invariant 4's one turn. REQUIRES: Find(id) != nullptr.
  bool CanPin(const TurnId& id, int64_t blocks_max) const;
  // A request relies on the turn's parked KV until all of it is restored or the request ends. REQUIRES: CanPin while
  // the request waits; one Unpin per Pin. None of Pin, Unpin, Use, Settle and the drops allocates.
  void Pin(const TurnId& id);
  void Unpin(const TurnId& id);

  // It is restored. REQUIRES: Find(id) != nullptr.
  void Use(const TurnId& id);

  // Forgets a turn's parked KV, if there is any. Pinned KV is forgotten with its last pin.
  void Drop(const TurnId& id);
  // Drop, and counts the turn as lost: its KV could not be parked. REQUIRES: nobody has pinned it.
  void Lose(const TurnId& id);
  // Drop of all turns of the session.
  void DropSession(uint64_t session);

  // Turns whose KV the executor has yet to forget.
  std::span<const TurnId> dropped() const { return dropped_; }
  void ClearDropped() { dropped_.clear(); }

  // KV of so many slots finds no room now, for what is pinned, and would without any pin.
  bool HasRoomOncePinsAreGone(int32_t live) const {
    const int64_t blocks = BlocksForSlots(live);
    return blocks <= blocks_max_ && pinned_blocks_ + blocks > blocks_max_;
  }

  int64_t blocks() const { return blocks_; }
  int32_t size() const { return sessions_; }  // sessions with something parked
  uint64_t lost() const { return lost_; }  // sessions that had to make room for others, or found none, since the start

 private:
  using ByUse = std::map<uint64_t, TurnId>;  // used -> turn
  struct Entry {
    ParkedCounts kv;
    uint64_t used = 0;  // higher: parked or restored later
    int32_t pins = 0;
    bool doomed = false;        // dropped while pinned
    ByUse::node_type unlisted;  // while pinned: its node of by_use, so that Unpin allocates nothing
  };
  using Turns = std::map<TurnId, Entry>;  // those of a session side by side, the oldest first
  struct Tenant {
    int64_t blocks = 0;
    int64_t pinned_blocks = 0;
    ByUse by_use;  // those without a pin
  };

  Turns::iterator OldestOf(uint64_t session) { return turns_.lower_bound(TurnId{session, 0}); }
  bool IsOf(Turns::const_iterator turn, uint64_t session) const {
    return turn != turns_.end() && turn->first.session == session;
  }
  void CountPinned(const Entry& entry, int64_t blocks);
  Tenant& tenant_of(const Entry& entry) { return tenants_[static_cast<size_t>(entry.kv.tenant)]; }
  bool FindRoom(const ParkedCounts& kv, WeightOf weight_of, std::vector<TurnId>* victims) const;

  const int64_t blocks_max_;
  Turns turns_;
  std::vector<Tenant> tenants_;  // by index; grows as they park
  std::vector<TurnId> dropped_;
  int64_t blocks_ = 0;
  int64_t pinned_blocks_ = 0;
  int32_t sessions_ = 0;
  uint64_t uses_ = 0;
  uint64_t lost_ = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_PARKED_SESSIONS_H_
