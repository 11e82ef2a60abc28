#include "server/generation/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace hydrant {
namespace {

using Strings = std::vector<std::string>;

struct StopMatcherOutcome {
  std::string text;
  std::string match;  // "": none
};

StopMatcherOutcome Match(const Strings& stops, bool include, const Strings& pieces) {
  const StopStrings searched(stops);
  StopMatcher matcher(searched, include);
  StopMatcherOutcome outcome;
  for (const std::string& piece : pieces) {
    outcome.text += matcher.Push(piece);
    if (matcher.matched()) break;
  }
  if (matcher.matched()) {
    outcome.match = matcher.match();
  } else {
    outcome.text += matcher.Finish();
  }
  return outcome;
}

TEST(StopMatcher, CutsAtTheMatchThatEndsFirst) {
  const struct {
    const char* name;
    Strings stops, pieces;
    const char *text, *match;
  } cases[] = {
      {"no stops", {}, {"abc", "def"}, "abcdef", ""},
      {"in one piece", {"lo"}, {"hello world"}, "hel", "lo"},
      {"over three pieces", {"abc"}, {"xa", "b", "cd"}, "x", "abc"},
      {"a false start", {"abc"}, {"ab", "ab", "c"}, "ab", "abc"},
      {"overlap with itself", {"aab"}, {"aa", "ab"}, "a", "aab"},
      {"two at once: ends first", {"bcd", "c"}, {"abcd"}, "ab", "c"},
      {"two at once: starts first", {"c", "bc"}, {"abc"}, "a", "bc"},
      {"only the beginning", {"stop"}, {"a sto"}, "a sto", ""},
      {"at the start", {"x"}, {"x"}, "", "x"},
      {"newlines", {"\n\n"}, {"a\n", "\nb"}, "a", "\n\n"},
      {"bytes of a character", {"é"}, {"caf\xc3", "\xa9!"}, "caf", "é"},
  };
  for (const auto& test : cases) {
    const StopMatcherOutcome outcome = Match(test.stops, false, test.pieces);
    EXPECT_EQ(outcome.text, test.text) << test.name;
    EXPECT_EQ(outcome.match, test.match) << test.name;
    EXPECT_EQ(Match(test.stops, true, test.pieces).text, std::string(test.text) + test.match) << test.name;
  }
}

TEST(StopMatcher, NeverLetsGoOfWhatMayBecomeAStopString) {
  const StopStrings stops({"abcd", "bce"});
  StopMatcher matcher(stops, false);
  EXPECT_EQ(matcher.Push("xa"), "x");
  EXPECT_EQ(matcher.Push("b"), "");
  EXPECT_EQ(matcher.Push("c"), "");
  EXPECT_EQ(matcher.Push("e"), "a") << "the other one matched";
  EXPECT_TRUE(matcher.matched());
}

TEST(StopMatcher, TextBeforeMinTokensIsNotSearched) {
  const StopStrings stops({"ab"});
  StopMatcher matcher(stops, false);
  EXPECT_EQ(matcher.PushUnsearched("ab"), "ab");
  EXPECT_EQ(matcher.Push("a"), "");
  EXPECT_EQ(matcher.PushUnsearched("b"), "ab") << "what was held back comes first";
  EXPECT_EQ(matcher.Push("ab"), "");
  EXPECT_TRUE(matcher.matched());
}

// The definition: search the whole text after every byte.
StopMatcherOutcome ByDefinition(const Strings& stops, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t begin = end;
    std::string match;
    for (const std::string& stop : stops) {
      if (end < stop.size() || text.compare(end - stop.size(), stop.size(), stop) != 0) continue;
      if (end - stop.size() < begin) begin = end - stop.size(), match = stop;
    }
    if (!match.empty()) return {text.substr(0, begin), match};
  }
  return {text, ""};
}

TEST(StopMatcher, EqualsItsDefinitionHoweverTheTextIsCut) {
  std::mt19937 random(7);
  const auto letters = [&](size_t length) {
    std::string text(length, 'a');
    for (char& c : text) c = static_cast<char>('a' + random() % 2);
    return text;
  };
  int matches = 0;
  for (int round = 0; round < 3000; ++round) {
    Strings stops;
    for (size_t i = random() % 3 + 1; i > 0; --i) stops.push_back(letters(random() % 5 + 1));
    const std::string text = letters(random() % 30);
    Strings pieces;
    for (size_t at = 0; at < text.size();) {
      const size_t length = random() % 4 + 1;
      pieces.push_back(text.substr(at, length));
      at += length;
    }
    const StopMatcherOutcome expected = ByDefinition(stops, text);
    const StopMatcherOutcome outcome = Match(stops, false, pieces);
    ASSERT_EQ(outcome.text, expected.text) << text;
    ASSERT_EQ(outcome.match, expected.match) << text;
    matches += expected.match.empty() ? 0 : 1;
  }
  EXPECT_GT(matches, 1000);
}

}  // namespace
}  // namespace hydrant
