#include "block_manager/block_table.h"

#include <gtest/gtest.h>

#include <type_traits>
#include <utility>

#include "block_manager/block_manager.h"

namespace hydrant {
namespace {

static_assert(!std::is_copy_constructible_v<BlockTable> && !std::is_copy_assignable_v<BlockTable>);
static_assert(std::is_nothrow_move_constructible_v<BlockTable>);

TEST(BlockTable, MovingTakesBlocksAndReservationAlong) {
  BlockManager manager(4);
  BlockTable from(3);
  manager.Admit(from, 4);
  manager.Extend(from, 17);
  BlockTable to = std::move(from);
  EXPECT_EQ(to.size(), 2);
  EXPECT_EQ(to.reserved(), 4);
  EXPECT_EQ(to.layer_group(), 3);
  EXPECT_TRUE(from.idle());  // NOLINT(bugprone-use-after-move): a moved-from table is empty by contract
  from = std::move(to);
  EXPECT_EQ(from.size(), 2);
  EXPECT_EQ(from.layer_group(), 3);
  manager.Release(from);
  EXPECT_TRUE(from.idle());
}

TEST(BlockTable, KeepsItsBlocksInPlaceWhileItGrows) {
  BlockManager manager(8);
  BlockTable table;
  manager.Admit(table, 8);
  manager.Extend(table, 1);
  const int32_t* first = table.blocks().data();
  for (int32_t slots = 2; slots <= 128; ++slots) manager.Extend(table, slots);
  EXPECT_EQ(table.blocks().data(), first);
  manager.Release(table);
}

TEST(BlockTableDeathTest, DiesWithBlocksInHand) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        BlockManager manager(1);
        BlockTable table;
        manager.Admit(table, 1);
      },
      "idle");
}

}  // namespace
}  // namespace hydrant
