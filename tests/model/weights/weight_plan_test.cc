// What PlanWeights says, from made-up tensors; and that loading takes what it says, for every family.
#include "model/weights/weight_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "model/checkpoint/checkpoint.h"
#include "model/weights/weights.h"
#include "tests/model/checkpoint/family_checkpoint.h"
#include "tests/model/checkpoint/gguf_builder.h"
#include "tests/model/weights/shaped_tensors.h"
#include "tests/support/source_dir.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

using enum WeightFormat;
using testing::ElementsAre;

// A row of 256 elements is a whole number of blocks in every format.
ModelConfig TwoLayers() {
  ModelConfig config;
  config.hidden = 256;
  config.layers = 2;
  config.query_heads = 4;
  config.kv_heads = 2;
  config.head_dim = 64;
  config.ffn = 512;
  config.vocab = 1000;
  config.context = 4096;
  config.rope_dims = 64;
  return config;
}

WeightPlan Plan(const ModelConfig& config, const TensorTable& tensors, std::vector<WeightFormat> quantised = {}) {
  return PlanWeights(config, tensors, PlainDevice(std::move(quantised)), {DType::kBF16, /*keep_quantised=*/true}, 100);
}

const PlannedWeight& Find(const WeightPlan& plan, WeightRole role, int32_t layer = 0) {
  for (const PlannedWeight& weight : plan.weights) {
    if (weight.role == role && weight.layer == layer) return weight;
  }
  ADD_FAILURE() << "no such weight";
  return plan.weights.front();
}

std::vector<WeightFormat> Computed(const PlannedWeight& weight) {
  std::vector<WeightFormat> formats;
  for (const WeightPart& part : weight.parts) formats.push_back(part.computed);
  return formats;
}

void Replace(TensorTable& tensors, TensorRole role, int32_t layer, WeightFormat format, bool has_stored_rows = true) {
  const TensorSource* old = tensors.Find(role, layer);
  tensors.Set(role, layer, std::make_unique<HollowTensor>(old->rows(), old->cols(), format, has_stored_rows));
}

TEST(WeightPlan, ListsEveryMatrixOnceWithItsTensorsAndItsShape) {
  const WeightPlan plan = Plan(TwoLayers(), HollowTensors(TwoLayers()));
  EXPECT_EQ(plan.weights.size(), 2u + 2 * 4u) << "table, head, two layers";
  const PlannedWeight& qkv = Find(plan, WeightRole::kQkv, 1);
  ASSERT_EQ(qkv.parts.size(), 3u);
  EXPECT_EQ(qkv.parts[1].tensor, TensorRole::kK);
  EXPECT_EQ(qkv.parts[1].rows, 128);
  EXPECT_EQ(qkv.rows(), 256 + 2 * 128);
  EXPECT_EQ(qkv.cols, 256);
  EXPECT_FALSE(qkv.biased());
  EXPECT_EQ(qkv.bytes, 512 * 256 * 2);
  const PlannedWeight& up = Find(plan, WeightRole::kUp);
  EXPECT_TRUE(up.gated);
  EXPECT_EQ(up.parts[0].tensor, TensorRole::kGate);
  EXPECT_EQ(up.Spec().rows, 2 * 512);
  EXPECT_TRUE(up.Spec().gated);
  EXPECT_EQ(plan.bytes(), 2 * (2 * 1000 * 256 + 2 * 256 * (512 + 256 + 3 * 512)));
  EXPECT_EQ(plan.position_bytes(), 100 * 64 * 4) << "cosines and sines";
}

TEST(WeightPlan, ABiasIsAPartOfTheRowsThatHaveIt) {
  TensorTable tensors = HollowTensors(TwoLayers());
  tensors.Set(TensorRole::kKBias, 1, std::make_unique<HollowTensor>(1, 128, kF32));
  const WeightPlan plan = Plan(TwoLayers(), tensors);
  EXPECT_FALSE(Find(plan, WeightRole::kQkv, 0).biased());
  const PlannedWeight& qkv = Find(plan, WeightRole::kQkv, 1);
  EXPECT_TRUE(qkv.biased());
  EXPECT_FALSE(qkv.parts[0].bias.has_value());
  EXPECT_EQ(qkv.parts[1].bias, TensorRole::kKBias);
}

TEST(WeightPlan, LearnedPositionsAreAsManyAsMayBeAskedFor) {
  ModelConfig config = TwoLayers();
  config.rope_dims = 0;
  config.position_rows = 4098;
  config.position_offset = 2;
  const WeightPlan plan = Plan(config, HollowTensors(config));
  const PlannedWeight& positions = Find(plan, WeightRole::kPositions);
  EXPECT_EQ(positions.parts[0].first_row, 2);
  EXPECT_EQ(positions.rows(), 100);
  EXPECT_EQ(plan.position_bytes(), 100 * 256 * 2);
  EXPECT_EQ(plan.bytes(), Plan(TwoLayers(), HollowTensors(TwoLayers())).bytes())
      << "positions are counted by themselves";
}

