#include "model/tokenizer/split_effort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "model/tokenizer/split_regex.h"
#include "model/tokenizer/tokenizer_spec.h"
#include "tests/support/status_matchers.h"

namespace hydrant {
namespace {

absl::StatusOr<std::vector<std::string>> Alphabet(std::string_view pattern) {
  return SplitAlphabet(*TranslateSplitPattern(pattern, "t.json"), pattern, "t.json");
}

bool Has(const std::vector<std::string>& units, std::string_view unit) {
  return std::find(units.begin(), units.end(), unit) != units.end();
}

TEST(SplitEffort, RepeatsWhatThePatternSpellsAndTellsApart) {
  const auto units = Alphabet(R"(qz|(?i:'K)|\x{1F600}|[u-wy]+|\p{Tibetan}|\p{Lu}|\.)");
  ASSERT_THAT(units, IsOk());
  for (const char* unit : {"qz", "q", "z", "'", "K", "'K", "😀", "u", "A", ".", "\u0F00"}) {
    EXPECT_TRUE(Has(*units, unit)) << unit;
  }
  // One of the characters in the same classes is enough.
  EXPECT_EQ(Has(*units, "u") + Has(*units, "w") + Has(*units, "y"), 1);
  EXPECT_EQ(Alphabet(".")->size(), 2u);  // a line break and all the others
}

TEST(SplitEffort, AcceptsPublishedPatterns) {
  const std::string_view patterns[] = {
      kGpt2Split,
      kLlama3Split,
      kQwen2Split,
      // o200k
      R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
      // DeepSeek-V3
      R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
      R"([一-龥぀-ゟ゠-ヿ]+)",
  };
  for (const std::string_view pattern : patterns) {
    EXPECT_THAT(CheckSplitEffort(*TranslateSplitPattern(pattern, "t.json"), pattern, "t.json"), IsOk());
    EXPECT_LE(Alphabet(pattern)->size(), 40u) << pattern;
  }
}

TEST(SplitEffort, RefusesWhateverLettersTheEffortNeeds) {
  const std::string_view patterns[] = {
      "(?:(?:q|qq)+)+z",              // a letter that no fixed text would have
      R"(\x{1F600}+\x{1F600}+z)",     // beyond the letters
      R"(\p{Tibetan}+\p{Tibetan}z)",  // a class of which no sample is
      "(?:qxv)*(?:qxv)*z",            // a word
      "(?:[q][x])*(?:[q][x])*z",      // two kinds that are not spelled in a row
      "[q](?:[x]+)+z",                // behind another character only
      "(?i:Q+Q+z)",                   // in either case
  };
  for (const std::string_view pattern : patterns) {
    EXPECT_THAT(SplitRegex::Create(pattern, "t.json"), RefusedWith("t.json: split pattern: ", "too many steps"))
        << pattern;
  }
}

TEST(SplitEffort, RefusesPatternsThatTellTooMuchApart) {
  std::string classes, letters;
  for (int i = 0; i < 100; ++i) {
    classes +=
        "[" + std::string(1, static_cast<char>('a' + i % 26)) + std::string(static_cast<size_t>(i / 26 + 1), 'z') + "]";
    letters += "\\x{" + std::to_string(4000 + i) + "}?";
  }
  EXPECT_THAT(SplitRegex::Create(classes, "t.json"), RefusedWith("classes of characters; at most 64"));
  EXPECT_THAT(SplitRegex::Create(letters, "t.json"), RefusedWith("words and kinds of characters apart; at most 96"));
}

}  // namespace
}  // namespace hydrant
