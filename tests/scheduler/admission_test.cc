// Who may enter, when, and in which order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "scheduler/scheduler.h"
#include "tests/scheduler/driver.h"

namespace hydrant {
namespace {

using testing::HasSubstr;

TEST(Admission, ImpossibleRequestsAreRefusedWhenAdded) {
  Scheduler scheduler(SmallOptions(8));
  const auto code = [&scheduler](const Request& request) { return scheduler.Add(request).status().code(); };
  EXPECT_EQ(code(MakeRequest(1, 0, 4)), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(MakeRequest(1, 4, -1)), absl::StatusCode::kInvalidArgument);
  Request request = MakeRequest(1, 4, 4);
  request.min_tokens = 5;
  EXPECT_EQ(code(request), absl::StatusCode::kInvalidArgument);
  request = MakeRequest(1, 4, 4);
  request.tenant = 1;
  EXPECT_EQ(code(request), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(MakeRequest(1, 4, 4, KvBudget::Periodic(16, 0))), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(MakeRequest(1, 4, std::numeric_limits<int32_t>::max(), KvBudget::Exact(16))),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(MakeRequest(1, 4, std::numeric_limits<int32_t>::max() - 4)), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(scheduler.waiting(), 0);
  EXPECT_TRUE(scheduler.idle());
}

TEST(Admission, TheWholePoolMayGoToOneRequestAndNoMore) {
  Driver driver(SmallOptions(8));  // 128 slots
  EXPECT_EQ(driver.scheduler.Add(MakeRequest(1, 100, 30)).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(driver.scheduler.Add(MakeRequest(1, 100, 30)).status().message()), HasSubstr("9 blocks"));
  EXPECT_EQ(driver.scheduler.Add(MakeRequest(1, 129, 1, KvBudget::Exact(16))).status().code(),
            absl::StatusCode::kOutOfRange)
      << "a prompt is prefilled in full before its cut";
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, 100, 29)).ok());
  driver.Drain();
  EXPECT_EQ(driver.tokens[1].size(), 29u);
}

TEST(Admission, QueueIsBounded) {
  Scheduler scheduler(SmallOptions(64, 4));
  for (uint64_t id = 1; id <= 4 + 8; ++id) EXPECT_TRUE(scheduler.Add(MakeRequest(id, 4, 4)).ok());
  EXPECT_EQ(scheduler.Add(MakeRequest(99, 4, 4)).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(scheduler.Cancel(7));
  EXPECT_TRUE(scheduler.Add(MakeRequest(99, 4, 4)).ok());
}

TEST(Admission, AReservationIsOnlyPromisedSpaceThatNobodyElseCanTake) {
  Driver driver(SmallOptions(8));
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, 10, 70)).ok());  // 79 slots: 5 blocks
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(2, 10, 60)).ok());  // 69 slots: 5 blocks
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(3, 1, 1)).ok());    // 1 block, and must not pass
  driver.Step();
  EXPECT_EQ(driver.scheduler.running(), 1);
  EXPECT_EQ(driver.used(), 1) << "promised, not taken";
  EXPECT_EQ(driver.scheduler.waiting(), 2);
  while (!driver.finished.contains(1)) {
    EXPECT_FALSE(driver.finished.contains(3)) << "overtook the head of the line";
    driver.Step();
  }
  driver.Step();
  EXPECT_EQ(driver.scheduler.waiting(), 0);
  driver.Drain();
}

TEST(Admission, ThePromptCutLetsTheNextOneIn) {
  SchedulerOptions options = SmallOptions(10);
  options.prefill_tokens_max = 64;
  Driver driver(options);
  // 128 prompt slots: 8 blocks until the cut, then 33 slots: 3 blocks.
  for (uint64_t id = 1; id <= 2; ++id) {
    ASSERT_TRUE(driver.scheduler.Add(MakeRequest(id, 128, 50, KvBudget::Exact(32))).ok());
  }
  driver.Step();
  EXPECT_EQ(driver.scheduler.running(), 1);
  driver.Step();  // the cut
  EXPECT_EQ(driver.scheduler.block_manager().promised(), 1);
  driver.Step();
  EXPECT_EQ(driver.scheduler.running(), 1) << "3 + 8 blocks are more than 10";
  ASSERT_TRUE(driver.scheduler.Cancel(2));
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(3, 112, 50, KvBudget::Exact(32))).ok());
  driver.Step();
  EXPECT_EQ(driver.scheduler.running(), 2) << "3 + 7 blocks fit";
  driver.Drain();
}

