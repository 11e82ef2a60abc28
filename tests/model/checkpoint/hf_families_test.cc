// What the families of config.json say, each in its words: defaults, windows, and rows E14 to E16 of their own fields.
#include "model/checkpoint/hf_families.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/model/checkpoint/hf_reading.h"
#include "tests/support/status_matchers.h"

namespace hydrant {
namespace {

using nlohmann::json;

// The widths aside, which every file states.
json Silent(const char* model_type) {
  json config = {
      {"model_type", model_type}, {"hidden_size", 64},       {"num_hidden_layers", 2}, {"num_attention_heads", 8},
      {"vocab_size", 100},        {"intermediate_size", 96}, {"ffn_dim", 96},          {"moe_intermediate_size", 24}};
  if (std::string(model_type).starts_with("qwen")) config.update({{"eos_token_id", 7}, {"num_key_value_heads", 8}});
  return config;
}

TEST(HfFamilies, SilenceMeansTheDefaultsOfTheirClasses) {
  const Reading mistral(Silent("mistral"));
  ASSERT_THAT(mistral.result(), IsOk());
  EXPECT_EQ(mistral.config().kv_heads, 8);
  EXPECT_EQ(mistral.config().context, 131072);
  EXPECT_EQ(mistral.config().window, 4096);
  EXPECT_EQ(mistral.config().windowed_layers, (std::vector<bool>{true, true}));
  EXPECT_TRUE(mistral.warnings().empty());
  EXPECT_EQ(mistral.config().eos_ids, std::vector<int32_t>{2});
  EXPECT_FALSE(mistral.result()->expectation.attention_bias);

  const Reading qwen2(Silent("qwen2"));
  ASSERT_THAT(qwen2.result(), IsOk());
  EXPECT_EQ(qwen2.config().context, 32768);
  EXPECT_EQ(qwen2.config().bos_id, -1);
  EXPECT_TRUE(qwen2.warnings().empty());

  const Reading qwen3(Silent("qwen3"));
  ASSERT_THAT(qwen3.result(), IsOk());
  EXPECT_EQ(qwen3.config().head_dim, 128);

  const Reading qwen3_moe(Silent("qwen3_moe"));
  ASSERT_THAT(qwen3_moe.result(), IsOk());
  EXPECT_EQ(qwen3_moe.config().ffn, 24);
  EXPECT_EQ(qwen3_moe.config().experts, 128);
  EXPECT_EQ(qwen3_moe.config().experts_per_token, 8);
  EXPECT_FALSE(qwen3_moe.config().normalised_experts);
  EXPECT_EQ(qwen3_moe.config().window, kNoWindow);

  const Reading mixtral(Silent("mixtral"));
  ASSERT_THAT(mixtral.result(), IsOk());
  EXPECT_EQ(mixtral.config().ffn, 96);
  EXPECT_EQ(mixtral.config().experts, 8);
  EXPECT_EQ(mixtral.config().experts_per_token, 2);
  EXPECT_TRUE(mixtral.config().normalised_experts);
  EXPECT_EQ(mixtral.config().context, 131072);

  const Reading opt(Silent("opt"));
  ASSERT_THAT(opt.result(), IsOk());
  EXPECT_EQ(opt.config().norm, NormKind::kLayer);
  EXPECT_EQ(opt.config().norm_eps, 1e-5f);
  EXPECT_EQ(opt.config().activation, Activation::kRelu);
  EXPECT_FALSE(opt.config().gated);
  EXPECT_TRUE(opt.config().tied_embeddings);
  EXPECT_EQ(opt.config().norm_place, NormPlace::kBefore);
  EXPECT_TRUE(opt.config().final_norm);
  EXPECT_EQ(opt.config().position_rows, 2050);
  EXPECT_EQ(opt.config().position_offset, 2);
  EXPECT_EQ(opt.config().rope_dims, 0);
  EXPECT_FALSE(opt.config().projected());
  EXPECT_TRUE(opt.result()->expectation.attention_bias && opt.result()->expectation.mlp_bias);

  const Reading neox(Silent("gpt_neox"));
  ASSERT_THAT(neox.result(), IsOk());
  EXPECT_TRUE(neox.config().parallel_residual);
  EXPECT_EQ(neox.config().activation, Activation::kGelu);
  EXPECT_EQ(neox.config().rope_dims, 2) << "a quarter of 8";
  EXPECT_EQ(neox.config().bos_id, 0);
  EXPECT_EQ(neox.config().eos_ids, std::vector<int32_t>{2});
}

TEST(HfFamilies, Gemma3sLayersRotateByTheirKind) {
  json config = Silent("gemma3_text");
  config["num_hidden_layers"] = 7;
  config["query_pre_attn_scalar"] = 64;
  const Reading silent(config);
  ASSERT_THAT(silent.result(), IsOk());
  EXPECT_EQ(silent.config().head_dim, 256);
  EXPECT_EQ(silent.config().kv_heads, 4);
  EXPECT_EQ(silent.config().context, 131072);
  EXPECT_EQ(silent.config().window, 4096);
  EXPECT_EQ(silent.config().norm_place, NormPlace::kBeforeAndAfter);
  EXPECT_TRUE(silent.config().tied_embeddings);
  EXPECT_EQ(silent.config().norm_offset, 1);
  EXPECT_EQ(silent.config().embedding_scale, 8) << "the root of 64";
  EXPECT_EQ(silent.config().attention_scale, 1.0 / 8);
  EXPECT_EQ(silent.config().activation, Activation::kGeluTanh);
  EXPECT_EQ(silent.config().windowed_layers, (std::vector<bool>{true, true, true, true, true, false, true}));
  EXPECT_NEAR(silent.config().rope_inv_freq[64], 1e-3, 1e-12) << "half of a base of 1,000,000";
  EXPECT_NEAR(silent.config().windowed_inv_freq[64], 1e-2, 1e-12);

  config["layer_types"] = {"full_attention", "sliding_attention", "full_attention", "full_attention",
                           "full_attention", "full_attention",    "full_attention"};
  config["rope_parameters"] = {{"full_attention", {{"rope_type", "linear"}, {"factor", 8}, {"rope_theta", 1e6}}},
                               {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 1e4}}}};
  const Reading said(config);
  ASSERT_THAT(said.result(), IsOk());
  EXPECT_EQ(said.config().windowed_layers, (std::vector<bool>{false, true, false, false, false, false, false}));
  EXPECT_NEAR(said.config().rope_inv_freq[0], 1.0 / 8, 1e-12);
  EXPECT_EQ(said.config().windowed_inv_freq[0], 1);
}

