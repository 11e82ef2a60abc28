// Attention of prompts and their scores on tensor cores, for caches of 16 bits, and of int8.
//
// A warp has 16 rows of a product: 16 queries of a head against keys that the block has staged, or, for the scores, 16 keys
// against staged queries. What a row gathers depends on nothing but the row: keys come in the same steps whatever else the
// block works on, and a key that a query does not see has the weight 0. Where a window hides the first ones from the whole
// block, their steps are left out; they would have added zeros.
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/cache.cuh"
#include "kernels/cuda/attention/mma_cache.h"
#include "kernels/cuda/attention/prompt_scores.cuh"
#include "kernels/cuda/attention/prompt_softmax.cuh"
#include "kernels/cuda/attention/prompt_tiles.cuh"
#include "kernels/cuda/attention/ready_heads.cuh"
#include "kernels/cuda/attention/staged_heads.cuh"
#include "kernels/cuda/runtime/async_copy.cuh"
#include "kernels/cuda/runtime/element.cuh"
#include "kernels/cuda/runtime/fast_math.cuh"
#include "kernels/cuda/runtime/launch.h"
#include "kernels/cuda/runtime/overlap.cuh"
#include "kernels/cuda/runtime/shared_memory.cuh"
#include "kernels/cuda/runtime/tensor_core.cuh"

