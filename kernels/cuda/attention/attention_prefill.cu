#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/cache.cuh"
#include "kernels/cuda/attention/prompt_tiles.cuh"
#include "kernels/cuda/runtime/element.cuh"
#include "kernels/cuda/runtime/launch.h"
#include "kernels/cuda/runtime/overlap.cuh"

namespace hydrant::cuda {
namespace {

constexpr uint32_t kThreads = 256;  // one per (row, key) of a tile
constexpr int32_t kPerThread = kTile * kHeadDimMax / static_cast<int32_t>(kThreads);

// The tile's queries of one head, zeros where no row is.
__device__ void LoadQueries(const AttentionShape& shape, int64_t width, const TileRows& rows, int32_t query_head,
                            int32_t head_dim, float* queries) {
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < kTile * head_dim; i += blockDim.x) {
    const int32_t r = i / head_dim, dim = i % head_dim;
    queries[i] = r >= rows.begin && r < rows.end
                     ? shape.qkv[(rows.token + r - rows.begin) * width + int64_t{query_head} * head_dim + dim]
                     : 0.0f;
  }
}

// Logit of row r of the query tile with slot s of the key tile, in units of log2; -inf where the row does not see it: behind the
// window are positions below `first_seen` + r.
template <typename T>
__device__ float Logit(const AttentionShape& shape, const float* queries, const HeadCache& cache, const RopeView& rope,
                       const TileRows& rows, int32_t first_seen, int32_t query_tile, int32_t key_tile) {
  const int32_t r = static_cast<int32_t>(threadIdx.x) / kTile, s = static_cast<int32_t>(threadIdx.x) % kTile;
  const int32_t slot = key_tile * kTile + s;
  if (r < rows.begin || r >= rows.end || slot > query_tile * kTile + r) return -INFINITY;
  const int32_t head_dim = cache.kv.layout.head_dim;
  const bool asks = rope.table != nullptr || first_seen + r > 0;
  const int32_t position = asks ? cache.kv.position[cache.ScoreAt(slot)] : 0;
  if (position < first_seen + r) return -INFINITY;
  const T* key = cache.At<T>(cache.kv.k, slot);
  float product = Dot(queries + r * head_dim, key, head_dim, rope, position) * cache.Scale<T>(cache.kv.k, slot);
  if (shape.cap > 0.0f) product = CapProduct(product, shape.cap);
  return product * (shape.scale * kLog2E);
}

template <typename T>
__global__ void __launch_bounds__(kThreads) PromptKernel(StepView step, RopeView rope, AttentionShape shape,
                                                         const PromptSpan* spans, float* sums, KvCacheView kv) {
  AwaitEarlier();
  __shared__ float queries[kTile * kHeadDimMax];
  __shared__ float weights[kTile][kTile];
  __shared__ float rescale[kTile];
  const PromptSpan span = spans[blockIdx.x];
  const int32_t query_tile = span.first_tile + static_cast<int32_t>(blockIdx.z);
  const int32_t head = static_cast<int32_t>(blockIdx.y);
  const DeviceRow& row = step.rows[span.row];
  const TileRows rows = RowsOf(row, query_tile);
  if (rows.end <= rows.begin) return;
  const int32_t head_dim = kv.layout.head_dim, group = shape.query_heads / kv.layout.kv_heads;
  const int64_t width = int64_t{shape.query_heads + 2 * kv.layout.kv_heads} * head_dim;
  const HeadCache cache = CacheOf(step, row, kv, shape.layer, head);
  const RopeView key_rope = KeyRope(row, rope);
  const int32_t r = static_cast<int32_t>(threadIdx.x) / kTile, s = static_cast<int32_t>(threadIdx.x) % kTile;
  const int32_t first_seen = FirstSeen(row, shape.window, query_tile * kTile - row.live);
  const int32_t tile_begin = row.in_order() ? max(first_seen + rows.begin, 0) / kTile : 0;

  for (int32_t g = 0; g < group; ++g) {
    const int32_t query_head = head * group + g;
    __syncthreads();  // the former head's queries have been read
    LoadQueries(shape, width, rows, query_head, head_dim, queries);
    float out[kPerThread] = {};  // element threadIdx.x + i * kThreads of [16][head_dim]
    float largest = -INFINITY, total = 0.0f;
    for (int32_t tile = tile_begin; tile <= query_tile; ++tile) {
      __syncthreads();  // queries are there; the former tile's weights have been read
      const float logit = Logit<T>(shape, queries, cache, key_rope, rows, first_seen, query_tile, tile);
      // NaN is left out, so that all lanes have the same largest one. It makes its weight NaN, and so the row.
      const float most = fmaxf(largest, WarpReduce<kTile>(logit, LargestNumber()));
      // A row of the tile that is not of this step sees nothing: all its weights are 0.
      const float weight = exp2f(logit - Shift(most));
      const float factor = exp2f(largest - Shift(most));
      total = fmaf(total, factor, WarpReduce<kTile>(weight, Sum()));
      largest = most;
      // What is behind the last live slot is not read below.
      weights[r][s] = weight * cache.Scale<T>(kv.v, tile * kTile + s);
      if (s == 0) rescale[r] = factor;
      __syncthreads();
      const int32_t slots = min(kTile, row.live + row.token_count - tile * kTile);
#pragma unroll
      for (int32_t i = 0; i < kPerThread; ++i) {
        const int32_t at = static_cast<int32_t>(threadIdx.x) + i * static_cast<int32_t>(kThreads);
        if (at >= kTile * head_dim) break;
        const int32_t of_row = at / head_dim, dim = at % head_dim;
        float sum = out[i] * rescale[of_row];
        for (int32_t slot = 0; slot < slots; ++slot) {
          const T value = cache.At<T>(kv.v, tile * kTile + slot)[dim];
          sum = fmaf(weights[of_row][slot], ToFloat(value), sum);
        }
        out[i] = sum;
      }
    }
    __syncthreads();
    const bool own = r >= rows.begin && r < rows.end;
    total += SinkShare(shape.sinks, query_head, largest);
    if (s == 0) {
      rescale[r] = own ? 1.0f / total : 0.0f;
      if (own) sums[(rows.token + r - rows.begin) * shape.query_heads + query_head] = largest + log2f(total);
    }
    __syncthreads();
#pragma unroll
    for (int32_t i = 0; i < kPerThread; ++i) {
      const int32_t at = static_cast<int32_t>(threadIdx.x) + i * static_cast<int32_t>(kThreads);
      if (at >= kTile * head_dim) break;
      const int32_t of_row = at / head_dim, dim = at % head_dim;
      if (of_row < rows.begin || of_row >= rows.end) continue;
      const int64_t token = rows.token + of_row - rows.begin;
      Store(shape.out, (token * shape.query_heads + query_head) * head_dim + dim, out[i] * rescale[of_row]);
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    PromptScoresKernel(StepView step, RopeView rope, AttentionShape shape, const PromptSpan* spans, const float* sums,
                       float* pin_sums, KvCacheView kv) {
  AwaitEarlier();
  __shared__ float queries[kTile * kHeadDimMax];
  __shared__ float probabilities[kTile][kTile];
  const PromptSpan span = spans[blockIdx.x];
  const int32_t key_tile = span.first_tile + static_cast<int32_t>(blockIdx.z);
  const int32_t head = static_cast<int32_t>(blockIdx.y);
  const DeviceRow& row = step.rows[span.row];
  const int32_t head_dim = kv.layout.head_dim, group = shape.query_heads / kv.layout.kv_heads;
  const int64_t width = int64_t{shape.query_heads + 2 * kv.layout.kv_heads} * head_dim;
  const HeadCache cache = CacheOf(step, row, kv, shape.layer, head);
  const RopeView key_rope = KeyRope(row, rope);
  const int32_t r = static_cast<int32_t>(threadIdx.x) / kTile, s = static_cast<int32_t>(threadIdx.x) % kTile;
  const bool pins = pin_sums != nullptr;
  const Additions additions(row, group, pins);

  const int32_t live = row.live + row.token_count, last_tile = (live - 1) / kTile;
  if (key_tile > last_tile) return;
  // Threads 0 to 15 hold the scores of the tile's slots, the last of which may not be occupied.
  const bool holds = threadIdx.x < kTile && key_tile * kTile + static_cast<int32_t>(threadIdx.x) < live;
  const int64_t score_at = cache.ScoreAt(key_tile * kTile) + threadIdx.x % kTile;
  float* const own_sum =
      pins ? PinSums(row, head, pin_sums) + key_tile * kTile + threadIdx.x % kTile : kv.score + score_at;
  // A row of a prompt ends pins, which are signs.
  float score = holds && !pins ? WithoutPin(*own_sum) : 0.0f;
  const int32_t position = holds ? kv.position[score_at] : 0;
  const int32_t first_tile = additions.FirstTile(row);
  for (int32_t tile = max(first_tile, key_tile); tile <= last_tile; ++tile) {
    const TileRows rows = RowsOf(row, tile);
    const bool own = r >= rows.begin && r < rows.end;
    const int64_t token = rows.token + r - rows.begin;
    const int32_t first_seen = FirstSeen(row, shape.window, tile * kTile - row.live);
    const float factor =
        own ? additions.RowWeight(row, row.position + static_cast<int32_t>(token) - row.token_begin) : 0.0f;
    float sum = 0.0f;  // over heads, of this thread's (row, slot)
    for (int32_t g = 0; g < additions.heads; ++g) {
      const int32_t query_head = head * group + g;
      __syncthreads();
      LoadQueries(shape, width, rows, query_head, head_dim, queries);
      __syncthreads();
      const float logit = Logit<T>(shape, queries, cache, key_rope, rows, first_seen, tile, key_tile);
      if (!own) continue;
      const float p = exp2f(logit - sums[token * shape.query_heads + query_head]);
      sum = additions.square ? fmaf(p, p, sum) : sum + p;
    }
    probabilities[r][s] = sum * factor;
    __syncthreads();
    if (threadIdx.x < kTile) {
      float column = 0.0f;
      for (int32_t i = 0; i < kTile; ++i) column += probabilities[i][threadIdx.x];
      score = position < first_seen + rows.end - 1 ? 0.0f : FlushScore(fmaf(column, additions.mean, score));
      for (int32_t i = 0; i < (pins ? 0 : row.snapshots); ++i) {
        const StepSnapshot& snapshot = step.snapshots[row.first_snapshot + i];
        if (snapshot.slots != (tile + 1) * kTile || key_tile * kTile >= snapshot.slots) continue;
        const int32_t to = step.tables[snapshot.score_blocks + key_tile];
        kv.score[kv.layout.score_offset(shape.layer, to, head) + threadIdx.x] = score;
      }
    }
    __syncthreads();
  }
  if (holds) *own_sum = score;
}

dim3 TileBlocks(const PromptSpans& spans, const KvCacheLayout& layout) {
  return dim3(static_cast<uint32_t>(spans.count), static_cast<uint32_t>(layout.kv_heads), kSpanTiles);
}

}  // namespace

void LaunchPromptAttention(cudaStream_t stream, const StepView& step, const RopeView& rope, const AttentionShape& shape,
                           const PromptSpans& spans, float* sums, const KvCacheView& kv) {
  if (LaunchPromptAttentionWarpgroup(stream, step, shape, spans, sums, kv)) return;
  if (LaunchPromptAttentionMma(stream, step, rope, shape, spans, sums, kv)) return;
  WithKvElement(kv.layout.type, [&](auto element) {
    Launch(stream, TileBlocks(spans, kv.layout), kThreads, PromptKernel<decltype(element)>, step, rope, shape,
           spans.spans, sums, kv);
  });
}

void LaunchPromptScores(cudaStream_t stream, const StepView& step, const RopeView& rope, const AttentionShape& shape,
                        const PromptSpans& spans, const float* sums, const KvCacheView& kv) {
  // Few rows choose pins.
  if (spans.pin_sums == nullptr && LaunchPromptScoresWarpgroup(stream, step, shape, spans, sums, kv)) return;
  if (LaunchPromptScoresMma(stream, step, rope, shape, spans, sums, kv)) return;
  WithKvElement(kv.layout.type, [&](auto element) {
    Launch(stream, TileBlocks(spans, kv.layout), kThreads, PromptScoresKernel<decltype(element)>, step, rope, shape,
           spans.spans, sums, spans.pin_sums, kv);
  });
}

}  // namespace hydrant::cuda