TEST(HfFamilies, EveryFourthLayerOfSmollm3IsNotRotated) {
  json config = Silent("smollm3");
  config.update({{"num_hidden_layers", 6}, {"eos_token_id", 7}});  // its own is beyond this vocabulary
  const Reading silent(config);
  ASSERT_THAT(silent.result(), IsOk());
  EXPECT_EQ(silent.config().unrotated_layers, (std::vector<bool>{false, false, false, true, false, false}));
  EXPECT_EQ(silent.config().kv_heads, 4);
  EXPECT_EQ(silent.config().context, 32768);
  EXPECT_TRUE(silent.config().tied_embeddings);
  EXPECT_NEAR(silent.config().rope_inv_freq[2], 1 / std::sqrt(2e6), 1e-12) << "half of a base of 2,000,000";
  EXPECT_TRUE(silent.config().windowed_layers.empty());

  // Windows are where no rotation is.
  config.update({{"no_rope_layer_interval", 2}, {"use_sliding_window", true}, {"sliding_window", 64}});
  const Reading windowed(config);
  ASSERT_THAT(windowed.result(), IsOk());
  EXPECT_EQ(windowed.config().unrotated_layers, (std::vector<bool>{false, true, false, true, false, true}));
  EXPECT_EQ(windowed.config().windowed_layers, windowed.config().unrotated_layers);
  EXPECT_EQ(windowed.config().window, 64);

  // A list may be longer than the model is deep.
  config.update({{"no_rope_layers", {0, 1, 1, 1, 1, 1, 0}},
                 {"layer_types",
                  {"full_attention", "sliding_attention", "full_attention", "full_attention", "full_attention",
                   "full_attention"}}});
  const Reading listed(config);
  ASSERT_THAT(listed.result(), IsOk());
  EXPECT_EQ(listed.config().unrotated_layers, (std::vector<bool>{true, false, false, false, false, false}));
  EXPECT_EQ(listed.config().windowed_layers, (std::vector<bool>{false, true, false, false, false, false}));
}

