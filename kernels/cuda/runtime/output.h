// Where a kernel puts rows that a product takes next.
#ifndef HYDRANT_KERNELS_CUDA_RUNTIME_OUTPUT_H_
#define HYDRANT_KERNELS_CUDA_RUNTIME_OUTPUT_H_

#include "kernels/types.h"

namespace hydrant::cuda {

// Elements of fp32, or of the product's type, rounded on the way (Device::PreferredInputType).
struct Output {
  Output() = default;
  Output(float* fp32) : data(fp32) {}  // NOLINT: nearly all are
  Output(void* elements, DType type) : data(elements), dtype(type) {}

  void* data = nullptr;
  DType dtype = DType::kF32;
};

// The same elements, as the product reads them.
struct Input {
  Input(const float* fp32) : data(fp32) {}  // NOLINT: nearly all are
  Input(const void* elements, DType type) : data(elements), dtype(type) {}

  const void* data = nullptr;
  DType dtype = DType::kF32;
};

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_RUNTIME_OUTPUT_H_