namespace hydrant::cuda {
namespace {

constexpr int kWarps = 4;
constexpr uint32_t kThreads = kWarps * kWarp;

// Tiles of queries, each of one head, of a warp; of a block.
template <int kDim>
inline constexpr int kPairs = kDim <= 128 ? 2 : 1;
template <int kDim>
inline constexpr int kBlockPairs = kPairs<kDim>* kWarps;

// Keys in one stage.
template <int kDim>
inline constexpr int kStageSlots = kDim <= 128 ? 64 : 32;

// What a block has in shared memory: queries, then keys, then values; of codes the scales of a stage's keys, then of its values.
template <typename Stored, int kDim, bool kTurns>
struct PromptStage {
  static constexpr bool kCoded = std::is_same_v<Stored, int8_t>;
  static constexpr bool kAsStored = !kCoded && !kTurns;  // keys and values come as a product wants them
  static constexpr int kHeads = kBlockPairs<kDim> * kTile + 2 * kStageSlots<kDim>;
  static constexpr int kScalesAt = kHeads * kStride<kDim> * static_cast<int>(sizeof(ReadyElement<Stored>));
  static constexpr int kBytes = kScalesAt + (kCoded ? 2 * kStageSlots<kDim> * static_cast<int>(sizeof(float)) : 0);
};

// A tile of queries to shared memory, by a warp; rows outside [begin, end) are zeros. `row0` is the tile's first.
template <typename T, int kDim>
__device__ __forceinline__ void StoreQueries(const float* row0, int64_t width, const TileRows& rows, int lane, T* to) {
  for (int i = lane; i < kTile * kDim / 4; i += static_cast<int>(kWarp)) {
    const int r = i / (kDim / 4), dim = i % (kDim / 4) * 4;
    const float4 quad = r >= rows.begin && r < rows.end ? *reinterpret_cast<const float4*>(row0 + r * width + dim)
                                                        : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    *reinterpret_cast<uint2*>(to + r * kStride<kDim> + dim) =
        make_uint2(RoundPair<T>(quad.x, quad.y), RoundPair<T>(quad.z, quad.w));
  }
}

// The products of a warp's queries with the staged keys.
template <typename T, int kDim>
__device__ __forceinline__ void MultiplyKeys(const T* queries, const T* keys, int lane,
                                             float (&c)[kPairs<kDim>][kStageSlots<kDim> / 8][4]) {
#pragma unroll
  for (int s = 0; s < kDim / 16; ++s) {
    uint32_t a[kPairs<kDim>][4];
#pragma unroll
    for (int p = 0; p < kPairs<kDim>; ++p) {
      LoadMatrices(HeadsAsRows<T, kDim>(queries + p * kTile * kStride<kDim>, s * 16, lane), a[p]);
    }
#pragma unroll
    for (int e = 0; e < kStageSlots<kDim> / 8; e += 2) {
      uint32_t b[4];
      LoadMatrices(HeadsAsColumns<T, kDim>(keys + e * 8 * kStride<kDim>, s * 16, lane), b);
#pragma unroll
      for (int p = 0; p < kPairs<kDim>; ++p) {
        MultiplyAdd<T>(c[p][e], a[p], {b[0], b[1]});
        MultiplyAdd<T>(c[p][e + 1], a[p], {b[2], b[3]});
      }
    }
  }
}

// Adds the staged values, times the weights c.
template <typename T, int kDim>
__device__ __forceinline__ void AddValues(const float (&c)[kPairs<kDim>][kStageSlots<kDim> / 8][4], const T* values,
                                          int lane, float (&out)[kPairs<kDim>][kDim / 8][4]) {
  uint32_t weights[kPairs<kDim>][kStageSlots<kDim> / 16][4];
#pragma unroll
  for (int p = 0; p < kPairs<kDim>; ++p) PackWeights<T, kStageSlots<kDim>>(c[p], weights[p]);
#pragma unroll
  for (int s = 0; s < kStageSlots<kDim> / 16; ++s) {
#pragma unroll
    for (int n = 0; n < kDim / 8; n += 2) {
      uint32_t b[4];
      LoadMatricesTransposed(DimensionsAsColumns<T, kDim>(values + s * 16 * kStride<kDim>, n * 8, lane), b);
#pragma unroll
      for (int p = 0; p < kPairs<kDim>; ++p) {
        MultiplyAdd<T>(out[p][n], weights[p][s], {b[0], b[1]});
        MultiplyAdd<T>(out[p][n + 1], weights[p][s], {b[2], b[3]});
      }
    }
  }
}

// Keys and values of a stage of codes, and their scales [kSlots] each, by the block. Slots from `live` on are zeros.
template <int kDim>
__device__ __forceinline__ void ExpandStage(const HeadCache& cache, int32_t first_slot, int32_t live,
                                            __nv_bfloat16* keys, __nv_bfloat16* values, float* scales) {
  constexpr int kSlots = kStageSlots<kDim>, kCodes = 16, kPieces = kDim / kCodes, kOwn = static_cast<int>(kThreads);
  constexpr int kEach = (kSlots * kPieces + kOwn - 1) / kOwn;
  uint4 key[kEach], value[kEach];  // all on their way before the first is stored
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int at = static_cast<int>(threadIdx.x) + i * kOwn, slot = first_slot + at / kPieces;
    key[i] = value[i] = {};
    if (at >= kSlots * kPieces || slot >= live) continue;
    key[i] = *reinterpret_cast<const uint4*>(cache.At<int8_t>(cache.kv.k, slot) + at % kPieces * kCodes);
    value[i] = *reinterpret_cast<const uint4*>(cache.At<int8_t>(cache.kv.v, slot) + at % kPieces * kCodes);
  }
  if (threadIdx.x < 2 * kSlots) {
    const int of_values = static_cast<int>(threadIdx.x) / kSlots,
              slot = first_slot + static_cast<int>(threadIdx.x) % kSlots;
    scales[threadIdx.x] = slot < live ? *cache.ScaleAt(of_values != 0 ? cache.kv.v : cache.kv.k, slot) : 0.0f;
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int at = static_cast<int>(threadIdx.x) + i * kOwn, to = at / kPieces * kStride<kDim> + at % kPieces * kCodes;
    if (at >= kSlots * kPieces) continue;
    ExpandCodes(key[i], keys + to);
    ExpandCodes(value[i], values + to);
  }
}

// Multiplies the columns of c with the scales of their slots.
template <int kSlots>
__device__ __forceinline__ void Scale(const float* scales, int t, float (&c)[kSlots / 8][4]) {
#pragma unroll
  for (int e = 0; e < kSlots / 8; ++e) {
    const float2 two = *reinterpret_cast<const float2*>(scales + e * 8 + t * 2);
    c[e][0] *= two.x, c[e][1] *= two.y, c[e][2] *= two.x, c[e][3] *= two.y;
  }
}

// `rope`: of keys that are turned (kTurns).
template <typename Stored, int kDim, bool kTurns>
__global__ void __launch_bounds__(kThreads, 2)
    PromptMmaKernel(StepView step, RopeView rope, AttentionShape shape, int32_t heads, const PromptSpan* spans,
                    float* sums, KvCacheView kv) {
  AwaitEarlier();
  using Layout = PromptStage<Stored, kDim, kTurns>;
  using T = ReadyElement<Stored>;
  constexpr int kSlots = kStageSlots<kDim>, kEach = kPairs<kDim>;
  const PromptSpan span = spans[blockIdx.x];
  const DeviceRow& row = step.rows[span.row];
  const int32_t group = shape.query_heads / kv.layout.kv_heads;
  const int warp = static_cast<int>(threadIdx.x / kWarp), lane = static_cast<int>(threadIdx.x % kWarp);
  const int g = lane / 4, t = lane % 4;
  const auto place_of = [&](int pair) {
    return PlaceOf(span, static_cast<int32_t>(blockIdx.y), static_cast<int>(blockIdx.z) * kBlockPairs<kDim> + pair,
                   group, heads);
  };
  T* const queries = reinterpret_cast<T*>(SharedMemory()) + warp * kEach * kTile * kStride<kDim>;  // the warp's
  T* const keys = reinterpret_cast<T*>(SharedMemory()) + kBlockPairs<kDim> * kTile * kStride<kDim>;
  T* const values = keys + kSlots * kStride<kDim>;
  float* const scales = reinterpret_cast<float*>(SharedMemory() + Layout::kScalesAt);  // kCoded
  const int32_t live = row.live_after;
  const int32_t first_tile = place_of(0).tile;
  const int32_t last_tile = min(place_of(kBlockPairs<kDim> - 1).tile, (live - 1) / kTile);
  if (last_tile < max(first_tile, row.live / kTile)) return;
  const HeadCache cache = CacheOf(step, row, kv, shape.layer, place_of(0).kv_head);

  const int64_t width = int64_t{shape.query_heads + 2 * kv.layout.kv_heads} * kDim;
  WarpPlace places[kEach];
  TileRows rows[kEach];
  Hidden hidden[kEach];
  bool works = false;
#pragma unroll
  for (int p = 0; p < kEach; ++p) {
    places[p] = place_of(warp * kEach + p);
    const int32_t tile = places[p].tile;
    rows[p] = RowsOf(row, tile);
    works = works || rows[p].end > rows[p].begin;
    hidden[p] = {min(tile, (row.live_after - 1) / kTile) * kTile, FirstSeen(row, shape.window, tile * kTile - row.live),
                 row.in_order()};
    // The address is never that of a row that is not there, once r >= begin.
    const float* row0 = shape.qkv + (rows[p].token - rows[p].begin) * width + int64_t{places[p].query_head} * kDim;
    StoreQueries<T, kDim>(row0, width, rows[p], lane, queries + p * kTile * kStride<kDim>);
  }
  const float scale = shape.scale * kLog2E;
  RowSums gathered[kEach];
  float out[kEach][kDim / 8][4] = {};
  const int32_t stages = ((last_tile + 1) * kTile + kSlots - 1) / kSlots;
  const int32_t own_slots = (places[kEach - 1].tile + 1) * kTile;
  // What the block's first query does not see, nobody does.
  const int32_t block_seen = FirstSeen(row, shape.window, max(first_tile * kTile - row.live, 0));
  const int32_t first_stage = row.in_order() ? max(block_seen, 0) / kSlots : 0;
  const StageCopies<kDim, kSlots, static_cast<int>(kThreads)> copies(cache, live);
  const auto copy = [&](const char* tiles, int32_t stage, int32_t ids, T* staged) {
    copies.Copy(tiles, stage, ids, [staged](int r, int chunk) { return staged + r * kStride<kDim> + chunk * 8; });
    CommitCopies();
  };
  int32_t ids = copies.Ids(first_stage), next_ids = copies.Ids(first_stage + 1);
  // The position of the slot that this thread turns with the one beside it, asked for a stage ahead.
  const int own_slot = static_cast<int>(threadIdx.x) / 2;
  const auto position_in = [&](int32_t stage) {
    const int32_t at = stage * kSlots + own_slot;
    return kTurns && own_slot < kSlots && at < live ? kv.position[cache.ScoreAt(at)] : 0;
  };
  static_assert(kThreads >= 2 * kSlots);
  int32_t position = position_in(first_stage);
  const auto make_ready = [&](int32_t stage) {
    __syncthreads();  // everybody has read the stage before
    if constexpr (Layout::kCoded) {
      ExpandStage<kDim>(cache, stage * kSlots, live, keys, values, scales);
    } else {
      copy(copies.keys, stage, ids, keys);
      copy(copies.values, stage, ids, values);
      ids = next_ids;
      next_ids = copies.Ids(stage + 2);
      WaitForCopies<0>();
    }
    if constexpr (kTurns) {
      const int32_t here = position;
      position = position_in(stage + 1);
      __syncthreads();
      if (own_slot < kSlots) {
        TurnHead<T, kDim, false>(rope, here, static_cast<int>(threadIdx.x) % 2, keys + own_slot * kStride<kDim>,
                                 nullptr);
      }
    }
    __syncthreads();
  };
  if constexpr (Layout::kAsStored) copy(copies.keys, first_stage, ids, keys);
  for (int32_t stage = first_stage; stage < stages; ++stage) {
    const bool adds = works && stage * kSlots < own_slots;
    float c[kEach][kSlots / 8][4] = {};
    if constexpr (Layout::kAsStored) {
      WaitForCopies<0>();
      __syncthreads();  // the keys are there, and everybody has read the values before
      copy(copies.values, stage, ids, values);
      if (adds) MultiplyKeys<T, kDim>(queries, keys, lane, c);
      WaitForCopies<0>();
      __syncthreads();  // the values are there, and everybody has read the keys
      if (stage + 1 < stages) copy(copies.keys, stage + 1, next_ids, keys);
      ids = next_ids;
      next_ids = copies.Ids(stage + 2);
    } else {
      make_ready(stage);
      if (adds) MultiplyKeys<T, kDim>(queries, keys, lane, c);
    }
    if (!adds) continue;
#pragma unroll
    for (int p = 0; p < kEach; ++p) {
      if constexpr (Layout::kCoded) Scale<kSlots>(scales, t, c[p]);
      if (shape.cap > 0.0f) Cap<kSlots>(shape.cap, c[p]);
      Hide<kSlots>(hidden[p], cache, stage * kSlots, g, t, c[p]);
      float rescale[2];
      ToWeights<kSlots>(scale, gathered[p], c[p], rescale);
      Rescale<kDim>(rescale, out[p]);
      if constexpr (Layout::kCoded) Scale<kSlots>(scales + kSlots, t, c[p]);
    }
    AddValues<T, kDim>(c, values, lane, out);
  }
#pragma unroll
  for (int p = 0; p < kEach; ++p) {
    StoreRows<kDim>(shape, rows[p], places[p].query_head, scale, gathered[p], out[p], g, t, sums);
  }
}

// --- scores -------------------------------------------------------------------------------------------------------------

constexpr uint32_t kScoreThreads = kSpanTiles * kWarp;

// A tile of queries of one head on its way to shared memory, with what its rows' probabilities need.
template <typename T, int kDim>
struct QueryStage {
  static constexpr int kQuads = kTile * kDim / 4;
  static constexpr int kEach = (kQuads + static_cast<int>(kScoreThreads) - 1) / static_cast<int>(kScoreThreads);
  float4 quads[kEach];
  float sum;

