// kernels/cuda/runtime/warpgroup.cuh for tests/simt: a product is made at once, and its operand read where the device would look.
#ifndef HYDRANT_TESTS_SIMT_INCLUDE_KERNELS_CUDA_RUNTIME_WARPGROUP_CUH_
#define HYDRANT_TESTS_SIMT_INCLUDE_KERNELS_CUDA_RUNTIME_WARPGROUP_CUH_

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cuda/runtime/tensor_core.cuh"
#include "tests/simt/machine.h"

namespace hydrant::cuda {

inline constexpr int kPanelColumns = 64;
inline int InPanel(int row, int chunk) { return row * kPanelColumns + (chunk ^ (row & 7)) * 8; }

struct PanelOperand {
  uintptr_t start;
  uint32_t panel_bytes;

  static PanelOperand RowsAsColumns(const void* start) { return {reinterpret_cast<uintptr_t>(start), 16}; }
  static PanelOperand ElementsAsColumns(const void* start, uint32_t panel_bytes) {
    return {reinterpret_cast<uintptr_t>(start), panel_bytes};
  }
  PanelOperand operator+(int bytes) const { return {start + static_cast<uintptr_t>(bytes), panel_bytes}; }

  // Element (k, column). The chunk's number is changed by the address, as the device does it.
  template <typename T, bool kDimensions>
  float At(uint32_t k, uint32_t column) const {
    uintptr_t at = start;
    if constexpr (kDimensions) {
      at += column / 64 * panel_bytes + k * 128 + column % 64 * 2;
    } else {
      at += column * 128 + k * 2;
    }
    at ^= (at >> 7 & 7) << 4;
    T element;
    std::memcpy(&element, reinterpret_cast<const void*>(at), sizeof(element));
    return HalfOf(element);
  }
};

template <typename T, bool kDimensions, int kEights>
void WarpgroupMultiply(float (&c)[kEights][4], const uint32_t (&a)[4], PanelOperand b, bool adds) {
  static_assert(kEights == 8 || kEights == 16);
  assert(b.start % 16 == 0);
  const std::byte* all = simt::ExchangeInWarp(&a, sizeof(a), simt::Collective::kWarpgroup);
  const uint32_t g = simt::Lane() / 4, t = simt::Lane() % 4;
  float rows[2][16];  // g and g + 8 of a
  for (uint32_t half = 0; half < 2; ++half) {
    for (uint32_t k = 0; k < 16; k += 2) {
      T pair[2];
      std::memcpy(pair, all + (g * 4 + k % 8 / 2) * sizeof(a) + (k / 8 * 2 + half) * 4, sizeof(pair));
      rows[half][k] = HalfOf(pair[0]);
      rows[half][k + 1] = HalfOf(pair[1]);
    }
  }
  for (uint32_t i = 0; i < kEights * 2; ++i) {
    const uint32_t column = i / 2 * 8 + t * 2 + i % 2;
    float& first = c[i / 2][i % 2];
    float& second = c[i / 2][2 + i % 2];
    float sums[2] = {adds ? first : 0.0f, adds ? second : 0.0f};
    for (uint32_t k = 0; k < 16; ++k) {
      const float y = b.At<T, kDimensions>(k, column);
      sums[0] += rows[0][k] * y;
      sums[1] += rows[1][k] * y;
    }
    first = sums[0];
    second = sums[1];
  }
}

inline void BeginProducts() {}
inline void CommitProducts() {}
template <int kGroups>
void WaitForProducts() {}
template <int kEights>
void HoldRegisters(float (&)[kEights][4]) {}
inline void ShowToProducts() {}

}  // namespace hydrant::cuda

#endif  // HYDRANT_TESTS_SIMT_INCLUDE_KERNELS_CUDA_RUNTIME_WARPGROUP_CUH_
