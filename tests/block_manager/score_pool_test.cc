#include "block_manager/score_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace hydrant {
namespace {

std::vector<int32_t> TakeScoreBlocks(ScorePool& pool, int32_t count) {
  std::vector<int32_t> score_blocks;
  pool.Take(count, -1, 0, &score_blocks);
  return score_blocks;
}

TEST(ScorePool, HandsOutEachScoreBlockOnce) {
  ScorePool pool(100, 5);
  std::vector<int32_t> score_blocks = TakeScoreBlocks(pool, 5);
  std::sort(score_blocks.begin(), score_blocks.end());
  EXPECT_EQ(score_blocks, (std::vector<int32_t>{100, 101, 102, 103, 104}));
  EXPECT_FALSE(pool.CanTake(1, -1, 0));
  pool.GiveBack(102);
  EXPECT_EQ(TakeScoreBlocks(pool, 1), std::vector<int32_t>{102});
}

TEST(ScorePool, KeepsASnapshotPerBlockAndKind) {
  ScorePool pool(0, 8);
  pool.Keep(3, 0, TakeScoreBlocks(pool, 2));
  pool.Keep(3, 4, TakeScoreBlocks(pool, 1));
  EXPECT_EQ(pool.FindSnapshot(3, 0).size(), 2u);
  EXPECT_EQ(pool.FindSnapshot(3, 4).size(), 1u);
  EXPECT_TRUE(pool.FindSnapshot(3, 1).empty());
  EXPECT_TRUE(pool.FindSnapshot(2, 0).empty());
  EXPECT_EQ(pool.in_snapshots(), 3);
  pool.DropSnapshots(3);
  EXPECT_EQ(pool.snapshots(), 0);
  EXPECT_EQ(pool.free(), 8);
}

TEST(ScorePool, DropsTheLeastRecentlyUsedSnapshotFirst) {
  ScorePool pool(0, 6);
  for (int32_t block = 0; block < 3; ++block) pool.Keep(block, 0, TakeScoreBlocks(pool, 2));
  EXPECT_FALSE(pool.FindSnapshot(0, 0).empty());  // now 1 is the oldest
  TakeScoreBlocks(pool, 1);
  EXPECT_FALSE(pool.HasSnapshot(1, 0));
  EXPECT_TRUE(pool.HasSnapshot(0, 0));
  EXPECT_TRUE(pool.HasSnapshot(2, 0));
}

TEST(ScorePool, SparesTheSnapshotThatIsAboutToBeUsed) {
  ScorePool pool(0, 6);
  for (int32_t block = 0; block < 3; ++block) pool.Keep(block, 0, TakeScoreBlocks(pool, 2));
  EXPECT_TRUE(pool.CanTake(4, 0, 0));
  EXPECT_FALSE(pool.CanTake(5, 0, 0));
  EXPECT_TRUE(pool.CanTake(6, -1, 0));
  std::vector<int32_t> score_blocks;
  pool.Take(4, 0, 0, &score_blocks);
  EXPECT_TRUE(pool.HasSnapshot(0, 0));
  EXPECT_EQ(pool.snapshots(), 1);
}

}  // namespace
}  // namespace hydrant
