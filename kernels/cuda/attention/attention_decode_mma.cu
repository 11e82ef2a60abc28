// The splits of decode attention on tensor cores, for caches of 16 bits, and of int8.
//
// A generated token has up to eight queries per KV head here, and a product has sixteen rows. So a query is given in two
// halves of the cache's type, q = high + low, one in row h and one in row h + 8, and the sum of both rows is the logit as
// fp32 would nearly have it (2^-17); the weights of the values likewise. A warp brings its own tiles of 16 slots to shared memory,
// a few ahead of the one that it multiplies, and waits for no other warp before the split's end. What is there is made ready first
// where it has to be: codes of int8 become bf16, which holds them exactly, and keys without rotation (of rolling policies) are
// turned to their positions, in two numbers each as the queries.
#include <cstddef>
#include <type_traits>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/cache.cuh"
#include "kernels/cuda/attention/mma_cache.h"
#include "kernels/cuda/attention/ready_heads.cuh"
#include "kernels/cuda/attention/staged_heads.cuh"
#include "kernels/cuda/runtime/async_copy.cuh"
#include "kernels/cuda/runtime/element.cuh"
#include "kernels/cuda/runtime/launch.h"
#include "kernels/cuda/runtime/overlap.cuh"
#include "kernels/cuda/runtime/shared_memory.cuh"
#include "kernels/cuda/runtime/tensor_core.cuh"

namespace hydrant::cuda {
namespace {

constexpr int kWarps = 4;
constexpr uint32_t kThreads = kWarps * kWarp;
constexpr int kHeadsPerBlock = 8;

// Keys, or values, of one tile that is ready.
template <int kDim>
inline constexpr int kTileElements = kBlockSlots* kStride<kDim>;

// Tiles of a warp that are on their way or being multiplied: of 128 dimensions three blocks share a multiprocessor of 227
// KB, of 64 five, as many as registers allow; one fits the 99 KB of small devices.
template <int kDim>
inline constexpr int kStages = kDim <= 128 ? 2 : 1;

// How a cache's elements of type Stored are multiplied.
template <typename Stored, int kDim, bool kTurns>
struct Staged {
  static constexpr bool kCoded = std::is_same_v<Stored, int8_t>;
  using Element = ReadyElement<Stored>;
  static constexpr int kTileBytes = kTileElements<kDim> * static_cast<int>(sizeof(Element));
  // Keys, or values, of a tile as they come.
  static constexpr int kStoredBytes = kCoded ? static_cast<int>(KvTileBytes(KvType::kInt8, kDim)) : kTileBytes;
  // A warp's: [kStages][keys, values] as they come; of codes, keys and values that are ready; the low parts of turned keys.
  static constexpr int kReadyAt = kStages<kDim> * 2 * kStoredBytes;
  static constexpr int kLowAt = kReadyAt + (kCoded ? 2 * kTileBytes : 0);
  static constexpr int kWarpBytes = kLowAt + (kTurns ? kTileBytes : 0);
  static constexpr int kBytes = kWarps * kWarpBytes;
};

// Keys and values of the tile from `slot` on, on their way to `staged`: first the keys, then the values; zeros from slot `present` of the
// tile on, where memory may hold anything, and a weight of 0 would not undo a NaN. Codes come with their scales: all as it lies in the
// cache.
template <typename Stored, int kDim>
__device__ __forceinline__ void StageTile(const HeadCache& cache, int32_t slot, int32_t present, int lane,
                                          std::byte* staged) {
  constexpr int kPiece = 16;
  if constexpr (std::is_same_v<Stored, int8_t>) {
    constexpr int kScalePieces = static_cast<int>(KvScaleBytes(KvType::kInt8)) / kPiece;
    constexpr int kBytes = static_cast<int>(KvTileBytes(KvType::kInt8, kDim));
    const float *keys = cache.ScaleAt(cache.kv.k, slot), *values = cache.ScaleAt(cache.kv.v, slot);
#pragma unroll
    for (int i = lane; i < kBytes / kPiece; i += kWarp) {
      const bool is_there = (i - kScalePieces) * kPiece < present * kDim;
      CopyAsync16(staged + i * kPiece, keys + i * 4, is_there);
      CopyAsync16(staged + kBytes + i * kPiece, values + i * 4, is_there);
    }
  } else {
    constexpr int kElements = kPiece / static_cast<int>(sizeof(Stored)), kPieces = kDim / kElements;
    const int64_t tile = cache.Element(slot);
    const Stored* keys = static_cast<const Stored*>(cache.kv.k) + tile;
    const Stored* values = static_cast<const Stored*>(cache.kv.v) + tile;
    auto* to = reinterpret_cast<Stored*>(staged);
#pragma unroll
    for (int i = lane; i < kBlockSlots * kPieces; i += kWarp) {
      const int of_tile = i / kPieces, dim = i % kPieces * kElements;
      CopyAsync16(to + of_tile * kStride<kDim> + dim, keys + i * kElements, of_tile < present);
      CopyAsync16(to + kTileElements<kDim> + of_tile * kStride<kDim> + dim, values + i * kElements, of_tile < present);
    }
  }
}

// Codes of a staged tile to rows of `ready`.
template <int kDim>
__device__ __forceinline__ void ExpandTile(const std::byte* staged, int lane, __nv_bfloat16* ready) {
  constexpr int kCodes = 16, kPieces = kDim / kCodes;
  const auto* codes = reinterpret_cast<const uint4*>(staged + KvScaleBytes(KvType::kInt8));
#pragma unroll
  for (int i = lane; i < kBlockSlots * kPieces; i += kWarp) {
    ExpandCodes(codes[i], ready + i / kPieces * kStride<kDim> + i % kPieces * kCodes);
  }
}

// The scales of slots 2t, 2t + 1, 2t + 8 and 2t + 9 of a tile.
struct TileScales {
  float key[4] = {1.0f, 1.0f, 1.0f, 1.0f}, value[4] = {1.0f, 1.0f, 1.0f, 1.0f};

