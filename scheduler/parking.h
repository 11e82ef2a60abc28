// Parking moves a session's KV out of the pool when a turn ends, or what a turn that recalls leaves of its prompt while it
// goes on, and back for the next one. ParkedSessions knows which
// turns of sessions have parked KV and which of them loses it first; this class adds the KV that is on its way out or
// back, and whether a request can rely on the parked KV from which it would continue.
//
// Nobody gets a token while KV moves, so it moves in slices: with a step goes as much as LimitMoves says, however large
// a session is and however many turns begin and end at once. Tenants take turns by what was moved for them
// (Tenant::moved), out as well as back, and of a tenant's the oldest goes first.
//
// Life of a turn's KV: Park or Leave (this class owns the blocks now, or holds them as well) -> PlanParks names a slice, the executor copies it, Finish
// counts it, again and again -> the blocks are free -> Settle (the turn before is forgotten, or this one is) -> Restore
// (a sequence goes on from it) -> PlanRestores puts a slice into each plan -> with the last one the sequence may have a
// row.
//
// Thread: engine.
//
// Invariants
//  1. tables()[i] holds the blocks of parks()[i] until all of them are copied, or until that turn's parked KV is
//     dropped. Until then they are part of what its tenant claims.
//  2. A sequence with Sequence::pins finds the parked KV that it continues from still there (ParkedSessions, invariant 3).
//     One with Sequence::to_restore has that pin.
//  3. What a plan restores, and what is parked after it, are no more than LimitMoves together.
//  4. The executor takes the memory for a turn's KV before anybody may rely on it: a park that has begun comes to its
//     end, unless the turn is dropped. Until that end nothing is restored from it.
#ifndef HYDRANT_SCHEDULER_PARKING_H_
#define HYDRANT_SCHEDULER_PARKING_H_

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "block_manager/block_manager.h"
#include "scheduler/park_plan.h"
#include "scheduler/parked_sessions.h"
#include "scheduler/request/request.h"
#include "scheduler/scheduler_counters.h"
#include "scheduler/sequence.h"
#include "scheduler/sequence_table.h"
#include "scheduler/tenant_list.h"

namespace hydrant {

class Parking {
 public:
  // `blocks_max`: blocks' worth of slots that may be parked. The others outlive this; nobody is admitted yet.
  Parking(int64_t blocks_max, SequenceTable& sequences, TenantList& tenants, BlockManager& block_manager,
          SchedulerCounters& counters);
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
  // The sequence ends, or does not go on from what is parked: nothing more is restored to it, and its pin is gone.
  void LetGo(int32_t index, Sequence& sequence);

  // StepLimits::blocks_moved_max, or 0: it is not sessions' turn. REQUIRES: blocks == 0 or blocks >= 2.
  void LimitMoves(int64_t blocks) { blocks_moved_max_ = blocks; }

  // The sequence goes on from its request's parked KV, whose slots its blocks cover: it waits until all of it is
  // restored. Allocates nothing. REQUIRES: Resumable(its request); Sequence::restore_table has room for its blocks.
  void Restore(int32_t index, Sequence& sequence);
  // Appends the next slices of restores, one of each sequence at most. Who gets its last one may have a row in the same
  // step. Allocates nothing if `to` has the room. REQUIRES: no other plan is in flight.
  void PlanRestores(std::vector<PlanRestore>* to);

  // Parks the blocks of a sequence that ended, and takes over its table, if room can be made for them. What the turn
  // before left stays until Settle, unless there is no room for both.
  void Park(int32_t index, Sequence& sequence);
  // Parks the first Request::history tokens of a sequence whose prompt is being computed, as they are now, with these
  // score blocks, if room can be made for them: it goes on, and copies them before it changes one. False, and nothing
  // happens, if not.
  bool Leave(int32_t index, const Sequence& sequence, std::span<const int32_t> score_blocks);
  // A turn's KV that comes back from below host memory: it is parked from now on, as if it had been all the time. False: there is no
  // room for it. Throws std::bad_alloc, and then it is not.
  bool Adopt(const ParkedCounts& kv);
  // Says in parks() what of them is to be moved now, after what the last plan restored.
  void PlanParks();

  // The turns that the executor has to drop, and then the slices that it has to park, between two steps. A park whose
  // slice is empty and that does not begin waits.
  std::span<const TurnId> drops() const { return sessions_.dropped(); }
  std::span<const PlanPark> parks() const { return parks_; }
  std::span<const BlockTable> tables() const { return tables_; }
  // The executor has done this work, except for parks in `lost`, for which it had no memory to begin: what they were to
  // keep is parked nowhere.
  void Finish(std::span<const TurnId> lost);
  // It had no memory for any of the parks: those that were to begin are lost, and of the others nothing was copied.
  void Fail();

  // The park of a turn whose blocks are not all copied; null if there is none.
  const PlanPark* FindPark(const TurnId& id) const;
  // Something waits to be parked or restored.
  bool moving() const;
  // Blocks that the tables of a tenant's parks claim.
  int64_t ReservedOf(int32_t tenant) const;

  // ParkedSessions::Settle and DropSession.
  void Settle(const TurnId& id, bool keep);
  void DropSession(uint64_t session);

  const ParkedSessions& sessions() const { return sessions_; }

 private:
  // KV on its way back.
  struct Restoring {
    SessionRestore restore;  // with the slice that was planned last
    int32_t sequence = 0;    // -1: nothing more is to be restored, and this goes once no plan has its table
    int32_t tenant = 0;
    bool is_whole = false;  // when the last plan was made: all of it was parked
    std::vector<int32_t> table;
  };

  // The turn whose parked KV the request continues from, if it is there.
  static TurnId PastOf(const Request& request) { return {request.session, request.resumes}; }
  void Unpin(Sequence& sequence);
  bool HasMoves(int32_t tenant) const;
  void LiftMoves(int32_t tenant);
  size_t NextMove(size_t count, absl::FunctionRef<int32_t(size_t)> tenant_of) const;
  void CountMove(int32_t tenant, int32_t blocks);
  void PlanSlice(Restoring& each, int64_t blocks_max);
  void EndRestore(Sequence& sequence, SessionRestore& restore);
  void ReleaseTables(absl::FunctionRef<bool(const PlanPark&)> which);
  void ReleaseDropped();
  static PlanPark NewPark(int32_t index, const Sequence& sequence);
  bool MakeRoomFor(const PlanPark& park);
  void Begin(PlanPark park, BlockTable table);
  double WeightOf(int32_t tenant) const;

  const int64_t blocks_max_;
  SequenceTable& sequences_;
  TenantList& tenants_;
  BlockManager& block_manager_;
  SchedulerCounters& counters_;
  ParkedSessions sessions_;
  std::vector<PlanPark> parks_;       // the oldest first
  std::vector<BlockTable> tables_;    // of parks_
  std::vector<Restoring> restoring_;  // the oldest first
  int64_t blocks_moved_max_ = std::numeric_limits<int64_t>::max();
  int64_t blocks_restored_ = 0;  // by the last plan
};

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_PARKING_H_
