// Shared memory whose size the launch says (LaunchShared). tests/simt has the same function, in a header of this name.
#ifndef HYDRANT_KERNELS_CUDA_RUNTIME_SHARED_MEMORY_CUH_
#define HYDRANT_KERNELS_CUDA_RUNTIME_SHARED_MEMORY_CUH_

#include <cuda_runtime.h>

#include <cstddef>

namespace hydrant::cuda {

// The block's own, at a multiple of 1,024 bytes; not zeroed.
__device__ __forceinline__ std::byte* SharedMemory() {
  extern __shared__ __align__(1024) std::byte shared_memory[];
  return shared_memory;
}

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_RUNTIME_SHARED_MEMORY_CUH_