  // From a staged tile of codes with `present` slots: where nothing is, memory may hold anything, and a weight of 0 would not undo a NaN.
  __device__ __forceinline__ void Read(const std::byte* keys, const std::byte* values, int32_t present, int t) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int slot = i / 2 * 8 + t * 2 + i % 2;
      key[i] = reinterpret_cast<const float*>(keys)[slot];
      value[i] = slot < present ? reinterpret_cast<const float*>(values)[slot] : 0.0f;
    }
  }
};

// The halves of head g's query as MultiplyAdd's a; zeros where there is no such head.
template <typename T, int kDim>
__device__ __forceinline__ void ReadQuery(const float* q, bool present, int t, uint32_t (&query)[kDim / 16][4]) {
#pragma unroll
  for (int i = 0; i < kDim / 8; ++i) {
    const float2 pair = present ? *reinterpret_cast<const float2*>(q + i * 8 + t * 2) : make_float2(0.0f, 0.0f);
    PackHalves<T>(pair.x, pair.y, query[i / 2][i % 2 * 2], query[i / 2][i % 2 * 2 + 1]);
  }
}

// One warp's part of a split: what eight heads gather over its tiles of 16 slots.
template <int kDim>
struct Gathered {
  float largest = -INFINITY;  // of head g, the same in its four lanes
  float total = 0.0f;         // of this lane's slots
  // out[n] is product n, [4] as MultiplyAdd's c: rows g and g + 8 are the halves of head g, columns the dimensions from 8n on.
  float out[kDim / 8][4] = {};
};

