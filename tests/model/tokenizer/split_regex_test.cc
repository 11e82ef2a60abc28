#include "model/tokenizer/split_regex.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/tokenizer/tokenizer_spec.h"
#include "tests/support/status_matchers.h"

namespace hydrant {
namespace {

std::vector<std::string> AllMatches(const SplitRegex& regex, std::string_view text) {
  SplitRegex::Matcher matcher(regex);
  SplitRegex::Match match;
  std::vector<std::string> found;
  size_t at = 0;
  while (at < text.size() && matcher.Find(text, at, match) && match.end > match.begin) {
    found.emplace_back(text.substr(match.begin, match.end - match.begin));
    at = match.end;
  }
  return found;
}

std::vector<std::string> AllMatches(std::string_view pattern, std::string_view text) {
  const auto regex = SplitRegex::Create(pattern, "t.json");
  EXPECT_THAT(regex, IsOk());
  return AllMatches(*regex, text);
}

using Words = std::vector<std::string>;

TEST(SplitRegex, SplitsAsGpt2Does) {
  EXPECT_EQ(AllMatches(kGpt2Split, "It's  2024, déjà\n\n vu"),
            (Words{"It", "'s", " ", " 2024", ",", " déjà", "\n\n", " vu"}));
}

TEST(SplitRegex, WhiteSpaceIsThePropertyWhiteSpace) {
  // U+0085 is white space, U+180E and U+200B are not.
  EXPECT_EQ(AllMatches(R"(\s+|\S+)", "a\u0085\u00a0b\u180e\u200bc"), (Words{"a", "\u0085\u00a0", "b\u180e\u200bc"}));
  EXPECT_EQ(AllMatches(R"([^\s]+)", "a\u180eb \u2028c"), (Words{"a\u180eb", "c"}));
}

TEST(SplitRegex, WordsHaveMarksAndConnectors) {
  EXPECT_EQ(AllMatches(R"(\w+)", "na\u0308ive_x‿y-z"), (Words{"na\u0308ive_x‿y", "z"}));
}

TEST(SplitRegex, DigitsAreDecimalDigits) { EXPECT_EQ(AllMatches(R"(\d+)", "1٣½"), (Words{"1٣"})); }

TEST(SplitRegex, ReadsCodePointsInThreeSpellings) {
  EXPECT_EQ(AllMatches(R"([\u4e00-\u9fa5]+|\x41|\x{1F600})", "A中文😀b"), (Words{"A", "中文", "😀"}));
}

struct Refused {
  const char* name;
  const char* pattern;
  const char* named;
};
class SplitRegexRefusal : public testing::TestWithParam<Refused> {};

TEST_P(SplitRegexRefusal, NamesTheConstruct) {
  EXPECT_THAT(SplitRegex::Create(GetParam().pattern, "t.json"), RefusedWith("t.json: split pattern", GetParam().named));
}

INSTANTIATE_TEST_SUITE_P(
    , SplitRegexRefusal,
    testing::Values(Refused{"Syntax", "(a", "parenthesis"}, Refused{"Class", "[a", "[ without ]"},
                    Refused{"NestedClass", "[a[b]]", "[b"}, Refused{"Intersection", "[a&&b]", "&&"},
                    Refused{"NegatedEscapeInClass", R"([\S])", R"(\\S)"}, Refused{"Anchor", "^a", "^"},
                    Refused{"WordBoundary", R"(\bx)", R"(\\b)"}, Refused{"HexEscape", R"(\h)", R"(\\h)"},
                    Refused{"BackReference", R"((a)\1)", R"(\\1)"}, Refused{"NamedGroup", "(?<n>a)", "(?<n"},
                    Refused{"Verb", "(*COMMIT)a", "(*"}, Refused{"Recursion", "(?R)", "(?R)"},
                    Refused{"PossessiveInterval", "a{1,3}+", "{1,3}+"}, Refused{"RawByte", R"(\xff)", R"(\\xff)"},
                    Refused{"LooseLookbehind", "(?<=a+)b", "lookbehind"},
                    Refused{"Exponential", "(a+)+!", "too many steps"},
                    Refused{"Quadratic", R"(\s+\n!)", "too many steps"},
                    Refused{"NestedQuantifiers", "(([a-z])+.)+[A-Z]([a-z])+", "too many steps"}),
    [](const auto& test) { return test.param.name; });

TEST(SplitRegex, RefusesPatternsBeyondTheirLimit) {
  EXPECT_THAT(SplitRegex::Create(std::string(100'000, 'a'), "t.json"), RefusedWith("100000 bytes"));
}

TEST(SplitRegex, GivesUpOnTextThatNeedsTooManySteps) {
  // Passes the check, whose texts alternate no three characters that the pattern does not spell in a row.
  const auto regex = SplitRegex::Create("(?:(?:[x][y][z]|[x][y][z][x][y][z])+)+w", "t.json");
  ASSERT_THAT(regex, IsOk());
  std::string text;
  for (int i = 0; i < 200; ++i) text += "xyz";
  EXPECT_EQ(AllMatches(*regex, text + "!"), Words{});
}

}  // namespace
}  // namespace hydrant
