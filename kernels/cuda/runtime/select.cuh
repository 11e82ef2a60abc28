// Selection and sorting by one block of threads. Everything is integers, so that the result does not depend on the order in
// which threads arrive.
#ifndef HYDRANT_KERNELS_CUDA_RUNTIME_SELECT_CUH_
#define HYDRANT_KERNELS_CUDA_RUNTIME_SELECT_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/runtime/element.cuh"

namespace hydrant::cuda {

// The mass of one item: up to 2^40.
using Mass = uint64_t;

// Masses by a digit of their keys. Shared memory adds 32 bits in one instruction and 64 only by trying until nobody else was
// faster, so a mass is added in pieces; most are zero, and of a mass of 1 all but one.
class MassHistogram {
 public:
  static constexpr uint32_t kBins = 256;

  __device__ void Clear() {
    for (uint32_t i = threadIdx.x; i < kPieces * kBins; i += blockDim.x) pieces_[i / kBins][i % kBins] = 0;
  }
  __device__ void Add(uint32_t bin, Mass mass) {
    for (int piece = 0; mass != 0 && piece < kPieces; ++piece, mass >>= kPieceBits) {
      const auto part = static_cast<uint32_t>(mass) & (kPieceLimit - 1);
      if (part != 0) atomicAdd(&pieces_[piece][bin], part);
    }
  }
  __device__ Mass Of(uint32_t bin) const {
    Mass sum = 0;
    for (int piece = 0; piece < kPieces; ++piece) sum += Mass{pieces_[piece][bin]} << (piece * kPieceBits);
    return sum;
  }

 private:
  // 50 bits of a mass; a counter of 32 holds the pieces of 2^22 items, which no vocabulary has more of.
  static constexpr int kPieces = 5, kPieceBits = 10;
  static constexpr uint32_t kPieceLimit = 1u << kPieceBits;

  uint32_t pieces_[kPieces][kBins];
};

// The smallest key K such that the items with keys up to K weigh `wanted` or more together; all threads get it. key(i) and
// mass(i) are those of item i in [0, count), where an item of mass 0 is none; keys of items are distinct. With every mass 1 it is
// the wanted-th smallest key. mass(i) is asked again only where the key may still be K.
// REQUIRES: 1 <= wanted <= the mass of all; count <= 2^22 unless masses are 0 or 1.
template <typename Key, typename MassOf>
__device__ uint64_t SelectByMass(int64_t count, Mass wanted, Key key, MassOf mass) {
  __shared__ MassHistogram masses;
  __shared__ uint64_t found;
  __shared__ Mass left;
  uint64_t prefix = 0;
  for (int shift = 56; shift >= 0; shift -= 8) {
    __syncthreads();
    masses.Clear();
    __syncthreads();
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
      const uint64_t own = key(i);
      if (shift == 56 || (own >> (shift + 8)) == prefix) {
        masses.Add(static_cast<uint32_t>(own >> shift) % MassHistogram::kBins, mass(i));
      }
    }
    __syncthreads();
    // The first warp looks for the digit, each lane in its share of the bins.
    if (threadIdx.x < kWarp) {
      constexpr uint32_t kShare = MassHistogram::kBins / kWarp;
      Mass of_lane = 0;
      for (uint32_t i = 0; i < kShare; ++i) of_lane += masses.Of(threadIdx.x * kShare + i);
      Mass below = WarpInclusiveSum(of_lane) - of_lane;
      if (below < wanted && wanted - below <= of_lane) {
        uint32_t digit = threadIdx.x * kShare;
        for (Mass here; below + (here = masses.Of(digit)) < wanted; ++digit) below += here;
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

#endif  // HYDRANT_KERNELS_CUDA_RUNTIME_SELECT_CUH_
