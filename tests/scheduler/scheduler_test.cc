#include "scheduler/scheduler.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "tests/scheduler/counting_new.h"
#include "tests/scheduler/driver.h"

namespace hydrant {
namespace {

TEST(Scheduler, CancelWhileWaitingFreesTheQueueAtOnce) {
  Driver driver(SmallOptions(64, 1));
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, 5, 4)).ok());
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(2, 5, 4)).ok());
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(3, 5, 4)).ok());
  driver.Step();
  EXPECT_TRUE(driver.scheduler.Cancel(2));
  EXPECT_FALSE(driver.scheduler.Cancel(2)) << "already ended";
  EXPECT_EQ(driver.scheduler.waiting(), 1);
  driver.Step();
  EXPECT_EQ(driver.finished.at(2).finish, FinishReason::kAbort);
  EXPECT_EQ(driver.finished.at(2).times.admitted_us, -1);
  driver.Drain();
  EXPECT_EQ(driver.tokens[1].size(), 4u);
  EXPECT_EQ(driver.tokens[3].size(), 4u);
}

TEST(Scheduler, CancelBetweenStepsFreesBlocksAtOnce) {
  for (const char* moment : {"prefill", "decode"}) {
    Driver driver(SmallOptions(64));
    ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, moment[0] == 'p' ? 100 : 5, 40)).ok());
    driver.Step();
    EXPECT_GT(driver.used(), 0);
    EXPECT_TRUE(driver.scheduler.Cancel(1));
    EXPECT_EQ(driver.used(), 0) << moment;
    EXPECT_FALSE(driver.scheduler.idle()) << "the event is still to be delivered";
    EXPECT_TRUE(driver.Step().empty());
    EXPECT_EQ(driver.finished.at(1).finish, FinishReason::kAbort);
    EXPECT_TRUE(driver.scheduler.idle());
    EXPECT_GT(driver.scheduler.counters().freed_blocks[static_cast<size_t>(FreeCause::kCancel)], 0u);
  }
}

TEST(Scheduler, AddBetweenPlanAndCommitWaitsForTheNextPlan) {
  Driver driver(SmallOptions(64));
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, 5, 3)).ok());
  driver.between = [&] { ASSERT_TRUE(driver.scheduler.Add(MakeRequest(2, 5, 3)).ok()); };
  EXPECT_EQ(driver.Step().size(), 1u);
  driver.between = nullptr;
  EXPECT_EQ(driver.Step().size(), 2u);
}

TEST(Scheduler, AnIdMayReturnOnceItsRequestEnded) {
  Driver driver(SmallOptions(64));
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, 5, 1)).ok());
  EXPECT_EQ(driver.scheduler.Add(MakeRequest(1, 5, 1)).status().code(), absl::StatusCode::kAlreadyExists);
  driver.Drain();
  driver.finished.clear();
  EXPECT_TRUE(driver.scheduler.Add(MakeRequest(1, 5, 1)).ok());
  driver.Drain();
  EXPECT_EQ(driver.tokens[1].size(), 2u);
}

TEST(Scheduler, StateRowsAreDistinctAndStable) {
  Driver driver(SmallOptions(64, 3));
  for (uint64_t id = 1; id <= 7; ++id) {
    ASSERT_TRUE(driver.scheduler.Add(MakeRequest(id, 3, static_cast<int32_t>(2 + id % 4))).ok());
  }
  std::map<uint64_t, int32_t> row_of;
  while (!driver.scheduler.idle()) {
    const StepPlan& plan = driver.scheduler.Plan(0);
    std::vector<bool> taken(3, false);
    std::vector<RowResult> results;
    for (const PlanRow& row : plan.rows) {
      ASSERT_TRUE(row.state_row >= 0 && row.state_row < 3);
      EXPECT_FALSE(taken[static_cast<size_t>(row.state_row)]);
      taken[static_cast<size_t>(row.state_row)] = true;
      const uint64_t id = driver.scheduler.sequence(row.sequence).request.id;
      EXPECT_EQ(row_of.emplace(id, row.state_row).first->second, row.state_row);
      results.push_back({7});
    }
    driver.scheduler.Commit(plan, results, 0);
  }
  EXPECT_EQ(row_of.size(), 7u);
}

