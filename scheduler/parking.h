// Parking is what becomes of a session's KV between its turns: it leaves the pool when a turn ends and comes back for the next.
// Which sessions have something parked, and who has to give way, is ParkedSessions' to know; this adds what is on its way out,
// and whether a request can count on what it would go on from.
//
// Life of what a turn leaves: Park (the blocks are this class's now) -> the executor copies what parks() names -> Finish (the
// blocks are free).
//
// Thread: engine.
//
// Invariants
//  1. The blocks of parks()[i] are held by tables()[i] until Finish, or until nobody will ask for them any more.
//  2. Whoever has Sequence::pins finds what its session has parked still there (ParkedSessions, invariant 3).
#ifndef HYDRANT_SCHEDULER_PARKING_H_
#define HYDRANT_SCHEDULER_PARKING_H_

#include <cstdint>
#include <span>
#include <vector>

#include "block_manager/block_manager.h"
#include "scheduler/park_plan.h"
#include "scheduler/parked_sessions.h"
#include "scheduler/request.h"
#include "scheduler/scheduler_counters.h"
#include "scheduler/sequence.h"
#include "scheduler/tenant_list.h"

namespace hydrant {

class Parking {
 public:
  // `blocks_max`: blocks' worth of slots that may be parked. The others outlive this.
  Parking(int64_t blocks_max, const TenantList& tenants, BlockManager& block_manager, SchedulerCounters& counters);
  ~Parking();
  Parking(const Parking&) = delete;
  Parking& operator=(const Parking&) = delete;

  // What the request can go on from; null: nothing. Valid until the next change.
  const ParkedCounts* Resumable(const Request& request) const;
  // Whether it goes on from what is parked, and that is sure to stay until it is admitted: its tenant pins no more than its part,
  // by weight, of what can be parked.
  bool KeepsPast(const Request& request) const;

  // While the sequence waits what it was found to need has to stay true: what its session has parked stays, or it can do without.
  void PinPast(Sequence& sequence);
  // It was admitted, or is gone.
  void UnpinPast(Sequence& sequence);
  // It was restored. REQUIRES: Resumable(its request).
  void Use(const Request& request) { sessions_.Use(request.session); }

  // What the sequence, which ended, holds leaves with its table, if there can be room for it. If not, what the turn before left
  // goes all the same: the session has gone on from there, and nobody will ask for it.
  void Park(int32_t index, Sequence& sequence);

  // What the executor has to forget and then to copy out, between two steps.
  std::span<const uint64_t> drops() const { return sessions_.dropped(); }
  std::span<const PlanPark> parks() const { return parks_; }
  std::span<const BlockTable> tables() const { return tables_; }
  // It has been done, but for these sessions: what was to be parked for them is nowhere.
  void Finish(std::span<const uint64_t> lost);

  // Forgets what is parked for a session. Ignored without it.
  void Drop(uint64_t session);

  const ParkedSessions& sessions() const { return sessions_; }

 private:
  void ReleaseTables(bool of_dropped_sessions);

  const int64_t blocks_max_;
  const TenantList& tenants_;
  BlockManager& block_manager_;
  SchedulerCounters& counters_;
  ParkedSessions sessions_;
  std::vector<PlanPark> parks_;
  std::vector<BlockTable> tables_;  // of parks_
};

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_PARKING_H_
