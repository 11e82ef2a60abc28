#include "block_manager/prefix_index.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/scheduler/counting_new.h"

namespace hydrant {
namespace {

constexpr PrefixSalt kAnna{1, 10}, kBert{1, 11};

std::array<int32_t, kBlockSlots> Tokens(int32_t first) {
  std::array<int32_t, kBlockSlots> tokens;
  for (int32_t i = 0; i < kBlockSlots; ++i) tokens[static_cast<size_t>(i)] = first + i;
  return tokens;
}

TEST(PrefixIndex, FindsABlockByEverythingBeforeIt) {
  PrefixIndex index(4);
  index.Insert(kAnna, PrefixIndex::kRoot, Tokens(0), 2);
  const uint64_t parent = index.serial(2);
  index.Insert(kAnna, parent, Tokens(100), 3);
  EXPECT_EQ(index.Find(kAnna, PrefixIndex::kRoot, Tokens(0)), 2);
  EXPECT_EQ(index.Find(kAnna, parent, Tokens(100)), 3);
  EXPECT_EQ(index.Find(kAnna, PrefixIndex::kRoot, Tokens(100)), -1) << "the same tokens after something else";
  std::array<int32_t, kBlockSlots> other = Tokens(100);
  ++other.back();
  EXPECT_EQ(index.Find(kAnna, parent, other), -1);
}

TEST(PrefixIndex, NeverMatchesAcrossSalts) {
  PrefixIndex index(4);
  index.Insert(kAnna, PrefixIndex::kRoot, Tokens(0), 0);
  EXPECT_EQ(index.Find(kBert, PrefixIndex::kRoot, Tokens(0)), -1);
  index.Insert(kBert, PrefixIndex::kRoot, Tokens(0), 1);
  EXPECT_EQ(index.Find(kAnna, PrefixIndex::kRoot, Tokens(0)), 0);
  EXPECT_EQ(index.Find(kBert, PrefixIndex::kRoot, Tokens(0)), 1);
}

TEST(PrefixIndex, AChildOfAForgottenBlockIsNotFoundUnderItsSuccessor) {
  PrefixIndex index(4);
  index.Insert(kAnna, PrefixIndex::kRoot, Tokens(0), 0);
  const uint64_t before = index.serial(0);
  index.Insert(kAnna, before, Tokens(16), 1);
  index.Forget(0);
  EXPECT_FALSE(index.has(0));
  index.Insert(kAnna, PrefixIndex::kRoot, Tokens(500), 0);
  EXPECT_NE(index.serial(0), before);
  EXPECT_EQ(index.Find(kAnna, index.serial(0), Tokens(16)), -1);
}

// There are so many blocks that a table for just as many has no room to spare for tombstones.
TEST(PrefixIndex, NothingAllocatesHoweverOftenBlocksAreForgotten) {
  constexpr int32_t kBlocks = 112;
  PrefixIndex index(kBlocks);
  const uint64_t before = AllocationCount();
  for (int32_t i = 0; i < 100 * kBlocks; ++i) {
    const int32_t block = i * 37 % kBlocks;
    if (index.has(block)) index.Forget(block);
    index.Insert(kAnna, PrefixIndex::kRoot, Tokens(i * kBlockSlots), block);
  }
  EXPECT_EQ(index.size(), kBlocks);
  EXPECT_EQ(AllocationCount(), before);
}

// With one bit of hash left every lookup meets collisions; a map of the whole identity is the oracle.
TEST(PrefixIndex, AgreesWithAMapWhateverTheHash) {
  for (const uint64_t mask : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
    constexpr int32_t kBlocks = 40;
    PrefixIndex index(kBlocks, mask);
    std::map<std::tuple<uint64_t, uint64_t, int32_t>, int32_t> oracle;  // (salt, parent, first token) -> block
    std::map<int32_t, std::tuple<uint64_t, uint64_t, int32_t>> identity;
    std::mt19937 random(5);
    for (int step = 0; step < 20000; ++step) {
      const PrefixSalt salt{7, random() % 2};
      const int32_t first = static_cast<int32_t>(random() % 3);
      const int32_t parent_block = static_cast<int32_t>(random() % kBlocks);
      const uint64_t parent = identity.contains(parent_block) ? index.serial(parent_block) : PrefixIndex::kRoot;
      const auto key = std::make_tuple(salt.low, parent, first);
      const auto known = oracle.find(key);
      ASSERT_EQ(index.Find(salt, parent, Tokens(first)), known == oracle.end() ? -1 : known->second);
      const int32_t block = static_cast<int32_t>(random() % kBlocks);
      if (identity.contains(block)) {
        oracle.erase(identity[block]);
        identity.erase(block);
        index.Forget(block);
      } else if (known == oracle.end()) {
        index.Insert(salt, parent, Tokens(first), block);
        oracle[key] = block;
        identity[block] = key;
      }
      ASSERT_EQ(index.size(), static_cast<int32_t>(oracle.size()));
    }
  }
}

}  // namespace
}  // namespace hydrant
