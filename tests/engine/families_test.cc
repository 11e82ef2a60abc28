// Every supported family against transformers, from directories in every storage type and from .gguf files: greedy tokens,
// log-probabilities of answers and prompts, and what H2O keeps. tests/golden/README.md says where the numbers come from.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "model/checkpoint/adapter.h"
#include "nlohmann/json.hpp"
#include "tests/engine/engine_harness.h"
#include "tests/model/checkpoint/family_checkpoint.h"
#include "tests/model/checkpoint/tiny_directory.h"
#include "tests/support/golden_file.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

using nlohmann::json;

constexpr const char* kFamilies[] = {
    "llama",    "llama_linear",    "llama_dynamic", "llama_llama3",  "llama_yarn",    "llama_biases",
    "mistral",  "qwen2",           "qwen3",         "opt",           "opt_post_norm", "opt_plain",
    "gpt_neox", "gpt_neox_serial", "starcoder2",    "gemma3_text",   "smollm3",       "smollm3_windows",
    "olmo2",    "olmo3",           "phi3",          "phi3_longrope", "qwen3_moe",     "mixtral",
    "gemma2",   "gpt_oss",         "gpt_oss_mxfp4"};

// The weights are stored exactly as the goldens were computed with them, and every product is in fp32 here and in fp64 there.
// What is left is fp32 rounding: measured 6.0e-5 at most (AVX-512, all families and prompts); other instruction sets add up in
// another order.
constexpr float kLogprobTolerance = 5e-4f;

// Prompts of 1, 15, 16, 17 and 100 tokens.
std::vector<Generation> RunGreedy(EngineHarness& harness, const json& goldens) {
  std::vector<SequenceRequest> requests;
  for (const json& golden : goldens) {
    requests.push_back(
        Greedy(requests.size() + 1, Ids(golden.at("prompt_ids")), static_cast<int32_t>(golden.at("tokens").size())));
    requests.back().logprobs = 0;
    requests.back().prompt_logprobs = 0;
  }
  return harness.Run(requests);
}

void ExpectGreedy(EngineHarness& harness, const json& goldens) {
  const std::vector<Generation> generations = RunGreedy(harness, goldens);
  for (size_t i = 0; i < generations.size(); ++i) {
    const json& golden = goldens[i];
    SCOPED_TRACE(std::to_string(golden.at("prompt_ids").size()) + " prompt tokens");
    EXPECT_EQ(generations[i].tokens(), Ids(golden.at("tokens")));
    const json& sampled = golden.at("logprobs");
    ASSERT_EQ(generations[i].sampled.size(), sampled.size());
    for (size_t t = 0; t < sampled.size(); ++t) {
      EXPECT_NEAR(generations[i].sampled[t].logprob, sampled[t].get<float>(), kLogprobTolerance) << "token " << t;
    }
    const json& prompt = golden.at("prompt_logprobs");
    ASSERT_EQ(generations[i].prompt.size(), prompt.size());
    for (size_t t = 0; t < prompt.size(); ++t) {
      EXPECT_NEAR(generations[i].prompt[t].logprob, prompt[t].get<float>(), kLogprobTolerance) << "prompt token " << t;
    }
  }
}

void ExpectSameBits(const std::vector<Generation>& a, const std::vector<Generation>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].tokens(), b[i].tokens()) << i;
    ASSERT_EQ(a[i].prompt.size(), b[i].prompt.size());
    for (size_t t = 0; t < a[i].sampled.size(); ++t) EXPECT_EQ(a[i].sampled[t].logprob, b[i].sampled[t].logprob) << t;
    for (size_t t = 0; t < a[i].prompt.size(); ++t) EXPECT_EQ(a[i].prompt[t].logprob, b[i].prompt[t].logprob) << t;
  }
}

class Families : public testing::TestWithParam<const char*> {
 protected:
  Families() : checkpoint_(GetParam()) {}

  const TempDir dir_;
  FamilyCheckpoint checkpoint_;
};
INSTANTIATE_TEST_SUITE_P(, Families, testing::ValuesIn(kFamilies),
                         [](const auto& family) { return std::string(family.param); });

