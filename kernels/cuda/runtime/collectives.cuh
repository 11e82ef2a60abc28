// What the lanes of a warp compute together. tests/simt has the same functions, in a header of this name, with one exchange each.
#ifndef HYDRANT_KERNELS_CUDA_RUNTIME_COLLECTIVES_CUH_
#define HYDRANT_KERNELS_CUDA_RUNTIME_COLLECTIVES_CUH_

#include <cuda_runtime.h>

#include <cstdint>

namespace hydrant::cuda {

inline constexpr uint32_t kWarp = 32;
inline constexpr uint32_t kAllLanes = 0xffffffffu;

// Over `kLanes` neighbours, a power of two; each of them gets the result. All lanes of the warp call it.
template <uint32_t kLanes = kWarp, typename T, typename Op>
__device__ __forceinline__ T WarpReduce(T x, Op op) {
#pragma unroll
  for (uint32_t mask = kLanes / 2; mask > 0; mask /= 2) {
    x = op(x, __shfl_xor_sync(kAllLanes, x, static_cast<int>(mask)));
  }
  return x;
}

// Every lane gets the sum of `x` over the lanes up to it.
template <typename T>
__device__ __forceinline__ T WarpInclusiveSum(T x) {
  const uint32_t lane = threadIdx.x % kWarp;
  for (uint32_t delta = 1; delta < kWarp; delta *= 2) {
    const T below = __shfl_up_sync(kAllLanes, x, delta);
    if (lane >= delta) x = x + below;
  }
  return x;
}

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_RUNTIME_COLLECTIVES_CUH_
