#include "server/engine/engine_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/engine_core_fixture.h"

namespace hydrant {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class EngineCoreTest : public testing::Test {
 protected:
  EngineCoreTest() {
    absl::StatusOr<std::unique_ptr<EngineCore>> made =
        EngineCore::Create(Options(), executor, [this] { return now_us += 10; });
    EXPECT_TRUE(made.ok()) << made.status();
    core = std::move(*made);
  }

  ScriptedExecutor executor;
  int64_t now_us = 0;
  std::unique_ptr<EngineCore> core;
};

TEST_F(EngineCoreTest, ARowCarriesWhatTheDeviceNeeds) {
  SequenceRequest request = MakeRequest(5, 40, 3, 16);
  request.logprobs = 2;
  ASSERT_TRUE(core->Add(request).ok());
  core->Step();
  ASSERT_THAT(executor.rows, SizeIs(1));
  const StepRow& row = executor.rows[0];
  EXPECT_EQ(row.sampling->key, 5u);
  EXPECT_EQ(row.policy->heavy, 8);
  EXPECT_EQ(row.policy->recent, 8);
  EXPECT_EQ(row.logprobs, 2);
  EXPECT_EQ(row.shrink_to, 16);
  EXPECT_TRUE(row.prefill && row.sample);
  EXPECT_EQ(row.prompt_length, 40);
  EXPECT_THAT(row.targets, IsEmpty());
  core->Step();
  EXPECT_FALSE(executor.rows[0].prefill);
  EXPECT_EQ(executor.rows[0].position, 40);
  EXPECT_EQ(executor.rows[0].live, 16);
  EXPECT_TRUE(executor.rows[0].choose_victim);
  core->Step();
  EXPECT_TRUE(executor.rows[0].reuse_victim);
}

TEST_F(EngineCoreTest, ATextEndsWhereItsReaderFindsTheEnd) {
  SequenceRequest request = MakeRequest(1, 5, 10);
  const auto finder = std::make_shared<EndsAfter>(3);
  request.end_finder = finder;
  ASSERT_TRUE(core->Add(request).ok());
  request.end_finder.reset();
  for (int32_t token = 1; token <= 3; ++token) {
    const std::span<const EngineEvent> events = core->Step();
    ASSERT_THAT(events, SizeIs(1));
    EXPECT_EQ(events[0].generated, token);
    EXPECT_EQ(events[0].finish, token == 3 ? FinishReason::kText : FinishReason::kNone);
  }
  EXPECT_TRUE(core->idle());
  EXPECT_THAT(finder->seen, ElementsAre(7, 7, 7));
  EXPECT_EQ(finder.use_count(), 1) << "what it holds of its request goes with the sequence";
}

TEST_F(EngineCoreTest, WhatIsAskedOfATokenKnowsAllTokensBeforeIt) {
  LogitRules rules;
  rules.options.repetition_penalty = 1.5f;
  const auto shared = std::make_shared<const LogitRules>(rules);
  SequenceRequest request = MakeRequest(1, 70, 4);  // in two chunks
  request.request.prompt = std::vector<int32_t>(70, 3);
  request.shaper = std::make_shared<LogitShaper>(shared, request.request.prompt);
  request.forced_ids = {9};
  const std::weak_ptr<LogitShaper> shaper = request.shaper;
  ASSERT_TRUE(core->Add(std::move(request)).ok());
  ASSERT_TRUE(core->Add(MakeRequest(2, 5, 4)).ok());
  std::map<int32_t, int32_t> counts;
  const LogitAdjustments* adjusted = nullptr;
  executor.spoil = [&](const StepRow& row, RowOutput& answer) {
    if (row.sample && row.forced_id >= 0) answer.sampled.id = row.forced_id;
    if (row.prompt_length != 70) {
      EXPECT_EQ(executor.asked, nullptr) << "nobody asked";
      return;
    }
    adjusted = executor.asked;
    counts.clear();
    if (adjusted == nullptr) return;
    for (const TokenCount& seen : adjusted->counts) counts[seen.id] = seen.count;
  };
  executor.sampled.id = 7;
  core->Step();
  EXPECT_EQ(adjusted, nullptr) << "the first chunk chooses nothing";
  core->Step();
  EXPECT_EQ(adjusted, nullptr) << "a forced token is not chosen";
  core->Step();
  EXPECT_EQ(counts, (std::map<int32_t, int32_t>{{3, 0}, {9, 1}}));
  core->Step();
  EXPECT_EQ(counts, (std::map<int32_t, int32_t>{{3, 0}, {9, 1}, {7, 1}}));
  core->Step();
  EXPECT_EQ(counts, (std::map<int32_t, int32_t>{{3, 0}, {9, 1}, {7, 2}}));
  EXPECT_TRUE(core->idle());
  EXPECT_TRUE(shaper.expired());
}

TEST_F(EngineCoreTest, ACancelledRequestTakesNobodysReaderAlong) {
  SequenceRequest request = MakeRequest(1, 5, 10);
  request.end_finder = std::make_shared<EndsAfter>(5);
  ASSERT_TRUE(core->Add(request).ok());
  ASSERT_TRUE(core->Cancel(1));
  // In the place of the first one, whose end is still to be delivered.
  request = MakeRequest(2, 5, 10);
  request.end_finder = std::make_shared<EndsAfter>(2);
  ASSERT_TRUE(core->Add(request).ok());
  EXPECT_THAT(core->Step(), SizeIs(2));
  EXPECT_EQ(core->Step()[0].finish, FinishReason::kText);
}

TEST_F(EngineCoreTest, AStopTokenCountsBeforeAnEndInTheText) {
  executor.sampled.id = 2;
  SequenceRequest request = MakeRequest(1, 5, 10);
  request.end_finder = std::make_shared<EndsAfter>(1);
  ASSERT_TRUE(core->Add(request).ok());
  EXPECT_EQ(core->Step()[0].finish, FinishReason::kStop);
}

TEST(EngineCoreSessions, AStepSaysWhatItParkedAndWhatWasDropped) {
  ScriptedExecutor executor;
  EngineCoreOptions options = Options();
  options.scheduler.parked_blocks_max = 2;
  const auto core = *EngineCore::Create(options, executor, [] { return 1; });
  for (uint64_t id = 1; id <= 2; ++id) {
    SequenceRequest request = MakeRequest(id, 20, 1);
    request.request.session = 10 + id;
    request.request.turn = id;
    ASSERT_TRUE(core->Add(request).ok());
    core->Step();
    ASSERT_THAT(core->parked(), SizeIs(1));
    EXPECT_EQ(core->parked()[0].id, (TurnId{10 + id, id}));
    EXPECT_EQ(core->parked()[0].computed, 20);
    EXPECT_EQ(core->parked()[0].live, 20);
    EXPECT_EQ(core->dropped().size(), id - 1);
  }
  EXPECT_THAT(core->dropped(), ElementsAre(TurnId{11, 1})) << "there is room for one";
  core->DropSession(12);
  EXPECT_FALSE(core->idle());
  core->Step();
  EXPECT_THAT(core->dropped(), ElementsAre(TurnId{12, 2}));
  EXPECT_THAT(core->parked(), IsEmpty());
  core->Step();
  EXPECT_THAT(core->dropped(), IsEmpty());
}

// Two budgets of 20 blocks are promised 40 of 64; the third request needs 29.
TEST_F(EngineCoreTest, ALoweredBudgetLowersItsPolicyWithTheShareOfTheRecent) {
  for (uint64_t id : {1, 2}) {
    SequenceRequest request = MakeRequest(id, 20, 400, 319);
    if (id == 1) request.request.budget.floor = 100;
    request.policy.recent = 80;
    request.policy.heavy = 239;
    ASSERT_TRUE(core->Add(request).ok());
  }
  core->Step();
  ASSERT_TRUE(core->Add(MakeRequest(3, 450, 2)).ok());
  core->Step();
  ASSERT_THAT(executor.rows, SizeIs(2));
  EXPECT_EQ(executor.rows[0].losses.keep_max, 303);
  EXPECT_EQ(executor.rows[0].losses.cuts, 13) << "303, 287, …, 111";
  EXPECT_EQ(executor.rows[0].losses.policy->recent, 80);
  EXPECT_EQ(executor.rows[1].losses.cuts, 0) << "a guarantee";

  const std::span<const EngineEvent> events = core->Step();
  ASSERT_THAT(events, SizeIs(2));
  EXPECT_EQ(executor.rows[0].policy->keep(), 239) << "15 blocks with the slot of the next token";
  EXPECT_EQ(executor.rows[0].policy->recent, 80 * 239 / 319);
  EXPECT_EQ(executor.rows[0].shrink_to, 0) << "it has not grown so far";
  EXPECT_EQ(executor.rows[1].policy->keep(), 319);
  EXPECT_EQ(events[0].budget, 239);
  EXPECT_EQ(events[1].budget, 319);
  EXPECT_EQ(core->counters().scheduler.shrinks, 1u);
  core->Step();
  EXPECT_THAT(core->admitted(), ElementsAre(3u));
}

TEST_F(EngineCoreTest, TokensComeWithTheirLogprobs) {
  executor.sampled.top = {{7, -0.5f}, {9, -1.5f}};
  SequenceRequest request = MakeRequest(1, 5, 2);
  request.logprobs = 2;
  ASSERT_TRUE(core->Add(request).ok());
  const std::span<const EngineEvent> events = core->Step();
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].id, 1u);
  EXPECT_EQ(events[0].token, 7);
  EXPECT_EQ(events[0].finish, FinishReason::kNone);
  ASSERT_NE(events[0].sampled, nullptr);
  EXPECT_THAT(events[0].sampled->top, SizeIs(2));
  EXPECT_EQ(core->Step()[0].finish, FinishReason::kLength);
  EXPECT_TRUE(core->idle());
}

