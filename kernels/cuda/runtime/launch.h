// Starts a kernel. The one place where kernels are launched.
//
// Thread: engine.
#ifndef HYDRANT_KERNELS_CUDA_RUNTIME_LAUNCH_H_
#define HYDRANT_KERNELS_CUDA_RUNTIME_LAUNCH_H_

#include <cuda_runtime.h>

#include <cassert>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/runtime/cuda_error.h"

namespace hydrant::cuda {

// blocks.y and blocks.z are at most 65,535. An empty grid is no launch. Throws CudaError.
template <typename... Parameters>
void Launch(cudaStream_t stream, dim3 blocks, uint32_t threads, void (*kernel)(Parameters...),
            std::type_identity_t<Parameters>... arguments) {
  if (blocks.x == 0 || blocks.y == 0 || blocks.z == 0) return;
  assert(blocks.y <= 65535 && blocks.z <= 65535 && threads % 32 == 0 && threads <= 1024);
  cudaLaunchConfig_t config = {};
  config.gridDim = blocks;
  config.blockDim = dim3(threads);
  config.stream = stream;
  CheckCuda(cudaLaunchKernelEx(&config, kernel, arguments...), "cudaLaunchKernelEx");
}

// Whether it may be read sixteen bytes at a time.
inline bool Aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }

// Blocks for `count` things at `per_block` each.
constexpr uint32_t BlocksFor(int64_t count, int64_t per_block) {
  return static_cast<uint32_t>((count + per_block - 1) / per_block);
}

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_RUNTIME_LAUNCH_H_