TEST(HfFamilies, Olmo3StretchesLayersWithoutWindows) {
  json config = Silent("olmo3");
  config.update({{"num_hidden_layers", 5}, {"eos_token_id", 7}});
  const Reading silent(config);
  ASSERT_THAT(silent.result(), IsOk());
  EXPECT_EQ(silent.config().norm_place, NormPlace::kAfter);
  EXPECT_TRUE(silent.config().norms_over_heads);
  EXPECT_EQ(silent.config().kv_heads, 8);
  EXPECT_EQ(silent.config().context, 2048);
  EXPECT_EQ(silent.config().window, 4096);
  EXPECT_EQ(silent.config().windowed_layers, (std::vector<bool>{true, true, true, false, true}));
  EXPECT_EQ(silent.config().rope_inv_freq, silent.config().windowed_inv_freq);

  // As files of transformers 4 write it.
  config.update({{"rope_theta", 1e6}, {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8}}}});
  const Reading old(config);
  ASSERT_THAT(old.result(), IsOk());
  EXPECT_EQ(old.config().windowed_inv_freq[0], 1);
  EXPECT_NEAR(old.config().windowed_inv_freq[2], 1e-3, 1e-12) << "half of a base of 1,000,000";
  EXPECT_NEAR(old.config().rope_inv_freq[2], 1e-3 / 8, 1e-12);

  config["model_type"] = "olmo2";
  const Reading olmo2(config);
  ASSERT_THAT(olmo2.result(), IsOk());
  EXPECT_TRUE(olmo2.config().windowed_layers.empty() && olmo2.config().windowed_inv_freq.empty());
  EXPECT_EQ(olmo2.config().norm_place, NormPlace::kAfter);
}

TEST(HfFamilies, Gemma2CapsScoresAndLogits) {
  json config = Silent("gemma2");
  config["num_hidden_layers"] = 3;
  const Reading silent(config);
  ASSERT_THAT(silent.result(), IsOk());
  EXPECT_EQ(silent.config().attention_softcap, 50);
  EXPECT_EQ(silent.config().final_softcap, 30);
  EXPECT_EQ(silent.config().attention_scale, 1.0 / 16);
  EXPECT_EQ(silent.config().window, 4096);
  EXPECT_EQ(silent.config().windowed_layers, (std::vector<bool>{true, false, true}));
  EXPECT_TRUE(silent.config().windowed_inv_freq.empty());
  EXPECT_EQ(silent.config().norm_place, NormPlace::kBeforeAndAfter);

  config.update({{"attn_logit_softcapping", nullptr}, {"final_logit_softcapping", 20}});
  const Reading said(config);
  ASSERT_THAT(said.result(), IsOk());
  EXPECT_EQ(said.config().attention_softcap, 0);
  EXPECT_EQ(said.config().final_softcap, 20);
}

TEST(HfFamilies, Starcoder2sSilenceMeansBiasesAndTheTanhGelu) {
  json config = Silent("starcoder2");
  config["eos_token_id"] = 7;  // its own is beyond this vocabulary
  const Reading starcoder2(config);
  ASSERT_THAT(starcoder2.result(), IsOk());
  EXPECT_EQ(starcoder2.config().norm, NormKind::kLayer);
  EXPECT_EQ(starcoder2.config().activation, Activation::kGeluTanh);
  EXPECT_FALSE(starcoder2.config().gated);
  EXPECT_EQ(starcoder2.config().kv_heads, 2);
  EXPECT_TRUE(starcoder2.config().tied_embeddings);
  EXPECT_TRUE(starcoder2.result()->expectation.attention_bias && starcoder2.result()->expectation.mlp_bias);
}

