// Copies from global to shared memory that go on while the thread computes. tests/simt has the same functions, in a header
// of this name, and makes the copies when they are waited for.
#ifndef HYDRANT_KERNELS_CUDA_RUNTIME_ASYNC_COPY_CUH_
#define HYDRANT_KERNELS_CUDA_RUNTIME_ASYNC_COPY_CUH_

#include <cuda_runtime.h>

#include <cstdint>

namespace hydrant::cuda {

// 16 bytes, both addresses multiples of 16; zeros where not `present` (`from` is not read then, but a valid address). The L2
// cache fetches the 128 bytes around them, which other copies of the same kernel are about to want.
__device__ __forceinline__ void CopyAsync16(void* shared, const void* from, bool present) {
  const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from), "r"(present ? 16 : 0)
               : "memory");
}

// Ends a group of copies.
__device__ __forceinline__ void CommitCopies() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }

// Until at most the last `kGroups` groups of this thread are under way. Other threads see the copies after a barrier.
template <int kGroups>
__device__ __forceinline__ void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kGroups) : "memory");
}

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_RUNTIME_ASYNC_COPY_CUH_
