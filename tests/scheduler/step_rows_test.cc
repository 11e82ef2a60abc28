// Who has rows in a step that several tenants have something to compute in.
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "tests/scheduler/driver.h"

namespace hydrant {
namespace {

// A tenant with two streams has them in every step beside one with thirty, whose rows take turns.
TEST(StepRows, ABoundedStepIsDividedBetweenItsTenants) {
  Driver driver(With({{"a"}, {"b"}}, 256, 40));
  for (uint64_t i = 0; i < 30; ++i) ASSERT_TRUE(driver.scheduler.Add(Of(0, 100 + i, 8, 60)).ok());
  for (uint64_t i = 0; i < 2; ++i) ASSERT_TRUE(driver.scheduler.Add(Of(1, 200 + i, 8, 60)).ok());
  for (int i = 0; i < 20; ++i) driver.Step();  // all prompts are computed
  driver.scheduler.LimitSteps({.shared = 16});
  std::map<int32_t, int> rows_of;
  for (int i = 0; i < 10; ++i) {
    const std::vector<PlanRow> rows = driver.Step();
    EXPECT_EQ(rows.size(), 16u);
    for (const PlanRow& row : rows) ++rows_of[row.sequence];
  }
  ASSERT_EQ(rows_of.size(), 32u);
  for (const auto& [index, rows] : rows_of) {
    if (driver.scheduler.sequence(index).request.tenant == 1) {
      EXPECT_EQ(rows, 10);
    } else {
      EXPECT_NEAR(rows, 10 * 14 / 30.0, 1) << "sequence " << index;
    }
  }
  driver.Drain();
  EXPECT_EQ(driver.finished.size(), 32u);
}

TEST(StepRows, APromptFindsItsPartOfAStepFullOfAnothersRows) {
  Driver driver(With({{"a"}, {"b"}}, 256, 40));
  for (uint64_t i = 0; i < 30; ++i) ASSERT_TRUE(driver.scheduler.Add(Of(0, 100 + i, 8, 60)).ok());
  for (int i = 0; i < 10; ++i) driver.Step();
  driver.scheduler.LimitSteps({.shared = 48});
  ASSERT_TRUE(driver.scheduler.Add(Of(1, 200, 24, 4)).ok());
  const std::vector<PlanRow> rows = driver.Step();
  EXPECT_EQ(rows.size(), 25u) << "24 of a, and";
  EXPECT_EQ(rows.back().tokens.size(), 24u);
}

TEST(StepRows, FirstComeFirstServedDividesNoSteps) {
  SchedulerOptions options = With({{"a"}, {"b"}}, 256, 40);
  options.policy = SchedulingPolicy::kFcfs;
  Driver driver(options);
  for (uint64_t i = 0; i < 30; ++i) ASSERT_TRUE(driver.scheduler.Add(Of(i % 2 == 0 ? 0 : 1, 100 + i, 8, 60)).ok());
  for (int i = 0; i < 20; ++i) driver.Step();
  driver.scheduler.LimitSteps({.shared = 16});
  EXPECT_EQ(driver.Step().size(), 30u);
}

}  // namespace
}  // namespace hydrant
