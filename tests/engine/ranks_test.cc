// A model on several ranks is the model on one: tokens, log-probabilities, scores, victims and what leaves for the host, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/parallel/cpu_ranks.h"
#include "kernels/parallel/shared_memory_collective.h"
#include "tests/engine/engine_harness.h"
#include "tests/engine/every_policy.h"
#include "tests/engine/swapping_executor.h"
#include "tests/model/checkpoint/family_checkpoint.h"
#include "tests/support/golden_file.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

// 1: the device without ranks, which the others are held to.
std::function<std::unique_ptr<Device>(int)> OnRanks(int ranks) {
  if (ranks == 1) return MakeHarnessDevice;
  return [ranks](int threads) -> std::unique_ptr<Device> { return MakeCpuRanks(ranks, {.threads = threads}).value(); };
}

void ExpectSameBits(const std::vector<SampleResult>& a, const std::vector<SampleResult>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < b.size(); ++i) {
    ASSERT_EQ(a[i].id, b[i].id) << i;
    ASSERT_EQ(a[i].logprob, b[i].logprob) << i;
    ASSERT_EQ(a[i].top.size(), b[i].top.size());
    for (size_t k = 0; k < b[i].top.size(); ++k) ASSERT_EQ(a[i].top[k].logprob, b[i].top[k].logprob) << i;
  }
}

void ExpectSameBits(const std::vector<Generation>& a, const std::vector<Generation>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < b.size(); ++i) {
    SCOPED_TRACE("request " + std::to_string(i + 1));
    EXPECT_EQ(a[i].finish, b[i].finish);
    EXPECT_EQ(a[i].live, b[i].live);
    EXPECT_EQ(a[i].budget, b[i].budget);
    EXPECT_EQ(a[i].evicted, b[i].evicted);
    ExpectSameBits(a[i].sampled, b[i].sampled);
    ExpectSameBits(a[i].prompt, b[i].prompt);
  }
}

struct RankedModel {
  const char* model;
  DType dtype;
  KvType kv_type;
  int ranks;
};

class Ranks : public testing::TestWithParam<RankedModel> {};
INSTANTIATE_TEST_SUITE_P(Models, Ranks,
                         testing::Values(RankedModel{"gqa_untied", DType::kF32, KvType::kF32, 2},
                                         RankedModel{"gqa_tied", DType::kBF16, KvType::kBF16, 2},
                                         RankedModel{"mha_tied", DType::kF32, KvType::kF16, 3},
                                         RankedModel{"mha_untied", DType::kBF16, KvType::kInt8, 3}),
                         [](const auto& model) { return std::string(model.param.model); });

// Every policy and cadence, prompts in chunks; sequences are swapped out to the host and back between steps, and the scores and
// positions of each are looked at after each of its rows.
TEST_P(Ranks, GiveTheBitsOfOneUnderEveryPolicy) {
  std::vector<Generation> one;
  SwapRecord record_of_one;
  for (const int ranks : {1, GetParam().ranks}) {
    SwapRecord record;
    HarnessOptions options{.dtype = GetParam().dtype, .kv_type = GetParam().kv_type, .prefill_tokens_max = 32};
    options.swap_blocks = 2 * options.blocks;
    options.around = [&](Executor& inner) {
      const SwapOptions swaps{
          .blocks = options.blocks, .state_rows = options.sequences_max, .seed = 5, .one_in = 3, .slice = 2};
      return std::make_unique<SwappingExecutor>(inner, swaps, &record);
    };
    options.device = OnRanks(ranks);
    EngineHarness harness(GoldenPath(GetParam().model), options);
    std::vector<SequenceRequest> requests = EveryPolicy();
    requests[1].prompt_logprobs = 1;
    const std::vector<Generation> generations = harness.Run(requests);
    EXPECT_GT(record.swapped, 100u);
    if (ranks == 1) {
      one = generations;
      record_of_one = std::move(record);
      continue;
    }
    ExpectSameBits(generations, one);
    EXPECT_GT(record.scores.size(), 300u);
    EXPECT_TRUE(record.scores == record_of_one.scores) << "scores and positions";
  }
}

