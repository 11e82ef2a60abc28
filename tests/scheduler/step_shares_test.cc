#include "scheduler/step_shares.h"

#include <gtest/gtest.h>

namespace hydrant {
namespace {

double Even(int32_t) { return 1.0; }

TEST(StepShares, WhatFitsIsNotBounded) {
  StepShares shares;
  shares.Begin(2);
  shares.AddDecode(0, 60);
  shares.AddDecode(1, 40);
  shares.Divide(100, Even);
  EXPECT_FALSE(shares.bounded());
}

TEST(StepShares, ATenantAloneIsNotBounded) {
  StepShares shares;
  shares.Begin(3);
  shares.AddDecode(1, 1000);
  shares.Divide(100, Even);
  EXPECT_FALSE(shares.bounded());
}

TEST(StepShares, WhoWantsLittleGetsItAndTheRestIsShared) {
  StepShares shares;
  shares.Begin(3);
  shares.AddPrompt(0, 10);
  shares.AddPrompt(1, 1000);
  shares.AddPrompt(2, 1000);
  shares.Divide(100, Even);
  ASSERT_TRUE(shares.bounded());
  EXPECT_DOUBLE_EQ(shares.left(0), 10);
  EXPECT_DOUBLE_EQ(shares.left(1), 45);
  EXPECT_DOUBLE_EQ(shares.left(2), 45);
}

TEST(StepShares, ByWeight) {
  StepShares shares;
  shares.Begin(2);
  shares.AddPrompt(0, 1000);
  shares.AddPrompt(1, 1000);
  shares.Divide(100, [](int32_t tenant) { return tenant == 0 ? 1.0 : 3.0; });
  EXPECT_DOUBLE_EQ(shares.left(0), 25);
  EXPECT_DOUBLE_EQ(shares.left(1), 75);
}

// A chain: the second fits only once the first has left something.
TEST(StepShares, WhatOneLeavesMayBeEnoughForAnother) {
  StepShares shares;
  shares.Begin(3);
  shares.AddPrompt(0, 35);
  shares.AddPrompt(1, 10);
  shares.AddPrompt(2, 1000);
  shares.Divide(90, Even);
  EXPECT_DOUBLE_EQ(shares.left(0), 35);
  EXPECT_DOUBLE_EQ(shares.left(1), 10);
  EXPECT_DOUBLE_EQ(shares.left(2), 45);
}

TEST(StepShares, RowsAreTakenUntilTheShareIsUsedUpAndPromptsKeepAPart) {
  StepShares shares;
  shares.Begin(2);
  shares.AddDecode(0, 200);
  shares.AddPrompt(0, 200);
  shares.AddDecode(1, 200);
  shares.Divide(80, Even);
  int rows = 0;
  while (shares.TakeDecode(0, 1)) ++rows;
  EXPECT_EQ(rows, 30) << "three quarters of 40";
  EXPECT_DOUBLE_EQ(shares.left(0), 10);
  shares.TakePrompt(0, 16);
  EXPECT_DOUBLE_EQ(shares.left(0), 0);
  rows = 0;
  while (shares.TakeDecode(1, 1)) ++rows;
  EXPECT_EQ(rows, 40) << "no prompts";
}

TEST(StepShares, TheFirstRowIsAlwaysThere) {
  StepShares shares;
  shares.Begin(2);
  shares.AddDecode(0, 500);
  shares.AddDecode(1, 500);
  shares.Divide(16, Even);
  EXPECT_TRUE(shares.TakeDecode(0, 250));
  EXPECT_FALSE(shares.TakeDecode(0, 250));
}

}  // namespace
}  // namespace hydrant
