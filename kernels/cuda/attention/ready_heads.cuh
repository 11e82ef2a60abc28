// Staged keys and values that are not as a product on tensor cores wants them: codes of int8 become bf16, which holds them exactly, and
// keys without rotation (of rolling policies) are turned to their positions.
#ifndef HYDRANT_KERNELS_CUDA_ATTENTION_READY_HEADS_CUH_
#define HYDRANT_KERNELS_CUDA_ATTENTION_READY_HEADS_CUH_

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/runtime/element.cuh"

namespace hydrant::cuda {

// What elements of a cache are multiplied as.
template <typename Stored>
using ReadyElement = std::conditional_t<std::is_same_v<Stored, int8_t>, __nv_bfloat16, Stored>;

// Elements that TurnHead takes at a time; a rotation of dims that are no multiple of two such is for other kernels.
inline constexpr int kTurnedAtOnce = 4;
inline bool CanTurn(const RopeView& rope) { return rope.dims % (2 * kTurnedAtOnce) == 0; }

// x as two numbers of type T.
template <typename T>
struct Halves {
  T high, low;
  __device__ explicit Halves(float x) : high(FromFloat<T>(x)), low(FromFloat<T>(x - ToFloat(high))) {}
};

// Two neighbouring elements, their high parts in one register, their low ones in another.
template <typename T>
__device__ __forceinline__ void PackHalves(float first, float second, uint32_t& high, uint32_t& low) {
  const Halves<T> a(first), b(second);
  high = Pack(a.high, b.high);
  low = Pack(a.low, b.low);
}

// Sixteen codes as they are, without their scale. `to` begins at a multiple of 16 bytes.
__device__ __forceinline__ void ExpandCodes(const uint4& codes, __nv_bfloat16* to) {
  const uint32_t words[4] = {codes.x, codes.y, codes.z, codes.w};
  uint32_t pairs[8];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    pairs[i * 2] = PairOfBytes((words[i] & 0xffu) | (words[i] & 0xff00u) << 8);
    pairs[i * 2 + 1] = PairOfBytes((words[i] >> 16 & 0xffu) | (words[i] >> 8 & 0xff0000u));
  }
  reinterpret_cast<uint4*>(to)[0] = uint4{pairs[0], pairs[1], pairs[2], pairs[3]};
  reinterpret_cast<uint4*>(to)[1] = uint4{pairs[4], pairs[5], pairs[6], pairs[7]};
}

template <typename T>
__device__ __forceinline__ float4 ReadFour(const T* from) {
  const auto words = *reinterpret_cast<const uint2*>(from);
  T four[4];
  memcpy(four, &words, sizeof(four));
  return make_float4(ToFloat(four[0]), ToFloat(four[1]), ToFloat(four[2]), ToFloat(four[3]));
}

// Turns a key to `position` in its place. Two lanes do it, `own` of them 0 or 1. Elements are rounded to T, or (kSplits) in two numbers,
// of which `low` gets the second, as fp32 nearly has them (2^-17). REQUIRES: CanTurn(rope).
template <typename T, int kDim, bool kSplits>
__device__ __forceinline__ void TurnHead(const RopeView& rope, int32_t position, int own, T* key,
                                         [[maybe_unused]] T* low) {
  const int half = rope.dims / 2;
  const float* cosines = rope.table + int64_t{position} * rope.dims;
  const auto store = [&](float x0, float x1, float x2, float x3, int at) {
    uint2 highs, lows;
    PackHalves<T>(x0, x1, highs.x, lows.x);
    PackHalves<T>(x2, x3, highs.y, lows.y);
    *reinterpret_cast<uint2*>(key + at) = highs;
    if constexpr (kSplits) *reinterpret_cast<uint2*>(low + at) = lows;
  };
#pragma unroll 2
  for (int i = own * kTurnedAtOnce; i < half; i += 2 * kTurnedAtOnce) {
    const float4 c = *reinterpret_cast<const float4*>(cosines + i);
    const float4 s = *reinterpret_cast<const float4*>(cosines + half + i);
    const float4 a = ReadFour(key + i), b = ReadFour(key + half + i);
    store(a.x * c.x - b.x * s.x, a.y * c.y - b.y * s.y, a.z * c.z - b.z * s.z, a.w * c.w - b.w * s.w, i);
    store(b.x * c.x + a.x * s.x, b.y * c.y + a.y * s.y, b.z * c.z + a.z * s.z, b.w * c.w + a.w * s.w, half + i);
  }
  if constexpr (kSplits) {
    for (int i = rope.dims + own * kTurnedAtOnce; i < kDim; i += 2 * kTurnedAtOnce) {
      *reinterpret_cast<uint2*>(low + i) = make_uint2(0, 0);
    }
  }
}

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_ATTENTION_READY_HEADS_CUH_
