// The ops over cached keys and values within a step: rotation and writes, attention of generated tokens and of prompts, and
// the scores that eviction goes by (kernels/eviction_policy.h; the oracles are kernels/reference/reference.h and
// kernels/reference/h2o_reference.h).
//
// The borders of what one block computes depend on a row alone, and everything is added in a fixed order: on one device a
// row's bits do not depend on the batch, nor a prompt's on how it was cut into chunks.
//
// Each launcher has a card. `memory` there is what nvcc 13.0 says of a thread's registers and a block's shared memory on sm_90.
#ifndef HYDRANT_KERNELS_CUDA_ATTENTION_ATTENTION_H_
#define HYDRANT_KERNELS_CUDA_ATTENTION_ATTENTION_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/runtime/output.h"
#include "kernels/cuda/runtime/step_view.h"
#include "kernels/decode_splits.h"
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
  Output out;            // [tokens, query_heads * head_dim]
  int32_t window = kNoWindow;
  float cap = 0.0f;              // above 0: a product x of q and k counts as cap * tanh(x / cap)
  const float* sinks = nullptr;  // [query_heads], as in AttentionSpec; whoever has a row's whole sum adds them
  bool warpgroups = false;       // the device is of compute capability 9.0
};

// Device::RopeAndWriteKv of `tokens` tokens. shape.scale and shape.out are not used.
//
//   kernel   a warp per (token, head), which keeps a head of 64, 128 or 256 dims in registers: norm, rotation, then the store; the warp of
//            a rolling victim's head closes the gap. Norms over all heads come before, a block per (token, q or k)
//   grid     (tokens, heads of q, k and v / 4); (tokens, 2)
//   bound    bytes of qkv, read and (q) written, and of the keys and values written / memory bandwidth
//   oracle   reference::Norm and Rope; what is stored is what they give, rounded to the cache's type
//            (tests/kernels/rope_and_write_kv_test.cc)
//   memory   44 registers; norms over all heads 26, and 128 bytes of shared memory
//   rejected turning cached keys in place when their rank falls: wrong in 16 bits (docs/decisions/0007)
//   rejected heads in memory between norm, rotation and store: 84 us
//   H100     26 November 2026: 2,048 tokens of 48 heads of 128 in 40 us, 84 % of what a copy moves; 64 rows in 3.3 us
void LaunchRopeAndWriteKv(cudaStream_t stream, const StepView& step, const RopeView& rope, const HeadNorms& norms,
                          const AttentionShape& shape, int64_t tokens, const KvCacheView& kv);

// --- generated tokens -------------------------------------------------------------------------------------------------

// Slots of one split (kernels/decode_splits.h), a block of threads per (split, KV head, row), and of the last, with a tile more: a
// budget of 2,048 has 2,049 slots while its victim is chosen.
inline constexpr int32_t kSplitSlots = 256;
inline constexpr int32_t kLastSplitSlots = kSplitSlots + kBlockSlots;

constexpr int32_t SplitsOf(int32_t live) { return DecodeSplitCount(kSplitSlots, kLastSplitSlots - kSplitSlots, live); }
constexpr int32_t SplitEnd(int32_t split, int32_t splits, int32_t live) {
  return DecodeSplitEnd(kSplitSlots, split, splits, live);
}

// One decode row's work, with its places in the scratch memory.
struct DecodeItem {
  int32_t row;       // of StepView::rows
  int32_t splits;    // SplitsOf(live_after); 0: padding, no work
  int64_t partials;  // floats from the start: [split][query head][head_dim + 2], the output, then the largest logit and
                     // the sum of weights relative to it
  int64_t logits;    // [query head][live rounded up to 16], scaled; -1: not kept
};

constexpr int64_t PartialFloats(int32_t live, int32_t query_heads, int32_t head_dim) {
  return int64_t{SplitsOf(live)} * query_heads * (head_dim + 2);
}
constexpr int64_t LogitFloats(int32_t live, int32_t query_heads) { return int64_t{query_heads} * WholeBlocks(live); }

