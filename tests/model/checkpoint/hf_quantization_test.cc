// What quantization_config may say, spelled as the tools that make such directories spell it, and what is refused by name.
#include "model/checkpoint/hf_quantization.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/status_matchers.h"

namespace hydrant {
namespace {

using nlohmann::json;

absl::StatusOr<HfQuantization> Read(const json& config) {
  const auto document = JsonDocument::Parse(config.dump(), {10000, 64}, "config.json");
  return ReadHfQuantization(document->root());
}

absl::StatusOr<HfQuantization> ReadField(const json& quantization) {
  return Read({{"model_type", "llama"}, {"quantization_config", quantization}});
}

// As llm-compressor writes it.
json Compressed() {
  return json::parse(R"({"config_groups": {"group_0": {
    "input_activations": null, "output_activations": null, "targets": ["Linear"],
    "weights": {"actorder": null, "block_structure": null, "dynamic": false, "group_size": 128, "num_bits": 4,
                "observer": "minmax", "observer_kwargs": {}, "strategy": "group", "symmetric": true, "type": "int"}}},
    "format": "pack-quantized", "global_compression_ratio": 1.89, "ignore": ["lm_head"], "kv_cache_scheme": null,
    "quant_method": "compressed-tensors", "quantization_status": "compressed", "version": "0.9.1",
    "sparsity_config": {}, "transform_config": {}})");
}

// As GPTQModel writes it.
json Gptq() {
  return json::parse(R"({"bits": 4, "checkpoint_format": "gptq", "desc_act": false, "dynamic": null, "group_size": 128,
    "lm_head": false, "meta": {"damp_percent": 0.01, "quantizer": ["gptqmodel:1.4.5"]}, "quant_method": "gptq", "sym": true,
    "pack_dtype": "int32", "true_sequential": true, "static_groups": false, "damp_percent": 0.1})");
}

// As AutoAWQ writes it.
json Awq() {
  return json::parse(R"({"bits": 4, "group_size": 128, "modules_to_not_convert": null, "quant_method": "awq",
    "version": "gemm", "zero_point": true})");
}

// As that of a Qwen3 in FP8.
json Fp8() {
  return json::parse(R"({"activation_scheme": "dynamic", "modules_to_not_convert": ["lm_head"], "fmt": "e4m3",
    "quant_method": "fp8", "weight_block_size": [128, 64]})");
}

// As that of gpt-oss.
json Mxfp4() {
  return json::parse(R"({"modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router",
    "model.embed_tokens", "lm_head"], "quant_method": "mxfp4"})");
}

json& WeightsOf(json& config) { return config["config_groups"]["group_0"]["weights"]; }

TEST(HfQuantization, AConfigWithoutOneIsNotQuantised) {
  const auto read = Read({{"quantization_config", nullptr}});
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->packing, HfPacking::kNone);
  EXPECT_EQ(read->method, Quantization::kNone);
}

TEST(HfQuantization, ReadsCompressedTensors) {
  const auto read = ReadField(Compressed());
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->method, Quantization::kCompressedTensors);
  EXPECT_EQ(read->packing, HfPacking::kPacked);
  EXPECT_EQ(read->bits, 4);
  EXPECT_EQ(read->group_cols, 128);
  EXPECT_EQ(read->group_rows, 1);
  EXPECT_TRUE(read->symmetric);
  EXPECT_THAT(Read({{"compression_config", Compressed()}}), IsOk());

  json channel = Compressed();
  WeightsOf(channel).update(
      {{"strategy", "channel"}, {"group_size", nullptr}, {"num_bits", 8}, {"actorder", "weight"}});
  EXPECT_EQ(ReadField(channel)->group_cols, 0);
  EXPECT_EQ(ReadField(channel)->bits, 8);
  EXPECT_FALSE(ReadField(channel)->group_index);
  json ordered = Compressed();
  WeightsOf(ordered)["actorder"] = "group";
  EXPECT_TRUE(ReadField(ordered)->group_index);
}

