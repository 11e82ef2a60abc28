// Attention of prompts and their scores on tensor cores, for 16-bit caches that need no rotation.
//
// A warp has 16 rows of a product: 16 queries of a head against keys that the block has staged, or, for the scores, 16 keys
// against staged queries. What a row gathers depends on nothing but the row: keys come in the same steps whatever else the
// block works on, and a key that a query does not see has the weight 0. Where a window hides the first ones from the whole
// block, their steps are left out; they would have added zeros.
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/cache.cuh"
#include "kernels/cuda/attention/mma_cache.h"
#include "kernels/cuda/attention/prompt_tiles.cuh"
#include "kernels/cuda/runtime/async_copy.cuh"
#include "kernels/cuda/runtime/element.cuh"
#include "kernels/cuda/runtime/launch.h"
#include "kernels/cuda/runtime/overlap.cuh"
#include "kernels/cuda/runtime/tensor_core.cuh"

namespace hydrant::cuda {
namespace {

constexpr int kWarps = kSpanTiles;
constexpr uint32_t kThreads = kWarps * kWarp;

// Elements from one staged head to the next: eight rows of 16 bytes then lie in different banks.
template <int kDim>
inline constexpr int kStride = kDim + 8;

// Keys in one stage.
template <int kDim>
inline constexpr int kStageSlots = kDim <= 128 ? 32 : 16;

// Where a lane finds its row of the four matrices that cover 16 staged heads (`from` the first) and the 16 dimensions from
// `dim` on: as the product wants its second operand (b of the first eight, then of the last eight) when heads are its
// columns, or, transposed, when dimensions are.
template <typename T, int kDim>
__device__ __forceinline__ const T* HeadsAsColumns(const T* from, int dim, int lane) {
  return from + (lane / 16 * 8 + lane % 8) * kStride<kDim> + dim + lane / 8 % 2 * 8;
}
template <typename T, int kDim>
__device__ __forceinline__ const T* DimensionsAsColumns(const T* from, int dim, int lane) {
  return from + (lane / 8 % 2 * 8 + lane % 8) * kStride<kDim> + dim + lane / 16 * 8;
}

// Which tile and head a warp of PromptMmaKernel has.
struct WarpPlace {
  int32_t tile;
  int32_t query_head;
  int32_t kv_head;
};

// Blocks of a span: `group` per KV head. `heads` of a group are in a block, kWarps / heads tiles with each.
__device__ inline WarpPlace PlaceOf(const PromptSpan& span, int32_t block, int32_t warp, int32_t group, int32_t heads) {
  const int32_t parts = group / heads;
  const int32_t of_group = block % group;
  const int32_t tiles = kWarps / heads;
  return {span.first_tile + of_group / parts * tiles + warp / heads,
          block / group * group + of_group % parts * heads + warp % heads, block / group};
}

// Keys and values of kStageSlots slots on their way to shared memory; zeros after the last token, where memory may hold
// anything, and a weight of 0 would not undo a NaN.
template <typename T, int kDim>
__device__ __forceinline__ void Stage(const HeadCache& cache, int32_t first_slot, int32_t live, T* keys, T* values) {
  constexpr int kChunk = 8, kChunks = kDim / kChunk;
  for (int i = static_cast<int>(threadIdx.x); i < kStageSlots<kDim> * kChunks; i += kThreads) {
    const int of_stage = i / kChunks, dim = i % kChunks * kChunk;
    const int32_t slot = first_slot + of_stage;
    const bool present = slot < live;
    const int64_t from = present ? cache.Element(slot) + dim : 0;
    CopyAsync16(keys + of_stage * kStride<kDim> + dim, static_cast<const T*>(cache.kv.k) + from, present);
    CopyAsync16(values + of_stage * kStride<kDim> + dim, static_cast<const T*>(cache.kv.v) + from, present);
  }
}

// A warp's 16 queries: rows g and g + 8 in a lane.
template <typename T, int kDim>
struct QueryTile {
  uint32_t words[kDim / 16][4];

