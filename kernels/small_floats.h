// Small floats of model files, read and written without the instructions for it: where one program serves every processor.
//
// Thread: any (pure).
#ifndef HYDRANT_KERNELS_SMALL_FLOATS_H_
#define HYDRANT_KERNELS_SMALL_FLOATS_H_

#include <bit>
#include <cmath>
#include <cstdint>

namespace hydrant {

// The value of an IEEE 754 binary16; of a NaN a NaN. Branch-free and always inlined, so that loops of it are vectorised.
//
// Shifting the exponent and mantissa into place leaves an exponent too small by 112, which one multiplication by 2^112
// repairs, subnormals included; infinities and NaNs get the rest of their exponent by hand.
inline __attribute__((always_inline)) float HalfToFloat(uint16_t half) {
  const uint32_t magnitude = static_cast<uint32_t>(half & 0x7FFFu) << 13;
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112f;
  const uint32_t special = magnitude >= 0x0F800000u ? 0x7F800000u : 0u;
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) | special | sign);
}

// 2^(e - 128), which is not a normal number below e = 2: the step of a block of MXFP4.
inline __attribute__((always_inline)) float PowerToFloat(uint8_t e) {
  return std::bit_cast<float>(e < 2 ? 0x00200000u << e : (e - 1u) << 23);
}

// What NearestHalf has for a number that no fp16 number is near: a NaN.
inline constexpr uint16_t kHalfNan = 0x7E00;

// The nearest fp16 number, ties to even; kHalfNan for a NaN and for magnitudes that round beyond the largest one.
inline uint16_t NearestHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const float magnitude = std::fabs(value);
  if (!(magnitude < 65520)) return kHalfNan;
  // Below 2^-14 all numbers are multiples of 2^-24: adding 1.5 * 2^-1 rounds to them.
  if (magnitude < 0x1p-14f) {
    const uint32_t sum = std::bit_cast<uint32_t>(magnitude + 0.75f);
    return static_cast<uint16_t>(sign | (sum - std::bit_cast<uint32_t>(0.75f)));
  }
  const uint32_t kept = std::bit_cast<uint32_t>(magnitude) - (112u << 23);
  return static_cast<uint16_t>(sign | (kept + 0xFFF + (kept >> 13 & 1)) >> 13);
}

// The value of an FP8 number with four bits of exponent (E4M3: no infinities, NaN where all other bits are 1).
inline float Fp8ToFloat(uint8_t number) {
  const int exponent = number >> 3 & 15, mantissa = number & 7;
  if ((number & 0x7F) == 0x7F) return std::bit_cast<float>(0x7FC00000u);
  const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                        : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return number & 0x80 ? -magnitude : magnitude;
}

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_SMALL_FLOATS_H_
