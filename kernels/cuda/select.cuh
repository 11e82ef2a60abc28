// Selection and sorting by one block of threads. Everything is integers, so that the result does not depend on the order in
// which threads arrive.
#ifndef HYDRANT_KERNELS_CUDA_SELECT_CUH_
#define HYDRANT_KERNELS_CUDA_SELECT_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/element.cuh"

namespace hydrant::cuda {

using Mass = unsigned long long;  // the type that atomicAdd knows

struct Weighed {
  uint64_t key;
  Mass mass;  // 0: not there
};

// The smallest key K such that the items with keys up to K weigh `wanted` or more together; all threads get it. `item(i)` of
// i in [0, count) gives a Weighed; keys are distinct. With every mass 1 it is the wanted-th smallest key.
// REQUIRES: 1 <= wanted <= the mass of all.
template <typename Item>
__device__ uint64_t SelectByMass(int64_t count, Mass wanted, Item item) {
  __shared__ Mass masses[256];
  __shared__ uint64_t found;
  __shared__ Mass left;
  uint64_t prefix = 0;
  for (int shift = 56; shift >= 0; shift -= 8) {
    __syncthreads();
    for (uint32_t bin = threadIdx.x; bin < 256; bin += blockDim.x) masses[bin] = 0;
    __syncthreads();
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
      const Weighed it = item(i);
      if (it.mass == 0 || (shift < 56 && (it.key >> (shift + 8)) != prefix)) continue;
      atomicAdd(&masses[(it.key >> shift) & 255u], it.mass);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      uint64_t digit = 0;
      while (digit < 255 && masses[digit] < wanted) wanted -= masses[digit++];
      found = (prefix << 8) | digit;
      left = wanted;
    }
    __syncthreads();
    prefix = found;
    wanted = left;
  }
  return prefix;
}

// Writes emit(n, i) for the n-th i in [0, count), in ascending order, that `wanted` wants; returns how many there are.
template <typename Wanted, typename Emit>
__device__ int64_t Compact(int64_t count, Wanted wanted, Emit emit) {
  const int64_t share = (count + blockDim.x - 1) / blockDim.x;
  const int64_t begin = threadIdx.x * share, end = begin + share < count ? begin + share : count;
  int64_t own = 0;
  for (int64_t i = begin; i < end; ++i) own += wanted(i) ? 1 : 0;
  int64_t total = 0;
  int64_t n = BlockExclusiveSum(own, &total);
  for (int64_t i = begin; i < end; ++i) {
    if (wanted(i)) emit(n++, i);
  }
  return total;
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

#endif  // HYDRANT_KERNELS_CUDA_SELECT_CUH_
