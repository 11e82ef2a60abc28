// A prefix taken from the cache must not change a bit of what follows, whatever the policy, and whoever else is there.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/engine/engine_harness.h"
#include "tests/model/checkpoint/family_checkpoint.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

struct Policy {
  const char* name;
  EvictionPolicy policy;
  int32_t beta = 0;
  bool hits = true;
  int32_t stride = 0;
};

std::vector<Policy> Policies() {
  EvictionPolicy h2o{.evicts = true, .heavy = 24, .recent = 16};
  EvictionPolicy first = h2o, mean_square = h2o, sinks = h2o, last_rows = h2o, decayed = h2o, long_budget = h2o,
                 rolling = h2o;
  first.gqa_reduce = GqaReduce::kFirst;
  mean_square.gqa_reduce = GqaReduce::kMean;
  mean_square.square = true;
  sinks.score_source = ScoreSource::kNone;
  last_rows.score_rows = 20;
  last_rows.decay = 15.0f / 16;
  last_rows.square = true;
  last_rows.pool_width = 5;
  decayed.decay = 127.0f / 128;
  long_budget.heavy = 100;
  long_budget.recent = 40;
  rolling.rolling = true;
  return {{"full", EvictionPolicy()},
          {"h2o", h2o},
          {"h2o_periodic", h2o, 20},
          {"h2o_evicts_while_it_decodes", long_budget},
          {"h2o_evicts_while_it_decodes_periodic", long_budget, 12},
          {"first_head", first},
          {"mean_of_squares", mean_square},
          {"sinks", sinks},
          {"last_rows", last_rows},
          {"rolling", rolling},
          {"rolling_periodic", rolling, 20},
          {"decay_over_all_rows", decayed, 0, /*hits=*/false},
          {"budgeted", h2o, 0, /*hits=*/true, /*stride=*/80},
          {"rolling_budgeted", rolling, 0, /*hits=*/true, /*stride=*/80},
          {"pins", Pinning(h2o)},
          {"pins_periodic", Pinning(h2o), 20}};
}

std::vector<int32_t> PromptIds(std::mt19937& random, int32_t length) {
  std::vector<int32_t> ids(static_cast<size_t>(length));
  for (int32_t& id : ids) id = std::uniform_int_distribution<int32_t>(2, 255)(random);
  return ids;
}

// Prompts that share beginnings of several lengths with each other, among them equal ones and one that is a beginning.
std::vector<std::vector<int32_t>> Prompts() {
  std::mt19937 random(17);
  const std::vector<int32_t> common = PromptIds(random, 130);
  std::vector<std::vector<int32_t>> prompts;
  for (int32_t shared : {130, 128, 96, 81, 40, 16}) {
    prompts.emplace_back(common.begin(), common.begin() + shared);
    const std::vector<int32_t> tail = PromptIds(random, shared == 130 ? 3 : 20);
    prompts.back().insert(prompts.back().end(), tail.begin(), tail.end());
  }
  prompts.push_back(prompts.front());
  prompts.emplace_back(common.begin(), common.begin() + 112);
  return prompts;
}

void ExpectSame(const Generation& warm, const Generation& cold, const std::string& what) {
  SCOPED_TRACE(what);
  ASSERT_EQ(warm.tokens(), cold.tokens());
  for (size_t i = 0; i < warm.sampled.size(); ++i) EXPECT_EQ(warm.sampled[i].logprob, cold.sampled[i].logprob);
  EXPECT_EQ(warm.live, cold.live);
  EXPECT_EQ(warm.evicted, cold.evicted);
  EXPECT_EQ(warm.finish, cold.finish);
}

struct Setting {
  const char* model;
  DType dtype;
  std::optional<KvType> kv_type = {};
};

class PrefixCache : public testing::TestWithParam<Setting> {
 protected:
  HarnessOptions Options(int32_t blocks, int32_t spare_score_blocks) const {
    return {.dtype = GetParam().dtype,
            .kv_type = GetParam().kv_type,
            .threads = 2,
            .blocks = blocks,
            .spare_score_blocks = spare_score_blocks};
  }
  std::vector<SequenceRequest> Requests(const Policy& policy) const {
    std::vector<SequenceRequest> requests;
    for (const std::vector<int32_t>& prompt : Prompts()) {
      SequenceRequest request = With(Greedy(requests.size() + 1, prompt, 18), policy.policy, policy.beta);
      request.request.budget.prompt_stride = policy.stride;
      request.logprobs = 0;
      requests.push_back(request);
    }
    return requests;
  }
  // Each alone in an empty cache.
  std::vector<Generation> Cold(const std::vector<SequenceRequest>& requests) const {
    EngineHarness harness(model_, Options(64, 0));
    std::vector<Generation> cold;
    for (const SequenceRequest& request : requests) cold.push_back(harness.RunOne(request));
    return cold;
  }