  // Rows that are not of the step get a sum of infinity: they give everything the probability 0.
  __device__ void Fetch(const AttentionShape& shape, int64_t width, const TileRows& rows, int32_t query_head,
                        const float* sums) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int at = static_cast<int>(threadIdx.x) + i * static_cast<int>(kScoreThreads);
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
      const int at = static_cast<int>(threadIdx.x) + i * static_cast<int>(kScoreThreads);
      const int r = at / (kDim / 4), dim = at % (kDim / 4) * 4;
      if (r >= kTile) continue;
      *reinterpret_cast<uint2*>(queries + r * kStride<kDim> + dim) =
          make_uint2(Pack(FromFloat<T>(quads[i].x), FromFloat<T>(quads[i].y)),
                     Pack(FromFloat<T>(quads[i].z), FromFloat<T>(quads[i].w)));
    }
    if (threadIdx.x < kTile) row_sums[threadIdx.x] = sum;
  }
};

// A warp's 16 keys as the product wants its first operand.
template <int kDim>
struct ReadyKeys {
  uint32_t words[kDim / 16][4];
  float scale[2] = {1.0f, 1.0f};  // of keys g and g + 8
};

// Codes, and keys that are turned, straight from the cache: once for all queries. Zeros where `scores` holds no key.
template <typename Stored, int kDim, bool kTurns>
__device__ __forceinline__ void ReadKeys(const HeadCache& cache, const RopeView& rope, const KeyScores& scores,
                                         int32_t tile, int g, int t, ReadyKeys<kDim>& ready) {
  using T = ReadyElement<Stored>;
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const bool holds = scores.holds[row];
    const int32_t slot = tile * kTile + g + row * 8, half = rope.dims / 2;
    const Stored* key = holds ? cache.At<Stored>(cache.kv.k, slot) : nullptr;
    if (holds) ready.scale[row] = cache.Scale<Stored>(cache.kv.k, slot);
    const float* cosines = kTurns && holds ? rope.table + int64_t{scores.position[row]} * rope.dims : nullptr;
#pragma unroll
    for (int i = 0; i < kDim / 8; ++i) {
      const int dim = i * 8 + t * 2;
      float x[2] = {};
      if (holds) x[0] = ToFloat(key[dim]), x[1] = ToFloat(key[dim + 1]);
      if (kTurns && holds && dim < rope.dims) {
        // What is below the half is a of (a cos - b sin, b cos + a sin), what is above it b.
        const int at = dim < half ? dim : dim - half;
        const Stored* other = key + (dim < half ? dim + half : at);
        const float sign = dim < half ? -1.0f : 1.0f;
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          x[j] = x[j] * cosines[at + j] + sign * (ToFloat(other[j]) * cosines[half + at + j]);
        }
      }
      ready.words[i / 2][i % 2 * 2 + row] = RoundPair<T>(x[0], x[1]);
    }
  }
}

