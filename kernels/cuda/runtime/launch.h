// Starts a kernel. The one place where kernels are launched; each begins with AwaitEarlier (overlap.cuh).
//
// Thread: engine.
#ifndef HYDRANT_KERNELS_CUDA_RUNTIME_LAUNCH_H_
#define HYDRANT_KERNELS_CUDA_RUNTIME_LAUNCH_H_

#include <cuda_runtime.h>

#include <cassert>
#include <cstdint>
#include <type_traits>
#include <unordered_map>

#include "kernels/cuda/runtime/cuda_error.h"

namespace hydrant::cuda {

// Whether a kernel may begin while the one before it ends: the device does that (9.0 and later), driver and runtime record it in a
// graph (12.3 and later), and `kernel` was compiled to await the others there, which code for older devices was not.
inline bool MayBeginEarly(const void* kernel) {
  static const bool overlap = [] {
    int major = 0, driver = 0, runtime = 0;
    CheckCuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), "cudaDeviceGetAttribute");
    CheckCuda(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
    CheckCuda(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
    return major >= 9 && driver >= 12030 && runtime >= 12030;
  }();
  if (!overlap) return false;
  thread_local std::unordered_map<const void*, bool> known;
  const auto found = known.find(kernel);
  if (found != known.end()) return found->second;
  cudaFuncAttributes attributes = {};
  CheckCuda(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
  return known[kernel] = attributes.ptxVersion >= 90;
}

// A block has `shared_bytes` in SharedMemory (shared_memory.cuh), beside what the kernel declares; together at most 99 KB on every
// device of 8.0 and later, 227 KB on those of 9.0. blocks.y and blocks.z are at most 65,535. An empty grid is no launch. Throws CudaError.
template <typename... Parameters>
void LaunchShared(cudaStream_t stream, dim3 blocks, uint32_t threads, size_t shared_bytes,
                  void (*kernel)(Parameters...), std::type_identity_t<Parameters>... arguments) {
  if (blocks.x == 0 || blocks.y == 0 || blocks.z == 0) return;
  assert(blocks.y <= 65535 && blocks.z <= 65535 && threads % 32 == 0 && threads <= 1024);
  if (shared_bytes > 0) {
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
  config.numAttrs = MayBeginEarly(reinterpret_cast<const void*>(kernel)) ? 1 : 0;
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
