#include "server/generation/stop_string_finder.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "server/generation/choice_assembler.h"
#include "tests/support/byte_tokenizer.h"

namespace hydrant {
namespace {

using Stops = std::vector<std::string>;

// How many tokens of `text` it takes; -1: it never ends.
int32_t EndOf(const std::string& text, const Stops& stops, int32_t min_tokens = 0) {
  StopStringFinder finder(std::make_shared<ByteTokenizer>(), std::make_shared<const StopStrings>(stops), true,
                          min_tokens);
  for (size_t i = 0; i < text.size(); ++i) {
    if (finder.Push(static_cast<unsigned char>(text[i]))) return static_cast<int32_t>(i + 1);
  }
  return -1;
}

TEST(StopStringFinder, EndsWithTheTokenThatCompletesAStopString) {
  EXPECT_EQ(EndOf("one two", {"two"}), 7);
  EXPECT_EQ(EndOf("one two three", {"three", "two"}), 7);
  EXPECT_EQ(EndOf("aab", {"ab"}), 3);
  EXPECT_EQ(EndOf("one tw", {"two"}), -1);
}

TEST(StopStringFinder, DoesNotSearchWhatMustBeGenerated) {
  EXPECT_EQ(EndOf("nono", {"no"}, 1), 4);
  EXPECT_EQ(EndOf("nono", {"no"}, 2), 4);
  EXPECT_EQ(EndOf("nono", {"no"}, 4), -1);
}

TEST(StopStringFinder, ReadsCharactersNotBytes) {
  EXPECT_EQ(EndOf("\xc3\xa9t\xc3\xa9", {"\xc3\xa9t"}), 3);
  EXPECT_EQ(EndOf("\xc3", {"\xc3\xa9"}), -1);
}

// The engine ends a sequence where the connection, which cuts the text, finds its end.
TEST(StopStringFinder, AgreesWithTheAssemblerOnEveryText) {
  std::mt19937 random(5);
  const auto below = [&random](int32_t n) { return std::uniform_int_distribution<int32_t>(0, n - 1)(random); };
  const std::string letters = "ab\xc3\xa9\xe2\x82\xac";
  for (int32_t round = 0; round < 2000; ++round) {
    GenerationFields request;
    request.min_tokens = below(4);
    request.skip_special_tokens = below(2) == 0;
    for (int32_t i = 0; i <= below(3); ++i) {
      std::string stop;
      for (int32_t k = 0; k <= below(3); ++k) stop += below(4) == 0 ? "\xc3\xa9" : std::string(1, "ab"[below(2)]);
      request.stop.push_back(stop);
    }
    const auto tokenizer = std::make_shared<ByteTokenizer>();
    const std::vector<int32_t> prompt = {'x'};
    const auto stops = std::make_shared<const StopStrings>(request.stop);
    ChoiceAssembler assembler(*tokenizer, request, *stops, prompt, 0, true);
    StopStringFinder finder(tokenizer, stops, request.skip_special_tokens, request.min_tokens);
    for (int32_t i = 0; i < 20 && !assembler.finished(); ++i) {
      TokenEvent event;
      event.token =
          static_cast<unsigned char>(letters[static_cast<size_t>(below(static_cast<int32_t>(letters.size())))]);
      const bool ends = finder.Push(event.token);
      assembler.AddToken(event);
      ASSERT_EQ(assembler.finished(), ends) << "round " << round << ", token " << i;
    }
  }
}

}  // namespace
}  // namespace hydrant