TEST_F(EngineCoreTest, PromptLogprobsArriveInOrderOverTheChunks) {
  for (const int32_t prompt_length : {1, 2, 64, 65, 150}) {
    for (const int32_t max_tokens : {0, 1, 2}) {
      SCOPED_TRACE(testing::Message() << prompt_length << " prompt tokens, max_tokens " << max_tokens);
      SequenceRequest request = MakeRequest(1, prompt_length, max_tokens);
      request.prompt_logprobs = 0;
      ASSERT_TRUE(core->Add(request).ok());
      std::vector<int32_t> targets;
      std::vector<int32_t> tokens;
      FinishReason finish = FinishReason::kNone;
      while (finish == FinishReason::kNone) {
        for (const EngineEvent& event : core->Step()) {
          if (!event.prompt_logprobs.empty()) {
            EXPECT_EQ(event.prompt_begin, static_cast<int32_t>(targets.size()) + 1);
          }
          for (const SampleResult& result : event.prompt_logprobs) targets.push_back(result.id);
          if (event.token >= 0) tokens.push_back(event.token);
          finish = event.finish;
        }
      }
      EXPECT_EQ(finish, FinishReason::kLength);
      EXPECT_THAT(tokens, SizeIs(max_tokens));
      EXPECT_EQ(targets, std::vector<int32_t>(request.request.prompt.begin() + 1, request.request.prompt.end()));
    }
  }
}

