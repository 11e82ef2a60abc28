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

// Two tenants of one weight, and room for 8 blocks of parked KV: 4 each.
SchedulerOptions TwoTenants(int32_t blocks) {
  SchedulerOptions options = Options(blocks, 8);
  options.tenants = {{.name = "a"}, {.name = "b"}};
  return options;
}

TEST(Parking, ATurnGoesOnFromTheOneItNames) {
  Driver driver(Options(20));
  ASSERT_TRUE(driver.scheduler.Add(Turn(1, 20, 5, 0)).ok());
  driver.DrainParks();
  ASSERT_NE(driver.scheduler.parked().Newest(1), nullptr);
  EXPECT_EQ(driver.scheduler.parked().Newest(1)->computed, 24);
  EXPECT_EQ(driver.scheduler.parked().Newest(1)->id.turn, 1u);
  EXPECT_EQ(driver.used(), 0);
  ASSERT_TRUE(driver.scheduler.Add(Turn(2, 30, 5, 1)).ok());
  driver.DrainParks();
  EXPECT_EQ(driver.finished[2].restored, 24);
  EXPECT_EQ(driver.finished[2].prompt_computed, 6);
  EXPECT_EQ(driver.scheduler.parked().Newest(1)->id.turn, 2u);
}

TEST(Parking, ATurnNamedWronglyIsComputedWhole) {
  Driver driver(Options(20));
  ASSERT_TRUE(driver.scheduler.Add(Turn(1, 20, 5, 0)).ok());
  driver.DrainParks();
  // As many tokens as are parked, but of a turn that nobody parked: they may be others.
  ASSERT_TRUE(driver.scheduler.Add(Turn(3, 30, 1, 2)).ok());
  driver.DrainParks();
  EXPECT_EQ(driver.finished[3].restored, 0);
  ASSERT_TRUE(driver.scheduler.Add(Turn(4, 24, 1, 3)).ok());
  driver.DrainParks();
  EXPECT_EQ(driver.finished[4].restored, 0) << "at least one token is left to compute";
}

TEST(Parking, OnlyATurnThatEndsByItselfIsParked) {
  Driver driver(Options(20));
  ASSERT_TRUE(driver.scheduler.Add(Turn(1, 20, 5, 0)).ok());
  driver.DrainParks();
  ASSERT_TRUE(driver.scheduler.Add(Turn(2, 30, 50, 1)).ok());
  for (int i = 0; i < 4; ++i) driver.Step();
  ASSERT_TRUE(driver.scheduler.Cancel(2));
  driver.DrainParks();
  EXPECT_EQ(driver.scheduler.parked().Newest(1)->id.turn, 1u);
  driver.failing = 3;
  ASSERT_TRUE(driver.scheduler.Add(Turn(3, 30, 5, 1)).ok());
  driver.DrainParks();
  EXPECT_EQ(driver.finished[3].finish, FinishReason::kError);
  EXPECT_EQ(driver.scheduler.parked().Newest(1)->id.turn, 1u);
}

TEST(Parking, WhatARequestCountsOnStaysUntilItIsAdmitted) {
  // Room for one parked session of 2 blocks and one of 1.
  Driver driver(Options(20, 3));
  ASSERT_TRUE(driver.scheduler.Add(Turn(1, 20, 5, 0)).ok());
  driver.DrainParks();
  driver.scheduler.PauseAdmission(true);
  ASSERT_TRUE(driver.scheduler.Add(Turn(2, 30, 5, 1)).ok());
  driver.scheduler.DropSession(1);
  ASSERT_NE(driver.scheduler.parked().Newest(1), nullptr) << "it is dropped when nobody waits for it any more";
  driver.scheduler.PauseAdmission(false);
  driver.Step();
  EXPECT_EQ(driver.scheduler.parked().Newest(1), nullptr);
  driver.DrainParks();
  EXPECT_EQ(driver.finished[2].restored, 24);
}

TEST(Parking, ACancelledRequestCountsOnNothing) {
  Driver driver(Options(20));
  ASSERT_TRUE(driver.scheduler.Add(Turn(1, 20, 5, 0)).ok());
  driver.DrainParks();
  driver.scheduler.PauseAdmission(true);
  ASSERT_TRUE(driver.scheduler.Add(Turn(2, 30, 5, 1)).ok());
  ASSERT_TRUE(driver.scheduler.Cancel(2));
  driver.scheduler.DropSession(1);
  EXPECT_EQ(driver.scheduler.parked().Newest(1), nullptr);
  driver.DrainParks();
}

