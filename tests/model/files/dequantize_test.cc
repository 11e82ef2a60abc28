#include "model/files/dequantize.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/stored_rows.h"

namespace hydrant {
namespace {

// IEEE 754 binary16, from its definition.
double HalfValue(uint16_t half) {
  const int exponent = half >> 10 & 0x1F;
  const int mantissa = half & 0x3FF;
  const double sign = half & 0x8000 ? -1 : 1;
  if (exponent == 31) return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * HUGE_VAL;
  return exponent == 0 ? sign * std::ldexp(mantissa, -24) : sign * std::ldexp(1024 + mantissa, exponent - 25);
}

std::vector<float> Expand(WeightFormat format, const std::string& bytes, bool* finite = nullptr) {
  const WeightFormatInfo& info = InfoOf(format);
  std::vector<float> out(bytes.size() / static_cast<size_t>(info.block_bytes) *
                         static_cast<size_t>(info.block_elements));
  // From an odd address: safetensors promises no alignment.
  std::string shifted = "x" + bytes;
  const bool all_finite = DequantizeRow(format, shifted.data() + 1, static_cast<int64_t>(out.size()), out.data());
  if (finite != nullptr) *finite = all_finite;
  return out;
}

std::string RandomBytes(size_t count, std::mt19937& random) {
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

uint16_t Half(const std::string& bytes, size_t at) {
  uint16_t half;
  std::memcpy(&half, bytes.data() + at, 2);
  return half;
}

// A finite fp16 of moderate size.
void PutHalf(std::string& bytes, size_t at, std::mt19937& random) {
  const auto half = static_cast<uint16_t>((random() & 0x83FFu) | (8 + random() % 12) << 10);
  std::memcpy(bytes.data() + at, &half, 2);
}

TEST(DequantizeRow, EveryHalfBecomesItsValue) {
  std::string bytes(2 * 65536, '\0');
  for (uint32_t half = 0; half < 65536; ++half) {
    const auto bits = static_cast<uint16_t>(half);
    std::memcpy(bytes.data() + 2 * half, &bits, 2);
  }
  const std::vector<float> values = Expand(WeightFormat::kF16, bytes);
  for (uint32_t half = 0; half < 65536; ++half) {
    const double expected = HalfValue(static_cast<uint16_t>(half));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(values[half])) << half;
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(values[half]), std::bit_cast<uint32_t>(static_cast<float>(expected))) << half;
    }
  }
}

TEST(DequantizeRow, BFloat16IsTheUpperHalfOfAFloat) {
  std::mt19937 random(1);
  for (const size_t count : {1, 15, 16, 17, 100}) {
    const std::string bytes = RandomBytes(2 * count, random);
    const std::vector<float> values = Expand(WeightFormat::kBF16, bytes);
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(values[i]), static_cast<uint32_t>(Half(bytes, 2 * i)) << 16);
    }
  }
}

TEST(DequantizeRow, F32IsCopied) {
  std::mt19937 random(2);
  const std::string bytes = RandomBytes(4 * 17, random);
  const std::vector<float> values = Expand(WeightFormat::kF32, bytes);
  EXPECT_EQ(std::memcmp(values.data(), bytes.data(), bytes.size()), 0);
}

std::vector<WeightFormat> QuantisedFormats() {
  std::vector<WeightFormat> formats;
  for (size_t i = 0; i < std::size(kWeightFormats); ++i) {
    if (IsQuantised(static_cast<WeightFormat>(i))) formats.push_back(static_cast<WeightFormat>(i));
  }
  return formats;
}

class DequantizeRowBlocks : public testing::TestWithParam<int> {};

