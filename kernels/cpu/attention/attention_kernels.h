// Inner loops of the ops over cached keys and values: rope, KV writes, attention with scores, victims.
//
// Order of elements inside one head's tile of 16 slots, chosen so that one vector register holds the same element of 16
// slots (K) or 16 elements of one slot (V), and so that two neighbours form the pair that a bf16 dot product consumes:
//   bf16        K [head_dim / 2][16 slots][2 elements]     V [8 slot pairs][head_dim][2 slots]
//   fp32, fp16  K [head_dim][16 slots]                     V [16 slots][head_dim]
//   int8        the same, after [16 slots] fp32 scales
//
// V of a slot that no token occupies is finite, its scale too (zero, or a former token of the same sequence): the kernels
// multiply it by an exact 0. K may hold anything there.
//
// Scales never become part of an element: a key's multiplies the product with a query, a value's the weight of its slot.
// So products over int8 cost a conversion per element and nothing else.
#ifndef HYDRANT_KERNELS_CPU_ATTENTION_ATTENTION_KERNELS_H_
#define HYDRANT_KERNELS_CPU_ATTENTION_ATTENTION_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/decode_splits.h"
#include "kernels/eviction_policy.h"
#include "kernels/kv_cache_view.h"
#include "kernels/types.h"

namespace hydrant {

// Slots of one unit of decode attention work, and how many more its last one takes (kernels/decode_splits.h).
inline constexpr int32_t kDecodeSplitSlots = 256;
inline constexpr int32_t kDecodeTailSlots = 64;

// One KV head's tiles of one layer, found through a sequence's block table.
struct TileView {
  KvType type = KvType::kF32;
  int32_t head_dim = 0;
  const std::byte* k = nullptr;  // tile of block 0
  const std::byte* v = nullptr;
  ptrdiff_t tile_stride = 0;             // bytes from block b's tile to block b + 1's
  const int32_t* block_table = nullptr;  // [blocks of the sequence]
};

// The scores and positions beside the tiles.
struct ScoreView {
  float* score = nullptr;             // [16] of score block 0
  const int32_t* position = nullptr;  // [16] of score block 0
  ptrdiff_t stride = 0;               // elements from score block to score block
  const int32_t* score_table = nullptr;
};

// A vector that starts inside a row of the rotary table may end this many elements after it.
inline constexpr int32_t kRopePadding = 8;

// Cosines and sines of keys that are rotated as they are read; no table: keys are taken as they are cached.
struct RopeView {
  const float* table = nullptr;  // [positions][2][dims / 2], and kRopePadding readable elements after it
  int32_t dims = 0;              // rotated leading elements of a head
};

// Slots [slot_begin, slot_end) of one decode token's attention, for the `group` query heads of one KV head; none: the
// token sees nothing of the split.
struct DecodeSplit {
  TileView tiles;
  const float* q = nullptr;  // [group, head_dim]
  int32_t group = 0;
  float scale = 1.0f;      // > 0
  float cap = 0.0f;        // > 0: a product x of q and k counts as cap * tanh(x / cap); 0: as it is
  int32_t slot_begin = 0;  // multiple of 16
  int32_t slot_end = 0;
  float* weights =
      nullptr;  // [group, weights_stride], from slot_begin on: exp((q k - largest) * scale), up to a multiple of 16
  int64_t weights_stride = 0;
  float* largest = nullptr;  // [group] of the split: max q k
  float* total = nullptr;    // [group] of the split: sum of the weights
  float* out = nullptr;      // [group, head_dim] of the split: sum of weights times V
  RopeView rope;
  int32_t first_seen = 0;  // slots with a position below it are hidden; below 1: none is
  // Those of the row: for rotation and hiding, or fetched on the way because the join will need them; else null.
  ScoreView scores;
};

// Joins the splits of one (row, KV head): output, scores, victim.
struct DecodeJoin {
  int32_t group = 0;
  int32_t head_dim = 0;
  float scale = 1.0f;
  int32_t splits = 0;
  int32_t live = 0;                // slots attended to
  const float* weights = nullptr;  // [group, weights_stride]
  int64_t weights_stride = 0;
  float* largest = nullptr;          // [splits, group]; overwritten
  const float* total = nullptr;      // [splits, group]
  const float* split_out = nullptr;  // [splits, group, head_dim]
  const float* sinks = nullptr;      // [group], as in AttentionSpec
  float* out = nullptr;              // [group, head_dim]
  const EvictionPolicy* policy = nullptr;
  bool pins_hold = false;  // BatchRow::pins_hold
  bool choose_victim = false;
  int32_t candidates_end = 0;  // slots with a position below it are candidates
  int32_t first_seen = 0;      // slots with a position below it are hidden: their score becomes 0
  ScoreView scores;
  // [slots] in place of the scores that `scores` leads to: those that a draft would leave. Null: it is no draft.
  float* draft_scores = nullptr;
  int32_t* victim = nullptr;
};

// The query rows of one tile of 16 slots, for one KV head's group.
struct PrefillTile {
  TileView tiles;
  const float* q = nullptr;  // of row_begin: [group, head_dim], next row q_stride elements on
  int64_t q_stride = 0;
  float* out = nullptr;  // of row_begin: [group, head_dim], next row out_stride on
  int64_t out_stride = 0;
  int32_t group = 0;
  float scale = 1.0f;            // > 0
  float cap = 0.0f;              // as in DecodeSplit
  const float* sinks = nullptr;  // [group], as in AttentionSpec
  int32_t tile = 0;              // row r of the tile sits in slot 16 * tile + r and sees slots up to its own
  int32_t row_begin = 0;         // rows [row_begin, row_end) of the tile are computed
  int32_t row_end = 0;
  int32_t first_seen = 0;                  // slots with a position below it + r are hidden from row r
  int32_t tile_begin = 0;                  // tiles below it are hidden from every row and left out
  const float* row_weights = nullptr;      // [16] factor of each row in the scores; null: no scores
  const float* pin_weights = nullptr;      // [16] the same in the sums that choose pins; null: none
  const EvictionPolicy* policy = nullptr;  // of the scores
  RopeView rope;
  ScoreView scores;              // of the row; read for rotation and hiding only
  std::byte* scratch = nullptr;  // PrefillScratchBytes()
  float* column_sums = nullptr;  // [16 * (tile + 1)], overwritten unless row_weights is null
  float* pin_sums = nullptr;     // [16 * (tile + 1)], added to unless pin_weights is null
};

struct AttentionKernels {
  // x [heads, head_dim] in place; cosine, sine [dims / 2].
  void (*rotate)(float* x, int32_t heads, int32_t head_dim, int32_t dims, const float* cosine, const float* sine);
  // Puts k, v [head_dim] at `offset` of the tiles; with fresh_tile the rest of V becomes 0.
  void (*write_kv)(KvType type, const float* k, const float* v, int32_t head_dim, std::byte* k_tile, std::byte* v_tile,
                   int32_t offset, bool fresh_tile);
  void (*decode_split)(const DecodeSplit& split);
  void (*decode_join)(const DecodeJoin& join);
  void (*prefill_tile)(const PrefillTile& tile);
  // score = |score| + sums [16 * blocks]; below kScoreMin, and where the position is below first_seen, it is 0.
  void (*add_scores)(const ScoreView& scores, const float* sums, int32_t blocks, int32_t first_seen);
};

// Scratch of prefill_tile for a sequence of at most `slots` slots.
constexpr size_t PrefillScratchBytes(int32_t slots, int32_t head_dim) {
  const size_t tiles = static_cast<size_t>(BlocksForSlots(slots));
  const size_t q = static_cast<size_t>(kBlockSlots) * static_cast<size_t>(head_dim) * sizeof(float);
  // Weights in fp32 and again in bf16 per (row, slot), then q and the output, then rotated keys, all 64-byte aligned. Keys
  // that need no rotation leave the last part untouched, and memory that is not touched is not taken.
  return tiles * kBlockSlots * kBlockSlots * (sizeof(float) + sizeof(uint16_t)) + 2 * q + tiles * q + 256;
}

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CPU_ATTENTION_ATTENTION_KERNELS_H_
