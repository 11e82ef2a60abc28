// The splits of decode attention on tensor cores, for 16-bit caches that need no rotation.
//
// A generated token has up to eight queries per KV head here, and a product has sixteen rows. So a query is given in two
// halves of the cache's type, q = high + low, one in row h and one in row h + 8, and the sum of both rows is the logit as
// fp32 would nearly have it (2^-17); the weights of the values likewise. A warp brings its own tiles of 16 slots to shared memory,
// a few ahead of the one that it multiplies, and waits for no other warp before the split's end.
#include <cstddef>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/cache.cuh"
#include "kernels/cuda/attention/mma_cache.h"
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

// Keys, or values, of one staged tile.
template <int kDim>
inline constexpr int kTileElements = kBlockSlots* kStride<kDim>;

// Tiles of a warp that are on their way or being multiplied: of 128 dimensions three blocks share a multiprocessor of 227
// KB, of 64 five, as many as registers allow; one fits the 99 KB of small devices.
template <int kDim>
inline constexpr int kStages = kDim <= 128 ? 2 : 1;

template <int kDim>
inline constexpr size_t kSharedBytes = size_t{kWarps} * kStages<kDim> * 2 * kTileElements<kDim> * 2;

// x as two numbers of type T.
template <typename T>
struct Halves {
  T high, low;
  __device__ explicit Halves(float x) : high(FromFloat<T>(x)), low(FromFloat<T>(x - ToFloat(high))) {}
};

// Two neighbouring elements in one register each, of rows h and h + 8.
template <typename T>
__device__ __forceinline__ void PackRows(float first, float second, uint32_t& row_high, uint32_t& row_low) {
  const Halves<T> a(first), b(second);
  row_high = Pack(a.high, b.high);
  row_low = Pack(a.low, b.low);
}

