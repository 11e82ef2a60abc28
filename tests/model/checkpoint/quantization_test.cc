// Weights that are quantised when they are loaded read as the same weights rounded before they were stored.
#include "model/checkpoint/quantization.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "model/checkpoint/checkpoint.h"
#include "model/files/dequantize.h"
#include "model/files/quantize.h"
#include "tests/model/checkpoint/gguf_builder.h"
#include "tests/model/checkpoint/tiny_directory.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

using enum WeightFormat;
constexpr const char* kDown1 = "model.layers.1.mlp.down_proj.weight";

std::unique_ptr<Checkpoint> Open(const TempDir& dir, const TinyDirectory& tiny) {
  tiny.WriteTo(dir.path());
  auto checkpoint = Checkpoint::Open(dir.path());
  EXPECT_THAT(checkpoint, IsOk());
  return *std::move(checkpoint);
}

absl::Status Quantise(Checkpoint& checkpoint, Quantization quantization) {
  return QuantiseOnLoad(quantization, checkpoint.quantization, checkpoint.config, checkpoint.tensors);
}

TEST(Quantization, HasANameForEveryValue) {
  for (const char* name : {"int8", "int4", "gguf", "compressed-tensors", "gptq", "awq", "fp8"}) {
    const auto quantization = QuantizationFromName(name);
    ASSERT_TRUE(quantization.has_value()) << name;
    EXPECT_EQ(QuantizationName(*quantization), name);
  }
  for (const char* name : {"", "fp4", "INT8", "bitsandbytes"}) EXPECT_FALSE(QuantizationFromName(name)) << name;
}

TEST(Quantization, RowsReadAsIfTheFileHadThemRounded) {
  const TempDir dir;
  const TinyDirectory tiny;
  const std::unique_ptr<Checkpoint> checkpoint = Open(dir, tiny);
  ASSERT_THAT(Quantise(*checkpoint, Quantization::kInt4), IsOk());
  const TensorSource& down = *checkpoint->tensors.Find(TensorRole::kDown, 1);
  ASSERT_EQ(down.format(), kQ4_0);
  ASSERT_TRUE(down.has_stored_rows());
  const TestTensor stored = RandomTensor(kDown1, {32, 64});
  const auto* rows = reinterpret_cast<const float*>(stored.data.data());
  std::vector<std::byte> expected(2 * 36), read(2 * 36);
  for (int row = 0; row < 2; ++row) {
    EXPECT_TRUE(QuantizeRow(kQ4_0, rows + (5 + row) * 64, 64, expected.data() + row * 36));
  }
  down.ReadStoredRows(5, 7, read.data());
  EXPECT_EQ(read, expected);
  std::vector<float> expanded(2 * 64), same(2 * 64);
  down.ReadRows(5, 7, expanded.data());
  for (int row = 0; row < 2; ++row) DequantizeRow(kQ4_0, expected.data() + row * 36, 64, same.data() + row * 64);
  EXPECT_EQ(expanded, same);
  EXPECT_FALSE(down.non_finite());
}

TEST(Quantization, VectorsStayAndTablesHaveEightBits) {
  const TempDir dir;
  const std::unique_ptr<Checkpoint> checkpoint = Open(dir, TinyDirectory());
  EXPECT_FALSE(HasQuantised(checkpoint->tensors, checkpoint->config));
  ASSERT_THAT(Quantise(*checkpoint, Quantization::kInt4), IsOk());
  EXPECT_TRUE(HasQuantised(checkpoint->tensors, checkpoint->config));
  const auto format = [&](TensorRole role) { return checkpoint->tensors.Find(role, 0)->format(); };
  EXPECT_EQ(format(TensorRole::kEmbedding), kQ8_0);
  EXPECT_EQ(format(TensorRole::kHead), kQ8_0);
  EXPECT_EQ(format(TensorRole::kQ), kQ4_0);
  EXPECT_EQ(format(TensorRole::kUp), kQ4_0);
  EXPECT_EQ(format(TensorRole::kAttentionNorm), kF32);
  EXPECT_EQ(format(TensorRole::kFinalNorm), kF32);
}

TEST(Quantization, RowsThatAreNoWholeNumberOfBlocksStay) {
  const TempDir dir;
  TinyDirectory tiny;
  tiny.config["intermediate_size"] = 48;
  for (const std::string layer : {"0", "1"}) {
    const std::string mlp = "model.layers." + layer + ".mlp.";
    tiny.At(mlp + "gate_proj.weight") = RandomTensor(mlp + "gate_proj.weight", {48, 32});
    tiny.At(mlp + "up_proj.weight") = RandomTensor(mlp + "up_proj.weight", {48, 32});
    tiny.At(mlp + "down_proj.weight") = RandomTensor(mlp + "down_proj.weight", {32, 48});
  }
  const std::unique_ptr<Checkpoint> checkpoint = Open(dir, tiny);
  ASSERT_THAT(Quantise(*checkpoint, Quantization::kInt8), IsOk());
  EXPECT_EQ(checkpoint->tensors.Find(TensorRole::kDown, 0)->format(), kF32);
  EXPECT_EQ(checkpoint->tensors.Find(TensorRole::kGate, 0)->format(), kQ8_0);
}

TEST(Quantization, NamesATensorWithANumberThatIsNotFinite) {
  const TempDir dir;
  TinyDirectory tiny;
  tiny.At(kDown1).data.replace(4 * 77, 4, Raw(std::numeric_limits<float>::quiet_NaN()));
  const std::unique_ptr<Checkpoint> checkpoint = Open(dir, tiny);
  ASSERT_THAT(Quantise(*checkpoint, Quantization::kInt8), IsOk());
  std::vector<std::byte> out(32 * 68);
  checkpoint->tensors.Find(TensorRole::kDown, 1)->ReadStoredRows(0, 32, out.data());
  EXPECT_THAT(checkpoint->tensors.NonFinite(), testing::ElementsAre(kDown1));
}

TEST(Quantization, WhatIsQuantisedIsNotQuantisedAgain) {
  const TempDir dir;
  GgufBuilder file = TinyGguf();
  file.At("blk.0.ffn_up.weight") = {"blk.0.ffn_up.weight", {32, 64}, GgufBuilder::kQ4_1, std::string(64 * 20, '\0')};
  const auto checkpoint = Checkpoint::Open(dir.Write("q.gguf", file.Build()));
  ASSERT_THAT(checkpoint, IsOk());
  EXPECT_THAT(Quantise(**checkpoint, Quantization::kInt8), RefusedWith("--quantization int8: ", "quantised already"));
  EXPECT_THAT(Quantise(**checkpoint, Quantization::kGguf), IsOk());
  EXPECT_THAT(Quantise(**checkpoint, Quantization::kGptq),
              RefusedWith("--quantization gptq: ", "say gguf, or nothing"));
  EXPECT_THAT(Quantise(**checkpoint, Quantization::kNone), IsOk());

  const std::unique_ptr<Checkpoint> plain = Open(dir, TinyDirectory());
  EXPECT_THAT(Quantise(*plain, Quantization::kGguf), RefusedWith("--quantization gguf: ", "not quantised"));
}

}  // namespace
}  // namespace hydrant