// Device::Attention for the rows of `items` (device memory; `splits_max` is the largest of their splits; `rolls`: their
// policies do).
//
//   kernels  one forms partial outputs per split: on tensor cores, or where these can not (fp32, unusual heads) with ordinary
//            arithmetic; one joins them, turns logits into probabilities, adds these to the scores and finds
//            the victim
//   grid     ordinary arithmetic: (splits, KV heads x parts of 16 query heads, rows), 128 threads; to join: (KV heads, rows), 512
//   bound    bytes of the live keys and values / memory bandwidth
//   oracle   reference::Attention, tests/kernels/attention_test.cc derives the tolerance; scores and victims
//            reference::H2oHistory, tests/kernels/h2o_test.cc
//   memory   ordinary arithmetic: 80 registers, 33 KB; to join: 64 registers, 1.3 KB
//   rejected one kernel for the rows of a step that roll and those that do not: a row's bits would depend on its neighbours
//   measured H100 (3,012 GB/s), 26 November 2026, bf16, 32 query and 8 KV heads of 128: 128 rows of 2,048 slots 394 us (90 %), with
//            scores and victims 439 (81 %); 32 of 2,048 104 and 116; 8 of 32,768 404 (88 %) and 490; one of 2,048 11.1 and 15.5
void LaunchDecodeAttention(cudaStream_t stream, const StepView& step, const RopeView& rope, const AttentionShape& shape,
                           const DecodeItem* items, int32_t count, int32_t splits_max, bool rolls, float* scratch,
                           const KvCacheView& kv);

// The splits alone, on tensor cores; false where the cache's type or head_dim has no such kernel (16 bits or int8; 64, 80, 96, 128,
// 256; of 256 dimensions 16 bits alone, and no policy that rolls), or where keys are turned in dims that are no multiple of eight.
//
//   kernel   mma.sync: eight query heads in a product's sixteen rows, each as two numbers of the cache's type (fp32's value but for
//            2^-17), and so are weights; a warp has every fourth tile of 16 slots, and brings keys and values of one or two of
//            them at a time to its own part of shared memory, where codes of int8 become bf16 and keys of rolling policies are turned
//   grid     (splits, KV heads x parts of eight query heads, rows), 128 threads
//   bound    bytes of the live keys and values / memory bandwidth
//   oracle   that of LaunchDecodeAttention; TestedDevice::rounding is the halves'
//   memory   96 registers and 37 KB at 64 dimensions, 128 and 45 at 80, 155 and 53 at 96, 166 and 69 at 128, 254 and 67 at 256; int8
//            119 to 166 and 35 to 68; turned keys 123 to 187 and 44 to 87
//   rejected keys and values straight to registers: a warp waits for its keys, and after the weights for its values (471 us for 128
//            rows of 2,048 slots)
//   measured with the one above; the same rows in int8 306 us and 84, rolling 925 and 243
bool LaunchDecodeSplitsMma(cudaStream_t stream, const StepView& step, const RopeView& rope, const AttentionShape& shape,
                           const DecodeItem* items, int32_t count, int32_t splits_max, bool rolls, float* scratch,
                           const KvCacheView& kv);

// --- prompts ----------------------------------------------------------------------------------------------------------

// Tiles of 16 slots that a block of threads works on at once, or that several blocks share.
inline constexpr int32_t kSpanTiles = 8;

// Some or all of kSpanTiles tiles of a prefill row: its queries, or, for the column sums, its keys.
struct PromptSpan {
  int32_t row;
  int32_t first_tile;  // multiple of kSpanTiles
};

// Spans on the device. `rolls`: the policies of their rows do.
struct PromptSpans {
  const PromptSpan* spans = nullptr;
  int32_t count = 0;
  bool rolls = false;
  float* pin_sums = nullptr;  // what DeviceRow::pin_sums counts from, for what pins are chosen by; null: for scores
};

// Device::Attention for spans of queries. sums [tokens, query_heads] gets the logarithm (base 2) of every row's sum of
// exponentials, in the units of scaled logits times log2(e).
//
//   kernels  on tensor cores where these can (as LaunchPromptAttentionWarpgroup and LaunchPromptAttentionMma say, in this order),
//            else with ordinary arithmetic: a block of threads per (tile of 16 queries, KV head), keys 16 at a time with a running
//            maximum
//   grid     ordinary arithmetic: (spans, KV heads, 8), 256 threads
//   bound    operations: 4 * head_dim per (query head, query, key seen)
//   oracle   reference::Attention, tests/kernels/attention_test.cc derives the tolerance
//   memory   ordinary arithmetic: 64 registers, of which 32 bytes spill, 17 KB
//   ordinary arithmetic is not yet measured on a device
void LaunchPromptAttention(cudaStream_t stream, const StepView& step, const RopeView& rope, const AttentionShape& shape,
                           const PromptSpans& spans, float* sums, const KvCacheView& kv);

// Adds the probabilities of the step's prompt rows to the scores of their keys, from the same sums. A span is one of keys. Or, where
// the spans say so, writes down what the rows that choose pins give them, squared (the numerator of A in kernels/eviction_policy.h).
//
//   kernels  on tensor cores or with ordinary arithmetic, as above: whoever adds to a score is alone in it, and goes through
//            the query tiles in ascending order
//   grid     ordinary arithmetic: (spans, KV heads, 8), 256 threads
//   bound    operations: 2 * head_dim per (query head, scored query, key seen)
//   oracle   reference::H2oHistory, tests/kernels/h2o_test.cc
//   memory   ordinary arithmetic: 60 registers, 17 KB
//   ordinary arithmetic is not yet measured on a device
void LaunchPromptScores(cudaStream_t stream, const StepView& step, const RopeView& rope, const AttentionShape& shape,
                        const PromptSpans& spans, const float* sums, const KvCacheView& kv);

