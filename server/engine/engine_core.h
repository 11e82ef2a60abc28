// EngineCore is scheduler plus executor: it takes requests, runs steps and hands out events. The engine thread and the
// simulator drive the same code.
//
// Thread: engine, every method. Single-threaded and without I/O of its own; time comes from the clock it is given.
//
// Life of a request: Add -> events with a token each (or with prompt log-probabilities while the prompt is computed) ->
// exactly one event whose `finish` is not kNone. Cancel brings that event with the next Step at the latest, or, with overlap,
// with the one after that; it may also be called while a step runs (from inside the executor).
//
// With overlap the executor has the next step while it computes one, where that can be (Scheduler::PlanAhead): between two calls
// of Step a step may be in flight. Tokens are the same; the event that ends a request may come a step later.
#ifndef HYDRANT_SERVER_ENGINE_ENGINE_CORE_H_
#define HYDRANT_SERVER_ENGINE_ENGINE_CORE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/eviction_policy.h"
#include "kernels/sampling.h"
#include "model/run/executor.h"
#include "scheduler/scheduler.h"
#include "server/engine/sequence_request.h"

namespace hydrant {

// Of a KvReading's scores and positions: 24,000 slots of the default model, 8,000 of one with 32 layers of 8 KV heads.
inline constexpr int64_t kKvReadingBytesMax = 16 << 20;

// Spans and pointers are valid until the next Step.
struct EngineEvent : SequenceEvent {
  const SampleResult* sampled = nullptr;  // the token with its log-probabilities; null without a token
  // Results for prompt tokens [prompt_begin, prompt_begin + prompt_logprobs.size()), in prompt order from token 1 on;
  // only when the request asked for them.
  std::span<const SampleResult> prompt_logprobs;
  int32_t prompt_begin = 0;
};

// A session's KV that left the pool when its turn ended.
struct ParkedTurn {
  uint64_t session = 0;
  uint64_t turn = 0;
  int32_t computed = 0;  // tokens it stands for
  int32_t live = 0;      // slots
};

// Where a session's KV stands between two steps, to be looked at.
struct KvReading {
  enum class Source : uint8_t {
    kNone,     // the engine has nothing of it
    kRunning,  // a turn is being computed
    kParked,
  };
  Source source = Source::kNone;
  uint64_t turn = 0;      // kParked: which turn left it
  int32_t computed = 0;   // logical length
  int32_t live = 0;       // slots; one of a running sequence at its budget is the victim, which the next token replaces
  int32_t blocks = 0;     // kRunning: held
  KvBudget budget;        // kRunning: in force
  EvictionPolicy policy;  // kRunning: likewise
  int32_t policy_label = 0;     // kRunning: DecodeOptions::policy_label
  std::vector<int32_t> tokens;  // kRunning: the prompt and what was generated
  int64_t read_us = 0;          // that the engine thread spent on it
  bool sides_read = false;      // `sides` holds the scores and positions of `live` slots
  KvSides sides;
};

// What the last step did, for histograms of steps. All zero when it had no rows.
struct StepReport {
  int32_t rows = 0;
  int32_t decode_tokens = 0;
  int32_t prefill_tokens = 0;
  double decode_cost = 0.0;  // these three: as in StepPlan
  double prefill_cost = 0.0;
  bool several_tenants = false;
  int64_t plan_us = 0;    // Plan and building the executor's input; with overlap perhaps while the device was busy
  int64_t device_us = 0;  // Launch, or the end of the step before it, to Await's return
  int64_t commit_us = 0;  // Commit and building the events
};

// One tenant's part of it.
struct TenantCounters {
  int32_t running = 0;
  int32_t waiting = 0;
  int32_t waiting_deferred =
      0;               // of these: a larger pool would not let them in, but the operator, or the tenant's own cap
  int64_t blocks = 0;  // held
  int64_t reserved_blocks = 0;  // held or promised
  int64_t live_slots = 0;
  int64_t logical_tokens = 0;  // of its running sequences: what they would hold without eviction
  double service = 0;          // the counter that decides whose turn it is
  double charged = 0;          // grows by what was charged only
  uint64_t prompt_tokens = 0;
  uint64_t generated_tokens = 0;
};

// A snapshot of everything metrics need; counters only grow. Plain values: copy it to publish it to another thread.
struct EngineCounters {
  SchedulerCounters scheduler;
  std::array<uint64_t, kPolicyLabelsMax> evicted_tokens = {};  // by policy_label
  int32_t running = 0;
  int32_t waiting = 0;
  int32_t blocks_free = 0;
  int32_t blocks_used = 0;
  int32_t blocks_cached = 0;
  int32_t sides_spare = 0;      // side blocks beyond the blocks' own
  int32_t sides_snapshots = 0;  // of them in score snapshots
  int32_t snapshots = 0;
  int32_t parked_sessions = 0;
  int64_t parked_blocks = 0;
  uint64_t parked_lost = 0;                  // sessions whose parked KV had to make room, or found none
  int64_t live_slots = 0;                    // of all running sequences
  uint64_t stalls = 0;                       // steps that took longer than the stall threshold; the engine's
  uint64_t steps_lost = 0;                   // that there was no memory for
  std::vector<TenantCounters> tenants = {};  // by tenant index
};

struct EngineCoreOptions {
  SchedulerOptions scheduler;
  int32_t pairs = 1;  // of a layer and a KV head
  int32_t vocab = 0;  // > 0; a sampled id outside [0, vocab) fails its request alone
  // > 0. prompt + max_tokens may not exceed it; with rolling positions, what the request holds at once: the prompt with what
  // its session had parked, then the budget and what it grows beyond that.
  int32_t context = 0;
  // For an executor whose Launch returns before the work is done; for others it would only delay events.
  bool overlap = false;
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
  // positions than the context has, or a policy that contradicts the budget.
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

