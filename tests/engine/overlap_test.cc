// EngineCore with overlap: a step is launched while the one before it is in flight.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "server/engine/engine_core.h"
#include "tests/engine/engine_core_fixture.h"

namespace hydrant {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

class OverlapTest : public testing::Test {
 protected:
  OverlapTest() {
    EngineCoreOptions options = Options();
    options.overlap = true;
    options.scheduler.parked_blocks_max = 32;
    core = *EngineCore::Create(options, executor, [this] { return now_us += 10; });
  }

  ScriptedExecutor executor;
  int64_t now_us = 0;
  std::unique_ptr<EngineCore> core;
};

TEST_F(OverlapTest, TheExecutorHasTheNextStepBeforeItIsAskedForTheLast) {
  ASSERT_TRUE(core->Add(MakeRequest(1, 10, 6)).ok());
  std::vector<int32_t> launched;  // when a step is awaited
  executor.in_flight = [&] { launched.push_back(executor.launches); };
  std::vector<int32_t> tokens;
  for (int step = 0; step < 6; ++step) {
    const std::span<const EngineEvent> events = core->Step();
    ASSERT_THAT(events, SizeIs(1));
    tokens.push_back(events[0].generated);
    EXPECT_EQ(events[0].live, 9 + events[0].generated);
    EXPECT_EQ(core->in_flight(), step > 0 && step < 5);
    EXPECT_EQ(core->report().rows, 1);
  }
  EXPECT_THAT(launched, ElementsAre(1, 3, 4, 5, 6, 6)) << "the prompt, then one ahead, and none behind the last";
  EXPECT_THAT(tokens, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_TRUE(core->idle());
  EXPECT_EQ(core->counters().blocks_used, 0);
}

// The step that is in flight ends well; nothing is launched after the lost one.
TEST_F(OverlapTest, AStepAheadWithoutMemoryComesAfterTheOneInFlight) {
  ASSERT_TRUE(core->Add(MakeRequest(1, 10, 6)).ok());
  core->Step();
  executor.starve = [&](const StepInput&) { return executor.launches == 2; };
  std::span<const EngineEvent> events = core->Step();
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].token, 7);
  EXPECT_EQ(events[0].finish, FinishReason::kNone);
  events = core->Step();
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].token, -1);
  EXPECT_EQ(events[0].finish, FinishReason::kNoMemory);
  EXPECT_EQ(events[0].generated, 2);
  EXPECT_EQ(executor.launches, 2);
  EXPECT_TRUE(core->idle());
  EXPECT_EQ(core->counters().blocks_used, 0);
}

// It would not have counted.
TEST_F(OverlapTest, AStepBehindAnEndMayBeWithoutMemory) {
  ASSERT_TRUE(core->Add(MakeRequest(1, 10, 6)).ok());
  core->Step();
  executor.starve = [&](const StepInput&) { return executor.launches == 2; };
  executor.sampled.id = 2;  // the end
  std::vector<EngineEvent> events;
  for (int step = 0; step < 2; ++step) {
    for (const EngineEvent& event : core->Step()) events.push_back(event);
  }
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].token, 2);
  EXPECT_EQ(events[0].finish, FinishReason::kStop);
  EXPECT_TRUE(core->idle());
  EXPECT_EQ(core->counters().blocks_used, 0);
}

TEST_F(OverlapTest, ARowAheadIsFedByTheDeviceAndForcedByTheNextId) {
  SequenceRequest request = MakeRequest(1, 10, 20);
  request.forced_ids = {50, 51, 52, 53};
  ASSERT_TRUE(core->Add(request).ok());
  core->Step();
  EXPECT_EQ(executor.rows[0].forced_id, 50);
  core->Step();  // two of them
  EXPECT_EQ(executor.rows[0].tokens[0], kSampledId);
  EXPECT_EQ(executor.rows[0].position, 11);
  EXPECT_EQ(executor.rows[0].forced_id, 52);
  core->Step();
  EXPECT_EQ(executor.rows[0].forced_id, 53);
  core->Step();
  EXPECT_EQ(executor.rows[0].forced_id, -1);
}

TEST_F(OverlapTest, WhoeverNeedsItsTokensHasThemFirst) {
  SequenceRequest request = MakeRequest(1, 10, 20);
  LogitRules rules;
  rules.bad_words = {{3, 4}};
  request.shaper =
      std::make_shared<LogitShaper>(std::make_shared<const LogitRules>(std::move(rules)), request.request.prompt);
  ASSERT_TRUE(core->Add(request).ok());
  ASSERT_TRUE(core->Add(MakeRequest(2, 10, 20)).ok());
  for (int step = 0; step < 5; ++step) {
    core->Step();
    EXPECT_FALSE(core->in_flight());
  }
  core->Cancel(1);
  core->Step();
  EXPECT_TRUE(core->in_flight());
}

