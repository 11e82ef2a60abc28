// The element types of weights, keys and values on the device, and reductions that always add in the same order.
#ifndef HYDRANT_KERNELS_CUDA_RUNTIME_ELEMENT_CUH_
#define HYDRANT_KERNELS_CUDA_RUNTIME_ELEMENT_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/runtime/collectives.cuh"
#include "kernels/cuda/runtime/output.h"
#include "kernels/types.h"

namespace hydrant::cuda {

__device__ __forceinline__ float ToFloat(float x) { return x; }
__device__ __forceinline__ float ToFloat(int8_t x) { return static_cast<float>(x); }
__device__ __forceinline__ float ToFloat(__half x) { return __half2float(x); }
__device__ __forceinline__ float ToFloat(__nv_bfloat16 x) { return __bfloat162float(x); }

template <typename T>
__device__ __forceinline__ T FromFloat(float x);
template <>
__device__ __forceinline__ float FromFloat<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ __half FromFloat<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ __forceinline__ __nv_bfloat16 FromFloat<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

// Element `i` of y. The type is the same for every thread of a launch.
__device__ __forceinline__ void Store(const Output& y, int64_t i, float value) {
  switch (y.dtype) {
    case DType::kF32:
      static_cast<float*>(y.data)[i] = value;
      break;
    case DType::kF16:
      static_cast<__half*>(y.data)[i] = FromFloat<__half>(value);
      break;
    case DType::kBF16:
      static_cast<__nv_bfloat16*>(y.data)[i] = FromFloat<__nv_bfloat16>(value);
      break;
  }
}

// Two elements of 16 bits in one register, the first in the low half.
template <typename T>
__device__ __forceinline__ uint32_t Pack(T low, T high) {
  static_assert(sizeof(T) == 2);
  uint32_t pair;
  const T both[2] = {low, high};
  memcpy(&pair, both, sizeof(pair));
  return pair;
}

// The sums of two pairs of bf16.
__device__ __forceinline__ uint32_t AddPairs(uint32_t a, uint32_t b) {
  __nv_bfloat162 x, y;
  memcpy(&x, &a, sizeof(x));
  memcpy(&y, &b, sizeof(y));
  const __nv_bfloat162 both = __hadd2(x, y);
  memcpy(&a, &both, sizeof(a));
  return a;
}

// The signed bytes 0 and 2 as a pair of bf16, exactly: its low seven bits in the low bits of 128, less 128, or 256 where the sign is
// set.
__device__ __forceinline__ uint32_t PairOfBytes(uint32_t bytes) {
  return AddPairs((bytes & 0x007f007fu) | 0x43004300u, (bytes & 0x00800080u) | 0xc300c300u);
}

// Elements `i`, even, and `i` + 1 of y, by one instruction.
__device__ __forceinline__ void StorePair(const Output& y, int64_t i, float first, float second) {
  switch (y.dtype) {
    case DType::kF32:
      *reinterpret_cast<float2*>(static_cast<float*>(y.data) + i) = make_float2(first, second);
      break;
    case DType::kF16:
      static_cast<uint32_t*>(y.data)[i / 2] = Pack(FromFloat<__half>(first), FromFloat<__half>(second));
      break;
    case DType::kBF16:
      static_cast<uint32_t*>(y.data)[i / 2] = Pack(FromFloat<__nv_bfloat16>(first), FromFloat<__nv_bfloat16>(second));
      break;
  }
}

// Elements `i`, a multiple of four, to `i` + 3 of y, by one instruction. y is aligned.
__device__ __forceinline__ void StoreFour(const Output& y, int64_t i, const float4& x) {
  switch (y.dtype) {
    case DType::kF32:
      reinterpret_cast<float4*>(y.data)[i / 4] = x;
      break;
    case DType::kF16:
      static_cast<uint2*>(y.data)[i / 4] = make_uint2(Pack(FromFloat<__half>(x.x), FromFloat<__half>(x.y)),
                                                      Pack(FromFloat<__half>(x.z), FromFloat<__half>(x.w)));
      break;
    case DType::kBF16:
      static_cast<uint2*>(y.data)[i / 4] =
          make_uint2(Pack(FromFloat<__nv_bfloat16>(x.x), FromFloat<__nv_bfloat16>(x.y)),
                     Pack(FromFloat<__nv_bfloat16>(x.z), FromFloat<__nv_bfloat16>(x.w)));
      break;
  }
}

// 16 bytes of elements, moved by one instruction.
template <typename T>
struct alignas(16) Vector {
  static constexpr int kCount = 16 / sizeof(T);
  T at[kCount];
};

// Calls function(T{}) with the type behind `dtype`.
template <typename Function>
void WithElement(DType dtype, Function&& function) {
  switch (dtype) {
    case DType::kF32:
      return function(float{});
    case DType::kF16:
      return function(__half{});
    case DType::kBF16:
      return function(__nv_bfloat16{});
  }
}

struct Sum {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Largest {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};
// A NaN only where both are.
struct LargestNumber {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Smallest {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};

// Every thread of the block gets the result. All of them call it; blockDim.x is a multiple of 32.
template <typename T, typename Op>
__device__ __forceinline__ T BlockReduce(T x, Op op, T identity) {
  __shared__ T of_warp[kWarp];
  x = WarpReduce(x, op);
  __syncthreads();  // the former result has been read
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = x;
  __syncthreads();
  const uint32_t lane = threadIdx.x % kWarp;
  return WarpReduce(lane < blockDim.x / kWarp ? of_warp[lane] : identity, op);
}

// The sum of `x` over the threads before this one, in the order of threads; *total gets that over all.
template <typename T>
__device__ __forceinline__ T BlockExclusiveSum(T x, T* total) {
  __shared__ T of_warp[kWarp];
  const uint32_t lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const T inclusive = WarpInclusiveSum(x);
  __syncthreads();
  if (lane == kWarp - 1) of_warp[warp] = inclusive;
  __syncthreads();
  T before{}, all{};
  for (uint32_t other = 0; other < blockDim.x / kWarp; ++other) {
    if (other == warp) before = all;
    all = all + of_warp[other];
  }
  *total = all;
  return before + (inclusive - x);
}

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_RUNTIME_ELEMENT_CUH_