  std::string model_ = GoldenPath(GetParam().model);

  void ExpectHitsToChangeNothing(const Policy& policy) const {
    const std::vector<SequenceRequest> requests = Requests(policy);
    const std::vector<Generation> cold = Cold(requests);
    EngineHarness harness(model_, Options(200, 400));
    int32_t cached = 0;
    for (size_t i = 0; i < requests.size(); ++i) {
      const Generation warm = harness.RunOne(Sharing(requests[i]));
      ExpectSame(warm, cold[i], std::string(policy.name) + ", request " + std::to_string(i));
      cached += warm.cached;
      EXPECT_LT(warm.cached, static_cast<int32_t>(requests[i].request.prompt.size()));
    }
    EXPECT_EQ(cached > 200, policy.hits) << policy.name << " took over " << cached << " tokens";
    EXPECT_EQ(harness.engine().counters().scheduler.prefix_hits, static_cast<uint64_t>(cached));
  }
  void ExpectCompanyToChangeNothing() const;
};

TEST_P(PrefixCache, AHitChangesNothing) {
  for (const Policy& policy : Policies()) ExpectHitsToChangeNothing(policy);
}

// A next turn says the answer of the one before. Decoding computed its keys and values, whose last bits are others than a prompt's:
// who wants the answer of a cold run takes none of them, and nothing that was computed behind them.
TEST_P(PrefixCache, WhatWasDecodedIsTakenByWhoMayAlone) {
  EvictionPolicy sinks{.evicts = true, .heavy = 100, .recent = 100, .score_source = ScoreSource::kNone};
  for (const EvictionPolicy& policy : {EvictionPolicy(), sinks}) {
    EngineHarness harness(model_, Options(200, 400));
    std::mt19937 random(29);
    const std::vector<int32_t> said = PromptIds(random, 60);
    uint64_t id = 1;
    const auto ask = [&](const std::vector<int32_t>& prompt, bool takes_generated) {
      SequenceRequest request = With(Greedy(id++, prompt, 40), policy);
      request.logprobs = 0;
      request = Sharing(request);
      request.request.prefix.takes_generated = takes_generated;
      return harness.RunOne(request);
    };
    std::vector<int32_t> next = said;
    const std::vector<int32_t> answer = ask(said, true).tokens();
    next.insert(next.end(), answer.begin(), answer.end());
    next.insert(next.end(), {7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20});
    EXPECT_EQ(ask(next, true).cached, 96);
    const Generation warm = ask(next, false);
    EXPECT_EQ(warm.cached, 48);
    EngineHarness empty(model_, Options(64, 0));
    SequenceRequest cold = With(Greedy(1, next, 40), policy);
    cold.logprobs = 0;
    ExpectSame(warm, empty.RunOne(cold), policy.evicts ? "sinks" : "full");
    EXPECT_EQ(ask(next, false).cached, 112) << "what a prompt computed stands beside what was decoded";
  }
}

// Blocks of codes and scales are shared and copied as they are.
class PrefixCacheInInt8 : public PrefixCache {};

TEST_P(PrefixCacheInInt8, AHitChangesNothing) { ExpectHitsToChangeNothing(Policies()[1]); }

INSTANTIATE_TEST_SUITE_P(Models, PrefixCacheInInt8, testing::Values(Setting{"gqa_tied", DType::kF32, KvType::kInt8}),
                         [](const auto& setting) { return std::string(setting.param.model); });

