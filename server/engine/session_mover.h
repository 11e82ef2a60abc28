// SessionMover moves the KV of sessions: after a step it has the executor park slices of what ended turns left in the
// pool and forget what the scheduler dropped; it adds to a step's input the slices of parked KV that come back; and
// between two steps it copies scores and positions of one session for somebody who looks at it. The scheduler decides
// all of that; EngineCore calls.
//
// Thread: engine.
//
// Life of a turn's KV: Scheduler::Commit names it in parks() -> Move has memory taken for it and its slices copied out
// of the pool, and tells the scheduler for which turns there was none -> AddRestores names its slices in steps of the
// session's next turn. What has to make room for others is offered to whoever keeps KV elsewhere (on_loss) before it goes, and what
// comes back from there is adopted.
//
// Invariants
//  1. Move launches nothing while a step is in flight. Without memory of the host it parks nothing, and drops what it
//     was to: a park that has begun goes on with the next Move.
//  2. After a Move with no step in flight Scheduler::drops() is empty, and of each of its parks memory is taken for
//     all: every turn was in dropped() or in parked() once.
//  3. Parked KV of which a part is still to be copied is read where it is whole: in the pool.
#ifndef HYDRANT_SERVER_ENGINE_SESSION_MOVER_H_
#define HYDRANT_SERVER_ENGINE_SESSION_MOVER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "kernels/eviction_policy.h"
#include "model/run/executor.h"
#include "scheduler/scheduler.h"
#include "server/engine/engine_types.h"
#include "server/engine/kv_reading.h"

namespace hydrant {

class SessionMover {
 public:
  struct PolicyInForce {
    const EvictionPolicy* policy = nullptr;  // stays valid while the sequence's index is not given to another request
    int32_t label = 0;                       // DecodeOptions::policy_label
  };
  // `policy_of` returns the policy of the sequence with that index. `await_step` returns when the executor has computed
  // the step in flight, if there is one: tickets are awaited in the order in which they were launched. Scheduler and
  // executor outlive the mover. `layer_heads`: as EngineCoreOptions::layer_heads.
  // `on_loss`: EngineCoreOptions::on_loss.
  SessionMover(Scheduler& scheduler, Executor& executor, int32_t layer_heads,
               std::function<PolicyInForce(int32_t sequence)> policy_of, std::function<void()> await_step,
               std::function<void(const TurnId&, KvBytes)> on_loss = nullptr);

  // Call it after Commit, so that the blocks of sessions are free when the next step is planned, and before anything is
  // added to the scheduler: the policies of sequences that ended are still in their places. Returns how many blocks were
  // parked.
  int64_t Move(bool step_in_flight);
  // The same for sequences that step aside (swapping.h), and to be called at the same place: what the scheduler dropped of them is
  // forgotten, and slices of those that leave are copied out. Without memory of the host for one of them it ends with kNoMemory.
  // Returns how many blocks were copied.
  int64_t Swap(bool step_in_flight);

  // Appends the plan's restores. Their spans are the plan's.
  void AddRestores(std::span<const PlanRestore> from, std::vector<RestoreOp>* to) const;
  // Appends the plan's sequences that come back. Their spans are the plan's.
  static void AddReturns(std::span<const PlanSwapIn> from, std::vector<SwapInOp>* to);

  // EngineCore::ReadParked and Adopt.
  KvBytes ReadParked(const TurnId& turn, bool* is_coming) const;
  bool Adopt(const TurnId& turn, int32_t tenant, const KvBytes& kv);

  // EngineCore::ReadKv.
  void Read(uint64_t session, bool evicts, KvReading* out);

  // Turns whose parked KV the last Move forgot or could not keep, as far as there was memory for the list, and those that it then
  // began to park. Valid until the next Move.
  std::span<const TurnId> dropped() const { return dropped_; }
  std::span<const ParkedTurn> parked() const { return parked_; }

 private:
  bool ListParks();
  bool Launch();
  void Drop(std::span<const TurnId> turns);
  void Tell(const TurnId& dropped);
  void GiveAway(const TurnId& dropped) const;
  bool Runs(const TurnId& turn) const;
  // KvReading::ahead. O(waiting sequences).
  std::optional<int32_t> AheadOf(uint64_t session) const;
  void ReadRunning(int32_t index, KvReading* out);
  void ReadScores(const ReadOp& read, KvReading* out);

  Scheduler& scheduler_;
  Executor& executor_;
  const int32_t layer_heads_;
  const std::function<PolicyInForce(int32_t sequence)> policy_of_;
  const std::function<void()> await_step_;
  const std::function<void(const TurnId&, KvBytes)> on_loss_;

  StepInput moves_;  // has no rows; reused from call to call
  std::vector<TurnId> dropped_;
  std::vector<ParkedTurn> parked_;
  std::vector<TurnId> park_failures_;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_ENGINE_SESSION_MOVER_H_
