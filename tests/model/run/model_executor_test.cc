#include "model/run/model_executor.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/exported_block.h"
#include "nlohmann/json.hpp"
#include "tests/engine/engine_harness.h"
#include "tests/kernels/stored_rows.h"
#include "tests/model/checkpoint/gguf_builder.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

std::vector<int32_t> RandomPrompt(std::mt19937& random, int32_t length, int32_t vocab) {
  std::vector<int32_t> prompt(static_cast<size_t>(length));
  for (int32_t& id : prompt) id = std::uniform_int_distribution<int32_t>(2, vocab - 1)(random);
  return prompt;
}

// `request`, cut after every `stride` tokens of its prompt.
SequenceRequest Budgeted(SequenceRequest request, int32_t stride) {
  request.request.budget.prompt_stride = stride;
  return request;
}

// Penalties, biases, bans and a least length.
void AskForEverything(int32_t vocab, SequenceRequest* request,
                      const std::vector<std::vector<int32_t>>& bad_words = {{5}, {7, 8}}) {
  LogitRules rules;
  rules.options.logit_bias = {{3, 1.5f}, {vocab - 1, -2.0f}};
  rules.bad_words = bad_words;
  rules.stop_ids = {1};
  rules.min_tokens = 20;
  rules.options.repetition_penalty = 1.1f;
  rules.options.frequency_penalty = 0.3f;
  rules.options.presence_penalty = 0.2f;
  if (request->request.id == 9) {
    for (int32_t id = 2; id < vocab; id += 2) rules.options.allowed_token_ids.push_back(id);
  }
  request->shaper =
      std::make_shared<LogitShaper>(std::make_shared<const LogitRules>(std::move(rules)), request->request.prompt);
}

// Requests that differ in everything: length around block edges, policy, cadence, prefill, temperature, log-probabilities.
std::vector<SequenceRequest> MixedRequests(int32_t vocab) {
  std::mt19937 random(7);
  const EvictionPolicy h2o{.evicts = true, .heavy = 8, .recent = 8};
  const EvictionPolicy first{.evicts = true, .heavy = 10, .recent = 7, .gqa_reduce = GqaReduce::kFirst};
  const EvictionPolicy window{.evicts = true, .heavy = 0, .recent = 16};
  const EvictionPolicy sinks{.evicts = true, .heavy = 4, .recent = 12, .score_source = ScoreSource::kNone};
  const EvictionPolicy snapkv{.evicts = true,
                              .heavy = 9,
                              .recent = 8,
                              .gqa_reduce = GqaReduce::kMean,
                              .score_rows = 32,
                              .pool_width = 7,
                              .store_pooled = false};
  const EvictionPolicy plus{.evicts = true,
                            .heavy = 20,
                            .recent = 10,
                            .square = true,
                            .decay = 15.0f / 16.0f,
                            .score_rows = 64,
                            .pool_width = 15};
  const EvictionPolicy decay{.evicts = true, .heavy = 12, .recent = 4, .decay = 1.0f - 1.0f / 128.0f};
  const auto rolling = [](EvictionPolicy policy) {
    policy.rolling = true;
    return policy;
  };
  std::vector<SequenceRequest> requests = {
      Greedy(1, RandomPrompt(random, 1, vocab), 40),
      With(Greedy(2, RandomPrompt(random, 15, vocab), 40), h2o),
      With(Greedy(3, RandomPrompt(random, 16, vocab), 33), window),
      With(Greedy(4, RandomPrompt(random, 17, vocab), 48), h2o, /*beta=*/16),
      With(Greedy(5, RandomPrompt(random, 100, vocab), 30), first),
      Greedy(6, RandomPrompt(random, 77, vocab), 30),
      With(Greedy(7, RandomPrompt(random, 130, vocab), 45), h2o),
      With(Greedy(8, RandomPrompt(random, 64, vocab), 20), sinks),
      With(Greedy(9, RandomPrompt(random, 79, vocab), 30), snapkv),
      With(Greedy(10, RandomPrompt(random, 141, vocab), 30), plus),
      With(Greedy(11, RandomPrompt(random, 113, vocab), 30), decay, /*beta=*/16),
      Budgeted(With(Greedy(12, RandomPrompt(random, 150, vocab), 30), first), 64),
      Budgeted(With(Greedy(13, RandomPrompt(random, 131, vocab), 30), sinks, /*beta=*/16), 50),
      With(Greedy(14, RandomPrompt(random, 17, vocab), 48), rolling(h2o)),
      With(Greedy(15, RandomPrompt(random, 130, vocab), 45), rolling(first)),
      With(Greedy(16, RandomPrompt(random, 64, vocab), 40), rolling(sinks)),
      With(Greedy(17, RandomPrompt(random, 95, vocab), 40), rolling(h2o), /*beta=*/16),
      With(Greedy(18, RandomPrompt(random, 141, vocab), 30), rolling(plus)),
      Budgeted(With(Greedy(19, RandomPrompt(random, 150, vocab), 30), rolling(h2o)), 64),
  };
  for (SequenceRequest& request : requests) {
    request.logprobs = 3;
    if (request.request.id % 2 == 0) {
      request.sampling.temperature = 0.9f;
      request.sampling.key = request.request.id;
      request.sampling.top_p = 0.95f;
    }
    if (request.request.id == 6) request.prompt_logprobs = 2;
    if (request.request.id % 3 == 0) AskForEverything(vocab, &request);
  }
  return requests;
}

