// The ops that move or judge whole caches between steps: cuts, what cuts would cost, score blocks, copies of blocks. (attention.h says
// what a card's `memory` is.)
#ifndef HYDRANT_KERNELS_CUDA_EVICTION_EVICTION_H_
#define HYDRANT_KERNELS_CUDA_EVICTION_EVICTION_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/runtime/step_view.h"
#include "kernels/kv_cache_view.h"
#include "kernels/step_batch.h"

namespace hydrant::cuda {

// ShrinkOp, its tables in device memory.
struct Cut {
  int32_t live_from;
  int32_t live_to;
  int32_t position_end;
  int32_t reach;  // pooling: candidates at most so far away count; 0: none
  EvictionPolicy policy;
  const int32_t* blocks;
  const int32_t* score_blocks;
};

// Scratch memory of one block of threads, for sequences of at most `slots` slots.
size_t CutScratchBytes(int32_t slots);

// Device::Shrink. `blocks` of threads share out the (cut, layer, KV head) triples; scratch has CutScratchBytes(slots_max) for
// each.
//
//   kernel   radix selection of the last score kept, then whole slots move, a warp each
//   grid     a block of 256 threads per triple, as far as there is scratch
//   bound    bytes of the scores and positions, eight times, and of the keys and values that move / memory bandwidth
//   oracle   H2oHistory::CutSurvivors, whose sets must be equal (tests/kernels/shrink_test.cc)
//   memory   64 registers, 5.8 KB; CutScratchBytes of device memory
//   not yet measured on a device
void LaunchCuts(cudaStream_t stream, const Cut* cuts, int32_t count, int32_t slots_max, int32_t blocks,
                std::byte* scratch, const KvCacheView& kv);

// One cut that is only weighed: a policy lowered to `keep` slots.
struct Weighing {
  int32_t keep;
  int32_t recent;
};

// LossOp, its tables in device memory.
struct LossCase {
  int32_t live;
  int32_t position_end;
  bool scores;
  const Weighing* cuts;  // [cut_count]
  int32_t cut_count;
  const int32_t* score_blocks;
  double* losses;  // [layers * kv_heads][cut_count]
};

// Device::MeasureLosses, before the mean over pairs.
//
//   kernel   for each cut the radix selection of LaunchCuts, then a sum of what stays
//   grid     a block of 256 threads per (layer, KV head)
//   bound    bytes of the scores and positions, ten times per cut, from L2
//   oracle   H2oHistory's scores summed on the host, to 1e-6 (tests/kernels/shrink_loss_test.cc)
//   memory   48 registers, 5.6 KB
//   not yet measured on a device
void LaunchLosses(cudaStream_t stream, const LossCase& losses, const KvCacheView& kv);

// Device::InitScores.
//
//   kernel   a thread per (layer, KV head, slot of a block) goes through all of them, because one may read what an earlier one wrote
//   grid     as many blocks of 256 threads as these are
//   bound    bytes of the scores read and of the scores and positions written / memory bandwidth
//   oracle   the definition, value by value (tests/kernels/device_test.cc)
//   memory   28 registers
//   not yet measured on a device
void LaunchInitScores(cudaStream_t stream, const ScoreInit* inits, int32_t count, const KvCacheView& kv);
// Device::CopyBlocks. At most 65,535 of them.
//
//   kernel   16 bytes a thread at a time, four in turn
//   grid     (16 KiB of a block's keys, copies), 256 threads
//   bound    bytes of the blocks, read and written / memory bandwidth
//   oracle   equal bytes (tests/kernels/device_test.cc)
//   memory   32 registers
//   not yet measured on a device
void LaunchCopyBlocks(cudaStream_t stream, const BlockCopy* copies, int32_t count, const KvCacheView& kv);

// Blocks as Device::ExportBlocks lays them out one after the other (kernels/kv_pieces.h), of which `bytes` from `begin` on lie
// at `packed`. Both are multiples of 16, `packed` begins at one, and may be pinned memory of the host.
struct PackedBlocks {
  const int32_t* blocks;  // in device memory, like
  const int32_t* score_blocks;
  int64_t begin;
  int64_t bytes;
  std::byte* packed;
};

// Fills `packed` from the cache; fills the cache from `packed`, scores multiplied by `score_factor`.
//
//   kernel   16 bytes a thread at a time, 512 in a row a warp, on both sides
//   grid     256 threads per 4 KiB, 512 blocks at most
//   bound    the bus, where `packed` is the host's
//   oracle   equal bytes (tests/kernels/cuda/eviction/kv_staging_test.cc)
//   memory   26 registers
//   rejected a copy each of a block's keys, values, scores and positions: four calls a block instead of one in 8 MiB
//   not yet measured on a device
void LaunchPack(cudaStream_t stream, const PackedBlocks& range, const KvCacheView& kv);
void LaunchUnpack(cudaStream_t stream, const PackedBlocks& range, float score_factor, const KvCacheView& kv);

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_EVICTION_EVICTION_H_
