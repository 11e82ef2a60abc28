// Drafts change when tokens come and nothing else: with any drafter an answer has the tokens, log-probabilities and ends that it has
// without, and what its session keeps is the same to the last bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/drafts/ngram_drafter.h"
#include "tests/engine/engine_harness.h"
#include "tests/engine/every_policy.h"
#include "tests/engine/scripted_drafter.h"
#include "tests/model/checkpoint/family_checkpoint.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

struct Outcome {
  std::vector<Generation> generations;
  std::vector<std::vector<std::byte>> parked;  // of their sessions
  std::vector<double> charged;
  SchedulerCounters counters;
  Drafted drafted;
  int64_t step_tokens = 0;
  std::vector<uint64_t> evicted;  // by policy
};

struct Case {
  const char* model;
  DType dtype;
  std::optional<KvType> kv_type = {};
  bool family = false;  // one with a layer that sees a window
};

class Drafts : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    path_ = dir_.path();
    if (GetParam().family) {
      FamilyCheckpoint(GetParam().model).WriteTo(dir_.path(), "F32");
    } else {
      path_ = GoldenPath(GetParam().model);
    }
  }

  static std::vector<SequenceRequest> Requests() {
    std::vector<SequenceRequest> requests = EveryPolicy();
    // Below their budgets drafts score.
    EvictionPolicy scored = kSwapH2o;
    scored.heavy = 60;
    const EvictionPolicy decayed = {.evicts = true, .heavy = 40, .recent = 20, .square = true, .decay = 15.0f / 16};
    const auto add = [&](const EvictionPolicy& policy, int32_t prompt, int32_t beta) {
      std::vector<int32_t> ids(static_cast<size_t>(prompt));
      for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(3 + (i * i + 5 * i) % 190);
      SequenceRequest request = With(Greedy(requests.size() + 1, std::move(ids), 40), policy, beta);
      request.logprobs = 1;
      requests.push_back(std::move(request));
    };
    add(scored, 20, 0);
    add(decayed, 12, 0);
    add(decayed, 66, 16);
    add(Rolling(scored), 20, 0);
    add(Pinning(scored), 31, 0);
    add(Pinning(decayed), 70, 16);
    add(EvictionPolicy(), 60, 0);
    // At their budgets a draft may overwrite another one, and two threads share one attention.
    add({.evicts = true, .heavy = 9, .recent = 1}, 30, 0);
    add(Rolling({.evicts = true, .heavy = 9, .recent = 1}), 30, 0);
    if (!GetParam().family) add({.evicts = true, .heavy = 330, .recent = 10}, 400, 0);
    for (SequenceRequest& request : requests) {
      request.request.session = request.request.id;
      request.request.turn = 1;
    }
    return requests;
  }

  Outcome Run(Guesses guesses, const Outcome* truth, int32_t threads = 2, bool together = false) const {
    EngineHarness harness(path_, {.dtype = GetParam().dtype,
                                  .kv_type = GetParam().kv_type,
                                  .threads = threads,
                                  .blocks = 400,
                                  .sequences_max = 32,
                                  .parked_blocks_max = 400,
                                  .drafts_max = guesses == Guesses::kNone ? 0 : 40});
    Outcome outcome;
    std::vector<SequenceRequest> requests = Requests();
    for (size_t i = 0; i < requests.size() && guesses != Guesses::kNone; ++i) {
      const std::vector<int32_t> answer = truth->generations[i].tokens();
      requests[i].drafter = std::make_shared<ScriptedDrafter>(guesses, answer, &outcome.drafted);
      if (guesses == Guesses::kNgram) {
        requests[i].drafter = std::make_shared<NgramDrafter>(
            NgramOptions{.tokens = kScriptedDrafts, .lookup_max = 3, .lookup_min = 1}, requests[i].request.prompt);
      }
    }
    if (together) outcome.generations = harness.Run(requests);
    // One after the other, so that each has room for all its drafts.
    for (size_t i = 0; i < requests.size() && !together; ++i) {
      outcome.generations.push_back(harness.RunOne(requests[i]));
    }
    for (const SequenceRequest& request : requests) {
      const KvBytes kv = harness.Parked({request.request.session, 1});
      outcome.parked.emplace_back(kv.view().begin(), kv.view().end());
      EXPECT_FALSE(kv.empty()) << request.request.id;
    }
    for (const TenantCounters& tenant : harness.engine().counters().tenants) outcome.charged.push_back(tenant.charged);
    outcome.counters = harness.engine().scheduler().counters();
    outcome.step_tokens = harness.step_tokens();
    const auto& evicted = harness.engine().counters().evicted_tokens;
    outcome.evicted.assign(evicted.begin(), evicted.end());
    EXPECT_TRUE(harness.engine().scheduler().CheckIntegrity().ok());
    return outcome;
  }

  static void ExpectSame(const Outcome& outcome, const Outcome& truth, const std::string& what) {
    SCOPED_TRACE(what);
    for (size_t i = 0; i < truth.generations.size(); ++i) {
      SCOPED_TRACE("request " + std::to_string(i + 1));
      const Generation& got = outcome.generations[i];
      const Generation& expected = truth.generations[i];
      EXPECT_EQ(got.tokens(), expected.tokens());
      EXPECT_EQ(got.finish, expected.finish);
      EXPECT_EQ(got.live, expected.live);
      EXPECT_EQ(got.evicted, expected.evicted);
      for (size_t t = 0; t < std::min(got.sampled.size(), expected.sampled.size()); ++t) {
        EXPECT_EQ(got.sampled[t].logprob, expected.sampled[t].logprob) << "token " << t;
      }
      EXPECT_TRUE(outcome.parked[i] == truth.parked[i]) << "keys, values, scores or positions differ";
    }
    EXPECT_EQ(outcome.charged, truth.charged) << "tenants pay for what they get";
    EXPECT_EQ(outcome.step_tokens, truth.step_tokens) << "a token is of a step, however it came";
    EXPECT_EQ(outcome.counters.generated_tokens, truth.counters.generated_tokens);
    EXPECT_EQ(outcome.counters.evicted_tokens, truth.counters.evicted_tokens);
    EXPECT_EQ(outcome.evicted, truth.evicted);
  }

  const TempDir dir_;
  std::string path_;
};