void ExpectSameBits(const SampleResult& a, const SampleResult& b) {
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.logprob, b.logprob);
  ASSERT_EQ(a.top.size(), b.top.size());
  for (size_t i = 0; i < a.top.size(); ++i) {
    EXPECT_EQ(a.top[i].id, b.top[i].id);
    EXPECT_EQ(a.top[i].logprob, b.top[i].logprob);
  }
}

void ExpectSame(const Generation& a, const Generation& b, const std::string& what) {
  SCOPED_TRACE(what);
  EXPECT_EQ(a.tokens(), b.tokens());
  EXPECT_EQ(a.finish, b.finish);
  EXPECT_EQ(a.live, b.live);
  EXPECT_EQ(a.evicted, b.evicted);
  ASSERT_EQ(a.sampled.size(), b.sampled.size());
  ASSERT_EQ(a.prompt.size(), b.prompt.size());
  for (size_t i = 0; i < a.sampled.size(); ++i) ExpectSameBits(a.sampled[i], b.sampled[i]);
  for (size_t i = 0; i < a.prompt.size(); ++i) ExpectSameBits(a.prompt[i], b.prompt[i]);
}

// A .gguf file with every quantised format that fits rows of 32 and 64 elements, two of them in fused weights.
std::string QuantisedModel() {
  static const auto& path = *new std::string([] {
    static const auto& dir = *new TempDir();
    GgufBuilder file = TinyGguf();
    file.Set("llama.context_length", 512);
    uint32_t seed = 0;
    const auto quantise = [&](const std::string& name, uint32_t type, WeightFormat format) {
      GgufBuilder::Tensor& tensor = file.At(name);
      const std::vector<std::byte> rows =
          RandomStoredRows(format, static_cast<int64_t>(tensor.dims[1]), static_cast<int64_t>(tensor.dims[0]), ++seed);
      tensor.type = type;
      tensor.data.assign(reinterpret_cast<const char*>(rows.data()), rows.size());
    };
    quantise("token_embd.weight", 8, WeightFormat::kQ8_0);
    for (const std::string block : {"blk.0.", "blk.1."}) {
      quantise(block + "attn_q.weight", 3, WeightFormat::kQ4_1);
      quantise(block + "attn_k.weight", 3, WeightFormat::kQ4_1);
      quantise(block + "attn_v.weight", 8, WeightFormat::kQ8_0);
      quantise(block + "attn_output.weight", 6, WeightFormat::kQ5_0);
      quantise(block + "ffn_gate.weight", 2, WeightFormat::kQ4_0);
      if (block == "blk.0.") quantise(block + "ffn_up.weight", 2, WeightFormat::kQ4_0);
      quantise(block + "ffn_down.weight", 7, WeightFormat::kQ5_1);
    }
    quantise("blk.1.ffn_up.weight", 20, WeightFormat::kIQ4_NL);
    return dir.Write("quantised.gguf", file.Build());
  }());
  return path;
}