// transformers takes it for a Ministral then.
TEST(HfFamilies, AMistralMayListItsWindowedLayers) {
  json config = Silent("mistral");
  config.update({{"num_hidden_layers", 3}, {"sliding_window", 8}, {"is_causal", true}});
  config["layer_types"] = {"full_attention", "sliding_attention", "full_attention"};
  const Reading listed(config);
  ASSERT_THAT(listed.result(), IsOk());
  EXPECT_EQ(listed.config().windowed_layers, (std::vector<bool>{false, true, false}));
}

TEST(HfFamilies, SilenceAndNullDiffer) {
  json mistral = Silent("mistral");
  mistral["sliding_window"] = nullptr;
  mistral["num_key_value_heads"] = nullptr;
  mistral["num_attention_heads"] = 16;
  mistral["max_position_embeddings"] = 32768;
  const Reading read(mistral);
  ASSERT_THAT(read.result(), IsOk());
  EXPECT_EQ(read.config().context, 32768);
  EXPECT_EQ(read.config().window, kNoWindow);
  EXPECT_TRUE(read.config().windowed_layers.empty());
  EXPECT_EQ(read.config().kv_heads, 16);
  // The other file knows better than the class.
  EXPECT_EQ(Reading(mistral, json{{"eos_token_id", 9}}).config().eos_ids, std::vector<int32_t>{9});
}

struct Window {
  const char* name;
  json fields;
  std::vector<bool> layers;
};
class HfWindow : public testing::TestWithParam<Window> {};
TEST_P(HfWindow, IsThatOfTheLayersThatHaveIt) {
  json config = Silent("qwen3");
  config["max_position_embeddings"] = 512;
  config.update(GetParam().fields);
  const Reading read(config);
  ASSERT_THAT(read.result(), IsOk());
  EXPECT_EQ(read.config().context, 512);
  EXPECT_EQ(read.config().windowed_layers, GetParam().layers);
  EXPECT_EQ(read.config().window, GetParam().layers.empty() ? kNoWindow : 64);
}
INSTANTIATE_TEST_SUITE_P(
    , HfWindow,
    testing::Values(
        Window{"NotUsed", {{"sliding_window", 64}}, {}},
        Window{"Used", {{"sliding_window", 64}, {"use_sliding_window", true}, {"max_window_layers", 1}}, {false, true}},
        Window{"FromALayerThatIsNotThere", {{"sliding_window", 64}, {"use_sliding_window", true}}, {}},
        Window{"OfEveryLayer",
               {{"sliding_window", 64}, {"use_sliding_window", true}, {"max_window_layers", 0}},
               {true, true}},
        Window{"LayersMix",
               {{"sliding_window", 64},
                {"use_sliding_window", true},
                {"layer_types", {"sliding_attention", "full_attention"}}},
               {true, false}},
        Window{"NoLayer",
               {{"sliding_window", 64},
                {"use_sliding_window", true},
                {"max_window_layers", 0},
                {"layer_types", {"full_attention", "full_attention"}}},
               {}},
        Window{
            "OfAFamilyWithoutARule",
            {{"model_type", "mixtral"}, {"sliding_window", 64}, {"layer_types", {"full_attention", "full_attention"}}},
            {true, true}},
        Window{"OfAFamilyThatHasNone", {{"model_type", "llama"}, {"eos_token_id", 2}, {"sliding_window", 64}}, {}}),
    [](const auto& test) { return test.param.name; });