struct FailCase {
  const char* name;
  void (*spoil)(RowOutput&);
};

TEST_F(EngineCoreTest, AnAnswerThatIsNoTokenEndsItsRequestAlone) {
  const FailCase cases[] = {
      {"not finite", [](RowOutput& row) { row.sampled.finite = false; }},
      {"negative id", [](RowOutput& row) { row.sampled.id = -1; }},
      {"id beyond the vocabulary", [](RowOutput& row) { row.sampled.id = kVocab; }},
      {"prompt log-probability not finite", [](RowOutput& row) { row.targets.back().finite = false; }},
  };
  for (const FailCase& c : cases) {
    SCOPED_TRACE(c.name);
    for (uint64_t id : {1, 2, 3}) {
      SequenceRequest request = MakeRequest(id, 5, 2);
      request.prompt_logprobs = 0;
      ASSERT_TRUE(core->Add(request).ok());
    }
    executor.spoil = [&c](const StepRow& row, RowOutput& answer) {
      if (row.sampling->key == 2) c.spoil(answer);
    };
    std::map<uint64_t, EngineEvent> events;
    for (const EngineEvent& event : core->Step()) events[event.id] = event;
    ASSERT_THAT(events, SizeIs(3));
    EXPECT_EQ(events[2].finish, FinishReason::kError);
    EXPECT_EQ(events[2].token, -1);
    EXPECT_EQ(events[2].sampled, nullptr);
    EXPECT_THAT(events[2].prompt_logprobs, IsEmpty());
    for (uint64_t id : {1, 3}) {
      EXPECT_EQ(events[id].finish, FinishReason::kNone);
      EXPECT_EQ(events[id].token, 7);
    }
    while (!core->idle()) core->Step();
    EXPECT_EQ(core->counters().blocks_used, 0);
  }
}

