// Scheduler decides what every step computes: it admits requests when their memory is certain, gives every decoding
// sequence its token, fills the rest of the step with prefill chunks, and turns the results into events.
//
// Thread: engine. Pure: no clock (`now_us` is an argument), no I/O, no device. Use: Plan, run the plan, Commit, again
// and again; Add and Cancel between any two calls, also between Plan and Commit. A step with nothing to do has no rows
// and is committed all the same (it delivers the events of Cancel).
//
// Between Plan and Commit the next plan may be made as well, where it does not depend on what the first finds out: PlanAhead.
// Two plans are in flight then, and so on, for the one ahead may be followed by another; each is committed in its turn.
//
// Invariants
//  1. Every added request gets exactly one terminal event, whatever happens to it, and nothing after it.
//  2. When the terminal event is delivered its blocks and its state row are free.
//  3. Every decoding sequence that is not paused has a row in every step (in a plan ahead, every one that goes on as far as
//     is known; in both it is the last row of a sequence that ends in the first); in one that is divided between tenants
//     (step_shares.h) every tenant with such sequences has at least one, and of a tenant's the one whose last row is longest
//     ago goes first. Where there are prompts to compute a step has a chunk of them: tenants take turns (tenant.h), and of a
//     tenant's the one admitted longest ago goes first. Admitted sequences advance, whoever else is there.
//  4. Within a tenant, admission goes by priority and then by arrival. Between tenants it goes by tenant.h, which says
//     why nobody waits for ever: with 3, a wait is at most the time the sequences before it need to run to their
//     max_tokens.
//  5. Prefill chunks end on multiples of kSlotsPerBlock slots, those aside that end a prompt or come before a cut in it.
//  6. A budget is lowered only while somebody waits for blocks who is let in for it, never below its floor, and never raised.
//  7. Counts do not depend on data, but for which of several elastic budgets falls: what a plan frees is decided when it is
//     made, and freed when it is committed.
//
// In steady state Plan and Commit allocate nothing.
#ifndef HYDRANT_SCHEDULER_SCHEDULER_H_
#define HYDRANT_SCHEDULER_SCHEDULER_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "block_manager/block_manager.h"
#include "scheduler/parked_sessions.h"
#include "scheduler/prefill_cost.h"
#include "scheduler/request.h"
#include "scheduler/scheduler_options.h"
#include "scheduler/sequence.h"
#include "scheduler/shrink_planner.h"
#include "scheduler/step_plan.h"
#include "scheduler/step_shares.h"
#include "scheduler/tenant.h"

namespace hydrant {

// A token, an end, or both.
struct SchedulerEvent {
  uint64_t request_id = 0;
  int32_t sequence = 0;  // free for another request from a terminal event on; meaningless when row is -1
  int32_t row =
      -1;  // of the committed plan, which may be the one behind the token's; -1: the event comes from Cancel alone
  int32_t token = -1;  // -1: no new token
  FinishReason finish = FinishReason::kNone;
  int32_t stop_token = -1;      // kStop: the id, when it is one of the request's stop_token_ids; -1 when it is an eos
  int32_t generated = 0;        // tokens so far, this one included
  int32_t live = 0;             // after the step
  int32_t budget = 0;           // in force after the step; 0: unlimited
  int32_t evicted = 0;          // tokens dropped so far, per layer and head
  int32_t blocks = 0;           // held after the step; on a terminal event: held until just now
  int32_t prompt_computed = 0;  // prompt tokens computed so far
  int32_t cached = 0;           // prompt tokens taken over from the prefix cache
  int32_t restored = 0;         // prompt tokens whose KV the session had parked
  RequestTimes times;
};

// kShared: a copy took the place of a block that others may read.
enum class FreeCause : uint8_t { kPrefill, kShrink, kPeriodic, kFinish, kCancel, kShared };
inline constexpr int32_t kFreeCauses = 6;

// Since the start; they only grow.
struct SchedulerCounters {
  uint64_t steps = 0;  // with at least one row
  uint64_t admitted = 0;
  uint64_t finished[kFinishReasons] = {};   // by FinishReason
  uint64_t freed_blocks[kFreeCauses] = {};  // by FreeCause
  uint64_t prompt_tokens = 0;               // computed
  uint64_t generated_tokens = 0;
  uint64_t evicted_tokens = 0;  // per layer and head
  uint64_t prefix_queries = 0;  // prompt tokens of admitted requests that looked for a cached prefix
  uint64_t prefix_hits = 0;     // prompt tokens found
  uint64_t shrinks = 0;         // budgets lowered
  uint64_t parks = 0;
  uint64_t restores = 0;
  uint64_t restored_tokens = 0;
};

class Scheduler {
 public:
  static constexpr double kUnbounded = 1e12;  // a cost that no step comes near

