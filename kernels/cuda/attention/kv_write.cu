#include <type_traits>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/cache.cuh"
#include "kernels/cuda/runtime/element.cuh"
#include "kernels/cuda/runtime/launch.h"
#include "kernels/cuda/runtime/norm_row.cuh"
#include "kernels/cuda/runtime/overlap.cuh"

namespace hydrant::cuda {
namespace {

constexpr uint32_t kThreads = 128;

// All query heads of a token, or all its key heads, as one row, in place.
__global__ void __launch_bounds__(kThreads)
    NormHeadsKernel(HeadNorms norms, AttentionShape shape, KvCacheLayout layout) {
  LetNextBegin();
  AwaitEarlier();
  const bool is_query = blockIdx.y == 0;
  NormWeight norm = norms.k;  // a reference to one of the two would have both in local memory
  if (is_query) norm = norms.q;
  if (norm.weight == nullptr) return;
  const int64_t head_dim = layout.head_dim, heads = shape.query_heads + 2 * int64_t{layout.kv_heads};
  float* x = shape.qkv + (blockIdx.x * heads + (is_query ? 0 : shape.query_heads)) * head_dim;
  // A thread puts the elements that it alone reads once the sums are known.
  NormRow(norm, x, (is_query ? shape.query_heads : layout.kv_heads) * head_dim,
          [&](int64_t col, float value) { x[col] = value; });
}

// Norm of one head in place.
__device__ void NormHead(const NormWeight& norm, float* x, int32_t head_dim) {
  if (norm.weight == nullptr) return;
  const int32_t lane = static_cast<int32_t>(threadIdx.x % kWarp);
  const float inverse = 1.0f / static_cast<float>(head_dim);
  float mean = 0.0f;
  if (norm.kind == NormKind::kLayer) {
    float sum = 0.0f;
    for (int32_t dim = lane; dim < head_dim; dim += kWarp) sum += x[dim];
    mean = WarpReduce(sum, Sum()) * inverse;
  }
  float squares = 0.0f;
  for (int32_t dim = lane; dim < head_dim; dim += kWarp) squares = fmaf(x[dim] - mean, x[dim] - mean, squares);
  const float scale = rsqrtf(WarpReduce(squares, Sum()) * inverse + norm.eps);
  for (int32_t dim = lane; dim < head_dim; dim += kWarp) {
    const float value = (x[dim] - mean) * scale * norm.weight[dim];
    x[dim] = norm.bias != nullptr ? value + norm.bias[dim] : value;
  }
  __syncwarp();
}

// A query head of `kv_head`, or its keys.
__device__ void BalanceHead(const float* balance, int32_t kv_head, bool is_query, float* x, int32_t head_dim) {
  if (balance == nullptr) return;
  const float* factors = balance + int64_t{kv_head} * head_dim;
  for (int32_t dim = static_cast<int32_t>(threadIdx.x % kWarp); dim < head_dim; dim += kWarp) {
    x[dim] = is_query ? x[dim] * factors[dim] : x[dim] / factors[dim];
  }
  __syncwarp();
}

__device__ void RotateHead(const RopeView& rope, int32_t position, float* x) {
  const int32_t half = rope.dims / 2;
  const float* cosine = rope.table + int64_t{position} * rope.dims;
  const float* sine = cosine + half;
  for (int32_t i = static_cast<int32_t>(threadIdx.x % kWarp); i < half; i += kWarp) {
    const float a = x[i], b = x[i + half];
    x[i] = a * cosine[i] - b * sine[i];
    x[i + half] = b * cosine[i] + a * sine[i];
  }
  __syncwarp();
}

// The token of rank `gap` has left: those above it move down. What lies beyond the live slots may be anything.
__device__ void CloseGap(const HeadCache& cache, int32_t live, int32_t gap) {
  for (int32_t slot = static_cast<int32_t>(threadIdx.x % kWarp); slot < live; slot += kWarp) {
    int32_t& rank = cache.kv.position[cache.ScoreAt(slot)];
    if (rank > gap) --rank;
  }
  __syncwarp();
}

template <typename T>
__device__ void StoreHead(const float* x, const HeadCache& cache, void* tiles, int32_t slot) {
  const int32_t head_dim = cache.kv.layout.head_dim;
  T* to = cache.At<T>(tiles, slot);
  for (int32_t dim = static_cast<int32_t>(threadIdx.x % kWarp); dim < head_dim; dim += kWarp) {
    to[dim] = FromFloat<T>(x[dim]);
  }
}

// As kernels/kv_cache_view.h has it.
template <>
__device__ void StoreHead<int8_t>(const float* x, const HeadCache& cache, void* tiles, int32_t slot) {
  const int32_t head_dim = cache.kv.layout.head_dim, lane = static_cast<int32_t>(threadIdx.x % kWarp);
  float largest = 0.0f;
  int32_t strange = 0;
  for (int32_t dim = lane; dim < head_dim; dim += kWarp) {
    const float size = fabsf(x[dim]);
    largest = fmaxf(largest, size);
    if (!(size < INFINITY)) strange = 1;
  }
  largest = WarpReduce(largest, Largest());
  strange = WarpReduce(strange, Largest());
  const bool kept = strange == 0 && largest >= kInt8Smallest;
  const float factor = kept ? 127.0f / largest : 0.0f;
  int8_t* to = cache.At<int8_t>(tiles, slot);
  for (int32_t dim = lane; dim < head_dim; dim += kWarp) {
    to[dim] = kept ? static_cast<int8_t>(rintf(x[dim] * factor)) : int8_t{0};
  }
  if (lane == 0) *cache.ScaleAt(tiles, slot) = strange != 0 ? NAN : kept ? largest / 127.0f : 0.0f;
}

// Slots of a block behind its last token stand for zeros, not for what the memory was used for before.
__device__ void ClearScales(const HeadCache& cache, void* tiles, int32_t slot) {
  const int32_t lane = static_cast<int32_t>(threadIdx.x % kWarp), of_block = slot % kBlockSlots;
  if (lane > of_block && lane < kBlockSlots) *cache.ScaleAt(tiles, slot - of_block + lane) = 0.0f;
}

// A head as RopeAndWriteKvKernel works on it: where it lies.
struct HeadInMemory {
  __device__ HeadInMemory(float* at, int32_t head_dim) : x(at), dims(head_dim) {}
  __device__ void Norm(const NormWeight& norm) const { NormHead(norm, x, dims); }
  __device__ void Balance(const float* balance, int32_t kv_head, bool is_query) const {
    BalanceHead(balance, kv_head, is_query, x, dims);
  }
  __device__ void Rotate(const RopeView& rope, int32_t position) const { RotateHead(rope, position, x); }
  __device__ void WriteBack() const {}
  template <typename T>
  __device__ void StoreIn(const HeadCache& cache, void* tiles, int32_t slot) const {
    StoreHead<T>(x, cache, tiles, slot);
  }

