// Attention of prompts on Hopper's products of warpgroups, for 16-bit caches of 64 or 128 dimensions that need no rotation.
//
// Rows and their order of keys are those of attention_prefill_mma.cu: a warp has 16 queries of one head. While a stage's keys
// are multiplied with the queries, the weights of the stage before are multiplied with its values; while the tensor cores do
// that for one warpgroup, the other one turns logits into weights.
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/cache.cuh"
#include "kernels/cuda/attention/mma_cache.h"
#include "kernels/cuda/attention/prompt_softmax.cuh"
#include "kernels/cuda/attention/prompt_tiles.cuh"
#include "kernels/cuda/runtime/async_copy.cuh"
#include "kernels/cuda/runtime/element.cuh"
#include "kernels/cuda/runtime/fast_math.cuh"
#include "kernels/cuda/runtime/launch.h"
#include "kernels/cuda/runtime/overlap.cuh"
#include "kernels/cuda/runtime/shared_memory.cuh"
#include "kernels/cuda/runtime/warpgroup.cuh"

namespace hydrant::cuda {
namespace {

constexpr int kWarps = kSpanTiles;
constexpr uint32_t kThreads = kWarps * kWarp;

// A warp's 16 queries: rows g and g + 8 in a lane; rows outside [begin, end) are zeros.
template <typename T, int kDim>
__device__ __forceinline__ void LoadQueries(const float* row0, int64_t width, const TileRows& rows, int g, int t,
                                            uint32_t (&words)[kDim / 16][4]) {
#pragma unroll
  for (int i = 0; i < kDim / 4; ++i) {
    const int s = i / 4, reg = i % 4;
    const int r = g + reg % 2 * 8, dim = s * 16 + reg / 2 * 8 + t * 2;
    const float2 pair = r >= rows.begin && r < rows.end ? *reinterpret_cast<const float2*>(row0 + r * width + dim)
                                                        : make_float2(0.0f, 0.0f);
    words[s][reg] = RoundPair<T>(pair.x, pair.y);
  }
}

template <typename T, int kDim, int kSlots>
__global__ void __launch_bounds__(kThreads, 1)
    PromptWarpgroupKernel(StepView step, AttentionShape shape, int32_t heads, const PromptSpan* spans, float* sums,
                          KvCacheView kv) {
  AwaitEarlier();
  constexpr int kStage = kSlots * kDim;
  constexpr uint32_t kPanelBytes = kSlots * kPanelColumns * sizeof(T);
  T* const keys = reinterpret_cast<T*>(SharedMemory());  // [2][kDim / 64] panels of kSlots rows
  T* const values = keys + 2 * kStage;                   // the same
  const PromptSpan span = spans[blockIdx.x];
  const DeviceRow& row = step.rows[span.row];
  const int32_t group = shape.query_heads / kv.layout.kv_heads;
  const int warp = static_cast<int>(threadIdx.x / kWarp), lane = static_cast<int>(threadIdx.x % kWarp);
  const int g = lane / 4, t = lane % 4;
  const WarpPlace first = PlaceOf(span, static_cast<int32_t>(blockIdx.y), 0, group, heads);  // the first warp's
  const WarpPlace place = PlaceOf(span, static_cast<int32_t>(blockIdx.y), warp, group, heads);
  const int32_t live = row.live_after;
  const int32_t last_tile = min(first.tile + kWarps / heads - 1, (live - 1) / kTile);
  if (last_tile < max(first.tile, row.live / kTile)) return;
  const HeadCache cache = CacheOf(step, row, kv, shape.layer, first.kv_head);

  const TileRows rows = RowsOf(row, place.tile);
  const int64_t width = int64_t{shape.query_heads + 2 * kv.layout.kv_heads} * kDim;
  uint32_t query[kDim / 16][4];
  // The address is never that of a row that is not there, once r >= begin.
  const float* row0 = shape.qkv + (rows.token - rows.begin) * width + int64_t{place.query_head} * kDim;
  LoadQueries<T, kDim>(row0, width, rows, g, t, query);

  const int32_t stages = ((last_tile + 1) * kTile + kSlots - 1) / kSlots;
  // What the block's first query does not see, nobody does.
  const int32_t block_seen = FirstSeen(row, shape.window, max(first.tile * kTile - row.live, 0));
  const int32_t first_stage = row.in_order() ? max(block_seen, 0) / kSlots : 0;
  const Hidden hidden{min(place.tile, (row.live_after - 1) / kTile) * kTile,
                      FirstSeen(row, shape.window, place.tile * kTile - row.live), row.in_order()};
  const float scale = shape.scale * kLog2E;

  RowSums gathered;
  float out[kDim / 8][4] = {};
  uint32_t weights[kSlots / 16][4];
  const auto add_values = [&](int32_t stage) {
    const PanelOperand b = PanelOperand::ElementsAsColumns(values + stage % 2 * kStage, kPanelBytes);
#pragma unroll
    for (int s = 0; s < kSlots / 16; ++s) WarpgroupMultiply<T, true>(out, weights[s], b + s * 16 * 128, true);
    CommitProducts();
  };
  float c[kSlots / 8][4];
  const auto multiply_keys = [&](int32_t stage) {
    const PanelOperand b = PanelOperand::RowsAsColumns(keys + stage % 2 * kStage);
#pragma unroll
    for (int s = 0; s < kDim / 16; ++s) {
      WarpgroupMultiply<T, false>(c, query[s], b + s / 4 * static_cast<int>(kPanelBytes) + s % 4 * 32, s > 0);
    }
    CommitProducts();
  };
  const StageCopies<kDim, kSlots, static_cast<int>(kThreads)> copies(cache, live);
  const auto copy = [&](const char* tiles, int32_t stage, int32_t ids, T* panels) {
    copies.Copy(tiles, stage, ids, [panels](int r, int chunk) {
      return panels + chunk / 8 * (kSlots * kPanelColumns) + InPanel(r, chunk % 8);
    });
  };
  // The copies up to now are there for all, and everybody is done with what the next ones overwrite.
  const auto arrive = [] {
    WaitForCopies<0>();
    ShowToProducts();
    __syncthreads();
  };
  int32_t ids = copies.Ids(first_stage), next_ids = copies.Ids(first_stage + 1);
  const auto copy_next = [&](int32_t stage) {
    copy(copies.values, stage, ids, values + stage % 2 * kStage);
    if (stage + 1 < stages) copy(copies.keys, stage + 1, next_ids, keys + (stage + 1) % 2 * kStage);
    CommitCopies();
    ids = next_ids;
    next_ids = copies.Ids(stage + 2);
  };
  const auto weigh = [&](int32_t stage, float(&rescale)[2]) {
    HoldRegisters(c);
    if (shape.cap > 0.0f) Cap<kSlots>(shape.cap, c);
    Hide<kSlots>(hidden, cache, stage * kSlots, g, t, c);
    ToWeights<kSlots>(scale, gathered, c, rescale);
  };
  float rescale[2];
  copy(copies.keys, first_stage, ids, keys + first_stage % 2 * kStage);
  CommitCopies();
  arrive();
  BeginProducts();
  multiply_keys(first_stage);
  copy_next(first_stage);
  WaitForProducts<0>();
  weigh(first_stage, rescale);
  PackWeights<T, kSlots>(c, weights);
  // In a turn: weights of this stage, and the values of the one before.
  for (int32_t stage = first_stage + 1; stage < stages; ++stage) {
    arrive();
    BeginProducts();
    multiply_keys(stage);
    add_values(stage - 1);
    copy_next(stage);
    WaitForProducts<1>();
    weigh(stage, rescale);
    WaitForProducts<0>();
    HoldRegisters(out);
    Rescale<kDim>(rescale, out);
    PackWeights<T, kSlots>(c, weights);
  }
  arrive();
  BeginProducts();
  add_values(stages - 1);
  WaitForProducts<0>();
  HoldRegisters(out);
  StoreRows<kDim>(shape, rows, place.query_head, scale, gathered, out, g, t, sums);
}

}  // namespace

bool LaunchPromptAttentionWarpgroup(cudaStream_t stream, const StepView& step, const AttentionShape& shape,
                                    const PromptSpans& spans, float* sums, const KvCacheView& kv) {
  const dim3 blocks(static_cast<uint32_t>(spans.count), static_cast<uint32_t>(shape.query_heads));
  const int32_t heads = HeadsOfBlock(shape.query_heads / kv.layout.kv_heads);
  return TakesWarpgroups(shape, spans) && WithWarpgroupCache(kv.layout, [&](auto element, auto dim) {
           using T = decltype(element);
           constexpr int kDim = dim(), kSlots = 128;
           LaunchShared(stream, blocks, kThreads, size_t{4} * kSlots * kDim * sizeof(T),
                        PromptWarpgroupKernel<T, kDim, kSlots>, step, shape, heads, spans.spans, sums, kv);
         });
}

}  // namespace hydrant::cuda
