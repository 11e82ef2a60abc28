#include "loadgen/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_split.h"

namespace hydrant {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::vector<std::string> Lines(const std::string& flag) { return absl::StrSplit(ParseOptions({flag}).message, '\n'); }

TEST(LoadgenFlags, HelpIsAPageAndHelpAllHasTheRest) {
  const std::vector<std::string> help = Lines("--help");
  const std::vector<std::string> all = Lines("--help-all");
  EXPECT_EQ(help[0], "hydrant-loadgen [flags]");
  EXPECT_LE(help.size(), 50u);
  EXPECT_THAT(help, Contains("  --port PORT                         port of the server (default: 8000)"));
  EXPECT_THAT(help, Not(Contains(HasSubstr("--burstiness"))));
  EXPECT_THAT(all, Contains(AllOf(StartsWith("  --burstiness SHAPE "), HasSubstr("(default: 1)"))));
  EXPECT_THAT(all, Contains(StartsWith("  --disable-tqdm, --no-progress  ")));
  // A flag without a line of explanation, or with one that a terminal would break, is not explained.
  for (const std::string& line : all) {
    EXPECT_LE(line.size(), 150u) << line;
    EXPECT_TRUE(!line.starts_with("  --") || line.size() > 50) << line;
  }
}

TEST(LoadgenFlags, WhateverHelpShowsExists) {
  CLI::App app("", "hydrant-loadgen");
  Options options;
  RawFlags raw;
  AddFlags(app, options, raw);
  for (const std::string& line : Lines("--help")) {
    if (!line.starts_with("  --")) continue;
    EXPECT_NE(app.get_option_no_throw(line.substr(2, line.find(' ', 2) - 2)), nullptr) << line;
  }
}

}  // namespace
}  // namespace hydrant
