#include "model/run/swapped_kv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <new>
#include <random>
#include <utility>
#include <vector>

namespace hydrant {
namespace {

constexpr size_t kSwapBlockBytes = 48, kSwapStateBytes = 12;

std::vector<BlockSlice> PartsOf(SwappedKv& kv, uint64_t id, BlockSlice slice) {
  std::vector<BlockSlice> parts;
  kv.ForBlocks(id, slice, [&](BlockSlice part, std::byte*) { parts.push_back(part); });
  return parts;
}

TEST(SwappedKv, SequencesKeepWhatWasWrittenUntilTheyAreDropped) {
  SwappedKv kv(20, kSwapBlockBytes, kSwapStateBytes);
  std::mt19937 random(3);
  std::map<uint64_t, std::vector<uint8_t>> expected;
  const auto each_part = [&](uint64_t id, auto function) {
    std::vector<uint8_t>& bytes = expected[id];
    const auto blocks = static_cast<int32_t>((bytes.size() - kSwapStateBytes) / kSwapBlockBytes);
    function(kv.State(id).data(), bytes.data(), kSwapStateBytes);
    for (int32_t begin = 0; begin < blocks;) {
      const int32_t end = std::min<int32_t>(blocks, begin + 1 + static_cast<int32_t>(random() % 3));
      kv.ForBlocks(id, {begin, end}, [&](BlockSlice part, std::byte* at) {
        function(at, bytes.data() + kSwapStateBytes + static_cast<size_t>(part.begin) * kSwapBlockBytes,
                 static_cast<size_t>(part.size()) * kSwapBlockBytes);
      });
      begin = end;
    }
  };
  size_t refused = 0;
  for (uint64_t round = 1; round < 400; ++round) {
    if (random() % 2 == 0 && !expected.empty()) {
      const uint64_t id = std::next(expected.begin(), static_cast<long>(random() % expected.size()))->first;
      each_part(id,
                [](std::byte* at, const uint8_t* bytes, size_t count) { ASSERT_EQ(std::memcmp(at, bytes, count), 0); });
      kv.Drop(id);
      expected.erase(id);
      EXPECT_FALSE(kv.has(id));
    } else {
      const auto blocks = static_cast<int32_t>(random() % 7);
      const int64_t before = kv.blocks();
      if (before + blocks > 20) {
        EXPECT_THROW(kv.Put(round, blocks), std::bad_alloc);
        EXPECT_FALSE(kv.has(round));
        EXPECT_EQ(kv.blocks(), before);
        ++refused;
        continue;
      }
      kv.Put(round, blocks);
      std::vector<uint8_t> bytes(kSwapStateBytes + static_cast<size_t>(blocks) * kSwapBlockBytes);
      std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<uint8_t>(random()); });
      expected[round] = bytes;
      each_part(round, [](std::byte* at, const uint8_t* from, size_t count) { std::memcpy(at, from, count); });
    }
    size_t bytes = 0;
    for (const auto& [id, of] : expected) bytes += of.size();
    ASSERT_EQ(kv.bytes(), bytes);
    ASSERT_EQ(kv.size(), static_cast<int32_t>(expected.size()));
  }
  EXPECT_GT(refused, 10u);
  kv.Drop(12345);  // has nothing
}

TEST(SwappedKv, TheLowestPlacesAreTakenFirstAndLieSideBySide) {
  SwappedKv kv(10, kSwapBlockBytes, kSwapStateBytes);
  const auto is = [](const std::vector<BlockSlice>& parts, const std::vector<std::pair<int32_t, int32_t>>& expected) {
    return std::equal(parts.begin(), parts.end(), expected.begin(), expected.end(),
                      [](const auto& a, const auto& b) { return a.begin == b.first && a.end == b.second; });
  };
  kv.Put(1, 3);
  kv.Put(2, 2);
  kv.Put(3, 3);
  EXPECT_TRUE(is(PartsOf(kv, 2, {0, 2}), {{0, 2}}));
  kv.Drop(2);
  kv.Put(4, 4);  // two places between the others and two behind them
  EXPECT_TRUE(is(PartsOf(kv, 4, {0, 4}), {{0, 2}, {2, 4}}));
  EXPECT_TRUE(is(PartsOf(kv, 4, {1, 3}), {{1, 2}, {2, 3}}));
  EXPECT_TRUE(is(PartsOf(kv, 4, {2, 2}), {}));
  EXPECT_THROW(kv.Put(5, 1), std::bad_alloc);
  kv.Put(6, 0);
  EXPECT_TRUE(kv.has(6));
}

TEST(SwappedKv, WithoutRoomKeepsNothingAndTooMuchIsRefusedAtOnce) {
  SwappedKv none(0, kSwapBlockBytes, kSwapStateBytes);
  EXPECT_THROW(none.Put(1, 1), std::bad_alloc);
  EXPECT_EQ(none.bytes(), 0u);
  EXPECT_THROW(SwappedKv(std::numeric_limits<int64_t>::max(), kSwapBlockBytes, kSwapStateBytes), std::bad_alloc);
}

}  // namespace
}  // namespace hydrant
