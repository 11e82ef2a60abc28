// Inner loops of the ops over cached keys and values: rope, KV writes, attention, eviction, sampling.
#ifndef HYDRANT_KERNELS_CPU_ATTENTION_KERNELS_H_
#define HYDRANT_KERNELS_CPU_ATTENTION_KERNELS_H_

#include <cstdint>

namespace hydrant {

struct AttentionKernels {
  const char* isa = nullptr;
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CPU_ATTENTION_KERNELS_H_
