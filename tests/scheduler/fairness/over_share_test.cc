#include "scheduler/fairness/over_share.h"

#include <vector>

#include "gtest/gtest.h"

namespace hydrant {
namespace {

// The index of who loses for the tenant at `newcomer`; -1: nobody. Below 0 there is no newcomer.
int Loser(std::vector<ShareHeld> tenants, int newcomer) {
  const ShareHeld* own = newcomer < 0 ? nullptr : &tenants[static_cast<size_t>(newcomer)];
  const ShareHeld* loser = WhoLoses(tenants, own, [](const ShareHeld& tenant) { return tenant; });
  return loser == nullptr ? -1 : static_cast<int>(loser - tenants.data());
}

TEST(OverShareTest, TheMostForItsWeightLosesFirst) {
  EXPECT_EQ(Loser({{4, 1.0, true}, {6, 2.0, true}, {2, 1.0, true}}, 2), 0);
  EXPECT_EQ(Loser({{4, 1.0, true}, {10, 2.0, true}, {2, 1.0, true}}, 2), 1);
  EXPECT_EQ(Loser({{4, 1.0, true}, {4, 1.0, true}}, 0), 0);  // the first of equals
}

TEST(OverShareTest, WhoHasNothingToGiveIsPassedOver) {
  EXPECT_EQ(Loser({{9, 1.0, false}, {4, 1.0, true}, {2, 1.0, true}}, 2), 1);
  EXPECT_EQ(Loser({{9, 1.0, false}, {4, 1.0, false}}, 0), -1);
}

TEST(OverShareTest, NobodyLosesForANewcomerThatHasMore) {
  EXPECT_EQ(Loser({{9, 1.0, false}, {4, 1.0, true}}, 0), -1);
  EXPECT_EQ(Loser({{9, 3.0, false}, {4, 1.0, true}}, 0), 1);  // its weight bears it
  EXPECT_EQ(Loser({{4, 1.0, false}, {4, 1.0, true}}, 0), 1);  // as much is not more
  EXPECT_EQ(Loser({{9, 1.0, true}, {4, 1.0, true}}, 0), 0);   // its own go
  EXPECT_EQ(Loser({{9, 1.0, false}, {4, 1.0, true}}, -1), 1);
}

}  // namespace
}  // namespace hydrant