struct Setting {
  std::string model;
  DType dtype;
  bool quantised = false;
  std::optional<KvType> kv_type = {};

  std::string path() const { return quantised ? QuantisedModel() : GoldenPath(model); }
};

class Invariance : public testing::TestWithParam<Setting> {
 protected:
  std::vector<Generation> Solo() {
    HarnessOptions options{
        .dtype = GetParam().dtype, .keep_quantised = GetParam().quantised, .kv_type = GetParam().kv_type, .threads = 1};
    EngineHarness harness(GetParam().path(), options);
    std::vector<Generation> solo;
    for (const SequenceRequest& request : MixedRequests(harness.checkpoint().config.vocab)) {
      solo.push_back(harness.RunOne(request));
    }
    return solo;
  }
};

TEST_P(Invariance, StreamsTogetherProduceWhatEachProducesAlone) {
  const std::vector<Generation> solo = Solo();
  std::mt19937 random(11);
  for (int threads : {1, 2, 3}) {
    EngineHarness harness(GetParam().path(), {.dtype = GetParam().dtype,
                                              .keep_quantised = GetParam().quantised,
                                              .kv_type = GetParam().kv_type,
                                              .threads = threads});
    const std::vector<SequenceRequest> requests = MixedRequests(harness.checkpoint().config.vocab);
    for (int round = 0; round < 3; ++round) {
      std::vector<int> arrivals(requests.size(), 0);
      for (int& arrival : arrivals) arrival = round == 0 ? 0 : static_cast<int>(random() % 20);
      const std::vector<Generation> batched = harness.Run(requests, arrivals);
      for (size_t i = 0; i < requests.size(); ++i) {
        ExpectSame(batched[i], solo[i],
                   "request " + std::to_string(i + 1) + ", " + std::to_string(threads) + " threads, round " +
                       std::to_string(round));
      }
    }
  }
}

TEST_P(Invariance, ChunkingDoesNotChangeABit) {
  const std::vector<Generation> solo = Solo();
  for (int32_t chunk : {16, 32, 48, 112}) {
    EngineHarness harness(GetParam().path(), {.dtype = GetParam().dtype,
                                              .keep_quantised = GetParam().quantised,
                                              .kv_type = GetParam().kv_type,
                                              .threads = 2,
                                              .sequences_max = 8,
                                              .tokens_max = chunk + 15,
                                              .prefill_tokens_max = chunk});
    const std::vector<SequenceRequest> requests = MixedRequests(harness.checkpoint().config.vocab);
    const std::vector<Generation> chunked = harness.Run(requests);
    for (size_t i = 0; i < requests.size(); ++i) {
      ExpectSame(chunked[i], solo[i], "request " + std::to_string(i + 1) + ", chunk " + std::to_string(chunk));
    }
  }
}