// A chat that moves between engines with other numbers of ranks, by what is parked of it.
TEST_P(Ranks, ParkAndRestoreWhatAnyNumberOfRanksCanReadAndHasWritten) {
  EvictionPolicy rolling = kSwapH2o;
  rolling.rolling = true;
  const int n = GetParam().ranks;
  for (const EvictionPolicy& policy : {EvictionPolicy(), kSwapH2o, rolling}) {
    KvBytes parked_by_one[3];
    std::vector<Generation> turns_of_one;
    for (const std::vector<int>& ranks_of_turns : {std::vector{1, 1, 1}, {n, 1, n}, {1, n, 1}}) {
      std::mt19937 random(29);
      std::vector<int32_t> history;
      std::vector<Generation> turns;
      KvBytes kv;
      for (uint64_t turn = 1; turn <= 3; ++turn) {
        HarnessOptions options{
            .dtype = GetParam().dtype, .kv_type = GetParam().kv_type, .blocks = 64, .parked_blocks_max = 64};
        options.device = OnRanks(ranks_of_turns[turn - 1]);
        EngineHarness harness(GoldenPath(GetParam().model), options);
        EXPECT_TRUE(turn == 1 || harness.engine().Adopt({7, turn - 1}, 0, kv));
        for (int i = 0; i < 40; ++i) history.push_back(std::uniform_int_distribution<int32_t>(2, 287)(random));
        SequenceRequest request = With(Greedy(turn, history, 14), policy);
        request.logprobs = 0;
        request.request.session = 7;
        request.request.turn = turn;
        request.request.resumes = turn - 1;
        if (policy.evicts) request.request.budget.turn_heavy = policy.heavy;
        turns.push_back(harness.RunOne(request));
        const std::vector<int32_t> answer = turns.back().tokens();
        history.insert(history.end(), answer.begin(), answer.end());
        EXPECT_EQ(turns.back().restored > 0, turn > 1);
        kv = harness.Parked({7, turn});
        ASSERT_FALSE(kv.empty());
        if (ranks_of_turns == std::vector{1, 1, 1}) {
          parked_by_one[turn - 1] = kv;
          continue;
        }
        ASSERT_EQ(kv.size, parked_by_one[turn - 1].size);
        EXPECT_EQ(std::memcmp(kv.bytes.get(), parked_by_one[turn - 1].bytes.get(), kv.size), 0) << "turn " << turn;
      }
      if (turns_of_one.empty()) turns_of_one = turns;
      ExpectSameBits(turns, turns_of_one);
    }
  }
}

// What cuts would cost is the mean over all ranks' heads; who gives way follows from it.
TEST_P(Ranks, LowerTheBudgetsThatOneLowers) {
  std::vector<Generation> one;
  for (const int ranks : {1, GetParam().ranks}) {
    EvictionPolicy h2o{.evicts = true, .heavy = 32, .recent = 31};
    std::mt19937 random(41);
    std::vector<SequenceRequest> requests;
    for (uint64_t id = 1; id <= 5; ++id) {
      std::vector<int32_t> ids(id < 5 ? 59 + id : 30);
      for (int32_t& token : ids) token = std::uniform_int_distribution<int32_t>(2, 287)(random);
      requests.push_back(With(Greedy(id, std::move(ids), id < 5 ? 90 : 40), h2o));
      requests.back().logprobs = 0;
      if (id == 2 || id == 3) requests.back().request.budget.floor = 20;
    }
    HarnessOptions options{.dtype = GetParam().dtype, .kv_type = GetParam().kv_type, .blocks = 16};
    options.device = OnRanks(ranks);
    EngineHarness harness(GoldenPath(GetParam().model), options);
    const std::vector<Generation> generations = harness.Run(requests, {0, 0, 0, 0, 30});
    EXPECT_GT(harness.engine().counters().scheduler.shrinks, 0u);
    if (ranks == 1) one = generations;
    ExpectSameBits(generations, one);
  }
}

