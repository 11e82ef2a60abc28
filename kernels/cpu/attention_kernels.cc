#include "kernels/cpu/attention_kernels.h"

namespace hydrant::HYDRANT_ISA {

extern const AttentionKernels kAttentionKernels;
const AttentionKernels kAttentionKernels = {};

}  // namespace hydrant::HYDRANT_ISA
