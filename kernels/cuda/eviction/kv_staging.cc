#include "kernels/cuda/eviction/kv_staging.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "kernels/cuda/runtime/cuda_error.h"

namespace hydrant::cuda {

KvStaging::KvStaging(cudaStream_t stream, size_t piece_bytes)
    : stream_(stream), piece_bytes_(static_cast<int64_t>(piece_bytes)), halves_{Half(piece_bytes), Half(piece_bytes)} {
  assert(piece_bytes > 0 && piece_bytes % 16 == 0);
}

PackedBlocks KvStaging::PieceOf(const PackedBlocks& blocks, int64_t bytes, int64_t piece) {
  PackedBlocks range = blocks;
  range.begin = piece * piece_bytes_;
  range.bytes = std::min(piece_bytes_, bytes - range.begin);
  range.packed = half(piece).memory.data();
  return range;
}

void KvStaging::Export(const PackedBlocks& blocks, int64_t bytes, const KvCacheView& kv, std::byte* out) {
  const int64_t pieces = (bytes + piece_bytes_ - 1) / piece_bytes_;
  const auto queue = [&](int64_t piece) {
    LaunchPack(stream_, PieceOf(blocks, bytes, piece), kv);
    CheckCuda(cudaEventRecord(half(piece).done, stream_), "cudaEventRecord");
  };
  if (pieces > 0) queue(0);
  for (int64_t piece = 0; piece < pieces; ++piece) {
    if (piece + 1 < pieces) queue(piece + 1);
    CheckCuda(cudaEventSynchronize(half(piece).done), "cudaEventSynchronize");
    const PackedBlocks range = PieceOf(blocks, bytes, piece);
    std::memcpy(out + range.begin, range.packed, static_cast<size_t>(range.bytes));
  }
}

void KvStaging::Import(const PackedBlocks& blocks, int64_t bytes, float score_factor, const KvCacheView& kv,
                       const std::byte* in) {
  const int64_t pieces = (bytes + piece_bytes_ - 1) / piece_bytes_;
  for (int64_t piece = 0; piece < pieces; ++piece) {
    const PackedBlocks range = PieceOf(blocks, bytes, piece);
    // Wait until the last copy through this half, of this call or an earlier one, is done.
    CheckCuda(cudaEventSynchronize(half(piece).done), "cudaEventSynchronize");
    std::memcpy(range.packed, in + range.begin, static_cast<size_t>(range.bytes));
    LaunchUnpack(stream_, range, score_factor, kv);
    CheckCuda(cudaEventRecord(half(piece).done, stream_), "cudaEventRecord");
  }
}

}  // namespace hydrant::cuda
