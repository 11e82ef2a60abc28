#include "scheduler/fairness/shrink_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace hydrant {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

struct Candidate {
  int32_t tenant;
  std::vector<ShrinkOption> options;
};

// What is lowered, as (sequence, keep), when tenant 0's head of line lacks `blocks` in a pool of 100.
std::vector<std::pair<int32_t, int32_t>> Plan(const std::vector<Tenant>& tenants,
                                              const std::vector<Candidate>& candidates, int64_t blocks) {
  ShrinkPlanner planner;
  planner.Begin(tenants, tenants[0], 100);
  for (size_t i = 0; i < candidates.size(); ++i) {
    planner.AddSequence(static_cast<int32_t>(i), candidates[i].tenant);
    for (const ShrinkOption& option : candidates[i].options) planner.AddOption(option);
  }
  std::vector<std::pair<int32_t, int32_t>> plan;
  for (const ShrinkPlanner::Choice& choice : planner.PlanFor(blocks)) plan.emplace_back(choice.sequence, choice.keep);
  EXPECT_EQ(planner.CanGain(blocks), !plan.empty()) << "the question without losses has the same answer";
  return plan;
}

Tenant MakeTenant(double weight, int64_t reserved, int32_t floor_blocks = 0) {
  Tenant tenant;
  tenant.options.weight = weight;
  tenant.options.floor_blocks = floor_blocks;
  tenant.reserved = reserved;
  tenant.running = 1;
  return tenant;
}

// A block a step: to 47, 31 and 15 slots.
std::vector<ShrinkOption> Steps(double first, double second, double third) {
  return {{47, 1, 0, first}, {31, 2, 0, second}, {15, 3, 0, third}};
}

// Tenant 0 waits, 1 claims 30 of 100 blocks and 2 claims 50.
TEST(ShrinkPlanner, WithinItsShareATenantGivesToNobodyAboveTheirs) {
  const std::vector<Tenant> tenants = {MakeTenant(1, 20), MakeTenant(1, 30), MakeTenant(1, 50)};
  for (const bool over_share : {false, true}) {
    ShrinkPlanner planner;
    planner.Begin(tenants, tenants[0], 100, over_share);
    for (const int32_t tenant : {1, 2}) {
      planner.AddSequence(tenant, tenant);
      planner.AddOption({.keep = 31, .returned = 5});
    }
    EXPECT_TRUE(planner.CanGain(5));
    EXPECT_EQ(planner.CanGain(10), !over_share);
    EXPECT_EQ(planner.PlanFor(10).empty(), over_share);
    ASSERT_THAT(planner.PlanFor(5), SizeIs(1));
    EXPECT_EQ(planner.PlanFor(5).front().sequence, 2) << "that is above its share";
  }
}

TEST(ShrinkPlanner, LowersWhatLosesLeastAndNoMoreThanNeeded) {
  const std::vector<Tenant> one = {MakeTenant(1, 90)};
  const std::vector<Candidate> candidates = {{0, Steps(0.10, 0.30, 0.60)}, {0, Steps(0.05, 0.12, 0.50)}};
  EXPECT_THAT(Plan(one, candidates, 1), ElementsAre(std::pair(1, 47)));
  EXPECT_THAT(Plan(one, candidates, 2), ElementsAre(std::pair(1, 31)));
  EXPECT_THAT(Plan(one, candidates, 3), ElementsAre(std::pair(0, 47), std::pair(1, 31)));
  EXPECT_THAT(Plan(one, candidates, 4), ElementsAre(std::pair(0, 31), std::pair(1, 31)));
  EXPECT_THAT(Plan(one, candidates, 6), ElementsAre(std::pair(0, 15), std::pair(1, 15)));
}

TEST(ShrinkPlanner, WhenAllFloorsTogetherAreNotEnoughNobodyIsLowered) {
  const std::vector<Tenant> one = {MakeTenant(1, 90)};
  const std::vector<Candidate> candidates = {{0, Steps(0.1, 0.2, 0.3)}, {0, Steps(0.1, 0.2, 0.3)}};
  EXPECT_THAT(Plan(one, candidates, 7), IsEmpty());
  EXPECT_THAT(Plan(one, {}, 1), IsEmpty());
}

