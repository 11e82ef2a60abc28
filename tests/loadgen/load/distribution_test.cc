#include "loadgen/load/distribution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace hydrant {
namespace {

std::vector<double> Draw(std::string_view text, int count = 20'001) {
  const std::optional<Distribution> distribution = Distribution::Parse(text);
  EXPECT_TRUE(distribution.has_value()) << text;
  Random random(5);
  std::vector<double> values;
  for (int i = 0; i < count; ++i) values.push_back(distribution->Sample(&random));
  std::sort(values.begin(), values.end());
  return values;
}

double MeanOf(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

TEST(Distribution, ReadsItsForms) {
  for (const char* text : {"512", "0.5", "uniform:1:9", "normal:100:10", "lognormal:200:0.5", "exponential:3"}) {
    const std::optional<Distribution> distribution = Distribution::Parse(text);
    ASSERT_TRUE(distribution.has_value()) << text;
    EXPECT_EQ(distribution->ToString(), text);
  }
}

TEST(Distribution, RefusesWhatItCannotMean) {
  for (const char* text : {"", "x", "-1", "nan", "inf", "1e300", "uniform:9:1", "uniform:1", "normal:1:2:3", "fixed:1",
                           "exponential:", "1:2", ":1"}) {
    EXPECT_FALSE(Distribution::Parse(text).has_value()) << text;
  }
}

TEST(Distribution, SamplesHaveTheParametersAsked) {
  EXPECT_EQ(Draw("7").front(), 7);
  EXPECT_EQ(Draw("7").back(), 7);
  const std::vector<double> uniform = Draw("uniform:10:20");
  EXPECT_GE(uniform.front(), 10);
  EXPECT_LE(uniform.back(), 20);
  EXPECT_NEAR(MeanOf(uniform), 15, 0.2);
  EXPECT_NEAR(MeanOf(Draw("normal:100:10")), 100, 0.5);
  EXPECT_NEAR(Draw("lognormal:200:0.5")[10'000], 200, 5);
  EXPECT_NEAR(MeanOf(Draw("exponential:3")), 3, 0.1);
  EXPECT_GE(Draw("normal:1:10").front(), 0) << "never negative";
}

TEST(Distribution, AroundIsVllmsRange) {
  const Distribution range = Distribution::Around(100, 0.25);
  Random random(1);
  int32_t low = 1000;
  int32_t high = 0;
  for (int i = 0; i < 5000; ++i) {
    const int32_t value = range.SampleCount(&random, 1);
    low = std::min(low, value);
    high = std::max(high, value);
  }
  EXPECT_EQ(low, 75);
  EXPECT_EQ(high, 125);
  EXPECT_TRUE(Distribution::Around(100, 0).fixed());
}

TEST(Distribution, CountsHaveAFloor) {
  Random random(1);
  EXPECT_EQ(Distribution(0.2).SampleCount(&random, 1), 1);
  EXPECT_EQ(Distribution(2.6).SampleCount(&random, 1), 3);
}

TEST(Distribution, NoSampleIsLongerThanAllowed) {
  Random random(1);
  for (const char* text : {"exponential:16777216", "lognormal:16777216:9", "normal:16777216:16777216"}) {
    const Distribution distribution = *Distribution::Parse(text);
    for (int i = 0; i < 100; ++i) EXPECT_LE(distribution.SampleCount(&random, 0), 1 << 24) << text;
  }
}

}  // namespace
}  // namespace hydrant
