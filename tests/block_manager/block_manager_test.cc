#include "block_manager/block_manager.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace hydrant {
namespace {

TEST(BlockManager, ExtendHoldsExactlyTheBlocksOfTheSlots) {
  BlockManager manager(4);
  BlockTable table;
  manager.Admit(table, 4);
  const struct {
    int32_t slots;
    int32_t blocks;
  } cases[] = {{0, 0}, {1, 1}, {15, 1}, {16, 1}, {17, 2}, {32, 2}, {33, 3}, {64, 4}};
  for (const auto& c : cases) {
    manager.Extend(table, c.slots);
    EXPECT_EQ(table.size(), c.blocks) << c.slots << " slots";
    EXPECT_EQ(manager.pool().used(), c.blocks);
    EXPECT_EQ(manager.promised(), 4 - c.blocks);
  }
  EXPECT_EQ(manager.Release(table), 4);
  EXPECT_EQ(manager.promised(), 0);
}

TEST(BlockManager, AReservationCountsBeforeItsBlocksAreTaken) {
  BlockManager manager(10);
  BlockTable first;
  manager.Admit(first, 7);
  EXPECT_EQ(manager.pool().free(), 10);
  EXPECT_TRUE(manager.CanAdmit(3));
  EXPECT_FALSE(manager.CanAdmit(4));
  manager.Extend(first, 7 * 16);
  EXPECT_TRUE(manager.CanAdmit(3));
  EXPECT_FALSE(manager.CanAdmit(4));
  manager.Release(first);
  EXPECT_TRUE(manager.CanAdmit(10));
  EXPECT_FALSE(manager.CanAdmit(11));
}

TEST(BlockManager, ShrinkingTheReservationLetsTheNextOneIn) {
  BlockManager manager(125 + 16);
  BlockTable first;
  manager.Admit(first, 125);  // 2,000 prompt tokens
  manager.Extend(first, 2000);
  EXPECT_FALSE(manager.CanAdmit(17));
  EXPECT_EQ(manager.Shrink(first, 256, 17), 125 - 16);
  EXPECT_EQ(first.size(), 16);
  EXPECT_EQ(first.reserved(), 17);
  EXPECT_TRUE(manager.CanAdmit(124));
  EXPECT_FALSE(manager.CanAdmit(125));
  manager.Extend(first, 257);
  EXPECT_EQ(first.size(), 17);
  manager.Release(first);
}

TEST(BlockManager, GrowSaysNoWhereOthersWerePromisedTheRest) {
  BlockManager manager(10);
  BlockTable first, second;
  manager.Prepare(first, 10, /*copies=*/false, 0);
  manager.Admit(first, 2);
  manager.Extend(first, 20);
  const int32_t* blocks = first.blocks().data();
  manager.Admit(second, 4);
  EXPECT_FALSE(manager.Grow(first, 7));
  EXPECT_EQ(first.reserved(), 2);
  EXPECT_EQ(manager.promised(), 4);
  EXPECT_TRUE(manager.Grow(first, 6));
  EXPECT_EQ(manager.promised(), 4 + 4);
  EXPECT_FALSE(manager.CanAdmit(1));
  manager.Extend(first, 6 * 16);
  EXPECT_EQ(first.blocks().data(), blocks) << "steps in flight hold spans of them";
  const BlockTable* tables[] = {&first, &second};
  EXPECT_TRUE(manager.CheckIntegrity(tables).ok());
  manager.Release(first);
  manager.Release(second);
  EXPECT_EQ(manager.promised(), 0);
}

TEST(BlockManager, ShrinkKeepsTheFirstBlocksInOrder) {
  BlockManager manager(5);
  BlockTable table;
  manager.Admit(table, 5);
  manager.Extend(table, 80);
  const std::vector<int32_t> before(table.blocks().begin(), table.blocks().end());
  EXPECT_EQ(manager.Shrink(table, 33, 5), 2);
  EXPECT_EQ(std::vector<int32_t>(table.blocks().begin(), table.blocks().end()),
            std::vector<int32_t>(before.begin(), before.begin() + 3));
  EXPECT_EQ(table.reserved(), 5);
  manager.Release(table);
}

TEST(BlockManager, IntegrityFindsALeakAndADoubleHolder) {
  BlockManager manager(4);
  BlockTable a;
  BlockTable b;
  manager.Admit(a, 2);
  manager.Admit(b, 2);
  manager.Extend(a, 20);
  manager.Extend(b, 1);
  const BlockTable* both[] = {&a, &b};
  const BlockTable* forgotten[] = {&a};
  const BlockTable* twice[] = {&a, &b, &b};
  EXPECT_TRUE(manager.CheckIntegrity(both).ok()) << manager.CheckIntegrity(both);
  EXPECT_FALSE(manager.CheckIntegrity(forgotten).ok());
  EXPECT_FALSE(manager.CheckIntegrity(twice).ok());
  manager.Release(b);
  const BlockTable* idle_one[] = {&a, &b};
  EXPECT_TRUE(manager.CheckIntegrity(idle_one).ok());
  manager.Release(a);
}

TEST(BlockManager, GrowthWithinReservationsNeverFailsOverRandomLives) {
  std::mt19937_64 rng(11);
  const auto pick = [&rng](int32_t below) { return static_cast<int32_t>(rng() % static_cast<uint64_t>(below)); };
  BlockManager manager(23);
  std::vector<BlockTable> tables(9);
  std::vector<const BlockTable*> all;
  for (const BlockTable& table : tables) all.push_back(&table);
  int32_t refused = 0;
  for (int32_t i = 0; i < 50000; ++i) {
    BlockTable& table = tables[static_cast<size_t>(pick(9))];
    if (table.idle()) {
      const int32_t reserved = 1 + pick(9);
      if (manager.CanAdmit(reserved)) {
        manager.Admit(table, reserved);
      } else {
        ++refused;
      }
      continue;
    }
    switch (pick(3)) {
      case 0:
        manager.Extend(table, pick(table.reserved() * kBlockSlots + 1));
        break;
      case 1: {
        const int32_t slots = pick(table.size() * kBlockSlots + 1);
        const int32_t needed = std::max<int32_t>(1, static_cast<int32_t>(BlocksForSlots(slots)));
        manager.Shrink(table, slots, needed + pick(table.reserved() - needed + 1));
        break;
      }
      case 2:
        if (pick(4) == 0) manager.Release(table);
        break;
    }
    if (i % 16 == 0) {
      ASSERT_TRUE(manager.CheckIntegrity(all).ok()) << manager.CheckIntegrity(all);
    }
  }
  EXPECT_GT(refused, 1000) << "the pool was never tight: the test proves nothing";
  for (BlockTable& table : tables) manager.Release(table);
  EXPECT_EQ(manager.pool().free(), 23);
}

TEST(BlockManagerDeathTest, GrowingPastTheReservationDies) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        BlockManager manager(4);
        BlockTable table;
        manager.Admit(table, 1);
        manager.Extend(table, 17);
      },
      "reserved");
  EXPECT_DEATH(
      {
        BlockManager manager(4);
        BlockTable table;
        manager.Admit(table, 5);
      },
      "CanAdmit");
}

}  // namespace
}  // namespace hydrant
