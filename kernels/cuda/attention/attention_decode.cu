#include <cassert>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/cache.cuh"
#include "kernels/cuda/runtime/element.cuh"
#include "kernels/cuda/runtime/launch.h"
#include "kernels/cuda/runtime/overlap.cuh"

namespace hydrant::cuda {
namespace {

constexpr uint32_t kSplitThreads = 128;
constexpr int32_t kSplitHeads = 16;  // query heads of one block
constexpr uint32_t kJoinThreads = 512;

// One split of one row for up to kSplitHeads query heads of one KV head. A thread forms the logits of whole slots, then sums whole
// columns of values.
template <typename T>
__global__ void __launch_bounds__(kSplitThreads)
    DecodeSplitKernel(StepView step, RopeView rope, AttentionShape shape, const DecodeItem* items, float* scratch,
                      KvCacheView kv) {
  AwaitEarlier();
  __shared__ float weights[kSplitHeads][kLastSplitSlots];
  __shared__ float queries[kSplitHeads * kHeadDimMax];
  const DecodeItem& item = items[blockIdx.z];
  const int32_t split = static_cast<int32_t>(blockIdx.x);
  if (split >= item.splits) return;
  const DeviceRow& row = step.rows[item.row];
  const int32_t head_dim = kv.layout.head_dim, group_all = shape.query_heads / kv.layout.kv_heads;
  const int32_t parts = (group_all + kSplitHeads - 1) / kSplitHeads;
  const int32_t kv_head = static_cast<int32_t>(blockIdx.y) / parts, part = static_cast<int32_t>(blockIdx.y) % parts;
  const int32_t first_head = kv_head * group_all + part * kSplitHeads;
  const int32_t group = min(group_all - part * kSplitHeads, kSplitHeads);
  const HeadCache cache = CacheOf(step, row, kv, shape.layer, kv_head);
  const RopeView key_rope = KeyRope(row, rope);
  const int32_t begin = split * kSplitSlots;
  const int32_t count = SplitEnd(split, item.splits, row.live_after) - begin;

  const int64_t width = int64_t{shape.query_heads + 2 * kv.layout.kv_heads} * head_dim;
  const float* q = shape.qkv + row.token_begin * width + int64_t{first_head} * head_dim;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < group * head_dim; i += blockDim.x) queries[i] = q[i];
  __syncthreads();

  const int32_t logits_stride = WholeBlocks(row.live_after);
  const int32_t first_seen = FirstSeen(row, shape.window, 0);
  const bool asks = key_rope.table != nullptr || first_seen > 0;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < count; i += blockDim.x) {
    const int32_t slot = begin + i;
    const T* key = cache.At<T>(kv.k, slot);
    const float key_scale = cache.Scale<T>(kv.k, slot);
    const int32_t position = asks ? kv.position[cache.ScoreAt(slot)] : 0;
    for (int32_t g = 0; g < group; ++g) {
      float product = Dot(queries + g * head_dim, key, head_dim, key_rope, position) * key_scale;
      if (shape.cap > 0.0f) product = CapProduct(product, shape.cap);
      const float logit = position < first_seen ? -INFINITY : product * shape.scale;
      weights[g][i] = logit;
      if (item.logits >= 0) {
        scratch[item.logits + int64_t{first_head + g} * logits_stride + slot] = logit;
      }
    }
  }
  __syncthreads();

  float* partial = scratch + item.partials + (int64_t{split} * shape.query_heads + first_head) * (head_dim + 2);
  for (int32_t g = static_cast<int32_t>(threadIdx.x / kWarp); g < group; g += kSplitThreads / kWarp) {
    const int32_t lane = static_cast<int32_t>(threadIdx.x % kWarp);
    float largest = -INFINITY;
    for (int32_t i = lane; i < count; i += kWarp) largest = fmaxf(largest, weights[g][i]);
    largest = WarpReduce(largest, Largest());
    float total = 0.0f;
    for (int32_t i = lane; i < count; i += kWarp) {
      const float weight = exp2f((weights[g][i] - Shift(largest)) * kLog2E);
      weights[g][i] = weight * cache.Scale<T>(kv.v, begin + i);
      total += weight;
    }
    total = WarpReduce(total, Sum());
    if (lane == 0) {
      partial[g * (head_dim + 2) + head_dim] = largest;
      partial[g * (head_dim + 2) + head_dim + 1] = total;
    }
  }
  __syncthreads();

  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < group * head_dim; i += blockDim.x) {
    const int32_t g = i / head_dim, dim = i % head_dim;
    float sum = 0.0f;
    for (int32_t s = 0; s < count; ++s) {
      sum = fmaf(weights[g][s], ToFloat(cache.At<T>(kv.v, begin + s)[dim]), sum);
    }
    partial[g * (head_dim + 2) + dim] = sum;
  }
}

