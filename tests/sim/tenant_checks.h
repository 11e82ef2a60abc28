// TenantChecks holds a simulated scheduler to what it promises to tenants, as far as that can be said without repeating
// the scheduler:
//
//  cap       the blocks a tenant holds or is promised, each counted once, stay within the largest cap it had
//  floor     a head of line within its tenant's floor is admitted in the next step, whatever else is going on but a prompt of
//            its tenant that begins as its own does
//  fairness  the counters of two tenants that wait differ by at most what their admitted sequences may cost at most, what
//            memory was charged since, and a full pool of tokens where a head above its tenant's share was passed
//  givers    a budget of a tenant within its share of the pool falls for another tenant only if that one stays within its own
//  withdrawn  a request that ends before its prompt is computed brings its tenant before none of those who wait
//  order     within a tenant nobody is admitted before one that waited already and came earlier or has a lower priority, or that
//            waited already when budgets fell for the first
//  accounts  what each tenant is charged for is exactly what its requests had computed
//
// Floors and fairness are promises of a configuration that stays: they are checked in episodes without reloads, and
// fairness in those without floors, which go before it.
#ifndef HYDRANT_TESTS_SIM_TENANT_CHECKS_H_
#define HYDRANT_TESTS_SIM_TENANT_CHECKS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "scheduler/scheduler.h"
#include "tests/sim/failure.h"
#include "tests/sim/planted_bug.h"
#include "tests/sim/sim_request.h"
#include "tests/sim/workload.h"

namespace hydrant::sim {

using SimRequests = std::vector<std::unique_ptr<SimRequest>>;

// Blocks of the pool that the tenant has: those that several of its sequences hold are there once.
int64_t ClaimedBlocks(const Scheduler& scheduler, const Tenant& tenant);
// Whether a prompt of its tenant is being computed that begins with the same block as what `asked` waits with.
bool MayAwaitPrefix(const Scheduler& scheduler, const Request& asked);
// Whether it stays within its share with so many blocks more. A share is the weight's part of those that have or want anything.
bool WithinShareOfPool(const Workload& workload, const Scheduler& scheduler, int32_t tenant, int64_t more_blocks);

class TenantChecks {
 public:
  // The arguments outlive the checks. requests[i] has id i + 1.
  TenantChecks(const Workload& workload, const SimRequests& requests, PlantedBug bug, Failure& failure);

  // The most blocks a request of `tenant` may need.
  int64_t BlocksMax(int32_t tenant) const;
  void OnReload();
  void BeforeStep(const Scheduler& scheduler, bool admits);
  void AfterStep(const Scheduler& scheduler);
  // While the last plan is in flight: what it frees is not free yet.
  void CheckGivers(const Scheduler& scheduler);
  // Around what may end requests, while nobody joins a line.
  void BeforeEnds(const Scheduler& scheduler);
  void AfterEnds(const Scheduler& scheduler);
  void AtEnd(const Scheduler& scheduler);

  uint64_t fairness_checks() const { return fairness_checks_; }
  uint64_t floor_checks() const { return floor_checks_; }
  uint64_t withdrawn_checks() const { return withdrawn_checks_; }
  uint64_t giver_checks() const { return giver_checks_; }

 private:
  double CostOf(const SimRequest& request) const;
  void CheckCaps(const Scheduler& scheduler);
  double MayBeAhead(size_t index, const Tenant& tenant) const;
  void SeeLeads(const Scheduler& scheduler);
  void CheckFairness(const Scheduler& scheduler);
  void CheckOrder();

  const Workload& workload_;
  const SimRequests& requests_;
  const PlantedBug bug_;
  Failure& failure_;
  std::vector<int64_t> cap_max_;      // by tenant: the largest it had
  std::vector<double> cost_max_;      // by tenant: the most its sequences in progress could cost at any time, by weight
  std::vector<double> cost_running_;  // by tenant: before the step
  std::vector<uint64_t> due_;         // requests that the coming step has to admit
  std::vector<double>
      memory_at_;  // by tenant: what memory had been charged before the last step in which it was let in
  std::vector<double> memory_now_;  // likewise before this step
  // By tenant: by how much it was ahead of the least served of those that waited when it was last let in to the row that is kept for
  // it (swapping.h, invariant 7), and 0 if it took another one; and what that would be in this step, if its row is kept.
  std::vector<double> lead_at_;
  std::vector<double> lead_now_;
  // By tenant, before what may end requests.
  struct Turn {
    double turn = 0;
    double service = 0;
  };
  double TurnAfter(const Tenant& tenant, const Turn& before) const;
  std::vector<Turn> turns_;
  uint64_t fairness_checks_ = 0;
  uint64_t floor_checks_ = 0;
  uint64_t withdrawn_checks_ = 0;
  uint64_t giver_checks_ = 0;
};

}  // namespace hydrant::sim

#endif  // HYDRANT_TESTS_SIM_TENANT_CHECKS_H_