// That of nm-testing/Meta-Llama-3.1-8B-Instruct-FP8-hf, as the documentation of transformers has it.
TEST(HfQuantization, ReadsTheFewFieldsOfOlderTools) {
  const auto read = ReadField(json::parse(R"({"config_groups": {"group_0": {
    "input_activations": {"num_bits": 8, "strategy": "tensor", "type": "float"}, "targets": ["Linear"],
    "weights": {"num_bits": 8, "strategy": "tensor", "type": "float"}}}, "format": "naive-quantized",
    "ignore": ["lm_head"], "quant_method": "compressed-tensors", "quantization_status": "frozen"})"));
  ASSERT_THAT(read, IsOk());
  EXPECT_TRUE(read->fp8);
  EXPECT_EQ(read->group_rows, 0);
  EXPECT_EQ(read->group_cols, 0);
}

TEST(HfQuantization, ReadsBytesOfCompressedTensors) {
  json integers = Compressed();
  integers["format"] = "int-quantized";
  WeightsOf(integers).update({{"strategy", "channel"}, {"group_size", nullptr}, {"num_bits", 8}});
  integers["config_groups"]["group_0"]["input_activations"] = {
      {"num_bits", 8}, {"type", "int"}, {"dynamic", true}, {"strategy", "token"}};
  ASSERT_THAT(ReadField(integers), IsOk());
  EXPECT_EQ(ReadField(integers)->packing, HfPacking::kBytes);
  EXPECT_FALSE(ReadField(integers)->fp8);

  json floats = integers;
  floats["format"] = "float-quantized";
  WeightsOf(floats).update({{"type", "float"}, {"strategy", "tensor"}});
  EXPECT_TRUE(ReadField(floats)->fp8);
  EXPECT_EQ(ReadField(floats)->group_rows, 0);
  WeightsOf(floats).update({{"strategy", "block"}, {"block_structure", {128, 64}}});
  EXPECT_EQ(ReadField(floats)->group_rows, 128);
  EXPECT_EQ(ReadField(floats)->group_cols, 64);
}

TEST(HfQuantization, ReadsGptqInBothVersions) {
  const auto read = ReadField(Gptq());
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->packing, HfPacking::kGptq);
  EXPECT_EQ(read->zero_offset, 1);
  EXPECT_TRUE(read->symmetric);
  EXPECT_FALSE(read->group_index);
  json second = Gptq();
  second.update({{"checkpoint_format", "gptq_v2"}, {"bits", 8}, {"group_size", -1}, {"desc_act", true}});
  EXPECT_EQ(ReadField(second)->zero_offset, 0);
  EXPECT_EQ(ReadField(second)->bits, 8);
  EXPECT_EQ(ReadField(second)->group_cols, 0);
  EXPECT_TRUE(ReadField(second)->group_index);
  json silent = Gptq();
  silent.erase("sym");
  EXPECT_FALSE(ReadField(silent)->symmetric) << "nothing is claimed, so nothing is held against the file";
}

TEST(HfQuantization, ReadsAwqUnderBothNames) {
  json older = Awq();
  older.erase("bits");
  older.erase("group_size");
  older.update({{"w_bit", 4}, {"q_group_size", 64}, {"version", "GEMM"}});
  for (const json& config : {Awq(), older}) {
    const auto read = ReadField(config);
    ASSERT_THAT(read, IsOk());
    EXPECT_EQ(read->packing, HfPacking::kAwq);
    EXPECT_FALSE(read->symmetric);
    EXPECT_EQ(read->group_cols, config.contains("w_bit") ? 64 : 128);
  }
}

TEST(HfQuantization, ReadsFp8) {
  EXPECT_EQ(ReadField(Fp8())->group_rows, 128);
  EXPECT_EQ(ReadField(Fp8())->group_cols, 64);
  EXPECT_EQ(ReadField(Fp8())->method, Quantization::kFp8);
  json whole = Fp8();
  whole["weight_block_size"] = nullptr;
  EXPECT_EQ(ReadField(whole)->group_rows, 0);
}

struct RefusedScheme {
  const char* name;
  json (*sound)();
  std::function<void(json&)> spoil;
  std::vector<std::string> parts;
};
class HfQuantizationRefusal : public testing::TestWithParam<RefusedScheme> {};

TEST_P(HfQuantizationRefusal, NamesTheField) {
  json config = GetParam().sound();
  ASSERT_THAT(ReadField(config), IsOk());
  GetParam().spoil(config);
  std::vector<std::string> parts = GetParam().parts;
  parts.push_back("config.json: 'quantization_config");
  EXPECT_THAT(ReadField(config), RefusedWithParts(parts));
}

