// kernels/cuda/runtime/overlap.cuh for tests/simt: a kernel begins when the one before it is done, and the machine counts who waits.
#ifndef HYDRANT_TESTS_SIMT_INCLUDE_KERNELS_CUDA_RUNTIME_OVERLAP_CUH_
#define HYDRANT_TESTS_SIMT_INCLUDE_KERNELS_CUDA_RUNTIME_OVERLAP_CUH_

#include "tests/simt/machine.h"

namespace hydrant::cuda {

inline void AwaitEarlier() { simt::Await(); }
inline void LetNextBegin() {}

}  // namespace hydrant::cuda

#endif  // HYDRANT_TESTS_SIMT_INCLUDE_KERNELS_CUDA_RUNTIME_OVERLAP_CUH_
