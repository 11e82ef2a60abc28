// Requests that the host has no memory for: each allocation on the way from Add to the first step fails once, and nobody but the
// request that it was for notices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/audit/turn_audit.h"
#include "server/drafts/ngram_drafter.h"
#include "server/engine/engine.h"
#include "server/engine/event_router.h"
#include "server/process/clock.h"
#include "tests/engine/engine_core_fixture.h"
#include "tests/engine/failing_new.h"

namespace hydrant {
namespace {

constexpr int kCallsMax = 100;    // far more than a request takes
constexpr uint64_t kNobody = 77;  // no session

SchedulerOptions RoomyOptions() {
  SchedulerOptions options = Options().scheduler;
  options.blocks = 256;
  options.spare_score_blocks = 256;
  options.parked_blocks_max = 64;
  return options;
}

// Shares its prompt, evicts, has stop tokens of its own and belongs to a session: it takes whatever a request may take.
SequenceRequest Demanding(uint64_t id, uint64_t session, uint64_t resumes = 0) {
  SequenceRequest request = SessionTurnOf(session, MakeRequest(id, 200, 8, /*keep=*/64));
  request.request.turn = id;
  request.request.resumes = resumes;
  request.request.stop_token_ids = {3, 4, 5};
  request.request.prefix.publishes = request.request.prefix.looks_up = true;
  request.request.prefix.scores = ScoreNeed::kZeros;
  return request;
}

void StepToTheEnd(Scheduler& scheduler) {
  while (!scheduler.idle()) {
    const StepPlan& plan = scheduler.Plan(0);
    std::vector<RowResult> results(plan.rows.size(), {.token = 7});
    scheduler.Commit(plan, results, 0);
    scheduler.FinishParks();
  }
}

TEST(AcceptMemory, ARequestThatThereIsNoMemoryForLeavesTheSchedulerAsItWas) {
  bool failed = true;
  for (int calls = 0; failed && calls < kCallsMax; ++calls) {
    SCOPED_TRACE(calls);
    Scheduler scheduler(RoomyOptions());
    // A turn whose KV is parked, which the next one pins, and one in the queue already.
    ASSERT_TRUE(scheduler.Add(Demanding(1, /*session=*/9).request).ok());
    StepToTheEnd(scheduler);
    ASSERT_EQ(scheduler.parked().size(), 1);
    ASSERT_TRUE(scheduler.Add(MakeRequest(2, 16, 4).request).ok());
    const double service = scheduler.tenant(0).service;
    SequenceRequest asked = Demanding(3, 9, /*resumes=*/1);
    asked.request.prompt = std::vector<int32_t>(300, 7);
    asked.request.priority = -1;  // goes before the one that waits
    FailNewAfter(calls);
    try {
      const MemoryRunsOut here;
      const auto added = scheduler.Add(asked.request);
      EXPECT_TRUE(added.ok());
    } catch (const std::bad_alloc&) {
    }
    failed = NewFailed();
    EXPECT_TRUE(scheduler.CheckIntegrity().ok()) << scheduler.CheckIntegrity();
    EXPECT_EQ(scheduler.waiting(), failed ? 1 : 2);
    EXPECT_EQ(scheduler.tenant(0).service, service);
    EXPECT_EQ(scheduler.Cancel(3), !failed);
    // Nothing is pinned: the session's KV can be forgotten.
    scheduler.DropSession(9);
    EXPECT_EQ(scheduler.parked().size(), 0);
    StepToTheEnd(scheduler);
    EXPECT_EQ(scheduler.block_manager().pool().used(), 0);
    EXPECT_TRUE(failed || calls > 3) << "nothing was allocated";
  }
  EXPECT_FALSE(failed) << "it never had enough";
}

// The first step with a request, up to where the executor is handed its rows, while there is no memory at all.
TEST(AcceptMemory, WhatWasAcceptedIsAdmittedWithoutMemory) {
  for (const uint64_t resumes : {0, 1}) {
    SCOPED_TRACE(resumes);
    Scheduler scheduler(RoomyOptions());
    ASSERT_TRUE(scheduler.Add(Demanding(1, /*session=*/9).request).ok());
    StepToTheEnd(scheduler);
    SequenceRequest asked = Demanding(2, 9, resumes);
    std::vector<int32_t> prompt = asked.request.prompt;
    prompt.resize(300, 7);
    asked.request.prompt = std::move(prompt);
    ASSERT_TRUE(scheduler.Add(asked.request).ok());
    FailNewAfter(0);
    {
      const MemoryRunsOut here;
      (void)scheduler.Plan(0);
    }
    EXPECT_FALSE(NewFailed());
    EXPECT_THAT(scheduler.admitted(), testing::ElementsAre(2u));
    const StepPlan& plan = scheduler.plan();
    EXPECT_EQ(plan.restores.size(), resumes);
    EXPECT_EQ(plan.score_inits.empty(), resumes != 0) << "without its past it finds the prefix";
    const std::vector<RowResult> results(plan.rows.size(), {.token = 7});
    scheduler.Commit(plan, results, 0);
    StepToTheEnd(scheduler);
  }
}

// An engine whose memory runs out on the way of one job from the inbox to the executor.
class StarvingEngine {
 public:
  StarvingEngine() {
    EngineCoreOptions options = Options();
    options.scheduler = RoomyOptions();
    auto core = EngineCore::Create(options, executor_, MonotonicUs);
    EXPECT_TRUE(core.ok()) << core.status();
    executor_.starve = [this](const StepInput&) {
      shortage_.reset();
      CountLaunches(1);
      held_.wait(true);
      return false;
    };
    executor_.spoil = [this](const StepRow&, RowOutput& output) {
      output.sampled.top.resize(2);
      if (const int calls = starve_after_.exchange(-1); calls >= 0) {
        FailNewAfter(calls);
        shortage_.emplace();
      }
    };
    EngineHooks hooks;
    hooks.fan_out = [](const EventRouter::MailboxList&) {};
    hooks.on_parked = [](std::span<const TurnId> dropped, std::span<const ParkedTurn>) {
      const std::vector<TurnId> note(dropped.begin(), dropped.end());
    };
    hooks.on_death = [this](const std::string&) {
      died_ = true;
      CountLaunches(1000);
    };
    Limits limits;
    limits.sequences_max = 4;
    limits.waiting_sequences_max = 4;
    limits.context_max = 512;
    engine_ = std::make_unique<Engine>(std::move(*core), limits, std::move(hooks));
    engine_->Start();
  }
  ~StarvingEngine() { engine_->Stop(); }

