// SwapChecks holds what steps aside against what may (scheduler/swapping.h): who is chosen, for whom, how often, who is
// let in meanwhile, and that budgets fall first that agreed to it. It sees the places of the sequences after every plan and what changed since the one before.
#ifndef HYDRANT_TESTS_SIM_SWAP_CHECKS_H_
#define HYDRANT_TESTS_SIM_SWAP_CHECKS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "scheduler/scheduler.h"
#include "tests/sim/failure.h"
#include "tests/sim/sim_request.h"
#include "tests/sim/workload.h"

namespace hydrant::sim {

class SwapChecks {
 public:
  // All outlive the checks.
  SwapChecks(const Workload& workload, const std::vector<std::unique_ptr<SimRequest>>& requests, Failure& failure)
      : workload_(workload), requests_(requests), failure_(failure) {}

  // From now on a step moves so much at most, or else whatever there is.
  void LimitMoves(bool limited) { moves_limited_ = limited; }
  // A plan was made. `as_planned`: it was not committed since.
  void AfterPlan(const Scheduler& scheduler, bool as_planned);
  // What leaves is about to be copied. `victim_pays`: a planted bug.
  void BeforeMoves(const Scheduler& scheduler, bool victim_pays);
  // Between two steps. `outside`: blocks that the executor has of sequences.
  void AfterStep(const Scheduler& scheduler, int64_t outside);

  // Blocks of the pool that no other tenant has for its floor.
  int64_t BesideFloors(int32_t tenant) const;
  uint64_t chosen() const { return chosen_; }
  uint64_t budget_checks() const {
    return budget_checks_;
  }  // times somebody was chosen while budgets could fall a little
  uint64_t share_checks() const { return share_checks_; }   // times somebody was chosen of several tenants'
  int64_t due_plans_max() const { return due_plans_max_; }  // the longest that a head of line was due
  int64_t outside_max() const { return outside_max_; }      // plans in a row that a sequence was outside
  int32_t swaps_max() const { return swaps_max_; }          // times that one stepped aside
  uint64_t held_up() const { return held_up_; }             // times that a stream in the pool waited for others' moves
  // Plans in which one had no slot whose peak has no room beside others' floors.
  uint64_t floor_waits() const { return floor_waits_; }
  int64_t held_up_max() const {
    return held_up_max_;
  }                                            // plans in a row that a stream in the pool waited for others' moves
  uint64_t passed() const { return passed_; }  // requests let in while another tenant's waited outside
  uint64_t row_waits() const { return row_waits_; }                // plans in which one was due and no row was free
  uint64_t due_heads() const { return due_heads_; }                // heads of line that were due for longer than a plan
  uint64_t admission_checks() const { return admission_checks_; }  // times somebody was outside and somebody waited

 private:
  // What is known of a sequence in progress, by the id of its request.
  struct Known {
    KvPlace place = KvPlace::kPool;
    int32_t came_back_at = -1;      // tokens computed then
    std::vector<int32_t> for_whom;  // as it was chosen: tenants that lacked something
    int64_t outside_plans = 0;      // in a row, its reader not behind
    int64_t outside_all = 0;        // in a row, whatever its reader
    int64_t could_return = 0;       // of them, in a row, those in which a rested one of its tenant could have made room
    int32_t swaps = 0;
    uint64_t chosen_as = 0;   // the number of the plan
    int64_t held_up = 0;      // plans in a row in which it had no slot while somebody was on the way out or back
    int32_t gives_plans = 0;  // plans in a row in which its budget could fall
  };

  void CheckAnchor(const Scheduler& scheduler);
  void CheckHeldUp(const Scheduler& scheduler, const Sequence& sequence, Known& known);
  void CheckFloors(const Scheduler& scheduler, const Sequence& sequence);
  void CheckChosen(const Sequence& sequence, const Known& known);
  int64_t BudgetsGive(const Scheduler& scheduler) const;
  void CheckBudgetsFirst(const Scheduler& scheduler);
  bool Lacks(const Scheduler& scheduler, int32_t tenant) const;
  bool IsDue(const Scheduler& scheduler, int32_t tenant) const;
  bool MayLeave(const Scheduler& scheduler, const Sequence& sequence) const;
  void CheckShares(const Scheduler& scheduler, const Sequence& chosen);
  void CheckWaits(const Scheduler& scheduler);
  bool IsRested(const Sequence& sequence) const;
  void CheckOutside(const Scheduler& scheduler);
  // `before`: those alone that were so before the plan.
  bool HasOutside(const Scheduler& scheduler, int32_t tenant, bool before = false) const;
  bool WasAside(uint64_t id) const;
  bool HasPlace(const Scheduler& scheduler, const Request& asked) const;
  static int64_t FirstBlocks(const Request& asked);
  // State rows of a tenant, or of all (-1); one is free beside those of tenants that have all they have outside; and whether a
  // tenant's share of the rows has room for so many more.
  static int32_t RowsOf(const Scheduler& scheduler, int32_t tenant);
  bool RowIsFree(const Scheduler& scheduler, int32_t tenant) const;
  bool WithinShareOfRows(const Scheduler& scheduler, int32_t tenant, int32_t more) const;
  void CheckAdmitted(const Scheduler& scheduler);
  void CheckPeaks(const Scheduler& scheduler);

  const Workload& workload_;
  const std::vector<std::unique_ptr<SimRequest>>& requests_;
  Failure& failure_;
  std::map<uint64_t, Known> known_;
  uint64_t anchor_ = 0;      // of its request
  int32_t passed_over_ = 0;  // plans in a row that chose somebody although budgets could fall
  uint64_t chosen_ = 0;
  uint64_t admission_checks_ = 0;
  uint64_t budget_checks_ = 0;
  // By tenant: plans in a row in which its head of line was due, and in which it could have been let in, or had room made.
  struct Due {
    uint64_t head = 0;
    int64_t plans = 0;
    int64_t fits = 0;
    int64_t makes_room = 0;
  };
  std::vector<Due> due_;
  uint64_t share_checks_ = 0;
  uint64_t due_heads_ = 0;
  uint64_t row_waits_ = 0;
  int64_t due_plans_max_ = 0;
  uint64_t passed_ = 0;
  int64_t outside_max_ = 0;
  int32_t swaps_max_ = 0;
  int64_t held_up_max_ = 0;
  uint64_t held_up_ = 0;
  uint64_t floor_waits_ = 0;
  bool moves_limited_ = false;
  int32_t anchor_since_ = 0;  // tokens computed of it then
};

}  // namespace hydrant::sim

#endif  // HYDRANT_TESTS_SIM_SWAP_CHECKS_H_