  // `row0` is the tile's first; rows outside [begin, end) are zeros.
  __device__ void Load(const float* row0, int64_t width, int32_t begin, int32_t end, int g, int t) {
#pragma unroll
    for (int s = 0; s < kDim / 16; ++s) {
#pragma unroll
      for (int reg = 0; reg < 4; ++reg) {
        const int r = g + reg % 2 * 8, dim = s * 16 + reg / 2 * 8 + t * 2;
        const float2 pair =
            r >= begin && r < end ? *reinterpret_cast<const float2*>(row0 + r * width + dim) : make_float2(0.0f, 0.0f);
        words[s][reg] = Pack(FromFloat<T>(pair.x), FromFloat<T>(pair.y));
      }
    }
  }
};

// What rows g and g + 8 of a tile have gathered, elements [8n + 2t, 8n + 2t + 2) in out[n].
template <int kDim>
struct Gathered {
  float largest[2] = {-INFINITY, -INFINITY};  // in units of log2
  float total[2] = {};                        // of this lane's slots
  float out[kDim / 8][4] = {};
};

// Adds the slots of a stage. Row r of the tile does not see positions below `first_seen` + r.
template <typename T, int kDim>
__device__ __forceinline__ void AddSlots(const QueryTile<T, kDim>& query, const HeadCache& cache, const T* keys,
                                         const T* values, int32_t tile, int32_t first_slot, int32_t first_seen,
                                         float scale, float cap, int lane, Gathered<kDim>& gathered) {
  constexpr int kEights = kStageSlots<kDim> / 8;
  const int g = lane / 4, t = lane % 4;
  float c[kEights][4] = {};
#pragma unroll
  for (int s = 0; s < kDim / 16; ++s) {
#pragma unroll
    for (int e = 0; e < kEights; e += 2) {
      uint32_t b[4];
      LoadMatrices(HeadsAsColumns<T, kDim>(keys + e * 8 * kStride<kDim>, s * 16, lane), b);
      MultiplyAdd<T>(c[e], query.words[s], {b[0], b[1]});
      MultiplyAdd<T>(c[e + 1], query.words[s], {b[2], b[3]});
    }
  }
  if (cap > 0.0f) {
#pragma unroll
    for (int i = 0; i < kEights * 4; ++i) c[i / 4][i % 4] = CapProduct(c[i / 4][i % 4], cap);
  }
  // c becomes the weights: of rows g (elements 0, 1) and g + 8 with slots 8e + 2t, 8e + 2t + 1.
  float rescale[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int32_t own = tile * kTile + g + half * 8;
    const int32_t seen_from = first_seen + g + half * 8;
    float most = gathered.largest[half];
#pragma unroll
    for (int i = 0; i < kEights * 2; ++i) {
      float& logit = c[i / 2][half * 2 + i % 2];
      const int32_t slot = first_slot + i / 2 * 8 + t * 2 + i % 2;
      const bool seen = slot <= own && (seen_from <= 0 || cache.kv.position[cache.ScoreAt(slot)] >= seen_from);
      logit = seen ? logit * scale : -INFINITY;
      most = fmaxf(most, logit);
    }
    most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 1));
    most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 2));
    const float shift = Shift(most);
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kEights * 2; ++i) {
      float& weight = c[i / 2][half * 2 + i % 2];
      weight = exp2f(weight - shift);
      sum += weight;
    }
    rescale[half] = exp2f(gathered.largest[half] - shift);
    gathered.total[half] = fmaf(gathered.total[half], rescale[half], sum);
    gathered.largest[half] = most;
  }
  // Late in a long prompt the largest logit seldom changes; what is skipped are products with 1.
  if (__ballot_sync(kAllLanes, rescale[0] != 1.0f || rescale[1] != 1.0f) != 0) {
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) gathered.out[n][i] *= rescale[i / 2];
    }
  }
