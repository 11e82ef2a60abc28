// How kernels reach one head's cached keys, values, scores and positions.
#ifndef HYDRANT_KERNELS_CUDA_ATTENTION_CACHE_CUH_
#define HYDRANT_KERNELS_CUDA_ATTENTION_CACHE_CUH_

#include <cuda_runtime.h>

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

  // Elements to the slot's key or value.
  __device__ int64_t Element(int64_t slot) const {
    const int64_t first = kv.layout.tile_index(layer, blocks[slot / kBlockSlots], head) * kBlockSlots;
    return (first + slot % kBlockSlots) * kv.layout.head_dim;
  }
  // Index of the slot's score and position.
  __device__ int64_t ScoreAt(int64_t slot) const {
    return kv.layout.score_offset(layer, score_blocks[slot / kBlockSlots], head) + slot % kBlockSlots;
  }
};

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

// q [head_dim] times the key of a slot, which stands at `position`.
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

// 0 below kScoreMin; a NaN stays one.
__device__ inline float FlushScore(float score) { return score < kScoreMin ? 0.0f : score; }

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_ATTENTION_CACHE_CUH_