// Keys and values of a tile on their way to `staged`: first the keys, then the values; zeros from slot `present` of the tile on,
// where memory may hold anything, and a weight of 0 would not undo a NaN.
template <typename T, int kDim>
__device__ __forceinline__ void StageTile(const KvCacheView& kv, int64_t tile, int32_t present, int lane, T* staged) {
  constexpr int kPiece = 8, kPieces = kDim / kPiece;
  const T* keys = static_cast<const T*>(kv.k) + tile;
  const T* values = static_cast<const T*>(kv.v) + tile;
#pragma unroll
  for (int i = lane; i < kBlockSlots * kPieces; i += kWarp) {
    const int slot = i / kPieces, dim = i % kPieces * kPiece;
    CopyAsync16(staged + slot * kStride<kDim> + dim, keys + i * kPiece, slot < present);
    CopyAsync16(staged + kTileElements<kDim> + slot * kStride<kDim> + dim, values + i * kPiece, slot < present);
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
  float total = gathered.total;
  total += __shfl_xor_sync(kAllLanes, total, 1);
  total += __shfl_xor_sync(kAllLanes, total, 2);
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

// Logits of the staged keys with the heads' halves: c[i / 2][i % 2] of head g and slot 8 (i / 2) + 2t + i % 2, capped, not scaled.
template <typename T, int kDim>
__device__ __forceinline__ void MultiplyKeys(const uint32_t (&query)[kDim / 16][4], const T* keys, float cap, int lane,
                                             float (&logit)[4]) {
  float c[2][4] = {};
#pragma unroll
  for (int s = 0; s < kDim / 16; ++s) {
    uint32_t b[4];
    LoadMatrices(HeadsAsColumns<T, kDim>(keys, s * 16, lane), b);
    MultiplyAdd<T>(c[0], query[s], {b[0], b[1]});
    MultiplyAdd<T>(c[1], query[s], {b[2], b[3]});
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float product = c[i / 2][i % 2] + c[i / 2][i % 2 + 2];
    logit[i] = cap > 0.0f ? CapProduct(product, cap) : product;
  }
}

// Adds the staged values with their weights, of the slots that a logit has above.
template <typename T, int kDim>
__device__ __forceinline__ void AddValues(const float (&weight)[4], const T* values, int lane,
                                          float (&out)[kDim / 8][4]) {
  uint32_t weights[4];
  PackRows<T>(weight[0], weight[1], weights[0], weights[1]);
  PackRows<T>(weight[2], weight[3], weights[2], weights[3]);
#pragma unroll
  for (int n = 0; n < kDim / 8; n += 2) {
    uint32_t b[4];
    LoadMatricesTransposed(DimensionsAsColumns<T, kDim>(values, n * 8, lane), b);
    MultiplyAdd<T>(out[n], weights, {b[0], b[1]});
    MultiplyAdd<T>(out[n + 1], weights, {b[2], b[3]});
  }
}

template <typename T, int kDim>
__global__ void __launch_bounds__(kThreads)
    DecodeSplitMmaKernel(StepView step, AttentionShape shape, const DecodeItem* items, float* scratch, KvCacheView kv) {
  AwaitEarlier();
  constexpr int kRing = kStages<kDim>, kStageElements = 2 * kTileElements<kDim>;
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
  T* ring = reinterpret_cast<T*>(SharedMemory()) + warp * kRing * kStageElements;
  const auto stage = [&](int32_t ahead, int place) {
    if (ahead < tile_end)
      StageTile<T, kDim>(kv, cache.Element(ahead), live - ahead, lane, ring + place * kStageElements);
    CommitCopies();
  };
#pragma unroll
  for (int i = 0; i < kRing - 1; ++i) stage(slot + i * kStep, i);

  const int64_t width = int64_t{shape.query_heads + 2 * kv.layout.kv_heads} * kDim;
  const float* q = shape.qkv + row.token_begin * width + int64_t{first_head + g} * kDim;
  uint32_t query[kDim / 16][4];
#pragma unroll
  for (int s = 0; s < kDim / 16; ++s) {
#pragma unroll
    for (int reg = 0; reg < 2; ++reg) {
      const float2 pair =
          g < heads ? *reinterpret_cast<const float2*>(q + s * 16 + reg * 8 + t * 2) : make_float2(0.0f, 0.0f);
      PackRows<T>(pair.x, pair.y, query[s][reg * 2], query[s][reg * 2 + 1]);
    }
  }

  const int64_t stride = WholeBlocks(live);
  float* logits = item.logits >= 0 && g < heads ? scratch + item.logits + int64_t{first_head + g} * stride : nullptr;
  Gathered<kDim> gathered;
  for (int place = 0; slot < tile_end; slot += kStep, place = place + 1 == kRing ? 0 : place + 1) {
    stage(slot + (kRing - 1) * kStep, place == 0 ? kRing - 1 : place - 1);
    WaitForCopies<kRing - 1>();
    __syncwarp();
    const T* keys = ring + place * kStageElements;
    float logit[4];  // of head g: slots 2t, 2t + 1, 2t + 8, 2t + 9
    MultiplyKeys<T, kDim>(query, keys, shape.cap, lane, logit);
    float most = gathered.largest;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int32_t at = slot + i / 2 * 8 + t * 2 + i % 2;
      const bool hidden = first_seen > 0 && at < live && kv.position[cache.ScoreAt(at)] < first_seen;
      logit[i] = at < live && !hidden ? logit[i] * shape.scale : -INFINITY;
      most = fmaxf(most, logit[i]);
      if (logits != nullptr && at < live) logits[at] = logit[i];
    }
    // The head's four lanes agree.
    most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 1));
    most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 2));
    const float shift = Shift(most);
    const float rescale = exp2f((gathered.largest - shift) * kLog2E);
    float weight[4], sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      weight[i] = exp2f((logit[i] - shift) * kLog2E);
      sum += weight[i];
    }
    gathered.total = fmaf(gathered.total, rescale, sum);
    gathered.largest = most;
    // The largest logit seldom changes; what is skipped are products with 1.
    if (__ballot_sync(kAllLanes, rescale != 1.0f) != 0) {
#pragma unroll
      for (int i = 0; i < kDim / 2; ++i) gathered.out[i / 4][i % 4] *= rescale;
    }
    AddValues<T, kDim>(weight, keys + kTileElements<kDim>, lane, gathered.out);
    __syncwarp();  // everybody has read what the next copies overwrite
  }

  LetNextBegin();  // keys and values are read
  WaitForCopies<0>();
  __syncthreads();  // the warps' tiles become the place where they join
  float* partial = scratch + item.partials + (int64_t{split} * shape.query_heads + first_head) * (kDim + 2);
  JoinWarps<kDim>(gathered, heads, reinterpret_cast<float*>(SharedMemory()), partial);
}

}  // namespace

bool LaunchDecodeSplitsMma(cudaStream_t stream, const StepView& step, const AttentionShape& shape,
                           const DecodeItem* items, int32_t count, int32_t splits_max, float* scratch,
                           const KvCacheView& kv) {
  const int32_t group = shape.query_heads / kv.layout.kv_heads;
  const dim3 blocks(static_cast<uint32_t>(splits_max),
                    static_cast<uint32_t>(kv.layout.kv_heads) * BlocksFor(group, kHeadsPerBlock),
                    static_cast<uint32_t>(count));
  return WithMmaCache(kv.layout, [&](auto element, auto dim) {
    static_assert(kSharedBytes<dim()> >= kWarps * kHeadsPerBlock * dim() * sizeof(float));
    LaunchShared(stream, blocks, kThreads, kSharedBytes<dim()>, DecodeSplitMmaKernel<decltype(element), dim()>, step,
                 shape, items, scratch, kv);
  });
}

}  // namespace hydrant::cuda