#pragma unroll
  for (int e = 0; e < kEights; e += 2) {
    const auto pair = [&](int eight, int first) {
      return Pack(FromFloat<T>(c[eight][first]), FromFloat<T>(c[eight][first + 1]));
    };
    const uint32_t weights[4] = {pair(e, 0), pair(e, 2), pair(e + 1, 0), pair(e + 1, 2)};
#pragma unroll
    for (int n = 0; n < kDim / 8; n += 2) {
      uint32_t b[4];
      LoadMatricesTransposed(DimensionsAsColumns<T, kDim>(values + e * 8 * kStride<kDim>, n * 8, lane), b);
      MultiplyAdd<T>(gathered.out[n], weights, {b[0], b[1]});
      MultiplyAdd<T>(gathered.out[n + 1], weights, {b[2], b[3]});
    }
  }
}

template <typename T, int kDim>
__global__ void __launch_bounds__(kThreads) PromptMmaKernel(StepView step, AttentionShape shape, int32_t heads,
                                                            const PromptSpan* spans, float* sums, KvCacheView kv) {
  AwaitEarlier();
  constexpr int kSlots = kStageSlots<kDim>;
  alignas(16) __shared__ T keys[2][kSlots * kStride<kDim>];
  alignas(16) __shared__ T values[2][kSlots * kStride<kDim>];
  const PromptSpan span = spans[blockIdx.x];
  const DeviceRow& row = step.rows[span.row];
  const int32_t group = shape.query_heads / kv.layout.kv_heads;
  const int warp = static_cast<int>(threadIdx.x / kWarp), lane = static_cast<int>(threadIdx.x % kWarp);
  const int g = lane / 4, t = lane % 4;
  const WarpPlace place = PlaceOf(span, static_cast<int32_t>(blockIdx.y), warp, group, heads);
  const int32_t first_tile = place.tile - warp / heads;  // of the block
  const int32_t live = row.live_after;
  const int32_t last_tile = min(first_tile + kWarps / heads - 1, (live - 1) / kTile);
  if (last_tile < max(first_tile, row.live / kTile)) return;
  const HeadCache cache = CacheOf(step, row, kv, shape.layer, place.kv_head);

  const TileRows rows = RowsOf(row, place.tile);
  const bool works = rows.end > rows.begin;
  const int64_t width = int64_t{shape.query_heads + 2 * kv.layout.kv_heads} * kDim;
  QueryTile<T, kDim> query;
  // The address is never that of a row that is not there, once r >= begin.
  const float* row0 = shape.qkv + (rows.token - rows.begin) * width + int64_t{place.query_head} * kDim;
  if (works) query.Load(row0, width, rows.begin, rows.end, g, t);

  Gathered<kDim> gathered;
  const int32_t stages = ((last_tile + 1) * kTile + kSlots - 1) / kSlots;
  const int32_t first_seen = FirstSeen(row, shape.window, place.tile * kTile - row.live);
  // What the block's first query does not see, nobody does.
  const int32_t block_seen = FirstSeen(row, shape.window, max(first_tile * kTile - row.live, 0));
  const int32_t first_stage = row.in_order() ? max(block_seen, 0) / kSlots : 0;
  Stage<T, kDim>(cache, first_stage * kSlots, live, keys[0], values[0]);
  CommitCopies();
  for (int32_t stage = first_stage; stage < stages; ++stage) {
    const int buffer = (stage - first_stage) % 2;
    if (stage + 1 < stages) {
      Stage<T, kDim>(cache, (stage + 1) * kSlots, live, keys[1 - buffer], values[1 - buffer]);
    }
    CommitCopies();
    WaitForCopies<1>();
    __syncthreads();
    if (works && stage * kSlots <= place.tile * kTile) {
      AddSlots<T, kDim>(query, cache, keys[buffer], values[buffer], place.tile, stage * kSlots, first_seen,
                        shape.scale * kLog2E, shape.cap, lane, gathered);
    }
    __syncthreads();  // everybody has read what the next copies overwrite
  }
  if (!works) return;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float total = gathered.total[half];
    total += __shfl_xor_sync(kAllLanes, total, 1);
    total += __shfl_xor_sync(kAllLanes, total, 2);
    const int r = g + half * 8;
    if (r < rows.begin || r >= rows.end) continue;
    const int64_t token = rows.token + r - rows.begin;
    total += SinkShare(shape.sinks, place.query_head, gathered.largest[half]);
    const float inverse = 1.0f / total;
    if (t == 0) sums[token * shape.query_heads + place.query_head] = gathered.largest[half] + log2f(total);
    const int64_t out = (token * shape.query_heads + place.query_head) * kDim;
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
      StorePair(shape.out, out + n * 8 + t * 2, gathered.out[n][half * 2] * inverse,
                gathered.out[n][half * 2 + 1] * inverse);
    }
  }
}

