// EngineCore is scheduler plus executor: it takes requests, runs steps and hands out events. The engine thread and the
// simulator drive the same code.
//
// Thread: engine, every method. Single-threaded and without I/O of its own; time comes from the clock it is given.
//
// Life of a request: Add -> events with a token each (or with prompt log-probabilities while the prompt is computed) ->
// exactly one event whose `finish` is not kNone. Cancel brings that event with the next Step at the latest, or, with
// overlap, with the one after that; it may also be called while a step runs (from inside the executor).
//
// With overlap the next step is launched while the executor computes one, if the scheduler can plan ahead
// (Scheduler::PlanAhead). Then a step may be in flight between two calls of Step. Tokens are the same; the event that
// ends a request may come a step later.
//
// A token of an answer with a shape is chosen when the tokens before it are known and its mask is there. Masks are asked
// for as soon as these are known, and computed while the layers run. A step launched ahead that waits for any is sampled as
// a whole when the step before it is committed (docs/decisions/0062).
#ifndef HYDRANT_SERVER_ENGINE_ENGINE_CORE_H_
#define HYDRANT_SERVER_ENGINE_ENGINE_CORE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/eviction_policy.h"
#include "kernels/sampling.h"
#include "model/run/executor.h"
#include "scheduler/scheduler.h"
#include "server/engine/answer_mask.h"
#include "server/engine/engine_types.h"
#include "server/engine/idle_replay.h"
#include "server/engine/kv_reading.h"
#include "server/engine/sequence_request.h"
#include "server/engine/session_mover.h"

namespace hydrant {

struct EngineCoreOptions {
  SchedulerOptions scheduler;
  int32_t layer_heads = 1;  // layers * KV heads: each keeps a set of its own
  int32_t vocab = 0;        // > 0; a sampled id outside [0, vocab) fails its request alone
  // > 0. prompt + max_tokens may not exceed it; with rolling positions, what the request holds at once: the prompt with
  // what its session had parked, then the budget and what it grows beyond that.
  int32_t context = 0;
  // That the executor has behind the scheduler's, and as many score blocks behind the spare ones: IdleReplay's alone.
  int32_t replay_blocks = 0;
  // For an executor whose Launch returns before the work is done; for others it would only delay events.
  bool overlap = false;
  // Where the masks of answers with a shape are computed; outlives the core. Null: in Step, by the thread that calls it.
  MaskRunner* masks = nullptr;
  // Parked KV that has to make room for others, or whose session is gone, before it is forgotten: called between two steps, and to take
  // no time. Null: nobody keeps it elsewhere.
  std::function<void(const TurnId&, KvBytes)> on_loss = nullptr;
};

// Monotonic microseconds.
using EngineClock = std::function<int64_t()>;

class EngineCore {
 public:
  // `executor` outlives the core.
  static absl::StatusOr<std::unique_ptr<EngineCore>> Create(const EngineCoreOptions& options, Executor& executor,
                                                            EngineClock clock);
  EngineCore(const EngineCore&) = delete;
  EngineCore& operator=(const EngineCore&) = delete;

  // Errors: those of Scheduler::Add; INVALID_ARGUMENT for tokens outside the vocabulary, more
  // positions than the context has, or a policy that contradicts the budget. Throws std::bad_alloc if the host has no
  // memory for it, and then nothing has happened.
  absl::Status Add(SequenceRequest request);

  // Returns false if the id is unknown or already ended.
  bool Cancel(uint64_t id);

  // Scheduler::SetPaused.
  void SetPaused(uint64_t id, bool paused) { scheduler_.SetPaused(id, paused); }

  // Scheduler::SetTenants and PauseAdmission.
  void SetTenants(std::span<const TenantOptions> tenants) { scheduler_.SetTenants(tenants); }
  void PauseAdmission(bool paused) { scheduler_.PauseAdmission(paused); }

  // Scheduler::LimitSteps.
  void LimitSteps(const StepLimits& limits) { scheduler_.LimitSteps(limits); }

