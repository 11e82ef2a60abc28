#include "server/process/work_rate.h"

#include <gtest/gtest.h>

namespace hydrant {
namespace {

void ObserveFor(WorkRate& rate, double seconds, double per_second, bool full) {
  constexpr double kStepS = 0.01;
  for (double passed = 0; passed < seconds; passed += kStepS) rate.Observe(per_second * kStepS, kStepS, full);
}

TEST(WorkRate, LittleThatWasAskedForSaysLittle) {
  WorkRate rate(1000);
  ObserveFor(rate, 3600, 10, false);
  EXPECT_EQ(rate.value(), 1000) << "as it was believed at first";
  EXPECT_NEAR(rate.average(), 10, 1);
  ObserveFor(rate, 20, 5000, true);
  EXPECT_NEAR(rate.value(), 5000, 250);
  ObserveFor(rate, 3600, 10, false);
  EXPECT_NEAR(rate.value(), 5000, 250) << "as when there was enough to do";
  EXPECT_NEAR(rate.average(), 10, 1);
}

TEST(WorkRate, MoreThanWasBelievedCountsWhereverItWasSeen) {
  WorkRate rate(1000);
  ObserveFor(rate, 20, 3000, false);
  EXPECT_NEAR(rate.value(), 3000, 150);
}

TEST(WorkRate, ASlowServerIsFoundOutInSeconds) {
  WorkRate rate(1000);
  ObserveFor(rate, 5, 20, true);
  EXPECT_LT(rate.value(), 250);
  ObserveFor(rate, 15, 20, true);
  EXPECT_LT(rate.value(), 40);
}

TEST(WorkRate, OneShortStepDoesNotDecide) {
  WorkRate rate(0);
  rate.Observe(4, 1e-5, true);
  EXPECT_NEAR(rate.value(), 4, 0.001);
  rate.Observe(4, 0, true);
  EXPECT_NEAR(rate.value(), 4, 0.001);
}

}  // namespace
}  // namespace hydrant