TEST(HfFamilies, OptNormsFollowWhereTheFileSaysSo) {
  json config = Silent("opt");
  config.update({{"do_layer_norm_before", false}, {"word_embed_proj_dim", 16}});
  const Reading post(config);
  ASSERT_THAT(post.result(), IsOk());
  EXPECT_EQ(post.config().norm_place, NormPlace::kAfterSum);
  EXPECT_FALSE(post.config().final_norm);
  EXPECT_EQ(post.config().embedding_cols(), 16);
  EXPECT_TRUE(post.config().projected());
  config.update({{"do_layer_norm_before", true}, {"_remove_final_layer_norm", true}, {"enable_bias", false}});
  const Reading old(config);
  ASSERT_THAT(old.result(), IsOk());
  EXPECT_EQ(old.config().norm_place, NormPlace::kBefore);
  EXPECT_FALSE(old.config().final_norm);
  EXPECT_FALSE(old.result()->expectation.attention_bias || old.result()->expectation.mlp_bias);
}

TEST(HfFamilies, NeoxReadsItsOwnNamesOfRope) {
  json config = Silent("gpt_neox");
  config.update({{"rotary_pct", 1.0}, {"rotary_emb_base", 160000}});
  const Reading old(config);
  ASSERT_THAT(old.result(), IsOk());
  EXPECT_EQ(old.config().rope_dims, 8);
  EXPECT_NEAR(old.config().rope_inv_freq[1], 0.05, 1e-12);
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 10000.0}, {"partial_rotary_factor", 0.5}};
  const Reading both(config);
  ASSERT_THAT(both.result(), IsOk());
  EXPECT_EQ(both.config().rope_dims, 4);
  EXPECT_NEAR(both.config().rope_inv_freq[1], 0.01, 1e-12);
}

TEST(HfFamilies, GptOssReadsWhatItsFilesSay) {
  json config = Silent("gpt_oss");
  config.update({{"eos_token_id", 7},
                 {"rope_theta", 150000},
                 {"rope_scaling",
                  {{"rope_type", "yarn"},
                   {"factor", 32.0},
                   {"beta_fast", 32.0},
                   {"beta_slow", 1.0},
                   {"original_max_position_embeddings", 4096},
                   {"truncate", false}}},
                 {"swiglu_limit", 7.0},
                 {"hidden_act", "silu"}});
  const Reading read(config);
  ASSERT_THAT(read.result(), IsOk());
  const ModelConfig& model = read.config();
  EXPECT_EQ(model.activation, Activation::kClampedSwish);
  EXPECT_EQ(model.experts, 128);
  EXPECT_EQ(model.experts_per_token, 4);
  EXPECT_TRUE(model.normalised_experts);
  EXPECT_EQ(model.head_dim, 64);
  EXPECT_EQ(model.context, 131072);
  EXPECT_EQ(model.window, 128);
  EXPECT_EQ(model.windowed_layers, (std::vector<bool>{true, false}));
  EXPECT_TRUE(read.result()->expectation.attention_bias);
  EXPECT_NEAR(model.rope_attention_factor, 0.1 * std::log(32.0) + 1, 1e-12);
  // The ramp's ends are 8.09 and 17.4 of 32 pairs: where they are not rounded, that of 8 is not slowed, and 9 a little.
  EXPECT_DOUBLE_EQ(model.rope_inv_freq[8], std::pow(150000.0, -16.0 / 64));
  const double plain = std::pow(150000.0, -18.0 / 64);
  const double low = 64 * std::log(4096 / (32 * 2 * M_PI)) / (2 * std::log(150000.0));
  const double high = 64 * std::log(4096 / (2 * M_PI)) / (2 * std::log(150000.0));
  const double ramp = (9 - low) / (high - low);
  EXPECT_NEAR(model.rope_inv_freq[9], plain / 32 * ramp + plain * (1 - ramp), 1e-12);
}

