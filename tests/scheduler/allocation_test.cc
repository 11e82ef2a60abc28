// The engine thread allocates nothing while sequences run.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/scheduler/counting_new.h"
#include "tests/scheduler/driver.h"

namespace hydrant {
namespace {

TEST(SchedulerAllocation, StepsAllocateNothing) {
  SchedulerOptions options = SmallOptions(256, 16);
  options.waiting_max = 32;
  Scheduler scheduler(options);
  for (uint64_t id = 1; id <= 32; ++id) {
    // Prompts of several chunks, growth over block edges, cuts of both kinds, ends, and admissions from the queue.
    const KvBudget budget = id % 3 == 0   ? KvBudget::Unlimited()
                            : id % 3 == 1 ? KvBudget::Exact(33)
                                          : KvBudget::Periodic(17, 16);
    ASSERT_TRUE(
        scheduler.Add(MakeRequest(id, static_cast<int32_t>(20 + 7 * id), static_cast<int32_t>(id * 5), budget)).ok());
  }
  std::vector<RowResult> results;
  results.reserve(16);
  // The first admissions give their tables memory, once and for all.
  const auto run = [&](int32_t steps) {
    for (int32_t i = 0; i < steps; ++i) {
      const StepPlan& plan = scheduler.Plan(i);
      results.assign(plan.rows.size(), RowResult{7, false});
      scheduler.Commit(plan, results, i);
    }
  };
  run(40);
  ASSERT_EQ(scheduler.running(), 16);
  const uint64_t admitted_before = scheduler.counters().admitted;
  const uint64_t before = AllocationCount();
  run(60);
  const uint64_t during = AllocationCount() - before;
  // Only a table that was never used may ask for memory: one allocation per sequence admitted meanwhile.
  EXPECT_LE(during, scheduler.counters().admitted - admitted_before);
  EXPECT_GT(scheduler.counters().evicted_tokens, 0u);

  while (scheduler.waiting() > 0) run(1);
  const uint64_t then = AllocationCount();
  run(20);
  EXPECT_GT(scheduler.running(), 0) << "nothing ran any more";
  EXPECT_EQ(AllocationCount() - then, 0u);
  EXPECT_GT(AllocationCount(), 0u) << "nothing is counted";
}

}  // namespace
}  // namespace hydrant
