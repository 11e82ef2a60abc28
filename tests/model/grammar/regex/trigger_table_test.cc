#include "model/grammar/regex/trigger_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace hydrant::grammar {
namespace {

TEST(TriggerTable, KnowsWhatEndsAndWhatIsBegun) {
  std::mt19937 random(3);
  const auto text_of = [&](size_t most) {
    std::string text;
    for (size_t left = 1 + random() % most; left > 0; --left) text += static_cast<char>('a' + random() % 2);
    return text;
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> triggers;
    for (size_t i = 0; i < 1 + random() % 4; ++i) triggers.push_back(text_of(5));
    const TriggerTable table(triggers);
    const std::string text = text_of(20) + "c" + text_of(20);
    int32_t state = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      state = table.Step(state, static_cast<uint8_t>(text[i]));
      const std::string_view read = std::string_view(text).substr(0, i + 1);
      size_t depth = 0;
      std::vector<int32_t> ended;
      for (size_t t = 0; t < triggers.size(); ++t) {
        const std::string_view own = triggers[t];
        if (read.ends_with(own)) ended.push_back(static_cast<int32_t>(t));
        for (size_t bytes = 1; bytes <= own.size(); ++bytes) {
          if (read.ends_with(own.substr(0, bytes))) depth = std::max(depth, bytes);
        }
      }
      std::vector<int32_t> fired(table.Fired(state).begin(), table.Fired(state).end());
      std::ranges::sort(fired);
      ASSERT_EQ(fired, ended) << text << " at " << i;
      ASSERT_EQ(table.Depth(state), static_cast<int32_t>(depth));
    }
  }
}

TEST(TriggerTable, MeasuresTheWayToATrigger) {
  const TriggerTable table({"abab", "bb"});
  constexpr int64_t kFar = 1000;
  EXPECT_EQ(table.Distances(std::vector<int64_t>{0, 9}, kFar)[0], 4);
  EXPECT_EQ(table.Distances(std::vector<int64_t>{9, 0}, kFar)[0], 2);
  EXPECT_EQ(table.Distances(std::vector<int64_t>{kFar, kFar}, kFar)[0], kFar);
  // One that must not come is gone round.
  EXPECT_EQ(TriggerTable({"b", "ab"}).Distances(std::vector<int64_t>{1, kFar}, kFar)[0], 2);
  EXPECT_EQ(TriggerTable({"ab", "b"}).Distances(std::vector<int64_t>{1, kFar}, kFar)[0], kFar);
}

}  // namespace
}  // namespace hydrant::grammar