// All at once and in random order, in a pool that is too small for what they leave behind: hits, revivals, lost blocks,
// dropped snapshots and several owners of one block, all policies mixed.
void PrefixCache::ExpectCompanyToChangeNothing() const {
  std::vector<SequenceRequest> requests;
  for (const Policy& policy : Policies()) {
    for (SequenceRequest& request : Requests(policy)) requests.push_back(request);
  }
  for (size_t i = 0; i < requests.size(); ++i) requests[i].request.id = i + 1;
  const std::vector<Generation> cold = Cold(requests);
  for (SequenceRequest& request : requests) request = Sharing(request);
  std::mt19937 random(23);
  for (const auto& [blocks, score_blocks] : {std::pair{200, 400}, std::pair{40, 60}, std::pair{20, 20}}) {
    EngineHarness harness(model_, Options(blocks, score_blocks));
    std::vector<int> arrivals(requests.size());
    for (int& arrival : arrivals) arrival = static_cast<int>(random() % 200);
    const std::vector<Generation> warm = harness.Run(requests, arrivals);
    uint64_t cached = 0;
    for (size_t i = 0; i < requests.size(); ++i) {
      ExpectSame(warm[i], cold[i], std::to_string(blocks) + " blocks, request " + std::to_string(i));
      cached += static_cast<uint64_t>(warm[i].cached);
    }
    EXPECT_GT(cached, 0u);
    EXPECT_EQ(harness.engine().counters().scheduler.prefix_hits, cached);
    EXPECT_TRUE(harness.engine().scheduler().CheckIntegrity().ok());
  }
}

TEST_P(PrefixCache, NeitherDoCompanyNorAPoolThatIsTooSmall) { ExpectCompanyToChangeNothing(); }

TEST_P(PrefixCache, PromptLogProbabilitiesAreComputedInFull) {
  EngineHarness harness(model_, Options(64, 64));
  std::vector<SequenceRequest> requests = Requests(Policies()[0]);
  harness.RunOne(Sharing(requests[0]));
  requests[0].prompt_logprobs = 0;
  requests[0].request.id = 100;
  const Generation scored = harness.RunOne(Sharing(requests[0]));
  EXPECT_EQ(scored.cached, 0);
  EXPECT_EQ(scored.prompt.size(), requests[0].request.prompt.size() - 1);
}

TEST_P(PrefixCache, OtherSaltsSeeNothing) {
  EngineHarness harness(model_, Options(64, 64));
  std::vector<SequenceRequest> requests = Requests(Policies()[1]);
  harness.RunOne(Sharing(requests[0], {1, 1}));
  requests[0].request.id = 100;
  EXPECT_EQ(harness.RunOne(Sharing(requests[0], {1, 2})).cached, 0);
  EXPECT_GT(harness.RunOne(Sharing(requests[0], {1, 1})).cached, 0);
}

// Keys before rotation and after it are not the same keys.
TEST_P(PrefixCache, RollingAndAbsoluteRequestsSeeNothingOfEachOther) {
  EngineHarness harness(model_, Options(64, 64));
  EvictionPolicy policy = Policies()[1].policy;
  auto run = [&, id = uint64_t{1}](bool rolling) mutable {
    policy.rolling = rolling;
    return harness.RunOne(Sharing(With(Greedy(id++, Prompts()[0], 8), policy))).cached;
  };
  EXPECT_EQ(run(false), 0);
  EXPECT_EQ(run(true), 0);
  EXPECT_GT(run(false), 0);
  EXPECT_GT(run(true), 0);
}

// Attention in windows asks for the positions of shared blocks, whoever wrote them, and snapshots end within a window.
class PrefixCacheInWindows : public PrefixCache {
 protected:
  PrefixCacheInWindows() {
    FamilyCheckpoint(GetParam().model).WriteTo(dir_.path(), "F32");
    model_ = dir_.path();
  }
  const TempDir dir_;
};

TEST_P(PrefixCacheInWindows, AHitChangesNothing) {
  for (const Policy& policy : Policies()) ExpectHitsToChangeNothing(policy);
}

TEST_P(PrefixCacheInWindows, NeitherDoCompanyNorAPoolThatIsTooSmall) { ExpectCompanyToChangeNothing(); }

INSTANTIATE_TEST_SUITE_P(Models, PrefixCacheInWindows, testing::Values(Setting{"gemma3_text", DType::kF32}),
                         [](const auto& setting) { return std::string(setting.param.model); });

INSTANTIATE_TEST_SUITE_P(Models, PrefixCache,
                         testing::Values(Setting{"gqa_untied", DType::kF32}, Setting{"gqa_tied", DType::kBF16}),
                         [](const auto& setting) { return std::string(setting.param.model); });

}  // namespace
}  // namespace hydrant
