// TestedDevice::prompt_dtype of the CUDA device: tensor cores have kernels for these heads.
#ifndef HYDRANT_TESTS_KERNELS_CUDA_CUDA_PROMPT_DTYPE_H_
#define HYDRANT_TESTS_KERNELS_CUDA_CUDA_PROMPT_DTYPE_H_

#include <algorithm>
#include <array>

#include "kernels/types.h"

namespace hydrant {

inline DType CudaPromptDType(KvType cache, int32_t head_dim) {
  constexpr std::array kDims = {64, 80, 96, 128, 256};
  if (cache == KvType::kInt8) return DType::kF32;
  return std::find(kDims.begin(), kDims.end(), head_dim) != kDims.end() ? DTypeOf(cache) : DType::kF32;
}

}  // namespace hydrant

#endif  // HYDRANT_TESTS_KERNELS_CUDA_CUDA_PROMPT_DTYPE_H_
