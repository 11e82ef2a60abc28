// Turns of a chat: what was parked goes on bit for bit, wherever it is put back and whoever was there in between.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/engine/engine_harness.h"
#include "tests/support/golden_file.h"

namespace hydrant {
namespace {

constexpr int32_t kTurns = 4;
constexpr uint64_t kSession = 7;

struct Policy {
  const char* name;
  EvictionPolicy policy;
  int32_t beta = 0;
  bool makes_room = false;  // before each turn
};

std::vector<Policy> Policies() {
  const EvictionPolicy h2o{.evicts = true, .heavy = 20, .recent = 20};
  EvictionPolicy sinks = h2o, last_rows = h2o, rolling = h2o, first = h2o;
  sinks.score_source = ScoreSource::kNone;
  last_rows.score_rows = 16;
  last_rows.decay = 15.0f / 16;
  last_rows.square = true;
  last_rows.pool_width = 5;
  rolling.rolling = true;
  first.gqa_reduce = GqaReduce::kFirst;
  return {{"full", EvictionPolicy()},
          {"h2o", h2o},
          {"h2o_periodic", h2o, 24},
          {"sinks", sinks},
          {"last_rows", last_rows},
          {"rolling", rolling},
          {"rolling_periodic", rolling, 24},
          {"makes_room", first, 0, true},
          {"makes_room_periodic", first, 24, true},
          {"makes_room_rolling", rolling, 0, true},
          {"pins", Pinning(h2o)},
          {"pins_periodic", Pinning(h2o), 24}};
}

class Sessions : public testing::TestWithParam<const char*> {
 protected:
  static DType Type() { return std::string(GetParam()) == "gqa_tied" ? DType::kBF16 : DType::kF32; }
  virtual std::optional<KvType> Cached() const { return std::nullopt; }

  // A chat of several turns; with `company` other requests run beside it and take the blocks it leaves, and what is
  // parked leaves and comes back in slices.
  std::vector<Generation> Chat(const Policy& policy, bool company, int32_t chunk = 256) {
    EngineHarness harness(GoldenPath(GetParam()), {.dtype = Type(),
                                                   .kv_type = Cached(),
                                                   .threads = company ? 2 : 1,
                                                   .blocks = company ? 40 : 100,
                                                   .tokens_max = chunk + 15,
                                                   .prefill_tokens_max = chunk,
                                                   .parked_blocks_max = 64});
    if (company) harness.engine().LimitSteps({.blocks_moved_max = 3});
    std::mt19937 random(29);
    std::vector<Generation> turns;
    std::vector<int32_t> history;
    uint64_t next_id = 1;
    for (int32_t turn = 0; turn < kTurns; ++turn) {
      const std::vector<int32_t> said = RandomIds(random, turn == 0 ? 50 : 1 + 9 * turn);
      history.insert(history.end(), said.begin(), said.end());
      SequenceRequest request = With(Greedy(next_id++, history, 14), policy.policy, policy.beta);
      if (policy.makes_room) request.request.budget.turn_heavy = policy.policy.heavy;
      request.logprobs = 0;
      request.request.session = kSession;
      request.request.turn = static_cast<uint64_t>(turn + 1);
      request.request.resumes = static_cast<uint64_t>(turn);
      std::vector<SequenceRequest> together = {request};
      std::mt19937 others(static_cast<uint32_t>(turn));
      for (int32_t i = 0; company && i < 5; ++i) {
        together.push_back(
            With(Greedy(next_id++, RandomIds(others, 20 + 11 * i), 20), Policies()[static_cast<size_t>(i)].policy));
      }
      turns.push_back(harness.Run(together).front());
      const std::vector<int32_t> answer = turns.back().tokens();
      history.insert(history.end(), answer.begin(), answer.end());
    }
    EXPECT_EQ(harness.engine().counters().parked_sessions, 1);
    EXPECT_EQ(harness.engine().counters().scheduler.restores, static_cast<uint64_t>(kTurns - 1));
    harness.engine().DropSession(kSession);
    harness.engine().Step();
    EXPECT_EQ(harness.engine().counters().parked_blocks, 0);
    return turns;
  }

