// The arithmetic of packed matrices at its edges. That each order of codes is read as it is written elsewhere is in
// checkpoint/quantised_tensors_test.cc.
#include "model/files/packed_matrix.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "kernels/small_floats.h"
#include "model/files/dequantize.h"

namespace hydrant {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// One row of 32 codes of 4 bits, 0 to 15 twice, with one scale.
struct OneRow {
  explicit OneRow(float scale) {
    for (int i = 0; i < 16; ++i) codes += static_cast<char>((2 * i % 16) | (2 * i + 1) % 16 << 4);
    scales.resize(4);
    std::memcpy(scales.data(), &scale, 4);
    matrix = {
        .rows = 1, .cols = 32, .codes = codes, .group_cols = 32, .scale_format = WeightFormat::kF32, .scales = scales};
  }
  OneRow(const OneRow&) = delete;
  OneRow& operator=(const OneRow&) = delete;

  std::vector<float> Read(WeightFormat format) const {
    std::vector<std::byte> stored(static_cast<size_t>(RowBytes(format, 32)));
    PackedRows(matrix, format).Read(0, 1, stored.data());
    std::vector<float> values(32);
    DequantizeRow(format, stored.data(), 32, values.data());
    return values;
  }

  std::string codes, scales;
  PackedMatrix matrix;
};

TEST(PackedMatrix, ScalesThatFp16CannotHoldAreNotRounded) {
  // The least of fp16's numbers, and one of bf16's below it; the largest, and one above.
  for (const float scale : {0x1p-24f, -0x1.8p-20f, 65504.0f, 0.0f}) {
    EXPECT_EQ(FindExactFormat(OneRow(scale).matrix).format, WeightFormat::kQ4_0) << scale;
  }
  for (const float scale : {0x1p-25f, 0.1f, 65536.0f, 1e30f, std::numeric_limits<float>::infinity()}) {
    const ExactFormat exact = FindExactFormat(OneRow(scale).matrix);
    EXPECT_EQ(exact.format, WeightFormat::kF32) << scale;
    EXPECT_EQ(exact.why_not, "a scale is no fp16 number") << scale;
  }
}

TEST(PackedMatrix, TheStoredFormatIsWhatTheNumbersAre) {
  for (const int zero : {0, 7, 8, 15}) {
    OneRow row(0.25f);
    row.matrix.zero = zero;
    const WeightFormat format = FindExactFormat(row.matrix).format;
    EXPECT_EQ(format, zero == 8 ? WeightFormat::kQ4_0 : WeightFormat::kQ5_0);
    std::vector<float> expected;
    for (int i = 0; i < 32; ++i) expected.push_back(0.25f * static_cast<float>(i % 16 - zero));
    EXPECT_EQ(row.Read(format), expected);
    EXPECT_EQ(row.Read(WeightFormat::kF32), expected);
  }
}

// Somebody wrote to the file after its scales were looked at.
TEST(PackedMatrix, AScaleThatChangedIsRefusedByItsNaN) {
  OneRow row(0.25f);
  ASSERT_EQ(FindExactFormat(row.matrix).format, WeightFormat::kQ4_0);
  const float other = 0.1f;
  std::memcpy(row.scales.data(), &other, 4);
  for (const float value : row.Read(WeightFormat::kQ4_0)) EXPECT_TRUE(std::isnan(value));
  EXPECT_EQ(FindExactFormat(OneRow(kNan).matrix).format, WeightFormat::kQ4_0) << "a NaN is one in any format";
  for (const float value : OneRow(kNan).Read(WeightFormat::kQ4_0)) EXPECT_TRUE(std::isnan(value));
}

TEST(PackedMatrix, SmallFloatsAreWhatTheyShouldBe) {
  EXPECT_EQ(Fp8ToFloat(0x00), 0.0f);
  EXPECT_TRUE(std::signbit(Fp8ToFloat(0x80)));
  EXPECT_EQ(Fp8ToFloat(0x01), 0x1p-9f);
  EXPECT_EQ(Fp8ToFloat(0x07), 7 * 0x1p-9f);
  EXPECT_EQ(Fp8ToFloat(0x08), 0x1p-6f);
  EXPECT_EQ(Fp8ToFloat(0x38), 1.0f);
  EXPECT_EQ(Fp8ToFloat(0x7E), 448.0f);
  EXPECT_EQ(Fp8ToFloat(0xFE), -448.0f);
  EXPECT_TRUE(std::isnan(Fp8ToFloat(0x7F)) && std::isnan(Fp8ToFloat(0xFF)));
  // Every fp16 number is the nearest to itself.
  for (uint32_t half = 0; half < 0x10000; ++half) {
    const float value = HalfToFloat(static_cast<uint16_t>(half));
    if (!std::isfinite(value)) continue;
    EXPECT_EQ(NearestHalf(value), half);
  }
}

}  // namespace
}  // namespace hydrant
