#include "api/flags/command_line.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "api/flags/flag_group.h"

namespace hydrant {
namespace {

struct Kettle {
  Kettle() {
    app.set_version_flag("--version", "kettle 2");
    FlagGroup(app, "Brewing").AddWithDefault("--seconds", "SECONDS", seconds, "for how long");
    FlagGroup(app, "Brewing").AddChoice("--leaf", {"green", "black"}, leaf, "of what");
    FlagGroup(app, "Serving").AddSwitch("--milk,!--no-milk", milk, "with milk");
  }

  CLI::App app{"Brews tea.", "kettle"};
  int seconds = 90;
  std::string leaf = "green";
  bool milk = true;
};

TEST(CommandLine, ArgumentsAreTakenInTheirOrder) {
  Kettle kettle;
  ParseArguments(kettle.app, {"--seconds", "5", "--no-milk"});
  EXPECT_EQ(kettle.seconds, 5);
  EXPECT_FALSE(kettle.milk);
}

TEST(CommandLine, AChoiceIsOneOfThoseOnThePage) {
  Kettle kettle;
  EXPECT_NE(kettle.app.help().find("green|black"), std::string::npos);
  ParseArguments(kettle.app, {"--leaf", "black"});
  EXPECT_EQ(kettle.leaf, "black");
  EXPECT_THROW(ParseArguments(kettle.app, {"--leaf", "red"}), CLI::ValidationError);
}

TEST(CommandLine, AnAnswerHasNoLineEndBehindIt) {
  Kettle kettle;
  try {
    ParseArguments(kettle.app, {"--version"});
    FAIL();
  } catch (const CLI::Success& request) {
    EXPECT_EQ(AnswerOf(kettle.app, request), "kettle 2");
  }
}

TEST(CommandLine, AFlagThatDoesNotExistIsTold) {
  const Kettle kettle;
  const auto wrong = [&](const std::vector<std::string>& arguments) {
    return WrongFlag(kettle.app, arguments, "kettle --help");
  };
  EXPECT_EQ(wrong({"--seconds=5", "--no-milk"}), "");
  EXPECT_EQ(wrong({"--second=5"}), "--second: did you mean --seconds?");
  EXPECT_EQ(wrong({"--no-mlik"}), "--no-mlik: did you mean --no-milk?");
  EXPECT_EQ(wrong({"--whistle"}), "--whistle: there is no such flag; kettle --help lists them");
}

TEST(CommandLine, AMessageHasOneLine) { EXPECT_EQ(OneLine("a\nb\n"), "a b "); }

}  // namespace
}  // namespace hydrant
