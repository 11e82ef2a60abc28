// HalfToFloat and PowerToFloat read small floats of model files without the instructions for it: where one program serves
// every processor.
//
// Thread: any (pure).
#ifndef HYDRANT_KERNELS_SMALL_FLOATS_H_
#define HYDRANT_KERNELS_SMALL_FLOATS_H_

#include <bit>
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

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_SMALL_FLOATS_H_
