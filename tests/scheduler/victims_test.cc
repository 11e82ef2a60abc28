#include "scheduler/victims.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/scheduler/driver.h"

namespace hydrant {
namespace {

// Tenants 0 and 1 with equal weights and a pool of 40 blocks, and sequences that hold as many blocks as they have reserved.
class VictimTable {
 public:
  explicit VictimTable(std::vector<TenantOptions> options = {{.name = "a"}, {.name = "b"}}) { tenants_.Set(options); }
  ~VictimTable() {
    for (int32_t index : sequences_.running()) block_manager_.Release(sequences_.at(index).blocks);
  }

  int32_t Add(int32_t tenant, int32_t blocks) {
    const int32_t index = sequences_.Take(++ids_);
    Sequence& sequence = sequences_.at(index);
    sequence.request = MakeRequest(ids_, 16, 1000);
    sequence.request.tenant = tenant;
    block_manager_.Prepare(sequence.blocks, 40, false, tenant);
    block_manager_.Admit(sequence.blocks, blocks, tenant);
    block_manager_.Extend(sequence.blocks, blocks * kBlockSlots);
    sequence.live = sequence.held = blocks * kBlockSlots;
    sequence.scheduled = sequence.computed = blocks * kBlockSlots;
    sequence.known = sequence.scheduled + 1;
    sequence.last_row = 1;
    sequences_.Admit(index);
    ++tenants_.at(tenant).running;
    ++tenants_.at(tenant).rows;
    tenants_.at(tenant).reserved += blocks;
    return index;
  }
  Sequence& at(int32_t index) { return sequences_.at(index); }
  int32_t ChooseForRow(const Asker& asker, int64_t room = 1000) {
    return Victims(sequences_, tenants_, block_manager_).ChooseForRow(asker, -1, room);
  }
  int32_t Choose(const Asker& asker, int32_t anchor = -1, int64_t room = 1000) {
    return Victims(sequences_, tenants_, block_manager_).Choose(asker, anchor, room);
  }

 private:
  SequenceTable sequences_{8, 8};
  TenantList tenants_{SchedulingPolicy::kFair, 40, 8};
  BlockManager block_manager_{40};
  uint64_t ids_ = 0;
};

TEST(Victims, OfATenantTheOneWithTheFewestBlocksOfEqualOnesTheYoungest) {
  VictimTable table;
  table.Add(0, 5);
  table.Add(0, 3);
  const int32_t youngest = table.Add(0, 3);
  EXPECT_EQ(table.Choose({.tenant = 0}), youngest);
  table.at(youngest).swaps = 1;
  EXPECT_EQ(table.Choose({.tenant = 0}), 1) << "who was away less often goes first";
}

TEST(Victims, ATenantWithinItsShareGivesNothingForOthers) {
  VictimTable table;
  const int32_t many = table.Add(0, 15);
  table.Add(0, 10);
  const int32_t few = table.Add(1, 2);
  EXPECT_EQ(table.Choose({.tenant = 1}), 1) << "and of the other the smaller one";
  EXPECT_EQ(table.Choose({.tenant = 1}, /*anchor=*/1), many);
  EXPECT_EQ(table.Choose({.tenant = 0}, /*anchor=*/1), many) << "not the other tenant's, small as it is";
  EXPECT_EQ(table.Choose({.tenant = 1, .own_alone = true}), few);
}

TEST(Victims, WhereATenantAboveItsShareHasNobodyToGiveNobodyElseDoes) {
  VictimTable table;
  const int32_t anchor = table.Add(0, 25);
  table.Add(1, 2);
  EXPECT_EQ(table.Choose({.tenant = 0}, anchor), -1);
}

TEST(Victims, WhoMakesRoomForAReturnHasRestedAndIsLargeEnough) {
  VictimTable table;
  const int32_t small = table.Add(0, 6);
  const int32_t fits = table.Add(0, 8);
  const int32_t large = table.Add(0, 12);
  const Asker asker = {.tenant = 0, .blocks = 7, .rotates = true};
  EXPECT_EQ(table.Choose(asker), fits);
  EXPECT_EQ(table.Choose(asker, fits), large);
  EXPECT_EQ(table.Choose({.tenant = 0, .blocks = 20, .rotates = true}), large) << "nobody alone is large enough";
  // When it came back it had `guard - kGuard` tokens.
  for (const int32_t index : {small, fits, large}) {
    table.at(index).swaps = 1;
    table.at(index).guard = table.at(index).scheduled - Victims::kGuard + (index == small ? 0 : 1);
  }
  EXPECT_EQ(table.Choose(asker), small) << "the others have had 127 tokens since they came back";
  EXPECT_EQ(table.Choose({.tenant = 0, .blocks = 7}), small);
}

TEST(Victims, WhoIsProtectedOrHasNoRoomOutsideStays) {
  VictimTable table;
  const int32_t large = table.Add(0, 20);
  const int32_t small = table.Add(0, 3);
  const int32_t anchor = table.Add(1, 1);
  table.at(small).guard = table.at(small).scheduled + 1;
  EXPECT_EQ(table.Choose({.tenant = 1}), large);
  EXPECT_EQ(table.Choose({.tenant = 1}, anchor, /*room=*/19), -1);
  table.at(small).paused = true;
  EXPECT_EQ(table.Choose({.tenant = 1}), small) << "its reader is behind, so it need not advance";
  table.at(small).guard = Victims::kLostGuard;
  EXPECT_EQ(table.Choose({.tenant = 1}), large);
}

// Eight rows: four are a tenant's share, however many blocks it has.
TEST(Victims, ARowIsGivenByTheTenantAboveItsShareOfTheRows) {
  VictimTable table;
  for (int32_t i = 0; i < 4; ++i) table.Add(0, 1);
  table.Add(1, 30);
  const Asker head = {.tenant = 1, .others_alone = true, .row = true};
  EXPECT_EQ(table.ChooseForRow(head), -1) << "four of eight are within the share";
  const int32_t fifth = table.Add(0, 1);
  EXPECT_EQ(table.ChooseForRow(head), fifth);
  EXPECT_EQ(table.ChooseForRow(head, /*room=*/0), -1);
  EXPECT_EQ(table.Choose({.tenant = 1, .others_alone = true}), -1) << "by blocks it is within its share";
  EXPECT_EQ(table.ChooseForRow({.tenant = 0, .others_alone = true, .row = true}), -1) << "its own gives it nothing";
  EXPECT_EQ(table.ChooseForRow({.tenant = 0, .row = true}), fifth) << "one of its own comes back in turns";
}

TEST(Victims, RowsOfAFloorStay) {
  VictimTable table({{.name = "a", .floor_blocks = 30}, {.name = "b", .weight = 7}});
  table.Add(1, 1);
  for (int32_t i = 0; i < 6; ++i) table.Add(0, 1);
  const Asker head = {.tenant = 1, .others_alone = true, .row = true};
  EXPECT_EQ(table.ChooseForRow(head), -1) << "30 of 40 blocks are six of eight rows";
  const int32_t seventh = table.Add(0, 1);
  EXPECT_EQ(table.ChooseForRow(head), seventh);
}

TEST(Victims, WhatIsKeptForAFloorWinsNothing) {
  VictimTable table({{.name = "a", .floor_blocks = 25}, {.name = "b", .weight = 100.0}});
  const int32_t of_floor = table.Add(0, 25);
  const int32_t anchor = table.Add(1, 1);
  EXPECT_EQ(table.Choose({.tenant = 1}, anchor), -1);
  EXPECT_EQ(table.Choose({.tenant = 0}), of_floor);
}

}  // namespace
}  // namespace hydrant