// The two on tensor cores; false where there is no such kernel: a cache of 16 bits or int8 is needed, and a head_dim of 64, 80, 96,
// 128 or 256; where keys are turned, dims that are a multiple of eight. Queries, weights and keys that are turned are rounded to the
// cache's type, of int8 to bf16.
//
//   kernel   mma.sync. A warp has two tiles of 16 queries (of 256 dimensions one), so that what it reads of shared memory serves two
//            products; its queries wait there, too. Values come by cp.async while keys are multiplied, and the next keys while the
//            values are. Codes of int8 become bf16, and keys of rolling policies are turned, between two barriers of a stage; for scores
//            when a warp reads its keys
//   grid     (spans, query heads, 1 or, of 256 dimensions, 2), 128 threads: eight (tile, query head) share the keys and values they
//            stage, so the heads of a group are in one block as far as eight hold them and tiles fill up the rest; scores: (spans,
//            KV heads), a warp per tile of keys, which it keeps in registers while the queries pass by
//   bound    that of the two above
//   oracle   that of the two above; what rounding adds is TestedDevice::prompt_dtype's
//   memory   a stage of 64 keys and values (32 of 256 dimensions), rows 16 bytes longer than a head so that eight of them lie in
//            different banks, and queries: 37 KB at 64 dimensions, 45 at 80, 53 at 96, 70 at 128, 68 at 256; 250 to 255 registers,
//            of which 24 bytes spill at 80, 44 at 96 and 252 at 128. Scores: 5 to 17 KB, 102, 115, 119, 121 and 168 registers
//   measured H100, 26 November 2026, bf16, 32 query and 8 KV heads of 128, one prompt: 2,048 tokens 237 us (145 TFLOP/s), 8,192 2.25
//            ms (244), 32,768 30.5 ms (288); scores 0.65, 5.1 and 50 ms (88 TFLOP/s)
//            H200, int8: 0.28 and 2.86 ms of 2,048 and 8,192 tokens, scores 0.64 and 4.68; rolling, with keys in two numbers each: 0.48
//            and 4.62, scores 0.65 and 6.13
//   rejected 16 queries a warp and stages of 32 keys, a predicate for every product: 0.40, 4.65 and 66.9 ms
bool LaunchPromptAttentionMma(cudaStream_t stream, const StepView& step, const RopeView& rope,
                              const AttentionShape& shape, const PromptSpans& spans, float* sums,
                              const KvCacheView& kv);
bool LaunchPromptScoresMma(cudaStream_t stream, const StepView& step, const RopeView& rope, const AttentionShape& shape,
                           const PromptSpans& spans, const float* sums, const KvCacheView& kv);

// The two on Hopper's products of warpgroups (wgmma); false where there is no such kernel: as above, but a cache of 16 bits, heads of
// 64 or 128 dimensions, a scale above 0, a policy that does not roll, and AttentionShape::warpgroups.
//
//   kernel   a warp has 16 queries in registers. While the keys of a stage are multiplied with them, the weights of the stage before
//            are with its values, and cp.async brings the next; the block's warps meet once a stage. Scores: a warp has 16 keys
//            in registers, the block rounds the queries of four (tile, head) at a time for its 256 keys
//   grid     (spans, query heads), 256 threads for eight (tile, query head), as above; scores: (spans, KV heads), 512 threads for two
//            spans, where the second one's block ends at once
//   bound    that of the two above
//   oracle   that of the two above
//   memory   two stages of 128 keys and two of values in panels of 64 dimensions: 64 KB at 64 dimensions, 128 KB at 128; 255 registers,
//            of which 228 bytes spill at 128. Scores: two batches of 64 queries, 17 and 33 KB, 128 registers
//   measured as above: 2,048 tokens 144 us (238 TFLOP/s), 8,192 1.43 ms (385), 32,768 20.3 ms (434); scores 0.32, 2.10 and 20.1 ms
//   rejected stages of 64 keys: 145 us, 1.48 and 21.3 ms
bool LaunchPromptAttentionWarpgroup(cudaStream_t stream, const StepView& step, const AttentionShape& shape,
                                    const PromptSpans& spans, float* sums, const KvCacheView& kv);
bool LaunchPromptScoresWarpgroup(cudaStream_t stream, const StepView& step, const AttentionShape& shape,
                                 const PromptSpans& spans, const float* sums, const KvCacheView& kv);

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_ATTENTION_ATTENTION_H_