// Those that have neither experts nor norms over all heads: biases, windows, soft caps, norms behind, learned positions, embeddings
// that are projected, residuals side by side.
TEST(RanksOfFamilies, GiveTheBitsOfOne) {
  const TempDir dir;
  int by_four = 0;
  for (const char* family : {"llama", "llama_biases", "qwen3", "opt", "opt_post_norm", "gpt_neox", "starcoder2",
                             "gemma2", "gemma3_text", "smollm3_windows", "phi3_longrope"}) {
    SCOPED_TRACE(family);
    const FamilyCheckpoint checkpoint(family);
    checkpoint.WriteTo(dir.path(), "F32");
    std::vector<SequenceRequest> requests;
    for (const auto& golden : checkpoint.golden().at("greedy").at("F32")) {
      requests.push_back(Greedy(requests.size() + 1, hydrant::Ids(golden.at("prompt_ids")), 12));
      requests.back().logprobs = requests.back().prompt_logprobs = 0;
    }
    const auto& h2o = checkpoint.golden().at("h2o").at(0);
    std::vector<Generation> one;
    Recorder recorder_of_one;
    for (const int ranks : {1, 2, 4}) {
      HarnessOptions options{.dtype = DType::kBF16, .tokens_max = 48, .prefill_tokens_max = 32};
      options.device = OnRanks(ranks);
      {
        const auto opened = Checkpoint::Open(dir.path());
        ASSERT_TRUE(opened.ok()) << opened.status();
        if ((*opened)->config.kv_heads % ranks != 0) continue;
      }
      SCOPED_TRACE(std::to_string(ranks) + " ranks");
      EngineHarness harness(dir.path(), options);
      const std::vector<Generation> generations = harness.Run(requests);
      Recorder recorder;
      options.dump = &recorder;
      EngineHarness inspected(dir.path(), options);
      inspected.RunOne(With(Greedy(1, hydrant::Ids(h2o.at("prompt_ids")), 20), PolicyOf(h2o.at("policy"))));
      EXPECT_FALSE(recorder.victims.empty());
      if (ranks == 1) {
        one = generations;
        recorder_of_one = std::move(recorder);
        continue;
      }
      if (ranks == 4) ++by_four;
      ExpectSameBits(generations, one);
      EXPECT_EQ(recorder.kept, recorder_of_one.kept);
      EXPECT_EQ(recorder.victims, recorder_of_one.victims);
    }
  }
  EXPECT_GT(by_four, 0) << "families";
}

// What ranks gather through, until one of them has no memory.
class FailingCollective final : public Collective {
 public:
  explicit FailingCollective(int ranks) : inner_(ranks) {}
  // Rank 1's call number `call` from now on throws.
  void FailAt(int call) { left_ = call; }

  void Reserve(size_t part_bytes) override { inner_.Reserve(part_bytes); }
  int64_t ScratchBytes(size_t part_bytes) const override { return inner_.ScratchBytes(part_bytes); }
  void Begin() override { inner_.Begin(); }
  void Fail() override { inner_.Fail(); }
  void* Part(int rank, const Columns& columns) override { return inner_.Part(rank, columns); }
  void TakePart(int rank, const Columns& columns, const void* whole) override { inner_.TakePart(rank, columns, whole); }
  void AllGather(int rank, const Columns& columns, void* whole) override {
    if (rank == 1 && left_ > 0 && --left_ == 0) throw std::bad_alloc();
    inner_.AllGather(rank, columns, whole);
  }

 private:
  SharedMemoryCollective inner_;
  int left_ = 0;  // rank 1's alone while ranks run
};

// As where one device has no memory (decision 8): the step is lost, the engine goes on.
TEST(RanksThatFail, LoseTheStepAndNoOther) {
  for (const int call : {1, 3, 8, 9}) {
    SCOPED_TRACE(call);
    FailingCollective* collective = nullptr;
    HarnessOptions options{};
    options.device = [&](int threads) -> std::unique_ptr<Device> {
      std::vector<std::unique_ptr<Device>> ranks;
      for (int i = 0; i < 3; ++i) ranks.push_back(MakeHarnessDevice(std::max(1, threads / 3)));
      auto failing = std::make_unique<FailingCollective>(3);
      collective = failing.get();
      return std::make_unique<ShardedDevice>(std::move(ranks), std::move(failing));
    };
    EngineHarness harness(GoldenPath("mha_tied"), options);
    const SequenceRequest request = Greedy(1, {5, 6, 7, 8, 9}, 12);
    const Generation whole = harness.RunOne(request);
    EXPECT_EQ(whole.finish, FinishReason::kLength);
    collective->FailAt(call);
    const Generation lost = harness.RunOne(request);
    EXPECT_EQ(lost.finish, FinishReason::kNoMemory);
    EXPECT_TRUE(lost.sampled.empty());
    EXPECT_EQ(harness.RunOne(request).tokens(), whole.tokens());
  }
}

}  // namespace
}  // namespace hydrant