// Exact equality: the products have at most 11 + 8 significant bits, so fp32 rounds only the sum of Q4_1.
TEST_P(DequantizeRowBlocks, Q8_0IsScaleTimesCode) {
  std::mt19937 random(3);
  std::string bytes = RandomBytes(static_cast<size_t>(34 * GetParam()), random);
  for (int b = 0; b < GetParam(); ++b) PutHalf(bytes, static_cast<size_t>(34 * b), random);
  const std::vector<float> values = Expand(WeightFormat::kQ8_0, bytes);
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t block = i / 32 * 34;
    const double expected = HalfValue(Half(bytes, block)) * static_cast<int8_t>(bytes[block + 2 + i % 32]);
    ASSERT_EQ(values[i], static_cast<float>(expected)) << i;
  }
}

TEST_P(DequantizeRowBlocks, Q4_0IsScaleTimesCodeMinusEight) {
  std::mt19937 random(4);
  std::string bytes = RandomBytes(static_cast<size_t>(18 * GetParam()), random);
  for (int b = 0; b < GetParam(); ++b) PutHalf(bytes, static_cast<size_t>(18 * b), random);
  const std::vector<float> values = Expand(WeightFormat::kQ4_0, bytes);
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t block = i / 32 * 18, in_block = i % 32;
    const auto pair = static_cast<uint8_t>(bytes[block + 2 + in_block % 16]);
    const int code = in_block < 16 ? pair & 15 : pair >> 4;
    ASSERT_EQ(values[i], static_cast<float>(HalfValue(Half(bytes, block)) * (code - 8))) << i;
  }
}

TEST_P(DequantizeRowBlocks, Q4_1IsScaleTimesCodePlusMinimum) {
  std::mt19937 random(5);
  std::string bytes = RandomBytes(static_cast<size_t>(20 * GetParam()), random);
  for (int b = 0; b < GetParam(); ++b) {
    PutHalf(bytes, static_cast<size_t>(20 * b), random);
    PutHalf(bytes, static_cast<size_t>(20 * b + 2), random);
  }
  const std::vector<float> values = Expand(WeightFormat::kQ4_1, bytes);
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t block = i / 32 * 20, in_block = i % 32;
    const auto pair = static_cast<uint8_t>(bytes[block + 4 + in_block % 16]);
    const int code = in_block < 16 ? pair & 15 : pair >> 4;
    ASSERT_EQ(values[i], static_cast<float>(HalfValue(Half(bytes, block)) * code + HalfValue(Half(bytes, block + 2))))
        << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Blocks, DequantizeRowBlocks, testing::Values(1, 2, 15, 16, 17));

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

// Exact equality: fp32 rounds at most one product (Q6_K, Q3_K with wide scales) and one sum, as the package does.
TEST(DequantizeRow, QuantisedBlocksAreWhatLlamaCppMakesOfThem) {
  std::ifstream file(std::string(HYDRANT_SOURCE_DIR) + "/tests/golden/quantised_blocks.json");
  const nlohmann::json goldens = nlohmann::json::parse(file);
  size_t seen = 0;
  for (const WeightFormat format : QuantisedFormats()) {
    const std::string name(InfoOf(format).name);
    ASSERT_TRUE(goldens.contains(name)) << name;
    const std::string blocks = FromHex(goldens.at(name).at("blocks").get<std::string>());
    const std::string bytes = FromHex(goldens.at(name).at("values").get<std::string>());
    std::vector<float> expected(bytes.size() / 4);
    std::memcpy(expected.data(), bytes.data(), bytes.size());
    ASSERT_EQ(expected.size(), 4 * static_cast<size_t>(InfoOf(format).block_elements));
    bool finite = false;
    EXPECT_EQ(Expand(format, blocks, &finite), expected) << name;
    EXPECT_TRUE(finite);
    EXPECT_TRUE(ScalesAreFinite(format, blocks.data(), 4 * InfoOf(format).block_elements)) << name;
    ++seen;
  }
  EXPECT_EQ(seen, goldens.size());
}

// A block of equal bytes but for its fp16 scales, and what all its elements are.
struct UniformBlock {
  const char* name;
  WeightFormat format;
  uint8_t bytes;
  std::vector<std::pair<size_t, uint16_t>> halves;  // {offset, fp16}
  float value;
};
class DequantizeRowExtremes : public testing::TestWithParam<UniformBlock> {};