class SteadyState : public testing::TestWithParam<int32_t> {};  // tenants

TEST_P(SteadyState, StepsAllocateNothing) {
  SchedulerOptions options = SmallOptions(256, 16);
  options.waiting_max = 32;
  options.tenants = {{.name = "a", .floor_blocks = 4}};
  if (GetParam() == 2) options.tenants.push_back({.name = "b"});
  Scheduler scheduler(options);
  scheduler.LimitSteps({.shared = 40});
  for (uint64_t id = 1; id <= 32; ++id) {
    // Prompts of several chunks, growth over block edges, cuts of both kinds, ends, and admissions from the queue.
    const KvBudget budget = id % 3 == 0   ? KvBudget::Unlimited()
                            : id % 3 == 1 ? KvBudget::Exact(33)
                                          : KvBudget::Periodic(17, 16);
    Request request = MakeRequest(id, static_cast<int32_t>(20 + 7 * id), static_cast<int32_t>(id * 5), budget);
    request.tenant = static_cast<int32_t>(id) % GetParam();
    ASSERT_TRUE(scheduler.Add(std::move(request)).ok());
  }
  std::vector<RowResult> results;
  results.reserve(16);
  const auto run = [&](int32_t steps) {
    for (int32_t i = 0; i < steps; ++i) {
      const StepPlan& plan = scheduler.Plan(i);
      results.assign(plan.rows.size(), RowResult{7});
      scheduler.Commit(plan, results, i);
    }
  };
  run(40);
  ASSERT_EQ(scheduler.running(), 16);
  const uint64_t admitted_before = scheduler.counters().admitted;
  const uint64_t before = AllocationCount();
  run(60);
  const uint64_t during = AllocationCount() - before;
  EXPECT_GT(scheduler.counters().admitted, admitted_before);
  EXPECT_EQ(during, 0u) << "what admission takes was taken when the request was added";
  EXPECT_GT(scheduler.counters().evicted_tokens, 0u);

  while (scheduler.waiting() > 0) run(1);
  const uint64_t then = AllocationCount();
  run(20);
  EXPECT_GT(scheduler.running(), 0) << "nothing ran any more";
  EXPECT_EQ(AllocationCount() - then, 0u);
  EXPECT_GT(AllocationCount(), 0u) << "nothing is counted";
}

INSTANTIATE_TEST_SUITE_P(Tenants, SteadyState, testing::Values(1, 2));

// A full queue of requests that each may come to hold the whole pool, and to generate tens of thousands of tokens.
TEST(Scheduler, WhatRequestsTookFromTheHostIsGivenBackWhenTheyEnd) {
  SchedulerOptions options = SmallOptions(4096, 4);
  options.waiting_max = 60;
  Scheduler scheduler(options);
  const int64_t before = AllocatedBytes();
  for (uint64_t id = 1; id <= 64; ++id) {
    Request request = Shared(id, 16, 65'000);
    request.session = id;
    ASSERT_TRUE(scheduler.Add(std::move(request)).ok());
  }
  EXPECT_GT(AllocatedBytes() - before, 64 * (4000 * 8 + 65'000 * 4)) << "nothing is counted";
  for (uint64_t id = 1; id <= 64; ++id) EXPECT_TRUE(scheduler.Cancel(id));
  scheduler.Commit(scheduler.Plan(0), {}, 0);
  EXPECT_TRUE(scheduler.idle());
  EXPECT_LE(AllocatedBytes() - before, 4096);
}

TEST(SchedulerDeathTest, CommittingWithoutAPlanDies) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        Scheduler scheduler(SmallOptions(4));
        const StepPlan& plan = scheduler.Plan(0);
        scheduler.Commit(plan, {}, 0);
        scheduler.Commit(plan, {}, 0);
      },
      "in_flight_");
}

}  // namespace
}  // namespace hydrant
