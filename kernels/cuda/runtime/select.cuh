// Selection and sorting by one block of threads. Everything is integers, so that the result does not depend on the order in
// which threads arrive.
#ifndef HYDRANT_KERNELS_CUDA_RUNTIME_SELECT_CUH_
#define HYDRANT_KERNELS_CUDA_RUNTIME_SELECT_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/runtime/element.cuh"

namespace hydrant::cuda {

// The wanted-th smallest of key(i) for i in [0, count), distinct up to there; all threads get it.
// REQUIRES: 1 <= wanted <= count < 2^32.
template <typename Key>
__device__ uint64_t SelectNth(int64_t count, uint32_t wanted, Key key) {
  constexpr uint32_t kBins = 256, kShare = kBins / kWarp;
  __shared__ uint32_t bins[kBins];
  __shared__ uint64_t found;
  __shared__ uint32_t left;
  uint64_t prefix = 0;
  for (int shift = 56; shift >= 0; shift -= 8) {
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < kBins; i += blockDim.x) bins[i] = 0;
    __syncthreads();
    constexpr int kAhead = 4;  // keys that are on their way at once
    for (int64_t first = threadIdx.x; first < count; first += kAhead * int64_t{blockDim.x}) {
      uint64_t own[kAhead];
      for (int j = 0; j < kAhead; ++j) {
        const int64_t i = first + j * int64_t{blockDim.x};
        own[j] = i < count ? key(i) : 0;
      }
      for (int j = 0; j < kAhead; ++j) {
        if (first + j * int64_t{blockDim.x} >= count || (shift < 56 && (own[j] >> (shift + 8)) != prefix)) continue;
        atomicAdd(&bins[static_cast<uint32_t>(own[j] >> shift) % kBins], 1u);
      }
    }
    __syncthreads();
    if (threadIdx.x < kWarp) {
      uint32_t of_lane = 0;
      for (uint32_t i = 0; i < kShare; ++i) of_lane += bins[threadIdx.x * kShare + i];
      uint32_t below = WarpInclusiveSum(of_lane) - of_lane;
      if (below < wanted && wanted - below <= of_lane) {
        uint32_t digit = threadIdx.x * kShare;
        for (; below + bins[digit] < wanted; ++digit) below += bins[digit];
        found = (prefix << 8) | digit;
        left = wanted - below;
      }
    }
    __syncthreads();
    prefix = found;
    wanted = left;
  }
  return prefix;
}

// Writes emit(n, i) for the n-th i in [0, count), in ascending order, that `wanted` wants; returns how many there are. Each warp has a
// stretch of its own, of which its lanes look at neighbours.
template <typename Wanted, typename Emit>
__device__ int64_t Compact(int64_t count, Wanted wanted, Emit emit) {
  const int64_t warps = blockDim.x / kWarp, lane = threadIdx.x % kWarp;
  const int64_t share = (count + warps * kWarp - 1) / (warps * kWarp) * kWarp, begin = threadIdx.x / kWarp * share;
  const int64_t end = begin + share < count ? begin + share : count;
  int64_t own = 0;
  for (int64_t i = begin + lane; i < end; i += kWarp) own += wanted(i) ? 1 : 0;
  int64_t total = 0;
  int64_t n = WarpReduce(BlockExclusiveSum(own, &total), Smallest());  // that of the first lane
  for (int64_t first = begin; first < end; first += kWarp) {
    const int64_t i = first + lane;
    const bool wants = i < end && wanted(i);
    const uint32_t all = __ballot_sync(kAllLanes, wants ? 1 : 0);
    if (wants) emit(n + __popc(all & ((1u << lane) - 1)), i);
    n += __popc(all);
  }
  return total;
}

// keys [count], distinct, in shared memory and no more than threads: ascending. Each thread counts who comes before its own.
__device__ inline void SortFewKeys(uint64_t* keys, int32_t count) {
  __syncthreads();
  const auto own = static_cast<int32_t>(threadIdx.x);
  const uint64_t key = own < count ? keys[own] : 0;
  int32_t before = 0;
  if (own < count) {
    for (int32_t i = 0; i < count; ++i) before += keys[i] < key ? 1 : 0;
  }
  __syncthreads();
  if (own < count) keys[before] = key;
  __syncthreads();
}

// keys [size], a power of two: ascending.
__device__ inline void SortKeys(uint64_t* keys, int64_t size) {
  for (int64_t run = 2; run <= size; run *= 2) {
    for (int64_t distance = run / 2; distance > 0; distance /= 2) {
      __syncthreads();
      for (int64_t i = threadIdx.x; i < size; i += blockDim.x) {
        const int64_t other = i ^ distance;
        if (other < i) continue;
        const uint64_t a = keys[i], b = keys[other];
        if ((a > b) != ((i & run) == 0)) continue;
        keys[i] = b;
        keys[other] = a;
      }
    }
  }
  __syncthreads();
}

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_RUNTIME_SELECT_CUH_