  float* const x;
  const int32_t dims;
};

template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Packed {
  T at[kCount];
};

// The same of 64 * kCount dims that rotate all or none, read and written once: each lane has `kCount` neighbours of the first half and
// those they rotate with.
template <int kCount>
class HeadInRegisters {
 public:
  __device__ HeadInRegisters(float* at, int32_t) : at_(at) { Read(at, x_); }

  __device__ void Norm(const NormWeight& norm) {
    if (norm.weight == nullptr) return;
    constexpr float kInverse = 1.0f / kDims;
    float mean = 0.0f;
    if (norm.kind == NormKind::kLayer) {
      float sum = 0.0f;
      for (const float x : x_) sum += x;
      mean = WarpReduce(sum, Sum()) * kInverse;
    }
    float squares = 0.0f;
    for (float& x : x_) {
      x -= mean;
      squares = fmaf(x, x, squares);
    }
    const float scale = rsqrtf(WarpReduce(squares, Sum()) * kInverse + norm.eps);
    float weight[kOwn], bias[kOwn] = {};
    Read(norm.weight, weight);
    if (norm.bias != nullptr) Read(norm.bias, bias);
    for (int i = 0; i < kOwn; ++i) x_[i] = x_[i] * scale * weight[i] + bias[i];
  }
  __device__ void Balance(const float* balance, int32_t kv_head, bool is_query) {
    if (balance == nullptr) return;
    float factors[kOwn];
    Read(balance + int64_t{kv_head} * kDims, factors);
    for (int i = 0; i < kOwn; ++i) x_[i] = is_query ? x_[i] * factors[i] : x_[i] / factors[i];
  }
  __device__ void Rotate(const RopeView& rope, int32_t position) {
    float turn[kOwn];  // cosines, then sines
    Read(rope.table + int64_t{position} * kDims, turn);
    for (int i = 0; i < kCount; ++i) {
      const float a = x_[i], b = x_[kCount + i];
      x_[i] = a * turn[i] - b * turn[kCount + i];
      x_[kCount + i] = b * turn[i] + a * turn[kCount + i];
    }
  }
  __device__ void WriteBack() const { Write(at_, x_); }
  template <typename T>
  __device__ void StoreIn(const HeadCache& cache, void* tiles, int32_t slot) const {
    T values[kOwn];
    if constexpr (std::is_same_v<T, int8_t>) {
      float largest = 0.0f;
      bool strange = false;
      for (const float x : x_) {
        largest = fmaxf(largest, fabsf(x));
        strange |= !(fabsf(x) < INFINITY);
      }
      largest = WarpReduce(largest, Largest());
      strange = __ballot_sync(kAllLanes, strange ? 1 : 0) != 0;
      const bool kept = !strange && largest >= kInt8Smallest;
      const float factor = kept ? 127.0f / largest : 0.0f;
      for (int i = 0; i < kOwn; ++i) values[i] = kept ? static_cast<int8_t>(rintf(x_[i] * factor)) : int8_t{0};
      if (Lane() == 0) *cache.ScaleAt(tiles, slot) = strange ? NAN : kept ? largest / 127.0f : 0.0f;
    } else {
      for (int i = 0; i < kOwn; ++i) values[i] = FromFloat<T>(x_[i]);
    }
    Write(cache.At<T>(tiles, slot), values);
  }

