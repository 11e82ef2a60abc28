// kernels/cuda/runtime/shared_memory.cuh for tests/simt: as many bytes as the launch asked for, and none after them.
#ifndef HYDRANT_TESTS_SIMT_INCLUDE_KERNELS_CUDA_RUNTIME_SHARED_MEMORY_CUH_
#define HYDRANT_TESTS_SIMT_INCLUDE_KERNELS_CUDA_RUNTIME_SHARED_MEMORY_CUH_

#include <cstddef>

#include "tests/simt/machine.h"

namespace hydrant::cuda {

inline std::byte* SharedMemory() { return simt::SharedMemory(); }

}  // namespace hydrant::cuda

#endif  // HYDRANT_TESTS_SIMT_INCLUDE_KERNELS_CUDA_RUNTIME_SHARED_MEMORY_CUH_
