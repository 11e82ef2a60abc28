// The types of numbers, and the kinds of small operations, that model files, configurations and devices speak of: DType,
// KvType, WeightFormat, Activation, NormKind, kNoWindow.
//
// Thread: any (constants).
#ifndef HYDRANT_KERNELS_TYPES_H_
#define HYDRANT_KERNELS_TYPES_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

namespace hydrant {

// The types of activations, and of weights and cached keys and values that are not quantised.
enum class DType : uint8_t { kF32, kF16, kBF16 };

constexpr size_t DTypeBytes(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }

// As flags and logs call it.
constexpr const char* DTypeName(DType dtype) {
  constexpr const char* kNames[] = {"float32", "float16", "bfloat16"};
  return kNames[static_cast<size_t>(dtype)];
}

// How cached keys and values are kept: as numbers of a DType or, kInt8, a token's head as int8 with one fp32 scale
// (kernels/kv_cache_view.h has the rule). A type of its own, so that no weight or activation can be int8 by accident.
enum class KvType : uint8_t { kF32, kF16, kBF16, kInt8 };

// As flags, logs and metrics call it.
constexpr const char* KvTypeName(KvType type) {
  constexpr const char* kNames[] = {"float32", "float16", "bfloat16", "int8"};
  return kNames[static_cast<size_t>(type)];
}

// The two names of a type that is not quantised. DTypeOf REQUIRES another type than kInt8.
constexpr KvType KvTypeOf(DType dtype) { return static_cast<KvType>(dtype); }
constexpr DType DTypeOf(KvType type) { return static_cast<DType>(type); }
static_assert(KvTypeOf(DType::kF32) == KvType::kF32 && KvTypeOf(DType::kF16) == KvType::kF16 &&
              KvTypeOf(DType::kBF16) == KvType::kBF16);

// How the elements of a weight lie in a model file, and in a device's memory where it multiplies them so. The quantised formats
// are ggml's. 32 elements share fp16 `d` (and `m`), element i in the low and i + 16 in the high half of byte i:
//   Q8_0  x = d * q, q in [-128, 127], a byte each     Q4_0  x = d * (q - 8)     Q5_0  x = d * (q - 16)
//   IQ4_NL  x = d * kNonLinearCodes[q]                 Q4_1, Q5_1  x = d * q + m
//   MXFP4  x = d * kFp4Codes[q], d a power of two in one byte
// The K formats and IQ4_XS: 256 elements in groups of 32 (Q2_K, Q3_K, Q6_K: of 16), each with an integer scale s (and m) of its
// own beside fp16 d (and n):
//   Q2_K, Q4_K, Q5_K  x = d * s * q - n * m, s and m in [0, 15] (Q2_K) or [0, 63]
//   Q3_K, Q6_K  x = d * s * (q - 4), s in [-32, 31];  x = d * s * (q - 32), s in [-128, 127]
//   IQ4_XS  x = d * s * kNonLinearCodes[q], s in [-32, 31]
enum class WeightFormat : uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kIQ4_XS,
  kMXFP4,
};

struct WeightFormatInfo {
  std::string_view name;
  int64_t block_elements;  // a row is a whole number of blocks
  int64_t block_bytes;
};

inline constexpr WeightFormatInfo kWeightFormats[] = {
    // in the order of WeightFormat
    {"F32", 1, 4},      {"F16", 1, 2},      {"BF16", 1, 2},       {"Q8_0", 32, 34},
    {"Q4_0", 32, 18},   {"Q4_1", 32, 20},   {"Q5_0", 32, 22},     {"Q5_1", 32, 24},
    {"Q2_K", 256, 84},  {"Q3_K", 256, 110}, {"Q4_K", 256, 144},   {"Q5_K", 256, 176},
    {"Q6_K", 256, 210}, {"IQ4_NL", 32, 18}, {"IQ4_XS", 256, 136}, {"MXFP4", 32, 17},
};

// What the 16 codes of IQ4_NL and IQ4_XS stand for: closer together where weights are more frequent.
inline constexpr int8_t kNonLinearCodes[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                               1,    13,   25,  38,  53,  69,  89,  113};
// Those of MXFP4: the numbers of the 4-bit floating-point type E2M1, doubled.
inline constexpr int8_t kFp4Codes[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

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

// kClampedSwish is for gated weights: of a gate g = min(gate, kSwishLimit), g * sigmoid(kSwishSlope * g), and the up projection
// beside it counts as clamp(up, -kSwishLimit, kSwishLimit) + 1. With any other the up projection counts as it is.
enum class Activation : uint8_t { kSilu, kGelu, kGeluTanh, kRelu, kClampedSwish };

inline constexpr float kSwishLimit = 7.0f, kSwishSlope = 1.702f;

enum class NormKind : uint8_t { kRms, kLayer };

// The window of a layer whose tokens see all that comes before them.
inline constexpr int32_t kNoWindow = std::numeric_limits<int32_t>::max();

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_TYPES_H_
