// kernels/cuda/runtime/tensor_core.cuh for tests/simt: products and loads as their definitions have them, and which lane
// holds what.
#ifndef HYDRANT_TESTS_SIMT_INCLUDE_KERNELS_CUDA_RUNTIME_TENSOR_CORE_CUH_
#define HYDRANT_TESTS_SIMT_INCLUDE_KERNELS_CUDA_RUNTIME_TENSOR_CORE_CUH_

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "tests/simt/machine.h"

namespace hydrant::cuda {

inline float HalfOf(__half x) { return __half2float(x); }
inline float HalfOf(__nv_bfloat16 x) { return __bfloat162float(x); }

template <typename T>
void MultiplyAdd(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  struct Lane {
    uint32_t a[4], b[2];
  } own;
  std::memcpy(own.a, a, sizeof(own.a));
  std::memcpy(own.b, b, sizeof(own.b));
  const std::byte* all = simt::ExchangeInWarp(&own, sizeof(own), simt::Collective::kMultiplyAdd);
  // Word `word` of a Lane: two neighbouring elements of its row of A, or of its column of B.
  const auto pair_of = [&](uint32_t lane, uint32_t word, float(&pair)[2]) {
    uint16_t halves[2];
    std::memcpy(halves, all + lane * sizeof(Lane) + word * sizeof(uint32_t), sizeof(halves));
    for (int i = 0; i < 2; ++i) pair[i] = HalfOf(T{halves[i]});
  };
  const uint32_t lane = simt::Lane();
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t row = lane / 4 + (i >= 2 ? 8 : 0), col = lane % 4 * 2 + i % 2;
    float sum = c[i];
    for (uint32_t k = 0; k < 16; k += 2) {
      float x[2], y[2];
      pair_of(row % 8 * 4 + k % 8 / 2, (k >= 8 ? 2 : 0) + (row >= 8 ? 1 : 0), x);
      pair_of(col * 4 + k % 8 / 2, k >= 8 ? 5 : 4, y);
      sum += x[0] * y[0];
      sum += x[1] * y[1];
    }
    c[i] = sum;
  }
}

// Element `col` of row `row` of matrix `matrix`, whose rows the lanes gave.
inline uint16_t MatrixElement(const std::byte* all, uint32_t matrix, uint32_t row, uint32_t col) {
  const std::byte* address;
  std::memcpy(&address, all + (matrix * 8 + row) * sizeof(address), sizeof(address));
  uint16_t element;
  std::memcpy(&element, address + col * 2, sizeof(element));
  return element;
}

inline const std::byte* ExchangeRows(const void* row) {
  assert(reinterpret_cast<uintptr_t>(row) % 16 == 0);
  return simt::ExchangeInWarp(&row, sizeof(row), simt::Collective::kLoadRows);
}

inline void LoadMatrices(const void* row, uint32_t (&words)[4]) {
  const std::byte* all = ExchangeRows(row);
  const uint32_t g = simt::Lane() / 4, t = simt::Lane() % 4;
  for (uint32_t m = 0; m < 4; ++m) {
    words[m] = MatrixElement(all, m, g, 2 * t) | uint32_t{MatrixElement(all, m, g, 2 * t + 1)} << 16;
  }
}

inline void LoadMatricesTransposed(const void* row, uint32_t (&words)[4]) {
  const std::byte* all = ExchangeRows(row);
  const uint32_t g = simt::Lane() / 4, t = simt::Lane() % 4;
  for (uint32_t m = 0; m < 4; ++m) {
    words[m] = MatrixElement(all, m, 2 * t, g) | uint32_t{MatrixElement(all, m, 2 * t + 1, g)} << 16;
  }
}

}  // namespace hydrant::cuda

#endif  // HYDRANT_TESTS_SIMT_INCLUDE_KERNELS_CUDA_RUNTIME_TENSOR_CORE_CUH_