// Adds a decode row's probabilities to its scores and finds its victim.
__device__ void ScoreAndChooseVictim(const DeviceRow& row, const HeadCache& cache, int32_t group, int32_t first_seen,
                                     const float* logits, const float* largest, const float* inverse_total) {
  constexpr int kEach = 4;  // slots of a thread at once: what they need is read together
  const EvictionPolicy& policy = row.policy;
  const int32_t stride = WholeBlocks(row.live_after);
  const int32_t heads = ScoredHeads(policy, group);
  const float mean = HeadFactor(policy, group);
  uint64_t best = ~uint64_t{0};  // score, then the position downwards: the smallest is the victim
  int32_t best_slot = -1;
  const auto threads = static_cast<int32_t>(blockDim.x);
  for (int32_t first = static_cast<int32_t>(threadIdx.x); first < row.live_after; first += kEach * threads) {
    int64_t score_at[kEach];
    int32_t position[kEach];
    float score[kEach], sum[kEach] = {};
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      // What is past the last slot reads the first one again.
      score_at[i] = cache.ScoreAt(first + i * threads < row.live_after ? first + i * threads : first);
      position[i] = cache.kv.position[score_at[i]];
      score[i] = cache.kv.score[score_at[i]];
    }
    if (policy.scores()) {
      for (int32_t g = 0; g < heads; ++g) {
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
          const int32_t slot = min(first + i * threads, row.live_after - 1);
          const float p = exp2f((logits[int64_t{g} * stride + slot] - largest[g]) * kLog2E) * inverse_total[g];
          sum[i] = policy.square ? fmaf(p, p, sum[i]) : sum[i] + p;
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int32_t slot = first + i * threads;
      if (slot >= row.live_after) continue;
      if (policy.scores()) {
        const bool pinned = row.pins_hold != 0 && IsPinned(score[i]);
        score[i] = FlushScore(fmaf(policy.decay, WithoutPin(score[i]), sum[i] * mean));
        if (pinned) score[i] = WithPin(score[i]);
        if (position[i] < first_seen) score[i] = 0.0f;
        cache.kv.score[score_at[i]] = score[i];
      }
      if (!row.choose_victim || position[i] >= row.candidates_end) continue;
      // The bits of scores order as numbers do, a NaN behind them, and what is pinned behind that.
      const uint64_t candidate = (uint64_t{__float_as_uint(score[i])} << 32) | ~static_cast<uint32_t>(position[i]);
      if (candidate >= best) continue;
      best = candidate;
      best_slot = slot;
    }
  }
  if (!row.choose_victim) return;
  // Positions differ, so one thread has it.
  const uint64_t least = BlockReduce(best, Smallest(), ~uint64_t{0});
  assert(least != ~uint64_t{0});
  if (best != least) return;
  cache.kv.victim[cache.kv.layout.victim_offset(cache.layer, row.state_row, cache.head)] = best_slot;
}