TEST(ShrinkPlanner, BetweenEqualsTheOneAdmittedFirst) {
  const std::vector<Tenant> one = {MakeTenant(1, 90)};
  EXPECT_THAT(Plan(one, {{0, Steps(0.1, 0.2, 0.3)}, {0, Steps(0.1, 0.2, 0.3)}}, 1), ElementsAre(std::pair(0, 47)));
}

TEST(ShrinkPlanner, TenantsOverTheirShareGoFirstWhateverTheyLose) {
  // Shares of 25 and 75; what the second holds beyond its share is two blocks.
  const std::vector<Tenant> tenants = {MakeTenant(1, 20), MakeTenant(3, 77)};
  const std::vector<Candidate> candidates = {{0, Steps(0.01, 0.02, 0.03)}, {1, Steps(0.2, 0.4, 0.6)}};
  EXPECT_THAT(Plan(tenants, candidates, 1), ElementsAre(std::pair(1, 47)));
  EXPECT_THAT(Plan(tenants, candidates, 2), ElementsAre(std::pair(1, 31)));
  EXPECT_THAT(Plan(tenants, candidates, 3), ElementsAre(std::pair(0, 47), std::pair(1, 31)))
      << "within its share by now";
}

TEST(ShrinkPlanner, AbsentTenantsLeaveTheirShareToTheOthers) {
  std::vector<Tenant> tenants = {MakeTenant(1, 20), MakeTenant(1, 60), MakeTenant(98, 0)};
  tenants[2].running = 0;
  // The shares are halves, not 1 % each: the second alone is over its share.
  const std::vector<Candidate> candidates = {{0, Steps(0.01, 0.02, 0.03)}, {1, Steps(0.2, 0.4, 0.6)}};
  EXPECT_THAT(Plan(tenants, candidates, 1), ElementsAre(std::pair(1, 47)));
}

TEST(ShrinkPlanner, WhatATenantGivesUpWithinItsFloorWinsNothing) {
  const std::vector<Tenant> tenants = {MakeTenant(1, 20), MakeTenant(1, 41, /*floor_blocks=*/40)};
  const std::vector<Candidate> candidates = {{1, Steps(0.1, 0.2, 0.3)}};
  EXPECT_THAT(Plan(tenants, candidates, 1), ElementsAre(std::pair(0, 47)));
  EXPECT_THAT(Plan(tenants, candidates, 2), IsEmpty());
  // Its own head of line may have them.
  const std::vector<Tenant> own = {tenants[1]};
  EXPECT_THAT(Plan(own, {{0, Steps(0.1, 0.2, 0.3)}}, 3), ElementsAre(std::pair(0, 15)));
}

TEST(ShrinkPlanner, BlocksThatOthersGoOnUsingAreNotWon) {
  const std::vector<Tenant> one = {MakeTenant(1, 90)};
  // The first step returns what others hold on to: two must be taken at once.
  const std::vector<Candidate> candidates = {{0, {{47, 2, 2, 0.1}, {31, 4, 2, 0.2}}}};
  EXPECT_THAT(Plan(one, candidates, 1), ElementsAre(std::pair(0, 31)));
  EXPECT_THAT(Plan(one, candidates, 3), IsEmpty());
}

TEST(ShrinkPlanner, WhatEndsAnywayIsWonFirst) {
  const std::vector<Tenant> tenants = {MakeTenant(1, 20), MakeTenant(1, 45, /*floor_blocks=*/40)};
  ShrinkPlanner planner;
  planner.Begin(tenants, tenants[0], 100);
  planner.AddEnd(0, 6, /*in_use=*/2);
  EXPECT_EQ(planner.gained_by_ends(), 4);
  planner.AddEnd(1, 8, 0);
  EXPECT_EQ(planner.gained_by_ends(), 9) << "five, then its floor begins";
  planner.AddSequence(3, 0);
  planner.AddOption({47, 1, 0, 0.5});
  EXPECT_THAT(planner.PlanFor(9), IsEmpty());
  EXPECT_THAT(planner.PlanFor(10), SizeIs(1));
  EXPECT_TRUE(planner.CanGain(10));
  EXPECT_FALSE(planner.CanGain(11));
}

TEST(ShrinkPlanner, LossesAreComparedPerBlock) {
  const std::vector<Tenant> one = {MakeTenant(1, 90)};
  EXPECT_THAT(Plan(one, {{0, {{47, 1, 0, 0.2}}}, {0, {{31, 4, 0, 0.4}}}}, 1), ElementsAre(std::pair(1, 31)));
}

}  // namespace
}  // namespace hydrant
