// Prompt scores on Hopper's products of warpgroups, for 16-bit caches of 64 or 128 dimensions that need no rotation.
//
// As in attention_prefill_mma.cu a warp keeps a tile of keys in registers while queries pass by, and adds to their scores tile by
// tile of queries. Sixteen warps share the queries, which are read as they are: each is rounded once for 256 keys.
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/cache.cuh"
#include "kernels/cuda/attention/mma_cache.h"
#include "kernels/cuda/attention/prompt_scores.cuh"
#include "kernels/cuda/attention/prompt_tiles.cuh"
#include "kernels/cuda/runtime/element.cuh"
#include "kernels/cuda/runtime/fast_math.cuh"
#include "kernels/cuda/runtime/launch.h"
#include "kernels/cuda/runtime/overlap.cuh"
#include "kernels/cuda/runtime/shared_memory.cuh"
#include "kernels/cuda/runtime/warpgroup.cuh"

namespace hydrant::cuda {
namespace {

constexpr int kWarps = 2 * kSpanTiles;
constexpr uint32_t kThreads = kWarps * kWarp;
constexpr int kTurns = 4;  // tiles of one head's queries that pass by at once
constexpr int kColumns = kTurns * kTile;

// What queries of a batch have in shared memory.
template <int kDim>
struct QueryBatch {
  alignas(1024) uint4 panels[kDim / kPanelColumns][kColumns * kPanelColumns / 8];  // chunks
  float sums[kColumns];     // infinity where there is no row: everything gets the probability 0
  float weights[kColumns];  // RowWeight
};

// What passes by in a turn: the queries of a tile, of one of the heads that score.
struct Turn {
  int32_t tile, head;

  // By `tiles` and `more` heads, fewer than there are.
  __device__ void Advance(int32_t tiles, int32_t more, int32_t heads) {
    tile += tiles;
    head += more;
    if (head < heads) return;
    head -= heads;
    ++tile;
  }
};

// Batches on their way to shared memory, rounded in the registers of all threads: a quarter of these has a turn.
template <typename T, int kDim>
struct QueryFetch {
  static constexpr int kThreadsOfTurn = static_cast<int>(kThreads) / kTurns;
  static constexpr int kChunks = kDim / 8, kRows = kThreadsOfTurn / kChunks, kEach = kTile / kRows;

  const DeviceRow& row;
  const Additions& additions;
  const int32_t heads, first_head;
  const int of_turn, first_column;  // the thread of those of its turn; the turn's first of the batch's columns
  Turn turn;                        // of the next Fetch
  float4 quads[kEach][2];
  float sum = INFINITY;  // of the column that a thread has alone
  int32_t token = 0;     // its row, of the step

  __device__ QueryFetch(const DeviceRow& own_row, const Additions& of_row, int32_t first_tile, int32_t first)
      : row(own_row),
        additions(of_row),
        heads(of_row.heads),
        first_head(first),
        of_turn(static_cast<int>(threadIdx.x) % kThreadsOfTurn),
        first_column(static_cast<int>(threadIdx.x) / kThreadsOfTurn * kTile) {
    const int32_t number = first_column / kTile;
    turn = {first_tile + number / heads, number % heads};
  }

  __device__ void Fetch(const AttentionShape& shape, int64_t width, int32_t tiles, int32_t more, const float* sums) {
    const int32_t of_step = turn.tile * kTile - row.live;  // of the tile's first row
    const int r = of_turn / kChunks, dim = of_turn % kChunks * 8;
    const float* from =
        shape.qkv + (int64_t{row.token_begin} + of_step + r) * width + (first_head + turn.head) * kDim + dim;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int32_t at = of_step + r + i * kRows;
      const bool present = at >= 0 && at < row.token_count;
      quads[i][0] = present ? *reinterpret_cast<const float4*>(from) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      quads[i][1] = present ? *reinterpret_cast<const float4*>(from + 4) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      from += kRows * width;
    }
    if (of_turn < kTile) {
      token = of_step + of_turn;
      const bool present = token >= 0 && token < row.token_count;
      sum = present ? sums[(int64_t{row.token_begin} + token) * shape.query_heads + first_head + turn.head] : INFINITY;
    }
    turn.Advance(tiles, more, heads);
  }

  __device__ void Store(QueryBatch<kDim>& to) const {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int column = first_column + of_turn / kChunks + i * kRows, chunk = of_turn % kChunks;
      const float4 &a = quads[i][0], &b = quads[i][1];
      to.panels[chunk / 8][InPanel(column, chunk % 8) / 8] =
          uint4{RoundPair<T>(a.x, a.y), RoundPair<T>(a.z, a.w), RoundPair<T>(b.x, b.y), RoundPair<T>(b.z, b.w)};
    }
    if (of_turn >= kTile) return;
    to.sums[first_column + of_turn] = sum;
    // A row that is not of the step has the probability 0 as it is.
    to.weights[first_column + of_turn] =
        token < row.token_count ? additions.RowWeight(row, row.position + token) : 0.0f;
  }
};

