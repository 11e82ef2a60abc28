// What kernels of packed products do with their sums.
#ifndef HYDRANT_KERNELS_CUDA_LINEAR_PACKED_FINISH_CUH_
#define HYDRANT_KERNELS_CUDA_LINEAR_PACKED_FINISH_CUH_

#include <cstdint>

#include "kernels/cuda/runtime/activation.cuh"
#include "kernels/cuda/runtime/element.cuh"
#include "kernels/cuda/runtime/output.h"
#include "kernels/epilogue.h"

namespace hydrant::cuda {

// Not inlined: a thread of a kernel for many rows holds 64 sums, and 64 copies of every activation take the compiler minutes.
static __device__ __noinline__ float ActivateOnce(Activation activation, float x) { return Activate(activation, x); }

// An output of the product, and its way to element `at` of y.
__device__ __forceinline__ void Finish(Epilogue epilogue, Activation activation, float sum, const float* bias,
                                       int64_t output, const Output& y, int64_t at) {
  if (bias != nullptr) sum += bias[output];
  if (epilogue == Epilogue::kActivate) return Store(y, at, ActivateOnce(activation, sum));
  float* to = static_cast<float*>(y.data) + at;
  *to = epilogue == Epilogue::kAccumulate ? *to + sum : sum;
}

// An output of a gate's product and of its up projection's, each with its bias or null, as element `at` of y.
__device__ __forceinline__ void FinishGate(Activation activation, float gate, const float* gate_bias, float up,
                                           const float* up_bias, int64_t output, const Output& y, int64_t at) {
  if (gate_bias != nullptr) gate += gate_bias[output];
  if (up_bias != nullptr) up += up_bias[output];
  Store(y, at, ActivateOnce(activation, gate) * UpFactor(activation, up));
}

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_LINEAR_PACKED_FINISH_CUH_
