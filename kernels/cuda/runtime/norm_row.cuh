// The norm of one row by a block of threads.
#ifndef HYDRANT_KERNELS_CUDA_RUNTIME_NORM_ROW_CUH_
#define HYDRANT_KERNELS_CUDA_RUNTIME_NORM_ROW_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/runtime/element.cuh"
#include "kernels/device.h"

namespace hydrant::cuda {

// Calls put(column, normalised value) for every column of a row; all threads of the block do.
template <typename Put>
__device__ __forceinline__ void NormRow(const NormWeight& norm, const float* in, int64_t cols, const Put& put) {
  const float inverse_cols = 1.0f / static_cast<float>(cols);
  float mean = 0.0f;
  if (norm.kind == NormKind::kLayer) {
    float sum = 0.0f;
    for (int64_t col = threadIdx.x; col < cols; col += blockDim.x) sum += in[col];
    mean = BlockReduce(sum, Sum(), 0.0f) * inverse_cols;
  }
  float squares = 0.0f;
  for (int64_t col = threadIdx.x; col < cols; col += blockDim.x) {
    const float centred = in[col] - mean;
    squares = fmaf(centred, centred, squares);
  }
  const float scale = rsqrtf(BlockReduce(squares, Sum(), 0.0f) * inverse_cols + norm.eps);
  for (int64_t col = threadIdx.x; col < cols; col += blockDim.x) {
    const float value = (in[col] - mean) * scale * norm.weight[col];
    put(col, norm.bias != nullptr ? value + norm.bias[col] : value);
  }
}

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_RUNTIME_NORM_ROW_CUH_