  // Submits a job whose sequences are these.
  std::shared_ptr<StreamMailbox> Submit(std::vector<SequenceRequest> requests) {
    GenerationJob job;
    job.mailbox = std::make_shared<StreamMailbox>(static_cast<int32_t>(requests.size()), 1 << 20, [] {});
    job.sequences = std::move(requests);
    std::shared_ptr<StreamMailbox> mailbox = job.mailbox;
    EXPECT_TRUE(engine_->TrySubmit(std::move(job)).has_value());
    return mailbox;
  }
  // The steps wait for Release from the next one on.
  void Hold() { held_ = true; }
  // Waits for the `number`-th step to be launched, and takes no memory meanwhile.
  void AwaitLaunch(int number) {
    for (int now; (now = launches_) < number;) launches_.wait(now);
  }
  // The engine thread has memory `calls` times before the jobs that are submitted from now on have come to the executor. REQUIRES: a
  // step is held.
  void StarveAfter(int calls) {
    engine_->ReadKv(kNobody, /*evicts=*/false, std::make_shared<KvReading>(), [this, calls] {
      FailNewAfter(calls);
      shortage_.emplace();
    });
  }
  // The engine thread has memory `calls` times from the moment at which the executor has computed the step that is held until it
  // launches the next one.
  void StarveBetweenSteps(int calls) { starve_after_ = calls; }
  void Release() {
    held_ = false;
    held_.notify_all();
  }
  // How each sequence of the job ends, by choice.
  std::vector<FinishReason> Ends(StreamMailbox& mailbox, size_t sequences, uint64_t first_id = 0) const {
    std::vector<FinishReason> ends(sequences, FinishReason::kNone);
    StreamBatch batch;
    while (std::count(ends.begin(), ends.end(), FinishReason::kNone) > 0 && !died_) {
      (void)mailbox.Take(&batch);
      if (batch.lost) {
        // As its connection does.
        for (uint64_t i = 0; i < sequences; ++i) engine_->Cancel(first_id + i);
        std::replace(ends.begin(), ends.end(), FinishReason::kNone, FinishReason::kNoMemory);
        break;
      }
      for (const TokenEvent& event : batch.tokens) {
        FinishReason& end = ends[static_cast<size_t>(event.choice)];
        EXPECT_EQ(end, FinishReason::kNone) << "an event after the terminal one";
        end = event.finish;
      }
      std::this_thread::yield();
    }
    return ends;
  }
  const Engine& engine() const { return *engine_; }