// Half of the requests end with a token that nobody could foresee, behind which a row was on its way.
TEST_P(Invariance, OverlapChangesNoBit) {
  std::vector<Generation> one_by_one;
  std::vector<SequenceRequest> requests;
  for (const bool overlap : {false, true}) {
    HarnessOptions options{
        .dtype = GetParam().dtype, .keep_quantised = GetParam().quantised, .kv_type = GetParam().kv_type};
    options.overlap = overlap;
    EngineHarness harness(GetParam().path(), options);
    if (!overlap) {
      requests = MixedRequests(harness.checkpoint().config.vocab);
      for (SequenceRequest& request : requests) {
        if (request.shaper != nullptr) AskForEverything(harness.checkpoint().config.vocab, &request, {{5}});
      }
      const std::vector<Generation> whole = harness.Run(requests);
      for (size_t i = 0; i < requests.size(); i += 2) {
        requests[i].request.stop_token_ids = {whole[i].tokens()[5 + i / 2]};
      }
    }
    std::vector<int> arrivals;
    for (size_t i = 0; i < requests.size(); ++i) arrivals.push_back(static_cast<int>(i / 5) * 12);
    const std::vector<Generation> generations = harness.Run(requests, arrivals);
    EXPECT_EQ(harness.steps_ahead() > 0, overlap);
    if (!overlap) {
      one_by_one = generations;
      continue;
    }
    for (size_t i = 0; i < requests.size(); ++i) {
      SCOPED_TRACE(requests[i].request.id);
      EXPECT_EQ(generations[i].tokens(), one_by_one[i].tokens());
      EXPECT_EQ(generations[i].finish, one_by_one[i].finish);
      ASSERT_EQ(generations[i].sampled.size(), one_by_one[i].sampled.size());
      for (size_t t = 0; t < one_by_one[i].sampled.size(); ++t) {
        ExpectSameBits(generations[i].sampled[t], one_by_one[i].sampled[t]);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Invariance,
                         testing::Values(Setting{"mha_tied", DType::kF32}, Setting{"gqa_untied", DType::kF32},
                                         Setting{"gqa_tied", DType::kBF16},
                                         Setting{"mha_untied", DType::kBF16, false, KvType::kInt8},
                                         Setting{"quantised", DType::kF32, true}),
                         [](const auto& setting) {
                           return setting.param.model + (setting.param.dtype == DType::kF32 ? "_f32" : "_bf16") +
                                  (setting.param.kv_type.has_value() ? "_int8" : "");
                         });

TEST(ModelExecutor, ABudgetedSequenceKeepsOneSlotMoreThanItsBudget) {
  EngineHarness harness(GoldenPath("gqa_tied"), {});
  std::mt19937 random(3);
  const EvictionPolicy h2o{.evicts = true, .heavy = 16, .recent = 16};
  const Generation generation = harness.RunOne(With(Greedy(1, RandomPrompt(random, 120, 288), 64), h2o));
  EXPECT_EQ(generation.live, 33);
  EXPECT_EQ(generation.evicted, 120 + 63 - 33);
}

// Keeps the positions that are left of each prompt.
class KeptPositions : public KvDumpSink {
 public:
  void OnPromptDone(int32_t, Positions kept) override { prompts.push_back(std::move(kept)); }
  void OnDecode(int32_t, std::optional<std::vector<std::vector<int32_t>>>) override {}
  std::vector<Positions> prompts;
};

TEST(ModelExecutor, ABudgetedPromptMayBeLongerThanThePool) {
  KeptPositions kept;
  // 6 blocks: 96 slots, of which a budget of 32 with a stride of 48 needs 80.
  EngineHarness harness(GoldenPath("gqa_tied"), {.blocks = 6, .dump = &kept});
  std::mt19937 random(5);
  const EvictionPolicy h2o{.evicts = true, .heavy = 16, .recent = 16};
  const SequenceRequest whole = With(Greedy(1, RandomPrompt(random, 200, 288), 8), h2o);
  EXPECT_EQ(harness.engine().Add(whole).code(), absl::StatusCode::kOutOfRange);
  const Generation generation = harness.RunOne(Budgeted(whole, 48));
  EXPECT_EQ(generation.sampled.size(), 8u);
  EXPECT_EQ(generation.live, 33);
  EXPECT_EQ(generation.evicted, 200 + 7 - 33);
  ASSERT_EQ(kept.prompts.size(), 1u);
  std::set<std::vector<int32_t>> sets;
  for (const auto& layer : kept.prompts[0]) {
    for (const std::vector<int32_t>& positions : layer) {
      ASSERT_EQ(positions.size(), 32u);
      for (int32_t i = 0; i < 16; ++i) EXPECT_EQ(positions[static_cast<size_t>(16 + i)], 184 + i) << "the recent ones";
      sets.insert(positions);
    }
  }
  EXPECT_GT(sets.size(), 1u) << "heads keep different tokens";
}

TEST(ModelExecutor, APromptThatFitsItsBudgetIsTheSameBudgetedOrNot) {
  EngineHarness harness(GoldenPath("gqa_tied"), {});
  std::mt19937 random(6);
  const EvictionPolicy h2o{.evicts = true, .heavy = 50, .recent = 50};
  const SequenceRequest request = With(Greedy(1, RandomPrompt(random, 100, 288), 30), h2o);
  ExpectSame(harness.RunOne(Budgeted(request, 32)), harness.RunOne(request), "100 tokens, budget 100");
}

// The context of the goldens is 512: a prompt and an answer beyond it, of which little is held at once.
TEST(ModelExecutor, ARollingSequenceOutgrowsTheContext) {
  EngineHarness harness(GoldenPath("gqa_tied"), {});
  std::mt19937 random(9);
  EvictionPolicy policy{.evicts = true, .heavy = 16, .recent = 16, .rolling = true};
  const std::vector<int32_t> prompt = RandomPrompt(random, 100, 288);
  const Generation exact = harness.RunOne(With(Greedy(1, prompt, 700), policy));
  EXPECT_EQ(exact.finish, FinishReason::kLength);
  EXPECT_EQ(exact.evicted, 100 + 699 - 33);
  const Generation periodic = harness.RunOne(With(Greedy(2, prompt, 700), policy, /*beta=*/40));
  EXPECT_EQ(periodic.finish, FinishReason::kLength);

  const SequenceRequest too_long = With(Greedy(3, RandomPrompt(random, 1000, 288), 10), policy);
  EXPECT_FALSE(harness.engine().Add(too_long).ok());
  EXPECT_EQ(harness.RunOne(Budgeted(too_long, 256)).evicted, 1000 + 9 - 33);
  policy.heavy = 512 - 16;
  EXPECT_FALSE(harness.engine().Add(With(Greedy(4, prompt, 700), policy)).ok())
      << "grows to one slot more than its budget";
  policy.heavy -= 1;
  EXPECT_EQ(harness.RunOne(With(Greedy(5, prompt, 420), policy)).live, 512);
  policy.rolling = false;
  EXPECT_FALSE(harness.engine().Add(With(Greedy(6, prompt, 420), policy)).ok());
}

// Until something has left, a rank is a position.
TEST(ModelExecutor, RollingWithoutEvictionIsWhatAbsoluteIs) {
  EngineHarness harness(GoldenPath("gqa_untied"), {});
  std::mt19937 random(10);
  EvictionPolicy policy{.evicts = true, .heavy = 100, .recent = 100};
  SequenceRequest request = With(Greedy(1, RandomPrompt(random, 90, 288), 60), policy);
  request.logprobs = 0;
  const Generation absolute = harness.RunOne(request);
  request.request.id = 2;
  request.policy.rolling = true;
  const Generation rolling = harness.RunOne(request);
  EXPECT_EQ(rolling.tokens(), absolute.tokens());
  for (size_t i = 0; i < absolute.sampled.size(); ++i) {
    EXPECT_NEAR(rolling.sampled[i].logprob, absolute.sampled[i].logprob, 1e-4) << i;
  }
}

TEST(ModelExecutor, ScoringAForcedTokenEqualsScoringItAsPrompt) {
  EngineHarness harness(GoldenPath("gqa_untied"), {});
  std::mt19937 random(5);
  const std::vector<int32_t> ids = RandomPrompt(random, 60, 288);
  SequenceRequest scored = Greedy(1, ids, 1);
  scored.prompt_logprobs = 0;
  const Generation as_prompt = harness.RunOne(scored);
  SequenceRequest forced = Greedy(2, {ids.begin(), ids.begin() + 40}, 20);
  forced.logprobs = 0;
  forced.forced_ids = {ids.begin() + 40, ids.end()};
  const Generation as_output = harness.RunOne(forced);
  ASSERT_EQ(as_output.sampled.size(), 20u);
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(as_output.sampled[i].id, ids[40 + i]);
    // Prefill and decode attention sum in different orders.
    EXPECT_NEAR(as_output.sampled[i].logprob, as_prompt.prompt[39 + i].logprob, 1e-4);
  }
}

// The checkpoint of a golden model with one fp32 element of a tensor replaced, in a directory of its own.
void WriteWith(const TempDir& dir, const std::string& model, const std::string& tensor, size_t element, float value) {
  std::filesystem::copy(GoldenPath(model), dir.path(), std::filesystem::copy_options::recursive);
  const std::string path = dir.File("model.safetensors");
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  uint64_t header_bytes = 0;
  file.read(reinterpret_cast<char*>(&header_bytes), 8);
  std::string header(header_bytes, '\0');
  file.read(header.data(), static_cast<std::streamsize>(header_bytes));
  const nlohmann::json entry = nlohmann::json::parse(header).at(tensor);
  ASSERT_EQ(entry.at("dtype"), "F32");
  file.seekp(static_cast<std::streamoff>(8 + header_bytes + entry.at("data_offsets")[0].get<uint64_t>() + 4 * element));
  file.write(reinterpret_cast<const char*>(&value), 4);
}

class PoisonedWeights : public testing::TestWithParam<DType> {};

// Row E10 of the table of bad model files: the request that meets the NaN fails, its neighbours and those after it, in the
// blocks it gave back, do not notice.
TEST_P(PoisonedWeights, FailTheRequestThatMeetsThemAndNoOther) {
  constexpr int32_t kPoison = 7, kHidden = 48;
  const TempDir dir;
  WriteWith(dir, "gqa_untied", "model.embed_tokens.weight", kPoison * kHidden + 5,
            std::numeric_limits<float>::quiet_NaN());
  std::mt19937 random(13);
  std::vector<SequenceRequest> healthy;
  for (uint64_t id = 1; id <= 3; ++id) {
    std::vector<int32_t> prompt = RandomPrompt(random, 20 + 7 * static_cast<int32_t>(id), 288);
    std::replace(prompt.begin(), prompt.end(), kPoison, kPoison + 1);
    healthy.push_back(With(Greedy(id, prompt, 30), EvictionPolicy{.evicts = true, .heavy = 8, .recent = 8}));
    healthy.back().forced_ids.assign(30, 11);  // so that no model's taste brings in the poisoned token
    healthy.back().logprobs = 2;
  }
  // A pool that the requests fill again and again.
  const HarnessOptions options{.dtype = GetParam(), .blocks = 16};
  EngineHarness clean(GoldenPath("gqa_untied"), options);
  std::vector<Generation> expected;
  for (const SequenceRequest& request : healthy) expected.push_back(clean.RunOne(request));

  EngineHarness poisoned(dir.path(), options);
  ASSERT_EQ(poisoned.checkpoint().tensors.NonFinite(), std::vector<std::string>{"model.embed_tokens.weight"});
  std::vector<int32_t> poisoned_prompt = healthy[0].request.prompt;
  poisoned_prompt[3] = kPoison;
  SequenceRequest in_prompt = Greedy(4, std::move(poisoned_prompt), 30);
  SequenceRequest in_answer = Greedy(5, healthy[1].request.prompt, 30);
  in_answer.forced_ids.assign(30, 11);
  in_answer.forced_ids[9] = kPoison;
  for (int round = 0; round < 3; ++round) {
    std::vector<SequenceRequest> requests = healthy;
    requests.insert(requests.begin() + round, in_prompt);
    requests.insert(requests.begin(), in_answer);
    for (size_t i = 0; i < requests.size(); ++i) requests[i].request.id += 10 * static_cast<uint64_t>(round);
    const std::vector<Generation> got = poisoned.Run(requests);
    for (size_t i = 0; i < requests.size(); ++i) {
      const uint64_t id = requests[i].request.id % 10;
      if (id == 4) {
        EXPECT_EQ(got[i].finish, FinishReason::kError);
        EXPECT_TRUE(got[i].sampled.empty());
      } else if (id == 5) {
        EXPECT_EQ(got[i].finish, FinishReason::kError);
        EXPECT_EQ(got[i].sampled.size(), 10u);  // the poisoned token itself was still chosen in good health
      } else {
        ExpectSame(got[i], expected[id - 1], "request " + std::to_string(id) + ", round " + std::to_string(round));
      }
    }
  }
}

TEST_P(PoisonedWeights, FailEveryRequestWhenEveryoneMeetsThem) {
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity()}) {
    const TempDir dir;
    WriteWith(dir, "gqa_untied", "model.layers.1.mlp.down_proj.weight", 77, value);
    EngineHarness harness(dir.path(), {.dtype = GetParam()});
    EXPECT_EQ(harness.checkpoint().tensors.NonFinite(),
              std::vector<std::string>{"model.layers.1.mlp.down_proj.weight"});
    for (uint64_t id = 1; id <= 3; ++id) {
      const Generation generation = harness.RunOne(Greedy(id, {5, 6, 8}, 4));
      EXPECT_EQ(generation.finish, FinishReason::kError) << value;
      EXPECT_TRUE(generation.sampled.empty());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, PoisonedWeights, testing::Values(DType::kF32, DType::kBF16, DType::kF16),
                         [](const auto& dtype) {
                           return dtype.param == DType::kF32 ? "f32" : dtype.param == DType::kBF16 ? "bf16" : "f16";
                         });

// Row E11: once loaded, a model does not read its files again. They are still mapped here, so a read would end the test
// with SIGBUS.
TEST(ModelExecutor, ALoadedModelDoesNotReadItsFiles) {
  const TempDir dir;
  std::filesystem::copy(GoldenPath("gqa_tied"), dir.File("hf"), std::filesystem::copy_options::recursive);
  dir.Write("tiny.gguf", TinyGguf().Build());
  for (const auto& [model, weights] : {std::pair("hf", "hf/model.safetensors"), std::pair("tiny.gguf", "tiny.gguf")}) {
    const SequenceRequest request = Greedy(1, {40, 41, 42}, 20);
    EngineHarness before(dir.File(model), {});
    const Generation expected = before.RunOne(request);
    EngineHarness harness(dir.File(model), {});
    for (const auto& file : std::filesystem::recursive_directory_iterator(dir.path())) {
      if (file.path().string().find(model) != std::string::npos && file.is_regular_file()) {
        std::filesystem::resize_file(file.path(), 0);
      }
    }
    ASSERT_EQ(std::filesystem::file_size(dir.File(weights)), 0u);
    ExpectSame(harness.RunOne(request), expected, model);
  }
}

// What a session leaves may go to the disk: nothing goes along that lay in its last block before.
TEST(ModelExecutor, WhatIsParkedHasNothingOfOtherRequests) {
  EngineHarness harness(GoldenPath("gqa_tied"), {});
  std::mt19937 random(3);
  (void)harness.RunOne(Greedy(1, RandomPrompt(random, 90, 64), 30));  // and its blocks are free again
  ModelExecutor& executor = harness.executor();
  const KvCacheLayout& layout = executor.kv().layout;
  constexpr int32_t kLive = 21;
  const TurnId turn = {1, 1};
  const std::vector<int32_t> blocks = {0, 1};
  for (const BlockSlice slice : {BlockSlice{0, 1}, BlockSlice{1, 2}}) {
    ParkOp park;
    park.id = turn;
    park.begins = slice.begin == 0;
    park.live = park.computed = kLive;
    park.slice = slice;
    park.block_table = park.score_table = blocks;
    StepInput input;
    input.parks = {park};
    (void)executor.Await(executor.Launch(input));
  }
  const KvBytes parked = executor.Parked(turn);
  ASSERT_EQ(parked.size, 2 * layout.block_bytes());
  std::vector<std::byte> pool(parked.size);
  harness.device().ExportBlocks(blocks, blocks, executor.kv(), pool.data());
  EXPECT_NE(std::memcmp(pool.data(), parked.bytes.get(), parked.size), 0) << "the other request left nothing there";
  ASSERT_TRUE(
      ClearSlots(harness.device().kv_format(), layout, kLive % kBlockSlots, pool.data() + layout.block_bytes()));
  EXPECT_EQ(std::memcmp(pool.data(), parked.bytes.get(), parked.size), 0);
}

}  // namespace
}  // namespace hydrant
