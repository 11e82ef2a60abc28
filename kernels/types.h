// The types of numbers, and the kinds of small operations, that model files, configurations and devices speak of: DType,
// WeightFormat, Activation, NormKind.
//
// Thread: any (constants).
#ifndef HYDRANT_KERNELS_TYPES_H_
#define HYDRANT_KERNELS_TYPES_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hydrant {

// The types of activations, of cached keys and values, and of weights that are not quantised.
enum class DType : uint8_t { kF32, kF16, kBF16 };

constexpr size_t DTypeBytes(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }

// As flags and logs call it.
constexpr const char* DTypeName(DType dtype) {
  constexpr const char* kNames[] = {"float32", "float16", "bfloat16"};
  return kNames[static_cast<size_t>(dtype)];
}

// How the elements of a weight lie in a model file, and in a device's memory where it multiplies them so. The quantised formats
// are ggml's: 32 elements share fp16 `d` (and `m`); x = d * q (Q8_0, q in [-128, 127]), x = d * (q - 8) (Q4_0) or
// x = d * q + m (Q4_1), q in [0, 15] with element i in the low and i + 16 in the high half of byte i. The K formats: 256 elements
// in 8 groups of 32 (Q6_K: 16 of 16), each with an integer scale s (and m) of its own beside fp16 d (and n);
// x = d * s * q - n * m, s, m in [0, 63], q in [0, 15] (Q4_K) or [0, 31] (Q5_K); x = d * s * (q - 32), s in [-128, 127], q in
// [0, 63] (Q6_K).
enum class WeightFormat : uint8_t { kF32, kF16, kBF16, kQ8_0, kQ4_0, kQ4_1, kQ4_K, kQ5_K, kQ6_K };

struct WeightFormatInfo {
  std::string_view name;
  int64_t block_elements;  // a row is a whole number of blocks
  int64_t block_bytes;
};

inline constexpr WeightFormatInfo kWeightFormats[] = {
    // in the order of WeightFormat
    {"F32", 1, 4},    {"F16", 1, 2},      {"BF16", 1, 2},     {"Q8_0", 32, 34},   {"Q4_0", 32, 18},
    {"Q4_1", 32, 20}, {"Q4_K", 256, 144}, {"Q5_K", 256, 176}, {"Q6_K", 256, 210},
};

constexpr const WeightFormatInfo& InfoOf(WeightFormat format) { return kWeightFormats[static_cast<size_t>(format)]; }

constexpr bool IsQuantised(WeightFormat format) { return format > WeightFormat::kBF16; }

// Bytes of a row. REQUIRES: cols is a multiple of the format's block_elements.
constexpr int64_t RowBytes(WeightFormat format, int64_t cols) {
  return cols / InfoOf(format).block_elements * InfoOf(format).block_bytes;
}

// The two names of a type that is not quantised. DTypeOf REQUIRES !IsQuantised(format).
constexpr WeightFormat FormatOf(DType dtype) { return static_cast<WeightFormat>(dtype); }
constexpr DType DTypeOf(WeightFormat format) { return static_cast<DType>(format); }
static_assert(FormatOf(DType::kF32) == WeightFormat::kF32 && FormatOf(DType::kF16) == WeightFormat::kF16 &&
              FormatOf(DType::kBF16) == WeightFormat::kBF16);

enum class Activation : uint8_t { kSilu, kGelu, kGeluTanh, kRelu };

enum class NormKind : uint8_t { kRms, kLayer };

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_TYPES_H_
