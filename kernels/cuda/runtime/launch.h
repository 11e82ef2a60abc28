// Starts a kernel. The one place where kernels are launched; each begins with AwaitEarlier (overlap.cuh).
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

// Whether the device lets a kernel begin while the one before it ends: those of 9.0 and later do.
inline bool KernelsOverlap() {
  static const bool overlap = [] {
    int major = 0;
    CheckCuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), "cudaDeviceGetAttribute");
    return major >= 9;
  }();
  return overlap;
}

// A block has `shared_bytes` in SharedMemory (shared_memory.cuh), beside what the kernel declares; together at most 99 KB on every
// device of 8.0 and later, 227 KB on those of 9.0. blocks.y and blocks.z are at most 65,535. An empty grid is no launch. Throws CudaError.
template <typename... Parameters>
void LaunchShared(cudaStream_t stream, dim3 blocks, uint32_t threads, size_t shared_bytes,
                  void (*kernel)(Parameters...), std::type_identity_t<Parameters>... arguments) {
  if (blocks.x == 0 || blocks.y == 0 || blocks.z == 0) return;
  assert(blocks.y <= 65535 && blocks.z <= 65535 && threads % 32 == 0 && threads <= 1024);
  constexpr size_t kWithoutAsking = size_t{48} << 10;
  if (shared_bytes > kWithoutAsking) {
    CheckCuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)),
              "cudaFuncSetAttribute");
  }
  cudaLaunchAttribute overlap = {};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = blocks;
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = KernelsOverlap() ? 1 : 0;
  CheckCuda(cudaLaunchKernelEx(&config, kernel, arguments...), "cudaLaunchKernelEx");
}

template <typename... Parameters>
void Launch(cudaStream_t stream, dim3 blocks, uint32_t threads, void (*kernel)(Parameters...),
            std::type_identity_t<Parameters>... arguments) {
  LaunchShared(stream, blocks, threads, 0, kernel, arguments...);
}

// Whether it may be read sixteen bytes at a time.
__host__ __device__ inline bool Aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }

// Blocks for `count` things at `per_block` each.
constexpr uint32_t BlocksFor(int64_t count, int64_t per_block) {
  return static_cast<uint32_t>((count + per_block - 1) / per_block);
}

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_RUNTIME_LAUNCH_H_
