// What the kernels over prompts have in common: the tiles of 16 slots in which queries and scores are counted.
#ifndef HYDRANT_KERNELS_CUDA_ATTENTION_PROMPT_TILES_CUH_
#define HYDRANT_KERNELS_CUDA_ATTENTION_PROMPT_TILES_CUH_

#include <cuda_runtime.h>

#include "kernels/cuda/runtime/step_view.h"

namespace hydrant::cuda {

inline constexpr int32_t kTile = kBlockSlots;

// Rows of a query tile that belong to the step: row r sits in slot 16 * tile + r.
struct TileRows {
  int32_t begin, end;  // rows of the tile; none: end <= begin
  int64_t token;       // of row `begin`
};

__device__ inline TileRows RowsOf(const DeviceRow& row, int32_t tile) {
  const int32_t begin = max(row.live - tile * kTile, 0);
  const int32_t end = min(row.live + row.token_count - tile * kTile, kTile);
  return {begin, end, int64_t{row.token_begin} + tile * kTile + begin - row.live};
}

// The first tile with a row that scores.
__device__ inline int32_t FirstScoredTile(const DeviceRow& row) {
  return (row.live + row.first_scored - row.position) / kTile;
}

// The factor of a prompt's row at `position` in its scores.
__device__ inline float RowWeight(const DeviceRow& row, int32_t position) {
  if (position < row.first_scored) return 0.0f;
  if (row.policy.decay == 1.0f) return 1.0f;
  return static_cast<float>(pow(static_cast<double>(row.policy.decay), row.prompt_length - 1 - position));
}

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_ATTENTION_PROMPT_TILES_CUH_
