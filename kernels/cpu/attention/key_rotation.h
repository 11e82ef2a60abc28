// Rotates cached keys as they are read, for policies that roll: a tile of 16 slots becomes fp32 [head_dim][16], every slot
// turned by the angle of its rank.
//
// The ranks of a tile are any 16 numbers, so its cosines and sines are 16 rows of the rotary table; they are transposed in
// registers, eight angles at a time; nothing of them is stored.
//
// For kernel families only (kernels/cpu/kernel_table.h has the rules): everything is in the family's own namespace.
#ifndef HYDRANT_KERNELS_CPU_ATTENTION_KEY_ROTATION_H_
#define HYDRANT_KERNELS_CPU_ATTENTION_KEY_ROTATION_H_

#include "kernels/cpu/attention/attention_kernels.h"
#include "kernels/cpu/attention/kv_tile.h"
#include "kernels/cpu/runtime/simd.h"

namespace hydrant::HYDRANT_ISA {
namespace {

constexpr int64_t kHeadDimMax = 256;

// One tile of rotated keys.
struct alignas(64) RotatedTile {
  float key[kHeadDimMax * kLanes];  // [head_dim][16]
};

// Elements 2 i and 2 i + 1 of 16 keys, with their scales.
template <typename Tile>
HYDRANT_SIMD VecPair LoadKeys(const typename Tile::Element* k, int64_t i) {
  const VecPair pair = Tile::LoadK(k, i);
  return {Tile::Scaled(k, pair.first), Tile::Scaled(k, pair.second)};
}

template <typename Tile>
HYDRANT_SIMD F32x16 LoadElement(const typename Tile::Element* k, int64_t dim) {
  const VecPair pair = LoadKeys<Tile>(k, dim / 2);
  return dim % 2 == 0 ? pair.first : pair.second;
}

// Elements i and i + half of 16 keys.
HYDRANT_SIMD void RotatePair(F32x16 first, F32x16 second, F32x16 cosine, F32x16 sine, int64_t i, int64_t half,
                             float* key) {
  Store(key + i * kLanes, NegMulAdd(second, sine, first * cosine));
  Store(key + (i + half) * kLanes, MulAdd(first, sine, second * cosine));
}

// Rotates tile `k`, of which the first `count` slots are occupied, to `positions` [16].
template <typename Tile>
HYDRANT_SIMD void RotateTile(const typename Tile::Element* k, const RopeView& rope, const int32_t* positions,
                             int64_t count, int64_t head_dim, float* key) {
  const int64_t half = rope.dims / 2;
  for (int64_t begin = 0; begin < half; begin += 8) {
    const float* rows[kLanes];
    // What unoccupied slots hold may be anything, their positions too.
    for (int slot = 0; slot < kLanes; ++slot) {
      rows[slot] = rope.table + (slot < count ? int64_t{positions[slot]} * rope.dims : 0) + begin;
    }
    F32x16 cosine[8], sine[8];
    LoadColumns(rows, cosine);
    for (int slot = 0; slot < kLanes; ++slot) rows[slot] += half;
    LoadColumns(rows, sine);
    for (int j = 0; j < 8; j += 2) {
      const int64_t i = begin + j;
      if (i >= half) break;
      const VecPair first = LoadKeys<Tile>(k, i / 2);
      VecPair second;
      if (half % 2 == 0) {
        second = LoadKeys<Tile>(k, (i + half) / 2);
      } else {
        second.first = LoadElement<Tile>(k, i + half);
        if (i + 1 < half) second.second = LoadElement<Tile>(k, i + half + 1);
      }
      RotatePair(first.first, second.first, cosine[j], sine[j], i, half, key);
      if (i + 1 < half) RotatePair(first.second, second.second, cosine[j + 1], sine[j + 1], i + 1, half, key);
    }
  }
  for (int64_t dim = rope.dims; dim < head_dim; ++dim) Store(key + dim * kLanes, LoadElement<Tile>(k, dim));
}

}  // namespace
}  // namespace hydrant::HYDRANT_ISA

#endif  // HYDRANT_KERNELS_CPU_ATTENTION_KEY_ROTATION_H_
