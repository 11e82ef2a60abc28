// ElasticBudgets lowers budgets whose requests agreed, when the head of line waits for blocks.
//
// It takes three steps: one asks the candidates' rows what a lower budget would cost them, the next one's rows are cut, and with
// the one behind it the head of line is let in. Each step decides anew, from the counts as they are.
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
#include "scheduler/sequence_table.h"
#include "scheduler/shrink_planner.h"
#include "scheduler/tenant_list.h"

namespace hydrant {

class ElasticBudgets {
 public:
  // The arguments outlive this.
  ElasticBudgets(SequenceTable& sequences, const TenantList& tenants, const BlockManager& block_manager)
      : sequences_(sequences), tenants_(tenants), block_manager_(block_manager) {}

  // Decides what the rows of step number `step` ask and lower for the head of line that `blocked` names.
  void Plan(const Blocked& blocked, uint64_t step);

  // Whether any budget may fall in the next step; and whether as many may as wins what `blocked` misses.
  bool AnybodyMayLower() const;
  bool CanWin(const Blocked& blocked);

  // The request for which the last Plan lowers budgets; 0: it lowers none.
  uint64_t lowers_for() const { return lowers_for_; }

 private:
  static bool MayLower(const Sequence& sequence);
  int32_t BlocksOthersUse(const Sequence& sequence) const;
  void BeginPlan(const Blocked& blocked);
  void AddGiver(int32_t index, std::span<const float> losses);

  SequenceTable& sequences_;
  const TenantList& tenants_;
  const BlockManager& block_manager_;
  ShrinkPlanner planner_;
  uint64_t lowers_for_ = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_ELASTIC_BUDGETS_H_