TEST_F(EngineCoreTest, AStepWithoutMemoryEndsItsRequestsAndNoOther) {
  for (uint64_t id : {1, 2}) ASSERT_TRUE(core->Add(MakeRequest(id, 5, 9)).ok());
  core->Step();
  SequenceRequest waits = MakeRequest(3, 60, 2);
  waits.prompt_logprobs = 0;
  ASSERT_TRUE(core->Add(waits).ok());
  executor.starve = [](const StepInput& input) { return input.rows.size() == 3; };
  std::map<uint64_t, EngineEvent> events;
  for (const EngineEvent& event : core->Step()) events[event.id] = event;
  ASSERT_THAT(events, SizeIs(3));
  for (const auto& [id, event] : events) {
    EXPECT_EQ(event.finish, FinishReason::kNoMemory) << id;
    EXPECT_EQ(event.token, -1) << id;
    EXPECT_THAT(event.prompt_logprobs, IsEmpty()) << id;
  }
  EXPECT_EQ(core->report().rows, 0) << "what it took says nothing of the device's speed";
  EXPECT_EQ(core->counters().steps_lost, 1u);
  EXPECT_TRUE(core->idle());
  EXPECT_EQ(core->counters().blocks_used, 0);

  ASSERT_TRUE(core->Add(MakeRequest(4, 5, 3)).ok());
  std::vector<int32_t> tokens;
  while (!core->idle()) {
    for (const EngineEvent& event : core->Step()) tokens.push_back(event.token);
  }
  EXPECT_THAT(tokens, ElementsAre(7, 7, 7));
}