 private:
  void CountLaunches(int more) {
    launches_ += more;
    launches_.notify_all();
  }

  ScriptedExecutor executor_;
  std::optional<MemoryRunsOut> shortage_;
  std::atomic<int> starve_after_ = -1;
  std::atomic<bool> held_ = false;
  std::atomic<int> launches_ = 0;
  std::atomic<bool> died_ = false;
  std::unique_ptr<Engine> engine_;
};

TEST(AcceptMemory, TheEngineRefusesTheSequenceThatThereIsNoMemoryForAndNoOther) {
  bool failed = true;
  int refused = 0;
  for (int calls = 0; failed && calls < kCallsMax; ++calls) {
    SCOPED_TRACE(calls);
    StarvingEngine starving;
    starving.Hold();
    SequenceRequest longest = Demanding(0, 0);
    longest.request.max_tokens = 200;
    const auto before = starving.Submit({longest});
    starving.AwaitLaunch(1);
    starving.StarveAfter(calls);
    const auto mailbox = starving.Submit({Demanding(0, 8), Demanding(0, 9)});
    starving.Release();
    starving.AwaitLaunch(2);
    const std::vector<FinishReason> ends = starving.Ends(*mailbox, 2);
    failed = NewFailed();
    refused += static_cast<int>(std::count(ends.begin(), ends.end(), FinishReason::kNoMemory));
    EXPECT_EQ(std::count(ends.begin(), ends.end(), FinishReason::kNoMemory), failed ? 1 : 0);
    EXPECT_EQ(std::count(ends.begin(), ends.end(), FinishReason::kLength), failed ? 1 : 2);
    EXPECT_THAT(starving.Ends(*before, 1), testing::ElementsAre(FinishReason::kLength));
    EXPECT_FALSE(starving.engine().dead());
    const auto after = starving.Submit({Demanding(0, 10)});
    EXPECT_THAT(starving.Ends(*after, 1), testing::ElementsAre(FinishReason::kLength));
    EXPECT_EQ(starving.engine().counters().blocks_used, 0);
    EXPECT_EQ(starving.engine().backlog().sequences, 0);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_FALSE(failed) << "it never had enough";
  EXPECT_GE(refused, 8) << "each sequence takes memory several times";
}

// What comes between two steps: results, events, counters, sessions' KV, the next request and the next plan.
TEST(AcceptMemory, TheEngineGoesOnWithoutMemoryBetweenTwoSteps) {
  bool failed = true;
  int ended = 0, calls = 0;
  for (; failed && calls < kCallsMax; ++calls) {
    SCOPED_TRACE(calls);
    StarvingEngine starving;
    starving.Hold();
    SequenceRequest longest = MakeRequest(0, 100, 50, /*keep=*/64);
    longest.logprobs = 2;
    longest.prompt_logprobs = 0;
    const auto before = starving.Submit({longest});
    starving.AwaitLaunch(1);
    starving.StarveBetweenSteps(calls);
    const auto mailbox = starving.Submit({Demanding(0, 0), MakeRequest(0, 40, 3)});
    starving.Release();
    starving.AwaitLaunch(2);
    const std::vector<FinishReason> first = starving.Ends(*before, 1, /*first_id=*/1);
    const std::vector<FinishReason> second = starving.Ends(*mailbox, 2, /*first_id=*/2);
    failed = NewFailed();
    ended += static_cast<int>(std::count(first.begin(), first.end(), FinishReason::kNoMemory));
    for (const FinishReason end : {first[0], second[0], second[1]}) {
      EXPECT_TRUE(end == FinishReason::kLength || end == FinishReason::kNoMemory);
    }
    EXPECT_FALSE(first[0] == FinishReason::kNoMemory && second[0] == FinishReason::kNoMemory) << "one at most";
    EXPECT_FALSE(starving.engine().dead());
    const auto after = starving.Submit({Demanding(0, 10)});
    EXPECT_THAT(starving.Ends(*after, 1), testing::ElementsAre(FinishReason::kLength));
    while (starving.engine().backlog().sequences > 0) std::this_thread::yield();
    EXPECT_EQ(starving.engine().counters().blocks_used, 0);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_FALSE(failed) << "it never had enough";
  EXPECT_GE(ended, 2) << "its events take memory";
  EXPECT_GT(calls, 10);
  RecordProperty("allocations", calls);
}

TEST(AcceptMemory, AnAuditedTokenHasItsBestWithNoneOfTheKBest) {
  ScriptedExecutor executor;
  const auto core = EngineCore::Create(Options(), executor, MonotonicUs).value();
  for (const int32_t logprobs : {-1, 0, 3}) {
    SequenceRequest request = MakeRequest(static_cast<uint64_t>(logprobs + 2), 5, 1);
    request.audited = true;
    request.logprobs = logprobs;
    ASSERT_TRUE(core->Add(request).ok());
    core->Step();
    EXPECT_EQ(executor.rows[0].logprobs, std::max(logprobs, 0));
  }
}

TEST(AcceptMemory, WithoutMemoryForADrafterThereIsNone) {
  const NgramOptions options = {.tokens = 4, .lookup_max = 3, .lookup_min = 2};
  const TokenIds prompt = {1, 2, 3};
  bool failed = true;
  int calls = 0;
  for (; failed && calls < kCallsMax; ++calls) {
    std::shared_ptr<Drafter> drafter;
    FailNewAfter(calls);
    {
      const MemoryRunsOut here;
      drafter = MakeNgramDrafter(options, prompt);
    }
    failed = NewFailed();
    EXPECT_EQ(drafter == nullptr, failed) << calls;
  }
  EXPECT_GT(calls, 2) << "it takes memory more than once";
  EXPECT_EQ(MakeNgramDrafter({}, prompt), nullptr);
}

// A turn is in the sample or not, and its request is answered all the same.
TEST(AcceptMemory, AnAuditTakesNoMemoryThatARequestCouldMiss) {
  KvAudit::Options asked;
  asked.share = 1;
  asked.context = 100;
  KvAudit audit(std::move(asked));
  AuditedTurn turn;
  turn.prompt = {1, 2, 3};
  FailNewAfter(0);
  {
    const MemoryRunsOut here;
    EXPECT_EQ(TurnAudit::Draw(&audit, turn), nullptr);
  }
  EXPECT_TRUE(NewFailed());
  EXPECT_EQ(audit.counts().results[static_cast<size_t>(AuditResult::kNoMemory)], 1u);

  const auto mailbox = std::make_shared<StreamMailbox>(1, 1 << 20, [] {});
  EventRouter router([](const EventRouter::MailboxList&) {}, 1);
  router.Add(1, {.mailbox = mailbox});
  SampleResult sampled;
  sampled.best = 7;
  EngineEvent event;
  event.id = 1;
  event.token = 5;
  event.sampled = &sampled;
  // From the third on the mailbox has room for a fourth.
  for (int i = 0; i < 3; ++i) router.Deliver({&event, 1}, 0);
  FailNewAfter(0);
  {
    const MemoryRunsOut here;
    router.Deliver({&event, 1}, 0);
  }
  EXPECT_FALSE(NewFailed());
  StreamBatch batch;
  (void)mailbox->Take(&batch);
  EXPECT_FALSE(batch.lost);
  ASSERT_EQ(batch.tokens.size(), 4u);
  EXPECT_EQ(batch.tokens.back().best, 7);
}

}  // namespace
}  // namespace hydrant