TEST_P(Drafts, ChangeNoBit) {
  const Outcome truth = Run(Guesses::kNone, nullptr);
  const Outcome right = Run(Guesses::kRight, &truth);
  ExpectSame(right, truth, "always right");
  EXPECT_GT(right.drafted.right, 200);
  EXPECT_EQ(right.drafted.right, right.drafted.computed);
  EXPECT_LT(right.counters.steps, truth.counters.steps / 4) << "at budgets, too";
  const Outcome wrong = Run(Guesses::kWrong, &truth);
  ExpectSame(wrong, truth, "never right");
  EXPECT_EQ(wrong.drafted.right, 0);
  EXPECT_GT(wrong.drafted.computed, 500);
  EXPECT_EQ(wrong.counters.steps, truth.counters.steps);
  const Outcome random = Run(Guesses::kRandom, &truth);
  ExpectSame(random, truth, "random");
  EXPECT_LT(random.drafted.right, random.drafted.computed);
  EXPECT_GT(random.drafted.right, 50);
  EXPECT_EQ(static_cast<int32_t>(random.counters.drafts_accepted), random.drafted.right);
  EXPECT_EQ(static_cast<int32_t>(random.counters.draft_tokens), random.drafted.computed);
  ExpectSame(Run(Guesses::kWrongAtTheEnd, &truth), truth, "wrong at the end");
  ExpectSame(Run(Guesses::kNgram, &truth), truth, "n-grams");
  ExpectSame(Run(Guesses::kRandom, &truth, /*threads=*/1), truth, "one thread");
  ExpectSame(Run(Guesses::kRandom, &truth, /*threads=*/5), truth, "more threads than heads");
  const Outcome together = Run(Guesses::kRandom, &truth, /*threads=*/2, /*together=*/true);
  ExpectSame(together, truth, "several in a step");
  EXPECT_GT(together.drafted.right, 50);
}

