// ElasticBudgets lowers budgets whose requests agreed, when the head of line waits for blocks, or when a sequence that grows
// would have another one step aside (swapping.h).
//
// This takes three steps. The first asks the candidates' rows what a lower budget would cost them, the second cuts the
// chosen rows, and with the third the head of line is admitted, or the sequence has its blocks. Each step decides anew,
// from the counts at that time.
//
// Thread: engine. Pure. Keeps its memory from step to step.
//
// It writes Sequence::asks_losses and Sequence::lower_to, which the sequence's next row obeys; the answers it finds in
// Sequence::losses are those of the step before.
#ifndef HYDRANT_SCHEDULER_ELASTIC_BUDGETS_H_
#define HYDRANT_SCHEDULER_ELASTIC_BUDGETS_H_

#include <cstdint>
#include <span>

#include "block_manager/block_manager.h"
#include "scheduler/fairness/shrink_planner.h"
#include "scheduler/parking.h"
#include "scheduler/sequence_table.h"
#include "scheduler/tenant_list.h"

namespace hydrant {

class ElasticBudgets {
 public:
  // The arguments outlive this.
  ElasticBudgets(SequenceTable& sequences, const TenantList& tenants, const BlockManager& block_manager,
                 const Parking& parking)
      : sequences_(sequences), tenants_(tenants), block_manager_(block_manager), parking_(parking) {}

  // Decides which rows of step number `step` measure losses, and which lower their budget, for `request`, which misses what
  // `blocked` says.
  void Plan(const Blocked& blocked, uint64_t request, uint64_t step);

  void LowerNothing() { lowers_for_ = 0; }

  // Whether any budget may fall in the next step; and whether as many may as wins what `blocked` misses, as far as the host has
  // memory to find that out.
  bool AnybodyMayLower() const;
  bool CanGain(const Blocked& blocked);

  // The request for which the last Plan lowers budgets; 0: it lowers none.
  uint64_t lowers_for() const { return lowers_for_; }

 private:
  static bool MayLower(const Sequence& sequence);
  int32_t BlocksOthersUse(const Sequence& sequence, const Blocked& blocked) const;
  void BeginPlan(const Blocked& blocked, bool later);
  bool RoomComes(const Blocked& blocked);
  bool PlanCuts(const Blocked& blocked, uint64_t request, uint64_t step);
  void AddCandidate(int32_t index, std::span<const float> losses, const Blocked& blocked);

  SequenceTable& sequences_;
  const TenantList& tenants_;
  const BlockManager& block_manager_;
  const Parking& parking_;
  ShrinkPlanner planner_;
  uint64_t lowers_for_ = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_ELASTIC_BUDGETS_H_
