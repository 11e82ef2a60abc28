// StepCommit takes the results of a step: it advances the step's sequences, publishes blocks, returns blocks to the
// pool, ends the sequences that are complete, and reports all of it as events.
//
// Thread: engine. Pure. In steady state it allocates nothing.
//
// Invariants
//  1. Every request gets exactly one terminal event and nothing after it. When it is delivered, its blocks and its state row are
//     free, or its blocks are Parking's.
//  2. A sequence with a row in flight is not ended: it is retired (Sequence::finish), and ends with the last of these
//     rows. Of such a row only the cache contents count; its token is discarded.
//  3. What a row frees was decided when it was planned.
#ifndef HYDRANT_SCHEDULER_STEP_COMMIT_H_
#define HYDRANT_SCHEDULER_STEP_COMMIT_H_

#include <cstdint>
#include <span>
#include <vector>

#include "block_manager/block_manager.h"
#include "scheduler/parking.h"
#include "scheduler/request/sequence_event.h"
#include "scheduler/scheduler_counters.h"
#include "scheduler/sequence_table.h"
#include "scheduler/step_plan.h"
#include "scheduler/swapping.h"
#include "scheduler/tenant_list.h"

namespace hydrant {

class StepCommit {
 public:
  // The references outlive this. `eos_ids` end a sequence that does not ignore them. `drafts_max`: of a plan.
  StepCommit(std::span<const int32_t> eos_ids, SequenceTable& sequences, TenantList& tenants,
             BlockManager& block_manager, Parking& parking, Swapping& swapping, int32_t drafts_max,
             SchedulerCounters& counters);
  StepCommit(const StepCommit&) = delete;
  StepCommit& operator=(const StepCommit&) = delete;

  // results[i] belongs to plan.rows[i]. `more_in_flight`: the plan after this one is in flight, too. The events are
  // valid until the next call: those of End first, then those of the rows in their order.
  std::span<const SequenceEvent> Take(StepPlan& plan, std::span<const RowResult> results, bool more_in_flight,
                                      int64_t now_us);

  // Ends a sequence that no step holds; its event comes with the next Take. REQUIRES: it is retired, and in no queue.
  void End(int32_t index);
  // Whether the next Take has events of End.
  bool has_pending() const { return !pending_.empty(); }

  // The progress of an unfinished sequence, as an event without a token.
  SequenceEvent EventOf(int32_t index) const { return MakeEvent(index, -1, -1); }

 private:
  void TakeRow(StepPlan& plan, int32_t row_index, const RowResult& result, int64_t now_us);
  void DropRowAfterFinish(Sequence& sequence, const PlanRow& row, int32_t row_index);
  void TakeResult(StepPlan& plan, const PlanRow& row, const RowResult& result, Sequence& sequence);
  void Share(Sequence& sequence, StepPlan& plan, const PlanRow& row, bool valid);
  void ShrinkTo(Sequence& sequence, int32_t slots, FreeCause cause);
  void TakeToken(Sequence& sequence, int32_t token, FinishReason end, int64_t now_us);
  void Reject(Sequence& sequence, const PlanRow& row, const RowResult& result);
  void TakeMore(StepPlan& plan, int32_t row_index, const RowResult& result, int64_t now_us);
  SequenceEvent MakeEvent(int32_t index, int32_t row_index, int32_t token) const;
  void Retire(int32_t index, const SequenceEvent& last);

  const std::span<const int32_t> eos_ids_;
  SequenceTable& sequences_;
  TenantList& tenants_;
  BlockManager& block_manager_;
  Parking& parking_;
  Swapping& swapping_;
  SchedulerCounters& counters_;

  bool more_in_flight_ = false;         // in the Take in progress
  std::vector<SequenceEvent> pending_;  // of End, for the next Take
  std::vector<SequenceEvent> events_;   // of the last Take
};

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_STEP_COMMIT_H_
