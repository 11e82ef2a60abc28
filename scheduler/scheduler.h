// Scheduler decides what every step computes: it admits requests when their memory is certain, gives every decoding
// sequence its token, fills the rest of the step with prefill chunks, and turns the results into events.
//
// It is what a driver calls. Its parts do the work, each with state of its own:
//   Admission    lets waiting requests in, or has budgets lowered for who cannot be let in (ElasticBudgets)
//   StepBuilder  makes the plans: rows, their order, shares of tenants, chunks of prompts
//   StepCommit   takes what a step found out, ends sequences and makes events
//   Parking      keeps sessions' KV on its way out of the pool and back
// What they share is the SequenceTable, the TenantList, the BlockManager and the SchedulerCounters. Who of them changes which
// field of a sequence is said in sequence.h.
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
//  5. Prefill chunks end on multiples of kBlockSlots slots, those aside that end a prompt or come before a cut in it.
//  6. A budget is lowered only while somebody waits for blocks who is let in for it, never below its floor, and never raised.
//  7. Counts do not depend on data, but for which of several elastic budgets falls: what a plan frees is decided when it is
//     made, and freed when it is committed.
//
// In steady state Plan and Commit allocate nothing.
#ifndef HYDRANT_SCHEDULER_SCHEDULER_H_
#define HYDRANT_SCHEDULER_SCHEDULER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "block_manager/block_manager.h"
#include "scheduler/admission.h"
#include "scheduler/parked_sessions.h"
#include "scheduler/parking.h"
#include "scheduler/request.h"
#include "scheduler/scheduler_counters.h"
#include "scheduler/scheduler_options.h"
#include "scheduler/sequence.h"
#include "scheduler/sequence_event.h"
#include "scheduler/sequence_table.h"
#include "scheduler/step_builder.h"
#include "scheduler/step_commit.h"
#include "scheduler/step_limits.h"
#include "scheduler/step_plan.h"
#include "scheduler/tenant.h"
#include "scheduler/tenant_list.h"

namespace hydrant {

class Scheduler {
 public:
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

  // Bounds the steps to come. REQUIRES: the limits are as step_limits.h says.
  void LimitSteps(const StepLimits& limits) { builder_.Limit(limits); }

  // Replaces the options of all tenants, between any two calls. Indices stay: entry i has the name of tenant i, new
  // tenants come behind; one that is gone stays in the list, without a floor, and what it has accepted is finished.
  // REQUIRES: ValidateTenants(tenants, …).ok(), at least as many as before.
  void SetTenants(std::span<const TenantOptions> tenants) { tenants_.Set(tenants); }

  // While admission is paused, what runs goes on and what waits waits.
  void PauseAdmission(bool paused) { admission_.Pause(paused); }
  bool admission_paused() const { return admission_.paused(); }

  // Forgets every cached prefix. Sequences in progress go on and are not found by others any more.
  void ResetPrefixes() { block_manager_.ResetPrefixes(); }

  // What the executor has to do between the steps: forget the parked KV of `drops()`, then copy out what `parks()` name.
  // REQUIRES: no plan waits for its Commit.
  std::span<const uint64_t> drops() const { return parking_.drops(); }
  std::span<const PlanPark> parks() const { return parking_.parks(); }
  // It has been done, but for these sessions: what was to be parked for them is nowhere. The blocks of all are free.
  void FinishParks(std::span<const uint64_t> lost = {}) { parking_.Finish(lost); }

  // Forgets what is parked for a session. Ignored without it.
  void DropSession(uint64_t session) { parking_.Drop(session); }
  const ParkedSessions& parked() const { return parking_.sessions(); }

  // REQUIRES: every plan was committed. The plan is valid until its Commit.
  const StepPlan& Plan(int64_t now_us);

  // The plan behind the one in flight, when that is nothing but one more token for everybody who goes on; their tokens are
  // kSampledId. Null when it may be something else: prompts, cuts, copies of shared blocks, shrinks, a step that is divided
  // between tenants, somebody who may be let in, sessions to be moved; or when a sequence that is not `independent`, by its
  // index, would have a row: the driver needs its token first. Then the plan in flight is committed before the next is made.
  //
  // A sequence that turns out to have ended has a row all the same. What comes of that is nobody's and counted nowhere, and its
  // terminal event comes, with its last token, when the row is committed. A session's KV must then be what it was before: the
  // executor leaves the row out where the token is one of PlanRow::stop_ids; where its text may end otherwise, and a row behind would
  // change more than the slot behind the last (a budget's scores and victims do), it is not `independent`. Nor is there a plan
  // ahead in which a session that may end in the plan in flight has no row: what is parked leaves when no plan is in flight.
  // Admission may take a step longer than without.
  // REQUIRES: one plan is in flight.
  const StepPlan* PlanAhead(absl::FunctionRef<bool(int32_t sequence)> independent);

  // The last plan made. Its spans are valid until its Commit.
  const StepPlan& plan() const { return builder_.plan(); }

  // Commits the older plan in flight. results[i] belongs to plan.rows[i]. The events are valid until the next call of Commit.
  std::span<const SequenceEvent> Commit(const StepPlan& plan, std::span<const RowResult> results, int64_t now_us);

  int32_t running() const { return static_cast<int32_t>(sequences_.running().size()); }
  std::span<const int32_t> running_sequences() const { return sequences_.running(); }  // indices, oldest first
  int32_t waiting() const { return admission_.waiting(); }
  // Nothing to compute and no event to deliver.
  bool idle() const { return running() == 0 && waiting() == 0 && !commit_.has_pending() && drops().empty(); }
  int32_t sequence_indices() const { return sequences_.size(); }
  const Sequence& sequence(int32_t index) const { return sequences_.at(index); }
  // Where an unfinished sequence stands, as an event without a token.
  SequenceEvent EventOf(int32_t index) const { return commit_.EventOf(index); }
  const Tenant& tenant(int32_t index) const { return tenants_.at(index); }
  std::span<const Tenant> tenants() const { return tenants_.all(); }
  // Requests the last Plan admitted. Valid until the next.
  std::span<const uint64_t> admitted() const { return admission_.admitted(); }
  // The request for which the last Plan lowers budgets; 0: it lowers none.
  uint64_t shrinks_for() const { return admission_.lowers_for(); }
  const BlockManager& block_manager() const { return block_manager_; }
  const SchedulerCounters& counters() const { return counters_; }

  // Recounts blocks, rows, queues and counters. O(everything); for tests and idle moments.
  absl::Status CheckIntegrity() const;

  // The most slots the request will occupy at once, going on from what its session has parked.
  int64_t PeakSlots(const Request& request) const { return admission_.PeakSlots(request); }
  // Whether it goes on from what is parked, and that is sure to stay until it is admitted (ParkedSessions, invariant 4). A
  // turn beyond that goes on from it too if it is still there when its turn comes; if not, all of it is computed.
  bool KeepsPast(const Request& request) const { return parking_.KeepsPast(request); }
  // Whether it will occupy at most `slots_max` slots at once, whatever is lost before it is admitted. Error: RESOURCE_EXHAUSTED.
  absl::Status CheckSlotsAtWorst(const Request& request, int64_t slots_max) const {
    return admission_.CheckSlotsAtWorst(request, slots_max);
  }

 private:
  const std::vector<int32_t> eos_ids_;
  SchedulerCounters counters_;
  BlockManager block_manager_;
  SequenceTable sequences_;
  TenantList tenants_;
  Parking parking_;
  Admission admission_;
  StepBuilder builder_;
  StepCommit commit_;
};

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_SCHEDULER_H_