// The warps' parts, joined in their order, become the split's partial outputs. `joined` is shared memory that nobody needs any
// more: [kWarps][kHeadsPerBlock][kDim].
template <int kDim>
__device__ void JoinWarps(const Gathered<kDim>& gathered, int32_t heads, float* joined, float* partial) {
  __shared__ float of_warp[kWarps][kHeadsPerBlock][2];  // largest logit, sum of weights
  const int warp = static_cast<int>(threadIdx.x / kWarp), lane = static_cast<int>(threadIdx.x % kWarp);
  const int g = lane / 4, t = lane % 4;
  float total = WarpReduce<4>(gathered.total, Sum());
  if (t == 0) {
    of_warp[warp][g][0] = gathered.largest;
    of_warp[warp][g][1] = total;
  }
  __syncthreads();
  float most = -INFINITY;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) most = fmaxf(most, of_warp[w][g][0]);
  const float own = gathered.largest == -INFINITY ? 0.0f : exp2f((gathered.largest - most) * kLog2E);
  float* of_head = joined + (warp * kHeadsPerBlock + g) * kDim;
#pragma unroll
  for (int n = 0; n < kDim / 8; ++n) {
    const float(&c)[4] = gathered.out[n];
    *reinterpret_cast<float2*>(of_head + n * 8 + t * 2) = make_float2((c[0] + c[2]) * own, (c[1] + c[3]) * own);
  }
  __syncthreads();
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < heads * kDim; i += kThreads) {
    float sum = joined[i];
#pragma unroll
    for (int w = 1; w < kWarps; ++w) sum += joined[w * kHeadsPerBlock * kDim + i];
    partial[i / kDim * (kDim + 2) + i % kDim] = sum;
  }
  if (warp != 0 || t != 0 || g >= heads) return;
  total = 0.0f;
  for (int w = 0; w < kWarps; ++w) {
    const float largest = of_warp[w][g][0];
    if (largest > -INFINITY) total = fmaf(exp2f((largest - most) * kLog2E), of_warp[w][g][1], total);
  }
  partial[g * (kDim + 2) + kDim] = most;
  partial[g * (kDim + 2) + kDim + 1] = total;
}

// Adds the products of the heads' halves and the keys of a tile: c[i / 2] of head g (i % 4 < 2) and of what its numbers leave out, and
// slot 8 (i / 2) + 2t + i % 2.
template <typename T, int kDim>
__device__ __forceinline__ void MultiplyKeys(const uint32_t (&query)[kDim / 16][4], const T* keys, int lane,
                                             float (&c)[2][4]) {
#pragma unroll
  for (int s = 0; s < kDim / 16; ++s) {
    uint32_t b[4];
    LoadMatrices(HeadsAsColumns<T, kDim>(keys, s * 16, lane), b);
    MultiplyAdd<T>(c[0], query[s], {b[0], b[1]});
    MultiplyAdd<T>(c[1], query[s], {b[2], b[3]});
  }
}

// Adds the values of a tile with their weights, of slots 2t, 2t + 1, 2t + 8 and 2t + 9.
template <typename T, int kDim>
__device__ __forceinline__ void AddValues(const float (&weight)[4], const T* values, int lane,
                                          float (&out)[kDim / 8][4]) {
  uint32_t weights[4];
  PackHalves<T>(weight[0], weight[1], weights[0], weights[1]);
  PackHalves<T>(weight[2], weight[3], weights[2], weights[3]);
#pragma unroll
  for (int n = 0; n < kDim / 8; n += 2) {
    uint32_t b[4];
    LoadMatricesTransposed(DimensionsAsColumns<T, kDim>(values, n * 8, lane), b);
    MultiplyAdd<T>(out[n], weights, {b[0], b[1]});
    MultiplyAdd<T>(out[n + 1], weights, {b[2], b[3]});
  }
}

