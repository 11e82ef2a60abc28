#include "loadgen/load/random.h"

#include <gtest/gtest.h>

#include <cmath>

namespace hydrant {
namespace {

constexpr int kDraws = 100'000;

TEST(Random, IsTheSameEverywhere) {
  // Oracle: SplitMix64 written in Python.
  EXPECT_EQ(Random(1, 2, 3).Next(), 3487128831401534792u);
}

TEST(Random, StreamsAndItemsDiffer) {
  EXPECT_NE(Random(1, 2, 3).Next(), Random(1, 2, 4).Next());
  EXPECT_NE(Random(1, 2, 3).Next(), Random(1, 3, 2).Next());
  EXPECT_NE(Random(1, 2, 3).Next(), Random(2, 1, 3).Next());
}

TEST(Random, IntegersReachBothEndsAndNoFurther) {
  Random random(7);
  int low = 0;
  int high = 0;
  for (int i = 0; i < 1000; ++i) {
    const int64_t value = random.Integer(-1, 2);
    ASSERT_GE(value, -1);
    ASSERT_LE(value, 2);
    low += value == -1;
    high += value == 2;
  }
  EXPECT_NEAR(low, 250, 60);
  EXPECT_NEAR(high, 250, 60);
}

// Mean shape * scale, variance shape * scale^2; the bounds are five standard errors of the mean.
TEST(Random, GammaHasItsMoments) {
  for (const double shape : {0.25, 1.0, 4.0}) {
    Random random(11);
    double sum = 0;
    double squares = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double value = random.Gamma(shape, 2.0);
      ASSERT_GE(value, 0);
      sum += value;
      squares += value * value;
    }
    const double mean = sum / kDraws;
    EXPECT_NEAR(mean, 2 * shape, 5 * 2 * std::sqrt(shape / kDraws)) << shape;
    EXPECT_NEAR(squares / kDraws - mean * mean, 4 * shape, 0.25 * shape) << shape;
  }
}

TEST(Random, NormalHasItsMoments) {
  Random random(13);
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double value = random.Normal();
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / kDraws, 0, 5 / std::sqrt(kDraws));
  EXPECT_NEAR(squares / kDraws, 1, 0.03);
}

}  // namespace
}  // namespace hydrant
