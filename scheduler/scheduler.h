// Scheduler decides what every step computes: it admits requests when their memory is certain, gives every decoding
// sequence its token, fills the rest of the step with prefill chunks, and turns the results into events.
//
// It is what a driver calls. Its parts do the work, each with state of its own:
//   Admission    admits waiting requests, or has budgets lowered for one that does not fit (ElasticBudgets)
//   StepBuilder  makes the plans: rows, their order, shares of tenants, chunks of prompts
//   StepCommit   takes a step's results, ends sequences and makes events
//   Parking      keeps sessions' KV on its way out of the pool and back
//   Swapping     gives blocks to those that grow, and has others step aside for them
// What they share is the SequenceTable, the TenantList, the BlockManager and the SchedulerCounters. sequence.h says
// which of them changes which field of a sequence.
//
// Thread: engine. Pure: no clock (`now_us` is an argument), no I/O, no device. Use: Plan, run the plan, Commit, again
// and again; Add and Cancel between any two calls, also between Plan and Commit. A step with nothing to do has no rows
// and is committed all the same (it delivers the events of Cancel).
//
// Between Plan and Commit the next plan may be made if it does not depend on the results of the first (PlanAhead). Two
// plans are in flight then. After the older one is committed, another may be planned ahead. Plans are committed in the
// order in which they were made.
//
// Invariants
//  1. Every added request gets exactly one terminal event, whatever happens to it, and nothing after it.
//  2. When the terminal event is delivered its blocks and its state row are free.
//  3. Every decoding sequence that is not paused has a row in every step. A plan ahead has a row for every sequence
//     that continues as far as is known; if the sequence turns out to have ended in the step before, this row is its
//     last. In a step that is divided between tenants (step_shares.h) every tenant with decoding sequences has at least
//     one row, and among a tenant's sequences the one whose last row is longest ago goes first. If there are prompts to
//     compute, a step has at least one chunk: tenants take turns (tenant.h), and among a tenant's prompts the one
//     admitted longest ago goes first. So every admitted sequence advances, whatever else runs.
//  4. Within a tenant, admission goes by priority and then by arrival. Between tenants tenant.h gives the order, and
//     the reason why no request waits for ever: with invariant 3, a request waits at most as long as the sequences
//     before it need to reach their max_tokens.
//  5. Prefill chunks end on multiples of kBlockSlots slots, except those that end a prompt or come before a cut in it. None ends
//     within the last Request::tail_tokens of a prompt.
//  6. A budget is lowered only if this admits a request that waits for blocks: it is admitted by the next Plan, before any
//     other, unless it is cancelled or comes to need more (SetTenants, ResetPrefixes, DropSession); or, where sequences step
//     aside, if this wins all that a tenant's sequences miss to go on; there those that run have what was won for a request if
//     admission is paused before that Plan. A budget never falls below its floor, and is never raised.
//  7. Counts do not depend on data, with one exception: which of several elastic budgets falls. What a plan frees is
//     decided when the plan is made, and freed when it is committed.
//  8. A plan and the parks after it move at most StepLimits::blocks_moved_max blocks of sessions' KV. A sequence has no
//     row before all that its session had parked is back, so a step may have slices of KV and no rows.
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
#include "scheduler/fairness/tenant.h"
#include "scheduler/parked_sessions.h"
#include "scheduler/parking.h"
#include "scheduler/request/request.h"
#include "scheduler/request/sequence_event.h"
#include "scheduler/scheduler_counters.h"
#include "scheduler/scheduler_options.h"
#include "scheduler/sequence.h"
#include "scheduler/sequence_table.h"
#include "scheduler/step_builder.h"
#include "scheduler/step_commit.h"
#include "scheduler/step_limits.h"
#include "scheduler/step_plan.h"
#include "scheduler/swapping.h"
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
  // RESOURCE_EXHAUSTED (queue full; or the request fits only if it continues from its session's parked KV, and its
  // tenant's waiting requests have pinned the tenant's share of parked KV already), ALREADY_EXISTS (id in use), UNAVAILABLE
  // (Request::needs_past, and it is not parked). Throws
  // std::bad_alloc if the host has no memory for it, and then nothing has happened. What is accepted has all the memory
  // of the host that its admission takes.
  absl::StatusOr<int32_t> Add(Request request);

  // Ends a request, whether it waits or runs. Its blocks are free at once or, if a step holds them, at that step's
  // Commit; the terminal event comes with the next Commit, or with that one. Returns false if the id is unknown or the
  // request has ended, even if its terminal event is still to come.
  bool Cancel(uint64_t id);
  // The index of a request that has not ended; -1 without one.
  int32_t Find(uint64_t id) const { return sequences_.Find(id); }

  // A paused sequence keeps its blocks and its place but gets no decode rows (a prompt is finished first). The caller
  // that pauses it must resume or cancel it. Unknown and ended ids are ignored.
  void SetPaused(uint64_t id, bool paused);

  // Bounds the steps to come. REQUIRES: the limits are as step_limits.h says.
  void LimitSteps(const StepLimits& limits) {
    builder_.Limit(limits);
    blocks_moved_max_ = limits.blocks_moved_max;
  }

  // Replaces the options of all tenants, between any two calls. Indices stay: entry i has the name of tenant i, and new
  // tenants are appended. A removed tenant stays in the list without a floor, and its accepted requests are finished.
  // REQUIRES: ValidateTenants(tenants, …).ok(), at least as many as before.
  void SetTenants(std::span<const TenantOptions> tenants);

  // While admission is paused, running sequences continue and no waiting one is admitted.
  void PauseAdmission(bool paused) { admission_.Pause(paused); }
  bool admission_paused() const { return admission_.paused(); }

  // Forgets every cached prefix. Sequences in progress continue, and later prompts do not find their blocks.
  void ResetPrefixes() { block_manager_.ResetPrefixes(); }

  // The executor's work between two steps: first forget the parked KV of the turns in drops(), then copy out the slices
  // of KV that parks() lists (Parking::parks).
  // REQUIRES: no plan waits for its Commit.
  std::span<const TurnId> drops() const { return parking_.drops(); }
  std::span<const PlanPark> parks() const { return parking_.parks(); }
  // Parking::Finish and Fail. Tenants are charged for what was moved (StepLimits::block_moved).
  void FinishParks(std::span<const TurnId> lost = {});
  void FailParks() { parking_.Fail(); }
  // Parking::FindPark.
  const PlanPark* FindPark(const TurnId& id) const { return parking_.FindPark(id); }

  // The same for sequences that step aside (Swapping::outs, drops): the executor forgets what it has of swap_drops(), and then
  // copies out the slices of swap_outs(). Those in `lost`, for which it had no memory to begin, end with kNoMemory.
  // REQUIRES: no plan waits for its Commit.
  std::span<const uint64_t> swap_drops() const { return swapping_.drops(); }
  std::span<const PlanSwapOut> swap_outs() const { return swapping_.outs(); }
  void FinishSwaps(std::span<const uint64_t> lost = {});
  void FailSwaps();
  // The plan's step, which was to bring KV of the sequence back, failed: the driver lets its next row fail. REQUIRES: the plan is in
  // flight and has a PlanSwapIn of it.
  void LoseReturn(int32_t sequence) { swapping_.LoseReturn(sequence); }
  const Swapping& swapping() const { return swapping_; }

  // Whoever made the turn's request says whether the session goes on from it (`keep`): then the parked KV of the turn
  // before is forgotten, else this turn's is, and it is not parked if it is still to end. Until then both stay.
  // REQUIRES: with `keep` the turn's terminal event was delivered; without, its request is cancelled before the next
  // Plan if it has not ended.
  void SettleTurn(const TurnId& id, bool keep);

  // Forgets a session's parked KV. Does nothing if there is none.
  void DropSession(uint64_t session) { parking_.DropSession(session); }
  const ParkedSessions& parked() const { return parking_.sessions(); }
  // Parking::Adopt. The caller sees to it that the executor has the bytes.
  bool AdoptParked(const ParkedCounts& kv) { return parking_.Adopt(kv); }

  // Guesses the tokens that follow the last one of a running sequence: its row in the next plan computes as many of them beside it
  // as there is room for, none where it has something else to do, and RowResult::more says which were right. Whatever is guessed, the
  // sequence gets the same tokens and the same slots. Throws std::bad_alloc, and then the sequence has no drafts. REQUIRES: no plan is
  // in flight; the tokens are in the vocabulary.
  void Draft(int32_t sequence, std::span<const int32_t> tokens);
  // For Draft: SequenceTable::RowsForDrafts.
  int32_t RowsForDrafts() const { return sequences_.RowsForDrafts(); }

  // REQUIRES: every plan was committed. The plan is valid until its Commit.
  const StepPlan& Plan(int64_t now_us);

  // Plans the step after the one in flight if that step is one more token for every sequence that continues and nothing
  // else; the rows' tokens are kSampledId. Returns null if the step may have prompts, cuts, copies of shared blocks,
  // shrinks, a division between tenants, an admission or sessions to move, if KV waits to be moved, or if a sequence
  // for which `can_plan_ahead(index)` is false would have a row: the driver needs its token first. After null the plan
  // in flight must be committed before the next one is made.
  //
  // A sequence that ends in the step before still has a row in the plan ahead. The row's result is discarded and
  // counted nowhere, and the sequence's terminal event comes, with its last token, when the row is committed. The row
  // must leave no trace in a session's KV: the executor skips it if the token before it is one of PlanRow::stop_ids. If
  // the text may end in another way (a stop string) and the row would change more than the slot after the last one
  // (under a budget it changes scores and the victim), `can_plan_ahead` must be false for the sequence. There is no plan
  // ahead, either, if a session's turn may end in the plan in flight and has no row in the next one: its KV leaves the
  // pool only when no plan is in flight. Admission may come a step later than without planning ahead.
  // REQUIRES: one plan is in flight.
  const StepPlan* PlanAhead(absl::FunctionRef<bool(int32_t sequence)> can_plan_ahead);

  // The last plan made. Its spans are valid until its Commit.
  const StepPlan& plan() const { return builder_.plan(); }

  // Commits the older plan in flight. results[i] belongs to plan.rows[i]. The events are valid until the next call of Commit.
  std::span<const SequenceEvent> Commit(const StepPlan& plan, std::span<const RowResult> results, int64_t now_us);

  int32_t running() const { return static_cast<int32_t>(sequences_.running().size()); }
  std::span<const int32_t> running_sequences() const { return sequences_.running(); }  // indices, oldest first
  int32_t waiting() const { return admission_.waiting(); }
  // Every request has its terminal event.
  bool all_ended() const { return running() == 0 && waiting() == 0 && !commit_.has_pending(); }
  // KV waits to leave the pool or to come back: the next step does some of it, though it may have no rows.
  bool moving() const { return parking_.moving() || swapping_.moving(); }
  // Admission::patience.
  int64_t patience() const { return admission_.patience(); }
  // Nothing to compute or to move, and no event to deliver.
  bool idle() const { return all_ended() && !moving() && drops().empty() && swap_drops().empty(); }
  int32_t sequence_indices() const { return sequences_.size(); }
  const Sequence& sequence(int32_t index) const { return sequences_.at(index); }
  // The progress of an unfinished sequence, as an event without a token.
  SequenceEvent EventOf(int32_t index) const { return commit_.EventOf(index); }
  const Tenant& tenant(int32_t index) const { return tenants_.at(index); }
  std::span<const Tenant> tenants() const { return tenants_.all(); }
  // Requests the last Plan admitted. Valid until the next.
  std::span<const uint64_t> admitted() const { return admission_.admitted(); }
  // The request for which the last Plan lowers budgets, which waits or runs; 0 if it lowers none.
  uint64_t shrinks_for() const { return admission_.lowers_for(); }
  const BlockManager& block_manager() const { return block_manager_; }
  const SchedulerCounters& counters() const { return counters_; }

  // Recounts blocks, rows, queues and counters. O(everything); for tests and idle moments.
  absl::Status CheckIntegrity() const;

  // The most slots that the request will occupy at once if it continues from its session's parked KV.
  int64_t PeakSlots(const Request& request) const { return admission_.PeakSlots(request); }
  // True if the request continues from its session's parked KV and that KV is sure to stay until the request is
  // admitted (ParkedSessions, invariant 4). Without that certainty the request still continues from it if it is there
  // at admission; otherwise its whole prompt is computed.
  bool KeepsPast(const Request& request) const { return parking_.KeepsPast(request); }
  // OK if the request will occupy at most `slots_max` slots at once even if its session's parked KV is lost before it
  // is admitted. Error: RESOURCE_EXHAUSTED.
  absl::Status CheckSlotsAtWorst(const Request& request, int64_t slots_max) const {
    return admission_.CheckSlotsAtWorst(request, slots_max);
  }

 private:
  void EndWithoutMemory(uint64_t id);
  void EndWithoutPast();

  const std::vector<int32_t> eos_ids_;
  SchedulerCounters counters_;
  BlockManager block_manager_;
  SequenceTable sequences_;
  TenantList tenants_;
  Parking parking_;
  ElasticBudgets elastic_;
  Swapping swapping_;
  Admission admission_;
  StepBuilder builder_;
  StepCommit commit_;
  int64_t blocks_moved_max_ = StepLimits().blocks_moved_max;
  bool swaps_ = false;  // with the last plan, and after it, moves KV of sequences that step aside and nobody else's
};

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_SCHEDULER_H_
