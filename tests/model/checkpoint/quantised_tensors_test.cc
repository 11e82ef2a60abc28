// Matrices in every way that a quantised directory stores them read as the numbers that the formats' definitions say
// (tests/golden/make_quantised_matrix_goldens.py), and parts that do not fit are refused by name.
#include "model/checkpoint/quantised_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "model/checkpoint/checkpoint.h"
#include "model/files/safetensors_file.h"
#include "model/weights/weight_plan.h"
#include "model/weights/weights.h"
#include "tests/model/checkpoint/expanded_rows.h"
#include "tests/model/checkpoint/gguf_builder.h"
#include "tests/model/checkpoint/tiny_directory.h"
#include "tests/support/source_dir.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

using nlohmann::json;

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

const json& Goldens() {
  static const json goldens = json::parse(std::ifstream(SourceDir() + "/tests/golden/quantised_matrices.json"));
  return goldens;
}

// The tensors of a golden, which make up `base`.weight.
std::vector<TestTensor> TensorsOf(const json& golden, const std::string& base) {
  std::vector<TestTensor> tensors;
  for (const auto& [suffix, tensor] : golden.at("tensors").items()) {
    tensors.push_back({base + "." + suffix, tensor.at("dtype").get<std::string>(),
                       tensor.at("shape").get<std::vector<int64_t>>(), FromHex(tensor.at("data").get<std::string>())});
  }
  return tensors;
}

