// MemoryChecks keeps its own account of what a fair scheduler charges each tenant for memory, step by step: as many
// tokens as the tenant's blocks, each counted once, would have computed if the whole pool had computed what the step
// has, less those that its sequences did compute. What it costs to park and restore KV comes on top, so with sessions
// the account says what a tenant is charged at least.
#ifndef HYDRANT_TESTS_SIM_MEMORY_CHECKS_H_
#define HYDRANT_TESTS_SIM_MEMORY_CHECKS_H_

#include <cstdint>
#include <vector>

#include "scheduler/scheduler.h"
#include "tests/sim/failure.h"
#include "tests/sim/planted_bug.h"
#include "tests/sim/workload.h"

namespace hydrant::sim {

class MemoryChecks {
 public:
  // `workload` and `failure` outlive the checks.
  MemoryChecks(const Workload& workload, PlantedBug bug, Failure& failure)
      : workload_(workload), bug_(bug), failure_(failure) {}

  // Before a step, and again when nothing but its commit is to come: the last call counts.
  void BeforeCharge(const Scheduler& scheduler);
  void AfterStep(const Scheduler& scheduler);

  uint64_t checks() const { return checks_; }  // charges above 0

 private:
  struct Account {
    uint64_t counted = 0;  // of tokens, up to the last step
    uint64_t counting = 0;
    double charged = 0;  // for memory, before this step
    double due = 0;      // by it
  };

  int64_t BlocksOf(const Scheduler& scheduler, int32_t tenant);

  const Workload& workload_;
  const PlantedBug bug_;
  Failure& failure_;
  std::vector<Account> accounts_;  // by tenant
  std::vector<uint64_t> seen_;     // by block: the last look that came across it
  uint64_t looks_ = 0;
  uint64_t checks_ = 0;
};

}  // namespace hydrant::sim

#endif  // HYDRANT_TESTS_SIM_MEMORY_CHECKS_H_