// Rows E14 to E16 of the fields that only some families have.
struct WrongFamily {
  const char* name;
  const char* model_type;
  json fields;
  std::string part;
};
class HfFamilyRefusal : public testing::TestWithParam<WrongFamily> {};
TEST_P(HfFamilyRefusal, NamesTheField) {
  json config = Silent(GetParam().model_type);
  config.update(GetParam().fields);
  EXPECT_THAT(Reading(config).result(), RefusedWith("config.json: ", GetParam().part));
}
INSTANTIATE_TEST_SUITE_P(
    , HfFamilyRefusal,
    testing::Values(
        WrongFamily{
            "GemmaLayers", "gemma3_text", {{"layer_types", {"full_attention"}}}, "'layer_types': has 1 entries for 2"},
        WrongFamily{"GemmaScalar", "gemma3_text", {{"query_pre_attn_scalar", -1}}, "-1 is not above 0"},
        WrongFamily{"GemmaSoftcap",
                    "gemma3_text",
                    {{"final_logit_softcapping", 0.0}},
                    "'final_logit_softcapping': 0 is not above 0"},
        WrongFamily{"GemmaSoftcapHuge",
                    "gemma2",
                    {{"attn_logit_softcapping", 1e30}},
                    "logits would be capped at 1e+30, which is out of range"},
        WrongFamily{"Gemma3Softcap",
                    "gemma3_text",
                    {{"attn_logit_softcapping", 50}},
                    "'attn_logit_softcapping': is not supported"},
        WrongFamily{"LlamaBackwards", "llama", {{"is_causal", false}}, "'is_causal': false is not supported"},
        WrongFamily{"GemmaBackwards",
                    "gemma3_text",
                    {{"use_bidirectional_attention", true}},
                    "'use_bidirectional_attention': is not supported"},
        WrongFamily{"GemmaWindowedRope",
                    "gemma3_text",
                    {{"rope_parameters",
                      {{"full_attention", {{"rope_type", "default"}}},
                       {"sliding_attention", {{"rope_type", "linear"}, {"factor", 2}}}}}},
                    "'linear' is not supported for windowed layers"},
        WrongFamily{
            "NoExperts", "mixtral", {{"num_local_experts", 0}}, "'num_local_experts': 0 is out of range [1, 1024]"},
        WrongFamily{"ExpertsHuge", "mixtral", {{"num_local_experts", 1 << 30}}, "'num_local_experts': 1073741824"},
        WrongFamily{"ExpertsAreNoNumber", "mixtral", {{"num_local_experts", "all"}}, "'num_local_experts': is not"},
        WrongFamily{"MoreExpertsPerTokenThanThereAre",
                    "mixtral",
                    {{"num_experts_per_tok", 9}},
                    "'num_experts_per_tok': 9 is out of range [1, 8]"},
        WrongFamily{"NoExpertsPerToken", "qwen3_moe", {{"num_experts_per_tok", 0}}, "'num_experts_per_tok': 0"},
        WrongFamily{"NegativeExperts", "qwen3_moe", {{"num_experts", -8}}, "'num_experts': -8 is out of range"},
        WrongFamily{"ExpertsInSomeLayers",
                    "qwen3_moe",
                    {{"mlp_only_layers", {1}}},
                    "'mlp_only_layers': is not supported: every layer has experts"},
        WrongFamily{"ExpertsInEverySecondLayer",
                    "qwen3_moe",
                    {{"decoder_sparse_step", 2}},
                    "'decoder_sparse_step': 2 is not supported"},
        WrongFamily{"ExpertsTooWide",
                    "qwen3_moe",
                    {{"moe_intermediate_size", 1 << 30}},
                    "'moe_intermediate_size': 1073741824 is out of range"},
        WrongFamily{"SmolLayers", "smollm3", {{"no_rope_layers", {1}}}, "'no_rope_layers': has 1 entries for 2 layers"},
        WrongFamily{"SmolLayersNumber", "smollm3", {{"no_rope_layers", 4}}, "'no_rope_layers': has 0 entries"},
        WrongFamily{"SmolFlag", "smollm3", {{"no_rope_layers", {1, 2}}}, "'no_rope_layers[1]': 2 is out of range"},
        WrongFamily{"SmolInterval", "smollm3", {{"no_rope_layer_interval", 0}}, "'no_rope_layer_interval': 0 is out"},
        WrongFamily{"GptOssWithoutRotation",
                    "gpt_oss",
                    {{"rope_scaling", nullptr}},
                    "'rope_parameters': is missing, and so is 'rope_scaling'"},
        WrongFamily{"GptOssLimit",
                    "gpt_oss",
                    {{"swiglu_limit", 10}, {"rope_parameters", {{"rope_type", "default"}}}},
                    "'swiglu_limit': 10 is not supported (7 is)"},
        WrongFamily{"GptOssSlope",
                    "gpt_oss",
                    {{"swiglu_alpha", 1.5}, {"rope_parameters", {{"rope_type", "default"}}}},
                    "'swiglu_alpha': 1.5 is not supported (1.702 is)"},
        WrongFamily{"GptOssActivation",
                    "gpt_oss",
                    {{"hidden_act", "gelu"}, {"rope_parameters", {{"rope_type", "default"}}}},
                    "'hidden_act': activation 'gelu' is not supported here"},
        WrongFamily{"PhiHeadBias", "phi3", {{"lm_head_bias", true}}, "'lm_head_bias': is not supported"},
        WrongFamily{"OptNoFfn", "opt", {{"ffn_dim", 0}}, "'ffn_dim': 0 is out of range"},
        WrongFamily{"OptFfnMissing", "opt", {{"ffn_dim", nullptr}}, "'ffn_dim': is missing"},
        WrongFamily{"OptProjection0", "opt", {{"word_embed_proj_dim", 0}}, "'word_embed_proj_dim': 0 is out of range"},
        WrongFamily{
            "OptProjectionHuge", "opt", {{"word_embed_proj_dim", 1 << 30}}, "'word_embed_proj_dim': 1073741824"},
        WrongFamily{"OptHeads", "opt", {{"num_attention_heads", 7}}, "'num_attention_heads': 7 does not divide"},
        WrongFamily{"OptOddHeads", "opt", {{"hidden_size", 56}}, "'num_attention_heads': 7 is odd"},
        WrongFamily{"OptNoPositions", "opt", {{"max_position_embeddings", 0}}, "'max_position_embeddings': 0"},
        WrongFamily{"OptPositionsHuge", "opt", {{"max_position_embeddings", 2147483647}}, "'max_position_embeddings'"},
        WrongFamily{
            "OptActivation", "opt", {{"activation_function", "tanh"}}, "'activation_function': activation 'tanh'"},
        WrongFamily{"OptNormPlace", "opt", {{"do_layer_norm_before", 1}}, "'do_layer_norm_before': is not"},
        WrongFamily{"NeoxEps", "gpt_neox", {{"layer_norm_eps", 0}}, "'layer_norm_eps': 0"},
        WrongFamily{"NeoxShare", "gpt_neox", {{"rotary_pct", 0}}, "rotary_pct 0 is not between 0 and 1"},
        WrongFamily{"NeoxOddShare", "gpt_neox", {{"rotary_pct", 0.4}}, "'rotary_pct': 3 is not an even number"},
        WrongFamily{"NeoxBase", "gpt_neox", {{"rotary_emb_base", 0}}, "'rotary_emb_base': the rotary base 0"},
        WrongFamily{"NeoxParallel", "gpt_neox", {{"use_parallel_residual", "yes"}}, "'use_parallel_residual': is not"},
        WrongFamily{"HeadsTooWide", "qwen3", {{"head_dim", 512}}, "'head_dim': 512 is out of range [2, 256]"},
        WrongFamily{
            "SilentKvHeads", "mistral", {{"num_attention_heads", 4}}, "'num_key_value_heads': 8 is out of range"},
        WrongFamily{"DynamicFactor", "qwen2", {{"rope_scaling", {{"type", "dynamic"}, {"factor", 0.5}}}}, "factor 0.5"},
        WrongFamily{"Mrope", "qwen2", {{"rope_scaling", {{"type", "mrope"}}}}, "rope_type 'mrope' is not supported"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace hydrant