TEST(WeightPlan, WhatNoDeviceSupportsIsExpanded) {
  const WeightPlan plan = Plan(TwoLayers(), HollowTensors(TwoLayers(), kQ4_1));
  for (const PlannedWeight& weight : plan.weights) {
    for (const WeightPart& part : weight.parts) {
      EXPECT_EQ(part.stored, kQ4_1);
      EXPECT_EQ(part.computed, kBF16);
    }
    EXPECT_EQ(weight.Spec().format, kBF16);
  }
  EXPECT_EQ(plan.quantised_cols_max(), 0);
  EXPECT_EQ(plan.Formats(), "bfloat16 (stored as Q4_1)");
  EXPECT_EQ(Plan(TwoLayers(), HollowTensors(TwoLayers())).Formats(), "bfloat16");
}

TEST(WeightPlan, WhatTheDeviceSupportsStaysAsItIsStored) {
  const WeightPlan plan = Plan(TwoLayers(), HollowTensors(TwoLayers(), kQ4_1), {kQ4_1});
  const PlannedWeight& qkv = Find(plan, WeightRole::kQkv);
  EXPECT_EQ(qkv.Spec().format, kQ4_1);
  EXPECT_TRUE(qkv.Spec().parts.empty()) << "one format";
  EXPECT_EQ(qkv.bytes, 512 * 256 / 32 * 20);
  EXPECT_EQ(plan.Formats(), "Q4_1");
  EXPECT_EQ(plan.quantised_cols_max(), 512) << "the down projection's";
  // A type that is not quantised follows `dtype`, whatever the device supports.
  EXPECT_EQ(Plan(TwoLayers(), HollowTensors(TwoLayers(), kF32)).Formats(), "bfloat16 (stored as float32)");
}

// A table of which rows are looked up is not multiplied; one that is the head, too, is.
TEST(WeightPlan, WhatIsMultipliedAsItIsStoredIsKnown) {
  for (const bool tied : {false, true}) {
    ModelConfig config = TwoLayers();
    config.tied_embeddings = tied;
    TensorTable tensors = HollowTensors(config);
    Replace(tensors, TensorRole::kEmbedding, 0, kQ4_1);
    EXPECT_EQ(Plan(config, tensors, {kQ4_1}).quantised_cols_max(), tied ? 256 : 0);
    Replace(tensors, TensorRole::kDown, 1, kQ4_1);
    EXPECT_EQ(Plan(config, tensors, {kQ4_1}).quantised_cols_max(), 512);
  }
}

TEST(WeightPlan, NothingStaysAsItIsStoredUnlessAskedFor) {
  const TensorTable tensors = HollowTensors(TwoLayers(), kQ4_1);
  const WeightPlan plan = PlanWeights(TwoLayers(), tensors, PlainDevice({kQ4_1}), {DType::kBF16}, 100);
  EXPECT_EQ(plan.Formats(), "bfloat16 (stored as Q4_1)");
}

// As in a Q4_K_M file, whose values are Q6_K.
TEST(WeightPlan, AFusedMatrixMayMixTheFormatsOfItsParts) {
  TensorTable tensors = HollowTensors(TwoLayers(), kQ4_K);
  Replace(tensors, TensorRole::kV, 1, kQ6_K);
  const WeightPlan plan = Plan(TwoLayers(), tensors, {kQ4_K, kQ6_K});
  const PlannedWeight& qkv = Find(plan, WeightRole::kQkv, 1);
  EXPECT_THAT(Computed(qkv), ElementsAre(kQ4_K, kQ4_K, kQ6_K));
  const LinearSpec spec = qkv.Spec();
  ASSERT_EQ(spec.parts.size(), 3u);
  EXPECT_EQ(spec.parts[2].rows, 128);
  EXPECT_EQ(spec.parts[2].format, kQ6_K);
  EXPECT_EQ(qkv.bytes, (256 + 128) * 144 + 128 * 210);
  EXPECT_TRUE(Find(plan, WeightRole::kQkv, 0).Spec().parts.empty());
  EXPECT_EQ(plan.Formats(), "Q4_K, Q6_K");
  const auto bytes = plan.BytesByFormat();
  ASSERT_EQ(bytes.size(), 2u);
  EXPECT_EQ(bytes[0].first, "Q4_K");
  EXPECT_EQ(bytes[1], (std::pair<std::string, int64_t>("Q6_K", 128 * 210)));
  EXPECT_EQ(bytes[0].second + bytes[1].second, plan.bytes());
  // Where only one of them is supported, the other one is expanded.
  EXPECT_THAT(Computed(Find(Plan(TwoLayers(), tensors, {kQ4_K}), WeightRole::kQkv, 1)),
              ElementsAre(kQ4_K, kQ4_K, kBF16));
}