__global__ void __launch_bounds__(kJoinThreads)
    DecodeJoinKernel(StepView step, AttentionShape shape, const DecodeItem* items, const float* scratch,
                     KvCacheView kv) {
  LetNextBegin();
  AwaitEarlier();
  __shared__ float largest[kGroupMax], inverse_total[kGroupMax];
  const DecodeItem& item = items[blockIdx.y];
  if (item.splits == 0) return;
  const int32_t head = static_cast<int32_t>(blockIdx.x);
  const DeviceRow& row = step.rows[item.row];
  const int32_t head_dim = kv.layout.head_dim, group = shape.query_heads / kv.layout.kv_heads;
  const int32_t width = head_dim + 2;
  const float* partials = scratch + item.partials + int64_t{head} * group * width;
  const int64_t split_stride = int64_t{shape.query_heads} * width;

  // A warp per query head: its lanes have every 32nd split.
  const auto warp = static_cast<int32_t>(threadIdx.x / kWarp), lane = static_cast<int32_t>(threadIdx.x % kWarp);
  constexpr int32_t kLanes = kWarp, kWarps = kJoinThreads / kWarp;
  for (int32_t g = warp; g < group; g += kWarps) {
    const float* of_head = partials + g * width + head_dim;  // [splits]: largest logit, sum of weights
    float most = shape.sinks != nullptr ? shape.sinks[head * group + g] : -INFINITY, total = 0.0f;
    for (int32_t s = lane; s < item.splits; s += kLanes) most = fmaxf(most, of_head[s * split_stride]);
    most = WarpReduce(most, Largest());
    for (int32_t s = lane; s < item.splits; s += kLanes) {
      total = fmaf(exp2f((of_head[s * split_stride] - most) * kLog2E), of_head[s * split_stride + 1], total);
    }
    total = WarpReduce(total, Sum());
    if (shape.sinks != nullptr) total += exp2f((shape.sinks[head * group + g] - most) * kLog2E);
    if (lane != 0) continue;
    largest[g] = most;
    inverse_total[g] = 1.0f / total;
  }
  __syncthreads();

  // A warp per 32 outputs, which adds the splits in order; what a split counts is worked out by a lane for all.
  const int64_t out = (int64_t{row.token_begin} * shape.query_heads + head * group) * head_dim;
  const int32_t pieces = (head_dim + kLanes - 1) / kLanes;
  for (int32_t i = warp; i < group * pieces; i += kWarps) {
    const int32_t g = i / pieces, dim = i % pieces * kLanes + lane;
    const float* of_head = partials + g * width;
    float sum = 0.0f;
    for (int32_t first = 0; first < item.splits; first += kLanes) {
      const int32_t own = min(first + lane, item.splits - 1), count = min(item.splits - first, kLanes);
      const float factor = exp2f((of_head[own * split_stride + head_dim] - largest[g]) * kLog2E);
#pragma unroll 8
      for (int32_t s = 0; s < count; ++s) {
        const float of_split = __shfl_sync(kAllLanes, factor, s);
        if (dim < head_dim) sum = fmaf(of_split, of_head[(first + s) * split_stride + dim], sum);
      }
    }
    if (dim < head_dim) Store(shape.out, out + g * head_dim + dim, sum * inverse_total[g]);
  }
  if (!row.policy.evicts || !(row.policy.scores() || row.choose_victim) || LeftOut(step, row)) return;
  const int64_t stride = WholeBlocks(row.live_after);
  const float* logits = item.logits >= 0 ? scratch + item.logits + int64_t{head} * group * stride : nullptr;
  ScoreAndChooseVictim(row, CacheOf(step, row, kv, shape.layer, head), group, FirstSeen(row, shape.window, 0), logits,
                       largest, inverse_total);
}

}  // namespace

void LaunchDecodeAttention(cudaStream_t stream, const StepView& step, const RopeView& rope, const AttentionShape& shape,
                           const DecodeItem* items, int32_t count, int32_t splits_max, bool rolls, float* scratch,
                           const KvCacheView& kv) {
  const auto heads = static_cast<uint32_t>(kv.layout.kv_heads), rows = static_cast<uint32_t>(count);
  if (!LaunchDecodeSplitsMma(stream, step, rope, shape, items, count, splits_max, rolls, scratch, kv)) {
    WithKvElement(kv.layout.type, [&](auto element) {
      const uint32_t parts = BlocksFor(shape.query_heads / kv.layout.kv_heads, kSplitHeads);
      Launch(stream, dim3(static_cast<uint32_t>(splits_max), heads * parts, rows), kSplitThreads,
             DecodeSplitKernel<decltype(element)>, step, rope, shape, items, scratch, kv);
    });
  }
  Launch(stream, dim3(heads, rows), kJoinThreads, DecodeJoinKernel, step, shape, items, scratch, kv);
}

}  // namespace hydrant::cuda
