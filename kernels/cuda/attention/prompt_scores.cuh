// What the kernels that score prompts on tensor cores have in common: a warp has a tile of keys, which it keeps in registers while
// queries pass by, and is alone with their scores. With g = lane / 4 and t = lane % 4 a lane has keys g and g + 8.
#ifndef HYDRANT_KERNELS_CUDA_ATTENTION_PROMPT_SCORES_CUH_
#define HYDRANT_KERNELS_CUDA_ATTENTION_PROMPT_SCORES_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/attention/cache.cuh"
#include "kernels/cuda/attention/prompt_tiles.cuh"
#include "kernels/cuda/runtime/element.cuh"
#include "kernels/cuda/runtime/step_view.h"

namespace hydrant::cuda {

// The warp's keys as the product wants its first operand: rows g and g + 8 in a lane, zeros after the last token.
template <typename T, int kDim>
__device__ __forceinline__ void LoadKeys(const HeadCache& cache, int32_t tile, int32_t live, int g, int t,
                                         uint32_t (&key)[kDim / 16][4]) {
  const T* tile_keys = static_cast<const T*>(cache.kv.k) + (tile * kTile < live ? cache.Element(tile * kTile) : 0);
#pragma unroll
  for (int i = 0; i < kDim / 4; ++i) {
    const int s = i / 4, reg = i % 4, of_tile = g + reg % 2 * 8;
    key[s][reg] = tile * kTile + of_tile < live
                      ? *reinterpret_cast<const uint32_t*>(tile_keys + of_tile * kDim + s * 16 + reg / 2 * 8 + t * 2)
                      : 0;
  }
}

// Scores of the warp's keys, the same in all four lanes that have a key.
struct KeyScores {
  float score[2] = {};
  int32_t position[2] = {};
  bool holds[2] = {};     // whether a token is there
  const bool snapshots;   // they are scores
  float* sums = nullptr;  // key g's place

  // `pin_sums`: of the row's slots, which begin at 0 and are summed up instead of scores (PinSums); or null.
  __device__ __forceinline__ KeyScores(const HeadCache& cache, int32_t tile, int32_t live, int g,
                                       float* pin_sums = nullptr)
      : snapshots(pin_sums == nullptr) {
    if (tile * kTile >= live) return;
    const int64_t at = cache.ScoreAt(int64_t{tile} * kTile) + g;
    sums = pin_sums != nullptr ? pin_sums + tile * kTile + g : cache.kv.score + at;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      holds[half] = tile * kTile + g + half * 8 < live;
      // A row of a prompt ends pins, which are signs.
      if (holds[half] && pin_sums == nullptr) score[half] = WithoutPin(cache.kv.score[at + half * 8]);
      if (holds[half]) position[half] = cache.kv.position[at + half * 8];
    }
  }

  // Adds what the queries of a tile, which have all passed by, give the keys: part[i] is of keys g (i < 4) and g + 8, of rows 2t, 2t + 1,
  // 2t + 8, 2t + 9, and begins anew. `weights` are the rows' (RowWeight), `own_tile` the keys' tile. Snapshots after the tile are taken, of scores.
  __device__ __forceinline__ void AddTile(const StepView& step, const DeviceRow& row, const HeadCache& cache,
                                          int32_t window, int32_t own_tile, int32_t tile, const float* weights,
                                          float mean, int g, int t, float (&part)[8]) {
    const int32_t first_seen = FirstSeen(row, window, tile * kTile - row.live);
    const int32_t last_seen_from =
        first_seen + min(row.live_after - tile * kTile, kTile) - 1;  // by the tile's last row
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float column = part[half * 4] * weights[t * 2] + part[half * 4 + 1] * weights[t * 2 + 1] +
                     part[half * 4 + 2] * weights[t * 2 + 8] + part[half * 4 + 3] * weights[t * 2 + 9];
      column = WarpReduce<4>(column, Sum());
      score[half] = position[half] < last_seen_from ? 0.0f : FlushScore(fmaf(column, mean, score[half]));
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) part[i] = 0.0f;
    for (int32_t i = 0; i < (snapshots ? row.snapshots : 0); ++i) {
      const StepSnapshot& snapshot = step.snapshots[row.first_snapshot + i];
      if (snapshot.slots != (tile + 1) * kTile || own_tile * kTile >= snapshot.slots || t != 0) continue;
      const int32_t to = step.tables[snapshot.score_blocks + own_tile];
      float* scores = cache.kv.score + cache.kv.layout.score_offset(cache.layer, to, cache.head) + g;
      scores[0] = score[0];
      scores[8] = score[1];
    }
  }

  __device__ __forceinline__ void Store(int t) const {
    if (t != 0) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (holds[half]) sums[half * 8] = score[half];
    }
  }
};

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_ATTENTION_PROMPT_SCORES_CUH_
