#include "server/engine/session_mover.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "tests/engine/engine_core_fixture.h"

namespace hydrant {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

SchedulerOptions WithRoomToPark() {
  SchedulerOptions options = Options().scheduler;
  options.parked_blocks_max = 8;
  return options;
}

class SessionMoverTest : public ::testing::Test {
 protected:
  // Computes a turn of one token of each session and commits them; what they leave is still in the pool.
  void EndTurns(std::initializer_list<uint64_t> sessions) {
    for (uint64_t session : sessions) {
      ASSERT_TRUE(scheduler.Add(SessionTurnOf(session, MakeRequest(session, 16, 1)).request).ok());
    }
    const StepPlan& plan = scheduler.Plan(0);
    ASSERT_THAT(plan.rows, SizeIs(sessions.size()));
    scheduler.Commit(plan, std::vector<RowResult>(sessions.size(), {.token = 7}), 0);
  }

  // Nobody has a row in it.
  void EmptyStep() {
    const StepPlan& plan = scheduler.Plan(0);
    EXPECT_THAT(plan.rows, IsEmpty());
    scheduler.Commit(plan, {}, 0);
  }

  ScriptedExecutor executor;
  Scheduler scheduler{WithRoomToPark()};
  EvictionPolicy policy;
  int32_t awaited = 0;
  SessionMover mover{scheduler, executor, /*layer_heads=*/1,
                     [this](int32_t) { return SessionMover::PolicyInForce{&policy}; }, [this] { ++awaited; }};
};

TEST_F(SessionMoverTest, WhatATurnLeavesIsParkedOnceAndItsBlocksAreFree) {
  EndTurns({11});
  EXPECT_EQ(scheduler.block_manager().pool().used(), 1);
  mover.Move(/*step_in_flight=*/false);
  ASSERT_THAT(mover.parked(), SizeIs(1));
  EXPECT_EQ(mover.parked()[0].id.session, 11u);
  EXPECT_EQ(mover.parked()[0].live, 16);
  EXPECT_EQ(scheduler.block_manager().pool().used(), 0);
  mover.Move(/*step_in_flight=*/false);
  EXPECT_THAT(mover.parked(), IsEmpty());
  EXPECT_EQ(executor.launches, 1);
}

TEST_F(SessionMoverTest, DropsWaitForTheStepInFlight) {
  EndTurns({11});
  mover.Move(/*step_in_flight=*/false);
  scheduler.DropSession(11);
  mover.Move(/*step_in_flight=*/true);
  EXPECT_THAT(mover.dropped(), IsEmpty());
  EXPECT_EQ(executor.launches, 1);
  mover.Move(/*step_in_flight=*/false);
  EXPECT_THAT(mover.dropped(), ElementsAre(TurnId{11, 3}));
  EXPECT_EQ(executor.launches, 2);
}

TEST_F(SessionMoverTest, WithoutMemoryToLaunchEverythingIsDropped) {
  EndTurns({11, 12});
  executor.starve = [](const StepInput&) { return true; };
  mover.Move(/*step_in_flight=*/false);
  EXPECT_THAT(mover.dropped(), ElementsAre(TurnId{11, 3}, TurnId{12, 3}));
  EXPECT_THAT(mover.parked(), IsEmpty());
  EXPECT_EQ(scheduler.parked().size(), 0);
  EXPECT_EQ(scheduler.block_manager().pool().used(), 0);
}

TEST_F(SessionMoverTest, WhatWasBegunGoesOnWhenThereIsMemoryAgain) {
  scheduler.LimitSteps({.blocks_moved_max = 2});
  EndTurns({11, 12, 13});
  EXPECT_EQ(mover.Move(/*step_in_flight=*/false), 2);
  EXPECT_THAT(mover.parked(), SizeIs(3)) << "memory is taken for all of them";
  EXPECT_EQ(scheduler.block_manager().pool().used(), 1);
  executor.starve = [](const StepInput&) { return true; };
  EmptyStep();
  EXPECT_EQ(mover.Move(/*step_in_flight=*/false), 0);
  EXPECT_THAT(mover.dropped(), IsEmpty());
  executor.starve = nullptr;
  EmptyStep();
  EXPECT_EQ(mover.Move(/*step_in_flight=*/false), 1);
  EXPECT_THAT(mover.parked(), IsEmpty()) << "that was told";
  EXPECT_EQ(scheduler.parked().size(), 3);
  EXPECT_EQ(scheduler.block_manager().pool().used(), 0);
}

// Whole once all slices are copied, as ModelExecutor has it.
class KeepingExecutor : public Executor {
 public:
  Ticket Launch(const StepInput& input) override {
    for (const TurnId& turn : input.drops) std::erase(whole, turn);
    for (const ParkOp& park : input.parks) {
      if (park.slice.end == BlocksForSlots(park.live)) whole.push_back(park.id);
    }
    return {};
  }
  void Sample(Ticket, std::span<const LogitAdjustments* const>) override {}
  StepOutput Await(Ticket) override { return {}; }
  KvBytes Parked(const TurnId& turn) const override {
    if (std::find(whole.begin(), whole.end(), turn) == whole.end()) return {};
    return {std::make_shared<std::byte[]>(1), 1, 16, 16};
  }
  bool Adopt(const TurnId& turn, const KvBytes&) override {
    if (adopts) whole.push_back(turn);
    return adopts;
  }
  std::vector<TurnId> whole;
  bool adopts = true;
};

class SessionMoverKeeps : public SessionMoverTest {
 protected:
  KeepingExecutor keeping;
  std::vector<TurnId> lost;
  SessionMover keeps{scheduler,
                     keeping,
                     /*layer_heads=*/1,
                     [this](int32_t) { return SessionMover::PolicyInForce{&policy}; },
                     [] {},
                     [this](const TurnId& turn, const KvBytes& kv) {
                       EXPECT_FALSE(kv.empty());
                       lost.push_back(turn);
                     }};
};

TEST_F(SessionMoverKeeps, ParkedKvIsGivenOutOnceAllOfItIsThere) {
  scheduler.LimitSteps({.blocks_moved_max = 2});
  EndTurns({11, 12, 13});
  bool is_coming = false;
  EXPECT_TRUE(keeps.ReadParked({13, 3}, &is_coming).empty());
  EXPECT_TRUE(is_coming);
  keeps.Move(/*step_in_flight=*/false);
  EXPECT_FALSE(keeps.ReadParked({11, 3}, &is_coming).empty());
  EXPECT_FALSE(is_coming);
  EXPECT_TRUE(keeps.ReadParked({13, 3}, &is_coming).empty()) << "its slice is still in the pool";
  EXPECT_TRUE(is_coming);
  EmptyStep();
  keeps.Move(/*step_in_flight=*/false);
  EXPECT_FALSE(keeps.ReadParked({13, 3}, &is_coming).empty());
  EXPECT_TRUE(keeps.ReadParked({14, 3}, &is_coming).empty());
  EXPECT_FALSE(is_coming) << "there is none";
}

TEST_F(SessionMoverKeeps, WhatHasToMakeRoomIsOfferedAndComesBack) {
  EndTurns({1, 2, 3, 4});
  keeps.Move(/*step_in_flight=*/false);
  EndTurns({5, 6, 7, 8});
  keeps.Move(/*step_in_flight=*/false);
  EXPECT_THAT(lost, IsEmpty());
  EndTurns({9});
  keeps.Move(/*step_in_flight=*/false);
  EXPECT_THAT(lost, ElementsAre(TurnId{1, 3}));
  bool is_coming = false;
  EXPECT_TRUE(keeps.ReadParked({1, 3}, &is_coming).empty());
  EXPECT_TRUE(keeps.Adopt({1, 3}, 0, {std::make_shared<std::byte[]>(1), 1, 16, 16}));
  EXPECT_FALSE(keeps.ReadParked({1, 3}, &is_coming).empty());
  keeps.Move(/*step_in_flight=*/false);
  EXPECT_THAT(lost, ElementsAre(TurnId{1, 3}, TurnId{2, 3})) << "for which somebody else made room";
  EXPECT_FALSE(keeps.ReadParked({1, 3}, &is_coming).empty());
  // It is dropped and comes back before the executor hears of the drop.
  scheduler.DropSession(1);
  EXPECT_TRUE(keeps.Adopt({1, 3}, 0, {std::make_shared<std::byte[]>(1), 1, 16, 16}));
  keeps.Move(/*step_in_flight=*/false);
  EXPECT_FALSE(keeps.ReadParked({1, 3}, &is_coming).empty());
  // Without memory for the bytes nothing of it is parked.
  scheduler.DropSession(1);
  keeping.adopts = false;
  EXPECT_FALSE(keeps.Adopt({1, 3}, 0, {std::make_shared<std::byte[]>(1), 1, 16, 16}));
  keeps.Move(/*step_in_flight=*/false);
  EXPECT_EQ(scheduler.parked().Find({1, 3}), nullptr);
}

TEST_F(SessionMoverKeeps, ATurnThatAnotherOneReplacesIsNobodysLoss) {
  EndTurns({11});
  keeps.Move(/*step_in_flight=*/false);
  Request next = SessionTurnOf(11, MakeRequest(2, 20, 1)).request;
  next.resumes = std::exchange(next.turn, 4);
  ASSERT_TRUE(scheduler.Add(next).ok());
  const StepPlan& plan = scheduler.Plan(0);
  scheduler.Commit(plan, std::vector<RowResult>(1, {.token = 7}), 0);
  keeps.Move(/*step_in_flight=*/false);
  scheduler.SettleTurn({11, 4}, /*keep=*/true);
  keeps.Move(/*step_in_flight=*/false);
  EXPECT_THAT(keeps.dropped(), ElementsAre(TurnId{11, 3}));
  EXPECT_THAT(lost, IsEmpty());
}

TEST_F(SessionMoverTest, KvIsReadWhereItIsWhole) {
  scheduler.LimitSteps({.blocks_moved_max = 2});
  EndTurns({11, 12, 13});
  mover.Move(/*step_in_flight=*/false);
  KvReading reading;
  for (uint64_t session : {11, 13}) {
    mover.Read(session, /*evicts=*/true, &reading);
    EXPECT_EQ(reading.source, KvReading::Source::kParked);
    EXPECT_TRUE(reading.score_blocks_read);
  }
  ASSERT_THAT(executor.reads, SizeIs(2));
  EXPECT_EQ(executor.reads[0].score_blocks, 0) << "all of it is parked";
  EXPECT_EQ(executor.reads[1].score_blocks, 1) << "it is in the pool";
}

TEST_F(SessionMoverTest, OfATurnThatWaitsForItsKvWhatIsParkedIsRead) {
  Request first = SessionTurnOf(11, MakeRequest(1, 60, 1)).request;
  ASSERT_TRUE(scheduler.Add(first).ok());
  const StepPlan& plan = scheduler.Plan(0);
  scheduler.Commit(plan, std::vector<RowResult>(1, {.token = 7}), 0);
  mover.Move(/*step_in_flight=*/false);
  scheduler.LimitSteps({.blocks_moved_max = 2});
  Request next = SessionTurnOf(11, MakeRequest(2, 70, 2)).request;
  next.resumes = std::exchange(next.turn, 4);
  ASSERT_TRUE(scheduler.Add(next).ok());
  EmptyStep();
  ASSERT_EQ(scheduler.running(), 1);
  KvReading reading;
  mover.Read(11, /*evicts=*/true, &reading);
  EXPECT_EQ(reading.source, KvReading::Source::kParked);
  EXPECT_EQ(reading.turn, 3u);
  EXPECT_EQ(reading.ahead, 0);
  ASSERT_THAT(executor.reads, SizeIs(1));
  EXPECT_EQ(executor.reads[0].live, 60);
  EXPECT_EQ(executor.reads[0].score_blocks, 0);
}

TEST_F(SessionMoverTest, TheStepInFlightIsAwaitedOnlyWhereScoresAreRead) {
  EndTurns({11});
  mover.Move(/*step_in_flight=*/false);
  KvReading reading;
  mover.Read(11, /*evicts=*/false, &reading);
  EXPECT_EQ(reading.source, KvReading::Source::kParked);
  EXPECT_FALSE(reading.score_blocks_read);
  EXPECT_EQ(awaited, 0);
  mover.Read(11, /*evicts=*/true, &reading);
  EXPECT_TRUE(reading.score_blocks_read);
  EXPECT_EQ(awaited, 1);
  mover.Read(12, /*evicts=*/true, &reading);
  EXPECT_EQ(reading.source, KvReading::Source::kNone);
  EXPECT_FALSE(reading.score_blocks_read);
  EXPECT_EQ(awaited, 1);
}

TEST_F(SessionMoverTest, ATurnThatWaitsHasItsPlaceInTheLineRead) {
  for (uint64_t session : {11, 12})
    ASSERT_TRUE(scheduler.Add(SessionTurnOf(session, MakeRequest(session, 16, 1)).request).ok());
  KvReading reading;
  mover.Read(12, /*evicts=*/true, &reading);
  EXPECT_EQ(reading.ahead, 1);
  mover.Read(11, /*evicts=*/true, &reading);
  EXPECT_EQ(reading.ahead, 0);
  mover.Read(13, /*evicts=*/true, &reading);
  EXPECT_EQ(reading.ahead, std::nullopt);
  scheduler.Plan(0);
  mover.Read(12, /*evicts=*/false, &reading);
  EXPECT_EQ(reading.source, KvReading::Source::kRunning);
  EXPECT_EQ(reading.ahead, std::nullopt);
}

}  // namespace
}  // namespace hydrant