  // Bit for bit, whatever happens in between.
  void ExpectToGoOn(const Policy& policy) {
    const std::vector<Generation> alone = Chat(policy, /*company=*/false);
    for (const int32_t chunk : {256, 32}) {
      const std::vector<Generation> among = Chat(policy, /*company=*/true, chunk);
      int32_t computed = 0;
      for (size_t turn = 0; turn < alone.size(); ++turn) {
        SCOPED_TRACE(std::string(policy.name) + ", turn " + std::to_string(turn));
        EXPECT_EQ(among[turn].restored, computed) << "only what is new is computed";
        EXPECT_EQ(among[turn].tokens(), alone[turn].tokens());
        EXPECT_EQ(among[turn].live, alone[turn].live);
        for (size_t i = 0; i < alone[turn].sampled.size(); ++i) {
          EXPECT_EQ(among[turn].sampled[i].logprob, alone[turn].sampled[i].logprob);
        }
        computed = alone[turn].live + alone[turn].evicted;
        if (policy.policy.evicts) {
          EXPECT_LE(alone[turn].live, policy.policy.keep() + std::max(1, policy.beta));
        }
      }
    }
  }
};

TEST_P(Sessions, GoOnBitForBitWhateverHappensInBetween) {
  if (HarnessDeviceQueues()) GTEST_SKIP() << "bits depend on the company there (CudaDevice, invariant 1)";
  for (const Policy& policy : Policies()) ExpectToGoOn(policy);
}

// Codes and scales are parked and moved as they are.
class SessionsInInt8 : public Sessions {
 protected:
  std::optional<KvType> Cached() const override { return KvType::kInt8; }
};

TEST_P(SessionsInInt8, GoOnBitForBitWhateverHappensInBetween) {
  if (HarnessDeviceQueues()) GTEST_SKIP() << "bits depend on the company there (CudaDevice, invariant 1)";
  for (const Policy& policy : Policies()) {
    if (policy.makes_room == policy.policy.rolling) ExpectToGoOn(policy);
  }
}

// A row that was on its way after the end of a turn is no part of what is parked.
TEST_P(Sessions, OverlapChangesNoBitOfTheNextTurn) {
  for (const Policy& policy : Policies()) {
    std::vector<Generation> turns[2];
    int32_t stop = -1;
    for (const bool overlap : {false, true}) {
      HarnessOptions options{.dtype = Type(), .parked_blocks_max = 64};
      options.overlap = overlap;
      EngineHarness harness(GoldenPath(GetParam()), options);
      std::mt19937 random(31);
      std::vector<int32_t> history = RandomIds(random, 45);
      if (!overlap) stop = harness.RunOne(With(Greedy(9, history, 20), policy.policy)).tokens()[8];
      for (int32_t turn = 0; turn < 3; ++turn) {
        SequenceRequest request = With(Greedy(static_cast<uint64_t>(turn) + 1, history, 20), policy.policy);
        request.logprobs = 0;
        request.request.session = kSession;
        request.request.turn = static_cast<uint64_t>(turn) + 1;
        request.request.resumes = static_cast<uint64_t>(turn);
        if (turn == 0) request.request.stop_token_ids = {stop};
        turns[overlap].push_back(harness.RunOne(request));
        const std::vector<int32_t> answer = turns[overlap].back().tokens(), said = RandomIds(random, 7);
        history.insert(history.end(), answer.begin(), answer.end());
        history.insert(history.end(), said.begin(), said.end());
      }
      EXPECT_EQ(harness.steps_ahead() > 0, overlap) << policy.name;
    }
    EXPECT_EQ(turns[0][0].finish, FinishReason::kStop);
    for (size_t turn = 0; turn < 3; ++turn) {
      SCOPED_TRACE(std::string(policy.name) + ", turn " + std::to_string(turn));
      EXPECT_EQ(turns[1][turn].restored, turns[0][turn].restored);
      EXPECT_EQ(turns[1][turn].tokens(), turns[0][turn].tokens());
      ASSERT_EQ(turns[1][turn].sampled.size(), turns[0][turn].sampled.size());
      for (size_t i = 0; i < turns[0][turn].sampled.size(); ++i) {
        EXPECT_EQ(turns[1][turn].sampled[i].logprob, turns[0][turn].sampled[i].logprob);
      }
    }
  }
}

class SessionsInFp32 : public Sessions {};

TEST_P(SessionsInFp32, WithoutEvictionATurnIsWhatTheWholeHistoryWouldBe) {
  const std::vector<Generation> turns = Chat(Policies()[0], /*company=*/true);
  EngineHarness harness(GoldenPath(GetParam()), {.dtype = Type()});
  std::mt19937 random(29);
  std::vector<int32_t> history;
  for (int32_t turn = 0; turn < kTurns; ++turn) {
    const std::vector<int32_t> said = RandomIds(random, turn == 0 ? 50 : 1 + 9 * turn);
    history.insert(history.end(), said.begin(), said.end());
    SequenceRequest request = Greedy(static_cast<uint64_t>(turn + 1), history, 14);
    request.logprobs = 0;
    const std::vector<int32_t> answer = turns[static_cast<size_t>(turn)].tokens();
    request.forced_ids = answer;
    const Generation whole = harness.RunOne(request);
    for (size_t i = 0; i < answer.size(); ++i) {
      // Answers were decoded there and are prompt here: attention sums in another order.
      EXPECT_NEAR(whole.sampled[i].logprob, turns[static_cast<size_t>(turn)].sampled[i].logprob, 1e-4);
    }
    history.insert(history.end(), answer.begin(), answer.end());
  }
}

// Keeps what is left of each prompt.
class KeptPositions : public KvDumpSink {
 public:
  void OnPromptDone(int32_t, Positions kept) override { prompts.push_back(std::move(kept)); }
  void OnDecode(int32_t, std::optional<std::vector<std::vector<int32_t>>>) override {}
  std::vector<Positions> prompts;
};

// With a budget of 20 + 20, a turn of 12 rows leaves the 20 heavy and the 8 newest ones; one of 30 the heavy ones alone.
TEST_P(Sessions, ATurnMakesRoomForItsTokensFirst) {
  for (const int32_t rows : {12, 30}) {
    std::vector<Generation> turns;
    for (const bool makes_room : {false, true}) {
      KeptPositions kept;
      EngineHarness harness(GoldenPath(GetParam()), {.dtype = Type(), .parked_blocks_max = 64, .dump = &kept});
      std::mt19937 random(37);
      std::vector<int32_t> history = RandomIds(random, 60);
      const auto turn = [&](uint64_t id) {
        SequenceRequest request = With(Greedy(id, history, 10), {.evicts = true, .heavy = 20, .recent = 20});
        request.logprobs = 0;
        request.request.session = kSession;
        request.request.turn = id;
        request.request.resumes = id - 1;
        if (makes_room) request.request.budget.turn_heavy = 20;
        return harness.RunOne(request);
      };
      const std::vector<int32_t> answer = turn(1).tokens();
      history.insert(history.end(), answer.begin(), answer.end());
      const std::vector<int32_t> said = RandomIds(random, rows - 1);  // and the answer's last token
      history.insert(history.end(), said.begin(), said.end());
      turns.push_back(turn(2));
      EXPECT_EQ(turns.back().restored, 69);
      EXPECT_EQ(turns.back().live + turns.back().evicted, 69 + rows + 9);
      ASSERT_EQ(kept.prompts.size(), 2u);
      for (const auto& layer : kept.prompts[1]) {
        for (const std::vector<int32_t>& positions : layer) {
          ASSERT_EQ(positions.size(), 40u);
          for (int32_t i = 0; i < 20; ++i) EXPECT_EQ(positions[static_cast<size_t>(20 + i)], 69 + rows - 20 + i);
        }
      }
    }
    EXPECT_NE(turns[0].sampled[0].logprob, turns[1].sampled[0].logprob) << "the turn saw less of the past";
  }
}

TEST_P(Sessions, ACancelledTurnLeavesTheOneBefore) {
  EngineHarness harness(GoldenPath(GetParam()), {.dtype = Type(), .parked_blocks_max = 64});
  std::mt19937 random(31);
  const Policy h2o = Policies()[1];
  std::vector<int32_t> history = RandomIds(random, 60);
  const auto turn = [&](uint64_t id, const std::vector<int32_t>& prompt, uint64_t resumes) {
    SequenceRequest request = With(Greedy(id, prompt, 10), h2o.policy);
    request.request.session = kSession;
    request.request.turn = id;
    request.request.resumes = resumes;
    return request;
  };
  const Generation first = harness.RunOne(turn(1, history, 0));
  const std::vector<int32_t> answer = first.tokens();
  history.insert(history.end(), answer.begin(), answer.end());
  const int32_t parked = static_cast<int32_t>(history.size()) - 1;
  history.push_back(5);

  ASSERT_TRUE(harness.engine().Add(turn(2, history, 1)).ok());
  for (int step = 0; step < 4; ++step) harness.engine().Step();
  ASSERT_TRUE(harness.engine().Cancel(2));
  harness.engine().Step();
  const Generation again = harness.RunOne(turn(3, history, 1));
  EXPECT_EQ(again.restored, parked);

  EngineHarness fresh(GoldenPath(GetParam()), {.dtype = Type(), .parked_blocks_max = 64});
  fresh.RunOne(turn(1, {history.begin(), history.begin() + 60}, 0));
  EXPECT_EQ(again.tokens(), fresh.RunOne(turn(2, history, 1)).tokens());
}

class SessionGoldens : public testing::TestWithParam<const char*> {};

// Parked after every turn, a chat keeps and says what one does that never leaves its cache.
TEST_P(SessionGoldens, TwentyTurnsKeepAndSayWhatTheIndependentH2oDoes) {
  Recorder recorder;
  EngineHarness harness(GoldenPath(GetParam()), {.parked_blocks_max = 64, .dump = &recorder});
  uint64_t id = 0;
  uint64_t session = 0;
  const nlohmann::json file = ReadJson(GoldenPath(GetParam()) + "/h2o_sessions.json");
  for (const nlohmann::json& golden : file.at("cases")) {
    SCOPED_TRACE(golden.at("name").get<std::string>());
    const EvictionPolicy policy = PolicyOf(golden.at("policy"));
    std::vector<int32_t> history;
    size_t sampled = 0;
    ++session;
    for (size_t turn = 0; turn < golden.at("turns").size(); ++turn) {
      SCOPED_TRACE("turn " + std::to_string(turn));
      const nlohmann::json& told = golden.at("turns")[turn];
      const std::vector<int32_t> said = Ids(told.at("said"));
      const std::vector<int32_t> tokens = Ids(told.at("tokens"));
      const int32_t known = static_cast<int32_t>(history.size());
      history.insert(history.end(), said.begin(), said.end());
      SequenceRequest request = With(Greedy(++id, history, static_cast<int32_t>(tokens.size())), policy);
      request.logprobs = 0;
      request.request.session = session;
      request.request.turn = turn + 1;
      request.request.resumes = turn;
      recorder = Recorder();
      const Generation generation = harness.RunOne(request);
      ASSERT_EQ(generation.tokens(), tokens);
      EXPECT_EQ(generation.restored, turn == 0 ? 0 : known - 1);
      EXPECT_LE(generation.live, policy.keep() + 1);
      // Ranks, where keys stand at them, do not say which tokens they are any more.
      if (!policy.rolling) {
        ASSERT_EQ(nlohmann::json(recorder.kept), told.at("kept_after_prefill"));
        for (size_t step = 0; step < recorder.victims.size(); ++step) {
          const auto& victims = recorder.victims[step];
          const nlohmann::json& expected = told.at("victims")[step];
          ASSERT_EQ(victims.has_value() ? nlohmann::json(*victims) : nlohmann::json(), expected) << "step " << step;
        }
      }
      for (const SampleResult& result : generation.sampled) {
        EXPECT_NEAR(result.logprob, golden.at("logprobs")[sampled++].get<float>(), 1e-3);
      }
      history.insert(history.end(), tokens.begin(), tokens.end());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SessionGoldens, testing::Values("gqa_untied", "mha_tied"),
                         [](const auto& model) { return std::string(model.param); });

INSTANTIATE_TEST_SUITE_P(Models, Sessions, testing::Values("gqa_untied", "gqa_tied"),
                         [](const auto& model) { return std::string(model.param); });

INSTANTIATE_TEST_SUITE_P(Models, SessionsInInt8, testing::Values("gqa_untied"),
                         [](const auto& model) { return std::string(model.param); });

INSTANTIATE_TEST_SUITE_P(Models, SessionsInFp32, testing::Values("gqa_untied"),
                         [](const auto& model) { return std::string(model.param); });

// What a session's KV looks like is the same while its last step stands and once it is parked, but for the victim.
TEST_P(Sessions, WhatIsReadOfASessionIsWhatItsSlotsHold) {
  EngineHarness harness(GoldenPath(GetParam()), {.dtype = Type(), .blocks = 100, .parked_blocks_max = 64});
  std::mt19937 random(31);
  SequenceRequest request = With(Greedy(1, RandomIds(random, 60), 8), {.evicts = true, .heavy = 20, .recent = 20});
  request.request.session = kSession;
  request.request.turn = 1;
  ASSERT_TRUE(harness.engine().Add(request).ok());
  KvReading running, parked;
  while (!harness.engine().idle()) {
    harness.engine().ReadKv(kSession, true, &parked);
    if (parked.source == KvReading::Source::kRunning && parked.live > 0) std::swap(running, parked);
    harness.engine().Step();
  }
  harness.engine().ReadKv(kSession, true, &parked);
  ASSERT_EQ(running.source, KvReading::Source::kRunning);
  ASSERT_EQ(parked.source, KvReading::Source::kParked);
  ASSERT_TRUE(running.score_blocks_read && parked.score_blocks_read);
  EXPECT_EQ(running.live, 41);
  EXPECT_EQ(parked.live, 40);
  EXPECT_EQ(parked.computed, 60 + 7);
  const size_t layer_heads =
      parked.score_blocks.positions.size() / static_cast<size_t>(parked.score_blocks.blocks * kBlockSlots);
  for (size_t layer_head = 0; layer_head < layer_heads; ++layer_head) {
    const auto positions_of = [layer_head, layer_heads](const KvReading& reading) {
      std::set<int32_t> positions;
      for (size_t slot = 0; slot < static_cast<size_t>(reading.live); ++slot) {
        const size_t at = (slot / kBlockSlots * layer_heads + layer_head) * kBlockSlots + slot % kBlockSlots;
        EXPECT_TRUE(positions.insert(reading.score_blocks.positions[at]).second) << "no token is in two slots";
        EXPECT_GE(reading.score_blocks.scores[at], 0);
      }
      return positions;
    };
    const std::set<int32_t> before = positions_of(running), after = positions_of(parked);
    for (int32_t recent = parked.computed - 20; recent < parked.computed; ++recent) EXPECT_TRUE(after.contains(recent));
    // One step later, at most: its token came, and the victims of two steps went.
    std::set<int32_t> gone;
    std::set_difference(before.begin(), before.end(), after.begin(), after.end(), std::inserter(gone, gone.end()));
    EXPECT_LE(gone.size(), 2u);
  }
}

}  // namespace
}  // namespace hydrant