// Adds what the queries of one head, which are staged, give the warp's 16 keys: part[i] of keys g (i < 4) and g + 8, of rows
// 2t, 2t + 1, 2t + 8, 2t + 9. Row r does not see positions below `first_seen` + r.
template <typename T, int kDim>
__device__ __forceinline__ void AddProbabilities(const ReadyKeys<kDim>& keys, const int32_t (&position)[2],
                                                 const T* queries, const float* row_sums, bool diagonal,
                                                 int32_t first_seen, float scale, float cap, bool square, int lane,
                                                 float (&part)[8]) {
  const int g = lane / 4, t = lane % 4;
  float c[2][4] = {};
#pragma unroll
  for (int s = 0; s < kDim / 16; ++s) {
    uint32_t b[4];
    LoadMatrices(HeadsAsColumns<T, kDim>(queries, s * 16, lane), b);
    MultiplyAdd<T>(c[0], keys.words[s], {b[0], b[1]});
    MultiplyAdd<T>(c[1], keys.words[s], {b[2], b[3]});
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) c[i / 4][i % 4] *= keys.scale[i % 4 / 2];
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

template <typename Stored, int kDim, bool kTurns>
__global__ void __launch_bounds__(kScoreThreads)
    PromptScoresMmaKernel(StepView step, RopeView rope, AttentionShape shape, const PromptSpan* spans,
                          const float* sums, float* pin_sums, KvCacheView kv) {
  AwaitEarlier();
  using T = ReadyElement<Stored>;
  alignas(16) __shared__ T queries[2][kTile * kStride<kDim>];
  __shared__ float row_sums[2][kTile];
  __shared__ float row_weights[2][kTile];  // of a tile, by the tile's number
  const PromptSpan span = spans[blockIdx.x];
  const int32_t kv_head = static_cast<int32_t>(blockIdx.y);
  const DeviceRow& row = step.rows[span.row];
  const int32_t group = shape.query_heads / kv.layout.kv_heads;
  const int64_t width = int64_t{shape.query_heads + 2 * kv.layout.kv_heads} * kDim;
  const HeadCache cache = CacheOf(step, row, kv, shape.layer, kv_head);
  const int warp = static_cast<int>(threadIdx.x / kWarp), lane = static_cast<int>(threadIdx.x % kWarp);
  const int g = lane / 4, t = lane % 4;
  const bool pins = pin_sums != nullptr;
  const Additions additions(row, group, pins);
  const int32_t heads = additions.heads;

  const int32_t live = row.live_after, last_tile = (live - 1) / kTile;
  const int32_t own_tile = span.first_tile + warp;
  const bool works = own_tile <= last_tile;
  KeyScores keys(cache, own_tile, live, g, pins ? PinSums(row, kv_head, pin_sums) : nullptr);
  ReadyKeys<kDim> ready;
  if constexpr (std::is_same_v<Stored, T> && !kTurns) {
    LoadKeys<T, kDim>(cache, own_tile, live, g, t, ready.words);
  } else {
    ReadKeys<Stored, kDim, kTurns>(cache, rope, keys, own_tile, g, t, ready);
  }

  const int32_t first_tile = max(additions.FirstTile(row), span.first_tile);
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
    row_weights[tile % 2][threadIdx.x] =
        of_step < row.token_count ? additions.RowWeight(row, row.position + of_step) : 0.0f;
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
      AddProbabilities<T, kDim>(ready, keys.position, queries[turn % 2], row_sums[turn % 2], tile == own_tile,
                                first_seen, shape.scale * kLog2E, shape.cap, additions.square, lane, part);
      if (turn % heads == heads - 1) {
        keys.AddTile(step, row, cache, shape.window, own_tile, tile, row_weights[tile % 2], additions.mean, g, t, part);
      }
    }
    if (turn + 1 < turns) store(turn + 1);
    __syncthreads();
  }
  keys.Store(t);
}