// --- scores -------------------------------------------------------------------------------------------------------------

// A tile of queries of one head on its way to shared memory, with what its rows' probabilities need.
template <typename T, int kDim>
struct QueryStage {
  static constexpr int kQuads = kTile * kDim / 4;
  static constexpr int kEach = (kQuads + static_cast<int>(kThreads) - 1) / static_cast<int>(kThreads);
  float4 quads[kEach];
  float sum;

  // Rows that are not of the step get a sum of infinity: they give everything the probability 0.
  __device__ void Fetch(const AttentionShape& shape, int64_t width, const TileRows& rows, int32_t query_head,
                        const float* sums) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int at = static_cast<int>(threadIdx.x) + i * static_cast<int>(kThreads);
      const int r = at / (kDim / 4), dim = at % (kDim / 4) * 4;
      const bool present = r >= rows.begin && r < rows.end;
      quads[i] = present ? *reinterpret_cast<const float4*>(shape.qkv + (rows.token + r - rows.begin) * width +
                                                            int64_t{query_head} * kDim + dim)
                         : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
    const int r = static_cast<int>(threadIdx.x);
    sum = r >= rows.begin && r < rows.end ? sums[(rows.token + r - rows.begin) * shape.query_heads + query_head]
                                          : INFINITY;
  }
  __device__ void Store(T* queries, float* row_sums) const {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int at = static_cast<int>(threadIdx.x) + i * static_cast<int>(kThreads);
      const int r = at / (kDim / 4), dim = at % (kDim / 4) * 4;
      if (r >= kTile) continue;
      *reinterpret_cast<uint2*>(queries + r * kStride<kDim> + dim) =
          make_uint2(Pack(FromFloat<T>(quads[i].x), FromFloat<T>(quads[i].y)),
                     Pack(FromFloat<T>(quads[i].z), FromFloat<T>(quads[i].w)));
    }
    if (threadIdx.x < kTile) row_sums[threadIdx.x] = sum;
  }
};

// Adds what the queries of one head, which are staged, give the warp's 16 keys: part[i] of keys g (i < 4) and g + 8, of rows
// 2t, 2t + 1, 2t + 8, 2t + 9. Row r does not see positions below `first_seen` + r.
template <typename T, int kDim>
__device__ __forceinline__ void AddProbabilities(const uint32_t (&key)[kDim / 16][4], const int32_t (&position)[2],
                                                 const T* queries, const float* row_sums, bool diagonal,
                                                 int32_t first_seen, float scale, float cap, bool square, int lane,
                                                 float (&part)[8]) {
  const int g = lane / 4, t = lane % 4;
  float c[2][4] = {};
#pragma unroll
  for (int s = 0; s < kDim / 16; ++s) {
    uint32_t b[4];
    LoadMatrices(HeadsAsColumns<T, kDim>(queries, s * 16, lane), b);
    MultiplyAdd<T>(c[0], key[s], {b[0], b[1]});
    MultiplyAdd<T>(c[1], key[s], {b[2], b[3]});
  }
  if (cap > 0.0f) {
#pragma unroll
    for (int i = 0; i < 8; ++i) c[i / 4][i % 4] = CapProduct(c[i / 4][i % 4], cap);
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int of_tile = g + i / 4 * 8;
    const int r = i % 4 / 2 * 8 + t * 2 + i % 2;
    const float logit = c[i % 4 / 2][i / 4 * 2 + i % 2] * scale;
    const bool hidden = (diagonal && of_tile > r) || position[i / 4] < first_seen + r;
    const float p = hidden ? 0.0f : exp2f(logit - row_sums[r]);
    part[i] = square ? fmaf(p, p, part[i]) : part[i] + p;
  }
}

