// Loads from one head's tile of keys or values, per element type (kernels/cpu/attention/attention_kernels.h gives the orders).
//
// For kernel families only (kernels/cpu/kernel_table.h has the rules): everything is in the family's own namespace.
#ifndef HYDRANT_KERNELS_CPU_ATTENTION_KV_TILE_H_
#define HYDRANT_KERNELS_CPU_ATTENTION_KV_TILE_H_

#include "kernels/cpu/runtime/simd.h"
#include "kernels/kv_cache_view.h"

namespace hydrant::HYDRANT_ISA {

struct VecPair {
  F32x16 first, second;
};

// Sixteen neighbouring pairs of bf16, unzipped.
HYDRANT_SIMD VecPair LoadBf16Pairs(const uint16_t* p) {
#ifdef __AVX512F__
  const __m512i both = _mm512_loadu_si512(p);
  return {{_mm512_castsi512_ps(_mm512_slli_epi32(both, 16))},
          {_mm512_castsi512_ps(_mm512_and_si512(both, _mm512_set1_epi32(static_cast<int>(0xffff0000u))))}};
#else
  const __m256i lo = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  const __m256i hi = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 16));
  const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
  return {{_mm256_castsi256_ps(_mm256_slli_epi32(lo, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(hi, 16))},
          {_mm256_castsi256_ps(_mm256_and_si256(lo, upper)), _mm256_castsi256_ps(_mm256_and_si256(hi, upper))}};
#endif
}

HYDRANT_SIMD float Bf16ToFloat(uint16_t x) {
  const uint32_t bits = static_cast<uint32_t>(x) << 16;
  float y;
  __builtin_memcpy(&y, &bits, sizeof(y));
  return y;
}

// What every type of tile has. `tile` is where its elements begin.
//   LoadK   elements 2 i and 2 i + 1 of all 16 slots of a K tile
//   LoadV   slots 2 i and 2 i + 1 of a V tile, elements [dim, dim + 16)
//   V1      one element of a V tile
// All three without the scales, where there are scales:
//   kScaled whether the type has them
//   Scaled  x [16 slots] times the slots' scales
struct Unscaled {
  static constexpr bool kScaled = false;
  HYDRANT_SIMD F32x16 Scaled(const void* tile, F32x16 x) {
    (void)tile;
    return x;
  }
};

// Sixteen neighbouring elements, and one; of 16 bits, fp16.
HYDRANT_SIMD F32x16 LoadElements(const float* p) { return Load(p); }
HYDRANT_SIMD F32x16 LoadElements(const uint16_t* p) { return LoadF16(p); }
HYDRANT_SIMD F32x16 LoadElements(const int8_t* p) {
#ifdef __AVX512F__
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
#else
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)))),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + 8))))};
#endif
}
HYDRANT_SIMD float ToFloat(float x) { return x; }
HYDRANT_SIMD float ToFloat(uint16_t x) { return _cvtsh_ss(x); }
HYDRANT_SIMD float ToFloat(int8_t x) { return x; }

// Elements one by one: neighbours are one slot's in V, and those of the same place in K.
template <typename T>
struct RowTile {
  using Element = T;
  HYDRANT_SIMD VecPair LoadK(const T* tile, int64_t i) {
    return {LoadElements(tile + 32 * i), LoadElements(tile + 32 * i + 16)};
  }
  HYDRANT_SIMD VecPair LoadV(const T* tile, int64_t head_dim, int64_t i, int64_t dim) {
    const T* p = tile + 2 * i * head_dim + dim;
    return {LoadElements(p), LoadElements(p + head_dim)};
  }
  HYDRANT_SIMD float V1(const T* tile, int64_t head_dim, int64_t slot, int64_t dim) {
    return ToFloat(tile[slot * head_dim + dim]);
  }
};

struct F32Tile : RowTile<float>, Unscaled {};
struct F16Tile : RowTile<uint16_t>, Unscaled {};

struct Int8Tile : RowTile<int8_t> {
  static constexpr bool kScaled = true;
  HYDRANT_SIMD const float* Scales(const int8_t* tile) { return reinterpret_cast<const float*>(tile) - kLanes; }
  HYDRANT_SIMD F32x16 Scaled(const int8_t* tile, F32x16 x) { return x * Load(Scales(tile)); }
};

struct Bf16Tile : Unscaled {
  using Element = uint16_t;
  HYDRANT_SIMD VecPair LoadK(const uint16_t* tile, int64_t i) { return LoadBf16Pairs(tile + 32 * i); }
  HYDRANT_SIMD VecPair LoadV(const uint16_t* tile, int64_t head_dim, int64_t i, int64_t dim) {
    return LoadBf16Pairs(tile + 2 * (i * head_dim + dim));
  }
  HYDRANT_SIMD float V1(const uint16_t* tile, int64_t head_dim, int64_t slot, int64_t dim) {
    return Bf16ToFloat(tile[2 * (slot / 2 * head_dim + dim) + slot % 2]);
  }
};

// Bytes of a tile before its elements.
template <typename Tile>
constexpr int64_t kTileScaleBytes = Tile::kScaled ? static_cast<int64_t>(KvScaleBytes(KvType::kInt8)) : 0;

}  // namespace hydrant::HYDRANT_ISA

#endif  // HYDRANT_KERNELS_CPU_ATTENTION_KV_TILE_H_
