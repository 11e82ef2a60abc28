#ifndef HYDRANT_KERNELS_CUDA_RUNTIME_ACTIVATION_CUH_
#define HYDRANT_KERNELS_CUDA_RUNTIME_ACTIVATION_CUH_

#include <cuda_runtime.h>

#include "kernels/types.h"

namespace hydrant::cuda {

__device__ __forceinline__ float Activate(Activation activation, float x) {
  switch (activation) {
    case Activation::kSilu:
      return x / (1.0f + expf(-x));
    case Activation::kGelu:
      return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
    case Activation::kGeluTanh:
      return 0.5f * x * (1.0f + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)));
    case Activation::kRelu:
      return fmaxf(x, 0.0f);
  }
  return x;
}

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_RUNTIME_ACTIVATION_CUH_