// It came with a step whose tokens were another's: what was to be restored is not in its blocks.
TEST(EngineCoreSessions, WhoseRestoreWasLostWithAStepFailsWithTheNext) {
  ScriptedExecutor executor;
  EngineCoreOptions options = Options();
  options.scheduler.tokens_max = options.scheduler.prefill_tokens_max = 32;
  options.scheduler.parked_blocks_max = 8;
  const auto core = *EngineCore::Create(options, executor, [] { return 1; });
  ASSERT_TRUE(core->Add(SessionTurnOf(11, MakeRequest(1, 12, 1))).ok());
  core->Step();
  ASSERT_THAT(core->parked(), SizeIs(1));

  ASSERT_TRUE(core->Add(MakeRequest(2, 32, 4)).ok());
  SequenceRequest resumes = SessionTurnOf(11, MakeRequest(3, 30, 2));
  resumes.request.resumes = 3;
  resumes.request.turn = 4;
  ASSERT_TRUE(core->Add(resumes).ok());
  const auto expect_end = [&](uint64_t id) {
    const std::span<const EngineEvent> events = core->Step();
    ASSERT_THAT(events, SizeIs(1));
    EXPECT_EQ(events[0].id, id);
    EXPECT_EQ(events[0].finish, FinishReason::kNoMemory);
  };
  executor.starve = [](const StepInput& input) {
    EXPECT_THAT(input.rows, SizeIs(1));
    EXPECT_THAT(input.restores, SizeIs(1));
    return true;
  };
  expect_end(2);
  executor.starve = nullptr;
  expect_end(3);
  EXPECT_EQ(core->counters().blocks_used, 0);
  EXPECT_EQ(core->counters().parked_sessions, 1) << "the turn may come again";
}

TEST(EngineCoreSessions, WhatThereWasNoMemoryToParkIsGone) {
  ScriptedExecutor executor;
  executor.unparkable = 11;
  EngineCoreOptions options = Options();
  options.scheduler.parked_blocks_max = 8;
  const auto core = *EngineCore::Create(options, executor, [] { return 1; });
  for (uint64_t session : {11, 12}) {
    ASSERT_TRUE(core->Add(SessionTurnOf(session, MakeRequest(session, 20, 1))).ok());
  }
  core->Step();
  EXPECT_THAT(core->dropped(), ElementsAre(TurnId{11, 3}));
  ASSERT_THAT(core->parked(), SizeIs(1));
  EXPECT_EQ(core->parked()[0].id.session, 12u);
  EXPECT_EQ(core->counters().parked_sessions, 1);
  EXPECT_EQ(core->counters().parked_lost, 1u);
  EXPECT_EQ(core->counters().blocks_used, 0);
  EXPECT_TRUE(core->idle()) << "the executor knows";
}

TEST_F(EngineCoreTest, WhatThereIsNoMemoryToReadIsLeftOut) {
  ASSERT_TRUE(core->Add(SessionTurnOf(11, MakeRequest(1, 20, 20, 16))).ok());
  core->Step();
  executor.starve = [](const StepInput& input) { return !input.reads.empty(); };
  KvReading reading;
  core->ReadKv(11, true, &reading);
  EXPECT_EQ(reading.source, KvReading::Source::kRunning);
  EXPECT_FALSE(reading.score_blocks_read);
  ASSERT_THAT(core->Step(), SizeIs(1));
  EXPECT_EQ(core->counters().steps_lost, 0u);
}

TEST_F(EngineCoreTest, RequestsThatWouldBreakOthersAreRefused) {
  const auto code = [this](const SequenceRequest& request) { return core->Add(request).code(); };
  SequenceRequest request = MakeRequest(1, 5, 2);
  request.request.prompt = {0, 1, 2, kVocab, 4};
  EXPECT_EQ(code(request), absl::StatusCode::kInvalidArgument);
  request.request.prompt = {0, 1, 2, -1, 4};
  EXPECT_EQ(code(request), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(MakeRequest(1, 500, 13)), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(MakeRequest(1, 500, 12)), absl::StatusCode::kOk) << "exactly the context";
  EXPECT_TRUE(core->Cancel(1));

  request = MakeRequest(2, 5, 2, 16);
  request.policy.heavy = 7;
  EXPECT_EQ(code(request), absl::StatusCode::kInvalidArgument);
  request = MakeRequest(2, 5, 2, 16);
  request.policy.evicts = false;
  EXPECT_EQ(code(request), absl::StatusCode::kInvalidArgument);
  request = MakeRequest(2, 5, 2, 16);
  request.policy.heavy = 16;
  request.policy.recent = 0;
  EXPECT_EQ(code(request), absl::StatusCode::kInvalidArgument);
  request = MakeRequest(2, 5, 2, 16);
  request.policy_label = kPolicyLabelsMax;
  EXPECT_EQ(code(request), absl::StatusCode::kInvalidArgument);
  request = MakeRequest(2, 5, 2);
  LogitRules rules;
  rules.options.logit_bias = {{kVocab, 1.0f}};
  request.shaper = std::make_shared<LogitShaper>(std::make_shared<const LogitRules>(rules), request.request.prompt);
  EXPECT_EQ(code(request), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(MakeRequest(2, 0, 2)), absl::StatusCode::kInvalidArgument)
      << "the scheduler's own checks come through";
}