TEST_P(Families, AnswerWhatTransformersAnswers) {
  for (const auto& [dtype, goldens] : checkpoint_.golden().at("greedy").items()) {
    SCOPED_TRACE(dtype);
    checkpoint_.WriteTo(dir_.path(), dtype);
    EngineHarness harness(dir_.path(), {});
    EXPECT_TRUE(harness.checkpoint().warnings.empty());
    EXPECT_EQ(harness.checkpoint().config.context, 256);
    EXPECT_EQ(harness.checkpoint().config.stored_dtype, dtype == "F32"   ? DType::kF32
                                                        : dtype == "F16" ? DType::kF16
                                                                         : DType::kBF16);
    ExpectGreedy(harness, goldens);
  }
}

// Together, cut into chunks, on other numbers of threads, and in bf16, too.
TEST_P(Families, BatchedIsSoloBitForBit) {
  checkpoint_.WriteTo(dir_.path(), "F32");
  const json& goldens = checkpoint_.golden().at("greedy").at("F32");
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    EngineHarness alone(dir_.path(), {.dtype = dtype, .threads = 1});
    std::vector<Generation> solo;
    for (const json& golden : goldens) solo.push_back(RunGreedy(alone, json::array({golden})).front());
    EngineHarness together(dir_.path(), {.dtype = dtype, .threads = 3, .tokens_max = 48, .prefill_tokens_max = 32});
    const std::vector<Generation> batched = RunGreedy(together, goldens);
    if (HarnessIsBatchInvariant()) {
      ExpectSameBits(batched, solo);
      continue;
    }
    // Sums in another order: the same tokens where nothing but fp32 is rounded.
    for (size_t i = 0; dtype == DType::kF32 && i < solo.size(); ++i)
      EXPECT_EQ(batched[i].tokens(), solo[i].tokens()) << i;
  }
}

// Weights, cache and, where the processor multiplies so, activations in 16 bits. A rounding to `bits` bits is off by 2^-bits
// at most and 2^-bits / sqrt(3) in the mean square; about 8 of them per layer (norm, q, k, v, weights, sum, norm, ffn) and
// two layers add up to sqrt(16) of that on unit-sized values, and logits here are some 6 large (they spread by 4 to 8). The
// attention's gains of 4 on either side of a product multiply it by up to 4. For bf16 (8 bits): 2^-8 / sqrt(3) x 4 x 6 x 4 =
// 0.22; for fp16 (11 bits) an eighth of it. The mean over a prompt has to keep to that.
TEST_P(Families, SixteenBitsAreCloseToTransformers) {
  checkpoint_.WriteTo(dir_.path(), "F32");
  const json& golden = checkpoint_.golden().at("greedy").at("F32").back();
  for (const auto& [dtype, bound] : {std::pair(DType::kF16, 0.22 / 8), std::pair(DType::kBF16, 0.22)}) {
    EngineHarness harness(dir_.path(), {.dtype = dtype});
    const Generation generation = RunGreedy(harness, json::array({golden})).front();
    double sum = 0;
    for (size_t t = 0; t < generation.prompt.size(); ++t) {
      sum += std::abs(generation.prompt[t].logprob - golden.at("prompt_logprobs")[t].get<double>());
    }
    EXPECT_LE(sum / static_cast<double>(generation.prompt.size()), bound) << static_cast<int>(dtype);
  }
}

TEST_P(Families, H2oKeepsAndEvictsWhatTheIndependentOneDoes) {
  checkpoint_.WriteTo(dir_.path(), "F32");
  Recorder recorder;
  EngineHarness harness(dir_.path(), {.dump = &recorder});
  uint64_t id = 0;
  for (const json& golden : checkpoint_.golden().at("h2o")) {
    SCOPED_TRACE(golden.at("policy").dump());
    recorder = Recorder();
    const std::vector<int32_t> tokens = Ids(golden.at("tokens"));
    SequenceRequest request = With(Greedy(++id, Ids(golden.at("prompt_ids")), static_cast<int32_t>(tokens.size())),
                                   PolicyOf(golden.at("policy")));
    request.logprobs = 0;
    const Generation generation = harness.RunOne(request);
    EXPECT_EQ(generation.tokens(), tokens);
    EXPECT_GT(generation.evicted, 0);
    EXPECT_EQ(json(recorder.kept), golden.at("kept_after_prefill"));
    ASSERT_EQ(recorder.victims.size(), golden.at("victims").size());
    for (size_t step = 0; step < recorder.victims.size(); ++step) {
      const json victims = recorder.victims[step] ? json(*recorder.victims[step]) : json(nullptr);
      EXPECT_EQ(victims, golden.at("victims")[step]) << "step " << step;
    }
    for (size_t t = 0; t < generation.sampled.size(); ++t) {
      EXPECT_NEAR(generation.sampled[t].logprob, golden.at("logprobs")[t].get<float>(), kLogprobTolerance) << t;
    }
  }
}