  // REQUIRES: options.Validate().ok().
  explicit Scheduler(const SchedulerOptions& options);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Queues a request. Returns the index of its sequence, stable until its terminal event, in [0, sequence_indices()).
  // Errors: INVALID_ARGUMENT (malformed), OUT_OF_RANGE (its blocks exceed what its tenant can ever have),
  // RESOURCE_EXHAUSTED (queue full; or it can only go on from what is parked, and its tenant's queue counts on as much of that
  // as its share), ALREADY_EXISTS (id in use).
  absl::StatusOr<int32_t> Add(Request request);

  // Ends a request wherever it is. Its blocks are free at once, or, when a step holds them, at that step's Commit; the
  // terminal event comes with the next Commit, or with that one. Returns false if the id is unknown or already ended, also
  // where the terminal event is still to come.
  bool Cancel(uint64_t id);

  // A paused sequence keeps its blocks and its place but gets no decode rows (a prompt is finished first). Whoever pauses
  // it resumes or cancels it. Unknown and ended ids are ignored.
  void SetPaused(uint64_t id, bool paused);

  // Bounds what the steps to come cost (prefill_cost.h), below the tokens that the options allow. For a driver that knows
  // how long tokens take. Of prompts, `alone` without decodes beside them, `beside_decodes` with; one block is computed
  // whatever it costs. `shared`: of everything, when several tenants have something to compute, and `shared_lag` such steps are
  // what one of them may catch up with at once (step_shares.h).
  struct StepLimits {
    double alone = kUnbounded;
    double beside_decodes = kUnbounded;
    double shared = kUnbounded;
    double shared_lag = 3.0;
  };
  // REQUIRES: those of prompts >= kSlotsPerBlock, shared > 0, shared_lag >= 1.
  void LimitSteps(const StepLimits& limits);

  // Replaces the options of all tenants, between any two calls. Indices stay: entry i has the name of tenant i, new
  // tenants come behind; one that is gone stays in the list, without a floor, and what it has accepted is finished.
  // REQUIRES: ValidateTenants(tenants, …).ok(), at least as many as before.
  void SetTenants(std::span<const TenantOptions> tenants);

  // While admission is paused, what runs goes on and what waits waits.
  void PauseAdmission(bool paused) { admission_paused_ = paused; }
  bool admission_paused() const { return admission_paused_; }

  // Forgets every cached prefix. Sequences in progress go on and are not found by others any more.
  void ResetPrefixes() { block_manager_.ResetPrefixes(); }

  // What the executor has to do between the steps: forget the parked KV of `drops()`, then copy out what `parks()` name.
  // REQUIRES: no plan waits for its Commit.
  std::span<const uint64_t> drops() const { return parked_.dropped(); }
  std::span<const PlanPark> parks() const { return parks_; }
  // It has been done, but for these sessions: what was to be parked for them is nowhere. The blocks of all are free.
  void FinishParks(std::span<const uint64_t> lost = {});

  // Forgets what is parked for a session. Ignored without it.
  void DropSession(uint64_t session);
  const ParkedSessions& parked() const { return parked_; }

  // REQUIRES: every plan was committed. The plan is valid until its Commit.
  const StepPlan& Plan(int64_t now_us);

