// Kernels that begin while the one before them ends (programmatic dependent launch): Launch (launch.h) asks for it, so every kernel
// calls AwaitEarlier before anything that an earlier one may have written, or may still read. tests/simt has the same function, in a
// header of this name, and ends the program where a thread never called it.
#ifndef HYDRANT_KERNELS_CUDA_RUNTIME_OVERLAP_CUH_
#define HYDRANT_KERNELS_CUDA_RUNTIME_OVERLAP_CUH_

#include <cuda_runtime.h>

namespace hydrant::cuda {

// Returns when all earlier kernels of the stream are done and what they wrote is there. The next one may be put on the
// multiprocessors from here on: once every block of this kernel has come here, it takes no place that one of them needs. Devices
// before 9.0 begin no kernel early, and nothing is waited for.
__device__ __forceinline__ void AwaitEarlier() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;\n griddepcontrol.wait;\n" ::: "memory");
#endif
}

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_RUNTIME_OVERLAP_CUH_