// Sessions 1 to 4 are one tenant's and wait for their second turns while the other tenant's session is parked, which costs session 3
// its KV: two are pinned, and it is the older of the others.
void LoseThePastOfThree(Driver& driver, bool needed) {
  for (uint64_t session = 1; session <= 4; ++session)
    ASSERT_TRUE(driver.scheduler.Add(Turn(session, 20, 5, 0, session)).ok());
  driver.DrainParks();
  ASSERT_EQ(driver.scheduler.parked().blocks(), 8);
  Request other = Turn(5, 20, 5, 0, 5);
  other.tenant = 1;
  ASSERT_TRUE(driver.scheduler.Add(other).ok());
  driver.Step();
  driver.scheduler.PauseAdmission(true);
  for (uint64_t session = 1; session <= 4; ++session) {
    Request turn = Turn(10 + session, 30, 5, session, session);
    turn.needs_past = needed;
    ASSERT_TRUE(driver.scheduler.Add(turn).ok());
  }
  while (!driver.finished.contains(5)) {
    driver.Step();
    driver.scheduler.FinishParks();
  }
  EXPECT_NE(driver.scheduler.parked().Newest(5), nullptr) << "the other tenant parks what it has";
  driver.scheduler.PauseAdmission(false);
  driver.DrainParks();
  EXPECT_EQ(driver.finished[11].restored, 24);
  EXPECT_EQ(driver.finished[12].restored, 24);
  EXPECT_EQ(driver.finished[13].restored, 0);
  EXPECT_EQ(driver.finished[14].restored, 24) << "beyond the share, but still there";
}

TEST(Parking, QueuedTurnsKeepNoMoreThanTheirTenantsShare) {
  Driver driver(TwoTenants(30));
  LoseThePastOfThree(driver, /*needed=*/false);
  EXPECT_EQ(driver.finished[13].prompt_computed, 30);
  EXPECT_EQ(driver.finished[13].finish, FinishReason::kLength);
}

TEST(Parking, WhoNeedsItsPastComputesNoneOfIt) {
  Driver driver(TwoTenants(30));
  LoseThePastOfThree(driver, /*needed=*/true);
  EXPECT_EQ(driver.finished[13].prompt_computed, 0);
  EXPECT_EQ(driver.finished[13].finish, FinishReason::kPastMoved);
  Request turn = Turn(20, 30, 5, 3, 3);
  turn.needs_past = true;
  EXPECT_EQ(driver.scheduler.Add(turn).status().code(), absl::StatusCode::kUnavailable);
  // Brought back, it is as if it had been there all the time.
  ASSERT_TRUE(driver.scheduler.AdoptParked({{3, 3}, 0, 24, 24}));
  ASSERT_TRUE(driver.scheduler.Add(turn).ok());
  driver.DrainParks();
  EXPECT_EQ(driver.finished[20].restored, 24);
}