// As newer transformers keeps them: one tensor has all gates and up projections of a layer, one all down projections.
TEST(FusedExperts, AreThoseOneByOne) {
  for (const char* family : {"qwen3_moe", "mixtral"}) {
    SCOPED_TRACE(family);
    const FamilyCheckpoint checkpoint(family);
    const TempDir one_by_one, fused;
    checkpoint.WriteTo(one_by_one.path(), "BF16");
    checkpoint.WriteTo(fused.path(), "BF16", /*shards=*/1, /*fused_experts=*/true);
    EngineHarness plain(one_by_one.path(), {}), harness(fused.path(), {});
    EXPECT_TRUE(harness.checkpoint().warnings.empty());
    const json& goldens = checkpoint.golden().at("greedy").at("F32");
    ExpectSameBits(RunGreedy(harness, goldens), RunGreedy(plain, goldens));
  }
}

// Experts in MXFP4 are multiplied as they are stored: their inputs are rounded to 16 bits in groups of 32 then, some 2^-16 of a
// group's largest, eight roundings a layer. A row's bits are its own there, too.
TEST(Mxfp4Family, IsServedAsStored) {
  const FamilyCheckpoint checkpoint("gpt_oss_mxfp4");
  const TempDir dir;
  checkpoint.WriteTo(dir.path(), "F32");
  const json& goldens = checkpoint.golden().at("greedy").at("F32");
  EngineHarness alone(dir.path(), {.keep_quantised = true, .threads = 1});
  EXPECT_EQ(alone.checkpoint().quantization, Quantization::kMxfp4);
  EXPECT_TRUE(alone.checkpoint().warnings.empty());
  std::vector<Generation> solo;
  for (const json& golden : goldens) {
    solo.push_back(RunGreedy(alone, json::array({golden})).front());
    EXPECT_EQ(solo.back().tokens(), Ids(golden.at("tokens")));
    const json& prompt = golden.at("prompt_logprobs");
    for (size_t t = 0; t < prompt.size(); ++t) {
      EXPECT_NEAR(solo.back().prompt[t].logprob, prompt[t].get<float>(), 5e-3f) << t;
    }
  }
  EngineHarness together(dir.path(),
                         {.keep_quantised = true, .threads = 3, .tokens_max = 48, .prefill_tokens_max = 32});
  if (HarnessIsBatchInvariant()) ExpectSameBits(RunGreedy(together, goldens), solo);
}

// A and B of a module that q, k and v share, or the gate and the up projection, are added to its weight.
void Merge(TestTensor& weight, float scale, const TestTensor& a, const TestTensor& b) {
  const auto value = [](const TestTensor& tensor, int64_t row, int64_t col) {
    float x = 0;
    std::memcpy(&x, tensor.data.data() + (row * tensor.shape[1] + col) * int64_t{sizeof(x)}, sizeof(x));
    return x;
  };
  std::string merged;
  for (int64_t row = 0; row < weight.shape[0]; ++row) {
    for (int64_t col = 0; col < weight.shape[1]; ++col) {
      float sum = value(weight, row, col);
      for (int64_t j = 0; j < a.shape[0]; ++j) sum += scale * value(b, row, j) * value(a, j, col);
      merged += Raw(sum);
    }
  }
  weight.data = merged;
}

