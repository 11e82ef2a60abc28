// Memory that the attention ops of CpuDevice reuse from step to step.
#ifndef HYDRANT_KERNELS_CPU_ATTENTION_SCRATCH_H_
#define HYDRANT_KERNELS_CPU_ATTENTION_SCRATCH_H_

namespace hydrant {

struct AttentionScratch {};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CPU_ATTENTION_SCRATCH_H_
