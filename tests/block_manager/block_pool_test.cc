#include "block_manager/block_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <set>
#include <vector>

namespace hydrant {
namespace {

TEST(BlockPool, HandsOutEveryBlockOnce) {
  BlockPool pool(17);
  std::set<int32_t> seen;
  for (int32_t i = 0; i < 17; ++i) {
    const BlockPool::Taken taken = pool.Take();
    EXPECT_FALSE(taken.was_cached);
    EXPECT_TRUE(seen.insert(taken.block).second);
  }
  EXPECT_EQ(*seen.begin(), 0);
  EXPECT_EQ(*seen.rbegin(), 16);
  EXPECT_EQ(pool.available(), 0);
  EXPECT_EQ(pool.used(), 17);
  EXPECT_TRUE(pool.CheckIntegrity().ok());
}

TEST(BlockPool, ABlockIsFreeWhenItsLastReferenceGoes) {
  BlockPool pool(1);
  const int32_t block = pool.Take().block;
  pool.AddReference(block);
  EXPECT_FALSE(pool.DropReference(block));
  EXPECT_EQ(pool.free(), 0);
  EXPECT_TRUE(pool.DropReference(block));
  EXPECT_EQ(pool.free(), 1);
}

TEST(BlockPool, PublishedBlocksAreCachedAndTakenOldestFirst) {
  BlockPool pool(3);
  const int32_t a = pool.Take().block;
  const int32_t b = pool.Take().block;
  const int32_t c = pool.Take().block;
  pool.Publish(b);
  pool.Publish(a);
  pool.DropReference(b);
  pool.DropReference(a);
  pool.DropReference(c);
  EXPECT_EQ(pool.free(), 1);
  EXPECT_EQ(pool.cached(), 2);
  EXPECT_EQ(pool.used(), 0);
  EXPECT_EQ(pool.Take().block, c) << "free blocks go before cached ones";
  const BlockPool::Taken oldest = pool.Take();
  EXPECT_EQ(oldest.block, b);
  EXPECT_TRUE(oldest.was_cached);
  EXPECT_FALSE(pool.published(b)) << "its contents are gone";
}

TEST(BlockPool, ACachedBlockThatIsUsedAgainIsYoungAgain) {
  BlockPool pool(2);
  const int32_t a = pool.Take().block;
  const int32_t b = pool.Take().block;
  for (int32_t block : {a, b}) {
    pool.Publish(block);
    pool.DropReference(block);
  }
  pool.AddReference(a);
  EXPECT_EQ(pool.cached(), 1);
  EXPECT_EQ(pool.references(a), 1);
  pool.DropReference(a);
  EXPECT_EQ(pool.Take().block, b);
  EXPECT_EQ(pool.Take().block, a);
}

TEST(BlockPool, UnpublishingMakesACachedBlockFree) {
  BlockPool pool(1);
  const int32_t block = pool.Take().block;
  pool.Publish(block);
  pool.DropReference(block);
  pool.Unpublish(block);
  EXPECT_EQ(pool.free(), 1);
  EXPECT_EQ(pool.cached(), 0);
  EXPECT_TRUE(pool.CheckIntegrity().ok());
}

// The naive twin: plain containers, everything searched.
struct NaivePool {
  std::vector<int32_t> free;
  std::deque<int32_t> cached;  // oldest first
  std::vector<int32_t> references;
  std::vector<bool> published;
};

TEST(BlockPool, AgreesWithANaiveTwinOverRandomOperations) {
  std::mt19937_64 rng(7);
  for (int32_t total : {1, 2, 16, 33}) {
    BlockPool pool(total);
    NaivePool twin;
    twin.references.assign(static_cast<size_t>(total), 0);
    twin.published.assign(static_cast<size_t>(total), false);
    for (int32_t block = total - 1; block >= 0; --block) twin.free.push_back(block);
    for (int32_t i = 0; i < 20000; ++i) {
      const int32_t block = static_cast<int32_t>(rng() % static_cast<uint64_t>(total));
      const size_t b = static_cast<size_t>(block);
      const auto in_cached = std::find(twin.cached.begin(), twin.cached.end(), block);
      switch (rng() % 5) {
        case 0: {
          if (twin.free.empty() && twin.cached.empty()) break;
          int32_t expected;
          bool was_cached = twin.free.empty();
          if (was_cached) {
            expected = twin.cached.front();
            twin.cached.pop_front();
            twin.published[static_cast<size_t>(expected)] = false;
          } else {
            expected = twin.free.back();
            twin.free.pop_back();
          }
          twin.references[static_cast<size_t>(expected)] = 1;
          const BlockPool::Taken taken = pool.Take();
          ASSERT_EQ(taken.block, expected);
          ASSERT_EQ(taken.was_cached, was_cached);
          break;
        }
        case 1:
          if (twin.references[b] == 0 && in_cached == twin.cached.end()) break;
          if (in_cached != twin.cached.end()) twin.cached.erase(in_cached);
          ++twin.references[b];
          pool.AddReference(block);
          break;
        case 2: {
          if (twin.references[b] == 0) break;
          const bool last = --twin.references[b] == 0;
          if (last && twin.published[b]) twin.cached.push_back(block);
          if (last && !twin.published[b]) twin.free.push_back(block);
          ASSERT_EQ(pool.DropReference(block), last);
          break;
        }
        case 3:
          if (twin.references[b] == 0) break;
          twin.published[b] = true;
          pool.Publish(block);
          break;
        case 4:
          if (!twin.published[b]) break;
          twin.published[b] = false;
          if (in_cached != twin.cached.end()) {
            twin.cached.erase(in_cached);
            twin.free.push_back(block);
          }
          pool.Unpublish(block);
          break;
      }
      ASSERT_EQ(pool.free(), static_cast<int32_t>(twin.free.size()));
      ASSERT_EQ(pool.cached(), static_cast<int32_t>(twin.cached.size()));
      ASSERT_EQ(pool.references(block), twin.references[b]);
      ASSERT_EQ(pool.published(block), twin.published[b]);
      if (i % 64 == 0) {
        ASSERT_TRUE(pool.CheckIntegrity().ok()) << pool.CheckIntegrity();
      }
    }
  }
}

TEST(BlockPoolDeathTest, MisuseDies) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        BlockPool pool(0);
        pool.Take();
      },
      "available");
  EXPECT_DEATH(
      {
        BlockPool pool(1);
        pool.DropReference(0);
      },
      "references");
  EXPECT_DEATH(
      {
        BlockPool pool(1);
        pool.AddReference(0);
      },
      "published");
  EXPECT_DEATH(
      {
        BlockPool pool(1);
        pool.AddReference(1);
      },
      "total");
}

}  // namespace
}  // namespace hydrant