std::vector<float> ValuesOf(const json& golden) {
  const std::string bytes = FromHex(golden.at("values").get<std::string>());
  std::vector<float> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

HfQuantization QuantizationOf(const json& golden) {
  const json config = {{"quantization_config", golden.at("quantization_config")}};
  const auto document = JsonDocument::Parse(config.dump(), {1000, 64}, "config.json");
  const auto quantization = ReadHfQuantization(document->root());
  EXPECT_THAT(quantization, IsOk());
  return *quantization;
}

// What JoinQuantised makes of a file.
struct Joined {
  Joined(const HfQuantization& quantization, const std::vector<TestTensor>& parts)
      : file(SafetensorsBytes(parts)), tensors(*ParseSafetensors(file, "m.safetensors")) {
    status = JoinQuantised(quantization, tensors, warnings);
  }

  std::string file;
  std::vector<RawTensor> tensors;
  std::vector<std::string> warnings;
  absl::Status status;
};

TEST(QuantisedTensors, AreTheNumbersOfTheGoldens) {
  ASSERT_GE(Goldens().size(), 20u);
  for (const auto& [name, golden] : Goldens().items()) {
    SCOPED_TRACE(name);
    const Joined joined(QuantizationOf(golden), TensorsOf(golden, "x"));
    ASSERT_THAT(joined.status, IsOk());
    ASSERT_EQ(joined.tensors.size(), 1u);
    const RawTensor& whole = joined.tensors[0];
    EXPECT_EQ(whole.name, "x.weight");
    EXPECT_EQ(InfoOf(whole.format).name, golden.at("format").get<std::string>());
    ASSERT_EQ(whole.shape, golden.at("shape").get<std::vector<int64_t>>());
    const std::vector<float> expected = ValuesOf(golden);
    EXPECT_EQ(ExpandedRows(whole, 0, whole.shape[0]), expected);
    // A part of the rows, as a thread of the loader reads it.
    const std::vector<float> part(expected.begin() + 3 * whole.shape[1], expected.begin() + 10 * whole.shape[1]);
    EXPECT_EQ(ExpandedRows(whole, 3, 10), part);
    EXPECT_EQ(joined.warnings.empty(), IsQuantised(whole.format));
  }
}

TEST(QuantisedTensors, SaysWhyAMatrixIsExpanded) {
  for (const auto& [name, why] : {std::pair("packed_4_fp32_scales", "a scale is no fp16 number"),
                                  std::pair("packed_4_half_words", "its rows are no multiple of 32"),
                                  std::pair("packed_4_small_groups", "its groups are no multiple of 32 columns"),
                                  std::pair("gptq_4_act_order", "its groups are not of columns after each other"),
                                  std::pair("gptq_8_zeros", "its 8 bits have zero points of their own"),
                                  std::pair("fp8_blocks", "no device multiplies FP8")}) {
    const json& golden = Goldens().at(name);
    std::vector<TestTensor> parts = TensorsOf(golden, "x");
    for (const TestTensor& part : TensorsOf(golden, "y")) parts.push_back(part);
    const Joined joined(QuantizationOf(golden), parts);
    ASSERT_EQ(joined.warnings.size(), 1u) << name;
    EXPECT_THAT(joined.warnings[0], testing::HasSubstr("m.safetensors: tensor 'x.weight' and 1 more: are expanded: "));
    EXPECT_THAT(joined.warnings[0], testing::HasSubstr(why));
  }
}

TEST(QuantisedTensors, LeavesOtherTensorsAlone) {
  const json& golden = Goldens().at("int8_rows");
  std::vector<TestTensor> parts = TensorsOf(golden, "x");
  parts.push_back(RandomTensor("lm_head.weight", {4, 32}));
  parts.push_back(RandomTensor("norm.weight", {32}));
  parts.push_back({"x.input_scale", "F32", {1}, Raw(1.0f)});
  parts.push_back({"x.weight_zero_point", "I8", {16, 1}, std::string(16, '\0')});
  const Joined joined(QuantizationOf(golden), parts);
  ASSERT_THAT(joined.status, IsOk());
  std::vector<std::string> names;
  for (const RawTensor& tensor : joined.tensors) names.push_back(tensor.name);
  EXPECT_THAT(names, testing::UnorderedElementsAre("x.weight", "lm_head.weight", "norm.weight"));
}

TEST(QuantisedTensors, SomethingIsQuantisedWhereTheConfigSaysSo) {
  for (const auto& [name, golden] : Goldens().items()) {
    EXPECT_THAT(Joined(QuantizationOf(golden), {RandomTensor("x.weight", {16, 64})}).status,
                RefusedWith("m.safetensors: no matrix is stored in the way that quantization_config says"))
        << name;
  }
}

TEST(QuantisedTensors, GroupsThatAreInOrderNeedNoOrder) {
  const json& golden = Goldens().at("gptq_4");
  HfQuantization quantization = QuantizationOf(golden);
  quantization.group_index = true;  // desc_act with static groups
  EXPECT_EQ(Joined(quantization, TensorsOf(golden, "x")).tensors[0].format, WeightFormat::kQ4_0);
}

struct Spoilt {
  const char* name;
  const char* golden;
  const char* suffix;  // of the tensor that is spoilt
  std::function<void(std::vector<TestTensor>& parts, TestTensor& part)> spoil;
  std::vector<std::string> message;
};
class QuantisedTensorsRefusal : public testing::TestWithParam<Spoilt> {};

TEST_P(QuantisedTensorsRefusal, NamesTheTensor) {
  const json& golden = Goldens().at(GetParam().golden);
  std::vector<TestTensor> parts = TensorsOf(golden, "x");
  const std::string name = std::string("x.") + GetParam().suffix;
  const auto part = std::find_if(parts.begin(), parts.end(), [&](const TestTensor& t) { return t.name == name; });
  ASSERT_NE(part, parts.end());
  TestTensor spoilt = *part;
  parts.erase(part);
  GetParam().spoil(parts, spoilt);
  if (!spoilt.name.empty()) parts.push_back(spoilt);
  std::vector<std::string> message = GetParam().message;
  message.push_back("m.safetensors: tensor 'x.");
  EXPECT_THAT(Joined(QuantizationOf(golden), parts).status, RefusedWithParts(message));
}

using Parts = std::vector<TestTensor>;
void Leave(Parts&, TestTensor& part) { part.name.clear(); }
std::function<void(Parts&, TestTensor&)> Shape(std::vector<int64_t> shape) {
  return [shape](Parts&, TestTensor& part) { part.shape = shape; };
}
// The word at an index.
std::function<void(Parts&, TestTensor&)> Word(size_t index, uint32_t word) {
  return [=](Parts&, TestTensor& part) { part.data.replace(4 * index, 4, Raw(word)); };
}
void AsI64(Parts&, TestTensor& part) {
  part.dtype = "I64";
  part.shape.back() /= 2;
}
std::function<void(Parts&, TestTensor&)> Sizes(int64_t rows, int64_t cols) {
  return [=](Parts&, TestTensor& part) { part.data = Raw(rows) + Raw(cols); };
}

INSTANTIATE_TEST_SUITE_P(
    Packed, QuantisedTensorsRefusal,
    testing::Values(
        Spoilt{"NoScale", "packed_4_groups", "weight_scale", Leave, {"'x.weight_scale': is missing"}},
        Spoilt{"NoShape", "packed_4_groups", "weight_shape", Leave, {"'x.weight_shape': is missing"}},
        Spoilt{"NoZeros", "packed_4_zeros", "weight_zero_point", Leave, {"zero_point': is missing"}},
        Spoilt{"NoOrder", "packed_4_act_order", "weight_g_idx", Leave, {"'x.weight_g_idx' is missing"}},
        Spoilt{"Flat", "packed_4_groups", "weight_packed", Shape({16 * 8}), {"[128], which is no matrix"}},
        Spoilt{"Wide", "packed_4_groups", "weight_packed", AsI64, {"dtype I64 is not I32"}},
        Spoilt{"ShapeOfShape", "packed_4_groups", "weight_shape", Shape({2, 1}), {"its shape is [2, 1]"}},
        Spoilt{"MoreRows", "packed_4_groups", "weight_shape", Sizes(17, 64), {"[17, 64] is not the shape"}},
        Spoilt{"MoreCols", "packed_4_groups", "weight_shape", Sizes(16, 65), {"[16, 65] is not the shape"}},
        Spoilt{"FewerCols", "packed_4_groups", "weight_shape", Sizes(16, 56), {"is not the shape of what"}},
        Spoilt{"Huge", "packed_4_groups", "weight_shape", Sizes(16, INT64_MAX), {"is not the shape of what"}},
        Spoilt{"Negative", "packed_4_groups", "weight_shape", Sizes(-16, -64), {"is not the shape of what"}},
        Spoilt{"ScaleShape", "packed_4_groups", "weight_scale", Shape({2, 16}), {"[16, 2]"}},
        Spoilt{"ZeroShape", "packed_4_zeros", "weight_zero_point", Shape({4, 1}), {"asks for [2, 2]"}}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Gptq, QuantisedTensorsRefusal,
    testing::Values(Spoilt{"NoScales", "gptq_4", "scales", Leave, {"'x.scales': is missing"}},
                    Spoilt{"NoZeros", "gptq_4", "qzeros", Leave, {"'x.qzeros': is missing"}},
                    Spoilt{"NoOrder", "gptq_4_act_order", "g_idx", Leave, {"'x.g_idx' is missing"}},
                    Spoilt{"ScaleShape", "gptq_4", "scales", Shape({16, 2}), {"asks for [2, 16]"}},
                    Spoilt{"ZeroShape", "gptq_4", "qzeros", Shape({1, 4}), {"asks for [2, 2]"}},
                    Spoilt{"OddRows", "gptq_4", "qweight", Shape({32, 4}), {"4 rows are no multiple of 8"}},
                    Spoilt{"OrderShape", "gptq_4", "g_idx", Shape({2, 32}), {"asks for [64]"}},
                    Spoilt{"GroupTooHigh", "gptq_4", "g_idx", Word(5, 2), {"column 5 is in group 2 of 2"}},
                    Spoilt{"GroupNegative", "gptq_4", "g_idx", Word(5, ~0u), {"column 5 is in group -1 of 2"}},
                    Spoilt{"GroupTooLarge", "gptq_4", "g_idx", Word(5, 1), {"group 1 has too many columns"}},
                    Spoilt{"NotSymmetric", "gptq_4", "qzeros", Word(1, 0x77777787), {"row 9 is 9; sym asks for 8"}},
                    Spoilt{"ZeroOfV1", "gptq_4_zeros", "qzeros", Word(0, 0x111111F1), {"row 1 is stored as 15"}},
                    Spoilt{"WeightTwice",
                           "gptq_4",
                           "qweight",
                           [](Parts& parts, TestTensor&) {
                             parts.push_back(RandomTensor("x.weight", {16, 64}));
                           },
                           {"'x.weight' is there as well"}}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Others, QuantisedTensorsRefusal,
    testing::Values(Spoilt{"AwqNoZeros", "awq_4", "qzeros", Leave, {"'x.qzeros': is missing"}},
                    Spoilt{"AwqZeroShape", "awq_4", "qzeros", Shape({4, 1}), {"asks for [2, 2]"}},
                    Spoilt{"BytesNoScale", "int8_rows", "weight_scale", Leave, {"'x.weight_scale': is missing"}},
                    Spoilt{"BytesScaleShape", "int8_rows", "weight_scale", Shape({4, 4}), {"asks for [16, 1]"}},
                    Spoilt{"BytesUnsigned",
                           "int8_rows",
                           "weight",
                           [](Parts&, TestTensor& part) { part.dtype = "U8"; },
                           {"dtype U8 is not I8"}},
                    Spoilt{"Symmetric",
                           "int8_rows",
                           "weight_scale",
                           [](Parts& parts, TestTensor&) {
                             parts.push_back({"x.weight_zero_point", "I8", {16, 1}, std::string(16, '\1')});
                           },
                           {"zero_point': is not 0"}},
                    Spoilt{"OtherFp8",
                           "fp8_blocks",
                           "weight",
                           [](Parts&, TestTensor& part) { part.dtype = "F8_E5M2"; },
                           {"dtype F8_E5M2 is not F8_E4M3"}},
                    Spoilt{"BlockShape", "fp8_blocks", "weight_scale_inv", Shape({2, 3}), {"asks for [3, 2]"}}),
    [](const auto& test) { return test.param.name; });

// A model with all matrices of its layers quantised opens as one with the same numbers in fp32.
TEST(QuantisedTensors, MakeUpACheckpoint) {
  const json golden = Goldens().at("gptq_4_zeros");  // [16, 64]
  TinyDirectory tiny, plain;
  for (TinyDirectory* directory : {&tiny, &plain}) {
    directory->config.update({{"hidden_size", 64}, {"num_attention_heads", 4}, {"num_key_value_heads", 1}});
    directory->config.update({{"intermediate_size", 16}, {"head_dim", 4}, {"num_hidden_layers", 1}});
    directory->tensors = {RandomTensor("model.embed_tokens.weight", {258, 64}),
                          RandomTensor("lm_head.weight", {258, 64}), RandomTensor("model.norm.weight", {64})};
    for (const char* norm : {"input_layernorm", "post_attention_layernorm"}) {
      directory->tensors.push_back(RandomTensor(std::string("model.layers.0.") + norm + ".weight", {64}));
    }
    for (const auto& [name, rows] : {std::pair("k_proj", 4), std::pair("v_proj", 4)}) {
      directory->tensors.push_back(
          RandomTensor(std::string("model.layers.0.self_attn.") + name + ".weight", {rows, 64}));
    }
    directory->tensors.push_back(RandomTensor("model.layers.0.self_attn.o_proj.weight", {64, 16}));
    directory->tensors.push_back(RandomTensor("model.layers.0.mlp.down_proj.weight", {64, 16}));
  }
  tiny.config["quantization_config"] = golden.at("quantization_config");
  const std::vector<float> values = ValuesOf(golden);
  const std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * 4);
  for (const char* base : {"self_attn.q_proj", "mlp.gate_proj", "mlp.up_proj"}) {
    const std::string name = std::string("model.layers.0.") + base;
    for (const TestTensor& part : TensorsOf(golden, name)) tiny.tensors.push_back(part);
    plain.tensors.push_back({name + ".weight", "F32", {16, 64}, bytes});
  }
  const TempDir quantised_dir, plain_dir;
  tiny.WriteTo(quantised_dir.path());
  plain.WriteTo(plain_dir.path());
  const auto quantised = Checkpoint::Open(quantised_dir.path()), expected = Checkpoint::Open(plain_dir.path());
  ASSERT_THAT(quantised, IsOk());
  ASSERT_THAT(expected, IsOk());
  EXPECT_THAT((*quantised)->warnings, testing::IsEmpty());
  EXPECT_EQ((*quantised)->quantization, Quantization::kGptq);
  EXPECT_EQ((*expected)->quantization, Quantization::kNone);
  for (const TensorRole role : {TensorRole::kQ, TensorRole::kGate, TensorRole::kUp}) {
    const TensorSource& source = *(*quantised)->tensors.Find(role, 0);
    EXPECT_EQ(source.format(), WeightFormat::kQ5_0);
    EXPECT_TRUE(source.has_stored_rows());
    std::vector<float> rows(16 * 64), plain_rows(16 * 64);
    source.ReadRows(0, 16, rows.data());
    (*expected)->tensors.Find(role, 0)->ReadRows(0, 16, plain_rows.data());
    EXPECT_EQ(rows, plain_rows);
    EXPECT_FALSE(source.non_finite());
  }
  // Packed on a device: q beside k and v, which are not quantised.
  const auto device = CpuDevice::Create({.threads = 1}).value();
  const WeightPlan plan =
      PlanWeights((*quantised)->config, (*quantised)->tensors, WeightDevice::Of(*device), {.keep_quantised = true}, 16);
  EXPECT_EQ(plan.Formats(), "float32, Q5_0");
  const Weights weights = LoadWeights(**quantised, *device, plan);
  EXPECT_EQ(static_cast<int64_t>(weights.layers[0].up->bytes()), RowBytes(WeightFormat::kQ5_0, 64) * 32);
}

}  // namespace
}  // namespace hydrant