TEST(WeightPlan, WhereADeviceTakesNoMixtureWhatIsNotAllQuantisedIsExpanded) {
  TensorTable tensors = HollowTensors(TwoLayers(), kQ4_K);
  Replace(tensors, TensorRole::kV, 1, kQ6_K);
  WeightDevice device = PlainDevice({kQ4_K});
  device.mixes_quantised = false;
  const auto plan = [&] { return PlanWeights(TwoLayers(), tensors, device, {DType::kBF16, true}, 100); };
  EXPECT_THAT(Computed(Find(plan(), WeightRole::kQkv, 0)), ElementsAre(kQ4_K, kQ4_K, kQ4_K));
  EXPECT_THAT(Computed(Find(plan(), WeightRole::kQkv, 1)), ElementsAre(kBF16, kBF16, kBF16));
  EXPECT_EQ(plan().Formats(), "bfloat16, Q4_K (stored as Q4_K, Q6_K)");
  device = PlainDevice({kQ4_K, kQ6_K});  // two formats, both quantised
  device.mixes_quantised = false;
  EXPECT_THAT(Computed(Find(plan(), WeightRole::kQkv, 1)), ElementsAre(kQ4_K, kQ4_K, kQ6_K));
}

TEST(WeightPlan, AGateAndItsUpProjectionMayDiffer) {
  TensorTable tensors = HollowTensors(TwoLayers(), kQ4_K);
  Replace(tensors, TensorRole::kUp, 1, kQ6_K);
  const WeightPlan plan = Plan(TwoLayers(), tensors, {kQ4_K, kQ6_K});
  EXPECT_THAT(Computed(Find(plan, WeightRole::kUp, 0)), ElementsAre(kQ4_K, kQ4_K));
  const PlannedWeight& up = Find(plan, WeightRole::kUp, 1);
  EXPECT_THAT(Computed(up), ElementsAre(kQ4_K, kQ6_K));
  EXPECT_TRUE(up.Spec().gated);
  EXPECT_EQ(up.Spec().parts.size(), 2u);
  EXPECT_EQ(plan.Formats(), "Q4_K, Q6_K");
}

TEST(WeightPlan, WhatCannotBeHadAsStoredIsExpanded) {
  TensorTable tensors = HollowTensors(TwoLayers(), kQ8_0);
  Replace(tensors, TensorRole::kDown, 0, kQ8_0, /*has_stored_rows=*/false);
  const WeightPlan plan = Plan(TwoLayers(), tensors, {kQ8_0});
  EXPECT_THAT(Computed(Find(plan, WeightRole::kDown, 0)), ElementsAre(kBF16));
  EXPECT_THAT(Computed(Find(plan, WeightRole::kDown, 1)), ElementsAre(kQ8_0));
}

TEST(WeightPlan, EachExpertHasMatricesOfItsOwn) {
  ModelConfig config = TwoLayers();
  config.experts = 3;
  config.experts_per_token = 2;
  TensorTable tensors = HollowTensors(config, kQ4_K);
  tensors.Set(TensorRole::kExpertUp, 1, std::make_unique<HollowTensor>(512, 256, kQ6_K), /*expert=*/2);
  const WeightPlan plan = Plan(config, tensors, {kQ4_K, kQ6_K});
  EXPECT_EQ(plan.weights.size(), 2u + 2 * (3 + 2 * 3)) << "embedding and head; per layer q k v, o, router, experts";
  EXPECT_EQ(plan.quantised_cols_max(), 256) << "that of experts aside";
  const PlannedWeight& router = Find(plan, WeightRole::kRouter, 1);
  EXPECT_EQ(router.rows(), 3);
  int experts = 0;
  for (const PlannedWeight& weight : plan.weights) {
    if (weight.role != WeightRole::kExpertUp || weight.layer != 1) continue;
    EXPECT_EQ(weight.expert, experts++);
    EXPECT_TRUE(weight.gated);
    EXPECT_EQ(weight.rows(), 1024);
    EXPECT_THAT(Computed(weight), ElementsAre(kQ4_K, weight.expert == 2 ? kQ6_K : kQ4_K));
  }
  EXPECT_EQ(experts, 3);
}

// --- what loading takes ------------------------------------------------------------------------------------------------

std::unique_ptr<CpuDevice> TwoThreads() { return CpuDevice::Create(CpuDeviceOptions{.threads = 2}).value(); }

