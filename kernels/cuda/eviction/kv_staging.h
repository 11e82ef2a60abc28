// KvStaging carries blocks between the cache and ordinary memory of the host, a piece at a time through two pinned buffers: the
// device fills or empties one while the host copies the other. A kernel gathers a piece and writes it across the bus itself: the
// pieces of a block lie in four arrays, and a copy for each costs more than its bytes where a session has hundreds of blocks.
//
// Thread: engine.
#ifndef HYDRANT_KERNELS_CUDA_EVICTION_KV_STAGING_H_
#define HYDRANT_KERNELS_CUDA_EVICTION_KV_STAGING_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/eviction/eviction.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/kv_cache_view.h"

namespace hydrant::cuda {

class KvStaging {
 public:
  // `piece_bytes` each: a positive multiple of 16.
  KvStaging(cudaStream_t stream, size_t piece_bytes);
  KvStaging(const KvStaging&) = delete;
  KvStaging& operator=(const KvStaging&) = delete;

  // `bytes` of whole packed blocks. Waits until `out` has them.
  void Export(const PackedBlocks& blocks, int64_t bytes, const KvCacheView& kv, std::byte* out);
  // Queues it; `in` may go once this returns. Scores are multiplied by `score_factor`.
  void Import(const PackedBlocks& blocks, int64_t bytes, float score_factor, const KvCacheView& kv,
              const std::byte* in);

 private:
  struct Half {
    explicit Half(size_t bytes) : memory(bytes) {}
    PinnedBuffer memory;
    Event done;  // what the device has to do with it
  };
  Half& half(int64_t piece) { return halves_[piece % 2]; }
  PackedBlocks PieceOf(const PackedBlocks& blocks, int64_t bytes, int64_t piece);

  cudaStream_t stream_;
  int64_t piece_bytes_;
  Half halves_[2];
};

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_EVICTION_KV_STAGING_H_
