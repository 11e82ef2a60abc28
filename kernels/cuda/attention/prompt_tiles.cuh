// What the kernels over prompts have in common: the tiles of 16 slots in which queries and scores are counted.
#ifndef HYDRANT_KERNELS_CUDA_ATTENTION_PROMPT_TILES_CUH_
#define HYDRANT_KERNELS_CUDA_ATTENTION_PROMPT_TILES_CUH_

#include <cuda_runtime.h>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/cache.cuh"
#include "kernels/cuda/runtime/async_copy.cuh"
#include "kernels/cuda/runtime/element.cuh"
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

// Which of a prompt's rows add to the sums of their keys, and how.
struct Additions {
  int32_t first;  // logical position of the first row that does
  float decay;
  int32_t heads;  // of a group, from its first on
  float mean;     // factor of their sum
  bool square;

  // `pins`: of what pins are chosen by, instead of scores.
  __device__ Additions(const DeviceRow& row, int32_t group, bool pins)
      : first(pins ? row.first_pinning : row.first_scored),
        decay(pins ? row.policy.pin_decay : row.policy.prompt_decay()),
        heads(pins ? group : ScoredHeads(row.policy, group)),
        mean(pins ? 1.0f : HeadFactor(row.policy, group)),
        square(pins || row.policy.square) {}

  __device__ int32_t FirstTile(const DeviceRow& row) const { return (row.live + first - row.position) / kTile; }
  // The factor of the row at `position`.
  __device__ float RowWeight(const DeviceRow& row, int32_t position) const {
    if (position < first) return 0.0f;
    if (decay == 1.0f) return 1.0f;
    return static_cast<float>(pow(static_cast<double>(decay), row.prompt_length - 1 - position));
  }
};

// Where the sums of a row's slots lie that its pins are chosen by.
__device__ inline float* PinSums(const DeviceRow& row, int32_t kv_head, float* scratch) {
  return scratch + row.pin_sums + int64_t{kv_head} * WholeBlocks(row.live_after);
}

// Which tile and head a warp has that attends to a prompt on tensor cores.
struct WarpPlace {
  int32_t tile;
  int32_t query_head;
  int32_t kv_head;
};

// Blocks of a span: `group` per KV head. `heads` of a group are in a block, kSpanTiles / heads tiles with each.
__device__ inline WarpPlace PlaceOf(const PromptSpan& span, int32_t block, int32_t warp, int32_t group, int32_t heads) {
  const int32_t parts = group / heads;
  const int32_t of_group = block % group;
  const int32_t tiles = kSpanTiles / heads;
  return {span.first_tile + of_group / parts * tiles + warp / heads,
          block / group * group + of_group % parts * heads + warp % heads, block / group};
}

// The largest power of two that divides `group`, at most kSpanTiles.
inline int32_t HeadsOfBlock(int32_t group) {
  int32_t heads = 1;
  while (heads < kSpanTiles && group % (heads * 2) == 0) heads *= 2;
  return heads;
}

// How threads copy keys or values of a stage of kSlots slots to shared memory: thread i has chunk i % kChunks, 16 bytes, of every kRows-th
// slot. Block ids come from a register of each lane's, loaded long before they are wanted.
template <int kDim, int kSlots, int kThreads>
struct StageCopies {
  static constexpr int kChunks = kDim / 8, kRows = kThreads / kChunks, kPasses = (kSlots + kRows - 1) / kRows;
  static constexpr int kBlocks = kSlots / kBlockSlots;

  const int32_t* blocks;
  int32_t last_block;  // of the table
  int32_t live;        // slots from here on are zeros: memory may hold anything, and a weight of 0 would not undo a NaN
  const char* keys;    // this thread's part of the first slot that it copies of a cache's block 0
  const char* values;
  uint32_t block_bytes;  // from a block of the cache to the next
  int row, chunk;

  __device__ StageCopies(const HeadCache& cache, int32_t live_slots)
      : blocks(cache.blocks),
        last_block((live_slots - 1) / kBlockSlots),
        live(live_slots),
        block_bytes(static_cast<uint32_t>(cache.kv.layout.tile_offset(0, 1, 0))),
        row(static_cast<int>(threadIdx.x) / kChunks),
        chunk(static_cast<int>(threadIdx.x) % kChunks) {
    const int64_t in_block = cache.kv.layout.tile_offset(cache.layer, 0, cache.head) +
                             ((kRows % kBlockSlots == 0 ? row % kBlockSlots * kDim : 0) + chunk * 8) * 2;
    keys = static_cast<const char*>(cache.kv.k) + in_block;
    values = static_cast<const char*>(cache.kv.v) + in_block;
  }
  // This lane's block id of the stage, for Copy.
  __device__ int32_t Ids(int32_t stage) const {
    return blocks[min(stage * kBlocks + static_cast<int32_t>(threadIdx.x) % kBlocks, last_block)];
  }
  // at(row, chunk): where a slot's chunk goes. `tiles`: keys or values.
  template <typename At>
  __device__ __forceinline__ void Copy(const char* tiles, int32_t stage, int32_t ids, At&& at) const {
    const int32_t present = live - stage * kSlots;
    if (present >= kSlots) {
      CopyRows(tiles, ids, kSlots, at);
    } else {
      CopyRows(tiles, ids, present, at);
    }
  }

 private:
  template <typename At>
  __device__ __forceinline__ void CopyRows(const char* tiles, int32_t ids, int32_t present, At&& at) const {
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
      const int r = pass * kRows + row;
      // Where a pass has whole blocks a thread's row of the block is always the same, and counted already.
      const int own = kRows % kBlockSlots == 0 ? pass * (kRows / kBlockSlots) + row / kBlockSlots : r / kBlockSlots;
      const int of_block = kRows % kBlockSlots == 0 ? 0 : r % kBlockSlots;
      const auto block = static_cast<uint32_t>(__shfl_sync(kAllLanes, ids, own % kBlocks));
      if (kThreads % kChunks != 0 && row >= kRows) continue;
      if (kSlots % kRows != 0 && r >= kSlots) continue;
      CopyAsync16(at(r, chunk), tiles + uint64_t{block} * block_bytes + of_block * kDim * 2, r < present);
    }
  }
};

// Whether kernels on products of warpgroups can take these: the code for sm_90a is there, and the device runs it.
inline bool TakesWarpgroups(const AttentionShape& shape, const PromptSpans& spans) {
#if defined(HYDRANT_SM90A) || !defined(__CUDACC__)
  return shape.warpgroups && !spans.rolls && shape.scale > 0.0f;
#else
  static_cast<void>(shape), static_cast<void>(spans);
  return false;
#endif
}

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_ATTENTION_PROMPT_TILES_CUH_
