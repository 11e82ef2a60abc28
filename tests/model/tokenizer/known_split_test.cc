#include "model/tokenizer/known_split.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "model/tokenizer/split_regex.h"
#include "model/tokenizer/tokenizer_spec.h"
#include "tests/support/status_matchers.h"

namespace hydrant {
namespace {

struct Known {
  const char* name;
  KnownSplit split;
  std::string_view pattern;
};
void PrintTo(const Known& known, std::ostream* out) { *out << known.name; }

class KnownSplits : public testing::TestWithParam<Known> {};

// The regular expression is the oracle.
TEST_P(KnownSplits, CutWhereTheirPatternsDo) {
  ASSERT_EQ(FindKnownSplit(GetParam().pattern), GetParam().split);
  const auto regex = SplitRegex::Create(GetParam().pattern, "t.json");
  ASSERT_THAT(regex, IsOk());
  SplitRegex::Matcher matcher(*regex);
  // Something of every class and of every special case, more often what makes cases meet.
  const std::vector<std::string> parts = {
      "a",      "Z",      "s",      "t",      "re", "ve", "ll", "LL",     "'",    "'s",       "'S",     "\u017f",
      "'t",     "'d",     "'M",     "l",      "e",  "é",  "中", "ا",      "א",    "1",        "23",     "٣",
      "Ⅷ",      "½",      " ",      "  ",     " ",  "\t", "\n", "\r",     "\r\n", "\v",       "\u0085", "\u00a0",
      "\u3000", "\u2028", "\u200b", "\u180e", "!",  "?",  "_",  "\u0301", "😀",    "👩\u200d💻", "€",      "\x01"};
  std::mt19937 random(4);
  for (int round = 0; round < 40'000; ++round) {
    std::string text;
    for (int i = 0; i <= round % 12; ++i) text += parts[random() % parts.size()];
    for (size_t at = 0; at < text.size();) {
      SplitRegex::Match match;
      ASSERT_TRUE(matcher.Find(text, at, match));
      const size_t end = at + FirstWordEnd(GetParam().split, std::string_view(text).substr(at));
      ASSERT_EQ(match.begin, at);
      ASSERT_EQ(match.end, end) << testing::PrintToString(text) << " from " << at;
      at = end;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, KnownSplits,
                         testing::Values(Known{"Gpt2", KnownSplit::kGpt2, kGpt2Split},
                                         Known{"Llama3", KnownSplit::kLlama3, kLlama3Split},
                                         Known{"Qwen2", KnownSplit::kQwen2, kQwen2Split}),
                         [](const auto& test) { return test.param.name; });

TEST(KnownSplit, AnyOtherPatternIsLeftToTheRegularExpression) {
  EXPECT_EQ(FindKnownSplit(R"(\s+)"), KnownSplit::kNone);
  EXPECT_EQ(FindKnownSplit(std::string(kGpt2Split) + "|x"), KnownSplit::kNone);
}

}  // namespace
}  // namespace hydrant