// Sets a member, of the weights where `key` begins with a '.'.
std::function<void(json&)> Set(const std::string& key, const json& value) {
  return [=](json& config) {
    if (key.starts_with(".")) {
      WeightsOf(config)[key.substr(1)] = value;
    } else {
      config[key] = value;
    }
  };
}

INSTANTIATE_TEST_SUITE_P(
    Any, HfQuantizationRefusal,
    testing::Values(
        RefusedScheme{"NoObject",
                      Gptq,
                      [](json& c) {
                        c = {1, 2};
                      },
                      {"'quantization_config': is not an object"}},
        RefusedScheme{"NoMethod", Gptq, [](json& c) { c.erase("quant_method"); }, {"quant_method': is missing"}},
        RefusedScheme{"Method",
                      Gptq,
                      Set("quant_method", "bitsandbytes"),
                      {"'bitsandbytes' is not supported; these are: compressed-tensors, gptq, awq, fp8, mxfp4"}},
        RefusedScheme{"MethodOfModelopt", Fp8, Set("quant_method", "modelopt"), {"'modelopt' is not supported"}},
        RefusedScheme{"Unknown", Gptq, Set("hadamard", true), {".hadamard': is not known"}},
        RefusedScheme{"UnknownInAwq", Awq, Set("scale_bits", 6), {".scale_bits': is not known"}},
        RefusedScheme{"UnknownInMxfp4", Mxfp4, Set("group_size", 64), {".group_size': is not known"}},
        RefusedScheme{"UnknownInFp8", Fp8, Set("weight_per_tensor", true), {"is not known"}},
        RefusedScheme{"UnknownInGroups", Compressed, Set("new_thing", "x"), {".new_thing': is not known"}},
        RefusedScheme{"UnknownInWeights", Compressed, Set(".new_thing", "x"), {"weights.new_thing': is not known"}}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    CompressedTensors, HfQuantizationRefusal,
    testing::Values(
        RefusedScheme{
            "Format", Compressed, Set("format", "nvfp4-pack-quantized"), {"'nvfp4-pack-quantized' is not supported"}},
        RefusedScheme{"Mixed", Compressed, Set("format", "mixed-precision"), {"'mixed-precision' is not supported"}},
        RefusedScheme{"NoFormat", Compressed, [](json& c) { c.erase("format"); }, {".format': is missing"}},
        RefusedScheme{
            "Cache", Compressed, Set("kv_cache_scheme", {{"num_bits", 8}}), {".kv_cache_scheme': is not supported"}},
        RefusedScheme{
            "Transform", Compressed, Set("transform_config", {{"R1", 1}}), {".transform_config': is not supported"}},
        RefusedScheme{
            "Sparse", Compressed, Set("sparsity_config", {{"format", "sparse-24-bitmask"}}), {"'sparse-24-bitmask'"}},
        RefusedScheme{
            "Status", Compressed, Set("quantization_status", "calibration"), {"'calibration' is not supported"}},
        RefusedScheme{"NoGroups", Compressed, Set("config_groups", json::object()), {".config_groups': is empty"}},
        RefusedScheme{"Preset", Compressed, Set("config_groups", {{"W4A16", {"Linear"}}}), {"schemes by name are not"}},
        RefusedScheme{"TwoKinds",
                      Compressed,
                      [](json& c) {
                        c["config_groups"]["group_1"] = c["config_groups"]["group_0"];
                        c["config_groups"]["group_1"]["weights"]["num_bits"] = 8;
                      },
                      {"group_1': differs from the group before it"}},
        RefusedScheme{"Bits", Compressed, Set(".num_bits", 3), {"weights of 3 bits are not supported"}},
        RefusedScheme{"BitsHuge", Compressed, Set(".num_bits", 1ull << 40), {".num_bits': ", "out of range"}},
        RefusedScheme{"Type", Compressed, Set(".type", "float"), {"'float' is not supported"}},
        RefusedScheme{"GroupZero", Compressed, Set(".group_size", 0), {".group_size': 0 columns are no group"}},
        RefusedScheme{"GroupMissing", Compressed, Set(".group_size", nullptr), {"has groups and no group_size"}},
        RefusedScheme{"GroupOfChannels", Compressed, Set(".strategy", "channel"), {"there are no groups"}},
        RefusedScheme{"Strategy", Compressed, Set(".strategy", "tensor_group"), {"'tensor_group' is not supported"}},
        RefusedScheme{"Block", Compressed, Set(".block_structure", {128, 128}), {"belong together"}},
        RefusedScheme{"Dynamic", Compressed, Set(".dynamic", true), {".dynamic': is not supported"}},
        RefusedScheme{"ActOrder", Compressed, Set(".actorder", "upwards"), {"'upwards' is not supported"}},
        RefusedScheme{"Activations",
                      Compressed,
                      [](json& c) {
                        c["config_groups"]["group_0"]["input_activations"] = {{"num_bits", 4}};
                      },
                      {"activations of 4 bits are not supported"}},
        RefusedScheme{"Outputs",
                      Compressed,
                      [](json& c) {
                        c["config_groups"]["group_0"]["output_activations"] = {{"num_bits", 8}};
                      },
                      {".output_activations': is not supported"}}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Others, HfQuantizationRefusal,
    testing::Values(
        RefusedScheme{"GptqBits", Gptq, Set("bits", 2), {"weights of 2 bits are not supported"}},
        RefusedScheme{"GptqNoBits", Gptq, [](json& c) { c.erase("bits"); }, {".bits': is missing"}},
        RefusedScheme{"GptqGroup", Gptq, Set("group_size", 0), {"0 columns are no group"}},
        RefusedScheme{"GptqGroupLow", Gptq, Set("group_size", -2), {".group_size': -2 is out of range"}},
        RefusedScheme{"GptqGroupHuge", Gptq, Set("group_size", 1ull << 33), {"out of range"}},
        RefusedScheme{"GptqNoGroup", Gptq, Set("group_size", nullptr), {".group_size': is missing"}},
        RefusedScheme{"GptqFormat", Gptq, Set("checkpoint_format", "marlin"), {"'marlin' is not supported"}},
        RefusedScheme{"GptqFormats", Gptq, Set("format", "gptq_v2"), {"contradicts checkpoint_format 'gptq'"}},
        RefusedScheme{"GptqDynamic", Gptq, Set("dynamic", {{"-:.*q_proj", json::object()}}), {".dynamic': is not"}},
        RefusedScheme{"GptqRotation", Gptq, Set("rotation", "hadamard"), {".rotation': is not supported"}},
        RefusedScheme{"GptqWords", Gptq, Set("pack_dtype", "int64"), {"'int64' is not supported"}},
        RefusedScheme{"GptqMarlin", Gptq, Set("is_marlin_format", true), {".is_marlin_format': is not supported"}},
        RefusedScheme{"GptqOrder", Gptq, Set("desc_act", "yes"), {".desc_act': is not"}},
        RefusedScheme{"AwqVersion", Awq, Set("version", "gemv"), {"'gemv' is not supported; these are: gemm"}},
        RefusedScheme{"AwqBits", Awq, Set("bits", 8), {"weights of 8 bits are not supported"}},
        RefusedScheme{"AwqTwice", Awq, Set("w_bit", 4), {".w_bit': is there beside bits"}},
        RefusedScheme{"AwqNoZeros", Awq, Set("zero_point", false), {"AWQ without zero points"}},
        RefusedScheme{"AwqBackend", Awq, Set("backend", "llm-awq"), {"'llm-awq' is not supported"}},
        RefusedScheme{"Fp8Type", Fp8, Set("fmt", "e5m2"), {"'e5m2' is not supported"}},
        RefusedScheme{"Fp8Block", Fp8, Set("weight_block_size", {128}), {"is no list of two sizes"}},
        RefusedScheme{"Fp8BlockZero", Fp8, Set("weight_block_size", {0, 128}), {"weight_block_size[0]': 0 is out"}}),
    [](const auto& test) { return test.param.name; });

TEST(HfQuantization, Mxfp4LeavesNothingToSay) {
  const auto read = ReadField(Mxfp4());
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->method, Quantization::kMxfp4);
  EXPECT_EQ(read->packing, HfPacking::kMxfp4);
}

TEST(HfQuantization, RefusesTwoConfigurations) {
  EXPECT_THAT(Read({{"quantization_config", Gptq()}, {"compression_config", Compressed()}}),
              RefusedWith("'compression_config': is there beside quantization_config"));
}

}  // namespace
}  // namespace hydrant