TEST(Parking, ATurnThatNeedsItsPastIsRefusedWhereThatCannotBeKeptForIt) {
  Driver driver(TwoTenants(6));
  const KvBudget budget = KvBudget::Exact(32);
  for (uint64_t session = 1; session <= 3; ++session) {
    ASSERT_TRUE(driver.scheduler.Add(Turn(session, 60, 30, 0, session, budget)).ok());
    driver.DrainParks();
  }
  driver.scheduler.PauseAdmission(true);
  ASSERT_TRUE(driver.scheduler.Add(Turn(11, 100, 30, 1, 1, budget)).ok());
  ASSERT_TRUE(driver.scheduler.Add(Turn(12, 100, 30, 2, 2, budget)).ok());
  EXPECT_EQ(driver.scheduler.Add(Turn(13, 100, 30, 3, 3, budget)).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(driver.scheduler.Add(Turn(14, 91, 1, 3, 3, budget)).ok()) << "this one fits without it";
  driver.scheduler.PauseAdmission(false);
  driver.DrainParks();
  EXPECT_EQ(driver.finished[14].restored, 89);
  ASSERT_TRUE(driver.scheduler.Add(Turn(15, 140, 10, 12, 2, budget)).ok()) << "later there is room again";
  driver.DrainParks();
}

TEST(Parking, ATurnThatFindsNoRoomLeavesTheOneBeforeToWhoeverGoesOnFromIt) {
  for (const bool keep : {true, false}) {
    Driver driver(Options(20, 3));
    ASSERT_TRUE(driver.scheduler.Add(Turn(1, 20, 5, 0)).ok());
    ASSERT_TRUE(driver.scheduler.Add(Turn(2, 8, 2, 0, 2)).ok());
    driver.DrainParks();
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
    driver.DrainParks();
    EXPECT_EQ(driver.finished[4].restored, 9);
  }
}

// The client left while the step was computed with which its turn ended.
TEST(Parking, ATurnThatNobodyTookLeavesTheOneBefore) {
  Driver driver(Options(20));
  ASSERT_TRUE(driver.scheduler.Add(Turn(1, 20, 5, 0)).ok());
  driver.DrainParks();
  driver.scheduler.SettleTurn({1, 1}, /*keep=*/true);
  ASSERT_TRUE(driver.scheduler.Add(Turn(2, 30, 5, 1)).ok());
  driver.DrainParks();
  ASSERT_EQ(driver.finished[2].finish, FinishReason::kLength);
  ASSERT_EQ(driver.scheduler.parked().blocks(), 2 + 3) << "both are there";
  driver.scheduler.SettleTurn({1, 2}, /*keep=*/false);
  EXPECT_FALSE(driver.scheduler.Cancel(2)) << "it has ended";
  ASSERT_EQ(driver.scheduler.drops().size(), 1u);
  EXPECT_EQ(driver.scheduler.drops()[0], (TurnId{1, 2}));
  ASSERT_TRUE(driver.scheduler.Add(Turn(3, 28, 5, 1)).ok());
  driver.DrainParks();
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
  const std::vector<RowResult> results = {{.token = 7, .end = FinishReason::kText}};
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
  driver.DrainParks();
  EXPECT_TRUE(driver.scheduler.Add(Turn(2, 30, 5, 1)).ok());
  driver.DrainParks();
  EXPECT_EQ(driver.finished[2].restored, 24);
  EXPECT_EQ(driver.scheduler.tenant(1).service, 0);
  return driver.scheduler.tenant(0).memory_charged;
}

TEST(Parking, WhoHasKvMovedIsChargedForIt) {
  EXPECT_NEAR(ChargedForMoves(3.0) - ChargedForMoves(0.0), 3.0 * (2 + 2 + 3), 1e-9) << "parked, restored, parked";
}

void LimitMoves(Driver& driver, int64_t blocks) {
  StepLimits limits;
  limits.blocks_moved_max = blocks;
  driver.scheduler.LimitSteps(limits);
}

std::vector<int32_t> RestoredIn(const StepPlan& plan) {
  std::vector<int32_t> blocks;
  for (const PlanRestore& restore : plan.restores) blocks.push_back(restore.slice.size());
  return blocks;
}

// A turn of 64 tokens in 4 blocks, parked.
void ParkTurn(Driver& driver, uint64_t id, uint64_t session = 1) {
  ASSERT_TRUE(driver.scheduler.Add(Turn(id, 60, 5, 0, session)).ok());
  driver.DrainParks();
  ASSERT_NE(driver.scheduler.parked().Find({session, id}), nullptr);
}

// Likewise, of which 2 blocks are parked.
void ParkHalf(Driver& driver, uint64_t id, uint64_t session = 1) {
  LimitMoves(driver, 2);
  ASSERT_TRUE(driver.scheduler.Add(Turn(id, 60, 5, 0, session)).ok());
  while (!driver.finished.contains(id)) driver.Step();
  driver.scheduler.FinishParks();
}

TEST(Parking, AStepRestoresSoManyBlocks) {
  const struct {
    int64_t blocks;
    std::vector<std::vector<int32_t>> slices;  // in the first steps, of three sessions of two blocks
  } cases[] = {{2, {{2}, {2}, {2}, {}}}, {3, {{2, 1}, {1, 2}, {}}}, {4, {{2, 2}, {2}, {}}}, {6, {{2, 2, 2}, {}}}};
  for (const auto& test : cases) {
    Driver driver(Options(40));
    for (uint64_t session : {1, 2, 3}) ASSERT_TRUE(driver.scheduler.Add(Turn(session, 20, 5, 0, session)).ok());
    driver.DrainParks();
    LimitMoves(driver, test.blocks);
    for (uint64_t session : {1, 2, 3})
      ASSERT_TRUE(driver.scheduler.Add(Turn(10 + session, 30, 5, session, session)).ok());
    ASSERT_TRUE(driver.scheduler.Add(MakeRequest(20, 10, 5)).ok());
    for (const std::vector<int32_t>& slices : test.slices) {
      driver.Step();
      EXPECT_EQ(RestoredIn(driver.scheduler.plan()), slices) << test.blocks;
    }
    driver.DrainParks();
    for (uint64_t id : {11, 12, 13}) EXPECT_EQ(driver.finished[id].restored, 24);
    EXPECT_TRUE(driver.finished.contains(20));
  }
}

TEST(Parking, WhoseKvIsNotBackHasNoRow) {
  Driver driver(Options(20));
  ParkTurn(driver, 1);
  LimitMoves(driver, 3);
  ASSERT_TRUE(driver.scheduler.Add(Turn(2, 70, 5, 1)).ok());
  EXPECT_EQ(driver.Step().size(), 0u);
  EXPECT_EQ(driver.used(), 4);
  EXPECT_TRUE(driver.scheduler.moving());
  EXPECT_EQ(driver.Step().size(), 1u) << "with the last slice";
  EXPECT_FALSE(driver.scheduler.moving());
  EXPECT_EQ(driver.scheduler.counters().moves_in_slices, 1u);
  driver.DrainParks();
  EXPECT_EQ(driver.finished[2].restored, 64);
}

TEST(Parking, ATurnLeavesInSlicesAndItsTenantClaimsItsBlocksUntilThen) {
  Driver driver(Options(20));
  LimitMoves(driver, 2);
  ASSERT_TRUE(driver.scheduler.Add(Turn(1, 60, 5, 0)).ok());
  while (!driver.finished.contains(1)) driver.Step();
  ASSERT_EQ(driver.scheduler.parks().size(), 1u);
  EXPECT_TRUE(driver.scheduler.parks()[0].begins);
  EXPECT_EQ(driver.scheduler.parks()[0].slice.size(), 2);
  driver.scheduler.FinishParks();
  EXPECT_EQ(driver.used(), 4);
  EXPECT_EQ(driver.scheduler.tenant(0).reserved, 4);
  EXPECT_TRUE(driver.scheduler.CheckIntegrity().ok()) << driver.scheduler.CheckIntegrity();
  EXPECT_FALSE(driver.scheduler.idle());
  EXPECT_TRUE(driver.scheduler.all_ended());
  EXPECT_EQ(driver.Step().size(), 0u);
  EXPECT_FALSE(driver.scheduler.parks()[0].begins);
  EXPECT_EQ(driver.scheduler.parks()[0].slice.begin, 2);
  EXPECT_EQ(driver.scheduler.parks()[0].slice.end, 4);
  driver.scheduler.FinishParks();
  EXPECT_EQ(driver.used(), 0);
  EXPECT_EQ(driver.scheduler.tenant(0).reserved, 0);
  EXPECT_TRUE(driver.scheduler.idle());
}

TEST(Parking, EachWayHasItsHalf) {
  Driver driver(Options(20));
  ParkTurn(driver, 1);
  ParkHalf(driver, 2, /*session=*/2);
  ASSERT_TRUE(driver.scheduler.Add(Turn(3, 70, 5, 1)).ok());
  for (int i = 0; i < 2; ++i) {
    driver.Step();
    EXPECT_EQ(RestoredIn(driver.scheduler.plan()), std::vector<int32_t>{1});
    EXPECT_EQ(driver.scheduler.parks()[0].slice.size(), 1);
    driver.scheduler.FinishParks();
  }
  driver.Step();
  EXPECT_EQ(RestoredIn(driver.scheduler.plan()), std::vector<int32_t>{2}) << "nothing else moves";
  driver.DrainParks();
  EXPECT_EQ(driver.finished[3].restored, 64);
}

TEST(Parking, ATurnWaitsUntilTheOneBeforeHasLeft) {
  Driver driver(Options(20));
  ParkHalf(driver, 1);
  ASSERT_TRUE(driver.scheduler.Add(Turn(2, 70, 5, 1)).ok());
  EXPECT_EQ(driver.Step().size(), 0u);
  EXPECT_EQ(driver.scheduler.running(), 1);
  EXPECT_TRUE(driver.scheduler.plan().restores.empty());
  EXPECT_EQ(driver.used(), 8);
  driver.scheduler.FinishParks();
  EXPECT_EQ(driver.used(), 4);
  driver.Step();
  EXPECT_EQ(RestoredIn(driver.scheduler.plan()), std::vector<int32_t>{2});
  driver.DrainParks();
  EXPECT_EQ(driver.finished[2].restored, 64);
  EXPECT_EQ(driver.used(), 0);
}

TEST(Parking, WhatIsForgottenHalfWayOutIsCopiedNoFurther) {
  for (const bool settled : {true, false}) {
    Driver driver(Options(20));
    ParkHalf(driver, 1);
    if (settled) driver.scheduler.SettleTurn({1, 1}, /*keep=*/false);
    if (!settled) driver.scheduler.DropSession(1);
    EXPECT_TRUE(driver.scheduler.parks().empty());
    EXPECT_EQ(driver.used(), 0);
    ASSERT_EQ(driver.scheduler.drops().size(), 1u);
    EXPECT_FALSE(driver.scheduler.idle()) << "the executor has half of it";
    driver.Step();
    driver.scheduler.FinishParks();
    EXPECT_TRUE(driver.scheduler.idle());
  }
}

TEST(Parking, ATurnThatIsCancelledHalfWayBackLeavesTheOneBefore) {
  for (const bool in_flight : {false, true}) {
    Driver driver(Options(20));
    ParkTurn(driver, 1);
    LimitMoves(driver, 2);
    ASSERT_TRUE(driver.scheduler.Add(Turn(2, 70, 5, 1)).ok());
    std::vector<int32_t> table;
    driver.between = [&] {
      if (in_flight) driver.scheduler.Cancel(2);
      const std::span<const int32_t> blocks = driver.scheduler.plan().restores[0].block_table;
      table.assign(blocks.begin(), blocks.end());
    };
    driver.Step();
    driver.between = nullptr;
    EXPECT_EQ(table.size(), 4u) << "the step in flight has it";
    EXPECT_EQ(driver.scheduler.Cancel(2), !in_flight);
    EXPECT_EQ(driver.used(), 0);
    driver.DrainParks();
    EXPECT_EQ(driver.finished[2].finish, FinishReason::kAbort);
    ASSERT_TRUE(driver.scheduler.Add(Turn(3, 70, 5, 1)).ok());
    driver.DrainParks();
    EXPECT_EQ(driver.finished[3].restored, 64);
    driver.scheduler.SettleTurn({1, 3}, /*keep=*/true);
    EXPECT_EQ(driver.scheduler.parked().Find({1, 1}), nullptr) << "nobody has pinned it";
  }
}

TEST(Parking, WhatIsForgottenHalfWayBackIsThereUntilAllOfItIsBack) {
  Driver driver(Options(20));
  ParkTurn(driver, 1);
  LimitMoves(driver, 2);
  ASSERT_TRUE(driver.scheduler.Add(Turn(2, 70, 5, 1)).ok());
  driver.Step();
  driver.scheduler.DropSession(1);
  EXPECT_NE(driver.scheduler.parked().Find({1, 1}), nullptr);
  EXPECT_TRUE(driver.scheduler.drops().empty());
  driver.Step();
  EXPECT_EQ(driver.scheduler.parked().Find({1, 1}), nullptr);
  EXPECT_EQ(driver.scheduler.drops().size(), 1u);
  driver.DrainParks();
  EXPECT_EQ(driver.finished[2].restored, 64);
}

// A session that makes room for its turn: the blocks behind the cut become free with the last slice.
TEST(Parking, RoomForATurnIsMadeWithTheLastSlice) {
  KvBudget budget = KvBudget::Exact(64);
  budget.turn_heavy = 32;
  Driver driver(Options(20));
  ASSERT_TRUE(driver.scheduler.Add(Turn(1, 60, 5, 0, 1, budget)).ok());
  driver.DrainParks();
  LimitMoves(driver, 3);
  ASSERT_TRUE(driver.scheduler.Add(Turn(2, 80, 5, 1, 1, budget)).ok());
  driver.Step();
  EXPECT_EQ(driver.scheduler.plan().restores[0].cut_to, 0);
  EXPECT_EQ(driver.used(), 4);
  driver.Step();
  EXPECT_EQ(driver.scheduler.plan().restores[0].cut_to, budget.TurnCut(64, 16));
  EXPECT_GT(driver.scheduler.plan().restores[0].cut_to, 0);
  driver.DrainParks();
  EXPECT_EQ(driver.finished[2].restored, 64);
}

TEST(Parking, TenantsTakeTurnsAtMoving) {
  SchedulerOptions options = Options(60);
  options.tenants = {{.name = "a"}, {.name = "b"}};
  Driver driver(options);
  const auto turn = [](uint64_t id, int32_t tenant, int32_t prompt, uint64_t resumes, uint64_t session) {
    Request request = Turn(id, prompt, 5, resumes, session);
    request.tenant = tenant;
    return request;
  };
  for (uint64_t session : {1, 2, 3, 4}) {
    ASSERT_TRUE(driver.scheduler.Add(turn(session, session == 4 ? 1 : 0, 60, 0, session)).ok());
  }
  driver.DrainParks();
  LimitMoves(driver, 2);
  for (uint64_t session : {1, 2, 3, 4}) {
    ASSERT_TRUE(driver.scheduler.Add(turn(10 + session, session == 4 ? 1 : 0, 70, session, session)).ok());
  }
  int32_t steps = 0;
  for (; steps < 20 && !driver.tokens.contains(14); ++steps) {
    driver.Step();
    driver.scheduler.FinishParks();
  }
  EXPECT_LE(steps, 5) << "as if the other tenant had one session";
  driver.DrainParks();
  for (uint64_t id : {11, 12, 13, 14}) EXPECT_EQ(driver.finished[id].restored, 64);
}

TEST(Parking, WithoutMemoryForMovesOnlyWhatWasToBeginIsLost) {
  Driver driver(Options(20));
  ParkHalf(driver, 1);
  ASSERT_TRUE(driver.scheduler.Add(Turn(2, 16, 1, 0, 2)).ok());
  LimitMoves(driver, 3);
  driver.Step();
  ASSERT_EQ(driver.scheduler.parks().size(), 2u);
  driver.scheduler.FailParks();
  EXPECT_EQ(driver.scheduler.parked().Find({2, 2}), nullptr);
  EXPECT_EQ(driver.scheduler.parked().lost(), 1u);
  ASSERT_EQ(driver.scheduler.parks().size(), 1u);
  EXPECT_EQ(driver.scheduler.parks()[0].slice.size(), 0);
  EXPECT_EQ(driver.used(), 4);
  driver.Step();
  EXPECT_EQ(driver.scheduler.parks()[0].slice.begin, 2) << "again";
  driver.scheduler.FinishParks();
  EXPECT_EQ(driver.used(), 0);
  EXPECT_NE(driver.scheduler.parked().Find({1, 1}), nullptr);
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
  driver.DrainParks();
  EXPECT_EQ(driver.scheduler.Add(Turn(2, 100, 30, 7, 1, budget)).status().code(), absl::StatusCode::kOutOfRange);
  ASSERT_TRUE(driver.scheduler.Add(Turn(2, 100, 30, 1, 1, budget)).ok()) << "32 parked slots and 11 new tokens";
  driver.DrainParks();
  EXPECT_EQ(driver.finished[2].restored, 89);
  EXPECT_EQ(driver.finished[2].live, 33);
}

TEST(Parking, AnEndInTheTextIsParkedLikeAStop) {
  Driver driver(Options(20));
  ASSERT_TRUE(driver.scheduler.Add(Turn(1, 20, 9, 0)).ok());
  const StepPlan& plan = driver.scheduler.Plan(1);
  const std::vector<RowResult> results = {{.token = 7, .end = FinishReason::kText}};
  const auto events = driver.scheduler.Commit(plan, results, 2);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].finish, FinishReason::kText);
  EXPECT_EQ(events[0].generated, 1);
  driver.scheduler.FinishParks();
  EXPECT_EQ(driver.scheduler.parked().Newest(1)->computed, 20);
}

}  // namespace
}  // namespace hydrant
