// Where one block of the cache lies in the device's memory: what moves when a block is copied, parked or restored. Parked
// blocks of every device are these pieces one after the other, so that scores and positions can be read where they lie.
//
// Thread: any; pure functions.
#ifndef HYDRANT_KERNELS_KV_PIECES_H_
#define HYDRANT_KERNELS_KV_PIECES_H_

#include <array>
#include <cstddef>

#include "kernels/kv_cache_view.h"

namespace hydrant {

// A block over all layers and KV heads, in one piece of each array: k, v, score, position, and logical position, which is
// empty unless the cache is inspected.
struct KvPiece {
  void* data;
  size_t bytes;
};
inline constexpr size_t kScorePiece = 2;
using KvPieces = std::array<KvPiece, 5>;

inline KvPieces KvPiecesOf(const KvCacheView& kv, int32_t block, int32_t score_block) {
  const KvCacheLayout& layout = kv.layout;
  const size_t slots = static_cast<size_t>(layout.layers) * static_cast<size_t>(layout.kv_heads) * kBlockSlots;
  const size_t kv_bytes = layout.block_kv_bytes();
  const int64_t tile = layout.tile_offset(0, block, 0);
  const int64_t beside = layout.score_offset(0, score_block, 0);
  return {KvPiece{static_cast<std::byte*>(kv.k) + tile, kv_bytes},
          KvPiece{static_cast<std::byte*>(kv.v) + tile, kv_bytes}, KvPiece{kv.score + beside, slots * sizeof(float)},
          KvPiece{kv.position + beside, slots * sizeof(int32_t)},
          layout.inspected ? KvPiece{kv.logical_position + beside, slots * sizeof(int32_t)} : KvPiece{kv.score, 0}};
}

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_KV_PIECES_H_
