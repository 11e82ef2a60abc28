#include "scheduler/fairness/step_shares.h"

#include <gtest/gtest.h>

#include <vector>

namespace hydrant {
namespace {

// Everything that is wanted is prompts.
void Begin(StepShares& shares, std::vector<double> wanted, double total, std::vector<double> weights = {}) {
  shares.Begin(wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    shares.SetWeight(static_cast<int32_t>(i), weights.empty() ? 1.0 : weights[i]);
    shares.AddPrompt(static_cast<int32_t>(i), wanted[i]);
  }
  shares.Divide(total, 3 * total);
}

TEST(StepShares, WhatFitsIsNotBounded) {
  StepShares shares;
  Begin(shares, {60, 40}, 100);
  EXPECT_FALSE(shares.bounded());
}

TEST(StepShares, WhatWasMovedForATenantIsPartOfWhatItHad) {
  StepShares shares;
  Begin(shares, {1000, 1000}, 100);
  shares.TakeMove(0, 20);
  EXPECT_NEAR(shares.left(0), 30, 1e-6) << "in this step";
  EXPECT_NEAR(shares.left(1), 50, 1e-6);
  shares.TakePrompt(0, 30);
  shares.TakePrompt(1, 50);
  shares.TakeMove(0, 40);  // after it
  Begin(shares, {1000, 1000}, 100);
  EXPECT_NEAR(shares.left(0), 30, 1e-6) << "and in the next";
  EXPECT_NEAR(shares.left(1), 70, 1e-6);
}

TEST(StepShares, ATenantAloneIsNotBounded) {
  StepShares shares;
  Begin(shares, {0, 1000, 0}, 100);
  EXPECT_FALSE(shares.bounded());
}

TEST(StepShares, WhoWantsLittleGetsItAndTheRestIsShared) {
  StepShares shares;
  Begin(shares, {10, 1000, 1000}, 100);
  ASSERT_TRUE(shares.bounded());
  EXPECT_NEAR(shares.left(0), 10, 1e-6);
  EXPECT_NEAR(shares.left(1), 45, 1e-6);
  EXPECT_NEAR(shares.left(2), 45, 1e-6);
}

TEST(StepShares, ByWeight) {
  StepShares shares;
  Begin(shares, {1000, 1000}, 100, {1, 3});
  EXPECT_NEAR(shares.left(0), 25, 1e-6);
  EXPECT_NEAR(shares.left(1), 75, 1e-6);
}

TEST(StepShares, WeightsOfAnySizeMakeSharesOfTheStep) {
  StepShares shares;
  Begin(shares, {1000, 1000}, 100, {1e-3, 1e3});
  EXPECT_GE(shares.left(0), 0);
  EXPECT_NEAR(shares.left(0) + shares.left(1), 100, 1e-3);
}

TEST(StepShares, WhatOneTookMoreIsTheOthersNextTime) {
  StepShares shares;
  Begin(shares, {1000, 1000}, 100);
  shares.TakePrompt(0, 60);
  shares.TakePrompt(1, 50);
  Begin(shares, {1000, 1000}, 100);
  EXPECT_NEAR(shares.left(0), 45, 1e-6);
  EXPECT_NEAR(shares.left(1), 55, 1e-6);
}

TEST(StepShares, ABurstIsComputedAtOnceAndThenEverybodyHasItsPart) {
  StepShares shares;
  for (int step = 0; step < 100; ++step) {
    Begin(shares, {1000, 0}, 100);
    shares.TakePrompt(0, 100);
  }
  double taken = 0;
  int steps = 0;
  for (; steps < 20; ++steps) {
    Begin(shares, {1000, 1000}, 100);
    if (shares.left(1) < 99) break;
    taken += shares.left(1);
    shares.TakePrompt(1, shares.left(1));
  }
  EXPECT_NEAR(taken, 300, 1e-3);
  shares.TakePrompt(0, shares.left(0));
  shares.TakePrompt(1, shares.left(1));
  Begin(shares, {1000, 1000}, 100);
  EXPECT_NEAR(shares.left(1), 50, 1e-3);
}

TEST(StepShares, RowsAreTakenUntilTheShareIsUsedUpAndPromptsKeepAPart) {
  StepShares shares;
  shares.Begin(2);
  shares.AddDecode(0, 200);
  shares.AddPrompt(0, 200);
  shares.AddDecode(1, 200);
  shares.Divide(80, 240);
  const auto rows_of = [&](int32_t tenant) {
    int rows = 0;
    for (; shares.HasRoomForDecode(tenant, 1); ++rows) shares.TakeDecode(tenant, 1);
    return rows;
  };
  EXPECT_EQ(rows_of(0), 30) << "three quarters of 40";
  EXPECT_NEAR(shares.left(0), 10, 1e-6);
  shares.TakePrompt(0, 16);
  EXPECT_EQ(shares.left(0), 0);
  EXPECT_NEAR(rows_of(1), 40, 1) << "no prompts";
}

TEST(StepShares, TheFirstRowIsAlwaysThere) {
  StepShares shares;
  shares.Begin(2);
  shares.AddDecode(0, 500);
  shares.AddDecode(1, 500);
  shares.Divide(16, 48);
  EXPECT_TRUE(shares.HasRoomForDecode(0, 250));
  shares.TakeDecode(0, 250);
  EXPECT_FALSE(shares.HasRoomForDecode(0, 250));
}

}  // namespace
}  // namespace hydrant