  // The plan behind the one in flight, when that is nothing but one more token for everybody who goes on; their tokens are
  // kTokenInFlight. Null when it may be something else: prompts, cuts, copies of shared blocks, shrinks, a step that is divided
  // between tenants, somebody who may be let in, sessions to be moved; or when a sequence that is not `independent`, by its
  // index, would have a row: the driver needs its token first. Then the plan in flight is committed before the next is made.
  //
  // A sequence that turns out to have ended has a row all the same. What comes of that is nobody's and counted nowhere, and its
  // terminal event comes, with its last token, when the row is committed. A session's KV must then be what it was before: the
  // executor leaves the row out where the token is one of PlanRow::ends; where its text may end otherwise, and a row behind would
  // change more than the slot behind the last (a budget's scores and victims do), it is not `independent`. Nor is there a plan
  // ahead in which a session that may end in the plan in flight has no row: what is parked leaves when no plan is in flight.
  // Admission may take a step longer than without.
  // REQUIRES: one plan is in flight.
  const StepPlan* PlanAhead(absl::FunctionRef<bool(int32_t sequence)> independent);

  // The last plan made. Its spans are valid until its Commit.
  const StepPlan& plan() const { return *plan_; }

  // Of the older plan in flight. results[i] belongs to plan.rows[i]. The events are valid until the next call of Commit.
  std::span<const SchedulerEvent> Commit(const StepPlan& plan, std::span<const RowResult> results, int64_t now_us);

  int32_t running() const { return static_cast<int32_t>(running_.size()); }
  std::span<const int32_t> running_sequences() const { return running_; }  // indices, oldest first
  int32_t waiting() const { return waiting_; }
  // Nothing to compute and no event to deliver.
  bool idle() const { return running_.empty() && waiting_ == 0 && pending_events_.empty() && drops().empty(); }
  int32_t sequence_indices() const { return static_cast<int32_t>(sequences_.size()); }
  const Sequence& sequence(int32_t index) const { return sequences_[static_cast<size_t>(index)]; }
  // Where an unfinished sequence stands, as an event without a token.
  SchedulerEvent EventOf(int32_t index) const;
  const Tenant& tenant(int32_t index) const { return tenants_[static_cast<size_t>(index)]; }
  std::span<const Tenant> tenants() const { return tenants_; }
  // Requests the last Plan admitted. Valid until the next.
  std::span<const uint64_t> admitted() const { return admitted_; }
  // The request for which the last Plan lowers budgets; 0: it lowers none.
  uint64_t shrinks_for() const { return shrinks_for_; }
  const BlockManager& block_manager() const { return block_manager_; }
  const SchedulerCounters& counters() const { return counters_; }
  const SchedulerOptions& options() const { return options_; }

  // Recounts blocks, rows, queues and counters. O(everything); for tests and idle moments.
  absl::Status CheckIntegrity() const;

  // The most slots the request will occupy at once, going on from what its session has parked.
  int64_t PeakSlots(const Request& request) const;
  // Whether it goes on from what is parked, and that is sure to stay until it is admitted (ParkedSessions, invariant 4). A
  // turn beyond that goes on from it too if it is still there when its turn comes; if not, all of it is computed.
  bool KeepsPast(const Request& request) const;
  // Whether it will occupy at most `slots_max` slots at once, whatever is lost before it is admitted. Error: RESOURCE_EXHAUSTED.
  absl::Status CheckSlotsAtWorst(const Request& request, int64_t slots_max) const;