TEST_P(DequantizeRowExtremes, AreWhatTheFormatSays) {
  const UniformBlock& given = GetParam();
  std::string block(static_cast<size_t>(InfoOf(given.format).block_bytes), static_cast<char>(given.bytes));
  for (const auto& [offset, half] : given.halves) std::memcpy(block.data() + offset, &half, 2);
  for (const float value : Expand(given.format, block + block)) ASSERT_EQ(value, given.value);
}

constexpr uint16_t kOne = 0x3C00, kMinusTwo = 0xC000, kHalfMax = 0x7BFF;  // 1, -2, 65504

// A 6-bit scale of all ones is 31 where 32 is taken off, an 8-bit one -1.
INSTANTIATE_TEST_SUITE_P(
    , DequantizeRowExtremes,
    testing::Values(UniformBlock{"Q8_0Low", WeightFormat::kQ8_0, 0x80, {{0, kOne}}, -128},
                    UniformBlock{"Q8_0Largest", WeightFormat::kQ8_0, 0x7F, {{0, kHalfMax}}, 127 * 65504.0f},
                    UniformBlock{"Q4_0Low", WeightFormat::kQ4_0, 0, {{0, kMinusTwo}}, 16},
                    UniformBlock{"Q4_0High", WeightFormat::kQ4_0, 0xFF, {{0, kMinusTwo}}, -14},
                    UniformBlock{"Q4_1Low", WeightFormat::kQ4_1, 0, {{0, kOne}, {2, kMinusTwo}}, -2},
                    UniformBlock{"Q4_1High", WeightFormat::kQ4_1, 0xFF, {{0, kOne}, {2, kMinusTwo}}, 13},
                    UniformBlock{"Q5_0Low", WeightFormat::kQ5_0, 0, {{0, kMinusTwo}}, 32},
                    UniformBlock{"Q5_0High", WeightFormat::kQ5_0, 0xFF, {{0, kMinusTwo}}, -30},
                    UniformBlock{"Q5_1Low", WeightFormat::kQ5_1, 0, {{0, kOne}, {2, kMinusTwo}}, -2},
                    UniformBlock{"Q5_1High", WeightFormat::kQ5_1, 0xFF, {{0, kOne}, {2, kMinusTwo}}, 29},
                    UniformBlock{"Q2_KZero", WeightFormat::kQ2_K, 0, {{80, kOne}, {82, kOne}}, 0},
                    UniformBlock{"Q2_KHigh", WeightFormat::kQ2_K, 0xFF, {{80, kOne}, {82, kOne}}, 15 * 3 - 15},
                    UniformBlock{"Q3_KLow", WeightFormat::kQ3_K, 0, {{108, kOne}}, -32 * -4},
                    UniformBlock{"Q3_KHigh", WeightFormat::kQ3_K, 0xFF, {{108, kOne}}, 31 * 3},
                    UniformBlock{"Q4_KHigh", WeightFormat::kQ4_K, 0xFF, {{0, kOne}, {2, kOne}}, 63 * 15 - 63},
                    UniformBlock{"Q5_KHigh", WeightFormat::kQ5_K, 0xFF, {{0, kOne}, {2, kOne}}, 63 * 31 - 63},
                    UniformBlock{"Q6_KHigh", WeightFormat::kQ6_K, 0xFF, {{208, kOne}}, -1 * 31},
                    UniformBlock{"IQ4_NLLow", WeightFormat::kIQ4_NL, 0, {{0, kOne}}, -127},
                    UniformBlock{"IQ4_NLHigh", WeightFormat::kIQ4_NL, 0xFF, {{0, kOne}}, 113},
                    UniformBlock{"IQ4_XSLow", WeightFormat::kIQ4_XS, 0, {{0, kOne}}, -32 * -127},
                    UniformBlock{"IQ4_XSHigh", WeightFormat::kIQ4_XS, 0xFF, {{0, kOne}, {2, 0xFFFF}}, 31 * 113},
                    UniformBlock{"MXFP4Zero", WeightFormat::kMXFP4, 0, {}, 0},
                    UniformBlock{"MXFP4MinusHalf", WeightFormat::kMXFP4, 0x99, {{0, 0x997F}}, -0.5f}),
    [](const auto& test) { return test.param.name; });

