#include "model/text_splitter.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/model/status_matchers.h"

namespace hydrant {
namespace {

using Kind = SplitStage::Kind;
using Behavior = SplitStage::Behavior;
using Words = std::vector<std::string>;

SplitStage Stage(Kind kind, std::string pattern = "", Behavior behavior = Behavior::kIsolated, bool invert = false) {
  return {kind, std::move(pattern), behavior, invert};
}

Words Split(const std::vector<SplitStage>& stages, std::string_view text) {
  const auto splitter = TextSplitter::Create(stages, "t.json");
  EXPECT_THAT(splitter, IsOk());
  TextSplitter::Scratch scratch(*splitter);
  const auto& words = splitter->Split(text, scratch);
  return {words.begin(), words.end()};
}

struct Case {
  const char* name;
  SplitStage stage;
  const char* text;
  Words words;
};
class TextSplitterStage : public testing::TestWithParam<Case> {};

TEST_P(TextSplitterStage, CutsAsHuggingFaceDoes) {
  EXPECT_EQ(Split({GetParam().stage}, GetParam().text), GetParam().words);
}

// The behaviours' expectations were checked against Hugging Face tokenizers 0.23.
INSTANTIATE_TEST_SUITE_P(
    , TextSplitterStage,
    testing::Values(
        Case{
            "Isolated", Stage(Kind::kRegex, "-"), "the-final--countdown", {"the", "-", "final", "-", "-", "countdown"}},
        Case{"Removed",
             Stage(Kind::kRegex, "-", Behavior::kRemoved),
             "the-final--countdown",
             {"the", "final", "countdown"}},
        Case{"MergedWithPrevious",
             Stage(Kind::kRegex, "-", Behavior::kMergedWithPrevious),
             "the-final--countdown",
             {"the-", "final-", "-", "countdown"}},
        Case{"MergedWithNext",
             Stage(Kind::kRegex, "-", Behavior::kMergedWithNext),
             "the-final--countdown",
             {"the", "-final", "-", "-countdown"}},
        Case{"Contiguous",
             Stage(Kind::kRegex, "-", Behavior::kContiguous),
             "the-final--countdown",
             {"the", "-", "final", "--", "countdown"}},
        Case{"InvertedRemoved", Stage(Kind::kRegex, "[a-z]", Behavior::kRemoved, true), "ab-c", {"a", "b", "c"}},
        Case{"Literal", Stage(Kind::kLiteral, "."), "a.b..", {"a", ".", "b", ".", "."}},
        Case{"Digits", Stage(Kind::kDigits), "a12½٣b", {"a", "1", "2", "½", "٣", "b"}},
        Case{"DigitRuns", Stage(Kind::kDigitRuns), "a12½٣b", {"a", "12½٣", "b"}},
        Case{"PrefixSpace", Stage(Kind::kPrefixSpace), "ab", {" ab"}},
        Case{"PrefixSpaceOnce", Stage(Kind::kPrefixSpace), " ab", {" ab"}},
        Case{"EmptyMatches", Stage(Kind::kRegex, "x*"), "aéxb", {"a", "é", "x", "b"}},
        Case{"NoMatch", Stage(Kind::kRegex, "x"), "abc", {"abc"}}, Case{"EmptyText", Stage(Kind::kRegex, "x"), "", {}}),
    [](const auto& test) { return test.param.name; });

TEST(TextSplitter, EveryStageCutsThePiecesOfTheOneBefore) {
  EXPECT_EQ(Split({Stage(Kind::kDigits), Stage(Kind::kPrefixSpace), Stage(Kind::kRegex, " ?[a-z]+")}, "ab1cd ef"),
            (Words{" ab", " 1", " cd", " ef"}));
}

TEST(TextSplitter, WithoutStagesTextIsOneWord) { EXPECT_EQ(Split({}, "a b"), Words{"a b"}); }

TEST(TextSplitter, RefusesTooManyStagesAndEmptyLiterals) {
  EXPECT_THAT(TextSplitter::Create(std::vector<SplitStage>(17, Stage(Kind::kDigits)), "t.json"),
              RefusedWith("17 stages"));
  EXPECT_THAT(TextSplitter::Create({Stage(Kind::kLiteral)}, "t.json"), RefusedWith("empty string"));
}

}  // namespace
}  // namespace hydrant
