// CUDA's runtime API and language extensions for kernels that run on tests/simt/machine.h: as much of them as kernels/cuda
// uses, with their names and meaning. Device memory is host memory. What is put into a stream is done when somebody waits for it
// and not before, so that whoever looks too early, or changes too early what a copy has yet to read, finds out.
#ifndef HYDRANT_TESTS_SIMT_INCLUDE_CUDA_RUNTIME_H_
#define HYDRANT_TESTS_SIMT_INCLUDE_CUDA_RUNTIME_H_

#include <math.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>
#include <utility>

#include "tests/simt/machine.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) alignas(n)
// Blocks follow one another, so that one copy does; function scope makes it static.
#define __shared__ thread_local
#define __restrict__ __restrict

inline const hydrant::simt::Index& threadIdx = hydrant::simt::place.thread;
inline const hydrant::simt::Index& blockIdx = hydrant::simt::place.block;
inline const hydrant::simt::Index& blockDim = hydrant::simt::place.block_dim;
inline const hydrant::simt::Index& gridDim = hydrant::simt::place.grid_dim;

struct dim3 {
  uint32_t x = 1, y = 1, z = 1;
  constexpr dim3(uint32_t x_ = 1, uint32_t y_ = 1, uint32_t z_ = 1) : x(x_), y(y_), z(z_) {}
};

struct alignas(8) uint2 {
  uint32_t x, y;
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
inline uint2 make_uint2(uint32_t x, uint32_t y) { return {x, y}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

// --- device functions ---------------------------------------------------------------------------------------------------

inline void __syncthreads() { ::hydrant::simt::SyncBlock(); }
inline void __syncwarp(uint32_t = 0xffffffffu) {
  const char nothing = 0;
  ::hydrant::simt::ExchangeInWarp(&nothing, 1, ::hydrant::simt::Collective::kSync);
}
template <typename T>
T __shfl_xor_sync(uint32_t, T value, int mask) {
  static_assert(std::is_arithmetic_v<T>);
  const std::byte* all = ::hydrant::simt::ExchangeInWarp(&value, sizeof(T), ::hydrant::simt::Collective::kShuffleXor);
  T result;
  std::memcpy(&result, all + (::hydrant::simt::Lane() ^ static_cast<uint32_t>(mask)) * sizeof(T), sizeof(T));
  return result;
}
template <typename T>
T __shfl_sync(uint32_t, T value, int lane) {
  static_assert(std::is_arithmetic_v<T>);
  const std::byte* all = ::hydrant::simt::ExchangeInWarp(&value, sizeof(T), ::hydrant::simt::Collective::kShuffle);
  T result;
  std::memcpy(&result, all + static_cast<size_t>(lane) * sizeof(T), sizeof(T));
  return result;
}
template <typename T>
T __shfl_up_sync(uint32_t, T value, uint32_t delta) {
  static_assert(std::is_arithmetic_v<T>);
  const std::byte* all = ::hydrant::simt::ExchangeInWarp(&value, sizeof(T), ::hydrant::simt::Collective::kShuffleUp);
  const uint32_t own = ::hydrant::simt::Lane();
  T result;
  std::memcpy(&result, all + (own >= delta ? own - delta : own) * sizeof(T), sizeof(T));
  return result;
}
inline uint32_t __ballot_sync(uint32_t, int predicate) {
  const std::byte* all = ::hydrant::simt::ExchangeInWarp(&predicate, sizeof(int), ::hydrant::simt::Collective::kBallot);
  uint32_t votes = 0;
  for (uint32_t lane = 0; lane < 32; ++lane) {
    int vote;
    std::memcpy(&vote, all + lane * sizeof(int), sizeof(int));
    votes |= (vote != 0 ? 1u : 0u) << lane;
  }
  return votes;
}
inline uint32_t __reduce_min_sync(uint32_t, uint32_t value) {
  const std::byte* all = ::hydrant::simt::ExchangeInWarp(&value, sizeof(value), ::hydrant::simt::Collective::kMin);
  for (uint32_t lane = 0; lane < 32; ++lane) {
    uint32_t other;
    std::memcpy(&other, all + lane * sizeof(other), sizeof(other));
    value = std::min(value, other);
  }
  return value;
}
inline uint32_t __reduce_add_sync(uint32_t, uint32_t value) {
  const std::byte* all = ::hydrant::simt::ExchangeInWarp(&value, sizeof(value), ::hydrant::simt::Collective::kAdd);
  value = 0;
  for (uint32_t lane = 0; lane < 32; ++lane) {
    uint32_t other;
    std::memcpy(&other, all + lane * sizeof(other), sizeof(other));
    value += other;
  }
  return value;
}
// Threads take turns, so that plain arithmetic is atomic.
template <typename T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  const T old = *address;
  *address = old + value;
  return old;
}
template <typename T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  const T old = *address;
  *address = old < value ? value : old;
  return old;
}
inline void __threadfence() {}
template <typename T>
T __ldcg(const T* address) {
  return *address;
}
inline uint32_t __float_as_uint(float x) { return std::bit_cast<uint32_t>(x); }
inline float __uint_as_float(uint32_t x) { return std::bit_cast<float>(x); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<uint32_t>(x)) + 1; }
inline int __popc(uint32_t x) { return std::popcount(x); }
inline unsigned long long __float2ull_rn(float x) { return static_cast<unsigned long long>(nearbyintf(x)); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fdividef(float x, float y) { return x / y; }
using std::max;
using std::min;

// --- runtime ------------------------------------------------------------------------------------------------------------

enum cudaError_t : int {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorNoDevice = 100,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchFailure = 719,
  cudaErrorStreamCaptureUnsupported = 900,
};
const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);

enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault };
inline constexpr unsigned cudaHostAllocDefault = 0, cudaHostAllocMapped = 2;
inline constexpr unsigned cudaStreamNonBlocking = 1;
inline constexpr unsigned cudaEventDefault = 0, cudaEventDisableTiming = 2;

struct SimtStream;
struct SimtEvent;
struct SimtGraph;
using cudaGraph_t = SimtGraph*;
using cudaGraphExec_t = SimtGraph*;
using cudaStream_t = SimtStream*;
using cudaEvent_t = SimtEvent*;

struct cudaDeviceProp {
  char name[256];
  int multiProcessorCount;
  int major, minor;
  size_t totalGlobalMem;
  size_t sharedMemPerBlockOptin;
};

cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
enum cudaDeviceAttr {
  cudaDevAttrMemoryClockRate = 36,
  cudaDevAttrGlobalMemoryBusWidth = 37,
  cudaDevAttrComputeCapabilityMajor = 75,
};
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
inline cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
inline cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);
cudaError_t cudaMalloc(void** data, size_t bytes);
cudaError_t cudaFree(void* data);
cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void* data);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
// A millisecond, whatever lay between them.
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end);
cudaError_t cudaGetLastError();

// While a stream is recorded, what is put into it waits for the graph, and what a recording must not contain is an error.
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable);

enum cudaLaunchAttributeID { cudaLaunchAttributeProgrammaticStreamSerialization = 6 };
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  struct {
    int programmaticStreamSerializationAllowed;
  } val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
  cudaLaunchAttribute* attrs = nullptr;
  unsigned numAttrs = 0;
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };

namespace hydrant::simt {

// What cuda* calls return from now on: the first `calls` of them succeed, then one fails with `error`.
void FailAfter(int calls, cudaError_t error);
// No more; true: one did.
bool EndFailures();
// Bytes of device memory that are taken.
size_t DeviceBytes();
cudaError_t NextResult();
// How often somebody waited for work that was not done yet.
int64_t Waits();
// Puts `work` into the stream, or into the graph that is being captured there.
void Enqueue(cudaStream_t stream, std::function<void()> work);

inline constexpr size_t kDynamicSharedBytes = size_t{227} << 10;

}  // namespace hydrant::simt

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  if (const cudaError_t error = hydrant::simt::NextResult(); error != cudaSuccess) return error;
  const size_t shared = config->dynamicSmemBytes;
  if (shared > hydrant::simt::kDynamicSharedBytes) return cudaErrorInvalidValue;
  const bool early = config->numAttrs > 0;  // it may begin before the kernel before it is done
  const hydrant::simt::Index grid{config->gridDim.x, config->gridDim.y, config->gridDim.z};
  const hydrant::simt::Index block{config->blockDim.x, config->blockDim.y, config->blockDim.z};
  hydrant::simt::Enqueue(config->stream, [=] {
    hydrant::simt::RunGrid(
        grid, block, [&] { kernel(static_cast<Parameters>(arguments)...); }, shared, early);
  });
  return cudaSuccess;
}
struct cudaFuncAttributes {
  int ptxVersion;
};
inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  attributes->ptxVersion = 90;
  return cudaSuccess;
}
template <typename... Parameters>
cudaError_t cudaFuncSetAttribute(void (*)(Parameters...), cudaFuncAttribute, int value) {
  return static_cast<size_t>(value) > hydrant::simt::kDynamicSharedBytes ? cudaErrorInvalidValue : cudaSuccess;
}

#endif  // HYDRANT_TESTS_SIMT_INCLUDE_CUDA_RUNTIME_H_
