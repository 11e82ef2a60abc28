#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "server/engine/engine.h"
#include "server/engine/replay_source.h"
#include "tests/server/engine/engine_fixture.h"

namespace hydrant {
namespace {

// Has one text of 40 tokens, again and again, and keeps what it hears.
class OneText : public ReplaySource {
 public:
  bool has_text() const override { return texts > 0; }
  std::optional<ReplayText> Next() override {
    --texts;
    ReplayText text;
    text.tokens = std::vector<int32_t>(static_cast<size_t>(size), 'x');
    text.begin = 30;
    return text;
  }
  bool OnScores(std::span<const SampleResult> some) override {
    scores += std::ssize(some);
    ++steps;
    return wanted;
  }
  void OnEnd(ReplayEnd end) override { ends.push_back(end); }

  std::atomic<int> texts = 1;
  int size = 40;
  bool wanted = true;
  int64_t scores = 0;
  int steps = 0;
  std::vector<ReplayEnd> ends;
};

class ReplayTest : public SteppedEngineTest {
 protected:
  ReplayTest() { replays_ = &source_; }
  void PassTime() { now_us_ += Engine::kQuietUs; }

  OneText source_;
};

TEST_F(ReplayTest, ATextIsComputedInShortStepsWhenItHasBeenQuiet) {
  Create();
  const Sent user = Submit(5, 3);
  Run();
  EXPECT_EQ(source_.steps, 0) << "somebody was there just now";
  now_us_ += Engine::kQuietUs - 1;
  Run();
  EXPECT_EQ(source_.steps, 0);
  now_us_ += 1;
  const EngineCounters before = engine_->counters();
  const int users_steps = steps_;
  Run();
  EXPECT_EQ(source_.steps, 3) << "39 tokens, 16 at a time";
  EXPECT_EQ(source_.scores, 10);
  EXPECT_THAT(source_.ends, testing::ElementsAre(ReplayEnd::kDone));
  engine_->LookForReplays();
  Run();
  const EngineCounters after = engine_->counters();
  EXPECT_EQ(after.scheduler.prompt_tokens, before.scheduler.prompt_tokens);
  EXPECT_EQ(after.scheduler.admitted, before.scheduler.admitted);
  EXPECT_EQ(after.tenants[0].charged, before.tenants[0].charged);
  EXPECT_EQ(after.blocks_used, 0);
  EXPECT_EQ(steps_, users_steps);
  EXPECT_EQ(engine_->backlog().sequences, 0);
}

TEST_F(ReplayTest, ItRestsWhileSomebodyIsThere) {
  Create();
  PassTime();
  EXPECT_EQ(engine_->MakeRound(false), Engine::Round::kWorked) << "it begins";
  EXPECT_EQ(engine_->MakeRound(false), Engine::Round::kWorked) << "and makes a step";
  EXPECT_EQ(source_.steps, 1);
  const Sent user = Submit(90, 3);
  (void)engine_->MakeRound(false);
  const int steps = source_.steps;
  EXPECT_LE(steps, 2) << "the step in progress is the last";
  EXPECT_EQ(engine_->counters().running, 1) << "and the user's first comes right behind it";
  PassTime();
  while (engine_->counters().running > 0) (void)engine_->MakeRound(false);
  Run();
  EXPECT_EQ(source_.steps, steps) << "it is not quiet yet";
  PassTime();
  Run();
  EXPECT_THAT(source_.ends, testing::ElementsAre(ReplayEnd::kDone));
  EXPECT_EQ(source_.steps, 3) << "nothing is computed twice";
  EXPECT_EQ(source_.scores, 10);
  EXPECT_EQ(ReadAll(*user.mailbox, 1).size(), 3u);
}

TEST_F(ReplayTest, ItWaitsWhileAdmissionIsPaused) {
  Create();
  engine_->PauseAdmission(true);
  Run();
  PassTime();
  Run();
  EXPECT_EQ(source_.texts, 1);
  engine_->PauseAdmission(false);
  Run();
  EXPECT_EQ(source_.steps, 3);
}

// It may be so for as long as its client likes.
TEST_F(ReplayTest, AReaderThatIsBehindIsNotWaitedFor) {
  Create();
  const Sent slow = Submit(5, 20, 1, /*bytes_max=*/1);
  Run();
  EXPECT_EQ(engine_->counters().running, 1);
  EXPECT_EQ(source_.steps, 0) << "somebody was there just now";
  PassTime();
  Run();
  EXPECT_EQ(source_.steps, 3);
  EXPECT_THAT(source_.ends, testing::ElementsAre(ReplayEnd::kDone));
  StreamBatch batch;
  size_t tokens = 0;
  for (; engine_->counters().running > 0; tokens += batch.tokens.size()) {
    if (slow.mailbox->Take(&batch)) engine_->Resume(*slow.id, 1);
    Run();
  }
  (void)slow.mailbox->Take(&batch);
  EXPECT_EQ(tokens + batch.tokens.size(), 20u);
}

TEST_F(ReplayTest, WhatNobodyWantsAnyMoreIsNotComputed) {
  source_.wanted = false;
  Create();
  PassTime();
  Run();
  EXPECT_EQ(source_.steps, 1);
  EXPECT_TRUE(source_.ends.empty());
  EXPECT_TRUE(Submit(5, 3).id.has_value());
  Run();
}

TEST_F(ReplayTest, ThereIsNoRoomForATextLongerThanItsBlocks) {
  source_.size = 70;
  Create();
  PassTime();
  Run();
  EXPECT_THAT(source_.ends, testing::ElementsAre(ReplayEnd::kNoRoom));
}

TEST_F(ReplayTest, ItEndsWithTheEngine) {
  Create();
  PassTime();
  (void)engine_->MakeRound(false);
  executor_.fails = true;
  while (engine_->MakeRound(false) != Engine::Round::kEnded) {
  }
  EXPECT_TRUE(died_);
  EXPECT_THAT(source_.ends, testing::ElementsAre(ReplayEnd::kError));
}

TEST_F(ReplayTest, AStopDropsItAtOnce) {
  Create();
  PassTime();
  (void)engine_->MakeRound(false);
  (void)engine_->MakeRound(false);
  engine_->Stop();
  while (engine_->MakeRound(false) != Engine::Round::kEnded) {
  }
  EXPECT_LE(source_.steps, 2) << "the step in progress is the last";
  EXPECT_TRUE(source_.ends.empty()) << "nobody hears of it any more";
}

TEST_F(EngineTest, AStepThatSomebodyOvertakesIsLeftOutAndMadeAgain) {
  OneText source;
  replays_ = &source;
  executor_.Hold();
  Start();
  engine_->LookForReplays();
  ASSERT_TRUE(Eventually([&] { return executor_.launches == 1; }));
  const Sent user = Submit(5, 2);
  executor_.Release();
  EXPECT_EQ(ReadAll(*user.mailbox, 1).back().finish, FinishReason::kLength);
  EXPECT_EQ(executor_.left_out, 1);
  EXPECT_TRUE(Eventually([&] { return executor_.steps == 6; })) << "this one, two of the user's, and three of the text";
  engine_->Stop();
  EXPECT_EQ(source.scores, 10);
  EXPECT_THAT(source.ends, testing::ElementsAre(ReplayEnd::kDone));
}

TEST_F(EngineTest, ATextIsFoundByAThreadThatSleeps) {
  OneText source;
  source.texts = 0;
  replays_ = &source;
  Start();
  source.texts = 1;
  engine_->LookForReplays();
  EXPECT_TRUE(Eventually([&] { return executor_.steps == 3; }));
  engine_->Stop();
  EXPECT_THAT(source.ends, testing::ElementsAre(ReplayEnd::kDone));
}

}  // namespace
}  // namespace hydrant
