// The ops that move or judge whole caches between steps: cuts, what cuts would cost, score blocks, copies of blocks. (attention.h says
// what a card's `memory` is.)
#ifndef HYDRANT_KERNELS_CUDA_EVICTION_EVICTION_H_
#define HYDRANT_KERNELS_CUDA_EVICTION_EVICTION_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cuda/attention/attention.h"
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
//   kernel   the slots' keys are written down, a radix selection finds the last that stays, then the slots that move do so 16 bytes a
//            thread, four on their way at once
//   grid     a block of 1,024 threads per triple, as far as there is scratch; of 256 where sequences have up to 4,096 slots
//   bound    bytes of the scores and positions, of their keys nine times (L2), and of the keys and values that move / memory bandwidth
//   oracle   H2oHistory::CutSurvivors, whose sets must be equal (tests/kernels/shrink_test.cc)
//   memory   64 registers, 1.7 KB; CutScratchBytes of device memory
//   rejected 256 threads that work the keys out at each pass, and a warp per slot that moves: 905 us
//   H100     26 November 2026: one layer of 8 KV heads of 128, 32,768 slots to 2,048 in 163 us
void LaunchCuts(cudaStream_t stream, const Cut* cuts, int32_t count, int32_t slots_max, int32_t blocks,
                std::byte* scratch, const KvCacheView& kv);

// Pins what the prompts of `rows` (`count` numbers of StepView::rows, in device memory) point at (kernels/eviction_policy.h): after
// LaunchPromptScores of all their rows and of their `pin_sums`, which are overwritten. `blocks` and scratch as for LaunchCuts.
//
//   kernel   candidates are ordered by position; the first of each segment finds the segment's largest A, every one asks that of the
//            segment before, and a radix selection finds the last that is pinned. For segments of a few dozen tokens: threads go
//            through them
//   grid     a block of 1,024 threads per (row, KV head), as far as there is scratch; of 256 where sequences have up to 4,096 slots
//   bound    bytes of the sums, scores and positions, and of the keys nine times (L2) / memory bandwidth
//   oracle   reference::H2oHistory, whose sets must be equal but for ties within rounding (tests/kernels/h2o_test.cc)
//   memory   58 registers, 1.4 KB; CutScratchBytes of device memory
//   not yet measured on a device
void LaunchChoosePins(cudaStream_t stream, const StepView& step, const AttentionShape& shape, const int32_t* rows,
                      int32_t count, int32_t slots_max, int32_t blocks, std::byte* scratch, float* pin_sums,
                      const KvCacheView& kv);

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

// Device::MeasurePairs.
//
//   kernel   a block orders the slots once, in shared memory; then a warp per cut goes through them. Of more than 4,096 slots the radix
//            selection of LaunchCuts for each cut
//   grid     a block of 256 threads per (layer, KV head)
//   bound    instructions: slots times cuts
//   oracle   H2oHistory's scores summed on the host, to 1e-6 (tests/kernels/shrink_loss_test.cc)
//   memory   39 registers, 34 KB
//   rejected a selection for each cut: 1,344 us
//   H100     26 November 2026: 64 cuts of 2,048 slots, 32 layers of 8 KV heads, in 156 us
void LaunchLosses(cudaStream_t stream, const LossCase& losses, const KvCacheView& kv);

// Device::InitScores.
//
//   kernel   a thread per (layer, KV head, slot of a block) and init; one goes through all where an init reads or writes what another
//            one writes
//   grid     (blocks of 256 threads for a score block, inits); for those (blocks, 1)
//   bound    bytes of the scores read and of the scores and positions written / memory bandwidth
//   oracle   the definition, value by value (tests/kernels/device_test.cc)
//   memory   28 registers
//   rejected every thread going through all inits, always: 22 us
//   H100     26 November 2026: 128 score blocks of 32 layers of 8 KV heads in 3.0 us
void LaunchInitScores(cudaStream_t stream, std::span<const ScoreInit> inits, const ScoreInit* on_device,
                      const KvCacheView& kv);

// Device::CopyBlocks. At most 65,535 of them.
//
//   kernel   16 bytes a thread at a time, four in turn
//   grid     (16 KiB of a block's keys, copies), 256 threads
//   bound    bytes of the blocks, read and written / memory bandwidth
//   oracle   equal bytes (tests/kernels/device_test.cc)
//   memory   32 registers
//   H100     26 November 2026: 64 blocks of 32 layers of 8 KV heads of 128 in 98 us, 92 % of what a copy moves
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
//   H100     26 November 2026: 32,768 slots of one such layer out in 2.6 ms and in again in 2.7, 91 to 95 % of what a copy takes
void LaunchPack(cudaStream_t stream, const PackedBlocks& range, const KvCacheView& kv);
void LaunchUnpack(cudaStream_t stream, const PackedBlocks& range, float score_factor, const KvCacheView& kv);

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_EVICTION_EVICTION_H_
