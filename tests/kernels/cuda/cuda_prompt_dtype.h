// TestedDevice::prompt_dtype of the CUDA device: tensor cores have kernels for these heads.
#ifndef HYDRANT_TESTS_KERNELS_CUDA_CUDA_PROMPT_DTYPE_H_
#define HYDRANT_TESTS_KERNELS_CUDA_CUDA_PROMPT_DTYPE_H_

#include <algorithm>
#include <array>

#include "kernels/types.h"

namespace hydrant {

inline DType CudaPromptDType(KvType cache, int32_t head_dim) {
  constexpr std::array kDims = {64, 80, 96, 128, 256};
  if (std::find(kDims.begin(), kDims.end(), head_dim) == kDims.end()) return DType::kF32;
  return cache == KvType::kInt8 ? DType::kBF16 : DTypeOf(cache);
}

}  // namespace hydrant

#endif  // HYDRANT_TESTS_KERNELS_CUDA_CUDA_PROMPT_DTYPE_H_