TEST(Admission, APoolOfTwoFullSequencesHoldsTenBudgetedOnes) {
  const int32_t blocks = static_cast<int32_t>(2 * PeakBlocks(2000, 500, KvBudget::Unlimited()));
  for (const bool budgeted : {false, true}) {
    SchedulerOptions options = SmallOptions(blocks, 16);
    options.waiting_max = 32;
    options.tokens_max = 512;
    options.prefill_tokens_max = 512;
    Driver driver(options);
    for (uint64_t id = 1; id <= 12; ++id) {
      const KvBudget budget = budgeted ? KvBudget::Exact(256) : KvBudget::Unlimited();
      ASSERT_TRUE(driver.scheduler.Add(MakeRequest(id, 2000, 500, budget)).ok());
    }
    int32_t most = 0;
    while (!driver.scheduler.idle()) {
      driver.Step();
      most = std::max(most, driver.scheduler.running());
    }
    if (budgeted) {
      EXPECT_GE(most, 10);
    } else {
      EXPECT_EQ(most, 2);
    }
  }
}

TEST(Admission, ALargeRequestIsNotStarvedBySmallOnes) {
  Driver driver(SmallOptions(8, 4));
  uint64_t next = 100;
  const auto refill = [&] {
    while (driver.scheduler.waiting() < 6) ASSERT_TRUE(driver.scheduler.Add(MakeRequest(next++, 10, 5)).ok());
  };
  refill();
  driver.Step();
  ASSERT_TRUE(driver.scheduler.Add(MakeRequest(1, 120, 5)).ok());  // the whole pool
  for (int32_t step = 0; !driver.finished.contains(1); ++step) {
    ASSERT_LT(step, 60) << "starved";
    refill();
    driver.Step();
  }
}

SchedulerOptions TwoTenants() {
  SchedulerOptions options = SmallOptions(64, 1);
  options.waiting_max = 64;
  options.tenants = {{"a", 1.0}, {"b", 2.0}};
  return options;
}

Request Of(int32_t tenant, uint64_t id) {
  Request request = MakeRequest(id, 10, 10);
  request.tenant = tenant;
  return request;
}

TEST(Tenants, ServiceFollowsTheWeights) {
  Driver driver(TwoTenants());
  for (uint64_t i = 0; i < 24; ++i) {
    ASSERT_TRUE(driver.scheduler.Add(Of(0, 100 + i)).ok());
    ASSERT_TRUE(driver.scheduler.Add(Of(1, 200 + i)).ok());
  }
  while (driver.finished.size() < 24) driver.Step();
  int32_t of_b = 0;
  for (const auto& [id, event] : driver.finished) of_b += id >= 200 ? 1 : 0;
  EXPECT_EQ(of_b, 16) << "twice the weight, twice the requests";
}

TEST(Tenants, ReturningFromIdleBringsNoSavings) {
  Driver driver(TwoTenants());
  for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(driver.scheduler.Add(Of(0, 100 + i)).ok());
  while (driver.finished.size() < 10) driver.Step();
  for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(driver.scheduler.Add(Of(1, 200 + i)).ok());
  EXPECT_DOUBLE_EQ(driver.scheduler.tenant(1).service, driver.scheduler.tenant(0).service);
  while (driver.finished.size() < 10 + 12) driver.Step();
  int32_t of_b = 0;
  for (const auto& [id, event] : driver.finished) of_b += id >= 200 ? 1 : 0;
  EXPECT_GE(of_b, 7);
  EXPECT_LE(of_b, 9);
}

struct OptionsCase {
  const char* name;
  void (*spoil)(SchedulerOptions&);
};

TEST(SchedulerOptions, ImpossibleOnesAreRefused) {
  const OptionsCase cases[] = {
      {"no blocks", [](SchedulerOptions& o) { o.blocks = 0; }},
      {"slots overflow", [](SchedulerOptions& o) { o.blocks = std::numeric_limits<int32_t>::max(); }},
      {"no sequences", [](SchedulerOptions& o) { o.sequences_max = 0; }},
      {"no queue", [](SchedulerOptions& o) { o.waiting_max = 0; }},
      {"a step that cannot hold prefill", [](SchedulerOptions& o) { o.tokens_max = o.sequences_max + 14; }},
      {"prefill below a block", [](SchedulerOptions& o) { o.prefill_tokens_max = 15; }},
      {"nobody", [](SchedulerOptions& o) { o.tenants.clear(); }},
      {"no weight", [](SchedulerOptions& o) { o.tenants[0].weight = 0; }},
      {"weight is not a number",
       [](SchedulerOptions& o) { o.tenants[0].weight = std::numeric_limits<double>::quiet_NaN(); }},
  };
  EXPECT_TRUE(SmallOptions(8).Validate().ok());
  for (const OptionsCase& c : cases) {
    SchedulerOptions options = SmallOptions(8);
    c.spoil(options);
    EXPECT_EQ(options.Validate().code(), absl::StatusCode::kInvalidArgument) << c.name;
  }
}

}  // namespace
}  // namespace hydrant
