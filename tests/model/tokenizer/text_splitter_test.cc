#include "model/tokenizer/text_splitter.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/status_matchers.h"

namespace hydrant {
namespace {

using Kind = SplitStage::Kind;
using Behavior = SplitStage::Behavior;
using Words = std::vector<std::string>;

SplitStage Stage(Kind kind, std::string pattern = "", Behavior behavior = Behavior::kIsolated, bool invert = false) {
  return {kind, std::move(pattern), behavior, invert};
}

Words Split(const std::vector<SplitStage>& stages, std::string_view text, bool first = true) {
  const auto splitter = TextSplitter::Create(stages, "t.json");
  EXPECT_THAT(splitter, IsOk());
  TextSplitter::Scratch scratch(*splitter);
  const auto& words = splitter->Split(text, first, scratch);
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

SplitStage Metaspace(SplitStage::Prefix prefix, bool cuts) {
  SplitStage stage = Stage(Kind::kMetaspace, "▁");
  stage.prefix = prefix;
  stage.cuts = cuts;
  return stage;
}

TEST(TextSplitter, MetaspaceMarksSpacesAndCutsBeforeThem) {
  using Prefix = SplitStage::Prefix;
  EXPECT_EQ(Split({Metaspace(Prefix::kAlways, true)}, "a b  c"), (Words{"▁a", "▁b", "▁", "▁c"}));
  EXPECT_EQ(Split({Metaspace(Prefix::kAlways, true)}, " a"), (Words{"▁a"}));
  EXPECT_EQ(Split({Metaspace(Prefix::kAlways, true)}, "▁a"), (Words{"▁a"}));
  EXPECT_EQ(Split({Metaspace(Prefix::kNever, false)}, "a b "), (Words{"a▁b▁"}));
  EXPECT_EQ(Split({Metaspace(Prefix::kFirst, false)}, "a b"), (Words{"▁a▁b"}));
  EXPECT_EQ(Split({Metaspace(Prefix::kFirst, false)}, "a b", /*first=*/false), (Words{"a▁b"}));
}

TEST(TextSplitter, OnlyThePieceAtTheFrontOfTheTextIsFirst) {
  const SplitStage mark = Metaspace(SplitStage::Prefix::kFirst, true);
  EXPECT_EQ(Split({Stage(Kind::kLiteral, "-"), mark}, "a-b"), (Words{"▁a", "-", "b"}));
  EXPECT_EQ(Split({Stage(Kind::kWhiteSpace, "", Behavior::kRemoved), mark}, " a b"), (Words{"a", "b"}));
  EXPECT_EQ(Split({Stage(Kind::kWhiteSpace, "", Behavior::kRemoved), mark}, "a b"), (Words{"▁a", "b"}));
}

TEST(TextSplitter, PunctuationAndWhiteSpaceAreCharacters) {
  EXPECT_EQ(Split({Stage(Kind::kPunctuation)}, "a,b$¿€"), (Words{"a", ",", "b", "$", "¿", "€"}));
  EXPECT_EQ(Split({Stage(Kind::kWhiteSpace, "", Behavior::kRemoved)}, " a\u3000\n b"), (Words{"a", "b"}));
}

}  // namespace
}  // namespace hydrant
