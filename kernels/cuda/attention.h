// The ops over cached keys and values within a step: rotation and writes, attention of generated tokens and of prompts, and
// the scores that eviction goes by (kernels/eviction_policy.h; the oracles are kernels/reference.h and
// kernels/h2o_reference.h).
//
// The borders of what one block computes depend on a row alone, and everything is added in a fixed order: on one device a
// row's bits do not depend on the batch, nor a prompt's on how it was cut into chunks.
#ifndef HYDRANT_KERNELS_CUDA_ATTENTION_H_
#define HYDRANT_KERNELS_CUDA_ATTENTION_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/step_view.h"
#include "kernels/device.h"

namespace hydrant::cuda {

inline constexpr int32_t kHeadDimMax = 256;
inline constexpr int32_t kGroupMax = 128;  // query heads of a KV head

// Cosines and sines; no table: nothing is rotated.
struct RopeView {
  const float* table = nullptr;  // [positions][2][dims / 2]
  int32_t dims = 0;
};

struct AttentionShape {
  int32_t layer = 0;
  int32_t query_heads = 0;
  float scale = 1.0f;
  float* qkv = nullptr;  // [tokens, (query_heads + 2 kv_heads) * head_dim]
  float* out = nullptr;  // [tokens, query_heads * head_dim]
};

// Device::RopeAndWriteKv of `tokens` tokens. shape.scale and shape.out are not used.
//
//   kernel   a warp per (token, head): norm, rotation, then the store; the warp of a rolling victim's head closes the gap
//   bound    bytes of qkv, read and (q) written, and of the keys and values written
void LaunchRopeAndWriteKv(cudaStream_t stream, const StepView& step, const RopeView& rope, const HeadNorms& norms,
                          const AttentionShape& shape, int64_t tokens, const KvCacheView& kv);

// --- generated tokens -------------------------------------------------------------------------------------------------

// Slots of one split: a block of threads per (split, KV head, row).
inline constexpr int32_t kSplitSlots = 256;

constexpr int32_t SplitsOf(int32_t live) { return (live + kSplitSlots - 1) / kSplitSlots; }

// One decode row's work, with its places in the scratch memory.
struct DecodeItem {
  int32_t row;       // of StepView::rows
  int32_t splits;    // SplitsOf(live_after)
  int64_t partials;  // floats from the start: [split][query head][head_dim + 2], the output, then the largest logit and
                     // the sum of weights relative to it
  int64_t logits;    // [query head][live rounded up to 16], scaled; -1: not kept
};

constexpr int64_t PartialFloats(int32_t live, int32_t query_heads, int32_t head_dim) {
  return int64_t{SplitsOf(live)} * query_heads * (head_dim + 2);
}
constexpr int64_t LogitFloats(int32_t live, int32_t query_heads) {
  return int64_t{query_heads} * ((live + kBlockSlots - 1) / kBlockSlots * kBlockSlots);
}

// Device::Attention for the rows of `items` (device memory; `splits_max` is the largest of their splits; `rolls`: their
// policies do).
//
//   kernels  one forms partial outputs per split: on tensor cores, or where these can not (fp32, unusual heads, `rolls`)
//            with ordinary arithmetic; one joins them, turns logits into probabilities, adds these to the scores and finds
//            the victim
//   bound    bytes of the live keys and values / memory bandwidth
//   oracle   reference::Attention, tests/kernels/attention_test.cc derives the tolerance
//   not yet measured on a device
void LaunchDecodeAttention(cudaStream_t stream, const StepView& step, const RopeView& rope, const AttentionShape& shape,
                           const DecodeItem* items, int32_t count, int32_t splits_max, bool rolls, float* scratch,
                           const KvCacheView& kv);

// The splits alone, on tensor cores; false where the cache's type or head_dim has no such kernel (16 bits; 64, 80, 96, 128,
// 256). No row's policy rolls.
bool LaunchDecodeSplitsMma(cudaStream_t stream, const StepView& step, const AttentionShape& shape,
                           const DecodeItem* items, int32_t count, int32_t splits_max, float* scratch,
                           const KvCacheView& kv);

// --- prompts ----------------------------------------------------------------------------------------------------------

// A tile of 16 slots of a prefill row: its queries, or, for the column sums, its keys.
struct PrefillItem {
  int32_t row;
  int32_t tile;
};

// Device::Attention for tiles of queries. sums [tokens, query_heads] gets the logarithm (base 2) of every row's sum of
// exponentials, in the units of scaled logits times log2(e).
//
//   kernel   a block of threads per (tile of 16 queries, KV head), keys 16 at a time with a running maximum
//   bound    operations: 4 * head_dim per (query head, query, key seen)
void LaunchPrefillAttention(cudaStream_t stream, const StepView& step, const RopeView& rope,
                            const AttentionShape& shape, const PrefillItem* items, int32_t count, float* sums,
                            const KvCacheView& kv);

// Adds the probabilities of the step's prompt rows to the scores of their keys, from the same sums. An item is a tile of keys.
//
//   kernel   a block of threads per (tile of 16 keys, KV head): it alone adds to these scores, query tiles in ascending order
//   bound    operations: 2 * head_dim per (query head, scored query, key seen)
void LaunchPromptScores(cudaStream_t stream, const StepView& step, const RopeView& rope, const AttentionShape& shape,
                        const PrefillItem* items, int32_t count, const float* sums, const KvCacheView& kv);

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_ATTENTION_H_
