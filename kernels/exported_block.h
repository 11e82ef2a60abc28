// Where the slots of a block lie in what Device::ExportBlocks writes, in the order of elements that Device::kv_format names: for
// whoever has to change single slots of KV that has left the device.
//
// Thread: any; pure functions.
#ifndef HYDRANT_KERNELS_EXPORTED_BLOCK_H_
#define HYDRANT_KERNELS_EXPORTED_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "kernels/kv_cache_view.h"

namespace hydrant {

// Elements of slots [first, 16) of a tile of K (or V) become zero. Each format has a test against its device.
inline void ClearTile(bool cpu_order, bool is_k, KvType type, int32_t head_dim, int32_t first, std::byte* tile) {
  const size_t size = KvElementBytes(type);
  if (type == KvType::kInt8) {
    std::memset(tile + static_cast<size_t>(first) * sizeof(float), 0,
                static_cast<size_t>(kBlockSlots - first) * sizeof(float));
    tile += KvScaleBytes(type);
  }
  const bool pairs = type == KvType::kBF16;
  for (int64_t slot = first; slot < kBlockSlots; ++slot) {
    for (int64_t dim = 0; dim < head_dim; ++dim) {
      int64_t element = slot * head_dim + dim;
      if (cpu_order && is_k) {
        element = pairs ? (dim / 2 * kBlockSlots + slot) * 2 + dim % 2 : dim * kBlockSlots + slot;
      } else if (cpu_order && pairs) {
        element = (slot / 2 * head_dim + dim) * 2 + slot % 2;
      }
      std::memset(tile + static_cast<size_t>(element) * size, 0, size);
    }
  }
}

// Slots [first, 16) of `block` [layout.block_bytes()] become zero in all layers and KV heads: K, V, scores and positions. A block that
// is not full has there what lay in it before it was given to this sequence: another request's. False: no such format is known.
inline bool ClearSlots(std::string_view format, const KvCacheLayout& layout, int32_t first, std::byte* block) {
  const bool cpu_order = format == "cpu 1";
  if (!cpu_order && format != "cuda 1") return false;
  const auto tiles = static_cast<size_t>(layout.layers) * static_cast<size_t>(layout.kv_heads);
  for (size_t i = 0; i < 2 * tiles; ++i) {
    ClearTile(cpu_order, /*is_k=*/i < tiles, layout.type, layout.head_dim, first, block + i * layout.tile_bytes());
  }
  // Scores, positions and, where the cache is inspected, logical positions: four bytes each.
  std::byte* const beside = block + 2 * tiles * layout.tile_bytes();
  const size_t rows = layout.score_block_bytes() / (kBlockSlots * sizeof(int32_t));
  for (size_t row = 0; row < rows; ++row) {
    std::memset(beside + (row * kBlockSlots + static_cast<size_t>(first)) * sizeof(int32_t), 0,
                static_cast<size_t>(kBlockSlots - first) * sizeof(int32_t));
  }
  return true;
}

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_EXPORTED_BLOCK_H_
