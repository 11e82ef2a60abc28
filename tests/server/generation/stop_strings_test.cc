#include "server/generation/stop_strings.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace hydrant {
namespace {

struct Reading {
  int32_t match = -1;
  size_t read = 0;  // bytes, up to the first match
  size_t depth = 0;
  int64_t visited = 0;
};

Reading Read(const StopStrings& stops, const std::string& text) {
  Reading reading;
  StopStrings::State state = StopStrings::kStart;
  for (const char byte : text) {
    state = stops.Next(state, byte, &reading.visited);
    ++reading.read;
    reading.depth = stops.depth(state);
    reading.match = stops.match(state);
    if (reading.match >= 0) break;
  }
  return reading;
}

TEST(StopStrings, TheLongestThatEndsFirstIsFound) {
  const struct {
    const char* name;
    std::vector<std::string> strings;
    const char* text;
    int32_t match;
    size_t read, depth;
  } cases[] = {
      {"none", {}, "abc", -1, 3, 0},
      {"not there", {"abd"}, "abcab", -1, 5, 2},
      {"one byte", {"b"}, "abc", 0, 2, 1},
      {"inside another", {"abcd", "bc"}, "xabcd", 1, 4, 3},
      {"the longer of two that end together", {"c", "abc", "bc"}, "abc", 1, 3, 3},
      {"the first of equal ones", {"ab", "ab"}, "ab", 0, 2, 2},
      {"overlaps with itself", {"aab"}, "aaab", 0, 4, 3},
      {"a false start leads into another", {"abcx", "bcy"}, "abcy", 1, 4, 3},
      {"bytes above 127", {"\xc3\xa9"}, "\xc3\xc3\xa9", 0, 3, 2},
      {"a zero byte", {std::string("\0b", 2)}, "ab", -1, 2, 0},
  };
  for (const auto& test : cases) {
    const Reading reading = Read(StopStrings(test.strings), test.text);
    EXPECT_EQ(reading.match, test.match) << test.name;
    EXPECT_EQ(reading.read, test.read) << test.name;
    EXPECT_EQ(reading.depth, test.depth) << test.name;
  }
}

// Comparing every end of the text with every beginning would look at millions of bytes in each of these.
TEST(StopStrings, TheWorkIsLinearInTheTextWhateverTheStrings) {
  constexpr size_t kLength = 4096;
  const std::string as(kLength, 'a');
  const std::string half(kLength / 2, 'a');
  std::string fibonacci = "a";
  for (std::string before = "b"; fibonacci.size() < kLength;) before = std::exchange(fibonacci, fibonacci + before);
  const struct {
    const char* name;
    std::vector<std::string> strings;
    std::string text;
  } cases[] = {
      {"aaa…b in aaa…", {as + "b"}, as + as},
      {"aaa…b in aaa…c, again and again", {as + "b"}, as + "c" + as + "c"},
      {"baaa… in aaa…", {"b" + as}, as + as},
      {"aaa…baaa… in aaa…", {half + "b" + half}, as + as},
      {"aaa…baaa… in aaa…baaa…c", {half + "b" + half}, half + "b" + half.substr(1) + "c" + half + "b" + as},
      {"a Fibonacci string, its end missed", {fibonacci + "x"}, fibonacci + "y" + fibonacci},
      {"two with a common beginning", {as + "b", half + "c"}, as + as + "d" + as},
  };
  for (const auto& test : cases) {
    const Reading reading = Read(StopStrings(test.strings), test.text);
    const auto bytes = static_cast<int64_t>(reading.read * test.strings.size());
    EXPECT_LE(reading.visited, 4 * bytes) << test.name;
    EXPECT_GE(reading.visited, static_cast<int64_t>(reading.read)) << test.name;
  }
  EXPECT_EQ(Read(StopStrings({as + "b"}), as + as + "b").match, 0);
}

}  // namespace
}  // namespace hydrant
