// Rows of quantised formats as they lie in a file: random codes under scales of a given size, and extremes.
#ifndef HYDRANT_TESTS_KERNELS_STORED_ROWS_H_
#define HYDRANT_TESTS_KERNELS_STORED_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/types.h"

namespace hydrant {

inline constexpr WeightFormat kQuantisedFormats[] = {
    WeightFormat::kQ8_0,   WeightFormat::kQ4_0,   WeightFormat::kQ4_1, WeightFormat::kQ5_0, WeightFormat::kQ5_1,
    WeightFormat::kQ2_K,   WeightFormat::kQ3_K,   WeightFormat::kQ4_K, WeightFormat::kQ5_K, WeightFormat::kQ6_K,
    WeightFormat::kIQ4_NL, WeightFormat::kIQ4_XS, WeightFormat::kMXFP4};

// Where the fp16 scales and minima of a block lie.
inline std::vector<size_t> HalvesOf(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ4_1:
    case WeightFormat::kQ5_1:
    case WeightFormat::kQ4_K:
    case WeightFormat::kQ5_K:
      return {0, 2};
    case WeightFormat::kQ2_K:
      return {80, 82};
    case WeightFormat::kQ3_K:
      return {108};
    case WeightFormat::kQ6_K:
      return {208};
    case WeightFormat::kMXFP4:
      return {};
    default:
      return {0};
  }
}

// [rows, RowBytes(format, cols)]: random bytes, but for scales between 2^-10 and 2^-3, those in fp16 of either sign.
inline std::vector<std::byte> RandomStoredRows(WeightFormat format, int64_t rows, int64_t cols, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(static_cast<size_t>(rows * RowBytes(format, cols)));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  const auto block_bytes = static_cast<size_t>(InfoOf(format).block_bytes);
  for (size_t block = 0; block < bytes.size(); block += block_bytes) {
    for (const size_t offset : HalvesOf(format)) {
      const auto half = static_cast<uint16_t>((random() & 0x83FFu) | (5 + random() % 7) << 10);
      std::memcpy(bytes.data() + block + offset, &half, 2);
    }
    if (format == WeightFormat::kMXFP4) bytes[block] = static_cast<std::byte>(118 + random() % 7);
  }
  return bytes;
}

// The same with every byte but the fp16 scales set to `codes`, and these to `half`.
inline std::vector<std::byte> UniformStoredRows(WeightFormat format, int64_t rows, int64_t cols, uint8_t codes,
                                                uint16_t half) {
  std::vector<std::byte> bytes(static_cast<size_t>(rows * RowBytes(format, cols)), std::byte{codes});
  const auto block_bytes = static_cast<size_t>(InfoOf(format).block_bytes);
  for (size_t block = 0; block < bytes.size(); block += block_bytes) {
    for (const size_t offset : HalvesOf(format)) std::memcpy(bytes.data() + block + offset, &half, 2);
  }
  return bytes;
}

}  // namespace hydrant

#endif  // HYDRANT_TESTS_KERNELS_STORED_ROWS_H_
