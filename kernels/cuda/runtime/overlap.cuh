// Kernels that begin while the one before them ends (programmatic dependent launch): Launch (launch.h) asks for it, so every kernel
// calls AwaitEarlier before anything that an earlier one may have written, or may still read. tests/simt has the same functions, in a
// header of this name, and ends the program where a thread does not call it once.
#ifndef HYDRANT_KERNELS_CUDA_RUNTIME_OVERLAP_CUH_
#define HYDRANT_KERNELS_CUDA_RUNTIME_OVERLAP_CUH_

#include <cuda_runtime.h>

namespace hydrant::cuda {

// Returns when all earlier kernels of the stream are done and what they wrote is there. Devices before 9.0 begin no kernel early, and
// nothing is waited for.
__device__ __forceinline__ void AwaitEarlier() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;\n" ::: "memory");
#endif
}

// The next kernel may be put on the multiprocessors once every block has called this or ended. Kernels with little to do begin with
// it, large ones call it when what they read is there: a large one slows down where others wait on its multiprocessors
// (docs/decisions/0094-measured-on-a-device.md).
__device__ __forceinline__ void LetNextBegin() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory");
#endif
}

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_RUNTIME_OVERLAP_CUH_
