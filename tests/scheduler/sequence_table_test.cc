#include "scheduler/sequence_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace hydrant {
namespace {

using testing::ElementsAre;

int32_t Take(SequenceTable& table, uint64_t id) {
  const int32_t index = table.Take(id);
  table.at(index).request.id = id;
  return index;
}

// A sequence without blocks and without a token computed.
TEST(SequenceTable, AnIndexStaysFromTakeToRelease) {
  SequenceTable table(2, 1);
  EXPECT_EQ(table.size(), 3);
  const int32_t first = Take(table, 11), second = Take(table, 22), third = Take(table, 33);
  EXPECT_TRUE(table.full());
  EXPECT_EQ(table.Find(22), second);
  EXPECT_EQ(table.Find(44), -1);
  EXPECT_EQ(table.IndexOf(table.at(third)), third);
  table.Release(second);
  EXPECT_EQ(table.Find(22), -1);
  EXPECT_FALSE(table.full());
  EXPECT_EQ(Take(table, 44), second);
  EXPECT_EQ(table.Find(11), first);
}

TEST(SequenceTable, TheOneAdmittedLongestAgoIsFirst) {
  SequenceTable table(3, 2);
  std::vector<int32_t> taken;
  for (uint64_t id = 1; id <= 4; ++id) taken.push_back(Take(table, id));
  for (size_t i : {2u, 0u, 3u}) table.Admit(taken[i]);
  EXPECT_EQ(table.free_rows(), 0);
  EXPECT_THAT(table.running(), ElementsAre(taken[2], taken[0], taken[3]));
  EXPECT_TRUE(table.CheckIntegrity(1).ok()) << table.CheckIntegrity(1);
  EXPECT_FALSE(table.CheckIntegrity(2).ok()) << "one waits";

  const int32_t row = table.at(taken[0]).state_row;
  table.Release(taken[0]);
  EXPECT_EQ(table.running().size(), 3u) << "until it is swept";
  table.Sweep();
  EXPECT_THAT(table.running(), ElementsAre(taken[2], taken[3]));
  table.Admit(taken[1]);
  EXPECT_EQ(table.at(taken[1]).state_row, row);
  EXPECT_THAT(table.running(), ElementsAre(taken[2], taken[3], taken[1]));
  EXPECT_TRUE(table.CheckIntegrity(0).ok()) << table.CheckIntegrity(0);
}

TEST(SequenceTable, WhoIsOutsideGivesItsRowToAnother) {
  SequenceTable table(1, 1);
  const int32_t first = Take(table, 1), second = Take(table, 2);
  table.Admit(first);
  table.at(first).place = KvPlace::kOutside;
  EXPECT_FALSE(table.CheckIntegrity(1).ok()) << "it still has a row";
  table.GiveRow(first);
  table.Admit(second);
  EXPECT_TRUE(table.CheckIntegrity(0).ok()) << table.CheckIntegrity(0);
  EXPECT_FALSE(table.at(first).waiting());
  EXPECT_EQ(table.free_rows(), 0);
  EXPECT_THAT(table.running(), ElementsAre(first, second));
  table.Release(second);
  table.Sweep();
  table.TakeRow(first);
  EXPECT_FALSE(table.CheckIntegrity(0).ok()) << "it has a row again, and no blocks";
  table.at(first).place = KvPlace::kPool;
  EXPECT_TRUE(table.CheckIntegrity(0).ok()) << table.CheckIntegrity(0);
  table.Release(first);
  EXPECT_EQ(table.free_rows(), 1);
}

TEST(SequenceTable, IntegritySeesCountsThatContradictEachOther) {
  SequenceTable table(1, 0);
  const int32_t index = Take(table, 1);
  table.Admit(index);
  EXPECT_TRUE(table.CheckIntegrity(0).ok());
  table.at(index).scheduled = table.at(index).known = 1;  // and nothing in flight
  EXPECT_FALSE(table.CheckIntegrity(0).ok());
  table.at(index).computed = 1;
  EXPECT_TRUE(table.CheckIntegrity(0).ok());
  table.at(index).live = 1;  // without a block
  EXPECT_FALSE(table.CheckIntegrity(0).ok());
}

TEST(SequenceTable, NothingStaysOfWhatIsReleased) {
  SequenceTable table(1, 0);
  const int32_t index = Take(table, 1);
  table.Admit(index);
  table.at(index).output.assign(100, 7);
  table.at(index).known = 5;
  table.Release(index);
  table.Sweep();
  EXPECT_EQ(Take(table, 2), index);
  EXPECT_EQ(table.at(index).known, 0);
  EXPECT_TRUE(table.at(index).waiting());
  EXPECT_EQ(table.at(index).output.capacity(), 0u);
}

}  // namespace
}  // namespace hydrant