// `rope`: of keys that are turned (kTurns).
template <typename Stored, int kDim, bool kTurns>
__global__ void __launch_bounds__(kThreads)
    DecodeSplitMmaKernel(StepView step, RopeView rope, AttentionShape shape, const DecodeItem* items, float* scratch,
                         KvCacheView kv) {
  AwaitEarlier();
  using Layout = Staged<Stored, kDim, kTurns>;
  using T = typename Layout::Element;
  constexpr int kRing = kStages<kDim>, kStageBytes = 2 * Layout::kStoredBytes;
  const DecodeItem& item = items[blockIdx.z];
  const int32_t split = static_cast<int32_t>(blockIdx.x);
  if (split >= item.splits) return;
  const DeviceRow& row = step.rows[item.row];
  const int32_t group = shape.query_heads / kv.layout.kv_heads;
  const int32_t parts = (group + kHeadsPerBlock - 1) / kHeadsPerBlock;
  const int32_t kv_head = static_cast<int32_t>(blockIdx.y) / parts;
  const int32_t first_head = kv_head * group + static_cast<int32_t>(blockIdx.y) % parts * kHeadsPerBlock;
  const int32_t heads = min(kv_head * group + group - first_head, kHeadsPerBlock);
  const HeadCache cache = CacheOf(step, row, kv, shape.layer, kv_head);
  const int warp = static_cast<int>(threadIdx.x / kWarp), lane = static_cast<int>(threadIdx.x % kWarp);
  const int g = lane / 4, t = lane % 4;
  const int32_t live = row.live_after;
  const int32_t first_seen = FirstSeen(row, shape.window, 0);

  // The warp's tiles: every fourth from its first on. Without scores nobody asks for the logits of hidden slots, so their tiles are
  // left out.
  const int32_t tile_end = SplitEnd(split, item.splits, live);
  constexpr int32_t kStep = kWarps * kBlockSlots;
  int32_t slot = split * kSplitSlots + warp * kBlockSlots;
  if (row.in_order() && item.logits < 0 && first_seen > slot) {
    slot += (first_seen / kBlockSlots * kBlockSlots - slot + kStep - 1) / kStep * kStep;
  }
  std::byte* ring = SharedMemory() + warp * Layout::kWarpBytes;
  const auto stage = [&](int32_t ahead, int place) {
    std::byte* to = ring + place * kStageBytes;
    if (ahead < tile_end) StageTile<Stored, kDim>(cache, ahead, live - ahead, lane, to);
    CommitCopies();
  };
  // The position of slot `lane` / 2 of a tile is asked for while the tile before it is multiplied.
  const auto position_in = [&](int32_t ahead) {
    const int32_t at = ahead + lane / 2;
    return ahead < tile_end && at < live ? kv.position[cache.ScoreAt(at)] : 0;
  };
  int32_t position = kTurns ? position_in(slot) : 0;
#pragma unroll
  for (int i = 0; i < kRing - 1; ++i) stage(slot + i * kStep, i);

  const int64_t width = int64_t{shape.query_heads + 2 * kv.layout.kv_heads} * kDim;
  const float* q = shape.qkv + row.token_begin * width + int64_t{first_head + g} * kDim;
  uint32_t query[kDim / 16][4];
  ReadQuery<T, kDim>(q, g < heads, t, query);

  const int64_t stride = WholeBlocks(live);
  float* logits = item.logits >= 0 && g < heads ? scratch + item.logits + int64_t{first_head + g} * stride : nullptr;
  Gathered<kDim> gathered;
  for (int place = 0; slot < tile_end; slot += kStep, place = place + 1 == kRing ? 0 : place + 1) {
    stage(slot + (kRing - 1) * kStep, place == 0 ? kRing - 1 : place - 1);
    WaitForCopies<kRing - 1>();
    __syncwarp();
    const std::byte* staged = ring + place * kStageBytes;
    T *keys, *values, *low = reinterpret_cast<T*>(ring + Layout::kLowAt);
    TileScales scales;
    if constexpr (Layout::kCoded) {
      keys = reinterpret_cast<T*>(ring + Layout::kReadyAt);
      values = keys + kTileElements<kDim>;
      ExpandTile<kDim>(staged, lane, keys);
      ExpandTile<kDim>(staged + Layout::kStoredBytes, lane, values);
      scales.Read(staged, staged + Layout::kStoredBytes, live - slot, t);
    } else {
      keys = reinterpret_cast<T*>(ring + place * kStageBytes);
      values = keys + kTileElements<kDim>;
    }
    if constexpr (kTurns) {
      const int32_t here = position;
      position = position_in(slot + kStep);
      if constexpr (Layout::kCoded) __syncwarp();
      const int own = lane / 2 * kStride<kDim>;
      TurnHead<T, kDim, true>(rope, here, lane % 2, keys + own, low + own);
    }
    if constexpr (Layout::kCoded || kTurns) __syncwarp();
    float products[2][4] = {};
    MultiplyKeys<T, kDim>(query, keys, lane, products);
    if constexpr (kTurns) MultiplyKeys<T, kDim>(query, low, lane, products);
    float logit[4];  // of head g: slots 2t, 2t + 1, 2t + 8, 2t + 9
    float most = gathered.largest;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int32_t at = slot + i / 2 * 8 + t * 2 + i % 2;
      const float sum = (products[i / 2][i % 2] + products[i / 2][i % 2 + 2]) * scales.key[i];
      const float product = shape.cap > 0.0f ? CapProduct(sum, shape.cap) : sum;
      const bool hidden = first_seen > 0 && at < live && kv.position[cache.ScoreAt(at)] < first_seen;
      logit[i] = at < live && !hidden ? product * shape.scale : -INFINITY;
      most = fmaxf(most, logit[i]);
      if (logits != nullptr && at < live) logits[at] = logit[i];
    }
    // The head's four lanes agree.
    most = WarpReduce<4>(most, LargestNumber());
    const float shift = Shift(most);
    const float rescale = exp2f((gathered.largest - shift) * kLog2E);
    float weight[4], sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      weight[i] = exp2f((logit[i] - shift) * kLog2E);
      sum += weight[i];
      weight[i] *= scales.value[i];
    }
    gathered.total = fmaf(gathered.total, rescale, sum);
    gathered.largest = most;
    // The largest logit seldom changes; what is skipped are products with 1.
    if (__ballot_sync(kAllLanes, rescale != 1.0f) != 0) {
#pragma unroll
      for (int i = 0; i < kDim / 2; ++i) gathered.out[i / 4][i % 4] *= rescale;
    }
    AddValues<T, kDim>(weight, values, lane, gathered.out);
    __syncwarp();  // everybody has read what the next copies overwrite
  }

  LetNextBegin();  // keys and values are read
  WaitForCopies<0>();
  __syncthreads();  // the warps' tiles become the place where they join
  float* partial = scratch + item.partials + (int64_t{split} * shape.query_heads + first_head) * (kDim + 2);
  JoinWarps<kDim>(gathered, heads, reinterpret_cast<float*>(SharedMemory()), partial);
}

}  // namespace

