// kernels/cuda/tensor_core.cuh for tests/simt: the product as its definition has it, which lane holds what included.
#ifndef HYDRANT_TESTS_SIMT_INCLUDE_KERNELS_CUDA_TENSOR_CORE_CUH_
#define HYDRANT_TESTS_SIMT_INCLUDE_KERNELS_CUDA_TENSOR_CORE_CUH_

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
  const std::byte* all = simt::ExchangeInWarp(&own, sizeof(own));
  const auto half = [](uint32_t pair, uint32_t which) {
    return HalfOf(T{static_cast<uint16_t>(which == 0 ? pair & 0xffffu : pair >> 16)});
  };
  const auto of = [&](uint32_t lane) {
    Lane held;
    std::memcpy(&held, all + lane * simt::kExchangeBytes, sizeof(held));
    return held;
  };
  const uint32_t lane = simt::Lane();
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t row = lane / 4 + (i >= 2 ? 8 : 0), col = lane % 4 * 2 + i % 2;
    float sum = c[i];
    for (uint32_t k = 0; k < 16; ++k) {
      const uint32_t x = of(row % 8 * 4 + k % 8 / 2).a[(k >= 8 ? 2 : 0) + (row >= 8 ? 1 : 0)];
      const uint32_t y = of(col * 4 + k % 8 / 2).b[k >= 8 ? 1 : 0];
      sum += half(x, k % 2) * half(y, k % 2);
    }
    c[i] = sum;
  }
}

}  // namespace hydrant::cuda

#endif  // HYDRANT_TESTS_SIMT_INCLUDE_KERNELS_CUDA_TENSOR_CORE_CUH_