const LinearWeight* Loaded(const Weights& weights, WeightRole role, int32_t layer, size_t expert) {
  const LayerWeights& in = weights.layers[static_cast<size_t>(layer)];
  switch (role) {
    case WeightRole::kEmbedding:
      return weights.embedding.get();
    case WeightRole::kOwnHead:
      return weights.own_head.get();
    case WeightRole::kProjectIn:
      return weights.project_in.get();
    case WeightRole::kProjectOut:
      return weights.project_out.get();
    case WeightRole::kPositions:
      return weights.positions.get();
    case WeightRole::kQkv:
      return in.qkv.get();
    case WeightRole::kO:
      return in.o.get();
    case WeightRole::kUp:
      return in.up.get();
    case WeightRole::kDown:
      return in.down.get();
    case WeightRole::kRouter:
      return in.router.get();
    case WeightRole::kExpertUp:
      return in.experts->up()[expert].get();
    case WeightRole::kExpertDown:
      return in.experts->down()[expert].get();
  }
  return nullptr;
}

// Every matrix that was loaded is in the plan, in the shape and the bytes that it has.
void ExpectLoadedAsPlanned(const std::string& path) {
  const auto checkpoint = Checkpoint::Open(path);
  ASSERT_THAT(checkpoint, IsOk());
  const std::unique_ptr<CpuDevice> device = TwoThreads();
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const WeightPlan plan = PlanWeights(**checkpoint, *device, {dtype}, 100);
    const Weights weights = LoadWeights(**checkpoint, *device, plan);
    std::set<const LinearWeight*> seen;
    int64_t bytes = 0;
    for (const PlannedWeight& planned : plan.weights) {
      const LinearWeight* loaded = Loaded(weights, planned.role, planned.layer, static_cast<size_t>(planned.expert));
      ASSERT_NE(loaded, nullptr);
      EXPECT_TRUE(seen.insert(loaded).second);
      EXPECT_EQ(static_cast<int64_t>(loaded->bytes()), planned.bytes);
      EXPECT_EQ(loaded->spec().rows, planned.rows());
      EXPECT_EQ(loaded->spec().cols, planned.cols);
      EXPECT_EQ(loaded->spec().format, FormatOf(dtype));
      bytes += planned.bytes;
    }
    const size_t outside =
        1 + (weights.own_head != nullptr) + 2 * (weights.project_in != nullptr) + (weights.positions != nullptr);
    const Experts* of_layer = weights.layers.front().experts.get();
    const size_t experts = of_layer == nullptr ? 0 : of_layer->up().size();
    EXPECT_EQ(seen.size(), outside + (experts == 0 ? 4 : 3 + 2 * experts) * weights.layers.size());
    EXPECT_EQ(plan.bytes() + plan.position_bytes() - plan.rope_bytes, bytes);
    EXPECT_EQ(plan.rope_bytes != 0, weights.rope != nullptr);
    EXPECT_EQ(weights.quantised_cols_max, 0);
  }
}

class PlannedFamilies : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, PlannedFamilies,
                         testing::Values("llama", "llama_biases", "mistral", "qwen2", "qwen3", "opt", "opt_post_norm",
                                         "opt_plain", "gpt_neox", "gpt_neox_serial", "starcoder2", "smollm3", "olmo3",
                                         "phi3", "qwen3_moe", "mixtral", "gpt_oss", "gpt_oss_mxfp4"),
                         [](const auto& family) { return std::string(family.param); });

TEST_P(PlannedFamilies, TakeWhatTheirPlansSay) {
  const TempDir dir;
  FamilyCheckpoint(GetParam()).WriteTo(dir.path(), "BF16");
  ExpectLoadedAsPlanned(dir.path());
}

TEST(WeightPlan, AGgufFileTakesWhatItsPlanSays) {
  const TempDir dir;
  GgufBuilder file = TinyGguf();
  file.AddF32("output.weight", {32, 258}).AddF32("blk.1.attn_k.bias", {16});
  // 64 rows of a block each: d = 1, m = 0.
  file.At("blk.0.ffn_up.weight") = {"blk.0.ffn_up.weight", {32, 64}, GgufBuilder::kQ4_1, {}};
  for (int row = 0; row < 64; ++row) {
    file.At("blk.0.ffn_up.weight").data += Raw<uint16_t>(0x3C00) + Raw<uint16_t>(0) + std::string(16, '\x21');
  }
  ExpectLoadedAsPlanned(dir.Write("tiny.gguf", file.Build()));
}

TEST(WeightPlan, TheCommittedCheckpointsTakeWhatTheirPlansSay) {
  for (const char* name : {"gqa_tied", "gqa_untied", "mha_tied", "mha_untied", "gqa_llama3_rope"}) {
    SCOPED_TRACE(name);
    ExpectLoadedAsPlanned(SourceDir() + "/tests/golden/" + name);
  }
}

}  // namespace
}  // namespace hydrant