// Adds what a turn's queries give the warp's 16 keys: c has their products with keys g (elements 0, 1) and g + 8; part[i] is of keys
// g (i < 4) and g + 8, of rows 2t, 2t + 1, 2t + 8, 2t + 9. hides(i, r): whether row r does not see key g + 8 i.
template <typename Hides>
__device__ __forceinline__ void AddTurn(const float (&first)[4], const float (&last)[4], const float* sums, float scale,
                                        bool square, int t, Hides&& hides, float (&part)[8]) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int eight = i % 4 / 2, r = eight * 8 + t * 2 + i % 2;
    const float product = (eight == 0 ? first : last)[i / 4 * 2 + i % 2];
    const float p = hides(i / 4, r) ? 0.0f : FastExp2(fmaf(product, scale, -sums[r]));
    part[i] = square ? fmaf(p, p, part[i]) : part[i] + p;
  }
}

template <typename T, int kDim>
__global__ void __launch_bounds__(kThreads, 1)
    PromptScoresWarpgroupKernel(StepView step, AttentionShape shape, const PromptSpan* spans, const float* sums,
                                KvCacheView kv) {
  AwaitEarlier();
  const PromptSpan span = spans[blockIdx.x];
  if (span.first_tile % kWarps != 0) return;                                  // a block has two spans
  auto* const batches = reinterpret_cast<QueryBatch<kDim>*>(SharedMemory());  // two
  const int32_t kv_head = static_cast<int32_t>(blockIdx.y);
  const DeviceRow& row = step.rows[span.row];
  const int32_t group = shape.query_heads / kv.layout.kv_heads;
  const int64_t width = int64_t{shape.query_heads + 2 * kv.layout.kv_heads} * kDim;
  const HeadCache cache = CacheOf(step, row, kv, shape.layer, kv_head);
  const int warp = static_cast<int>(threadIdx.x / kWarp), lane = static_cast<int>(threadIdx.x % kWarp);
  const int g = lane / 4, t = lane % 4;
  const Additions additions(row, group, /*pins=*/false);
  const float scale = shape.scale * kLog2E;

  const int32_t live = row.live_after, last_tile = (live - 1) / kTile;
  const int32_t own_tile = span.first_tile + warp;
  const bool works = own_tile <= last_tile;
  uint32_t key[kDim / 16][4];
  LoadKeys<T, kDim>(cache, own_tile, live, g, t, key);
  KeyScores keys(cache, own_tile, live, g);

  const int32_t heads = additions.heads, first_tile = max(additions.FirstTile(row), span.first_tile);
  const int32_t batch_tiles = kTurns / heads, batch_heads = kTurns % heads;
  QueryFetch<T, kDim> fetch(row, additions, first_tile, kv_head * group);
  const int32_t count = (max(last_tile - first_tile + 1, 0) * heads + kTurns - 1) / kTurns;
  if (count > 0) {
    fetch.Fetch(shape, width, batch_tiles, batch_heads, sums);
    fetch.Store(batches[0]);
  }
  ShowToProducts();
  __syncthreads();
  float part[8] = {};
  Turn turn{first_tile, 0};
  for (int32_t batch = 0; batch < count; ++batch) {
    const QueryBatch<kDim>& queries = batches[batch % 2];
    float c[kColumns / 8][4];
    BeginProducts();
#pragma unroll
    for (int s = 0; s < kDim / 16; ++s) {
      WarpgroupMultiply<T, false>(c, key[s], PanelOperand::RowsAsColumns(queries.panels[s / 4]) + s % 4 * 32, s > 0);
    }
    CommitProducts();
    if (batch + 1 < count) fetch.Fetch(shape, width, batch_tiles, batch_heads, sums);
    WaitForProducts<0>();
    HoldRegisters(c);
    if (shape.cap > 0.0f) {
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i) c[i / 4][i % 4] = CapProduct(c[i / 4][i % 4], shape.cap);
    }
#pragma unroll
    for (int i = 0; i < kTurns; ++i) {
      const int32_t tile = turn.tile;
      const bool ends = turn.head == heads - 1;
      turn.Advance(heads == 1 ? 1 : 0, heads == 1 ? 0 : 1, heads);
      if (!works || tile > last_tile || tile < own_tile) continue;
      const int32_t first_seen = FirstSeen(row, shape.window, tile * kTile - row.live);
      const auto add = [&](auto&& hides) {
        AddTurn(c[i * 2], c[i * 2 + 1], queries.sums + i * kTile, scale, additions.square, t, hides, part);
      };
      if (tile > own_tile && first_seen + kTile - 1 <= 0) {
        add([](int, int) { return false; });
      } else {
        add([&](int half, int r) {
          return (tile == own_tile && g + half * 8 > r) || keys.position[half] < first_seen + r;
        });
      }
      if (ends) {
        keys.AddTile(step, row, cache, shape.window, own_tile, tile, queries.weights + i * kTile, additions.mean, g, t,
                     part);
      }
    }
    if (batch + 1 < count) fetch.Store(batches[(batch + 1) % 2]);
    ShowToProducts();
    __syncthreads();
  }
  keys.Store(t);
}

}  // namespace

bool LaunchPromptScoresWarpgroup(cudaStream_t stream, const StepView& step, const AttentionShape& shape,
                                 const PromptSpans& spans, const float* sums, const KvCacheView& kv) {
  const dim3 blocks(static_cast<uint32_t>(spans.count), static_cast<uint32_t>(kv.layout.kv_heads));
  return TakesWarpgroups(shape, spans) && WithWarpgroupCache(kv.layout, [&](auto element, auto dim) {
           using T = decltype(element);
           LaunchShared(stream, blocks, kThreads, 2 * sizeof(QueryBatch<dim()>), PromptScoresWarpgroupKernel<T, dim()>,
                        step, shape, spans.spans, sums, kv);
         });
}

}  // namespace hydrant::cuda