// One code of 32 differs from the others, so a bit that is taken from another place shows.
TEST(DequantizeRow, EveryFifthBitIsItsElements) {
  for (int element = 0; element < 32; ++element) {
    std::string block(24, '\0');
    std::memcpy(block.data(), &kOne, 2);
    const uint32_t fifth = 1u << element;
    std::memcpy(block.data() + 4, &fifth, 4);
    const std::vector<float> values = Expand(WeightFormat::kQ5_1, block);
    for (int i = 0; i < 32; ++i) ASSERT_EQ(values[static_cast<size_t>(i)], i == element ? 16 : 0) << element;
  }
}

// Every scale and minimum of every format, one at a time. MXFP4's cannot be infinite, but its largest times 12 is.
TEST(DequantizeRow, ReportsAScaleThatIsNotFinite) {
  for (const WeightFormat format : QuantisedFormats()) {
    const WeightFormatInfo& info = InfoOf(format);
    for (const uint16_t half : {uint16_t{0x7C00}, uint16_t{0xFC00}, uint16_t{0x7E00}}) {
      for (const size_t offset : HalvesOf(format)) {
        bool finite = true;
        std::string blocks(3 * static_cast<size_t>(info.block_bytes), '\1');
        std::memcpy(blocks.data() + static_cast<size_t>(info.block_bytes) + offset, &half, 2);
        Expand(format, blocks, &finite);
        EXPECT_FALSE(finite) << info.name << " at " << offset;
        EXPECT_FALSE(ScalesAreFinite(format, blocks.data(), 3 * info.block_elements)) << info.name;
      }
    }
  }
  bool finite = true;
  Expand(WeightFormat::kMXFP4, std::string(17, '\xFF'), &finite);
  EXPECT_FALSE(finite);
  EXPECT_FALSE(ScalesAreFinite(WeightFormat::kMXFP4, std::string(17, '\xFF').data(), 32));
}

// The largest fp16 in every place, with every code: as finite as ScalesAreFinite says.
TEST(DequantizeRow, FiniteScalesMakeFiniteValues) {
  for (const WeightFormat format : QuantisedFormats()) {
    for (int codes = 0; codes < 256; ++codes) {
      const auto rows =
          UniformStoredRows(format, 1, InfoOf(format).block_elements, static_cast<uint8_t>(codes), 0x7BFF);
      std::vector<float> out(static_cast<size_t>(InfoOf(format).block_elements));
      if (!ScalesAreFinite(format, rows.data(), InfoOf(format).block_elements)) continue;
      EXPECT_TRUE(DequantizeRow(format, rows.data(), InfoOf(format).block_elements, out.data()))
          << InfoOf(format).name << ", " << codes;
    }
  }
}

TEST(DequantizeRow, ReportsValuesThatAreNotFinite) {
  bool finite = false;
  Expand(WeightFormat::kF32, std::string(4 * 33, '\0'), &finite);
  EXPECT_TRUE(finite);
  for (const uint32_t bits : {0x7F800000u, 0xFF800000u, 0x7FC00000u, 0x7F800001u}) {
    for (const size_t at : {0, 16, 32}) {
      std::string bytes(4 * 33, '\0');
      std::memcpy(bytes.data() + 4 * at, &bits, 4);
      Expand(WeightFormat::kF32, bytes, &finite);
      EXPECT_FALSE(finite) << bits << " at " << at;
    }
  }
  std::string block(34, '\1');
  const uint16_t infinity = 0x7C00;
  std::memcpy(block.data(), &infinity, 2);
  Expand(WeightFormat::kQ8_0, block, &finite);
  EXPECT_FALSE(finite);
}

}  // namespace
}  // namespace hydrant
