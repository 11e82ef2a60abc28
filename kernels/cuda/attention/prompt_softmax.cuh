// What a warp does with the products of 16 queries and a stage of keys until they are weights, and with what it has gathered in the
// end: the same for mma.sync and for warpgroups, whose lanes hold the same elements.
//
// With g = lane / 4 and t = lane % 4, c[e] has the products of row g (elements 0, 1) and g + 8 with slots 8e + 2t, 8e + 2t + 1 of the
// stage; out[n] elements 8n + 2t, 8n + 2t + 1 of the two rows.
#ifndef HYDRANT_KERNELS_CUDA_ATTENTION_PROMPT_SOFTMAX_CUH_
#define HYDRANT_KERNELS_CUDA_ATTENTION_PROMPT_SOFTMAX_CUH_

#include <cuda_runtime.h>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/cache.cuh"
#include "kernels/cuda/attention/prompt_tiles.cuh"
#include "kernels/cuda/runtime/element.cuh"
#include "kernels/cuda/runtime/fast_math.cuh"

namespace hydrant::cuda {

// What a lane keeps of rows g and g + 8 beside the output.
struct RowSums {
  float largest[2] = {-INFINITY, -INFINITY};  // product of query and key
  float total[2] = {};                        // of the weights of this lane's slots
};

// What a warp's rows do not see of a stage.
struct Hidden {
  int32_t own;         // slot of row 0; at most that of the row's last tile, so that only its blocks are looked at
  int32_t first_seen;  // row r does not see positions below first_seen + r
  bool in_order;       // positions are slots
};

// Hides products with what rows g and g + 8 do not see.
template <int kSlots>
__device__ __forceinline__ void Hide(const Hidden& hidden, const HeadCache& cache, int32_t first_slot, int g, int t,
                                     float (&c)[kSlots / 8][4]) {
  const bool in_window = hidden.first_seen + kTile - 1 <= (hidden.in_order ? first_slot : 0);
  if (in_window && first_slot + kSlots - 1 <= hidden.own) return;
#pragma unroll
  for (int e = 0; e < kSlots / 8; ++e) {
    const int32_t slot = first_slot + e * 8 + t * 2;
    int32_t position[2] = {slot, slot + 1};
    if (!in_window && !hidden.in_order) {
      const int32_t* from = cache.kv.position + cache.ScoreAt(min(slot, hidden.own + kTile - 2));
      position[0] = from[0];
      position[1] = from[1];
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int r = g + i / 2 * 8;
      const bool behind = position[i % 2] < hidden.first_seen + r;
      if (slot + i % 2 > hidden.own + r || (behind && !in_window)) c[e][i] = -INFINITY;
    }
  }
}

template <int kSlots>
__device__ __forceinline__ void Cap(float cap, float (&c)[kSlots / 8][4]) {
#pragma unroll
  for (int i = 0; i < kSlots / 2; ++i) c[i / 4][i % 4] = CapProduct(c[i / 4][i % 4], cap);
}

// Products become weights, relative to the largest product so far; rescale[] is for what was added before. `scale`, above 0, is
// to units of log2.
template <int kSlots>
__device__ __forceinline__ void ToWeights(float scale, RowSums& sums, float (&c)[kSlots / 8][4], float (&rescale)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float most[2] = {sums.largest[half], -INFINITY};
#pragma unroll
    for (int i = 0; i < kSlots / 4; ++i) most[i % 2] = fmaxf(most[i % 2], c[i / 2][half * 2 + i % 2]);
    const float all = WarpReduce<4>(fmaxf(most[0], most[1]), LargestNumber());
    const float shift = Shift(all) * scale;
    float sum[2] = {};
#pragma unroll
    for (int i = 0; i < kSlots / 4; ++i) {
      float& weight = c[i / 2][half * 2 + i % 2];
      weight = FastExp2(fmaf(weight, scale, -shift));
      sum[i % 2] += weight;
    }
    rescale[half] = FastExp2(fmaf(sums.largest[half], scale, -shift));
    sums.total[half] = fmaf(sums.total[half], rescale[half], sum[0] + sum[1]);
    sums.largest[half] = all;
  }
}

// The weights as a product wants its first operand: of 16 slots in weights[i].
template <typename T, int kSlots>
__device__ __forceinline__ void PackWeights(const float (&c)[kSlots / 8][4], uint32_t (&weights)[kSlots / 16][4]) {
#pragma unroll
  for (int i = 0; i < kSlots / 4; ++i) {
    const int eight = i / 2, half = i % 2;
    weights[eight / 2][eight % 2 * 2 + half] = RoundPair<T>(c[eight][half * 2], c[eight][half * 2 + 1]);
  }
}

template <int kDim>
__device__ __forceinline__ void Rescale(const float (&rescale)[2], float (&out)[kDim / 8][4]) {
  // Late in a long prompt the largest product seldom changes; what is skipped are products with 1.
  if (__ballot_sync(kAllLanes, rescale[0] != 1.0f || rescale[1] != 1.0f) == 0) return;
#pragma unroll
  for (int i = 0; i < kDim / 2; ++i) out[i / 4][i % 4] *= rescale[i % 4 / 2];
}

// The rows of the tile that are of the step, and the logarithms of their sums (LaunchPromptAttention).
template <int kDim>
__device__ __forceinline__ void StoreRows(const AttentionShape& shape, const TileRows& rows, int32_t query_head,
                                          float scale, const RowSums& row_sums, const float (&out)[kDim / 8][4], int g,
                                          int t, float* sums) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float total = WarpReduce<4>(row_sums.total[half], Sum());
    const int r = g + half * 8;
    if (r < rows.begin || r >= rows.end) continue;
    const int64_t token = rows.token + r - rows.begin;
    const float largest = row_sums.largest[half] * scale;
    total += SinkShare(shape.sinks, query_head, largest);
    const float inverse = 1.0f / total;
    if (t == 0) sums[token * shape.query_heads + query_head] = largest + log2f(total);
    const int64_t to = (token * shape.query_heads + query_head) * kDim;
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
      StorePair(shape.out, to + n * 8 + t * 2, out[n][half * 2] * inverse, out[n][half * 2 + 1] * inverse);
    }
  }
}

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_ATTENTION_PROMPT_SOFTMAX_CUH_
