// ExpertScratch is the memory that the experts of CpuDevice reuse from step to step.
#ifndef HYDRANT_KERNELS_CPU_LINEAR_EXPERT_SCRATCH_H_
#define HYDRANT_KERNELS_CPU_LINEAR_EXPERT_SCRATCH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cpu/linear/expert_groups.h"
#include "kernels/cpu/runtime/cpu_buffer.h"
#include "kernels/step_batch.h"

namespace hydrant {

// Rows of an expert that are prepared and multiplied together: as many as the highest tile of a kernel has. Bits do not depend on
// it.
inline constexpr int64_t kExpertRows = 32;

struct ExpertScratch {
  // `prepared_row_bytes`: ProductKernels::prepared_bytes of a row of bounds.expert_cols_max inputs, the most of all formats.
  ExpertScratch(int threads, const StepBounds& bounds, size_t prepared_row_bytes);
  static size_t Bytes(int threads, const StepBounds& bounds, size_t prepared_row_bytes);

  float* GatheredOf(int thread) { return gathered.data() + static_cast<size_t>(thread) * gathered_floats; }

  std::vector<ChosenExpert> chosen;  // [rows][per_row]
  ExpertGroups groups;
  CpuBuffer prepared;            // the entries' x, as the linear kernels want it
  const size_t gathered_floats;  // of a thread
  std::vector<float> gathered;   // [threads][kExpertRows, expert_cols_max]: rows that are about to be prepared
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CPU_LINEAR_EXPERT_SCRATCH_H_
