// CUDA's bfloat16 for kernels that run on tests/simt/machine.h.
#ifndef HYDRANT_TESTS_SIMT_INCLUDE_CUDA_BF16_H_
#define HYDRANT_TESTS_SIMT_INCLUDE_CUDA_BF16_H_

#include <bit>
#include <cmath>
#include <cstdint>

struct __nv_bfloat16 {
  uint16_t bits;
};

inline float __bfloat162float(__nv_bfloat16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }

// Nearest, ties to even.
inline __nv_bfloat16 __float2bfloat16_rn(float x) {
  if (std::isnan(x)) return {0x7fff};
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

struct __nv_bfloat162 {
  __nv_bfloat16 x, y;
};

inline __nv_bfloat162 __hadd2(__nv_bfloat162 a, __nv_bfloat162 b) {
  return {__float2bfloat16_rn(__bfloat162float(a.x) + __bfloat162float(b.x)),
          __float2bfloat16_rn(__bfloat162float(a.y) + __bfloat162float(b.y))};
}

#endif  // HYDRANT_TESTS_SIMT_INCLUDE_CUDA_BF16_H_
