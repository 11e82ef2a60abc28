// What one instruction computes. tests/simt has the same functions without PTX, in a header of this name.
#ifndef HYDRANT_KERNELS_CUDA_RUNTIME_FAST_MATH_CUH_
#define HYDRANT_KERNELS_CUDA_RUNTIME_FAST_MATH_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

namespace hydrant::cuda {

// 2^x within 2^-22 of it; 0 where that is below 2^-126, which exp2f spends three more instructions on.
__device__ __forceinline__ float FastExp2(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(power) : "f"(x));
  return power;
}

// Both rounded to T, the first in the low half.
template <typename T>
__device__ __forceinline__ uint32_t RoundPair(float low, float high) {
  uint32_t pair;
  if constexpr (std::is_same_v<T, __half>) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;\n" : "=r"(pair) : "f"(high), "f"(low));
  } else {
    static_assert(std::is_same_v<T, __nv_bfloat16>);
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(pair) : "f"(high), "f"(low));
  }
  return pair;
}

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_RUNTIME_FAST_MATH_CUH_
