// SamplingScratches is the memory in which CpuDevice chooses a token from a row of logits: one area per thread.
#ifndef HYDRANT_KERNELS_CPU_SAMPLING_SAMPLING_SCRATCH_H_
#define HYDRANT_KERNELS_CPU_SAMPLING_SAMPLING_SCRATCH_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/runtime/cpu_buffer.h"
#include "kernels/step_batch.h"

namespace hydrant {

struct SamplingScratch {
  float* weights;      // [vocab]
  double* block_sums;  // [vocab / kWeightBlock + 1]
  int32_t* ids;        // [vocab]
  float* adjusted;     // [vocab]
};

class SamplingScratches {
 public:
  SamplingScratches(int threads, const StepBounds& bounds);
  // Bytes that a SamplingScratches allocates.
  static size_t Bytes(int threads, const StepBounds& bounds);

  SamplingScratch Of(int thread) const;
  int64_t vocab() const { return vocab_; }  // ops assert it

 private:
  const int64_t vocab_;
  CpuBuffer memory_;
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CPU_SAMPLING_SAMPLING_SCRATCH_H_
