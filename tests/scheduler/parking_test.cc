// Scheduler and the turns of sessions; what is parked is asked for by number only.
#include "scheduler/parking.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/scheduler/driver.h"

namespace hydrant {
namespace {

SchedulerOptions Options(int32_t blocks, int64_t parked_blocks_max = 64) {
  SchedulerOptions options = SmallOptions(blocks);
  options.parked_blocks_max = parked_blocks_max;
  return options;
}

Request Turn(uint64_t id, int32_t prompt_length, int32_t max_tokens, uint64_t resumes, uint64_t session = 1,
             KvBudget budget = KvBudget::Unlimited()) {
  Request request = MakeRequest(id, prompt_length, max_tokens, budget);
  request.session = session;
  request.turn = id;
  request.resumes = resumes;
  return request;
}

// Steps until nothing is left, with the parked KV copied as soon as the scheduler names it.
void Drain(Driver& driver) {
  while (!driver.scheduler.idle() || !driver.scheduler.parks().empty()) {
    driver.Step();
    driver.scheduler.FinishParks();
  }
}

// Two tenants of one weight, and room for 8 blocks of parked KV: 4 each.
SchedulerOptions TwoTenants(int32_t blocks) {
  SchedulerOptions options = Options(blocks, 8);
  options.tenants = {{.name = "a"}, {.name = "b"}};
  return options;
}

TEST(Parking, ATurnGoesOnFromTheOneItNames) {
  Driver driver(Options(20));
  ASSERT_TRUE(driver.scheduler.Add(Turn(1, 20, 5, 0)).ok());
  Drain(driver);
  ASSERT_NE(driver.scheduler.parked().Newest(1), nullptr);
  EXPECT_EQ(driver.scheduler.parked().Newest(1)->computed, 24);
  EXPECT_EQ(driver.scheduler.parked().Newest(1)->id.turn, 1u);
  EXPECT_EQ(driver.used(), 0);
  ASSERT_TRUE(driver.scheduler.Add(Turn(2, 30, 5, 1)).ok());
  Drain(driver);
  EXPECT_EQ(driver.finished[2].restored, 24);
  EXPECT_EQ(driver.finished[2].prompt_computed, 6);
  EXPECT_EQ(driver.scheduler.parked().Newest(1)->id.turn, 2u);
}

TEST(Parking, ATurnNamedWronglyIsComputedWhole) {
  Driver driver(Options(20));
  ASSERT_TRUE(driver.scheduler.Add(Turn(1, 20, 5, 0)).ok());
  Drain(driver);
  // As many tokens as are parked, but of a turn that nobody parked: they may be others.
  ASSERT_TRUE(driver.scheduler.Add(Turn(3, 30, 1, 2)).ok());
  Drain(driver);
  EXPECT_EQ(driver.finished[3].restored, 0);
  ASSERT_TRUE(driver.scheduler.Add(Turn(4, 24, 1, 3)).ok());
  Drain(driver);
  EXPECT_EQ(driver.finished[4].restored, 0) << "at least one token is left to compute";
}

TEST(Parking, OnlyATurnThatEndsByItselfIsParked) {
  Driver driver(Options(20));
  ASSERT_TRUE(driver.scheduler.Add(Turn(1, 20, 5, 0)).ok());
  Drain(driver);
  ASSERT_TRUE(driver.scheduler.Add(Turn(2, 30, 50, 1)).ok());
  for (int i = 0; i < 4; ++i) driver.Step();
  ASSERT_TRUE(driver.scheduler.Cancel(2));
  Drain(driver);
  EXPECT_EQ(driver.scheduler.parked().Newest(1)->id.turn, 1u);
  driver.failing = 3;
  ASSERT_TRUE(driver.scheduler.Add(Turn(3, 30, 5, 1)).ok());
  Drain(driver);
  EXPECT_EQ(driver.finished[3].finish, FinishReason::kError);
  EXPECT_EQ(driver.scheduler.parked().Newest(1)->id.turn, 1u);
}

TEST(Parking, WhatARequestCountsOnStaysUntilItIsAdmitted) {
  // Room for one parked session of 2 blocks and one of 1.
  Driver driver(Options(20, 3));
  ASSERT_TRUE(driver.scheduler.Add(Turn(1, 20, 5, 0)).ok());
  Drain(driver);
  driver.scheduler.PauseAdmission(true);
  ASSERT_TRUE(driver.scheduler.Add(Turn(2, 30, 5, 1)).ok());
  driver.scheduler.DropSession(1);
  ASSERT_NE(driver.scheduler.parked().Newest(1), nullptr) << "it is dropped when nobody waits for it any more";
  driver.scheduler.PauseAdmission(false);
  driver.Step();
  EXPECT_EQ(driver.scheduler.parked().Newest(1), nullptr);
  Drain(driver);
  EXPECT_EQ(driver.finished[2].restored, 24);
}

TEST(Parking, ACancelledRequestCountsOnNothing) {
  Driver driver(Options(20));
  ASSERT_TRUE(driver.scheduler.Add(Turn(1, 20, 5, 0)).ok());
  Drain(driver);
  driver.scheduler.PauseAdmission(true);
  ASSERT_TRUE(driver.scheduler.Add(Turn(2, 30, 5, 1)).ok());
  ASSERT_TRUE(driver.scheduler.Cancel(2));
  driver.scheduler.DropSession(1);
  EXPECT_EQ(driver.scheduler.parked().Newest(1), nullptr);
  Drain(driver);
}

TEST(Parking, QueuedTurnsKeepNoMoreThanTheirTenantsShare) {
  Driver driver(TwoTenants(30));
  for (uint64_t session = 1; session <= 4; ++session)
    ASSERT_TRUE(driver.scheduler.Add(Turn(session, 20, 5, 0, session)).ok());
  Drain(driver);
  ASSERT_EQ(driver.scheduler.parked().blocks(), 8);
  Request other = Turn(5, 20, 5, 0, 5);
  other.tenant = 1;
  ASSERT_TRUE(driver.scheduler.Add(other).ok());
  driver.Step();
  driver.scheduler.PauseAdmission(true);
  for (uint64_t session = 1; session <= 4; ++session) {
    ASSERT_TRUE(driver.scheduler.Add(Turn(10 + session, 30, 5, session, session)).ok());
  }
  while (!driver.finished.contains(5)) {
    driver.Step();
    driver.scheduler.FinishParks();
  }
  EXPECT_NE(driver.scheduler.parked().Newest(5), nullptr) << "the other tenant parks what it has";
  driver.scheduler.PauseAdmission(false);
  Drain(driver);
  EXPECT_EQ(driver.finished[11].restored, 24);
  EXPECT_EQ(driver.finished[12].restored, 24);
  EXPECT_EQ(driver.finished[13].restored, 0) << "beyond the share it was lost, and all of it was computed";
  EXPECT_EQ(driver.finished[13].prompt_computed, 30);
  EXPECT_EQ(driver.finished[14].restored, 24) << "beyond the share, but still there";
}

TEST(Parking, ATurnThatNeedsItsPastIsRefusedWhereThatCannotBeKeptForIt) {
  Driver driver(TwoTenants(6));
  const KvBudget budget = KvBudget::Exact(32);
  for (uint64_t session = 1; session <= 3; ++session) {
    ASSERT_TRUE(driver.scheduler.Add(Turn(session, 60, 30, 0, session, budget)).ok());
    Drain(driver);
  }
  driver.scheduler.PauseAdmission(true);
  ASSERT_TRUE(driver.scheduler.Add(Turn(11, 100, 30, 1, 1, budget)).ok());
  ASSERT_TRUE(driver.scheduler.Add(Turn(12, 100, 30, 2, 2, budget)).ok());
  EXPECT_EQ(driver.scheduler.Add(Turn(13, 100, 30, 3, 3, budget)).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(driver.scheduler.Add(Turn(14, 91, 1, 3, 3, budget)).ok()) << "this one fits without it";
  driver.scheduler.PauseAdmission(false);
  Drain(driver);
  EXPECT_EQ(driver.finished[14].restored, 89);
  ASSERT_TRUE(driver.scheduler.Add(Turn(15, 140, 10, 12, 2, budget)).ok()) << "later there is room again";
  Drain(driver);
}

TEST(Parking, ATurnThatFindsNoRoomLeavesTheOneBeforeToWhoeverGoesOnFromIt) {
  for (const bool keep : {true, false}) {
    Driver driver(Options(20, 3));
    ASSERT_TRUE(driver.scheduler.Add(Turn(1, 20, 5, 0)).ok());
    ASSERT_TRUE(driver.scheduler.Add(Turn(2, 8, 2, 0, 2)).ok());
    Drain(driver);
    ASSERT_EQ(driver.scheduler.parked().blocks(), 3);
    ASSERT_TRUE(driver.scheduler.Add(Turn(3, 30, 8, 1)).ok());
    driver.Step();
    driver.scheduler.PauseAdmission(true);
    ASSERT_TRUE(driver.scheduler.Add(Turn(4, 12, 2, 2, 2)).ok());
    while (!driver.finished.contains(3)) {
      driver.Step();
      driver.scheduler.FinishParks();
    }
    EXPECT_EQ(driver.scheduler.parked().Find({1, 3}), nullptr)
        << "37 tokens take all there is, and 2 counts on a block";
    EXPECT_NE(driver.scheduler.parked().Find({1, 1}), nullptr);
    driver.scheduler.SettleTurn({1, 3}, keep);
    EXPECT_EQ(driver.scheduler.parked().Find({1, 1}) == nullptr, keep);
    driver.scheduler.PauseAdmission(false);
    Drain(driver);
    EXPECT_EQ(driver.finished[4].restored, 9);
  }
}

// The client left while the step was computed with which its turn ended.
TEST(Parking, ATurnThatNobodyTookLeavesTheOneBefore) {
  Driver driver(Options(20));
  ASSERT_TRUE(driver.scheduler.Add(Turn(1, 20, 5, 0)).ok());
  Drain(driver);
  driver.scheduler.SettleTurn({1, 1}, /*keep=*/true);
  ASSERT_TRUE(driver.scheduler.Add(Turn(2, 30, 5, 1)).ok());
  Drain(driver);
  ASSERT_EQ(driver.finished[2].finish, FinishReason::kLength);
  ASSERT_EQ(driver.scheduler.parked().blocks(), 2 + 3) << "both are there";
  driver.scheduler.SettleTurn({1, 2}, /*keep=*/false);
  EXPECT_FALSE(driver.scheduler.Cancel(2)) << "it has ended";
  ASSERT_EQ(driver.scheduler.drops().size(), 1u);
  EXPECT_EQ(driver.scheduler.drops()[0], (TurnId{1, 2}));
  ASSERT_TRUE(driver.scheduler.Add(Turn(3, 28, 5, 1)).ok());
  Drain(driver);
  EXPECT_EQ(driver.finished[3].restored, 24);
  driver.scheduler.SettleTurn({1, 3}, /*keep=*/true);
  EXPECT_EQ(driver.scheduler.parked().blocks(), 2) << "and nothing that is nobody's";
}

// With a row behind its end on the way, the turn has yet to be parked.
TEST(Parking, ATurnThatNobodyWillTakeIsNotParked) {
  Driver driver(Options(20));
  ASSERT_TRUE(driver.scheduler.Add(Turn(1, 20, 5, 0)).ok());
  driver.Step();
  const StepPlan& plan = driver.scheduler.Plan(1);
  const StepPlan* ahead = driver.scheduler.PlanAhead([](int32_t) { return true; });
  ASSERT_NE(ahead, nullptr);
  const std::vector<RowResult> results = {{.token = 7, .ends = true}};
  EXPECT_TRUE(driver.scheduler.Commit(plan, results, 2).empty());
  driver.scheduler.SettleTurn({1, 1}, /*keep=*/false);
  EXPECT_EQ(driver.scheduler.Commit(*ahead, results, 3).size(), 1u);
  EXPECT_TRUE(driver.scheduler.parks().empty());
  EXPECT_EQ(driver.scheduler.parked().size(), 0);
  EXPECT_EQ(driver.used(), 0);
}

// By which moved blocks raise the counter of the first of two tenants, in two turns of 2 and 3 blocks.
double ChargedForMoves(double block_moved) {
  Driver driver(TwoTenants(30));
  StepLimits limits;
  limits.block_moved = block_moved;
  driver.scheduler.LimitSteps(limits);
  EXPECT_TRUE(driver.scheduler.Add(Turn(1, 20, 5, 0)).ok());
  Drain(driver);
  EXPECT_TRUE(driver.scheduler.Add(Turn(2, 30, 5, 1)).ok());
  Drain(driver);
  EXPECT_EQ(driver.finished[2].restored, 24);
  EXPECT_EQ(driver.scheduler.tenant(1).service, 0);
  return driver.scheduler.tenant(0).memory_charged;
}

TEST(Parking, WhoHasKvMovedIsChargedForIt) {
  EXPECT_NEAR(ChargedForMoves(3.0) - ChargedForMoves(0.0), 3.0 * (2 + 2 + 3), 1e-9) << "parked, restored, parked";
}

TEST(Parking, AStepRestoresSoManyBlocksOrOneSession) {
  const struct {
    int64_t blocks;
    std::vector<size_t> restores;  // in the first steps, of three sessions of two blocks
  } cases[] = {{1, {1, 1, 1}}, {3, {1, 1, 1}}, {4, {2, 1, 0}}, {5, {2, 1, 0}}, {6, {3, 0, 0}}};
  for (const auto& test : cases) {
    Driver driver(Options(40));
    for (uint64_t session : {1, 2, 3}) ASSERT_TRUE(driver.scheduler.Add(Turn(session, 20, 5, 0, session)).ok());
    Drain(driver);
    StepLimits limits;
    limits.blocks_restored = test.blocks;
    driver.scheduler.LimitSteps(limits);
    for (uint64_t session : {1, 2, 3})
      ASSERT_TRUE(driver.scheduler.Add(Turn(10 + session, 30, 5, session, session)).ok());
    ASSERT_TRUE(driver.scheduler.Add(MakeRequest(20, 10, 5)).ok());
    for (const size_t restores : test.restores) {
      driver.Step();
      EXPECT_EQ(driver.scheduler.plan().restores.size(), restores) << test.blocks;
    }
    Drain(driver);
    for (uint64_t id : {11, 12, 13}) EXPECT_EQ(driver.finished[id].restored, 24);
    EXPECT_TRUE(driver.finished.contains(20));
  }
}

TEST(Parking, WhatIsForgottenOnItsWayOutIsNotCopied) {
  Driver driver(Options(20));
  ASSERT_TRUE(driver.scheduler.Add(Turn(1, 20, 1, 0)).ok());
  driver.Step();
  ASSERT_EQ(driver.scheduler.parks().size(), 1u);
  driver.scheduler.SettleTurn({1, 1}, /*keep=*/false);
  EXPECT_TRUE(driver.scheduler.parks().empty());
  EXPECT_EQ(driver.used(), 0);
}

TEST(Parking, AHistoryLargerThanThePoolGoesOnFromWhatIsParked) {
  Driver driver(Options(6));
  const KvBudget budget = KvBudget::Exact(32);
  ASSERT_TRUE(driver.scheduler.Add(Turn(1, 60, 30, 0, 1, budget)).ok());
  Drain(driver);
  EXPECT_EQ(driver.scheduler.Add(Turn(2, 100, 30, 7, 1, budget)).status().code(), absl::StatusCode::kOutOfRange);
  ASSERT_TRUE(driver.scheduler.Add(Turn(2, 100, 30, 1, 1, budget)).ok()) << "32 parked slots and 11 new tokens";
  Drain(driver);
  EXPECT_EQ(driver.finished[2].restored, 89);
  EXPECT_EQ(driver.finished[2].live, 33);
}

TEST(Parking, AnEndInTheTextIsParkedLikeAStop) {
  Driver driver(Options(20));
  ASSERT_TRUE(driver.scheduler.Add(Turn(1, 20, 9, 0)).ok());
  const StepPlan& plan = driver.scheduler.Plan(1);
  const std::vector<RowResult> results = {{.token = 7, .ends = true}};
  const auto events = driver.scheduler.Commit(plan, results, 2);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].finish, FinishReason::kText);
  EXPECT_EQ(events[0].generated, 1);
  driver.scheduler.FinishParks();
  EXPECT_EQ(driver.scheduler.parked().Newest(1)->computed, 20);
}

}  // namespace
}  // namespace hydrant
