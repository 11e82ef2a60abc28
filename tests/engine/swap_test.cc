// A sequence that is swapped out between any two steps and back to other blocks and another state row goes on bit for bit.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/engine_harness.h"
#include "tests/engine/every_policy.h"
#include "tests/engine/scripted_drafter.h"
#include "tests/engine/swapping_executor.h"

namespace hydrant {
namespace {

struct Cache {
  const char* name;
  const char* model;
  DType dtype;
  KvType kv_type;
};

class Swaps : public testing::TestWithParam<Cache> {
 protected:
  struct Run {
    std::vector<Generation> generations;
    SwapRecord record;
    uint64_t shrinks = 0, restores = 0, prefix_hits = 0;
  };

  // Batches one after the other on one engine. `swaps.seed` 0: nobody is swapped.
  static Run RunAll(const std::vector<std::vector<SequenceRequest>>& batches, SwapOptions swaps,
                    HarnessOptions options = {}, const std::vector<int>& arrivals = {}) {
    Run run;
    options.dtype = GetParam().dtype;
    options.kv_type = GetParam().kv_type;
    options.overlap = false;
    options.threads = 1;
    if (options.swap_blocks == 0) options.swap_blocks = 2 * options.blocks;
    options.prefill_tokens_max = 32;
    swaps.blocks = options.blocks;
    swaps.state_rows = options.sequences_max;
    options.around = [&](Executor& inner) { return std::make_unique<SwappingExecutor>(inner, swaps, &run.record); };
    EngineHarness harness(GoldenPath(GetParam().model), options);
    for (const std::vector<SequenceRequest>& batch : batches) {
      const std::vector<Generation> generations = harness.Run(batch, arrivals);
      run.generations.insert(run.generations.end(), generations.begin(), generations.end());
    }
    const SchedulerCounters& counters = harness.engine().counters().scheduler;
    run.shrinks = counters.shrinks;
    run.restores = counters.restores;
    run.prefix_hits = counters.prefix_hits;
    return run;
  }

  static void ExpectSame(const Run& swapped, const Run& stayed, bool with_drafts = false) {
    ASSERT_EQ(swapped.generations.size(), stayed.generations.size());
    for (size_t i = 0; i < stayed.generations.size(); ++i) {
      SCOPED_TRACE("request " + std::to_string(i + 1));
      const Generation &a = swapped.generations[i], &b = stayed.generations[i];
      EXPECT_EQ(a.finish, b.finish);
      ASSERT_EQ(a.tokens(), b.tokens());
      for (size_t t = 0; t < b.sampled.size(); ++t) {
        ASSERT_EQ(a.sampled[t].logprob, b.sampled[t].logprob) << "token " << t;
        ASSERT_EQ(a.sampled[t].top.size(), b.sampled[t].top.size());
        for (size_t k = 0; k < b.sampled[t].top.size(); ++k) {
          ASSERT_EQ(a.sampled[t].top[k].logprob, b.sampled[t].top[k].logprob) << "token " << t;
        }
      }
    }
    // After the steps of a run with drafts, which are fewer.
    if (!with_drafts) {
      ASSERT_EQ(swapped.record.scores.size(), stayed.record.scores.size());
    }
    for (const auto& [at, digest] : stayed.record.scores) {
      const auto found = swapped.record.scores.find(at);
      if (with_drafts && found == swapped.record.scores.end()) continue;
      ASSERT_TRUE(found != swapped.record.scores.end());
      ASSERT_EQ(found->second, digest) << "scores of request " << at.first << " after " << at.second << " tokens";
    }
  }
};

TEST_P(Swaps, OfSomeBetweenAnyTwoStepsChangeNoBit) {
  const std::vector<std::vector<SequenceRequest>> batch = {EveryPolicy()};
  const Run stayed = RunAll(batch, {});
  EXPECT_EQ(stayed.record.swapped, 0u);
  for (const int32_t slice : {0, 2}) {
    const Run swapped = RunAll(batch, {.seed = 5, .one_in = 3, .slice = slice});
    EXPECT_GT(swapped.record.swapped, 100u);
    EXPECT_EQ(swapped.record.failures, 0u);
    ExpectSame(swapped, stayed);
  }
}

// What wrong drafts have overwritten is back, and the victims, before a sequence leaves.
TEST_P(Swaps, BehindRowsWithDraftsChangeNoBit) {
  if (!MakeHarnessDevice(1)->TakesDrafts()) GTEST_SKIP() << "no row has any";
  std::vector<SequenceRequest> requests = EveryPolicy();
  const Run stayed = RunAll({requests}, {});
  Drafted drafted;
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].drafter = std::make_shared<ScriptedDrafter>(Guesses::kRandom, stayed.generations[i].tokens(), &drafted);
  }
  HarnessOptions options;
  options.drafts_max = 80;
  const Run swapped = RunAll({requests}, {.seed = 5, .one_in = 2}, options);
  EXPECT_GT(drafted.right, 50);
  EXPECT_GT(drafted.computed, drafted.right + 50);
  EXPECT_GT(swapped.record.swapped, 50u);
  ExpectSame(swapped, stayed, /*with_drafts=*/true);
}

