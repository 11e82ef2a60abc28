// How kernels reach one head's cached keys, values, scores and positions.
#ifndef HYDRANT_KERNELS_CUDA_ATTENTION_CACHE_CUH_
#define HYDRANT_KERNELS_CUDA_ATTENTION_CACHE_CUH_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/runtime/element.cuh"
#include "kernels/cuda/runtime/step_view.h"

namespace hydrant::cuda {

inline constexpr float kLog2E = 1.4426950408889634f;

// One (sequence, layer, KV head).
struct HeadCache {
  const KvCacheView& kv;
  const int32_t* blocks;
  const int32_t* score_blocks;
  int32_t layer;
  int32_t head;

  // The slot's key or value in `tiles`, KvCacheView::k or v, of elements of type T: int8_t of KvType::kInt8.
  template <typename T>
  __device__ T* At(void* tiles, int64_t slot) const {
    if constexpr (std::is_same_v<T, int8_t>) {
      constexpr auto kScales = static_cast<int64_t>(KvScaleBytes(KvType::kInt8));
      return reinterpret_cast<T*>(Tile(tiles, slot)) + kScales + slot % kBlockSlots * kv.layout.head_dim;
    } else {
      return static_cast<T*>(tiles) + Element(slot);
    }
  }
  // What its elements are multiplied with, and where that lies if T is int8_t.
  template <typename T>
  __device__ float Scale(void* tiles, int64_t slot) const {
    if constexpr (std::is_same_v<T, int8_t>) {
      return *ScaleAt(tiles, slot);
    } else {
      return 1.0f;
    }
  }
  __device__ float* ScaleAt(void* tiles, int64_t slot) const {
    return reinterpret_cast<float*>(Tile(tiles, slot)) + slot % kBlockSlots;
  }
  // Elements to the slot's key or value, of a type without scales.
  __device__ int64_t Element(int64_t slot) const {
    const int64_t first = kv.layout.tile_index(layer, blocks[slot / kBlockSlots], head) * kBlockSlots;
    return (first + slot % kBlockSlots) * kv.layout.head_dim;
  }
  // Index of the slot's score and position.
  __device__ int64_t ScoreAt(int64_t slot) const {
    return kv.layout.score_offset(layer, score_blocks[slot / kBlockSlots], head) + slot % kBlockSlots;
  }

 private:
  // The slot's tile, of KvType::kInt8.
  __device__ std::byte* Tile(void* tiles, int64_t slot) const {
    const auto bytes = static_cast<int64_t>(KvTileBytes(KvType::kInt8, kv.layout.head_dim));
    return static_cast<std::byte*>(tiles) + kv.layout.tile_index(layer, blocks[slot / kBlockSlots], head) * bytes;
  }
};

// Calls function(T{}) with the type of a cache's elements.
template <typename Function>
void WithKvElement(KvType type, Function&& function) {
  if (type == KvType::kInt8) return function(int8_t{});
  WithElement(DTypeOf(type), function);
}

__device__ inline HeadCache CacheOf(const StepView& step, const DeviceRow& row, const KvCacheView& kv, int32_t layer,
                                    int32_t head) {
  return {kv, step.tables + row.tables, step.tables + row.score_blocks, layer, head};
}

// True if the row comes after a stop id: it must change nothing in the cache.
__device__ inline bool LeftOut(const StepView& step, const DeviceRow& row) {
  return step.token_ids[row.token_begin] == kSampledId && step.sampled_ids[row.state_row] == kNoNextId;
}

// The rotation of a row's keys as they are read: only rolling policies cache them without.
__device__ inline RopeView KeyRope(const DeviceRow& row, const RopeView& rope) {
  return row.policy.rolling ? rope : RopeView();
}

// The lowest position that a row's token `i` sees; below 1: it sees all.
__device__ inline int32_t FirstSeen(const DeviceRow& row, int32_t window, int32_t i) {
  return row.first_position + i - (window - 1);
}

// The shift of exponents whose largest is `most`: none where nothing is seen yet, so that the weights of hidden slots are 0
// there, too.
__device__ inline float Shift(float most) { return most == -INFINITY ? 0.0f : most; }

// What a sink adds to the sum of exponentials of a row whose largest logit, in units of log2, is `largest`. Infinity if it
// outweighs the slots by 2^128, which then have the probability 0.
__device__ inline float SinkShare(const float* sinks, int32_t query_head, float largest) {
  return sinks == nullptr ? 0.0f : exp2f(fmaf(sinks[query_head], kLog2E, -largest));
}

// q [head_dim] times the key of a slot, which stands at `position`, before its scale.
template <typename T>
__device__ inline float Dot(const float* q, const T* key, int32_t head_dim, const RopeView& rope, int32_t position) {
  float sum = 0.0f;
  int32_t dim = 0;
  if (rope.table != nullptr) {
    const int32_t half = rope.dims / 2;
    const float* cosine = rope.table + int64_t{position} * rope.dims;
    const float* sine = cosine + half;
    for (int32_t i = 0; i < half; ++i) {
      const float a = ToFloat(key[i]), b = ToFloat(key[i + half]);
      sum = fmaf(q[i], a * cosine[i] - b * sine[i], sum);
      sum = fmaf(q[i + half], b * cosine[i] + a * sine[i], sum);
    }
    dim = rope.dims;
  }
  for (; dim < head_dim; ++dim) sum = fmaf(q[dim], ToFloat(key[dim]), sum);
  return sum;
}

// A product x of query and key under AttentionShape::cap, cap * tanh(x / cap), as 1 - 2 / (e^2y + 1): tanhf wants more registers.
__device__ __forceinline__ float CapProduct(float x, float cap) {
  return cap - __fdividef(2.0f * cap, exp2f(__fdividef(x, cap) * (2.0f * kLog2E)) + 1.0f);
}

// Query heads of a group, from its first on, whose probabilities a score is made of, and the factor of their sum.
__device__ inline int32_t ScoredHeads(const EvictionPolicy& policy, int32_t group) {
  return policy.gqa_reduce == GqaReduce::kFirst ? 1 : group;
}
__device__ inline float HeadFactor(const EvictionPolicy& policy, int32_t group) {
  return policy.gqa_reduce == GqaReduce::kMean ? 1.0f / static_cast<float>(group) : 1.0f;
}

// A score without and with the sign that pins its slot. By its bits, for arithmetic may give a NaN any sign.
__device__ inline float WithoutPin(float score) { return __uint_as_float(__float_as_uint(score) & 0x7fffffffu); }
__device__ inline float WithPin(float score) { return __uint_as_float(__float_as_uint(score) | 0x80000000u); }
__device__ inline bool IsPinned(float score) { return __float_as_uint(score) >> 31 != 0; }

// 0 below kScoreMin; a NaN stays one. Not pinned.
__device__ inline float FlushScore(float score) { return WithoutPin(score < kScoreMin ? 0.0f : score); }

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_ATTENTION_CACHE_CUH_
