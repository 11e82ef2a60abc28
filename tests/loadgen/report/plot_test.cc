#include "loadgen/report/plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace hydrant {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Plot, StandsOnItsOwn) {
  const std::string svg = Plot({"T", "x", "y"}, {{"a", {{0, 0}, {1, 10}}, true}, {"b & c", {{2, 5}}, false}});
  EXPECT_THAT(svg, HasSubstr("<polyline"));
  EXPECT_THAT(svg, HasSubstr("<circle"));
  EXPECT_THAT(svg, HasSubstr("b &amp; c"));
  EXPECT_THAT(svg, HasSubstr("T, y"));
  EXPECT_THAT(svg, Not(HasSubstr("href")));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(Plot, TheLargestPointLiesInTheCorner) {
  // 560 - 16 and 30, the margins.
  EXPECT_THAT(Plot({"", "", ""}, {{"a", {{0, 0}, {7, 3}}, true}}), HasSubstr("64.0,234.0 544.0,30.0 "));
}

TEST(Plot, OfNothingSaysSo) {
  EXPECT_THAT(Plot({"T", "x", "y"}, {{"a", {}, true}}), HasSubstr("no samples"));
  EXPECT_THAT(Plot({"T", "x", "y"}, {}), HasSubstr("no samples"));
}

TEST(Plot, ACumulativeCurveReachesAllSamples) {
  const Series few = Cumulative("a", {3, 1, 2, 4});
  EXPECT_EQ(few.points, (std::vector<std::pair<double, double>>{{1, 25}, {2, 50}, {3, 75}, {4, 100}}));
  std::vector<double> many;
  for (int i = 1; i <= 10'000; ++i) many.push_back(i);
  const Series thinned = Cumulative("a", many);
  EXPECT_EQ(thinned.points.size(), 400u);
  EXPECT_EQ(thinned.points.back(), std::make_pair(10'000.0, 100.0));
  EXPECT_TRUE(Cumulative("a", {}).points.empty());
}

TEST(Plot, SecondsAreDrawnInTheirMiddle) {
  EXPECT_EQ(PerSecond("a", std::vector<double>{7, 8}).points,
            (std::vector<std::pair<double, double>>{{0.5, 7}, {1.5, 8}}));
}

}  // namespace
}  // namespace hydrant