TEST_F(EngineCoreTest, APolicyThatPinsIsRefusedWithoutWhatPinsNeed) {
  SequenceRequest pins = MakeRequest(1, 100, 2, 16);
  pins.policy.pin_rows = 8;
  pins.request.tail_tokens = 8;
  pins.segment_starts.resize(2);
  const struct {
    const char* name;
    void (*hurt)(SequenceRequest& request);
  } cases[] = {
      {"pooled", [](SequenceRequest& request) { request.policy.pool_width = 3; }},
      {"rolling", [](SequenceRequest& request) { request.policy.rolling = true; }},
      {"without scores", [](SequenceRequest& request) { request.policy.score_source = ScoreSource::kNone; }},
      {"rows below 0", [](SequenceRequest& request) { request.policy.pin_rows = -8; }},
      {"segments of a part", [](SequenceRequest& request) { request.segment_starts.resize(1); }},
  };
  for (const auto& c : cases) {
    SequenceRequest request = pins;
    c.hurt(request);
    EXPECT_EQ(core->Add(request).code(), absl::StatusCode::kInvalidArgument) << c.name;
  }
  EXPECT_TRUE(core->Add(pins).ok());
}

TEST_F(EngineCoreTest, CancelWithNothingElseToDoIsDeliveredByTheNextStep) {
  ASSERT_TRUE(core->Add(MakeRequest(1, 5, 50)).ok());
  core->Step();
  EXPECT_TRUE(core->Cancel(1));
  EXPECT_FALSE(core->Cancel(1));
  EXPECT_EQ(core->counters().blocks_used, 0);
  EXPECT_FALSE(core->idle());
  const int32_t launches = executor.launches;
  const std::span<const EngineEvent> events = core->Step();
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].finish, FinishReason::kAbort);
  EXPECT_EQ(executor.launches, launches) << "no empty step reaches the device";
  EXPECT_EQ(core->report().rows, 0);
  EXPECT_TRUE(core->idle());
  EXPECT_THAT(core->Step(), IsEmpty());
}

TEST_F(EngineCoreTest, CancelInFlightDropsTheToken) {
  ASSERT_TRUE(core->Add(MakeRequest(1, 5, 50)).ok());
  ASSERT_TRUE(core->Add(MakeRequest(2, 5, 50)).ok());
  executor.in_flight = [this] { core->Cancel(1); };
  const std::span<const EngineEvent> events = core->Step();
  ASSERT_THAT(events, SizeIs(2));
  EXPECT_EQ(events[0].id, 1u);
  EXPECT_EQ(events[0].finish, FinishReason::kAbort);
  EXPECT_EQ(events[0].token, -1);
  EXPECT_EQ(events[1].token, 7);
  EXPECT_EQ(core->counters().blocks_used, 1);
}