  // Scheduler::ResetPrefixes.
  void ResetPrefixes() { scheduler_.ResetPrefixes(); }

  // Scheduler::SettleTurn and DropSession.
  void SettleTurn(const TurnId& id, bool keep) { scheduler_.SettleTurn(id, keep); }
  void DropSession(uint64_t session) { scheduler_.DropSession(session); }

  // The parked KV that a turn left. Empty with `*is_coming`: it will be there, or it turns out that there is none, after some further
  // steps. Takes no time to speak of: the bytes are shared.
  KvBytes ReadParked(const TurnId& turn, bool* is_coming) const { return mover_.ReadParked(turn, is_coming); }
  // Parks what ReadParked gave, in this process or in one before it. False: there is no room. Throws std::bad_alloc.
  bool Adopt(const TurnId& turn, int32_t tenant, const KvBytes& kv) { return mover_.Adopt(turn, tenant, kv); }

  // Work for when nothing is in flight.
  IdleReplay& replay() { return replay_; }

  // Copies a session's KV, of its turn in progress or parked, into `out`.
  //
  // With a step in flight the copy shows the KV as that step will leave it.
  //
  // Scores and positions are left out if the policy evicts nothing (then every token is held; for parked KV the caller
  // says so with `evicts`), or if they would take more than kKvReadingBytesMax. Where the host has no memory for the copy there
  // is nothing of the session.
  //
  // server/live_view/kv_inspector.h says what this costs the engine thread.
  void ReadKv(uint64_t session, bool evicts, KvReading* out) { mover_.Read(session, evicts, out); }

  // Runs one step, or only moves KV of sessions and delivers the events of Cancel when there is nothing to compute.
  std::span<const EngineEvent> Step();

  // True when Step would neither compute nor move nor deliver anything.
  bool idle() const { return scheduler_.idle(); }
  // Scheduler::all_ended and moving.
  bool all_ended() const { return scheduler_.all_ended(); }
  bool moving() const { return scheduler_.moving(); }

  // Requests that left the queue in the last step. Valid until the next.
  std::span<const uint64_t> admitted() const { return scheduler_.admitted(); }
  // Turns whose parked KV was forgotten in the last step, and those whose KV was begun to be parked after that:
  // sessions can go on from these. Valid until the next.
  std::span<const TurnId> dropped() const { return mover_.dropped(); }
  std::span<const ParkedTurn> parked() const { return mover_.parked(); }

  const StepReport& report() const { return report_; }
  // Steps that failed for lack of memory, or of weights that are read from a disk; their requests end with kNoMemory or kNoWeights.
  uint64_t steps_lost() const { return steps_lost_; }
  // What the last one of these lacked, in words.
  const std::string& loss() const { return loss_; }
  EngineCounters counters() const;
  const Scheduler& scheduler() const { return scheduler_; }
  // True if a step is in flight: the next call of Step commits that step, and admits no request.
  bool in_flight() const { return in_flight_ > 0; }
  // The clock's time. Thread: the clock's.
  int64_t now_us() const { return clock_(); }

 private:
  // What the core knows of a sequence and the scheduler does not, by sequence index.
  struct Extras {
    DecodeOptions options;  // as the request came
    EvictionPolicy policy;  // options.policy, lowered to the budget in force
    SampleResult last;      // of the token with which it ended, while a row behind it is in flight
    // kNone, or its next row fails: a step that was to bring KV of it into the pool was lost, or its mask could not be made.
    FinishReason failure = FinishReason::kNone;
    std::shared_ptr<AnswerMask> mask;  // of its shape; null: any token may come
    LogitAdjustments masked;           // what its row asks that is sampled by the mask
    bool complete = false;             // only a token that says so is missing at its end

    // It has ended: what it holds of its request goes.
    void Release() {
      options.end_finder.reset();
      options.shaper.reset();
      options.drafter.reset();
      options.states.reset();
      if (mask != nullptr) mask->Abandon();
      mask.reset();
    }
  };

