#include "loadgen/load/arrivals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace hydrant {
namespace {

std::vector<double> All(const ArrivalSpec& spec) {
  ArrivalSchedule schedule(spec);
  std::vector<double> times;
  while (const std::optional<double> at_s = schedule.Next()) times.push_back(*at_s);
  return times;
}

// Squared coefficient of variation of the gaps: 1 / burstiness for a gamma process.
double GapVariation(const std::vector<double>& times) {
  double previous = 0;
  double sum = 0;
  double squares = 0;
  for (const double at_s : times) {
    const double gap = at_s - previous;
    sum += gap;
    squares += gap * gap;
    previous = at_s;
  }
  const double n = static_cast<double>(times.size());
  const double mean = sum / n;
  return (squares / n - mean * mean) / (mean * mean);
}

TEST(Arrivals, ARateIsMetExactlyForEverySeed) {
  for (const uint64_t seed : {0u, 1u, 2u}) {
    const std::vector<double> times = All({.rate = 50, .count = 200, .seed = seed});
    ASSERT_EQ(times.size(), 200u);
    EXPECT_NEAR(times.back(), 4.0, 1e-9);
  }
}

TEST(Arrivals, BurstinessIsTheShapeOfTheGaps) {
  for (const double burstiness : {0.25, 1.0, 4.0}) {
    const std::vector<double> times = All({.rate = 100, .burstiness = burstiness, .count = 20'000, .seed = 3});
    EXPECT_NEAR(GapVariation(times) * burstiness, 1, 0.15) << burstiness;
  }
  const std::vector<double> constant = All({.rate = 4, .burstiness = kInfinity, .count = 4});
  EXPECT_EQ(constant, (std::vector<double>{0.25, 0.5, 0.75, 1.0}));
}

TEST(Arrivals, TheSameSeedIsTheSameSchedule) {
  const ArrivalSpec spec{.rate = 10, .count = 50, .seed = 9};
  EXPECT_EQ(All(spec), All(spec));
  ArrivalSpec other = spec;
  other.seed = 10;
  EXPECT_NE(All(spec), All(other));
}

TEST(Arrivals, ADurationEndsThem) {
  const std::vector<double> times = All({.rate = 100, .duration_s = 20, .seed = 1});
  EXPECT_NEAR(static_cast<double>(times.size()), 2000, 250);
  EXPECT_LE(times.back(), 20);
}

TEST(Arrivals, WithoutARateAllComeAtOnce) { EXPECT_EQ(All({.count = 3}), (std::vector<double>{0, 0, 0})); }

TEST(Arrivals, UsersComeOneAfterTheOther) {
  const ArrivalSpec spec{.count = 6, .users = 4, .users_ramp_s = 2};
  const std::pair<double, int32_t> there[] = {{0, 1}, {0.49, 1}, {0.5, 2}, {1.25, 3}, {1.5, 4}, {2, 4}, {9, 4}};
  for (const auto& [at_s, users] : there) EXPECT_EQ(spec.UsersAt(at_s), users) << at_s;
  EXPECT_EQ(spec.UserComesS(3), 1.5);
  EXPECT_EQ((ArrivalSpec{.users = 4}.UsersAt(0)), 4);
  EXPECT_EQ(All(spec), std::vector<double>(6, 0)) << "whoever is there begins again when it is free";
}

TEST(Arrivals, ALinearRampGoesByTheRequestAsVllms) {
  // Rates 1, 2, 3, 4, 5: constant gaps of their inverses.
  const std::vector<double> times =
      All({.burstiness = kInfinity, .ramp = Ramp::kLinear, .ramp_start = 1, .ramp_end = 5, .count = 5});
  const std::vector<double> gaps = {1, 0.5, 1.0 / 3, 0.25, 0.2};
  double expected = 0;
  ASSERT_EQ(times.size(), gaps.size());
  for (size_t i = 0; i < gaps.size(); ++i) EXPECT_NEAR(times[i], expected += gaps[i], 1e-12);
}

TEST(Arrivals, ALinearRampOverADurationIsTheIntegralOfItsRate) {
  const std::vector<double> constant =
      All({.burstiness = kInfinity, .ramp = Ramp::kLinear, .ramp_start = 0, .ramp_end = 20, .duration_s = 5.05});
  ASSERT_EQ(constant.size(), 50u);
  // 20 / 5.05 * t^2 / 2 have come by t.
  for (size_t i = 0; i < constant.size(); ++i) {
    EXPECT_NEAR(constant[i], std::sqrt(static_cast<double>(i + 1) * 2 * 5.05 / 20), 1e-9);
  }
  struct Case {
    double start, end, due;
  };
  for (const Case& c : {Case{0, 20, 5000}, Case{0.05, 20, 5012.5}, Case{20, 0.05, 5012.5}, Case{10, 10, 5000}}) {
    for (const double burstiness : {0.5, 1.0, 4.0}) {
      const std::vector<double> times = All({.burstiness = burstiness,
                                             .ramp = Ramp::kLinear,
                                             .ramp_start = c.start,
                                             .ramp_end = c.end,
                                             .duration_s = 500,
                                             .seed = 5});
      // The number of arrivals deviates by sqrt(5000 / burstiness), at most 100.
      EXPECT_NEAR(static_cast<double>(times.size()), c.due, 400) << c.start << " to " << c.end;
      const auto half = std::lower_bound(times.begin(), times.end(), 250) - times.begin();
      EXPECT_NEAR(static_cast<double>(half), 250 * (0.75 * c.start + 0.25 * c.end), 400) << c.start << " to " << c.end;
    }
  }
}

TEST(Arrivals, ADurationDecidesWhereANumberIsGivenToo) {
  const std::vector<double> times = All(
      {.burstiness = kInfinity, .ramp = Ramp::kLinear, .ramp_start = 0, .ramp_end = 20, .count = 10, .duration_s = 10});
  ASSERT_EQ(times.size(), 10u);
  EXPECT_NEAR(times.back(), std::sqrt(10.0), 1e-9);
}

TEST(Arrivals, AnExponentialRampGoesByTime) {
  const std::vector<double> times =
      All({.burstiness = kInfinity, .ramp = Ramp::kExponential, .ramp_start = 10, .ramp_end = 1000, .duration_s = 10});
  // The rate at half time is the geometric mean.
  size_t middle = 0;
  for (const double at_s : times) middle += at_s > 4.9 && at_s <= 5.1;
  EXPECT_NEAR(static_cast<double>(middle) / 0.2, 100, 10);
  EXPECT_EQ(times.size(), 2149u) << "10 (100 - 1) / ln 100 a second on average";
}

TEST(Arrivals, ATraceIsReplayed) {
  EXPECT_EQ(All({.rate = 5, .trace = {0.5, 1, 7}}), (std::vector<double>{0.5, 1, 7}));
  EXPECT_EQ(All({.count = 2, .trace = {0.5, 1, 7}}), (std::vector<double>{0.5, 1}));
  EXPECT_EQ(All({.duration_s = 5, .trace = {0.5, 1, 7}}), (std::vector<double>{0.5, 1}));
}

TEST(Arrivals, ARoundIsAPartOfAllThatTakesTime) {
  const ArrivalSpec whole = {.count = 10, .duration_s = 30, .users = 4, .users_ramp_s = 12, .seed = 7};
  size_t count = 0;
  for (int32_t round = 0; round < 3; ++round) {
    const ArrivalSpec part = whole.Round(round, 3);
    EXPECT_EQ(part.duration_s, 10);
    EXPECT_EQ(part.users_ramp_s, 4) << "else the last users come when the round is over";
    EXPECT_EQ(part.users, 4);
    EXPECT_EQ(part.seed, 7u + static_cast<uint64_t>(round));
    count += part.count;
  }
  EXPECT_EQ(count, 10u);
}

}  // namespace
}  // namespace hydrant
