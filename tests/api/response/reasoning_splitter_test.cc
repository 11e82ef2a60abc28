#include "api/response/reasoning_splitter.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

namespace hydrant {
namespace {

const ReasoningMarkers kThink = {"<think>", "</think>", ""};
const ReasoningMarkers kChannels = {"<|c|>analysis<|m|>", "<|end|>", "<|s|>final<|m|>"};

// "reasoning|text|bytes up to the end of the reasoning"
std::string Split(ReasoningSplitter splitter, const std::vector<std::string_view>& pieces) {
  std::string reasoning, text;
  for (const std::string_view piece : pieces) {
    ReasoningSplitter::Output output = splitter.Push(piece);
    EXPECT_TRUE(output.reasoning.empty() || text.empty()) << "reasoning comes first";
    reasoning += output.reasoning;
    text += output.text;
  }
  const ReasoningSplitter::Output last = splitter.Finish();
  return reasoning + last.reasoning + "|" + text + last.text + "|" + std::to_string(splitter.reasoning_end());
}

TEST(ReasoningSplitter, PartsWhatIsThoughtFromWhatIsSaid) {
  const struct {
    const char* name;
    ReasoningMarkers markers;
    bool opened;
    std::string text, parts;
  } cases[] = {
      {"no markers", {}, false, " <think>a</think>b", "| <think>a</think>b|0"},
      {"no reasoning", kThink, false, "\n hello <think>", "|\n hello <think>|0"},
      {"reasoning", kThink, false, "<think>\na b\n</think>\n\nc d\n", "a b|c d\n|20"},
      {"white space before", kThink, false, "\n<think>a</think>b", "a|b|17"},
      {"opened by the prompt", kThink, true, "a\n</think>\n\nb", "a|b|10"},
      {"opened twice", kThink, true, "<think>\na</think>b", "a|b|17"},
      {"never closed", kThink, true, "a </thin", "a </thin||8"},
      {"never closed, by the model", kThink, false, "<think>a ", "a||9"},
      {"opened, nothing else", kThink, true, "", "||0"},
      {"opened, part of a marker", kThink, true, "<th", "<th||3"},
      {"part of a marker", kThink, false, "<th", "|<th|0"},
      {"another word", kThink, false, "<thing>", "|<thing>|0"},
      {"nothing thought", kThink, false, "<think>\n\n</think>\n\nb", "|b|17"},
      {"nothing said", kThink, false, "<think>a</think>\n", "a||16"},
      {"closed without being opened", kThink, false, "a</think>b", "|a</think>b|0"},
      {"the markers are text afterwards", kThink, true, "a</think>b<think>c</think>", "a|b<think>c</think>|9"},
      {"a marker in a marker", kThink, true, "a</</think>b", "a</|b|11"},
      {"an answer led in", kChannels, false, "<|c|>analysis<|m|>a<|end|><|s|>final<|m|>b", "a|b|26"},
      {"an answer not led in", kChannels, false, "<|c|>analysis<|m|>a<|end|><|s|>b", "a|<|s|>b|26"},
      {"an answer half led in", kChannels, true, "a<|end|> <|s|>fi", "a|<|s|>fi|8"},
      {"no reasoning in channels", kChannels, false, "<|c|>other", "|<|c|>other|0"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(Split(ReasoningSplitter(c.markers, c.opened), {c.text}), c.parts) << c.name;
  }
}

TEST(ReasoningSplitter, MakesTheSameOfEveryWayToCutAText) {
  std::mt19937 random(7);
  const std::vector<std::string> words = {
      "<think>", "</think>",           "<th", "</", "ink>", " ", "\n", "a", "b c", "<|s|>", "final<|m|>",
      "<|end|>", "<|c|>analysis<|m|>", "<"};
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (size_t n = random() % 12; n > 0; --n) text += words[random() % words.size()];
    const ReasoningSplitter splitter(random() % 2 == 0 ? kThink : kChannels, random() % 2 == 0);
    std::vector<std::string_view> pieces;
    for (size_t at = 0; at < text.size(); at += pieces.back().size()) {
      pieces.push_back(std::string_view(text).substr(at, 1 + random() % 4));
    }
    ASSERT_EQ(Split(splitter, pieces), Split(splitter, {text})) << text;
  }
}

TEST(ReasoningSplitter, HoldsBackNoMoreThanItMust) {
  ReasoningSplitter splitter(kThink, /*opened=*/true);
  EXPECT_EQ(splitter.Push("a").reasoning, "a");
  EXPECT_EQ(splitter.Push(" <").reasoning, "");
  EXPECT_EQ(splitter.Push("b").reasoning, " <b");
  EXPECT_FALSE(splitter.past_reasoning());
  EXPECT_EQ(splitter.Push("</think>\n").reasoning, "");
  EXPECT_TRUE(splitter.past_reasoning());
  EXPECT_EQ(splitter.Push("c ").text, "c ");
}

// A model in a loop may write white space for ever.
TEST(ReasoningSplitter, IsLinearInWhiteSpace) {
  for (const bool opened : {false, true}) {
    ReasoningSplitter splitter(kThink, opened);
    for (int i = 0; i < 2'000'000; ++i) splitter.Push("\n");
    EXPECT_EQ(splitter.Push("a").text.size(), opened ? 0u : 2'000'001u);
  }
}

}  // namespace
}  // namespace hydrant
