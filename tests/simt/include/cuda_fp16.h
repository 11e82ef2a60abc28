// CUDA's half precision for kernels that run on tests/simt/machine.h.
#ifndef HYDRANT_TESTS_SIMT_INCLUDE_CUDA_FP16_H_
#define HYDRANT_TESTS_SIMT_INCLUDE_CUDA_FP16_H_

#include <bit>
#include <cmath>
#include <cstdint>

struct __half {
  uint16_t bits;
};

inline float __half2float(__half x) {
  const int exponent = (x.bits >> 10) & 31, fraction = x.bits & 1023;
  const float sign = (x.bits & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  return sign * (exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                               : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25));
}

// Nearest, ties to even.
inline __half __float2half_rn(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  if (std::isnan(x)) return {static_cast<uint16_t>(sign | 0x7fffu)};
  const float magnitude = std::fabs(x);
  if (magnitude >= 65520.0f) return {static_cast<uint16_t>(sign | 0x7c00u)};
  const int exponent = magnitude < 0x1p-14f ? -24 : std::ilogb(magnitude) - 10;  // of the last place
  const auto units = static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, -exponent)));
  const uint32_t half = magnitude < 0x1p-14f ? units : (static_cast<uint32_t>(exponent + 24) << 10) + units;
  return {static_cast<uint16_t>(sign | half)};
}

#endif  // HYDRANT_TESTS_SIMT_INCLUDE_CUDA_FP16_H_
