#include "server/tenants/byte_budget.h"

#include <gtest/gtest.h>

namespace hydrant {
namespace {

using Lack = ByteBudget::Lack;

constexpr int64_t kMiB = 1 << 20;

TEST(ByteBudget, WhoIsAloneMayHaveAllButTheLastEighth) {
  ByteBudget budget(16 * kMiB);
  EXPECT_EQ(budget.TryTake(0, 1, 14 * kMiB), std::nullopt);
  EXPECT_EQ(budget.TryTake(0, 1, kMiB), Lack::kAll);
  EXPECT_EQ(budget.TryTake(0, 1, 4096), std::nullopt) << "the last eighth is for small ones";
  EXPECT_EQ(budget.TryTake(0, 1, 4096, 64 << 10), Lack::kAll) << "nor is it for the rest of a large one";
  EXPECT_EQ(budget.used(), 14 * kMiB + 4096);
  budget.GiveBack(0, 14 * kMiB);
  EXPECT_EQ(budget.TryTake(0, 1, kMiB), std::nullopt);
}

TEST(ByteBudget, ATenantFindsItsPartWhateverTheOthersHold) {
  ByteBudget budget(16 * kMiB);
  int64_t taken = 0;
  while (!budget.TryTake(0, 0.5, kMiB).has_value()) ++taken;
  EXPECT_LE(taken, 8) << "the common half";
  EXPECT_EQ(budget.TryTake(0, 0.5, kMiB), Lack::kTenant);
  EXPECT_EQ(budget.TryTake(1, 0.5, 3 * kMiB), std::nullopt);
  EXPECT_EQ(budget.TryTake(1, 0.5, 2 * kMiB), Lack::kTenant);
}

TEST(ByteBudget, AnAnswerIsThereWhetherItFitsOrNot) {
  ByteBudget budget(kMiB);
  budget.Take(0, 4 * kMiB);
  EXPECT_EQ(budget.used(), 4 * kMiB);
  EXPECT_EQ(budget.TryTake(0, 1, 1), Lack::kAll);
  EXPECT_EQ(budget.TryTake(0, 0.5, 1), Lack::kTenant);
  EXPECT_EQ(budget.TryTake(1, 0.5, 1), std::nullopt) << "it is not the other's";
  budget.GiveBack(0, 4 * kMiB);
  EXPECT_EQ(budget.used(), 1);
  EXPECT_EQ(budget.TryTake(0, 1, 1), std::nullopt);
}

TEST(ByteBudget, AnAnswerOfUnknownSizeFindsRoomWhereALargeOneDoes) {
  ByteBudget budget(16 * kMiB);
  budget.Take(0, 14 * kMiB);
  EXPECT_EQ(budget.LackForAnswer(0, 1), std::nullopt);
  budget.Take(0, 1);
  EXPECT_EQ(budget.LackForAnswer(0, 1), Lack::kAll) << "the last eighth is for small ones";
  EXPECT_EQ(budget.LackForAnswer(0, 0.5), Lack::kTenant);
  EXPECT_EQ(budget.LackForAnswer(1, 0.5), std::nullopt);
  EXPECT_EQ(budget.used(), 14 * kMiB + 1) << "it takes nothing yet";
}

}  // namespace
}  // namespace hydrant