// Where there is room for some only, the others stay, as they were.
TEST_P(Swaps, WithoutRoomLeaveASequenceAsItWas) {
  const std::vector<std::vector<SequenceRequest>> batch = {EveryPolicy()};
  HarnessOptions options;
  options.swap_blocks = 6;
  const Run swapped = RunAll(batch, {.seed = 7, .one_in = 2}, options);
  EXPECT_GT(swapped.record.failures, 20u);
  EXPECT_GT(swapped.record.swapped, 20u);
  ExpectSame(swapped, RunAll(batch, {}));
}

TEST_P(Swaps, AfterEveryStepOfOneAloneChangeNoBit) {
  std::vector<std::vector<SequenceRequest>> one_by_one;
  for (const SequenceRequest& request : EveryPolicy()) one_by_one.push_back({request});
  const Run swapped = RunAll(one_by_one, {.seed = 3});
  EXPECT_GT(swapped.record.swapped, 13u * 28u);
  ExpectSame(swapped, RunAll(one_by_one, {}));
}

// Four fill a pool of 16 blocks; two of them agreed to give way to those who come later.
TEST_P(Swaps, OfSequencesWhoseBudgetsFallChangeNoBit) {
  constexpr EvictionPolicy kLarge{.evicts = true, .heavy = 32, .recent = 31};
  EvictionPolicy sinks = kLarge;
  sinks.score_source = ScoreSource::kNone;
  const EvictionPolicy policies[] = {kLarge, kLarge, Rolling(sinks), Rolling(kLarge), kLarge, EvictionPolicy()};
  const std::vector<int> arrivals = {0, 0, 0, 0, 40, 45};
  std::vector<SequenceRequest> requests;
  for (const EvictionPolicy& policy : policies) {
    const uint64_t id = requests.size() + 1;
    std::vector<int32_t> ids(id <= 4 ? 59 + id : 17);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(2 + (i * i + 7 * id * i) % 250);
    requests.push_back(With(Greedy(id, ids, id <= 4 ? 100 : 20), policy));
    requests.back().sampling.key = id;
    requests.back().logprobs = 0;
    if (id == 2 || id == 3) requests.back().request.budget.floor = 20;
  }
  HarnessOptions options;
  options.blocks = 16;
  const Run stayed = RunAll({requests}, {}, options, arrivals);
  EXPECT_GT(stayed.shrinks, 0u);
  ExpectSame(RunAll({requests}, {.seed = 9, .one_in = 2, .slice = 1}, options, arrivals), stayed);
}

// What was swapped is parked, and what comes back from there is swapped.
TEST_P(Swaps, OfTurnsOfASessionChangeNoBit) {
  for (const EvictionPolicy& policy : {kSwapH2o, Rolling(kSwapH2o)}) {
    std::vector<int32_t> history;
    std::vector<std::vector<SequenceRequest>> turns;
    for (uint64_t turn = 1; turn <= 3; ++turn) {
      // What it says is given, so that the next turn's history is known.
      for (int32_t i = 0; i < 30; ++i) history.push_back(2 + (i * 31 + static_cast<int32_t>(turn) * 17) % 250);
      SequenceRequest request = With(Greedy(turn, history, 12), policy);
      for (int32_t i = 0; i < 12; ++i) request.forced_ids.push_back(3 + i * 5);
      history.insert(history.end(), request.forced_ids.begin(), request.forced_ids.end());
      request.sampling.key = turn;
      request.logprobs = 1;
      request.request.session = 7;
      request.request.turn = turn;
      request.request.resumes = turn - 1;
      turns.push_back({request});
    }
    HarnessOptions options;
    options.parked_blocks_max = 64;
    const Run stayed = RunAll(turns, {}, options);
    EXPECT_EQ(stayed.restores, 2u);
    ExpectSame(RunAll(turns, {.seed = 11}, options), stayed);
  }
}