// The warp's keys as the product wants its first operand: rows g and g + 8 in a lane, zeros after the last token.
template <typename T, int kDim>
__device__ __forceinline__ void LoadKeys(const HeadCache& cache, int32_t tile, int32_t live, int g, int t,
                                         uint32_t (&key)[kDim / 16][4]) {
  const T* tile_keys = static_cast<const T*>(cache.kv.k) + cache.Element(int64_t{tile} * kTile);
#pragma unroll
  for (int s = 0; s < kDim / 16; ++s) {
#pragma unroll
    for (int reg = 0; reg < 4; ++reg) {
      const int of_tile = g + reg % 2 * 8;
      key[s][reg] = tile * kTile + of_tile < live
                        ? *reinterpret_cast<const uint32_t*>(tile_keys + of_tile * kDim + s * 16 + reg / 2 * 8 + t * 2)
                        : 0;
    }
  }
}

template <typename T, int kDim>
__global__ void __launch_bounds__(kThreads)
    PromptScoresMmaKernel(StepView step, AttentionShape shape, const PromptSpan* spans, const float* sums,
                          KvCacheView kv) {
  AwaitEarlier();
  alignas(16) __shared__ T queries[2][kTile * kStride<kDim>];
  __shared__ float row_sums[2][kTile];
  __shared__ float row_weights[2][kTile];  // of a tile, by the tile's number
  const PromptSpan span = spans[blockIdx.x];
  const int32_t kv_head = static_cast<int32_t>(blockIdx.y);
  const DeviceRow& row = step.rows[span.row];
  const EvictionPolicy& policy = row.policy;
  const int32_t group = shape.query_heads / kv.layout.kv_heads;
  const int64_t width = int64_t{shape.query_heads + 2 * kv.layout.kv_heads} * kDim;
  const HeadCache cache = CacheOf(step, row, kv, shape.layer, kv_head);
  const int warp = static_cast<int>(threadIdx.x / kWarp), lane = static_cast<int>(threadIdx.x % kWarp);
  const int g = lane / 4, t = lane % 4;
  const int32_t heads = ScoredHeads(policy, group);
  const float mean = HeadFactor(policy, group);

  const int32_t live = row.live_after, last_tile = (live - 1) / kTile;
  const int32_t own_tile = span.first_tile + warp;
  const bool works = own_tile <= last_tile;
  uint32_t key[kDim / 16][4];
  float score[2] = {};       // of keys g and g + 8, in all four lanes that have them
  int32_t position[2] = {};  // theirs
  bool holds[2] = {};
  int64_t score_at = 0;  // of key g
  if (works) {
    LoadKeys<T, kDim>(cache, own_tile, live, g, t, key);
    score_at = cache.ScoreAt(int64_t{own_tile} * kTile) + g;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      holds[half] = own_tile * kTile + g + half * 8 < live;
      if (holds[half]) score[half] = kv.score[score_at + half * 8];
      if (holds[half]) position[half] = kv.position[score_at + half * 8];
    }
  }

  const int32_t first_tile = max(FirstScoredTile(row), span.first_tile);
  QueryStage<T, kDim> stage;
  const auto fetch = [&](int32_t turn) {
    stage.Fetch(shape, width, RowsOf(row, first_tile + turn / heads), kv_head * group + turn % heads, sums);
  };
  // Its rows' factors, once a tile; a row that is not of the step has the probability 0 as it is.
  const auto store = [&](int32_t turn) {
    stage.Store(queries[turn % 2], row_sums[turn % 2]);
    if (turn % heads != 0 || threadIdx.x >= kTile) return;
    const int32_t tile = first_tile + turn / heads;
    const int32_t of_step = tile * kTile + static_cast<int32_t>(threadIdx.x) - row.live;
    row_weights[tile % 2][threadIdx.x] = of_step < row.token_count ? RowWeight(row, row.position + of_step) : 0.0f;
  };
  const int32_t turns = (last_tile - first_tile + 1) * heads;
  if (turns > 0) {
    fetch(0);
    store(0);
  }
  __syncthreads();
  float part[8] = {};
  for (int32_t turn = 0; turn < turns; ++turn) {
    if (turn + 1 < turns) fetch(turn + 1);
    const int32_t tile = first_tile + turn / heads;
    if (works && tile >= own_tile) {
      const int32_t first_seen = FirstSeen(row, shape.window, tile * kTile - row.live);
      AddProbabilities<T, kDim>(key, position, queries[turn % 2], row_sums[turn % 2], tile == own_tile, first_seen,
                                shape.scale * kLog2E, shape.cap, policy.square, lane, part);
      if (turn % heads == heads - 1) {
        const float* weights = row_weights[tile % 2];
        const int32_t last_seen_from = first_seen + min(live - tile * kTile, kTile) - 1;  // by the tile's last row
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float column = part[half * 4] * weights[t * 2] + part[half * 4 + 1] * weights[t * 2 + 1] +
                         part[half * 4 + 2] * weights[t * 2 + 8] + part[half * 4 + 3] * weights[t * 2 + 9];
          column += __shfl_xor_sync(kAllLanes, column, 1);
          column += __shfl_xor_sync(kAllLanes, column, 2);
          score[half] = position[half] < last_seen_from ? 0.0f : FlushScore(fmaf(column, mean, score[half]));
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) part[i] = 0.0f;
        for (int32_t i = 0; i < row.snapshots; ++i) {
          const StepSnapshot& snapshot = step.snapshots[row.first_snapshot + i];
          if (snapshot.slots != (tile + 1) * kTile || own_tile * kTile >= snapshot.slots || t != 0) continue;
          const int32_t to = step.tables[snapshot.score_blocks + own_tile];
          float* scores = kv.score + kv.layout.score_offset(shape.layer, to, kv_head) + g;
          scores[0] = score[0];
          scores[8] = score[1];
        }
      }
    }
    if (turn + 1 < turns) store(turn + 1);
    __syncthreads();
  }
  if (t != 0) return;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (holds[half]) kv.score[score_at + half * 8] = score[half];
  }
}

