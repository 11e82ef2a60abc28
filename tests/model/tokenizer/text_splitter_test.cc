#include "model/tokenizer/text_splitter.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/status_matchers.h"

namespace hydrant {
namespace {

using TextSplitterKind = SplitStage::Kind;
using Behavior = SplitStage::Behavior;
using Words = std::vector<std::string>;

SplitStage Stage(TextSplitterKind kind, std::string pattern = "", Behavior behavior = Behavior::kIsolated,
                 bool invert = false) {
  return {kind, std::move(pattern), behavior, invert};
}

Words Split(const std::vector<SplitStage>& stages, std::string_view text, bool first = true) {
  const auto splitter = TextSplitter::Create(stages, "t.json");
  EXPECT_THAT(splitter, IsOk());
  TextSplitter::Scratch scratch(*splitter);
  const auto& words = splitter->Split(text, first, scratch);
  return {words.begin(), words.end()};
}

struct TextSplitterCase {
  const char* name;
  SplitStage stage;
  const char* text;
  Words words;
};
class TextSplitterStage : public testing::TestWithParam<TextSplitterCase> {};

TEST_P(TextSplitterStage, CutsAsHuggingFaceDoes) {
  EXPECT_EQ(Split({GetParam().stage}, GetParam().text), GetParam().words);
}

// The behaviours' expectations were checked against Hugging Face tokenizers 0.23.
INSTANTIATE_TEST_SUITE_P(
    , TextSplitterStage,
    testing::Values(
        TextSplitterCase{"Isolated",
                         Stage(TextSplitterKind::kRegex, "-"),
                         "the-final--countdown",
                         {"the", "-", "final", "-", "-", "countdown"}},
        TextSplitterCase{"Removed",
                         Stage(TextSplitterKind::kRegex, "-", Behavior::kRemoved),
                         "the-final--countdown",
                         {"the", "final", "countdown"}},
        TextSplitterCase{"MergedWithPrevious",
                         Stage(TextSplitterKind::kRegex, "-", Behavior::kMergedWithPrevious),
                         "the-final--countdown",
                         {"the-", "final-", "-", "countdown"}},
        TextSplitterCase{"MergedWithNext",
                         Stage(TextSplitterKind::kRegex, "-", Behavior::kMergedWithNext),
                         "the-final--countdown",
                         {"the", "-final", "-", "-countdown"}},
        TextSplitterCase{"Contiguous",
                         Stage(TextSplitterKind::kRegex, "-", Behavior::kContiguous),
                         "the-final--countdown",
                         {"the", "-", "final", "--", "countdown"}},
        TextSplitterCase{"InvertedRemoved",
                         Stage(TextSplitterKind::kRegex, "[a-z]", Behavior::kRemoved, true),
                         "ab-c",
                         {"a", "b", "c"}},
        TextSplitterCase{"Literal", Stage(TextSplitterKind::kLiteral, "."), "a.b..", {"a", ".", "b", ".", "."}},
        TextSplitterCase{"Digits", Stage(TextSplitterKind::kDigits), "a12½٣b", {"a", "1", "2", "½", "٣", "b"}},
        TextSplitterCase{"DigitRuns", Stage(TextSplitterKind::kDigitRuns), "a12½٣b", {"a", "12½٣", "b"}},
        TextSplitterCase{"PrefixSpace", Stage(TextSplitterKind::kPrefixSpace), "ab", {" ab"}},
        TextSplitterCase{"PrefixSpaceOnce", Stage(TextSplitterKind::kPrefixSpace), " ab", {" ab"}},
        TextSplitterCase{"EmptyMatches", Stage(TextSplitterKind::kRegex, "x*"), "aéxb", {"a", "é", "x", "b"}},
        TextSplitterCase{"NoMatch", Stage(TextSplitterKind::kRegex, "x"), "abc", {"abc"}},
        TextSplitterCase{"EmptyText", Stage(TextSplitterKind::kRegex, "x"), "", {}}),
    [](const auto& test) { return test.param.name; });

TEST(TextSplitter, EveryStageCutsThePiecesOfTheOneBefore) {
  EXPECT_EQ(Split({Stage(TextSplitterKind::kDigits), Stage(TextSplitterKind::kPrefixSpace),
                   Stage(TextSplitterKind::kRegex, " ?[a-z]+")},
                  "ab1cd ef"),
            (Words{" ab", " 1", " cd", " ef"}));
}

TEST(TextSplitter, WithoutStagesTextIsOneWord) { EXPECT_EQ(Split({}, "a b"), Words{"a b"}); }

TEST(TextSplitter, RefusesTooManyStagesAndEmptyLiterals) {
  EXPECT_THAT(TextSplitter::Create(std::vector<SplitStage>(17, Stage(TextSplitterKind::kDigits)), "t.json"),
              RefusedWith("17 stages"));
  EXPECT_THAT(TextSplitter::Create({Stage(TextSplitterKind::kLiteral)}, "t.json"), RefusedWith("empty string"));
}

SplitStage Metaspace(SplitStage::Prefix prefix, bool cuts) {
  SplitStage stage = Stage(TextSplitterKind::kMetaspace, "▁");
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
  EXPECT_EQ(Split({Stage(TextSplitterKind::kLiteral, "-"), mark}, "a-b"), (Words{"▁a", "-", "b"}));
  EXPECT_EQ(Split({Stage(TextSplitterKind::kWhiteSpace, "", Behavior::kRemoved), mark}, " a b"), (Words{"a", "b"}));
  EXPECT_EQ(Split({Stage(TextSplitterKind::kWhiteSpace, "", Behavior::kRemoved), mark}, "a b"), (Words{"▁a", "b"}));
}

TEST(TextSplitter, PunctuationAndWhiteSpaceAreCharacters) {
  EXPECT_EQ(Split({Stage(TextSplitterKind::kPunctuation)}, "a,b$¿€"), (Words{"a", ",", "b", "$", "¿", "€"}));
  EXPECT_EQ(Split({Stage(TextSplitterKind::kWhiteSpace, "", Behavior::kRemoved)}, " a\u3000\n b"), (Words{"a", "b"}));
}

}  // namespace
}  // namespace hydrant