// What it took from the prefix cache leaves with it.
TEST_P(Swaps, OfASequenceThatBeganWithACachedPrefixChangeNoBit) {
  std::vector<std::vector<SequenceRequest>> one_by_one;
  EvictionPolicy large = kSwapH2o;
  large.heavy = 84;  // full while it decodes
  for (const EvictionPolicy& policy : {EvictionPolicy(), kSwapH2o, large}) {
    for (int32_t twin = 0; twin < 2; ++twin) {
      std::vector<int32_t> ids(70);
      for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(2 + (i * i + 5 * i) % 250);
      for (int32_t i = 0; i < 6; ++i) ids.push_back(3 + twin * 100 + i);
      const uint64_t id = one_by_one.size() + 1;
      SequenceRequest request = Sharing(With(Greedy(id, std::move(ids), 24), policy));
      request.sampling.key = id;
      request.logprobs = 1;
      one_by_one.push_back({request});
    }
  }
  HarnessOptions options;
  options.spare_score_blocks = 64;
  const Run stayed = RunAll(one_by_one, {}, options);
  EXPECT_GE(stayed.prefix_hits, 3u);
  ExpectSame(RunAll(one_by_one, {.seed = 13}, options), stayed);
}

// A sequence that shares blocks with others has its scores beside them. It comes back to blocks and scores of its own.
TEST_P(Swaps, BringScoresThatStoodBesideSharedBlocksToItsOwn) {
  const auto checkpoint = Checkpoint::Open(GoldenPath(GetParam().model)).value();
  const auto device = MakeHarnessDevice(1);
  const auto executor = ModelExecutor::Create(*checkpoint, *device,
                                              {.weights = {GetParam().dtype},
                                               .kv_type = GetParam().kv_type,
                                               .blocks = 8,
                                               .spare_score_blocks = 2,
                                               .sequences_max = 2,
                                               .batch_tokens_max = 32,
                                               .context_max = 64,
                                               .swap_blocks = 2})
                            .value();
  const auto run = [&](const StepInput& input) { return executor->Run(input); };
  const auto scores_in = [&](const std::vector<int32_t>& score_blocks) {
    KvScores read;
    StepInput input;
    input.reads.push_back({.live = 32, .score_blocks = score_blocks, .out = &read});
    run(input);
    return std::pair(read.scores, read.positions);
  };
  const std::vector<int32_t> blocks = {3, 0}, beside = {9, 8}, back = {5, 6}, prompt(32, 7);
  const EvictionPolicy policy = kSwapH2o;
  StepInput input;
  StepRow& row = input.rows.emplace_back();
  row.tokens = prompt;
  row.prompt_length = 40;  // there is more of it
  row.prefill = true;
  row.block_table = blocks;
  row.score_table = beside;
  row.policy = &policy;
  run(input);
  const auto before = scores_in(beside);
  EXPECT_NE(before, scores_in(blocks));

  input.clear();
  input.swap_outs.push_back({{.id = 1, .begins = true, .live = 32, .state_row = 0, .slice = {0, 2}}, blocks, beside});
  EXPECT_TRUE(run(input).swap_failures.empty());
  EXPECT_EQ(executor->swapped().blocks(), 2);
  input.swap_outs[0].id = 2;
  EXPECT_EQ(run(input).swap_failures, std::vector<uint64_t>{2}) << "there is no room for another";
  input.clear();
  input.swap_ins.push_back({{.id = 1, .live = 32, .state_row = 1, .slice = {0, 2}}, back});
  run(input);
  EXPECT_EQ(scores_in(back), before);
  EXPECT_EQ(executor->swapped().size(), 0);
}

INSTANTIATE_TEST_SUITE_P(Caches, Swaps,
                         testing::Values(Cache{"fp32", "gqa_untied", DType::kF32, KvType::kF32},
                                         Cache{"bf16", "gqa_tied", DType::kBF16, KvType::kBF16},
                                         Cache{"int8", "mha_untied", DType::kBF16, KvType::kInt8}),
                         [](const auto& cache) { return cache.param.name; });

}  // namespace
}  // namespace hydrant
