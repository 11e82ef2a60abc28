// Keys, values or queries in shared memory, a head a row, and where a lane finds its part of them for mma.sync.
#ifndef HYDRANT_KERNELS_CUDA_ATTENTION_STAGED_HEADS_CUH_
#define HYDRANT_KERNELS_CUDA_ATTENTION_STAGED_HEADS_CUH_

#include <cuda_runtime.h>

namespace hydrant::cuda {

// Elements from one staged head to the next: eight rows of 16 bytes then lie in different banks.
template <int kDim>
inline constexpr int kStride = kDim + 8;

// Where a lane finds its row of the four matrices that cover 16 staged heads (`from` the first) and the 16 dimensions from
// `dim` on: as the product wants its first operand; as it wants its second one (b of the first eight, then of the last eight)
// when heads are its columns, or, transposed, when dimensions are.
template <typename T, int kDim>
__device__ __forceinline__ const T* HeadsAsRows(const T* from, int dim, int lane) {
  return from + lane % 16 * kStride<kDim> + dim + lane / 16 * 8;
}
template <typename T, int kDim>
__device__ __forceinline__ const T* HeadsAsColumns(const T* from, int dim, int lane) {
  return from + (lane / 16 * 8 + lane % 8) * kStride<kDim> + dim + lane / 8 % 2 * 8;
}
template <typename T, int kDim>
__device__ __forceinline__ const T* DimensionsAsColumns(const T* from, int dim, int lane) {
  return from + (lane / 8 % 2 * 8 + lane % 8) * kStride<kDim> + dim + lane / 16 * 8;
}

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_ATTENTION_STAGED_HEADS_CUH_