INSTANTIATE_TEST_SUITE_P(
    Models, Drafts,
    testing::Values(Case{"gqa_untied", DType::kF32}, Case{"gqa_tied", DType::kBF16},
                    Case{"gqa_untied", DType::kF32, KvType::kInt8}, Case{"gqa_untied", DType::kF32, KvType::kF16},
                    Case{"gemma3_text", DType::kF32, {}, /*family=*/true}),
    [](const auto& tested) {
      const std::optional<KvType> type = tested.param.kv_type;
      return std::string(tested.param.model) + (type == KvType::kInt8 ? "_int8" : type == KvType::kF16 ? "_f16" : "");
    });

// Ends inside what was right: what comes behind them is not there.
class DraftEnds : public testing::Test {
 protected:
  struct Ending {
    const char* name;
    std::function<void(SequenceRequest&, const std::vector<int32_t>& answer)> end;
  };

  static Generation Run(const EvictionPolicy& policy, const Ending& ending, const std::vector<int32_t>& answer,
                        bool drafts, std::vector<std::byte>* parked) {
    EngineHarness harness(GoldenPath("gqa_untied"), {.parked_blocks_max = 64, .drafts_max = drafts ? 8 : 0});
    std::vector<int32_t> prompt = {9, 4, 2, 77, 31, 8, 8, 140, 3, 5, 60, 61};
    SequenceRequest request = With(Greedy(1, prompt, 40), policy);
    request.logprobs = 0;
    request.request.session = request.request.turn = 1;
    if (!answer.empty()) ending.end(request, answer);
    Drafted drafted;
    if (drafts) request.drafter = std::make_shared<ScriptedDrafter>(Guesses::kPastTheEnd, answer, &drafted);
    Generation generation = harness.RunOne(request);
    const KvBytes kv = harness.Parked({1, 1});
    parked->assign(kv.view().begin(), kv.view().end());
    return generation;
  }

  static void Compare(const EvictionPolicy& policy) {
    const Ending none{"none", [](SequenceRequest&, const std::vector<int32_t>&) {}};
    std::vector<std::byte> unused;
    const std::vector<int32_t> answer = Run(policy, none, {}, false, &unused).tokens();
    ASSERT_EQ(answer.size(), 40u);
    for (int32_t at = 1; at <= 20; at += at < 9 ? 1 : 3) {
      const Ending endings[] = {
          {"max_tokens", [=](SequenceRequest& request, const auto&) { request.request.max_tokens = at; }},
          {"stop token",
           [=](SequenceRequest& request, const auto& text) {
             request.request.stop_token_ids = {text[static_cast<size_t>(at)]};
             request.request.min_tokens = at / 2;
           }},
          {"text",
           [=](SequenceRequest& request, const auto&) { request.end_finder = std::make_shared<TextEndsAfter>(at); }}};
      for (const Ending& ending : endings) {
        SCOPED_TRACE(ending.name + std::to_string(at));
        std::vector<std::byte> with, without;
        const Generation expected = Run(policy, ending, answer, false, &without);
        const Generation got = Run(policy, ending, answer, true, &with);
        EXPECT_EQ(got.tokens(), expected.tokens());
        EXPECT_EQ(got.finish, expected.finish);
        EXPECT_EQ(got.live, expected.live);
        EXPECT_TRUE(with == without);
      }
    }
  }
};

// Below the budget and at it.
TEST_F(DraftEnds, AreWhereTheyAreWithout) {
  for (const EvictionPolicy& policy : {EvictionPolicy{.evicts = true, .heavy = 60, .recent = 30},
                                       EvictionPolicy{.evicts = true, .heavy = 7, .recent = 3}}) {
    SCOPED_TRACE(policy.heavy);
    Compare(policy);
  }
}

}  // namespace
}  // namespace hydrant