// Sums are in another order there.
TEST(AdaptedFamilies, AnswerAsMergedWeightsDo) {
  constexpr int64_t kRank = 3;
  for (const char* family : {"phi3", "gpt_neox"}) {
    SCOPED_TRACE(family);
    const FamilyCheckpoint checkpoint(family);
    const TempDir plain_dir, merged_dir;
    checkpoint.WriteTo(plain_dir.path(), "F32");
    checkpoint.WriteTo(merged_dir.path(), "F32");
    std::vector<TestTensor> merged, factors;
    for (const json& entry : checkpoint.golden().at("tensors")) {
      const auto name = entry[0].get<std::string>();
      TestTensor& tensor = merged.emplace_back(TestTensor{name, "F32", entry[1].get<std::vector<int64_t>>(), ""});
      for (const float x : checkpoint.Values(name)) tensor.data += Raw(x);
      if (!name.ends_with("qkv_proj.weight") && !name.ends_with("gate_up_proj.weight") &&
          !name.ends_with("query_key_value.weight")) {
        continue;
      }
      const std::string module = "base_model.model." + name.substr(0, name.rfind(".weight"));
      factors.push_back(RandomTensor(module + ".lora_A.weight", {kRank, tensor.shape[1]}));
      factors.push_back(RandomTensor(module + ".lora_B.weight", {tensor.shape[0], kRank}));
      Merge(tensor, 0.25f, factors[factors.size() - 2], factors.back());
    }
    merged_dir.Write("model.safetensors", SafetensorsBytes(merged));

    EngineHarness plain(plain_dir.path(), {.adapters = {.slots = 1, .rank_max = kRank}}), whole(merged_dir.path(), {});
    const auto adapter =
        ParseAdapter({R"({"peft_type": "LORA", "r": 3, "lora_alpha": 0.75})", SafetensorsBytes(factors)},
                     AdapterTargets::Of(plain.checkpoint()), kRank);
    ASSERT_TRUE(adapter.ok()) << adapter.status();
    plain.executor().PutAdapter(0, *adapter);
    SequenceRequest request = Greedy(1, {5, 6, 7, 8, 9}, 8);
    request.logprobs = 0;
    request.prompt_logprobs = 0;
    const Generation without = plain.RunOne(request), expected = whole.RunOne(request);
    request.request.id = 2;
    request.adapter = 0;
    const Generation with = plain.RunOne(request);
    EXPECT_EQ(with.tokens(), expected.tokens());
    for (size_t t = 0; t < expected.prompt.size(); ++t) {
      EXPECT_NEAR(with.prompt[t].logprob, expected.prompt[t].logprob, kLogprobTolerance) << "prompt token " << t;
      EXPECT_GT(std::abs(without.prompt[t].logprob - expected.prompt[t].logprob), kLogprobTolerance) << t;
    }
  }
}

TEST(ShardedFamily, IsTheWholeOne) {
  const FamilyCheckpoint checkpoint("qwen2");
  const TempDir dir;
  checkpoint.WriteTo(dir.path(), "F32", /*shards=*/3);
  EngineHarness harness(dir.path(), {});
  ExpectGreedy(harness, checkpoint.golden().at("greedy").at("F32"));
}

class GgufFamilies : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, GgufFamilies,
                         testing::Values("llama", "llama_biases", "mistral", "qwen2", "qwen3", "gpt_neox",
                                         "gpt_neox_serial", "starcoder2", "gemma3_text", "smollm3", "olmo2", "olmo3",
                                         "phi3", "qwen3_moe", "mixtral", "gemma2", "gpt_oss", "gpt_oss_mxfp4"),
                         [](const auto& family) { return std::string(family.param); });

// gpt_neox_serial says gelu_fast, which .gguf files cannot: the directory is read with the GELU that they mean. Likewise the
// weights of qwen3_moe's experts.
TEST_P(GgufFamilies, AreTheirDirectoriesBitForBit) {
  FamilyCheckpoint checkpoint(GetParam());
  if (checkpoint.config().contains("norm_topk_prob")) checkpoint.config()["norm_topk_prob"] = true;
  if (checkpoint.config().value("hidden_act", "") == "gelu_fast") checkpoint.config()["hidden_act"] = "gelu";
  const TempDir dir;
  checkpoint.WriteTo(dir.path(), "F32");
  const std::string path = dir.Write("family.gguf", checkpoint.Gguf().Build());
  EngineHarness directory(dir.path(), {}), gguf(path, {});
  EXPECT_TRUE(gguf.checkpoint().warnings.empty()) << gguf.checkpoint().warnings.front();
  const json& goldens = checkpoint.golden().at("greedy").at("F32");
  ExpectSameBits(RunGreedy(gguf, goldens), RunGreedy(directory, goldens));
}

}  // namespace
}  // namespace hydrant
