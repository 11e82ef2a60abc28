// LayerView finds what is cached of one layer.
//
// Thread: any.
#ifndef HYDRANT_KERNELS_CPU_ATTENTION_LAYER_VIEW_H_
#define HYDRANT_KERNELS_CPU_ATTENTION_LAYER_VIEW_H_

#include <cassert>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention/attention_kernels.h"
#include "kernels/kv_cache_view.h"
#include "kernels/step_batch.h"

namespace hydrant {

// Addresses of one layer of the cache.
class LayerView {
 public:
  LayerView(const KvCacheView& kv, int32_t layer) : kv_(kv), layout_(kv.layout), layer_(layer) {}

  const KvCacheView& kv() const { return kv_; }
  std::byte* K(int64_t block, int32_t kv_head) const { return Tile(kv_.k, block, kv_head); }
  std::byte* V(int64_t block, int32_t kv_head) const { return Tile(kv_.v, block, kv_head); }
  // Elements before those of a score block, and before that of a row's slot.
  int64_t ScoreAt(int64_t score_block, int32_t kv_head) const {
    return layout_.score_offset(layer_, score_block, kv_head);
  }
  int64_t ScoreOf(const BatchRow& row, int32_t kv_head, int32_t slot) const {
    return ScoreAt(row.score_blocks()[static_cast<size_t>(slot / kBlockSlots)], kv_head) + slot % kBlockSlots;
  }
  int32_t* Victim(int32_t state_row, int32_t kv_head) const {
    assert(0 <= state_row && state_row < layout_.state_rows);
    return kv_.victim + layout_.victim_offset(layer_, state_row, kv_head);
  }
  TileView Tiles(const BatchRow& row, int32_t kv_head) const {
    return {.type = layout_.type,
            .head_dim = layout_.head_dim,
            .k = K(0, kv_head),
            .v = V(0, kv_head),
            .tile_stride = static_cast<ptrdiff_t>(layout_.block_kv_bytes()),
            .block_table = row.block_table.data()};
  }
  ScoreView Scores(const BatchRow& row, int32_t kv_head) const {
    return {.score = kv_.score + ScoreAt(0, kv_head),
            .position = kv_.position + ScoreAt(0, kv_head),
            .stride = int64_t{layout_.layers} * layout_.kv_heads * kBlockSlots,
            .score_table = row.score_blocks().data()};
  }

 private:
  std::byte* Tile(void* base, int64_t block, int32_t kv_head) const {
    return static_cast<std::byte*>(base) + layout_.tile_offset(layer_, block, kv_head);
  }

  const KvCacheView& kv_;
  const KvCacheLayout& layout_;
  const int32_t layer_;
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CPU_ATTENTION_LAYER_VIEW_H_
