// PlanDigest is a 64-bit hash of everything a scheduler decided in an episode: two builds that plan alike, byte for byte, have
// equal digests for equal seeds. It takes in each plan in the order of launches, with every field of rows, restores, score blocks,
// snapshots and copies and with the contents of every span; what leaves the pool between steps; and after every step the events,
// who was admitted, the counters and the accounts of the tenants.
//
// The hash depends on values alone, never on addresses, padding or the machine. It is not stable between versions: a field that
// is added here changes every digest.
#ifndef HYDRANT_TESTS_SIM_PLAN_DIGEST_H_
#define HYDRANT_TESTS_SIM_PLAN_DIGEST_H_

#include <cstdint>
#include <functional>
#include <span>

#include "model/run/executor.h"
#include "server/engine/engine_core.h"
#include "tests/support/forwarding_executor.h"

namespace hydrant::sim {

class PlanDigest {
 public:
  void AddPlan(const StepPlan& plan);
  // Between steps. REQUIRES: the scheduler waits for FinishParks.
  void AddMoves(const Scheduler& scheduler);
  void AddStep(std::span<const EngineEvent> events, const Scheduler& scheduler);

  uint64_t value() const { return value_; }
  uint64_t plans() const { return plans_; }

  // Called after each plan, to find the first one in which two builds differ. May be empty.
  std::function<void(const StepPlan& plan)> on_plan;

 private:
  void Add(uint64_t word);
  void AddCost(double cost);
  void AddIds(std::span<const int32_t> ids);
  template <typename... Numbers>
  void AddAll(Numbers... numbers) {
    (Add(static_cast<uint64_t>(numbers)), ...);
  }
  void AddRow(const PlanRow& row);
  void AddEvent(const EngineEvent& event);
  void AddTenant(const Tenant& tenant);

  uint64_t value_ = 0;
  uint64_t plans_ = 0;
};

// Stands between the engine and its executor and shows the digest what goes by. Without a digest it passes everything on.
class DigestingExecutor : public ForwardingExecutor {
 public:
  DigestingExecutor(PlanDigest* digest, Executor& inner) : ForwardingExecutor(inner), digest_(digest) {}

  // Whose plans they are. Before the first Launch.
  void Watch(const Scheduler& scheduler) { scheduler_ = &scheduler; }

  Ticket Launch(const StepInput& input) override;

 private:
  PlanDigest* const digest_;  // may be null
  const Scheduler* scheduler_ = nullptr;
};

}  // namespace hydrant::sim

#endif  // HYDRANT_TESTS_SIM_PLAN_DIGEST_H_
