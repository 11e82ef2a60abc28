// Where one block of the cache lies in the device's memory: what moves when a block is copied, parked or restored. Parked
// blocks of every device are these pieces one after the other, so that scores and positions can be read where they lie.
//
// Thread: any; pure functions.
#ifndef HYDRANT_KERNELS_KV_PIECES_H_
#define HYDRANT_KERNELS_KV_PIECES_H_

#include <array>
#include <cstddef>
#include <cstdint>

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

// What a layer and KV head has of each piece, in bytes.
inline std::array<size_t, 5> KvPieceUnits(const KvCacheLayout& layout) {
  constexpr size_t kScores = kBlockSlots * sizeof(float), kPositions = kBlockSlots * sizeof(int32_t);
  return {layout.tile_bytes(), layout.tile_bytes(), kScores, kPositions, layout.inspected ? kPositions : 0};
}

inline KvPieces KvPiecesOf(const KvCacheView& kv, int32_t block, int32_t score_block) {
  const KvCacheLayout& layout = kv.layout;
  const size_t pairs = static_cast<size_t>(layout.layers) * static_cast<size_t>(layout.kv_heads);
  const std::array<size_t, 5> units = KvPieceUnits(layout);
  const int64_t tile = layout.tile_offset(0, block, 0);
  const int64_t beside = layout.score_offset(0, score_block, 0);
  return {KvPiece{static_cast<std::byte*>(kv.k) + tile, pairs * units[0]},
          KvPiece{static_cast<std::byte*>(kv.v) + tile, pairs * units[1]},
          KvPiece{kv.score + beside, pairs * units[kScorePiece]}, KvPiece{kv.position + beside, pairs * units[3]},
          KvPiece{layout.inspected ? kv.logical_position + beside : kv.position, pairs * units[4]}};
}

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_KV_PIECES_H_
