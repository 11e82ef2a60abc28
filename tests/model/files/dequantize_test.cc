#include "model/files/dequantize.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

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

// Exact equality: all products but Q6_K's last are exact in fp32, and that one is rounded once.
TEST(DequantizeRow, KQuantsAreWhatLlamaCppMakesOfThem) {
  std::ifstream file(std::string(HYDRANT_SOURCE_DIR) + "/tests/golden/k_quants.json");
  const nlohmann::json goldens = nlohmann::json::parse(file);
  for (const auto& [name, type] : {std::pair("Q4_K", WeightFormat::kQ4_K), std::pair("Q5_K", WeightFormat::kQ5_K),
                                   std::pair("Q6_K", WeightFormat::kQ6_K)}) {
    EXPECT_EQ(InfoOf(type).name, name);
    const std::string blocks = FromHex(goldens.at(name).at("blocks").get<std::string>());
    const std::string bytes = FromHex(goldens.at(name).at("values").get<std::string>());
    std::vector<float> expected(bytes.size() / 4);
    std::memcpy(expected.data(), bytes.data(), bytes.size());
    ASSERT_EQ(expected.size(), 3u * 256u);
    bool finite = false;
    EXPECT_EQ(Expand(type, blocks, &finite), expected) << name;
    EXPECT_TRUE(finite);
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
