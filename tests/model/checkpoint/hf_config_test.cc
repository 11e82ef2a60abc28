// config.json and generation_config.json: rows E14 to E16 and E18 of the table of bad model files, and what is refused because
// it would change the mathematics.
#include "model/checkpoint/hf_config.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tests/model/checkpoint/hf_reading.h"
#include "tests/support/status_matchers.h"

namespace hydrant {
namespace {

using nlohmann::json;

TEST(HfConfig, ReadsEveryField) {
  const Reading read(With([](json& c) {
    c["attention_bias"] = true;
    c["head_dim"] = 16;
  }));
  ASSERT_THAT(read.result(), IsOk());
  const ModelConfig& config = read.config();
  EXPECT_EQ(config.hidden, 32);
  EXPECT_EQ(config.layers, 2);
  EXPECT_EQ(config.query_heads, 4);
  EXPECT_EQ(config.kv_heads, 2);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.ffn, 64);
  EXPECT_EQ(config.vocab, 258);
  EXPECT_EQ(config.context, 128);
  EXPECT_EQ(config.norm_eps, 1e-5f);
  EXPECT_EQ(config.activation, Activation::kSilu);
  EXPECT_FALSE(config.tied_embeddings);
  EXPECT_EQ(config.rope_dims, 16);
  EXPECT_EQ(config.rope_inv_freq.front(), 1);
  EXPECT_EQ(config.bos_id, 256);
  EXPECT_EQ(config.eos_ids, std::vector<int32_t>{257});
  EXPECT_TRUE(read.result()->expectation.attention_bias);
  EXPECT_FALSE(read.result()->expectation.mlp_bias);
}

TEST(HfConfig, ASilentFileMeansTheDefaultsOfTransformers) {
  const Reading read(json{{"model_type", "llama"},
                          {"hidden_size", 32},
                          {"num_hidden_layers", 1},
                          {"num_attention_heads", 4},
                          {"intermediate_size", 8},
                          {"vocab_size", 10},
                          {"eos_token_id", 2}});
  ASSERT_THAT(read.result(), IsOk());
  EXPECT_EQ(read.config().kv_heads, 4);
  EXPECT_EQ(read.config().head_dim, 8);
  EXPECT_EQ(read.config().context, 2048);
  EXPECT_EQ(read.config().norm_eps, 1e-6f);
  EXPECT_EQ(read.config().bos_id, 1);
  EXPECT_FALSE(read.config().tied_embeddings);
}

TEST(HfConfig, EndsOfSequenceOfBothFilesAddUp) {
  const Reading read(With([](json& c) { c["eos_token_id"] = {3, 4}; }), json{{"eos_token_id", {4, 5}}});
  ASSERT_THAT(read.result(), IsOk());
  EXPECT_EQ(read.config().eos_ids, (std::vector<int32_t>{3, 4, 5}));
}

TEST(HfConfig, SamplingDefaultsCountWhenTheFileSamples) {
  json generation = {{"do_sample", true}, {"temperature", 0.5}, {"top_p", 0.9}, {"top_k", 20}};
  EXPECT_EQ(Reading(TinyDirectory().config, generation).result()->generation_defaults.temperature, 0.5);
  EXPECT_EQ(Reading(TinyDirectory().config, generation).result()->generation_defaults.top_k, 20);
  EXPECT_EQ(Reading(TinyDirectory().config, generation).result()->generation_defaults.min_p, -1);
  generation["do_sample"] = false;
  generation["max_new_tokens"] = 512;
  EXPECT_EQ(Reading(TinyDirectory().config, generation).result()->generation_defaults.max_new_tokens, 512);
  EXPECT_EQ(Reading(TinyDirectory().config, generation).result()->generation_defaults.temperature, -1);
}

TEST(HfConfig, CodeOfACheckpointIsNeverRun) {
  const Reading read(With([](json& c) {
    c["auto_map"] = {{"AutoModel", "x.Y"}};
    c["trust_remote_code"] = true;
  }));
  ASSERT_THAT(read.result(), IsOk());
  EXPECT_EQ(read.warnings().size(), 2u);
}

struct BadConfig {
  const char* name;
  std::function<void(json&)> spoil;
  std::vector<std::string> parts;
};
class HfConfigRefusal : public testing::TestWithParam<BadConfig> {};
TEST_P(HfConfigRefusal, NamesTheField) {
  std::vector<std::string> parts = GetParam().parts;
  parts.push_back("config.json: ");
  EXPECT_THAT(Reading(With(GetParam().spoil)).result(), RefusedWithParts(parts));
}

constexpr const char* kHfConfigLayers = "'num_hidden_layers': ";
INSTANTIATE_TEST_SUITE_P(
    E14Layers, HfConfigRefusal,
    testing::Values(
        BadConfig{
            "Zero", [](json& c) { c["num_hidden_layers"] = 0; }, {kHfConfigLayers, "0 is out of range [1, 1024]"}},
        BadConfig{"Negative",
                  [](json& c) { c["num_hidden_layers"] = -1; },
                  {kHfConfigLayers, "-1 is out of range [1, 1024]"}},
        BadConfig{"TwoTo31",
                  [](json& c) { c["num_hidden_layers"] = int64_t{1} << 31; },
                  {kHfConfigLayers, "is out of range ["}},
        BadConfig{"TwoTo64", [](json& c) { c["num_hidden_layers"] = ~0ull; }, {kHfConfigLayers, "is out of range ["}},
        BadConfig{"Billion", [](json& c) { c["num_hidden_layers"] = 1'000'000'000; }, {kHfConfigLayers, "[1, 1024]"}},
        BadConfig{"Float", [](json& c) { c["num_hidden_layers"] = 2.0; }, {kHfConfigLayers, "is not an integer"}},
        BadConfig{"Text", [](json& c) { c["num_hidden_layers"] = "2"; }, {kHfConfigLayers, "is not an integer"}},
        BadConfig{"True", [](json& c) { c["num_hidden_layers"] = true; }, {kHfConfigLayers, "is not an integer"}},
        BadConfig{"Null", [](json& c) { c["num_hidden_layers"] = nullptr; }, {kHfConfigLayers, "is missing"}},
        BadConfig{"Missing", [](json& c) { c.erase("num_hidden_layers"); }, {kHfConfigLayers, "is missing"}}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    E15Shapes, HfConfigRefusal,
    testing::Values(
        BadConfig{
            "NoHeads", [](json& c) { c["num_attention_heads"] = 0; }, {"'num_attention_heads': 0 is out of range"}},
        BadConfig{"NegativeHeads", [](json& c) { c["num_attention_heads"] = -4; }, {"'num_attention_heads': -4"}},
        BadConfig{"HeadsDoNotDivide",
                  [](json& c) { c["num_attention_heads"] = 5; },
                  {"'num_attention_heads': 5 does not divide the hidden size 32"}},
        BadConfig{"NoHidden", [](json& c) { c["hidden_size"] = 0; }, {"'hidden_size': 0 is out of range"}},
        BadConfig{"HiddenMinimum",
                  [](json& c) { c["hidden_size"] = std::numeric_limits<int32_t>::min(); },
                  {"'hidden_size'"}},
        BadConfig{
            "MoreKvHeads", [](json& c) { c["num_key_value_heads"] = 8; }, {"'num_key_value_heads': 8 is out of range"}},
        BadConfig{
            "KvHeadsDoNotDivide", [](json& c) { c["num_key_value_heads"] = 3; }, {"'num_key_value_heads': 3 does not"}},
        BadConfig{"NoKvHeads", [](json& c) { c["num_key_value_heads"] = 0; }, {"'num_key_value_heads': 0"}},
        BadConfig{"HeadDim7", [](json& c) { c["head_dim"] = 7; }, {"'head_dim': 7 is odd"}},
        BadConfig{"HeadDimNegative", [](json& c) { c["head_dim"] = -8; }, {"'head_dim': -8"}},
        BadConfig{"HeadDimHuge", [](json& c) { c["head_dim"] = 1 << 30; }, {"'head_dim': 1073741824"}},
        BadConfig{"NoContext", [](json& c) { c["max_position_embeddings"] = 0; }, {"'max_position_embeddings': 0"}},
        BadConfig{"NoFfn", [](json& c) { c["intermediate_size"] = 0; }, {"'intermediate_size': 0"}},
        BadConfig{"ThetaZero", [](json& c) { c["rope_theta"] = 0; }, {"'rope_theta'", "0 is not a positive number"}},
        BadConfig{"ThetaNegative", [](json& c) { c["rope_theta"] = -1e4; }, {"'rope_theta'", "not a positive number"}},
        BadConfig{"ThetaText", [](json& c) { c["rope_theta"] = "NaN"; }, {"'rope_theta': is not a number"}},
        BadConfig{"EpsZero", [](json& c) { c["rms_norm_eps"] = 0; }, {"'rms_norm_eps': 0"}},
        BadConfig{"EpsOne", [](json& c) { c["rms_norm_eps"] = 1; }, {"'rms_norm_eps': 1"}}),
    [](const auto& test) { return test.param.name; });

TEST(HfConfig, E15NanIsNotJson) {
  std::string text = TinyDirectory().config.dump();
  const size_t at = text.find("10000.0");
  EXPECT_THAT(Reading(text.replace(at, 7, "NaN")).result(), RefusedWith("config.json: is not valid JSON at byte"));
}

INSTANTIATE_TEST_SUITE_P(
    E16Ids, HfConfigRefusal,
    testing::Values(
        BadConfig{"NoVocabulary", [](json& c) { c["vocab_size"] = 0; }, {"'vocab_size': 0 is out of range"}},
        BadConfig{"NegativeVocabulary", [](json& c) { c["vocab_size"] = -1; }, {"'vocab_size': -1 is out of range"}},
        BadConfig{"HugeVocabulary", [](json& c) { c["vocab_size"] = (1 << 22) + 1; }, {"'vocab_size'"}},
        BadConfig{"EosAtVocabulary",
                  [](json& c) { c["eos_token_id"] = 258; },
                  {"'eos_token_id': 258 is out of range [0, 257]"}},
        BadConfig{"EosInList",
                  [](json& c) {
                    c["eos_token_id"] = {1, 258};
                  },
                  {"'eos_token_id[1]': 258 is out of range"}},
        BadConfig{"EosNegative", [](json& c) { c["eos_token_id"] = -1; }, {"'eos_token_id': -1"}},
        BadConfig{
            "EosListEmpty", [](json& c) { c["eos_token_id"] = json::array(); }, {"'eos_token_id': no end-of-sequence"}},
        BadConfig{"EosNull", [](json& c) { c["eos_token_id"] = nullptr; }, {"'eos_token_id': no end-of-sequence"}},
        BadConfig{"EosMissingWithoutDefault",
                  [](json& c) {
                    c["model_type"] = "qwen2";
                    c.erase("eos_token_id");
                  },
                  {"'eos_token_id': no end-of-sequence"}},
        BadConfig{"EosText", [](json& c) { c["eos_token_id"] = "</s>"; }, {"'eos_token_id': is not an integer"}},
        BadConfig{"BosAtVocabulary", [](json& c) { c["bos_token_id"] = 258; }, {"'bos_token_id': 258 is out of range"}},
        BadConfig{
            "PadAtVocabulary", [](json& c) { c["pad_token_id"] = 258; }, {"'pad_token_id': 258 is out of range"}}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Unsupported, HfConfigRefusal,
    testing::Values(BadConfig{"ModelType",
                              [](json& c) { c["model_type"] = "mamba"; },
                              {"'model_type': 'mamba' is not supported; these are: llama, mistral, qwen2, qwen3, "
                               "qwen3_moe, mixtral, gpt_oss, smollm3, olmo2, olmo3, gemma2, gemma3_text, phi3, opt, "
                               "gpt_neox, starcoder2"}},
                    BadConfig{"ModelTypeMissing", [](json& c) { c.erase("model_type"); }, {"'model_type': is missing"}},
                    BadConfig{
                        "Activation", [](json& c) { c["hidden_act"] = "mish"; }, {"'hidden_act': activation 'mish'"}},
                    BadConfig{"Quantised",
                              [](json& c) {
                                c["quantization_config"] = {{"bits", 4}};
                              },
                              {"'quantization_config.quant_method': is missing"}},
                    BadConfig{"Layers",
                              [](json& c) {
                                c["layer_types"] = {"full_attention", "chunked_attention"};
                              },
                              {"'layer_types[1]': 'chunked_attention' is not supported"}},
                    BadConfig{"WindowOfNothing",
                              [](json& c) {
                                c["model_type"] = "mistral";
                                c["sliding_window"] = 0;
                              },
                              {"'sliding_window': 0 is out of range"}}),
    [](const auto& test) { return test.param.name; });

TEST(HfConfig, RefusesGenerationDefaultsOutOfRange) {
  for (const auto& [key, value] :
       {std::pair("temperature", json(-0.5)), std::pair("top_p", json(1.5)), std::pair("top_k", json(-3)),
        std::pair("max_new_tokens", json(0)), std::pair("min_p", json("x")), std::pair("eos_token_id", json(999)),
        // Numbers that elsewhere stand for "not set": transformers refuses each.
        std::pair("temperature", json(-1)), std::pair("top_p", json(-1.0)), std::pair("min_p", json(-1)),
        std::pair("top_k", json(-1)), std::pair("repetition_penalty", json(-1)),
        std::pair("repetition_penalty", json(0.0)), std::pair("max_new_tokens", json(-1)),
        std::pair("top_k", json(1.5))}) {
    EXPECT_THAT(Reading(TinyDirectory().config, json{{"do_sample", true}, {key, value}}).result(),
                RefusedWith("generation_config.json: ", std::string("'") + key + "': "))
        << key << " " << value;
  }
}

TEST(HfConfig, AcceptsGenerationDefaultsAtTheEndsOfTheirRanges) {
  const json at_ends = {{"do_sample", true},         {"temperature", 0}, {"top_p", 1.0},       {"min_p", 0},
                        {"repetition_penalty", 1.0}, {"top_k", 0},       {"max_new_tokens", 1}};
  Reading read(TinyDirectory().config, at_ends);
  ASSERT_THAT(read.result(), IsOk());
  const GenerationDefaults& defaults = read.result()->generation_defaults;
  EXPECT_EQ(defaults.temperature, 0);
  EXPECT_EQ(defaults.top_p, 1);
  EXPECT_EQ(defaults.min_p, 0);
  EXPECT_EQ(defaults.repetition_penalty, 1);
  EXPECT_EQ(defaults.top_k, 0);
  EXPECT_EQ(defaults.max_new_tokens, 1);
}

TEST(HfConfig, LeavesOutGenerationDefaultsThatAreNullOrThatNothingSamplesWith) {
  for (const json& generation : {json{{"do_sample", true}, {"temperature", nullptr}, {"top_k", nullptr}},
                                 json{{"do_sample", false}, {"temperature", -1}, {"top_k", -1}}}) {
    Reading read(TinyDirectory().config, generation);
    ASSERT_THAT(read.result(), IsOk()) << generation;
    EXPECT_EQ(read.result()->generation_defaults.temperature, -1);  // unset
    EXPECT_EQ(read.result()->generation_defaults.top_k, -1);
  }
}

}  // namespace
}  // namespace hydrant
