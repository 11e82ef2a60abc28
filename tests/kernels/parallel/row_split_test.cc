#include "kernels/parallel/row_split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

namespace hydrant {
namespace {

// Rows whose one element is their number.
WeightRows Numbered() {
  return {
      [](int64_t begin, int64_t end, float* out) { std::iota(out, out + (end - begin), static_cast<float>(begin)); }};
}

std::vector<float> RowsOf(const RowSplit& split) {
  std::vector<float> rows(static_cast<size_t>(split.spec().rows));
  const WeightRows own = split.RowsOf(Numbered());
  // In two pieces, as several threads read them.
  const int64_t half = split.spec().rows / 2;
  own.fp32(0, half, rows.data());
  own.fp32(half, split.spec().rows, rows.data() + half);
  return rows;
}

TEST(RowSplit, GivesEachRankAdjacentOutputs) {
  const LinearSpec whole = {.rows = 7, .cols = 1};
  EXPECT_EQ(RowsOf(RowSplit(whole, 0, 3)), (std::vector<float>{0, 1}));
  EXPECT_EQ(RowsOf(RowSplit(whole, 1, 3)), (std::vector<float>{2, 3}));
  EXPECT_EQ(RowsOf(RowSplit(whole, 2, 3)), (std::vector<float>{4, 5, 6}));
  EXPECT_EQ(RowSplit(whole, 2, 3).outputs().begin, 4);
  EXPECT_EQ(RowSplit(whole, 2, 3).outputs().end, 7);
}

TEST(RowSplit, KeepsAGateBesideItsUpProjection) {
  const RowSplit split({.rows = 10, .cols = 1, .gated = true}, 1, 2);
  EXPECT_TRUE(split.spec().gated);
  EXPECT_EQ(RowsOf(split), (std::vector<float>{2, 3, 4, 7, 8, 9}));
  EXPECT_EQ(split.outputs().begin, 2);
  EXPECT_EQ(split.outputs().end, 5);
}

TEST(RowSplit, KeepsTheQueriesOfAHeadBesideItsKeysAndValues) {
  // Four heads of queries, two of keys and of values, of two elements each.
  const LinearSpec whole = {.rows = 16, .cols = 1, .key_rows = 4};
  const RowSplit first(whole, 0, 2), second(whole, 1, 2);
  EXPECT_EQ(RowsOf(first), (std::vector<float>{0, 1, 2, 3, 8, 9, 12, 13}));
  EXPECT_EQ(RowsOf(second), (std::vector<float>{4, 5, 6, 7, 10, 11, 14, 15}));
  EXPECT_EQ(second.spec().key_rows, 2);
  EXPECT_EQ(second.outputs().size(), 8);
  std::vector<float> bias(16);
  std::iota(bias.begin(), bias.end(), 0.0f);
  EXPECT_EQ(second.BiasOf(bias), RowsOf(second));
  EXPECT_TRUE(second.BiasOf({}).empty());
}

TEST(RowSplit, ReadsEachRowInItsOwnFormat) {
  const WeightFormat q8 = WeightFormat::kQ8_0, q4 = WeightFormat::kQ4_0;
  const LinearSpec whole = {.rows = 8, .cols = 32, .gated = true, .parts = {{4, q8}, {4, q4}}};
  const RowSplit split(whole, 1, 2);
  ASSERT_EQ(split.spec().parts.size(), 2u);
  EXPECT_EQ(split.spec().parts[0].rows, 2);
  EXPECT_EQ(split.spec().parts[0].format, q8);
  EXPECT_EQ(split.spec().parts[1].format, q4);
  // Every byte of a row is its number.
  const WeightRows rows(nullptr, [&](int64_t begin, int64_t end, std::byte* out) {
    const int64_t bytes = RowBytes(begin < 4 ? q8 : q4, 32);
    for (int64_t row = begin; row < end; ++row, out += bytes)
      std::memset(out, static_cast<int>(row), static_cast<size_t>(bytes));
  });
  std::vector<std::byte> gate(2 * RowBytes(q8, 32)), up(2 * RowBytes(q4, 32));
  split.RowsOf(rows).stored(0, 2, gate.data());
  split.RowsOf(rows).stored(2, 4, up.data());
  EXPECT_EQ(gate.front(), std::byte{2});
  EXPECT_EQ(gate.back(), std::byte{3});
  EXPECT_EQ(up.front(), std::byte{6});
  EXPECT_EQ(up[static_cast<size_t>(RowBytes(q4, 32))], std::byte{7});
}

}  // namespace
}  // namespace hydrant