// The largest power of two that divides `group`, at most kWarps.
int32_t HeadsOfBlock(int32_t group) {
  int32_t heads = 1;
  while (heads < kWarps && group % (heads * 2) == 0) heads *= 2;
  return heads;
}

}  // namespace

bool LaunchPromptAttentionMma(cudaStream_t stream, const StepView& step, const AttentionShape& shape,
                              const PromptSpans& spans, float* sums, const KvCacheView& kv) {
  const dim3 blocks(static_cast<uint32_t>(spans.count), static_cast<uint32_t>(shape.query_heads));
  const int32_t heads = HeadsOfBlock(shape.query_heads / kv.layout.kv_heads);
  return !spans.rolls && WithMmaCache(kv.layout, [&](auto element, auto dim) {
    Launch(stream, blocks, kThreads, PromptMmaKernel<decltype(element), dim()>, step, shape, heads, spans.spans, sums,
           kv);
  });
}

bool LaunchPromptScoresMma(cudaStream_t stream, const StepView& step, const AttentionShape& shape,
                           const PromptSpans& spans, const float* sums, const KvCacheView& kv) {
  const dim3 blocks(static_cast<uint32_t>(spans.count), static_cast<uint32_t>(kv.layout.kv_heads));
  return !spans.rolls && WithMmaCache(kv.layout, [&](auto element, auto dim) {
    Launch(stream, blocks, kThreads, PromptScoresMmaKernel<decltype(element), dim()>, step, shape, spans.spans, sums,
           kv);
  });
}

}  // namespace hydrant::cuda
