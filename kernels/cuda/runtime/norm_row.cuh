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

// The same of a row that is read once, four columns at a time, and kept in registers; the sums are in another order. Calls
// put(column, four normalised values).
// REQUIRES: cols a multiple of 4, up to 4 * kVectors * blockDim.x; the row, the weight and the bias are aligned.
template <int kVectors, typename Put>
__device__ __forceinline__ void NormShortRow(const NormWeight& norm, const float* in, int64_t cols, const Put& put) {
  const auto place = [](int i) { return (int64_t{i} * blockDim.x + threadIdx.x) * 4; };
  const auto at = [](const float* from, int64_t col) { return *reinterpret_cast<const float4*>(from + col); };
  float4 x[kVectors] = {}, weight[kVectors] = {};
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    if (place(i) >= cols) continue;
    x[i] = at(in, place(i));
    weight[i] = at(norm.weight, place(i));
  }
  const float inverse_cols = 1.0f / static_cast<float>(cols);
  float mean = 0.0f;
  if (norm.kind == NormKind::kLayer) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) sum += (x[i].x + x[i].y) + (x[i].z + x[i].w);
    mean = BlockReduce(sum, Sum(), 0.0f) * inverse_cols;
  }
  float squares = 0.0f;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    if (place(i) >= cols) continue;
    x[i] = make_float4(x[i].x - mean, x[i].y - mean, x[i].z - mean, x[i].w - mean);
    squares = fmaf(x[i].x, x[i].x, squares);
    squares = fmaf(x[i].y, x[i].y, squares);
    squares = fmaf(x[i].z, x[i].z, squares);
    squares = fmaf(x[i].w, x[i].w, squares);
  }
  const float scale = rsqrtf(BlockReduce(squares, Sum(), 0.0f) * inverse_cols + norm.eps);
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    if (place(i) >= cols) continue;
    const float4 w = weight[i];
    float4 value = make_float4(x[i].x * scale * w.x, x[i].y * scale * w.y, x[i].z * scale * w.z, x[i].w * scale * w.w);
    if (norm.bias != nullptr) {
      const float4 bias = at(norm.bias, place(i));
      value = make_float4(value.x + bias.x, value.y + bias.y, value.z + bias.z, value.w + bias.w);
    }
    put(place(i), value);
  }
}

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_RUNTIME_NORM_ROW_CUH_
