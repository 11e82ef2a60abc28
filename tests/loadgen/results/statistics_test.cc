#include "loadgen/results/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "loadgen/load/random.h"

namespace hydrant {
namespace {

// Oracle: numpy 2, np.percentile(values, p), np.std, np.mean.
TEST(Statistics, AreNumpys) {
  const std::vector<double> values = {3.5, 1.25, 9, 2, 2, 7.75, 0.5};
  EXPECT_DOUBLE_EQ(Percentile(values, 0), 0.5);
  EXPECT_DOUBLE_EQ(Percentile(values, 25), 1.625);
  EXPECT_DOUBLE_EQ(Percentile(values, 50), 2.0);
  EXPECT_DOUBLE_EQ(Percentile(values, 90), 8.25);
  EXPECT_DOUBLE_EQ(Percentile(values, 99), 8.925);
  EXPECT_DOUBLE_EQ(Percentile(values, 100), 9.0);
  EXPECT_NEAR(Mean(values), 3.7142857142857144, 1e-12);
  EXPECT_NEAR(Deviation(values), 3.0834482420213396, 1e-12);
}

TEST(Statistics, OfOneAndOfNothing) {
  EXPECT_EQ(Percentile({4}, 99), 4);
  EXPECT_EQ(Deviation(std::vector<double>{4}), 0);
  EXPECT_EQ(Percentile({}, 50), 0);
  EXPECT_EQ(Mean({}), 0);
}

TEST(Statistics, DistilSaysThemAll) {
  const std::vector<double> percents = {50, 100};
  const Distilled distilled = Distil({3, 1, 2}, percents);
  EXPECT_EQ(distilled.count, 3u);
  EXPECT_EQ(distilled.min, 1);
  EXPECT_EQ(distilled.median, 2);
  EXPECT_EQ(distilled.max, 3);
  EXPECT_EQ(distilled.percentiles, (std::vector<double>{2, 3}));
}

TEST(Statistics, JainIsOneForEqualsAndOneNthForATaker) {
  EXPECT_DOUBLE_EQ(JainIndex(std::vector<double>{5, 5, 5, 5}), 1);
  EXPECT_DOUBLE_EQ(JainIndex(std::vector<double>{8, 0, 0, 0}), 0.25);
  EXPECT_DOUBLE_EQ(JainIndex(std::vector<double>{1, 2, 3}), 36.0 / 42);
  EXPECT_DOUBLE_EQ(JainIndex(std::vector<double>{0, 0}), 1);
}

std::vector<std::vector<Pair>> Rounds(double factor, double noise, uint64_t seed) {
  Random random(seed);
  std::vector<std::vector<Pair>> rounds(6);
  for (auto& round : rounds) {
    for (int i = 0; i < 30; ++i) {
      const double first = 10 + noise * random.Normal();
      round.push_back({first, factor * (10 + noise * random.Normal())});
    }
  }
  return rounds;
}

TEST(Statistics, BootstrapHoldsTheTrueRatio) {
  const Statistic mean = [](std::span<const double> values) { return Mean(values); };
  int covered = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Interval interval = BootstrapRatio(Rounds(1.5, 1, seed), mean, seed, 300);
    EXPECT_NEAR(interval.estimate, 1.5, 0.1);
    EXPECT_LE(interval.low, interval.estimate);
    EXPECT_GE(interval.high, interval.estimate);
    covered += interval.low <= 1.5 && interval.high >= 1.5;
  }
  EXPECT_GE(covered, 15) << "of 20, at 95 %";
}

// The same server twice, one pair a round, as the tokens per second of each are. Without widening two rounds cover 51 %.
TEST(Statistics, BootstrapOfFewRoundsIsNotTooSure) {
  const Statistic mean = [](std::span<const double> values) { return Mean(values); };
  for (const size_t rounds : {2, 3, 6}) {
    int covered = 0;
    for (uint64_t seed = 0; seed < 200; ++seed) {
      Random random(seed);
      std::vector<std::vector<Pair>> pairs(rounds);
      for (auto& round : pairs) round.push_back({std::exp(0.3 * random.Normal()), std::exp(0.3 * random.Normal())});
      const Interval interval = BootstrapRatio(pairs, mean, seed, 200);
      covered += interval.low <= 1 && interval.high >= 1;
    }
    EXPECT_GE(covered, 182) << "of 200, at 95 %, " << rounds << " rounds";
  }
}

TEST(Statistics, OneRoundSaysNothing) {
  const Statistic mean = [](std::span<const double> values) { return Mean(values); };
  const Interval interval = BootstrapRatio({{{1, 2}, {1, 2}}, {}}, mean, 1, 10);
  EXPECT_EQ(interval.estimate, 2);
  EXPECT_EQ(interval.low, 0);
  EXPECT_TRUE(std::isinf(interval.high));
}

TEST(Statistics, BootstrapIsNarrowWhereRoundsAgree) {
  const Statistic mean = [](std::span<const double> values) { return Mean(values); };
  const Interval exact = BootstrapRatio(Rounds(2, 0, 1), mean, 1, 100);
  EXPECT_DOUBLE_EQ(exact.low, 2);
  EXPECT_DOUBLE_EQ(exact.high, 2);
  EXPECT_LT(BootstrapRatio(Rounds(2, 0.1, 1), mean, 1, 100).high, BootstrapRatio(Rounds(2, 2, 1), mean, 1, 100).high);
}

TEST(Statistics, BootstrapOfNothingIsNothing) {
  const Statistic mean = [](std::span<const double> values) { return Mean(values); };
  EXPECT_EQ(BootstrapRatio({{}, {}}, mean, 1).estimate, 0);
}

}  // namespace
}  // namespace hydrant
