// kernels/cuda/runtime/collectives.cuh for tests/simt: an exchange is 32 switches of threads, which took most of the tests' time,
// so there is one, and every lane does what the others do between the instructions of a device, in the same order.
#ifndef HYDRANT_TESTS_SIMT_INCLUDE_KERNELS_CUDA_RUNTIME_COLLECTIVES_CUH_
#define HYDRANT_TESTS_SIMT_INCLUDE_KERNELS_CUDA_RUNTIME_COLLECTIVES_CUH_

#include <array>
#include <cstdint>
#include <cstring>

#include "tests/simt/machine.h"

namespace hydrant::cuda {

inline constexpr uint32_t kWarp = simt::kWarp;
inline constexpr uint32_t kAllLanes = 0xffffffffu;

// What `kLanes` lanes from `first` on put in.
template <uint32_t kLanes, typename T>
std::array<T, kLanes> OfLanes(const T& own, uint32_t first, simt::Collective which) {
  std::array<T, kLanes> values;
  std::memcpy(values.data(), simt::ExchangeInWarp(&own, sizeof(T), which) + first * sizeof(T), sizeof(values));
  return values;
}

// A step computes only what the lane's result is made of: lanes with its bits from kLanes / 2 on, numbered by those below.
template <uint32_t kLanes, typename T, typename Op>
T ReduceOwn(const std::array<T, kLanes>& values, uint32_t lane, Op op) {
  if constexpr (kLanes == 1) {
    return values[0];
  } else {
    constexpr uint32_t kHalf = kLanes / 2;
    const T* own = values.data() + (lane & kHalf);
    const T* other = values.data() + (kHalf - (lane & kHalf));
    std::array<T, kHalf> halved;
    for (uint32_t i = 0; i < kHalf; ++i) halved[i] = op(own[i], other[i]);
    return ReduceOwn<kHalf>(halved, lane, op);
  }
}

template <uint32_t kLanes = kWarp, typename T, typename Op>
T WarpReduce(T x, Op op) {
  static_assert(kLanes <= kWarp && (kLanes & (kLanes - 1)) == 0);
  constexpr auto kWhich = static_cast<simt::Collective>(static_cast<uint32_t>(simt::Collective::kReduce) + kLanes);
  const uint32_t lane = simt::Lane();
  return ReduceOwn<kLanes>(OfLanes<kLanes>(x, lane / kLanes * kLanes, kWhich), lane, op);
}

template <typename T>
T WarpInclusiveSum(T x) {
  std::array<T, kWarp> values = OfLanes<kWarp>(x, 0, simt::Collective::kScan);
  for (uint32_t delta = 1; delta < kWarp; delta *= 2) {
    for (uint32_t i = kWarp - 1; i >= delta; --i) values[i] = values[i] + values[i - delta];
  }
  return values[simt::Lane()];
}

}  // namespace hydrant::cuda

#endif  // HYDRANT_TESTS_SIMT_INCLUDE_KERNELS_CUDA_RUNTIME_COLLECTIVES_CUH_