TEST_F(OverlapTest, WhatIsPenalisedIsCountedByTheDeviceToo) {
  SequenceRequest request = MakeRequest(1, 10, 20);
  LogitRules rules;
  rules.options.frequency_penalty = 0.5f;
  request.shaper =
      std::make_shared<LogitShaper>(std::make_shared<const LogitRules>(std::move(rules)), request.request.prompt);
  ASSERT_TRUE(core->Add(request).ok());
  core->Step();
  EXPECT_EQ(executor.adjustments[0], nullptr) << "the first token has none before it";
  for (int step = 0; step < 4; ++step) {
    core->Step();
    ASSERT_TRUE(core->in_flight());
    EXPECT_EQ(executor.rows[0].tokens[0], kSampledId);
    ASSERT_NE(executor.adjustments[0], nullptr);
    EXPECT_TRUE(executor.adjustments[0]->counts_last);
  }
}

// What a row after the end did to its scores could not be undone.
TEST_F(OverlapTest, StopStringsOfABudgetedSessionAreLookedForFirst) {
  SequenceRequest request = SessionTurnOf(7, MakeRequest(1, 10, 20, 16));
  request.end_finder = std::make_shared<EndsAfter>(4);
  ASSERT_TRUE(core->Add(request).ok());
  while (!core->idle()) {
    core->Step();
    EXPECT_FALSE(core->in_flight());
  }
}

// What its reader finds the end in is told of no token after it.
TEST_F(OverlapTest, ATextEndsOnceWithARowBehindIt) {
  SequenceRequest request = MakeRequest(1, 10, 20);
  request.end_finder = std::make_shared<EndsAfter>(4);
  ASSERT_TRUE(core->Add(request).ok());
  ASSERT_TRUE(core->Add(MakeRequest(2, 10, 20)).ok());
  executor.spoil = [](const StepRow& row, RowOutput& answer) {
    const int64_t number = row.position + std::ssize(row.tokens) - 10;
    answer.sampled.id = number < 3 ? 7 : number == 3 ? 40 : 41;
  };
  std::vector<FinishReason> ends;
  int32_t tokens = 0;
  for (int step = 0; step < 8; ++step) {
    for (const EngineEvent& event : core->Step()) {
      if (event.id != 1) continue;
      tokens += event.token >= 0 ? 1 : 0;
      ASSERT_NE(event.sampled, nullptr);
      EXPECT_EQ(event.sampled->id, tokens == 4 ? 40 : 7) << "the token's own, not that of the row behind it";
      if (event.finish != FinishReason::kNone) ends.push_back(event.finish);
    }
  }
  EXPECT_EQ(tokens, 4);
  EXPECT_THAT(ends, ElementsAre(FinishReason::kText));
}

TEST_F(OverlapTest, KvIsReadBehindTheStepInFlight) {
  ASSERT_TRUE(core->Add(SessionTurnOf(11, MakeRequest(1, 40, 3, 16))).ok());
  while (!core->idle()) core->Step();
  ASSERT_TRUE(core->Add(SessionTurnOf(12, MakeRequest(2, 20, 20))).ok());
  for (int step = 0; step < 3; ++step) core->Step();
  ASSERT_TRUE(core->in_flight());
  KvReading reading;
  core->ReadKv(11, true, &reading);
  EXPECT_EQ(reading.source, KvReading::Source::kParked);
  EXPECT_TRUE(reading.score_blocks_read);
  core->ReadKv(12, false, &reading);
  EXPECT_EQ(reading.source, KvReading::Source::kRunning);
  EXPECT_EQ(reading.live, reading.computed);
  EXPECT_EQ(reading.tokens.size(), static_cast<size_t>(reading.computed)) << "the last one is on its way";
  EXPECT_THAT(core->Step(), SizeIs(1));
  core->DropSession(11);
  core->Step();
  EXPECT_FALSE(core->in_flight());
  EXPECT_THAT(core->dropped(), ElementsAre(TurnId{11, 3}));
}

TEST_F(OverlapTest, AStepsTimeBeginsWhereTheOneBeforeItEnds) {
  ASSERT_TRUE(core->Add(MakeRequest(1, 10, 20)).ok());
  for (int step = 0; step < 3; ++step) core->Step();
  const int64_t before = now_us;
  core->Step();
  // Read before PlanAhead, before Launch, after Await and at the end; at the end of the step before and after its Await, too.
  EXPECT_EQ(now_us, before + 40);
  EXPECT_EQ(core->report().device_us, 40);
  EXPECT_EQ(core->report().plan_us, 10);
}

}  // namespace
}  // namespace hydrant
