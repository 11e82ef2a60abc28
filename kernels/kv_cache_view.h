// KvCacheLayout and KvCacheView say where cached keys, values, scores and positions lie in a device's memory.
//
// Thread: any (plain data).
#ifndef HYDRANT_KERNELS_KV_CACHE_VIEW_H_
#define HYDRANT_KERNELS_KV_CACHE_VIEW_H_

#include <cstddef>
#include <cstdint>

#include "kernels/step/block_ops.h"
#include "kernels/types.h"

namespace hydrant {

// The rule of KvType::kInt8, for one token's key or value in one KV head: x = scale * code with scale = max |x| / 127 and
// code = x * (127 / max |x|) rounded to the nearest integer, ties to even, all in fp32. So a code is in [-127, 127].
//  - max |x| below kInt8Smallest: scale and codes are 0. (127 / max |x| would overflow further down.)
//  - a NaN or an infinity among the elements: the scale is a NaN and the codes are 0, so every product with it is a NaN.
inline constexpr float kInt8Smallest = 0x1p-100f;

// Bytes before the codes of a tile: a scale of each slot.
constexpr size_t KvScaleBytes(KvType type) { return type == KvType::kInt8 ? kBlockSlots * sizeof(float) : 0; }
constexpr size_t KvElementBytes(KvType type) { return type == KvType::kInt8 ? 1 : DTypeBytes(DTypeOf(type)); }
// Bytes of one tile: K, or V, of one block in one layer head.
constexpr size_t KvTileBytes(KvType type, int32_t head_dim) {
  return KvScaleBytes(type) + static_cast<size_t>(kBlockSlots) * static_cast<size_t>(head_dim) * KvElementBytes(type);
}

struct KvCacheLayout {
  int32_t layers = 0;
  int32_t blocks = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  KvType type = KvType::kF32;
  int32_t state_rows = 0;          // sequences that can be in progress at once
  int32_t spare_score_blocks = 0;  // score blocks [blocks, blocks + spare_score_blocks) belong to no block
  bool inspected = false;          // KvCacheView::logical_position is there

  constexpr size_t tile_bytes() const { return KvTileBytes(type, head_dim); }
  // Bytes of K, or of V, in one block; in the cache.
  constexpr size_t block_kv_bytes() const { return tiles(1) * tile_bytes(); }
  size_t kv_bytes() const { return tiles(blocks) * tile_bytes(); }
  // Elements of `score`, or of `position`.
  size_t score_count() const { return tiles(score_blocks()) * kBlockSlots; }
  int32_t score_blocks() const { return blocks + spare_score_blocks; }
  // Bytes of one block's K, V, scores and positions over all layers and KV heads; of the last two alone.
  size_t block_bytes() const { return 2 * block_kv_bytes() + score_block_bytes(); }
  size_t score_block_bytes() const {
    return tiles(1) * kBlockSlots * (sizeof(float) + (inspected ? 2 : 1) * sizeof(int32_t));
  }
  // Elements from the start of `score` or `position` to [score block][layer][kv_head].
  constexpr int64_t score_offset(int32_t layer, int64_t score_block, int32_t kv_head) const {
    return tile_index(layer, score_block, kv_head) * kBlockSlots;
  }
  // Tiles before [block][layer][kv_head] in `k` or `v`; bytes before it.
  constexpr int64_t tile_index(int32_t layer, int64_t block, int32_t kv_head) const {
    return (block * layers + layer) * kv_heads + kv_head;
  }
  constexpr int64_t tile_offset(int32_t layer, int64_t block, int32_t kv_head) const {
    return tile_index(layer, block, kv_head) * static_cast<int64_t>(tile_bytes());
  }
  // Elements from the start of `victim` to [state_row][layer][kv_head].
  constexpr int64_t victim_offset(int32_t layer, int64_t state_row, int32_t kv_head) const {
    return (state_row * layers + layer) * kv_heads + kv_head;
  }
  size_t victim_count() const {
    return static_cast<size_t>(state_rows) * static_cast<size_t>(layers) * static_cast<size_t>(kv_heads);
  }
  // Bytes of a state row outside the device: int32 victims [layer][kv_head], then the id that was last sampled for it.
  size_t state_bytes() const { return (tiles(1) + 1) * sizeof(int32_t); }

 private:
  constexpr size_t tiles(int32_t of_blocks) const {
    return static_cast<size_t>(layers) * static_cast<size_t>(of_blocks) * static_cast<size_t>(kv_heads);
  }
};

// Device memory addressed by block id: slot s of a sequence lives in block table[s / 16] at offset s % 16. All layer
// heads (layer, KV head) share the table; which token a slot holds differs between them. The order of elements inside
// one [16, head_dim] tile of `k` and `v` is the device's own. A block is one piece of memory over all layers: a pool is
// touched for the first time piece by piece, as blocks are given out (with the layers outside, the first blocks of a
// stretch of every layer came at once, and the system's clearing of that much memory stopped a step for 0.3 s), and
// whole blocks move in one copy.
//
// Scores and positions are addressed by *score block* in the same way. A block's own score block has its number; a sequence
// that shares a block with others has a spare one beside it.
//
// The position of a slot is where its key stands: the token's logical position or, under a rolling policy, its rank, so that
// evicting one token lowers the positions above it by one. Under a rolling policy `k` holds keys before rotation.
//
// All that a device keeps of a sequence from one step to the next:
//  block        K and V, with the scales of kInt8
//  score block  positions, and scores as they count at the newest row: a decode row decays what is there when it adds its own,
//               and a prompt's rows are added with the weight that they have at the prompt's end. So the decay has no phase
//  state row    the victims, where the next row is to overwrite them, and the id that was last sampled: the token of a row that
//               was planned ahead, and one more of the text for LogitAdjustments::counts_last
// Everything else comes with each row: counts, policy, adjustments, and the position that a draw depends on.
struct KvCacheView {
  KvCacheLayout layout;
  void* k = nullptr;            // [block][layer][kv_head] tiles of [16][head_dim], kInt8: [16] fp32 scales before it
  void* v = nullptr;            // the same
  float* score = nullptr;       // [score block][layer][kv_head][16]
  int32_t* position = nullptr;  // [score block][layer][kv_head][16]
  int32_t* victim = nullptr;    // [state_row][layer][kv_head], the slot the next token overwrites
  // [score block][layer][kv_head][16], for inspection only, else null: the token's logical position whatever the policy.
  int32_t* logical_position = nullptr;
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_KV_CACHE_VIEW_H_