 private:
  static constexpr int kOwn = 2 * kCount, kDims = 64 * kCount;

  __device__ static int32_t Lane() { return static_cast<int32_t>(threadIdx.x % kWarp); }
  __device__ static void Read(const float* from, float (&to)[kOwn]) {
    for (int half = 0; half < 2; ++half) {
      const auto part = reinterpret_cast<const Packed<float, kCount>*>(from + half * kDims / 2)[Lane()];
      for (int i = 0; i < kCount; ++i) to[half * kCount + i] = part.at[i];
    }
  }
  template <typename T>
  __device__ static void Write(T* to, const T (&from)[kOwn]) {
    for (int half = 0; half < 2; ++half) {
      Packed<T, kCount> part;
      for (int i = 0; i < kCount; ++i) part.at[i] = from[half * kCount + i];
      reinterpret_cast<Packed<T, kCount>*>(to + half * kDims / 2)[Lane()] = part;
    }
  }

  float* const at_;
  float x_[kOwn];
};

template <typename T, typename Head>
__global__ void __launch_bounds__(kThreads)
    RopeAndWriteKvKernel(StepView step, RopeView rope, HeadNorms norms, AttentionShape shape, KvCacheView kv) {
  LetNextBegin();
  AwaitEarlier();
  const KvCacheLayout& layout = kv.layout;
  const int32_t heads = shape.query_heads + 2 * layout.kv_heads;
  const int32_t head = static_cast<int32_t>(blockIdx.y * (kThreads / kWarp) + threadIdx.x / kWarp);
  if (head >= heads) return;
  const int64_t token = blockIdx.x;
  Head own(shape.qkv + (token * heads + head) * layout.head_dim, layout.head_dim);
  if (step.row_of_token[token] < 0) return;
  const DeviceRow& row = step.rows[step.row_of_token[token]];
  const int32_t i = static_cast<int32_t>(token) - row.token_begin;
  const int32_t position = row.first_position + i;
  const bool is_query = head < shape.query_heads;
  const bool is_key = !is_query && head < shape.query_heads + layout.kv_heads;

  if (is_query || is_key) {
    NormWeight norm = norms.k;  // no reference, as above
    if (is_query) norm = norms.q;
    own.Norm(norm);
    const int32_t of = is_query ? head / (shape.query_heads / layout.kv_heads) : head - shape.query_heads;
    own.Balance(norms.balance, of, is_query);
    if (rope.table != nullptr && (is_query || !row.policy.rolling)) own.Rotate(rope, position);
    own.WriteBack();
  }
  if (is_query || LeftOut(step, row)) return;

  const int32_t kv_head = (head - shape.query_heads) % layout.kv_heads;
  const HeadCache cache = CacheOf(step, row, kv, shape.layer, kv_head);
  const int32_t slot =
      row.reuse_victim ? kv.victim[layout.victim_offset(shape.layer, row.state_row, kv_head)] : row.live + i;
  own.template StoreIn<T>(cache, is_key ? kv.k : kv.v, slot);
  if constexpr (std::is_same_v<T, int8_t>) {
    if (!row.reuse_victim && i + 1 == row.token_count) ClearScales(cache, is_key ? kv.k : kv.v, slot);
  }
  if (!is_key) return;
  const int64_t score_at = cache.ScoreAt(slot);
  if (row.policy.rolling && row.reuse_victim) {
    const int32_t gap = kv.position[score_at];
    __syncwarp();
    CloseGap(cache, row.live, gap);
  }
  if (threadIdx.x % kWarp != 0) return;
  kv.position[score_at] = position;
  kv.score[score_at] = 0.0f;
  if (kv.logical_position != nullptr) kv.logical_position[score_at] = row.position + i;
}

// Whether heads may be read by whole registers.
bool Wide(const RopeView& rope, const HeadNorms& norms, const AttentionShape& shape, const KvCacheLayout& layout) {
  const bool aligned = Aligned(shape.qkv) && Aligned(rope.table) && Aligned(norms.balance) && Aligned(norms.q.weight) &&
                       Aligned(norms.q.bias) && Aligned(norms.k.weight) && Aligned(norms.k.bias);
  return aligned && (rope.table == nullptr || rope.dims == layout.head_dim);
}

template <typename Head>
void LaunchWith(cudaStream_t stream, dim3 blocks, const StepView& step, const RopeView& rope, const HeadNorms& norms,
                const AttentionShape& shape, const KvCacheView& kv) {
  WithKvElement(kv.layout.type, [&](auto element) {
    Launch(stream, blocks, kThreads, RopeAndWriteKvKernel<decltype(element), Head>, step, rope, norms, shape, kv);
  });
}

}  // namespace

void LaunchRopeAndWriteKv(cudaStream_t stream, const StepView& step, const RopeView& rope, const HeadNorms& norms,
                          const AttentionShape& shape, int64_t tokens, const KvCacheView& kv) {
  const int64_t heads = shape.query_heads + 2 * int64_t{kv.layout.kv_heads};
  const dim3 blocks(static_cast<uint32_t>(tokens), BlocksFor(heads, kThreads / kWarp));
  if (norms.over_heads) {
    Launch(stream, dim3(static_cast<uint32_t>(tokens), 2), kThreads, NormHeadsKernel, norms, shape, kv.layout);
  }
  HeadNorms of_heads = norms;
  if (norms.over_heads) of_heads.q = of_heads.k = NormWeight();
  const int32_t dims = Wide(rope, of_heads, shape, kv.layout) ? kv.layout.head_dim : 0;
  const auto launch = dims == 64    ? LaunchWith<HeadInRegisters<1>>
                      : dims == 128 ? LaunchWith<HeadInRegisters<2>>
                      : dims == 256 ? LaunchWith<HeadInRegisters<4>>
                                    : LaunchWith<HeadInMemory>;
  launch(stream, blocks, step, rope, of_heads, shape, kv);
}

}  // namespace hydrant::cuda