 private:
  Sequence& at(int32_t index) { return sequences_[static_cast<size_t>(index)]; }
  Tenant& tenant_of(const Sequence& sequence) { return tenants_[static_cast<size_t>(sequence.request.tenant)]; }
  absl::Status Check(const Request& request) const;
  int64_t PrivateBlocks(const Request& request) const;
  int64_t SharedBlocks(const Request& request, const Tenant& tenant);
  int64_t BlocksNeeded(const Sequence& sequence, const Tenant& tenant);
  bool counts_overlaps() const;
  void CountOverlaps();
  void AdmitWaiting(int64_t now_us);
  struct Cuts {
    int32_t keep_max = 0;
    int32_t count = 0;
  };
  Cuts CutsOf(const KvBudget& budget) const;
  bool MayShrink(const Sequence& sequence) const;
  int64_t StepsAfterNext(const Sequence& sequence) const;
  int32_t BlocksOthersUse(const Sequence& sequence) const;
  void BeginShrinkPlan();
  void AddGiver(int32_t index, std::span<const float> losses);
  void PlanShrinks();
  std::span<const int32_t> PrefillOrder();
  void Reserve(Sequence& sequence);
  const ParkedKv* Resumable(const Request& request) const;
  void Unpin(Sequence& sequence);
  void Park(int32_t index);
  void ReleaseParks(bool of_dropped_sessions);
  bool IsPlain(const StepPlan& plan) const;
  bool ContinuesPlainly(const Sequence& sequence) const;
  StepPlan& BeginPlan();
  void PlanDecode(int32_t index);
  bool fair_between_tenants() const;
  void ShareStep();
  void PlanDecodes();
  void PlanPrompts();
  int32_t PlanPrefill(int32_t index, int32_t tokens_left);
  void PlanSnapshots(const Sequence& sequence, PlanRow* row);
  void CommitRow(StepPlan& plan, int32_t row_index, const RowResult& result, int64_t now_us);
  void EndBehind(Sequence& sequence, const PlanRow& row, int32_t row_index);
  void TakeResult(StepPlan& plan, const PlanRow& row, const RowResult& result, Sequence& sequence);
  void Share(Sequence& sequence, StepPlan& plan, const PlanRow& row, bool valid);
  void ShrinkTo(Sequence& sequence, int32_t slots, FreeCause cause);
  void TakeToken(Sequence& sequence, const RowResult& result, int64_t now_us);
  SchedulerEvent MakeEvent(int32_t index, int32_t row_index, int32_t token) const;
  void Retire(int32_t index, const SchedulerEvent& last);
  absl::Status CheckTenants() const;

  SchedulerOptions options_;
  BlockManager block_manager_;
  std::vector<Tenant> tenants_;
  std::vector<Sequence> sequences_;       // [sequences_max + waiting_max], reused
  std::vector<int32_t> free_sequences_;   // stack of indices
  std::vector<int32_t> free_state_rows_;  // stack
  std::vector<int32_t> running_;          // admitted, oldest first
  std::vector<int32_t> prefilling_;       // PrefillOrder's answer
  std::vector<uint64_t> admitted_;        // request ids, by the last Plan
  int32_t waiting_ = 0;
  std::vector<double> overlaps_;  // [tenant], of CountOverlaps
  uint64_t arrivals_ = 0;
  bool admission_paused_ = false;
  Turns turns_;
  HeadOf head_of_;  // asks this scheduler; made once
  PrefillCost prefill_cost_;
  StepLimits limits_;
  StepShares step_shares_;
  uint64_t rows_ = 0;                                // planned so far
  std::vector<int32_t> decoding_;                    // PlanDecodes' order
  absl::flat_hash_map<uint64_t, int32_t> index_of_;  // request id -> sequence; touched by Add, Cancel and ends only

  ParkedSessions parked_;
  std::vector<PlanPark> parks_;
  std::vector<BlockTable> parking_tables_;  // of parks_

  Blocked blocked_;  // by the last Plan's admission
  ShrinkPlanner shrink_planner_;
  uint64_t shrinks_for_ = 0;

  PrefixMatch match_;                           // of the admission in progress
  std::array<StepPlan, 2> plans_;               // in turn
  StepPlan* plan_ = &plans_[0];                 // the last one made
  int32_t planned_ = 0;                         // plans in flight: they wait for their Commits
  std::vector<SchedulerEvent> pending_events_;  // of cancelled sequences, for the next Commit
  std::vector<SchedulerEvent> events_;          // of the last Commit
  SchedulerCounters counters_;
};

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_SCHEDULER_H_
