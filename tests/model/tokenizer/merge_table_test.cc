#include "model/tokenizer/merge_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace hydrant {
namespace {

using Merges = std::map<std::pair<int32_t, int32_t>, std::pair<uint32_t, int32_t>>;  // pair -> rank, merged

MergeTable TableOf(const Merges& merges) {
  MergeTable table(merges.size());
  for (const auto& [pair, result] : merges) table.Add(pair.first, pair.second, result.first, result.second);
  return table;
}

// The definition: look at all pairs, merge the leftmost of the best rank, start again.
std::vector<int32_t> Naive(const Merges& merges, std::vector<int32_t> symbols) {
  while (true) {
    size_t best = symbols.size();
    uint32_t best_rank = ~0u;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto merge = merges.find({symbols[i], symbols[i + 1]});
      if (merge == merges.end() || merge->second.first >= best_rank) continue;
      best = i;
      best_rank = merge->second.first;
    }
    if (best == symbols.size()) return symbols;
    symbols[best] = merges.at({symbols[best], symbols[best + 1]}).second;
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

TEST(MergeTable, AppliesTheBestRankFirst) {
  // "abc": (b, c) has the better rank, so (a, b) never happens.
  std::vector<int32_t> symbols = {'a', 'b', 'c'};
  TableOf({{{'a', 'b'}, {1, 300}}, {{'b', 'c'}, {0, 301}}}).Apply(symbols);
  EXPECT_EQ(symbols, (std::vector<int32_t>{'a', 301}));
}

TEST(MergeTable, WithoutMergesLeavesEverything) {
  std::vector<int32_t> symbols(100, 7);
  MergeTable(0).Apply(symbols);
  EXPECT_EQ(symbols, std::vector<int32_t>(100, 7));
}

TEST(MergeTable, ALaterMergeOfTheSamePairReplacesTheEarlier) {
  MergeTable table(2);
  table.Add(1, 2, 0, 10);
  table.Add(1, 2, 1, 11);
  std::vector<int32_t> symbols = {1, 2};
  table.Apply(symbols);
  EXPECT_EQ(symbols, std::vector<int32_t>{11});
}

TEST(MergeTable, EqualsTheDefinitionOnRandomMergesAndLengths) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    // Merged symbols may have better ranks than their parts, which trained tables never have but files can.
    Merges merges;
    const int32_t alphabet = 2 + static_cast<int32_t>(random() % 4);
    std::vector<uint32_t> ranks(40);
    for (uint32_t i = 0; i < ranks.size(); ++i) ranks[i] = i;
    std::shuffle(ranks.begin(), ranks.end(), random);
    for (uint32_t i = 0; i < ranks.size(); ++i) {
      const auto symbol = [&] {
        return static_cast<int32_t>(random() % static_cast<uint32_t>(alphabet + static_cast<int32_t>(i)));
      };
      merges[{symbol(), symbol()}] = {ranks[i], alphabet + static_cast<int32_t>(i)};
    }
    const MergeTable table = TableOf(merges);
    for (const size_t length : {0, 1, 2, 15, 16, 17, 47, 48, 49, 50, 200}) {
      std::vector<int32_t> symbols(length);
      for (int32_t& symbol : symbols) symbol = static_cast<int32_t>(random() % static_cast<uint32_t>(alphabet));
      const std::vector<int32_t> expected = Naive(merges, symbols);
      table.Apply(symbols);
      ASSERT_EQ(symbols, expected) << "length " << length;
    }
  }
}

}  // namespace
}  // namespace hydrant
