// A row of logits in groups of 128, each with its best token: whoever looks for the best n of a row reads the n groups whose own
// best are the best, and no others. Weights are counted in whole multiples of 2^-40 of the largest, so that sums are exact in any
// order.
#ifndef HYDRANT_KERNELS_CUDA_SAMPLING_LOGIT_ROW_CUH_
#define HYDRANT_KERNELS_CUDA_SAMPLING_LOGIT_ROW_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/runtime/element.cuh"
#include "kernels/cuda/runtime/select.cuh"

namespace hydrant::cuda {

// The weight of a token, of 2^40 at most, or of several.
using Mass = uint64_t;

constexpr int kOfLane = 4;                      // logits of a group that a lane reads
constexpr int64_t kGroupLogits = kOfLane * 32;  // a warp reads a group at once
constexpr int kGroupsAhead = 4;                 // groups whose logits a warp has on their way at once
constexpr float kUnit = 0x1p40f;                // of weights
constexpr uint64_t kBadKey = 0;                 // of a group that holds a NaN or +inf: better than any token's

// Integers in the order of the floats (no NaN); -0 counts as +0, as it does in a comparison of floats.
__device__ __forceinline__ uint32_t Ordered(float x) {
  const uint32_t bits = __float_as_uint(x + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// Better tokens are smaller: logit descending, then id ascending.
__device__ __forceinline__ uint64_t RankKey(float logit, int64_t id) {
  return (uint64_t{~Ordered(logit)} << 32) | static_cast<uint32_t>(id);
}
__device__ __forceinline__ int32_t IdOf(uint64_t key) { return static_cast<int32_t>(key & 0xffffffffu); }
__device__ __forceinline__ float LogitOf(uint64_t key) {
  const uint32_t ordered = ~static_cast<uint32_t>(key >> 32);
  return __uint_as_float((ordered & 0x80000000u) != 0 ? ordered & 0x7fffffffu : ~ordered);
}

// The weight of a logit in a draw: none below min_p.
struct Weigher {
  float largest, inverse_temperature, min_p;

  __device__ __forceinline__ Mass Of(float logit) const {
    const float weight = expf((logit - largest) * inverse_temperature);
    return weight < min_p ? 0 : static_cast<Mass>(__float2ull_rn(weight * kUnit));
  }
};

struct LogitRow {
  const float* logits;   // [vocab]
  const uint64_t* keys;  // [groups]: of the best token of each
  Mass* masses;          // [groups]: of the tokens of each; of rows that need them
  int64_t vocab;
  int64_t groups;
  bool wide;  // four logits may be read at once

  __device__ __forceinline__ uint64_t Key(int64_t id) const { return RankKey(logits[id], id); }

  // The lane's four logits of a group; beyond the vocabulary -inf.
  __device__ __forceinline__ void Load(int64_t group, float (&x)[kOfLane]) const {
    const int64_t id = FirstId(group);
    if (wide && id < vocab) {
      const float4 four = *reinterpret_cast<const float4*>(logits + id);
      x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
      return;
    }
    for (int j = 0; j < kOfLane; ++j) x[j] = id + j < vocab ? logits[id + j] : -INFINITY;
  }
  __device__ __forceinline__ static int64_t FirstId(int64_t group) {
    return group * kGroupLogits + threadIdx.x % kWarp * kOfLane;
  }

  // Calls visit(key) for every token of the groups whose best has a key up to `bound`; each by one thread of the block.
  template <typename Visit>
  __device__ void ForTokensOf(uint64_t bound, Visit visit) const {
    const int64_t lane = threadIdx.x % kWarp, step = blockDim.x;
    for (int64_t begin = threadIdx.x - lane; begin < groups; begin += step) {
      const bool wanted = begin + lane < groups && keys[begin + lane] <= bound;
      uint32_t left = __ballot_sync(kAllLanes, wanted ? 1 : 0);
      while (left != 0) {
        float x[kGroupsAhead][kOfLane];
        int64_t group[kGroupsAhead];
#pragma unroll
        for (int i = 0; i < kGroupsAhead; ++i) {
          group[i] = left != 0 ? begin + __ffs(static_cast<int>(left)) - 1 : -1;
          left &= left - 1;
          if (group[i] >= 0) Load(group[i], x[i]);
        }
#pragma unroll
        for (int i = 0; i < kGroupsAhead; ++i) {
          if (group[i] < 0) continue;
          const int64_t id = FirstId(group[i]);
#pragma unroll
          for (int j = 0; j < kOfLane; ++j) {
            if (id + j < vocab) visit(RankKey(x[i][j], id + j));
          }
        }
      }
    }
  }

  // The key of the n-th best token, by reading all of them again and again.
  __device__ uint64_t Nth(int64_t n) const {
    return SelectNth(vocab, static_cast<uint32_t>(n), [&](int64_t id) { return Key(id); });
  }
};

// The best key of a group, of which each lane has four logits.
__device__ __forceinline__ uint64_t BestOfGroup(const float (&x)[kOfLane], int64_t group) {
  uint32_t best = ~uint32_t{0}, at = 0;
  bool bad = false;
#pragma unroll
  for (int j = 0; j < kOfLane; ++j) {
    bad |= !(x[j] < INFINITY);
    const uint32_t own = ~Ordered(x[j]);
    if (own < best) {
      best = own;
      at = static_cast<uint32_t>(j);
    }
  }
  if (bad) best = 0;  // no number's
  const uint32_t of_warp = __reduce_min_sync(kAllLanes, best);
  const uint32_t place = best == of_warp ? threadIdx.x % kWarp * kOfLane + at : ~uint32_t{0};
  const uint32_t first = __reduce_min_sync(kAllLanes, place);
  if (of_warp == 0) return kBadKey;
  return (uint64_t{of_warp} << 32) | static_cast<uint32_t>(group * kGroupLogits + first);
}

// The sum over a warp of masses up to 2^42, by two instructions.
__device__ __forceinline__ Mass WarpSumOfMasses(Mass mass) {
  constexpr int kLowBits = 21;
  const uint32_t low = __reduce_add_sync(kAllLanes, static_cast<uint32_t>(mass) & ((1u << kLowBits) - 1));
  const uint32_t high = __reduce_add_sync(kAllLanes, static_cast<uint32_t>(mass >> kLowBits));
  return (Mass{high} << kLowBits) + low;
}

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_SAMPLING_LOGIT_ROW_CUH_
