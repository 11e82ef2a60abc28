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

struct KvCacheLayout {
  int32_t layers = 0;
  int32_t blocks = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  DType dtype = DType::kF32;
  int32_t state_rows = 0;          // sequences that can be in progress at once
  int32_t spare_score_blocks = 0;  // score blocks [blocks, blocks + spare_score_blocks) belong to no block
  bool inspected = false;          // KvCacheView::logical_position is there

  // Bytes of one tile: K, or V, of one block in one layer head.
  constexpr size_t tile_bytes() const {
    return static_cast<size_t>(kBlockSlots) * static_cast<size_t>(head_dim) * DTypeBytes(dtype);
  }
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
struct KvCacheView {
  KvCacheLayout layout;
  void* k = nullptr;            // [block][layer][kv_head][16][head_dim]
  void* v = nullptr;            // [block][layer][kv_head][16][head_dim]
  float* score = nullptr;       // [score block][layer][kv_head][16]
  int32_t* position = nullptr;  // [score block][layer][kv_head][16]
  int32_t* victim = nullptr;    // [state_row][layer][kv_head], the slot the next token overwrites
  // [score block][layer][kv_head][16], for inspection only, else null: the token's logical position whatever the policy.
  int32_t* logical_position = nullptr;
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_KV_CACHE_VIEW_H_
