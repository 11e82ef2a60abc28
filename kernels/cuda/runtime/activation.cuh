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
    case Activation::kClampedSwish:
      if (x > kSwishLimit) x = kSwishLimit;  // a NaN stays one
      return x / (1.0f + expf(-kSwishSlope * x));
  }
  return x;
}

// What an activation is multiplied by, of the up projection beside its gate.
__device__ __forceinline__ float UpFactor(Activation activation, float up) {
  if (activation != Activation::kClampedSwish) return up;
  if (up > kSwishLimit) up = kSwishLimit;
  if (up < -kSwishLimit) up = -kSwishLimit;
  return up + 1.0f;
}

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_RUNTIME_ACTIVATION_CUH_
