// The splits of decode attention on tensor cores, for 16-bit caches that need no rotation.
//
// A generated token has up to eight queries per KV head here, and a product has sixteen rows. So a query is given in two
// halves of the cache's type, q = high + low, one in row h and one in row h + 8, and the sum of both rows is the logit as
// fp32 would nearly have it (2^-17); the weights of the values likewise. Nothing is read twice and nothing is staged: keys
// and values go from memory to the registers in which the product wants them, because the order in which a product counts
// its inner dimension, or the columns of the result, is free as long as both sides count alike.
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/cache.cuh"
#include "kernels/cuda/attention/mma_cache.h"
#include "kernels/cuda/runtime/element.cuh"
#include "kernels/cuda/runtime/launch.h"
#include "kernels/cuda/runtime/overlap.cuh"
#include "kernels/cuda/runtime/tensor_core.cuh"

namespace hydrant::cuda {
namespace {

constexpr int kWarps = 4;
constexpr uint32_t kThreads = kWarps * kWarp;
constexpr int kHeadsPerBlock = 8;

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

// `kBytes` from memory to registers in one access.
template <int kBytes>
__device__ __forceinline__ void LoadWords(const void* from, uint32_t* to) {
  if constexpr (kBytes == 16) {
    const uint4 words = *static_cast<const uint4*>(from);
    to[0] = words.x, to[1] = words.y, to[2] = words.z, to[3] = words.w;
  } else if constexpr (kBytes == 8) {
    const uint2 words = *static_cast<const uint2*>(from);
    to[0] = words.x, to[1] = words.y;
  } else {
    to[0] = *static_cast<const uint32_t*>(from);
  }
}

// The inner dimension of q k: 32 elements of a head at a time, of which lane t of four holds the neighbours [8t, 8t + 8), two
// products; a rest of 16 is one product of [4t, 4t + 4). Element e of step s belongs to dimension DimOf(t, s, e).
template <int kDim>
struct KeyOrder {
  static constexpr int kSteps = kDim / 16;
  static constexpr int kPairs = kDim / 32;
  static_assert(kDim % 16 == 0);
  // First of the two dimensions that register `reg` (0: first 8 of the product, 1: last 8) of lane t holds in product `step`.
  __device__ static int DimOf(int t, int step, int reg) {
    if (step / 2 < kPairs) return step / 2 * 32 + t * 8 + step % 2 * 4 + reg * 2;
    return kPairs * 32 + t * 4 + reg * 2;
  }
};

// Registers of one key, as KeyOrder has them: [step][reg], flat because one access fills two steps.
template <int kDim>
__device__ __forceinline__ void LoadKey(const void* key, int t, uint32_t (&words)[kDim / 8]) {
  const auto* bytes = static_cast<const char*>(key);
#pragma unroll
  for (int pair = 0; pair < KeyOrder<kDim>::kPairs; ++pair) LoadWords<16>(bytes + pair * 64 + t * 16, words + pair * 4);
  if constexpr (kDim % 32 != 0) {
    LoadWords<8>(bytes + KeyOrder<kDim>::kPairs * 64 + t * 8, words + KeyOrder<kDim>::kPairs * 4);
  }
}

// One warp's part of a split: what eight heads gather over its tiles of 16 slots.
template <typename T, int kDim>
struct Gathered {
  float largest = -INFINITY;  // of head g, the same in its four lanes
  float total = 0.0f;
  // out[n] is product n, [4] as MultiplyAdd's c: rows g and g + 8 are the halves of head g. Columns are dimensions in the order of
  // ValueDim.
  float out[kDim / 8][4] = {};
};

// Values: lane g of eight holds `kWide / 8` neighbouring dimensions of four slots, one in each of that many products.
// Column `col` of product n, of those that begin with dimension `first`.
template <int kWide>
__device__ __forceinline__ int ValueDim(int first, int n, int col) {
  return first + col * (kWide / 8) + n;
}

// Adds weights times values over kWide dimensions from `first` on; `rows` are the four slots' values, null where no token is.
template <typename T, int kDim, int kWide>
__device__ __forceinline__ void AddValues(const T* const (&rows)[4], const uint32_t (&weights)[4], int g, int first,
                                          float (*out)[4]) {
  constexpr int kEach = kWide / 8;  // elements of a slot in this lane, and products
  constexpr int kWords = kEach / 2;
  uint32_t words[4][kWords];
#pragma unroll
  for (int slot = 0; slot < 4; ++slot) {
    if (rows[slot] != nullptr) {
      LoadWords<kEach * 2>(rows[slot] + first + g * kEach, words[slot]);
    } else {
#pragma unroll
      for (int i = 0; i < kWords; ++i) words[slot][i] = 0;
    }
  }
  __syncwarp();  // lanes without a token come back to the others before the products
#pragma unroll
  for (int n = 0; n < kEach; ++n) {
    const auto half = [&](int slot) { return n % 2 == 0 ? words[slot][n / 2] & 0xffffu : words[slot][n / 2] >> 16; };
    const uint32_t b[2] = {half(0) | half(1) << 16, half(2) | half(3) << 16};
    MultiplyAdd<T>(out[n], weights, b);
  }
}

// The warps' parts, joined in their order, become the split's partial outputs.
template <typename T, int kDim>
__device__ void JoinWarps(const Gathered<T, kDim>& gathered, int32_t heads, float* partial) {
  __shared__ float joined[kHeadsPerBlock][kDim];
  __shared__ float of_warp[kWarps][kHeadsPerBlock][2];  // largest logit, sum of weights
  const int warp = static_cast<int>(threadIdx.x / kWarp), lane = static_cast<int>(threadIdx.x % kWarp);
  const int g = lane / 4, t = lane % 4;
  constexpr int kLast = kDim % 64 == 0 ? 64 : kDim % 64;  // dimensions of the last products of values
  if (t == 0) {
    of_warp[warp][g][0] = gathered.largest;
    of_warp[warp][g][1] = gathered.total;
  }
  __syncthreads();
  float most = -INFINITY;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) most = fmaxf(most, of_warp[w][g][0]);
  const float own = gathered.largest == -INFINITY ? 0.0f : exp2f((gathered.largest - most) * kLog2E);
  for (int w = 0; w < kWarps; ++w) {
    if (w == warp) {
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int col = t * 2 + i;
          const int first = n / 8 * 64;
          const int dim = first + 64 <= kDim ? ValueDim<64>(first, n % 8, col) : ValueDim<kLast>(first, n % 8, col);
          const float part = (gathered.out[n][i] + gathered.out[n][i + 2]) * own;
          joined[g][dim] = w == 0 ? part : joined[g][dim] + part;
        }
      }
    }
    __syncthreads();
  }
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < heads * kDim; i += kThreads) {
    partial[i / kDim * (kDim + 2) + i % kDim] = joined[i / kDim][i % kDim];
  }
  if (warp != 0 || t != 0 || g >= heads) return;
  float total = 0.0f;
  for (int w = 0; w < kWarps; ++w) {
    const float largest = of_warp[w][g][0];
    if (largest > -INFINITY) total = fmaf(exp2f((largest - most) * kLog2E), of_warp[w][g][1], total);
  }
  partial[g * (kDim + 2) + kDim] = most;
  partial[g * (kDim + 2) + kDim + 1] = total;
}

