#include "server/process/load_reporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hydrant {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int64_t kLoadReporterSecond = 1'000'000;
constexpr int64_t kMegabyte = 1'000'000;

TEST(Loaded, IsWholeOnlyWhereNothingIsMissing) {
  EXPECT_EQ((Loaded{0, 200}).percent(), 0);
  EXPECT_EQ((Loaded{101, 200}).percent(), 50);
  EXPECT_EQ((Loaded{(int64_t{1} << 60) - 1, int64_t{1} << 60}).percent(), 99);
  EXPECT_EQ((Loaded{200, 200}).percent(), 100);
  EXPECT_EQ((Loaded{0, 0}).percent(), 100) << "of nothing nothing is missing";
}

class LoadReporterTest : public testing::Test {
 protected:
  LoadReporter Reporter(bool terminal) {
    ShowBar bar;
    if (terminal) bar = [this](const std::string& text) { bars_.push_back(text); };
    return LoadReporter(bar, [this](const std::string& line, const Loaded&) { lines_.push_back(line); });
  }

  std::vector<std::string> bars_, lines_;
};

TEST_F(LoadReporterTest, WhatTakesLessThanASecondIsNotWorthAWord) {
  for (const bool terminal : {false, true}) {
    LoadReporter reporter = Reporter(terminal);
    reporter.Report({0, 100}, 7 * kLoadReporterSecond);
    reporter.Report({100, 100}, 8 * kLoadReporterSecond - 1);
  }
  EXPECT_THAT(bars_, IsEmpty());
  EXPECT_THAT(lines_, IsEmpty());
}

TEST_F(LoadReporterTest, OnATerminalABarRewritesItselfAndGoes) {
  {
    LoadReporter reporter = Reporter(/*terminal=*/true);
    reporter.Report({0, 400 * kMegabyte}, 0);
    reporter.Report({100 * kMegabyte, 400 * kMegabyte}, kLoadReporterSecond);
    reporter.Report({110 * kMegabyte, 400 * kMegabyte}, kLoadReporterSecond + 1);
    reporter.Report({399 * kMegabyte, 400 * kMegabyte}, 2 * kLoadReporterSecond);
    reporter.Finish();
    reporter.Finish();
  }
  EXPECT_THAT(bars_, ElementsAre("loading [##########..............................] 25 % of 400 MB",
                                 "loading [#######################################.] 99 % of 400 MB", ""));
  EXPECT_THAT(lines_, IsEmpty());
}

TEST_F(LoadReporterTest, ElsewhereThereIsALineNowAndThen) {
  {
    LoadReporter reporter = Reporter(/*terminal=*/false);
    for (int64_t i = 0; i <= 120; ++i) reporter.Report({i * kMegabyte, 120 * kMegabyte}, i * kLoadReporterSecond / 10);
  }
  EXPECT_THAT(lines_, ElementsAre("loading the model: 8 % of 120 MB", "loading the model: 50 % of 120 MB",
                                  "loading the model: 91 % of 120 MB"));
  EXPECT_THAT(bars_, IsEmpty());
}

TEST_F(LoadReporterTest, AStartThatFailsTakesItsBarAlong) {
  {
    LoadReporter reporter = Reporter(/*terminal=*/true);
    reporter.Report({0, 100}, 0);
    reporter.Report({50, 100}, 2 * kLoadReporterSecond);
  }
  ASSERT_THAT(bars_, SizeIs(2));
  EXPECT_EQ(bars_.back(), "");
}

}  // namespace
}  // namespace hydrant