TEST_F(EngineCoreTest, CountersTellBlocksSlotsAndEvictions) {
  SequenceRequest request = MakeRequest(1, 40, 10, 16);
  request.policy_label = 3;
  ASSERT_TRUE(core->Add(request).ok());
  request = MakeRequest(2, 20, 10, 16);
  request.policy_label = 5;
  ASSERT_TRUE(core->Add(request).ok());
  EXPECT_EQ(core->counters().waiting, 2);
  EXPECT_EQ(core->counters().tenants[0].waiting_deferred, 0) << "for their turn";
  core->PauseAdmission(true);
  EXPECT_EQ(core->counters().tenants[0].waiting_deferred, 2) << "for the operator";
  core->PauseAdmission(false);
  core->Step();
  core->Step();
  EngineCounters counters = core->counters();
  EXPECT_EQ(counters.running, 2);
  EXPECT_EQ(counters.waiting, 0);
  EXPECT_EQ(counters.live_slots, 17 + 17);
  EXPECT_EQ(counters.tenants[0].live_slots, 17 + 17);
  EXPECT_EQ(counters.tenants[0].logical_tokens, 41 + 21) << "live, and the 24 and 4 that were dropped";
  EXPECT_EQ(counters.blocks_used, 4);
  EXPECT_EQ(counters.blocks_free, 60);
  EXPECT_EQ(counters.blocks_cached, 0);
  EXPECT_EQ(counters.evicted_tokens[3], 24u);
  EXPECT_EQ(counters.evicted_tokens[5], 4u);
  while (!core->idle()) core->Step();
  counters = core->counters();
  EXPECT_EQ(counters.evicted_tokens[3], 40u + 9 - 17);
  EXPECT_EQ(counters.evicted_tokens[5], 20u + 9 - 17);
  EXPECT_EQ(counters.scheduler.evicted_tokens, counters.evicted_tokens[3] + counters.evicted_tokens[5]);
  EXPECT_EQ(counters.live_slots, 0);
}

TEST(EngineCoreCounters, WhoIsHeldBackByTheirTenantsCapDoesNotWaitForCapacity) {
  EngineCoreOptions options = Options();
  options.scheduler.tenants = {{.name = "capped", .blocks_max = 4}};
  ScriptedExecutor executor;
  int64_t now_us = 0;
  std::unique_ptr<EngineCore> core = *EngineCore::Create(options, executor, [&] { return now_us += 10; });
  ASSERT_TRUE(core->Add(MakeRequest(1, 40, 10)).ok());  // 4 blocks, of 64
  ASSERT_TRUE(core->Add(MakeRequest(2, 40, 10)).ok());
  core->Step();
  EXPECT_EQ(core->counters().waiting, 1);
  EXPECT_EQ(core->counters().tenants[0].waiting_deferred, 1);
  EXPECT_EQ(core->counters().tenants[0].waiting, 1);
  while (!core->idle()) core->Step();
  EXPECT_EQ(core->counters().tenants[0].waiting_deferred, 0);
}

TEST_F(EngineCoreTest, TimesAndReportFollowTheClock) {
  SequenceRequest request = MakeRequest(1, 5, 1);
  request.request.arrival_us = -3;
  ASSERT_TRUE(core->Add(request).ok());
  // The clock is read before Plan (10), before Launch (20), after Await (30) and at the end (40).
  const std::span<const EngineEvent> events = core->Step();
  EXPECT_EQ(events[0].times.arrival_us, -3);
  EXPECT_EQ(events[0].times.admitted_us, 10);
  EXPECT_EQ(events[0].times.first_token_us, 30);
  EXPECT_EQ(events[0].times.last_token_us, 30);
  const StepReport& report = core->report();
  EXPECT_EQ(report.rows, 1);
  EXPECT_EQ(report.prefill_tokens, 5);
  EXPECT_EQ(report.decode_tokens, 0);
  EXPECT_EQ(report.plan_us, 10);
  EXPECT_EQ(report.device_us, 10);
  EXPECT_EQ(report.commit_us, 10);
}