// Calls launch(Stored(), head_dim, whether keys are turned) where there is such a kernel, else returns false.
template <typename Function>
bool WithPromptCache(const RopeView& rope, const PromptSpans& spans, const KvCacheLayout& layout,
                     const Function& launch) {
  const bool turns = spans.rolls && rope.table != nullptr;
  if (turns && !CanTurn(rope)) return false;
  return WithMmaCache(layout, [&](auto stored, auto dim) {
    turns ? launch(stored, dim, std::true_type()) : launch(stored, dim, std::false_type());
  });
}

}  // namespace

bool LaunchPromptAttentionMma(cudaStream_t stream, const StepView& step, const RopeView& rope,
                              const AttentionShape& shape, const PromptSpans& spans, float* sums,
                              const KvCacheView& kv) {
  const int32_t heads = HeadsOfBlock(shape.query_heads / kv.layout.kv_heads);
  return WithPromptCache(rope, spans, kv.layout, [&](auto stored, auto dim, auto turns) {
    using Layout = PromptStage<decltype(stored), dim(), turns()>;
    static_assert(Layout::kBytes <= kSharedBytesMax);
    const dim3 blocks(static_cast<uint32_t>(spans.count), static_cast<uint32_t>(shape.query_heads),
                      kSpanTiles / kBlockPairs<dim()>);
    LaunchShared(stream, blocks, kThreads, Layout::kBytes, PromptMmaKernel<decltype(stored), dim(), turns()>, step,
                 rope, shape, heads, spans.spans, sums, kv);
  });
}

bool LaunchPromptScoresMma(cudaStream_t stream, const StepView& step, const RopeView& rope, const AttentionShape& shape,
                           const PromptSpans& spans, const float* sums, const KvCacheView& kv) {
  const dim3 blocks(static_cast<uint32_t>(spans.count), static_cast<uint32_t>(kv.layout.kv_heads));
  return WithPromptCache(rope, spans, kv.layout, [&](auto stored, auto dim, auto turns) {
    Launch(stream, blocks, kScoreThreads, PromptScoresMmaKernel<decltype(stored), dim(), turns()>, step, rope, shape,
           spans.spans, sums, spans.pin_sums, kv);
  });
}

}  // namespace hydrant::cuda
