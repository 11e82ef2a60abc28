// ShrinkScratches is the memory in which CpuDevice ranks the slots of a (layer, KV head) to cut it: one area per thread.
#ifndef HYDRANT_KERNELS_CPU_EVICTION_SHRINK_SCRATCH_H_
#define HYDRANT_KERNELS_CPU_EVICTION_SHRINK_SCRATCH_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/runtime/cpu_buffer.h"
#include "kernels/step_batch.h"

namespace hydrant {

struct ShrinkScratch {
  uint64_t* keys;  // [live_from]
  int32_t* slots;  // [2 * live_from]
  float* pooled;   // [live_from]
};

class ShrinkScratches {
 public:
  ShrinkScratches(int threads, const StepBounds& bounds);
  // Bytes that a ShrinkScratches allocates.
  static size_t Bytes(int threads, const StepBounds& bounds);

  ShrinkScratch Of(int thread) const;
  int32_t slots_max() const { return slots_max_; }  // rounded up to whole blocks; ops assert it

 private:
  const int32_t slots_max_;
  CpuBuffer memory_;
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CPU_EVICTION_SHRINK_SCRATCH_H_
