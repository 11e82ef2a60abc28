// kernels/cuda/runtime/fast_math.cuh for tests/simt.
#ifndef HYDRANT_TESTS_SIMT_INCLUDE_KERNELS_CUDA_RUNTIME_FAST_MATH_CUH_
#define HYDRANT_TESTS_SIMT_INCLUDE_KERNELS_CUDA_RUNTIME_FAST_MATH_CUH_

#include <cstdint>
#include <type_traits>

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "cuda_runtime.h"

namespace hydrant::cuda {

inline float FastExp2(float x) {
  const float power = exp2f(x);
  return power < 0x1p-126f ? 0.0f : power;  // a NaN stays one
}

template <typename T>
uint32_t RoundPair(float low, float high) {
  if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(low).bits | uint32_t{__float2half_rn(high).bits} << 16;
  } else {
    return __float2bfloat16_rn(low).bits | uint32_t{__float2bfloat16_rn(high).bits} << 16;
  }
}

}  // namespace hydrant::cuda

#endif  // HYDRANT_TESTS_SIMT_INCLUDE_KERNELS_CUDA_RUNTIME_FAST_MATH_CUH_