bool LaunchDecodeSplitsMma(cudaStream_t stream, const StepView& step, const RopeView& rope, const AttentionShape& shape,
                           const DecodeItem* items, int32_t count, int32_t splits_max, bool rolls, float* scratch,
                           const KvCacheView& kv) {
  const bool turns = rolls && rope.table != nullptr;
  if (turns && !CanTurn(rope)) return false;
  const int32_t group = shape.query_heads / kv.layout.kv_heads;
  const dim3 blocks(static_cast<uint32_t>(splits_max),
                    static_cast<uint32_t>(kv.layout.kv_heads) * BlocksFor(group, kHeadsPerBlock),
                    static_cast<uint32_t>(count));
  bool fits = true;
  const auto launch = [&](auto stored, auto dim, auto turned) {
    using Layout = Staged<decltype(stored), dim(), turned()>;
    static_assert(Layout::kBytes >= kWarps * kHeadsPerBlock * dim() * static_cast<int>(sizeof(float)));
    if constexpr (Layout::kBytes > kSharedBytesMax) {
      fits = false;
    } else {
      LaunchShared(stream, blocks, kThreads, Layout::kBytes, DecodeSplitMmaKernel<decltype(stored), dim(), turned()>,
                   step, rope, shape, items, scratch, kv);
    }
  };
  return WithMmaCache(kv.layout,
                      [&](auto stored, auto dim) {
                        turns ? launch(stored, dim, std::true_type()) : launch(stored, dim, std::false_type());
                      }) &&
         fits;
}

}  // namespace hydrant::cuda
