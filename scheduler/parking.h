// Parking moves a session's KV out of the pool when a turn ends and back for the next one. ParkedSessions knows which
// turns of sessions have parked KV and which of them loses it first; this class adds the KV that is on its way out, and whether
// a request can rely on the parked KV from which it would continue.
//
// Life of a turn's KV: Park (this class owns the blocks now) -> the executor copies what parks() names -> Finish (the
// blocks are free) -> Settle (the turn before is forgotten, or this one is).
//
// Thread: engine.
//
// Invariants
//  1. tables()[i] holds the blocks of parks()[i] until Finish, or until that turn's parked KV is dropped.
//  2. A sequence with Sequence::pins finds the parked KV that it continues from still there (ParkedSessions, invariant 3).
#ifndef HYDRANT_SCHEDULER_PARKING_H_
#define HYDRANT_SCHEDULER_PARKING_H_

#include <cstdint>
#include <span>
#include <vector>

#include "block_manager/block_manager.h"
#include "scheduler/park_plan.h"
#include "scheduler/parked_sessions.h"
#include "scheduler/request/request.h"
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

  // The parked KV from which the request can continue; null if there is none. Valid until the next change.
  const ParkedCounts* Resumable(const Request& request) const;
  // True if the request continues from parked KV that is sure to stay until it is admitted: its tenant may pin its
  // share, by weight, of the capacity.
  bool KeepsPast(const Request& request) const;

  // Makes sure that what the sequence was found to need stays true while it waits: pins the parked KV from which it
  // continues or, if there is none, clears Request::resumes.
  void PinPast(Sequence& sequence);
  // Removes the pin: the sequence was admitted, or ended while it waited.
  void UnpinPast(Sequence& sequence);
  // The request's parked KV was restored. REQUIRES: Resumable(request).
  void Use(const Request& request) { sessions_.Use(PastOf(request)); }

  // Parks the blocks of a sequence that ended, and takes over its table, if room can be made for them. What the turn
  // before left stays until Settle, unless there is no room for both.
  void Park(int32_t index, Sequence& sequence);

  // The turns that the executor has to drop, and then to park, between two steps.
  std::span<const TurnId> drops() const { return sessions_.dropped(); }
  std::span<const PlanPark> parks() const { return parks_; }
  std::span<const BlockTable> tables() const { return tables_; }
  // The executor has done this work, except for the turns in `lost`, whose KV is parked nowhere.
  void Finish(std::span<const TurnId> lost);

  // ParkedSessions::Settle and DropSession.
  void Settle(const TurnId& id, bool keep);
  void DropSession(uint64_t session);

  const ParkedSessions& sessions() const { return sessions_; }

 private:
  // The turn whose parked KV the request continues from, if it is there.
  static TurnId PastOf(const Request& request) { return {request.session, request.resumes}; }
  void ReleaseTables(bool of_dropped_turns);

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
