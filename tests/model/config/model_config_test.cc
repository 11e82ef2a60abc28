#include "model/config/model_config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "tests/support/status_matchers.h"

namespace hydrant {
namespace {

constexpr ConfigFieldNames kNames{"hidden",  "layers", "heads", "kv_heads", "head_dim", "ffn",      "vocab",
                                  "context", "eps",    "rope",  "bos",      "eos",      "embedding"};

ModelConfig Sound() {
  ModelConfig config;
  config.hidden = 32;
  config.layers = 2;
  config.query_heads = 4;
  config.kv_heads = 2;
  config.head_dim = 8;
  config.ffn = 64;
  config.vocab = 100;
  config.context = 128;
  config.rope_dims = 8;
  config.rope_inv_freq = {1, 0.1, 0.01, 0.001};
  config.eos_ids = {99};
  return config;
}

TEST(ModelConfig, ASoundOneIsAccepted) {
  EXPECT_THAT(ValidateModelConfig(Sound(), "c.json", kNames), IsOk());
  ModelConfig wide = Sound();
  wide.kv_heads = 4;
  wide.bos_id = 0;
  EXPECT_THAT(ValidateModelConfig(wide, "c.json", kNames), IsOk());
}

TEST(ModelConfig, PositionsAreRotaryOrLearned) {
  ModelConfig config = Sound();
  config.rope_dims = 0;
  config.rope_inv_freq.clear();
  config.position_rows = 130;
  config.position_offset = 2;
  EXPECT_THAT(ValidateModelConfig(config, "c.json", kNames), IsOk());
}

struct BadModel {
  const char* name;
  std::function<void(ModelConfig&)> spoil;
  const char* message;
};
class ModelConfigRefusal : public testing::TestWithParam<BadModel> {};

TEST_P(ModelConfigRefusal, NamesFieldAndRange) {
  ModelConfig config = Sound();
  GetParam().spoil(config);
  EXPECT_THAT(ValidateModelConfig(config, "c.json", kNames), RefusedWith("c.json: ", GetParam().message));
}

constexpr float kModelConfigNan = std::numeric_limits<float>::quiet_NaN();

INSTANTIATE_TEST_SUITE_P(
    , ModelConfigRefusal,
    testing::Values(
        BadModel{"NoLayers", [](auto& c) { c.layers = 0; }, "'layers': 0 is out of range [1, 1024]"},
        BadModel{"NegativeLayers", [](auto& c) { c.layers = -1; }, "'layers': -1 is out of range"},
        BadModel{"BillionLayers", [](auto& c) { c.layers = 1'000'000'000; }, "'layers': 1000000000 is out of range"},
        BadModel{"NoHidden", [](auto& c) { c.hidden = 0; }, "'hidden'"},
        BadModel{"NoHeads", [](auto& c) { c.query_heads = 0; }, "'heads': 0 is out of range"},
        BadModel{"NoKvHeads", [](auto& c) { c.kv_heads = 0; }, "'kv_heads': 0 is out of range"},
        BadModel{"MoreKvHeads", [](auto& c) { c.kv_heads = 5; }, "'kv_heads': 5 is out of range [1, 4]"},
        BadModel{"KvHeadsDoNotDivide", [](auto& c) { c.kv_heads = 3; }, "'kv_heads': 3 does not divide"},
        BadModel{"OddHeadDim", [](auto& c) { c.head_dim = 7; }, "'head_dim': 7 is odd"},
        BadModel{"HeadsTooWide", [](auto& c) { c.head_dim = 258; }, "'head_dim': 258 is out of range [2, 256]"},
        BadModel{"EmbeddingTooWide", [](auto& c) { c.embedding_dim = (1 << 17) + 1; }, "'embedding': 131073"},
        BadModel{"BothKindsOfPosition", [](auto& c) { c.position_rows = 130; }, "both learned and rotary"},
        BadModel{"TooFewPositions",
                 [](auto& c) {
                   c.rope_dims = 0;
                   c.rope_inv_freq.clear();
                   c.position_rows = 129;
                   c.position_offset = 2;
                 },
                 "'context': 128 positions from row 2 of a table of 129"},
        BadModel{"NoHeadDim", [](auto& c) { c.head_dim = 0; }, "'head_dim': 0"},
        BadModel{"NoFfn", [](auto& c) { c.ffn = 0; }, "'ffn'"},
        BadModel{"HugeFfn", [](auto& c) { c.ffn = std::numeric_limits<int32_t>::max(); }, "'ffn'"},
        BadModel{"NoVocab", [](auto& c) { c.vocab = 0; }, "'vocab'"},
        BadModel{"NoContext", [](auto& c) { c.context = 0; }, "'context'"},
        BadModel{"EpsZero", [](auto& c) { c.norm_eps = 0; }, "'eps'"},
        BadModel{"EpsNan", [](auto& c) { c.norm_eps = kModelConfigNan; }, "'eps'"},
        BadModel{"ScaleTooSmallForFloats", [](auto& c) { c.attention_scale = 1e-50; }, "scaled by 1e-50"},
        BadModel{"ScaleThatShowsHiddenSlots", [](auto& c) { c.attention_scale = 1e-29; }, "scaled by 1e-29"},
        BadModel{"ScaleTooLarge", [](auto& c) { c.attention_scale = 1e150; }, "scaled by 1e+150"},
        BadModel{"ScaleNan", [](auto& c) { c.attention_scale = static_cast<double>(kModelConfigNan); },
                 "'head_dim': attention"},
        BadModel{"SoftcapTooLarge", [](auto& c) { c.attention_softcap = 1e6f; }, "capped at 1e+06"},
        BadModel{"SoftcapNan", [](auto& c) { c.final_softcap = kModelConfigNan; }, "capped at nan"},
        BadModel{"SoftcapNegative", [](auto& c) { c.final_softcap = -1; }, "capped at -1"},
        BadModel{"NoWindow",
                 [](auto& c) {
                   c.window = 0, c.windowed_layers = {true, true};
                 },
                 "windows of 0 tokens"},
        BadModel{"WindowOfNoLayer", [](auto& c) { c.window = 8; }, "windows of 8 tokens in 0 layers"},
        BadModel{"WindowedLayersTooFew", [](auto& c) { c.windowed_layers = {true}; }, "in 1 layers"},
        BadModel{"WindowedRopeTooShort",
                 [](auto& c) {
                   c.windowed_layers = {true, true}, c.windowed_inv_freq = {1, 0.1};
                 },
                 "windowed layers lack"},
        BadModel{"UnrotatedLayersTooFew", [](auto& c) { c.unrotated_layers = {true}; },
                 "rotation is known of 1 layers"},
        BadModel{"BosOutside", [](auto& c) { c.bos_id = 100; }, "'bos': 100 is out of range [-1, 99]"},
        BadModel{"EosOutside",
                 [](auto& c) {
                   c.eos_ids = {1, 100};
                 },
                 "'eos': 100 is out of range [0, 99]"},
        BadModel{"EosNegative", [](auto& c) { c.eos_ids = {-1}; }, "'eos'"},
        BadModel{"NoEos", [](auto& c) { c.eos_ids.clear(); }, "'eos': no end-of-sequence token"},
        BadModel{"RopeOdd", [](auto& c) { c.rope_dims = 5; }, "'rope': 5"},
        BadModel{"RopeTooWide", [](auto& c) { c.rope_dims = 10; }, "'rope': 10"},
        BadModel{"RopeNone", [](auto& c) { c.rope_dims = 0; }, "'rope': 0"},
        BadModel{"RopeFrequenciesMissing", [](auto& c) { c.rope_inv_freq.pop_back(); }, "'rope': needs 4"},
        BadModel{"RopeFrequencyNan", [](auto& c) { c.rope_inv_freq[1] = std::nan(""); },
                 "'rope': a rotary frequency is nan"}),
    [](const auto& test) { return test.param.name; });

TEST(ModelConfig, AttentionCostsAsMuchAsTheMatricesAtThisDepth) {
  ModelConfig config;
  config.hidden = 576;
  config.query_heads = 9;
  config.kv_heads = 3;
  config.head_dim = 64;
  config.ffn = 1536;
  // (576 x (576 + 576 + 2 x 192) + 3 x 576 x 1536) / (2 x 576): SmolLM2-135M.
  EXPECT_EQ(config.attention_slots_per_token(1), 3072);
  EXPECT_EQ(config.attention_slots_per_token(2.5), 1228);
  config.gated = false;
  EXPECT_EQ(config.attention_slots_per_token(1), 2304);
}

}  // namespace
}  // namespace hydrant