  EngineCore(const EngineCoreOptions& options, Executor& executor, EngineClock clock);
  // The number of positions of the rotary table that the request may use.
  int64_t PositionsNeeded(const SequenceRequest& request) const;
  absl::Status Check(const SequenceRequest& request) const;
  // A plan from its making to its Commit.
  struct InFlightStep {
    const StepPlan* plan = nullptr;
    StepInput input;
    std::vector<const LogitAdjustments*> adjustments;  // of input.rows
    bool has_masks = false;                            // a row of it is sampled by one
    bool waits = false;                                // for the step before it: it is to be sampled later
    // The policies of input.restores: a sequence without a row may end while the step runs, and its index is another's then.
    std::vector<EvictionPolicy> restore_policies;
    Executor::Ticket ticket;                  // of a plan that is not empty
    FinishReason lost = FinishReason::kNone;  // else how its rows end: nothing is to be awaited
    bool answered = false;                    // Await has returned: `output` is there
    StepOutput output;
    std::vector<RowOutput> blank;  // [sequences_max]: the output of the rows of a lost step
    bool is_lost() const { return lost != FinishReason::kNone; }
    std::span<RowOutput> rows_of(size_t count) {
      return is_lost() ? std::span(blank).first(count) : std::span(output.rows);
    }
    int64_t begin_us = 0;
    int64_t launch_us = 0;
    int64_t done_us = 0;
  };
  InFlightStep& flight(int32_t i) { return flights_[(oldest_ + static_cast<size_t>(i)) % flights_.size()]; }

  void Draft();
  int32_t DraftsMax(int32_t sequence) const;
  void Verify(const PlanRow& plan, const RowOutput& output, RowResult& result);
  bool IsToken(int32_t id) const { return id >= 0 && id < options_.vocab; }
  bool CanPlanAhead(int32_t sequence) const;
  bool EndsByToken(const Sequence& sequence) const;
  void Launch(const StepPlan& plan, int64_t begin_us);
  void AskForMasks(const InFlightStep& flight);
  void Lose(InFlightStep& flight, const std::bad_alloc& why);
  void Answer(InFlightStep& flight);
  void Report(const InFlightStep& flight, int64_t committed_us, int64_t blocks_left);
  void BuildInput(const StepPlan& plan, InFlightStep* flight);
  void BuildRow(const PlanRow& from, StepRow* row);
  static bool IsMasked(const StepRow& row, const Extras& extras) {
    return row.sample && row.forced_id < 0 && extras.mask != nullptr;
  }
  const LogitAdjustments* AdjustmentsOf(const PlanRow& plan, const StepRow& row, bool ahead);
  void Sample(InFlightStep& flight);
  void CountEvicted(int32_t sequence, int32_t tokens);
  void BuildResults(InFlightStep& flight);
  void ReadToken(const Sequence& sequence, Extras& extras, RowResult& result) const;
  void FollowShape(const Sequence& sequence, Extras& extras, RowResult& result) const;
  void BuildEvents(InFlightStep& flight, std::span<const SequenceEvent> events);

  const EngineCoreOptions options_;
  Executor& executor_;
  EngineClock clock_;
  Scheduler scheduler_;
  std::vector<Extras> extras_;  // [scheduler_.sequence_indices()]
  SessionMover mover_;
  IdleReplay replay_;

  std::array<InFlightStep, kStepsInFlight> flights_;  // in turn
  size_t oldest_ = 0;                                 // of the flights
  int32_t in_flight_ = 0;
  int64_t free_us_ = 0;                             // when the executor was done with the last step
  std::vector<std::shared_ptr<AnswerMask>> asked_;  // for the call in progress
  std::vector<RowResult> results_;
  std::vector<int32_t> more_;  // what their RowResult::more are parts of
  std::vector<int32_t> kept_;  // Executor::KeepDrafts
  std::vector<EngineEvent> events_;
  StepReport report_;
  uint64_t steps_lost_ = 0;
  std::string loss_;
  std::array<uint64_t, kPolicyLabelsMax> evicted_tokens_ = {};
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_ENGINE_ENGINE_CORE_H_
