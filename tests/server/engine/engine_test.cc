#include "server/engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/server/engine/engine_fixture.h"
#include "tests/server/test_server.h"

namespace hydrant {
namespace {

class FirstOfTenant : public SequenceLedger {
 public:
  void OnAdmitted(int32_t /*choice*/) override {}
  void OnEnded(int32_t /*choice*/, int32_t /*prompt_computed*/, int32_t /*generated*/) override {}
  bool first_of_tenant() const override { return true; }
};

TEST_F(EngineTest, EverySequenceGetsItsTokensAndOneEnd) {
  Start();
  const Sent sent = Submit(5, 3, 2);
  ASSERT_TRUE(sent.id.has_value());
  const std::vector<TokenEvent> events = ReadAll(*sent.mailbox, 2);
  ASSERT_EQ(events.size(), 6u);
  for (const TokenEvent& event : events) EXPECT_GT(event.time_us, 0);
  EXPECT_EQ(events.back().finish, FinishReason::kLength);
  EXPECT_TRUE(Eventually([&] { return engine_->backlog().sequences == 0; }));
  EXPECT_EQ(engine_->backlog().prompt_tokens, 0);
  EXPECT_GE(steps_, 3);
}

TEST_F(EngineTest, TheQueueHasBoundsInSequencesAndInPromptTokens) {
  Start();
  executor_.Hold();
  EXPECT_TRUE(Submit(1, 1, 8).id.has_value());
  EXPECT_FALSE(Submit(1, 1, 1).id.has_value()) << "4 running and 4 waiting";
  const Backlog backlog = engine_->backlog();
  EXPECT_EQ(backlog.sequences, 8) << "a refused job leaves nothing behind";
  EXPECT_EQ(backlog.sequences_max, 8);
  EXPECT_EQ(backlog.prompt_tokens, 8);
}

TEST_F(EngineTest, AFreshEngineTakesAMinutesWorthOfPrompts) {
  limits_.sequences_max = 64;
  limits_.batch_tokens_max = 256;
  limits_.waiting_sequences_max = waiting_max_ = 10'000;
  Start();
  executor_.Hold();
  // 1,000 prompt tokens a second are presumed before any were measured: 60,000 may wait, not only four contexts (400).
  int accepted = 0;
  while (accepted < 1000 && Submit(90, 1).id.has_value()) ++accepted;
  EXPECT_EQ(accepted, 60'000 / 90);
  GenerationJob job;
  job.mailbox = std::make_shared<StreamMailbox>(1, 1 << 20, [] {});
  job.ledger = std::make_shared<FirstOfTenant>();
  job.sequences.emplace_back().request.prompt = std::vector<int32_t>(90, 'x');
  EXPECT_TRUE(engine_->TrySubmit(std::move(job)).has_value()) << "nobody's prompts keep another tenant's first one out";
  EXPECT_FALSE(Submit(90, 1).id.has_value());
}

// More blocks than are moved with a step, and nobody else is there.
TEST_F(EngineTest, SessionsAreMovedInStepsWithoutRows) {
  limits_.context_max = 400;
  Start();
  for (const uint64_t turn : {1, 2}) {
    GenerationJob job;
    job.mailbox = std::make_shared<StreamMailbox>(1, 1 << 20, [] {});
    Request& request = job.sequences.emplace_back().request;
    request.prompt = std::vector<int32_t>(turn == 1 ? 300 : 330, 'x');
    request.max_tokens = 2;
    request.session = 1;
    request.turn = turn;
    request.resumes = turn - 1;
    const std::shared_ptr<StreamMailbox> mailbox = job.mailbox;
    ASSERT_TRUE(engine_->TrySubmit(std::move(job)).has_value());
    EXPECT_EQ(ReadAll(*mailbox, 1).back().finish, FinishReason::kLength);
    EXPECT_TRUE(Eventually([&] { return engine_->counters().blocks_used == 0; }));
  }
  const SchedulerCounters counters = engine_->counters().scheduler;
  EXPECT_EQ(counters.restores, 1u);
  EXPECT_EQ(counters.restored_tokens, 301u);
  EXPECT_GE(counters.moves_in_slices, 1u);
}

// Sequences of one length miss blocks at one time. The step in which one of them leaves has no row of any, and no event.
TEST_F(EngineTest, BlocksThatSomebodyLeavesAreFoundByThoseThatWaitForThem) {
  for (blocks_ = 7; blocks_ <= 24; ++blocks_) {
    swap_blocks_ = 64;
    Start();
    const Sent sent = Submit(1, 95, 4);
    ASSERT_TRUE(sent.id.has_value());
    EXPECT_EQ(ReadAll(*sent.mailbox, 4).size(), 4 * 95u) << blocks_;
    engine_->Stop();
  }
}

// The one that holds the pool is not read, so that no step computes anything; patience is for so many steps.
TEST_F(EngineTest, WhoIsDueGetsTheRoomOfOneThatIsNotRead) {
  blocks_ = 8;
  swap_blocks_ = 64;
  tenant_ = 1;
  Start();
  const Sent slow = Submit(80, 20, 1, /*bytes_max=*/2 * sizeof(TokenEvent));
  tenant_ = 0;
  EXPECT_EQ(ReadAll(*Submit(60, 3).mailbox, 1).size(), 3u);
}

TEST_F(EngineTest, WhoNeedsItsPastEndsWhereThatIsGone) {
  Start();
  for (const bool needed : {false, true}) {
    GenerationJob job;
    job.mailbox = std::make_shared<StreamMailbox>(1, 1 << 20, [] {});
    Request& turn = job.sequences.emplace_back().request;
    turn.prompt = std::vector<int32_t>(20, 'x');
    turn.max_tokens = 1;
    turn.session = 1;
    turn.turn = 2;
    turn.resumes = 1;  // of which nothing is parked
    turn.needs_past = needed;
    const std::shared_ptr<StreamMailbox> mailbox = job.mailbox;
    ASSERT_TRUE(engine_->TrySubmit(std::move(job)).has_value());
    EXPECT_EQ(ReadAll(*mailbox, 1).back().finish, needed ? FinishReason::kPastMoved : FinishReason::kLength);
  }
}

TEST_F(EngineTest, AHistoryLongerThanARequestMayComputeEndsWhereItsPastIsGone) {
  Start();
  for (const int32_t parked : {0, 1590}) {
    GenerationJob job;
    job.mailbox = std::make_shared<StreamMailbox>(1, 1 << 20, [] {});
    SequenceRequest& turn = job.sequences.emplace_back();
    turn.request.prompt = std::vector<int32_t>(parked + 20, 'x');
    turn.request.max_tokens = 1;
    turn.request.budget = KvBudget::Exact(16);
    turn.request.budget.prompt_stride = 16;
    turn.policy = {.evicts = true, .heavy = 8, .recent = 8, .rolling = true};
    turn.request.session = 1;
    turn.request.turn = 2;
    turn.request.resumes = 1;  // of which nothing is parked
    turn.parked_tokens = parked;
    const std::shared_ptr<StreamMailbox> mailbox = job.mailbox;
    ASSERT_TRUE(engine_->TrySubmit(std::move(job)).has_value());
    const FinishReason expected = parked == 0 ? FinishReason::kLength : FinishReason::kTooLarge;
    EXPECT_EQ(ReadAll(*mailbox, 1).back().finish, expected) << "16 x 100 tokens may be computed";
  }
}

TEST_F(EngineTest, TheLargestRequestFitsAnIdleEngineAndNothingLargerDoes) {
  limits_.context_max = 5000;  // 16 x 5,000 tokens, more than a minute's worth
  limits_.waiting_sequences_max = waiting_max_ = 16;
  Start();
  EXPECT_FALSE(Submit(5001, 1, 16).id.has_value()) << "also when it would wait for nobody";
  EXPECT_TRUE(Submit(5000, 1, 16).id.has_value());
}

TEST_F(EngineTest, AFewQuickSequencesDoNotPromiseAShortQueue) {
  Start();
  ReadAll(*Submit(1, 1, 4).mailbox, 4);  // in some microseconds
  executor_.Hold();
  ASSERT_TRUE(Submit(1, 1, 8).id.has_value());
  ASSERT_TRUE(Eventually([&] { return engine_->backlog().sequences == 8; }));
  EXPECT_GE(engine_->backlog().wait_s, 1) << "four beyond those that run, and four were seen to end";
}

// Each step takes 10 ms.
class RatedEngineTest : public SteppedEngineTest {
 protected:
  RatedEngineTest() {
    executor_.on_step = [this] { now_us_ += 10'000; };
    limits_.waiting_sequences_max = waiting_max_ = 2000;
    limits_.inbox_max = 2000;
  }
  // A second of work for every hundred.
  void AskOneByOne(int requests) {
    for (int i = 0; i < requests; ++i) {
      ASSERT_TRUE(Submit(1, 1).id.has_value());
      Run();
    }
  }
};

TEST_F(RatedEngineTest, ABurstBehindAQuietTimeIsTakenAsBeforeIt) {
  Create();
  const int64_t before = engine_->backlog().prompt_tokens_max;
  AskOneByOne(3000);
  EXPECT_EQ(engine_->backlog().prompt_tokens_max, before) << "30 s of steps with one prompt token each";
  for (int i = 0; i < 600; ++i) ASSERT_TRUE(Submit(90, 1).id.has_value()) << i;
  Run();
  const int64_t behind = engine_->backlog().prompt_tokens_max;
  EXPECT_GT(behind, 60 * 1600) << "at least 16 tokens a step, for a minute";
  AskOneByOne(3000);
  EXPECT_EQ(engine_->backlog().prompt_tokens_max, behind);
}

TEST_F(RatedEngineTest, FewEndedBecauseFewWereAskedForIsNoSlowQueue) {
  Create();
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(Submit(1, 99).id.has_value());
    Run();
  }
  ASSERT_TRUE(Submit(1, 5, 24).id.has_value());
  (void)engine_->MakeRound(false);
  EXPECT_LT(engine_->backlog().wait_s, 1) << "one ended in a second; 24 of them take 0.3 s";
}

TEST_F(EngineTest, JobsBeyondTheInboxAreRefused) {
  limits_.inbox_max = 2;
  Start();
  executor_.Hold();
  ASSERT_TRUE(Submit(1, 1).id.has_value());
  // The engine has taken it once a step is under way; from then on nobody empties the inbox.
  ASSERT_TRUE(Eventually([&] { return engine_->stalled(); }));
  EXPECT_TRUE(Submit(1, 1).id.has_value());
  EXPECT_TRUE(Submit(1, 1).id.has_value());
  EXPECT_FALSE(Submit(1, 1).id.has_value());
}

TEST_F(EngineTest, ACancelEndsASequenceWithinAStep) {
  Start();
  executor_.Hold();
  const Sent sent = Submit(5, 90);
  ASSERT_TRUE(Eventually([&] { return engine_->stalled(); })) << "a step is under way";
  engine_->Cancel(*sent.id);
  executor_.Release();
  const std::vector<TokenEvent> events = ReadAll(*sent.mailbox, 1);
  EXPECT_EQ(events.back().finish, FinishReason::kAbort);
  EXPECT_LE(executor_.steps, 2);
  EXPECT_TRUE(Eventually([&] { return engine_->counters().blocks_used == 0; }));
}

TEST_F(EngineTest, TheBlocksOfACancelledSequenceAreSeenToBeFreeBeforeTheNextStepEnds) {
  Start();
  executor_.Hold();
  const Sent one = Submit(5, 90);
  const Sent other = Submit(5, 90);
  ASSERT_TRUE(Eventually([&] { return engine_->stalled(); })) << "a step is under way";
  executor_.Hold(/*more=*/3);
  ASSERT_TRUE(Eventually([&] { return engine_->counters().blocks_used == 2; }));
  ASSERT_TRUE(Eventually([&] { return engine_->stalled(); })) << "the next step is under way";
  engine_->Cancel(*one.id);
  const int64_t steps = executor_.steps;
  executor_.Hold(1);  // that step ends, and no other
  EXPECT_TRUE(Eventually([&] { return engine_->counters().blocks_used == 1; }));
  EXPECT_EQ(executor_.steps, steps + 1);
}

TEST_F(EngineTest, WhoHearsOfAnEndFindsThePlaceFree) {
  Create();
  int64_t places = -1;  // in use when the client hears of its only token
  ASSERT_TRUE(Submit(1, 1, 1, 1 << 20, [&] { places = engine_->backlog().sequences; }).id.has_value());
  while (engine_->MakeRound(/*may_wait=*/false) != Engine::Round::kWaits) {
  }
  EXPECT_EQ(places, 0);
}

TEST_F(EngineTest, WhoeverCouldNotBeWokenIsWokenBeforeTheEngineEnds) {
  for (const bool dies : {false, true}) {
    Create();
    int32_t woken = 0;
    ASSERT_TRUE(Submit(1, 1, 1, 1 << 20, [&] { ++woken; }).id.has_value());
    wakes_lost_ = 2;
    executor_.fails = dies;
    if (!dies) engine_->Stop();
    int32_t rounds = 0;
    while (engine_->MakeRound(/*may_wait=*/false) != Engine::Round::kEnded) ASSERT_LT(++rounds, 10);
    EXPECT_EQ(woken, 1) << "dies: " << dies;
  }
}

TEST_F(EngineTest, AFullMailboxPausesItsSequenceUntilItIsResumed) {
  Start();
  const Sent slow = Submit(5, 50, 1, /*bytes_max=*/10 * sizeof(TokenEvent));
  const Sent fast = Submit(5, 50);
  ReadAll(*fast.mailbox, 1);
  StreamBatch batch;
  EXPECT_TRUE(slow.mailbox->Take(&batch));
  EXPECT_LE(batch.tokens.size(), 12u);
  EXPECT_FALSE(engine_->stalled()) << "waiting for a reader is no stall";
  size_t tokens = batch.tokens.size();
  EXPECT_TRUE(Eventually([&] {
    engine_->Resume(*slow.id, 1);
    (void)slow.mailbox->Take(&batch);
    tokens += batch.tokens.size();
    return tokens == 50;
  }));
}

TEST_F(EngineTest, AStallIsSeenWhileItLastsAndCountedOnceAndIdleIsNone) {
  Start();
  EXPECT_FALSE(engine_->stalled());
  executor_.Hold();
  const Sent sent = Submit(5, 1);
  EXPECT_TRUE(Eventually([&] { return engine_->stalled(); }));
  EXPECT_EQ(engine_->counters().stalls, 0u) << "not over";
  executor_.Release();
  ReadAll(*sent.mailbox, 1);
  EXPECT_EQ(engine_->counters().stalls, 1u) << "who hears of an event finds it counted";
  EXPECT_FALSE(engine_->stalled()) << "counted, and so not lasting";
}

TEST_F(EngineTest, StopEndsEverythingWithAnEvent) {
  limits_.sequences_max = 1;
  limits_.batch_tokens_max = 16;
  limits_.waiting_sequences_max = limits_.inbox_max = 1'000'000;  // room for the questions below
  Start();
  executor_.Hold();
  const Sent running = Submit(5, 90);
  const Sent waiting = Submit(5, 90);
  std::thread stopper([&] { engine_->Stop(); });
  ASSERT_TRUE(Eventually([&] { return !Submit(1, 1).id.has_value(); })) << "closed";
  executor_.Release();
  EXPECT_EQ(ReadAll(*running.mailbox, 1).back().finish, FinishReason::kAbort);
  EXPECT_EQ(ReadAll(*waiting.mailbox, 1).back().finish, FinishReason::kAbort);
  stopper.join();
  EXPECT_FALSE(Submit(1, 1).id.has_value());
  EXPECT_EQ(engine_->counters().blocks_used, 0);
}

TEST_F(EngineTest, ADeviceThatFailsKillsTheEngineOnceAndTellsEverybody) {
  Start();
  executor_.Hold();
  const Sent sent = Submit(5, 90);
  ASSERT_TRUE(Eventually([&] { return engine_->stalled(); })) << "a step is under way";
  const Sent unseen = Submit(5, 90);  // stays in the inbox
  ASSERT_TRUE(unseen.id.has_value());
  executor_.fails = true;
  executor_.Release();
  for (const Sent& each : {sent, unseen}) {
    bool failed = false;
    ReadAll(*each.mailbox, 1, &failed);
    EXPECT_TRUE(failed);
    EXPECT_TRUE(Eventually([&] { return each.mailbox.use_count() == 2; })) << "the test's own: nobody else wakes it";
  }
  EXPECT_TRUE(Eventually([&] { return died_.load(); }));
  EXPECT_TRUE(engine_->dead());
  EXPECT_TRUE(engine_->stalled());
  EXPECT_FALSE(Submit(1, 1).id.has_value());
}

TEST_F(EngineTest, WhatTheCoreRefusesFailsAlone) {
  Start();
  const Sent bad = Submit(90, 90);  // beyond the context: checked before it came here, in a server
  EXPECT_EQ(ReadAll(*bad.mailbox, 1).back().finish, FinishReason::kRefused);
  EXPECT_EQ(ReadAll(*Submit(5, 2).mailbox, 1).back().finish, FinishReason::kLength);
  EXPECT_TRUE(Eventually([&] { return engine_->backlog().sequences == 0; }));
}

// The cap was lowered behind the checks of the server, and before the engine had the request.
TEST_F(EngineTest, WhatHasBecomeTooLargeForItsTenantIsNoDefect) {
  Create();
  const Sent sent = Submit(60, 3);  // four blocks
  engine_->SetTenants({{.blocks_max = 2}});
  while (engine_->MakeRound(/*may_wait=*/false) != Engine::Round::kWaits) {
  }
  EXPECT_EQ(ReadAll(*sent.mailbox, 1).back().finish, FinishReason::kNoRoom);
  EXPECT_EQ(engine_->backlog().sequences, 0);
}

}  // namespace
}  // namespace hydrant
