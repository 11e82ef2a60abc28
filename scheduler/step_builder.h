// StepBuilder makes the plans of steps: who has rows, in which order, and what each row computes. It gives every decoding sequence
// its token, fills the rest of the step with chunks of prompts, and divides it between tenants where several have something to
// compute (step_shares.h). It owns the plans from their making to their commit.
//
// Thread: engine. Pure.
//
// Invariants
//  1. At most two plans are in flight. They are committed in the order in which they were made.
//  2. A row's counts are taken when it is planned: Sequence::scheduled, live and in_flight, the blocks it fills, and its tenant's
//     charge for prompt tokens. So is the charge for what a plan restores. StepCommit takes the step's results.
//  3. Every decoding sequence that continues has a row. In a divided step every tenant with such sequences has at least
//     one row, and among a tenant's sequences the one whose last row is longest ago goes first.
//  4. If there are prompts to compute whose sequences have their restored KV, a step has at least one chunk. Tenants
//     take turns (Tenant::prefilled), and among a tenant's prompts the one admitted longest ago goes first.
//  5. Chunks end on multiples of kBlockSlots slots, except those that end a prompt or come before a cut in it.
#ifndef HYDRANT_SCHEDULER_STEP_BUILDER_H_
#define HYDRANT_SCHEDULER_STEP_BUILDER_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "block_manager/block_manager.h"
#include "scheduler/fairness/step_shares.h"
#include "scheduler/prefill_cost.h"
#include "scheduler/scheduler_options.h"
#include "scheduler/sequence_table.h"
#include "scheduler/step_limits.h"
#include "scheduler/step_plan.h"
#include "scheduler/tenant_list.h"

namespace hydrant {

class StepBuilder {
 public:
  // The references outlive this. Of `options` only the limits of steps are read.
  StepBuilder(const SchedulerOptions& options, SequenceTable& sequences, TenantList& tenants,
              BlockManager& block_manager);
  StepBuilder(const StepBuilder&) = delete;
  StepBuilder& operator=(const StepBuilder&) = delete;

  // Takes the memory that plans for so many tenants need.
  void ReserveTenants(size_t tenants) { step_shares_.Reserve(tenants); }

  // REQUIRES: the limits are as step_limits.h says.
  void Limit(const StepLimits& limits);

  // An empty plan, in flight from now on. REQUIRES: none is.
  StepPlan& Begin();
  // So many blocks were parked or swapped out for the tenant: it is charged what they cost, and has so much less of the steps that
  // are divided. Blocks that come back are charged with the plan.
  void ChargeMove(int32_t tenant, int64_t blocks);

  // Adds the rows to the plan. `somebody_is_blocked`: a request waits for blocks and nothing else, so sequences about
  // to end are not deferred.
  void AddRows(bool somebody_is_blocked);
  // A plan with one more token for every sequence that continues, after the only one in flight; null if the step would
  // have to be divided between tenants. REQUIRES: LookAhead says that the step is plain, and no request may be admitted
  // in it.
  const StepPlan* PlanAhead();

  // The plan is over; its contents stay until its place is needed again. REQUIRES: it is the older one in flight.
  StepPlan& Finish(const StepPlan& plan);

  // Whether a step has room for the last Request::tail_tokens of a prompt, whatever else is in it.
  absl::Status CheckTail(const Request& request) const;

  // The last plan made.
  const StepPlan& plan() const { return *plan_; }
  int32_t in_flight() const { return in_flight_; }

 private:
  StepPlan& NextPlan();
  void ShareStep();
  void PlanDecodes(bool somebody_is_blocked);
  int32_t DraftsOf(const Sequence& sequence) const;
  void PlanDecode(int32_t index, int32_t drafts);
  std::span<const int32_t> PrefillOrder();
  void PlanPrompts();
  int32_t PlanPrefill(int32_t index, int32_t tokens_left);
  void PlanSnapshots(const Sequence& sequence, PlanRow* row);
  bool PlanSnapshot(const Sequence& sequence, int32_t slots);
  std::vector<int32_t> TakeHistoryScores(int32_t slots);
  bool KeepHistoryScores(int32_t slots, std::vector<int32_t>* score_blocks);

  const int32_t tokens_max_;          // in one step
  const int32_t tail_tokens_max_;     // Request::tail_tokens
  const int32_t prefill_tokens_max_;  // beside decodes
  const int32_t drafts_max_;          // beside those
  const PrefillCost prefill_cost_;
  SequenceTable& sequences_;
  TenantList& tenants_;
  BlockManager& block_manager_;

  StepLimits limits_;
  StepShares step_shares_;
  std::array<StepPlan, 2> plans_;    // in turn
  StepPlan* plan_ = &plans_[0];      // the last one made
  int32_t in_flight_ = 0;            // of plans_
  uint64_t rows_ = 0;                // planned so far
  std::vector<int32_t> decoding_;    // scratch of PlanDecodes: its order
  std::vector<int32_t> prefilling_;  // PrefillOrder's answer
};

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_STEP_BUILDER_H_