  // Scheduler::DropSession.
  void DropSession(uint64_t session) { scheduler_.DropSession(session); }

  // Copies what there is of the session into `out`: what is computed now, or what is parked.
  //
  // With a step in flight it is as that will leave it.
  //
  // Scores and positions are left out of what evicts nothing (every token is held then; of what is parked the caller says it,
  // with `evicts`), and where they would take more than kKvReadingBytesMax.
  //
  // What it costs the engine thread: server/live_view/kv_inspector.h.
  void ReadKv(uint64_t session, bool evicts, KvReading* out);

  // Runs one step, or only delivers the events of Cancel when there is nothing to compute.
  std::span<const EngineEvent> Step();

  // True when Step would neither compute nor deliver anything.
  bool idle() const { return scheduler_.idle(); }

  // Requests that left the queue in the last step. Valid until the next.
  std::span<const uint64_t> admitted() const { return scheduler_.admitted(); }
  // Sessions whose parked KV was forgotten in the last step, and, after that, parked. Valid until the next.
  std::span<const uint64_t> dropped() const { return dropped_; }
  std::span<const ParkedTurn> parked() const { return parked_; }

  const StepReport& report() const { return report_; }
  // Steps that there was no memory for; their requests end with kNoMemory.
  uint64_t steps_lost() const { return steps_lost_; }
  EngineCounters counters() const;
  const Scheduler& scheduler() const { return scheduler_; }
  // A step is: the next call of Step plans none that is committed in it, and lets nobody in.
  bool in_flight() const { return in_flight_ > 0; }

 private:
  // What the core knows of a sequence that the scheduler does not, by sequence index.
  struct Extras {
    DecodeOptions options;  // as the request came
    EvictionPolicy policy;  // options.policy, lowered to the budget in force
    SampleResult last;      // of the token with which it ended, while a row behind it is in flight
    bool lost = false;      // so was the step that was to bring its KV into the pool: its next row fails
  };

  EngineCore(const EngineCoreOptions& options, Executor& executor, EngineClock clock);
  // Positions of the rotary table that the request may come to use.
  int64_t PositionsNeeded(const SequenceRequest& request) const;
  absl::Status Check(const SequenceRequest& request) const;
  // A plan from its making to its Commit.
  struct Flight {
    const StepPlan* plan = nullptr;
    StepInput input;
    std::vector<ScoreSnapshot> snapshots;  // of input's rows
    std::vector<BlockCopy> copies;         // of input's rows
    Executor::Ticket ticket;               // of a plan with rows
    bool lost = false;                     // there was no memory for it: nothing is to be awaited
    bool answered = false;                 // Await has returned: `output` is there
    StepOutput output;
    int64_t begin_us = 0;
    int64_t launch_us = 0;
    int64_t done_us = 0;
  };
  Flight& flight(int32_t i) { return flights_[(oldest_ + static_cast<size_t>(i)) % flights_.size()]; }

  bool Independent(int32_t sequence) const;
  void Launch(const StepPlan& plan, int64_t begin_us);
  void Lose(Flight& flight);
  void Answer(Flight& flight);
  void Report(const Flight& flight);
  void BuildInput(const StepPlan& plan, Flight* flight);
  void BuildRow(const PlanRow& from, StepRow* row);
  static void CollectSharing(const StepPlan& plan, Flight* flight);
  void ReadSides(const ReadOp& read, KvReading* out);
  void MoveSessions();
  void BuildResults(const Flight& flight);
  void BuildEvents(Flight& flight, std::span<const SequenceEvent> events);

  const EngineCoreOptions options_;
  Executor& executor_;
  EngineClock clock_;
  Scheduler scheduler_;
  std::vector<Extras> extras_;  // [scheduler_.sequence_indices()]

  std::array<Flight, kStepsInFlight> flights_;  // in turn
  size_t oldest_ = 0;                           // of the flights
  int32_t in_flight_ = 0;
  int64_t free_us_ = 0;  // when the executor was done with the last step
  StepInput moves_;      // what is done between steps
  std::vector<RowResult> results_;
  std::vector<EngineEvent> events_;
  std::vector<uint64_t> dropped_;
  std::vector<ParkedTurn> parked_;
  StepReport report_;
  uint64_t steps_lost_ = 0;
  std::array<uint64_t, kPolicyLabelsMax> evicted_tokens_ = {};
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_ENGINE_ENGINE_CORE_H_