TEST(EngineCoreSessions, TheTimeOfMovedKvIsNotThatOfTheTokens) {
  ScriptedExecutor executor;
  executor.restore_us = 7;
  EngineCoreOptions options = Options();
  options.scheduler.parked_blocks_max = 8;
  int64_t now_us = 0;
  const auto core = *EngineCore::Create(options, executor, [&] { return now_us += 10; });
  ASSERT_TRUE(core->Add(SessionTurnOf(11, MakeRequest(1, 20, 1))).ok());
  core->Step();
  EXPECT_EQ(core->report().commit_us, 10);
  EXPECT_EQ(core->report().move_us, 10) << "the park";
  EXPECT_EQ(core->report().blocks_moved, 2);
  SequenceRequest next = SessionTurnOf(11, MakeRequest(2, 30, 2));
  next.request.turn = 4;
  next.request.resumes = 3;
  ASSERT_TRUE(core->Add(next).ok());
  core->Step();
  EXPECT_EQ(core->report().device_us, 3);
  EXPECT_EQ(core->report().commit_us, 10);
  EXPECT_EQ(core->report().move_us, 7) << "the restore";
  EXPECT_EQ(core->report().blocks_moved, 2);
}

TEST(EngineCoreCreate, RefusesImpossibleOptions) {
  ScriptedExecutor executor;
  const auto code = [&executor](const EngineCoreOptions& options) {
    return EngineCore::Create(options, executor, [] { return int64_t{0}; }).status().code();
  };
  EXPECT_EQ(code(Options()), absl::StatusCode::kOk);
  EngineCoreOptions options = Options();
  options.vocab = 0;
  EXPECT_EQ(code(options), absl::StatusCode::kInvalidArgument);
  options = Options();
  options.context = 0;
  EXPECT_EQ(code(options), absl::StatusCode::kInvalidArgument);
  options = Options();
  options.scheduler.blocks = 0;
  EXPECT_EQ(code(options), absl::StatusCode::kInvalidArgument);
}

TEST_F(EngineCoreTest, ARunningSequenceIsReadWithItsTokensAndSlots) {
  ASSERT_TRUE(core->Add(SessionTurnOf(11, MakeRequest(1, 40, 20, 16))).ok());
  for (int step = 0; step < 4; ++step) core->Step();  // the prompt in two chunks, then two tokens fed back
  KvReading reading;
  core->ReadKv(11, true, &reading);
  EXPECT_EQ(reading.source, KvReading::Source::kRunning);
  EXPECT_EQ(reading.turn, 3u);
  EXPECT_THAT(reading.tokens, SizeIs(static_cast<size_t>(reading.computed) + 1)) << "the last one is not fed back";
  EXPECT_EQ(reading.tokens[39], 39);
  EXPECT_EQ(reading.tokens.back(), 7);
  EXPECT_EQ(reading.live, 17);
  EXPECT_EQ(reading.budget.keep, 16);
  EXPECT_EQ(reading.policy.heavy, 8);
  EXPECT_TRUE(reading.score_blocks_read);
  ASSERT_THAT(executor.reads, SizeIs(1));
  EXPECT_EQ(executor.reads[0].live, 17);
  EXPECT_EQ(executor.reads[0].score_blocks, reading.blocks);
  core->ReadKv(12, true, &reading);
  EXPECT_EQ(reading.source, KvReading::Source::kNone);
  EXPECT_FALSE(reading.score_blocks_read);
}

TEST_F(EngineCoreTest, WhatDropsNothingIsReadWithoutACopy) {
  ASSERT_TRUE(core->Add(SessionTurnOf(11, MakeRequest(1, 40, 20))).ok());
  for (int step = 0; step < 3; ++step) core->Step();
  KvReading reading;
  core->ReadKv(11, false, &reading);
  EXPECT_EQ(reading.source, KvReading::Source::kRunning);
  EXPECT_EQ(reading.live, reading.computed);
  EXPECT_THAT(executor.reads, IsEmpty());
}

}  // namespace
}  // namespace hydrant
