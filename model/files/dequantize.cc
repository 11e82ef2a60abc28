// Compiled with -O3 (CMakeLists.txt): the loops are written so that the compiler vectorises them, once for every
// instruction set below, and the widest one the machine has is chosen at run time.
#include "model/files/dequantize.h"

#include <bit>
#include <cassert>
#include <cstring>

#include "kernels/small_floats.h"

namespace hydrant {
namespace {

constexpr int64_t kQuantBlock = 32;
constexpr int64_t kKBlock = 256;

#define HYDRANT_INLINE inline __attribute__((always_inline))

template <typename T>
HYDRANT_INLINE T LoadUnaligned(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

HYDRANT_INLINE void ExpandF16(const uint8_t* stored, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = HalfToFloat(LoadUnaligned<uint16_t>(stored + 2 * i));
}

HYDRANT_INLINE void ExpandBF16(const uint8_t* stored, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = std::bit_cast<float>(static_cast<uint32_t>(LoadUnaligned<uint16_t>(stored + 2 * i)) << 16);
  }
}

HYDRANT_INLINE void ExpandQ8_0(const uint8_t* stored, int64_t n, float* out) {
  for (int64_t b = 0; b < n / kQuantBlock; ++b, stored += 34, out += kQuantBlock) {
    const float d = HalfToFloat(LoadUnaligned<uint16_t>(stored));
    const auto* q = reinterpret_cast<const int8_t*>(stored + 2);
    for (int i = 0; i < kQuantBlock; ++i) out[i] = d * static_cast<float>(q[i]);
  }
}

HYDRANT_INLINE void ExpandQ4_0(const uint8_t* stored, int64_t n, float* out) {
  for (int64_t b = 0; b < n / kQuantBlock; ++b, stored += 18, out += kQuantBlock) {
    const float d = HalfToFloat(LoadUnaligned<uint16_t>(stored));
    const uint8_t* q = stored + 2;
    for (int i = 0; i < 16; ++i) out[i] = d * static_cast<float>((q[i] & 0x0F) - 8);
    for (int i = 0; i < 16; ++i) out[i + 16] = d * static_cast<float>((q[i] >> 4) - 8);
  }
}

HYDRANT_INLINE void ExpandQ4_1(const uint8_t* stored, int64_t n, float* out) {
  for (int64_t b = 0; b < n / kQuantBlock; ++b, stored += 20, out += kQuantBlock) {
    const float d = HalfToFloat(LoadUnaligned<uint16_t>(stored));
    const float m = HalfToFloat(LoadUnaligned<uint16_t>(stored + 2));
    const uint8_t* q = stored + 4;
    for (int i = 0; i < 16; ++i) out[i] = d * static_cast<float>(q[i] & 0x0F) + m;
    for (int i = 0; i < 16; ++i) out[i + 16] = d * static_cast<float>(q[i] >> 4) + m;
  }
}

// 32 codes of 5 bits: the low four as in Q4_0, the fifth of element i at bit i of the four bytes before them.
HYDRANT_INLINE int FiveBits(const uint8_t* fifth, int i) {
  const int low = i < 16 ? fifth[4 + i] & 0x0F : fifth[4 + i - 16] >> 4;
  return low | (fifth[i / 8] >> i % 8 & 1) << 4;
}

HYDRANT_INLINE void ExpandQ5_0(const uint8_t* stored, int64_t n, float* out) {
  for (int64_t b = 0; b < n / kQuantBlock; ++b, stored += 22, out += kQuantBlock) {
    const float d = HalfToFloat(LoadUnaligned<uint16_t>(stored));
    for (int i = 0; i < kQuantBlock; ++i) out[i] = d * static_cast<float>(FiveBits(stored + 2, i) - 16);
  }
}

HYDRANT_INLINE void ExpandQ5_1(const uint8_t* stored, int64_t n, float* out) {
  for (int64_t b = 0; b < n / kQuantBlock; ++b, stored += 24, out += kQuantBlock) {
    const float d = HalfToFloat(LoadUnaligned<uint16_t>(stored));
    const float m = HalfToFloat(LoadUnaligned<uint16_t>(stored + 2));
    for (int i = 0; i < kQuantBlock; ++i) out[i] = d * static_cast<float>(FiveBits(stored + 4, i)) + m;
  }
}

// 32 elements d * codes[q] of 16 bytes.
HYDRANT_INLINE void ExpandTable(const int8_t (&codes)[16], float d, const uint8_t* q, float* out) {
  for (int i = 0; i < 16; ++i) out[i] = d * static_cast<float>(codes[q[i] & 0x0F]);
  for (int i = 0; i < 16; ++i) out[i + 16] = d * static_cast<float>(codes[q[i] >> 4]);
}

HYDRANT_INLINE void ExpandIQ4_NL(const uint8_t* stored, int64_t n, float* out) {
  for (int64_t b = 0; b < n / kQuantBlock; ++b, stored += 18, out += kQuantBlock) {
    ExpandTable(kNonLinearCodes, HalfToFloat(LoadUnaligned<uint16_t>(stored)), stored + 2, out);
  }
}

// A scale of group `group` is 6 bits: four in half a byte, two in a 16-bit word for all groups.
HYDRANT_INLINE void ExpandIQ4_XS(const uint8_t* stored, int64_t n, float* out) {
  for (int64_t b = 0; b < n / kKBlock; ++b, stored += 136) {
    const float d = HalfToFloat(LoadUnaligned<uint16_t>(stored));
    const int high = LoadUnaligned<uint16_t>(stored + 2);
    for (int group = 0; group < 8; ++group, out += kQuantBlock) {
      const int scale = (stored[4 + group / 2] >> group % 2 * 4 & 15) | (high >> group * 2 & 3) << 4;
      ExpandTable(kNonLinearCodes, d * static_cast<float>(scale - 32), stored + 8 + group * 16, out);
    }
  }
}

// The codes are doubled, so d is half of 2^(e - 127).
HYDRANT_INLINE void ExpandMXFP4(const uint8_t* stored, int64_t n, float* out) {
  for (int64_t b = 0; b < n / kQuantBlock; ++b, stored += 17, out += kQuantBlock) {
    ExpandTable(kFp4Codes, PowerToFloat(stored[0]), stored + 1, out);
  }
}

// Two bits of element i of quarter `quarter` of 8 (32 elements each), of which four share 32 bytes.
HYDRANT_INLINE int TwoBits(const uint8_t* packed, int quarter, int i) {
  return packed[quarter / 4 * 32 + i] >> quarter % 4 * 2 & 3;
}

HYDRANT_INLINE void ExpandQ2_K(const uint8_t* stored, int64_t n, float* out) {
  for (int64_t b = 0; b < n / kKBlock; ++b, stored += 84) {
    const float d = HalfToFloat(LoadUnaligned<uint16_t>(stored + 80));
    const float minimum = HalfToFloat(LoadUnaligned<uint16_t>(stored + 82));
    for (int quarter = 0; quarter < 8; ++quarter, out += kQuantBlock) {
      for (int i = 0; i < kQuantBlock; ++i) {
        const uint8_t group = stored[quarter * 2 + i / 16];
        out[i] = d * static_cast<float>(group & 15) * static_cast<float>(TwoBits(stored + 16, quarter, i)) -
                 minimum * static_cast<float>(group >> 4);
      }
    }
  }
}

// The third bit of element i of every quarter is in byte i, that of quarter q at bit q. Scales: low four bits of groups 0 to 7
// and 8 to 15 in halves of eight bytes, two high bits of groups g, g + 4, g + 8 and g + 12 in byte g of four more.
HYDRANT_INLINE void ExpandQ3_K(const uint8_t* stored, int64_t n, float* out) {
  for (int64_t b = 0; b < n / kKBlock; ++b, stored += 110) {
    const float d = HalfToFloat(LoadUnaligned<uint16_t>(stored + 108));
    const uint8_t* scales = stored + 96;
    for (int quarter = 0; quarter < 8; ++quarter, out += kQuantBlock) {
      for (int half = 0; half < 2; ++half) {
        const int group = quarter * 2 + half;
        const int scale = (scales[group % 8] >> group / 8 * 4 & 15) | (scales[8 + group % 4] >> group / 4 * 2 & 3) << 4;
        const float step = d * static_cast<float>(scale - 32);
        for (int i = half * 16; i < half * 16 + 16; ++i) {
          const int q = TwoBits(stored + 32, quarter, i) | (stored[i] >> quarter & 1) << 2;
          out[i] = step * static_cast<float>(q - 4);
        }
      }
    }
  }
}

// The scale and the minimum of group `group` of 8, 6 bits each in 12 bytes: those of the first four groups in the low bits of
// a byte of their own, the others in halves of the last four bytes and in the two bits that the first eight have left.
struct GroupScale {
  float scale, minimum;
};
HYDRANT_INLINE GroupScale GroupScaleOf(const uint8_t* packed, int group, float d, float n) {
  int scale = packed[group] & 63, minimum = packed[group + 4] & 63;
  if (group >= 4) {
    scale = (packed[group + 4] & 15) | (packed[group - 4] >> 6 << 4);
    minimum = (packed[group + 4] >> 4) | (packed[group] >> 6 << 4);
  }
  return {d * static_cast<float>(scale), n * static_cast<float>(minimum)};
}

// Q4_K, and Q5_K with the fifth bits of element i of every group in byte i of `fifth`, that of group g at bit g.
HYDRANT_INLINE void ExpandGroups(const uint8_t* stored, const uint8_t* fifth, const uint8_t* low, float* out) {
  const float d = HalfToFloat(LoadUnaligned<uint16_t>(stored));
  const float n = HalfToFloat(LoadUnaligned<uint16_t>(stored + 2));
  for (int group = 0; group < 8; ++group, out += kQuantBlock) {
    const GroupScale g = GroupScaleOf(stored + 4, group, d, n);
    // Two groups share 32 bytes: the low halves, then the high ones.
    const uint8_t* q = low + group / 2 * 32;
    const int shift = group % 2 * 4;
    for (int i = 0; i < kQuantBlock; ++i) {
      const int high = fifth == nullptr ? 0 : (fifth[i] >> group & 1) << 4;
      out[i] = g.scale * static_cast<float>((q[i] >> shift & 15) | high) - g.minimum;
    }
  }
}

HYDRANT_INLINE void ExpandQ4_K(const uint8_t* stored, int64_t n, float* out) {
  for (int64_t b = 0; b < n / kKBlock; ++b, stored += 144, out += kKBlock) {
    ExpandGroups(stored, nullptr, stored + 16, out);
  }
}

HYDRANT_INLINE void ExpandQ5_K(const uint8_t* stored, int64_t n, float* out) {
  for (int64_t b = 0; b < n / kKBlock; ++b, stored += 176, out += kKBlock) {
    ExpandGroups(stored, stored + 16, stored + 48, out);
  }
}

// Either half of 128 elements has four quarters of 32: the low four bits of quarters 0 and 2 share 32 bytes, those of 1 and 3
// the next 32, and the two high bits of all four share 32 more.
HYDRANT_INLINE void ExpandQ6_K(const uint8_t* stored, int64_t n, float* out) {
  for (int64_t b = 0; b < n / kKBlock; ++b, stored += 210) {
    const float d = HalfToFloat(LoadUnaligned<uint16_t>(stored + 208));
    const auto* scales = reinterpret_cast<const int8_t*>(stored + 192);
    for (int quarter = 0; quarter < 8; ++quarter, out += kQuantBlock) {
      const uint8_t* low = stored + quarter / 4 * 64 + quarter % 2 * 32;
      const uint8_t* high = stored + 128 + quarter / 4 * 32;
      const int low_shift = quarter % 4 / 2 * 4, high_shift = quarter % 4 * 2;
      for (int i = 0; i < kQuantBlock; ++i) {
        const int q = (low[i] >> low_shift & 15) | (high[i] >> high_shift & 3) << 4;
        out[i] = d * static_cast<float>(scales[quarter * 2 + i / 16]) * static_cast<float>(q - 32);
      }
    }
  }
}

HYDRANT_INLINE bool AllFinite(const float* values, int64_t n) {
  uint32_t bad = 0;
  for (int64_t i = 0; i < n; ++i) bad |= (std::bit_cast<uint32_t>(values[i]) & 0x7F800000u) == 0x7F800000u ? 1u : 0u;
  return bad == 0;
}

HYDRANT_INLINE bool Expand(WeightFormat format, const uint8_t* stored, int64_t n, float* out) {
  switch (format) {
    case WeightFormat::kF32:
      std::memcpy(out, stored, static_cast<size_t>(n) * sizeof(float));
      break;
    case WeightFormat::kF16:
      ExpandF16(stored, n, out);
      break;
    case WeightFormat::kBF16:
      ExpandBF16(stored, n, out);
      break;
    case WeightFormat::kQ8_0:
      ExpandQ8_0(stored, n, out);
      break;
    case WeightFormat::kQ4_0:
      ExpandQ4_0(stored, n, out);
      break;
    case WeightFormat::kQ4_1:
      ExpandQ4_1(stored, n, out);
      break;
    case WeightFormat::kQ5_0:
      ExpandQ5_0(stored, n, out);
      break;
    case WeightFormat::kQ5_1:
      ExpandQ5_1(stored, n, out);
      break;
    case WeightFormat::kQ2_K:
      ExpandQ2_K(stored, n, out);
      break;
    case WeightFormat::kQ3_K:
      ExpandQ3_K(stored, n, out);
      break;
    case WeightFormat::kQ4_K:
      ExpandQ4_K(stored, n, out);
      break;
    case WeightFormat::kQ5_K:
      ExpandQ5_K(stored, n, out);
      break;
    case WeightFormat::kQ6_K:
      ExpandQ6_K(stored, n, out);
      break;
    case WeightFormat::kIQ4_NL:
      ExpandIQ4_NL(stored, n, out);
      break;
    case WeightFormat::kIQ4_XS:
      ExpandIQ4_XS(stored, n, out);
      break;
    case WeightFormat::kMXFP4:
      ExpandMXFP4(stored, n, out);
      break;
  }
  return AllFinite(out, n);  // the row is still in the nearest cache
}

using ExpandFunction = bool (*)(WeightFormat, const uint8_t*, int64_t, float*);

bool ExpandBaseline(WeightFormat format, const uint8_t* stored, int64_t n, float* out) {
  return Expand(format, stored, n, out);
}

#if defined(__x86_64__)
#if defined(__clang__)
#define HYDRANT_TARGET_AVX2 "avx2"  // its default is the whole register
#else
#define HYDRANT_TARGET_AVX2 "avx2,prefer-vector-width=256"
#endif
// No FMA in either: d * q + m must round twice everywhere, or a model would load differently on different machines.
__attribute__((target(HYDRANT_TARGET_AVX2))) bool ExpandAvx2(WeightFormat format, const uint8_t* stored, int64_t n,
                                                             float* out) {
  return Expand(format, stored, n, out);
}

ExpandFunction Choose() { return __builtin_cpu_supports("avx2") ? ExpandAvx2 : ExpandBaseline; }
#else
ExpandFunction Choose() { return ExpandBaseline; }
#endif

bool HalfIsFinite(const uint8_t* at) { return (LoadUnaligned<uint16_t>(at) & 0x7C00) != 0x7C00; }

// Whether the scales of one block are. Products of the largest fp16 with scales and codes stay far below the largest fp32.
bool BlockIsFinite(WeightFormat format, const uint8_t* block) {
  switch (format) {
    case WeightFormat::kQ4_1:
    case WeightFormat::kQ5_1:
    case WeightFormat::kQ4_K:
    case WeightFormat::kQ5_K:
      return HalfIsFinite(block) && HalfIsFinite(block + 2);
    case WeightFormat::kQ2_K:
      return HalfIsFinite(block + 80) && HalfIsFinite(block + 82);
    case WeightFormat::kQ3_K:
      return HalfIsFinite(block + 108);
    case WeightFormat::kQ6_K:
      return HalfIsFinite(block + 208);
    case WeightFormat::kMXFP4:
      return block[0] <= 252;  // 12 * 2^(252 - 128) is below 2^128
    default:
      return HalfIsFinite(block);
  }
}

}  // namespace

bool ScalesAreFinite(WeightFormat format, const void* stored, int64_t elements) {
  assert(IsQuantised(format) && elements % InfoOf(format).block_elements == 0);
  const auto* block = static_cast<const uint8_t*>(stored);
  bool finite = true;
  for (int64_t b = 0; b < elements / InfoOf(format).block_elements; ++b, block += InfoOf(format).block_bytes) {
    finite &= BlockIsFinite(format, block);
  }
  return finite;
}

bool DequantizeRow(WeightFormat format, const void* stored, int64_t elements, float* out) {
  assert(elements % InfoOf(format).block_elements == 0);
  static const ExpandFunction expand = Choose();
  return expand(format, static_cast<const uint8_t*>(stored), elements, out);
}

}  // namespace hydrant