template <typename T, int kDim>
__global__ void __launch_bounds__(kThreads)
    DecodeSplitMmaKernel(StepView step, AttentionShape shape, const DecodeItem* items, float* scratch, KvCacheView kv) {
  AwaitEarlier();
  constexpr int kSteps = KeyOrder<kDim>::kSteps;
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

  const int64_t width = int64_t{shape.query_heads + 2 * kv.layout.kv_heads} * kDim;
  const float* q = shape.qkv + row.token_begin * width + int64_t{first_head + g} * kDim;
  uint32_t query[kSteps][4];
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
#pragma unroll
    for (int reg = 0; reg < 2; ++reg) {
      const int dim = KeyOrder<kDim>::DimOf(t, s, reg);
      PackRows<T>(g < heads ? q[dim] : 0.0f, g < heads ? q[dim + 1] : 0.0f, query[s][reg * 2], query[s][reg * 2 + 1]);
    }
  }

  const int64_t stride = WholeBlocks(live);
  float* logits = item.logits >= 0 && g < heads ? scratch + item.logits + int64_t{first_head + g} * stride : nullptr;
  Gathered<T, kDim> gathered;
  const int32_t first_seen = FirstSeen(row, shape.window, 0);
  // Without scores nobody asks for the logits of hidden slots, so their tiles are left out.
  const int32_t first_slot = row.in_order() && item.logits < 0 ? first_seen / kBlockSlots * kBlockSlots : 0;
  const int32_t tile_end = SplitEnd(split, item.splits, live);
  for (int32_t slot = split * kSplitSlots + warp * kBlockSlots; slot < tile_end; slot += kWarps * kBlockSlots) {
    if (slot < first_slot) continue;
    // All 16 slots of a tile are memory of the sequence; those that no token occupies are masked.
    const int64_t tile = cache.Element(slot);
    const T* keys = static_cast<const T*>(kv.k) + tile;
    const T* values = static_cast<const T*>(kv.v) + tile;
    float c[2][4] = {};
#pragma unroll
    for (int eight = 0; eight < 2; ++eight) {
      uint32_t key[kDim / 8];
      LoadKey<kDim>(keys + (eight * 8 + g) * kDim, t, key);
#pragma unroll
      for (int s = 0; s < kSteps; ++s) MultiplyAdd<T>(c[eight], query[s], {key[2 * s], key[2 * s + 1]});
    }
    if (shape.cap > 0.0f) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float* halves = &c[i / 2][i % 2];
        halves[0] = CapProduct(halves[0] + halves[2], shape.cap);
        halves[2] = 0.0f;
      }
    }
    float logit[4];  // of head g: slots 2t, 2t + 1, 2t + 8, 2t + 9
    float most = gathered.largest;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int32_t at = slot + i / 2 * 8 + t * 2 + i % 2;
      const bool hidden = first_seen > 0 && at < live && kv.position[cache.ScoreAt(at)] < first_seen;
      logit[i] = at < live && !hidden ? (c[i / 2][i % 2] + c[i / 2][i % 2 + 2]) * shape.scale : -INFINITY;
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
    sum += __shfl_xor_sync(kAllLanes, sum, 1);
    sum += __shfl_xor_sync(kAllLanes, sum, 2);
    gathered.total = fmaf(gathered.total, rescale, sum);
    gathered.largest = most;
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) gathered.out[n][i] *= rescale;
    }
    uint32_t weights[4];
    PackRows<T>(weight[0], weight[1], weights[0], weights[1]);
    PackRows<T>(weight[2], weight[3], weights[2], weights[3]);
    const T* rows[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int32_t of_tile = i / 2 * 8 + t * 2 + i % 2;
      rows[i] = slot + of_tile < live ? values + of_tile * kDim : nullptr;
    }
    constexpr int kFull = kDim / 64, kRest = kDim % 64;
#pragma unroll
    for (int chunk = 0; chunk < kFull; ++chunk) {
      AddValues<T, kDim, 64>(rows, weights, g, chunk * 64, gathered.out + chunk * 8);
    }
    if constexpr (kRest > 0) AddValues<T, kDim, kRest>(rows, weights, g, kFull * 64, gathered.out + kFull * 8);
  }

  float* partial = scratch + item.partials + (int64_t{split} * shape.query_heads + first_head) * (kDim + 2);
  JoinWarps<T, kDim>(gathered, heads, partial);
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
    Launch(stream, blocks, kThreads, DecodeSplitMmaKernel<decltype(element), dim()>, step, shape, items, scratch, kv);
  });
}

}  // namespace hydrant::cuda
