// Activation functions on sixteen lanes, for kernel families (kernels/cpu/kernel_table.h). Relative error about 1e-6
// over the whole range of fp32, the deep tails included.
#ifndef HYDRANT_KERNELS_CPU_RUNTIME_ACTIVATION_H_
#define HYDRANT_KERNELS_CPU_RUNTIME_ACTIVATION_H_

#include "kernels/cpu/runtime/simd.h"
#include "kernels/types.h"

namespace hydrant::HYDRANT_ISA {

// x / (1 + e^-x).
HYDRANT_SIMD F32x16 Silu(F32x16 x) { return x / (Set(1.0f) + Exp(Zero() - x)); }

// Phi(-m) = erfc(m / sqrt 2) / 2 for m >= 0. erfc by the Chebyshev fit of Numerical Recipes (erfcc), whose relative error
// is below 1.2e-7 before rounding.
HYDRANT_SIMD F32x16 NormalTail(F32x16 m) {
  m = Min(Set(28.0f), m);  // the tail is 0 in fp32 from 15 on; an infinite square would turn into a NaN below
  const F32x16 t = Set(1.0f) / MulAdd(Set(0.5f * 0.70710678118654752f), m, Set(1.0f));
  F32x16 p = Set(0.17087277f);
  p = MulAdd(p, t, Set(-0.82215223f));
  p = MulAdd(p, t, Set(1.48851587f));
  p = MulAdd(p, t, Set(-1.13520398f));
  p = MulAdd(p, t, Set(0.27886807f));
  p = MulAdd(p, t, Set(-0.18628806f));
  p = MulAdd(p, t, Set(0.09678418f));
  p = MulAdd(p, t, Set(0.37409196f));
  p = MulAdd(p, t, Set(1.00002368f));
  p = MulAdd(p, t, Set(-1.26551223f));
  // e^-(m^2 / 2) with the rounding error of the square put back: 2^-24 of an exponent near -80 would be 5e-6.
  const F32x16 half = Set(0.5f) * m;
  const F32x16 square = half * m;
  const F32x16 lost = NegMulAdd(half, m, square);
  return Set(0.5f) * t * Exp(Zero() - square) * Exp(p + lost);
}

// x * Phi(x).
HYDRANT_SIMD F32x16 Gelu(F32x16 x) {
  const F32x16 tail = NormalTail(Max(Zero() - x, x));
  return x * Select(Less(x, Zero()), tail, Set(1.0f) - tail);
}

// 0.5 x (1 + tanh u) = x / (1 + e^-2u), u = sqrt(2 / pi) (x + 0.044715 x^3).
HYDRANT_SIMD F32x16 GeluTanh(F32x16 x) {
  const F32x16 u2 = x * MulAdd(x * x, Set(2.0f * 0.7978845608f * 0.044715f), Set(2.0f * 0.7978845608f));
  return x / (Set(1.0f) + Exp(Zero() - u2));
}

// cap * tanh(x / cap) as cap - 2 cap / (e^(2x / cap) + 1): cap > 0. The error is a few 2^-24 of the cap.
HYDRANT_SIMD F32x16 SoftCap(F32x16 x, float cap) {
  return Set(cap) - Set(2.0f * cap) / (Exp(x * Set(2.0f / cap)) + Set(1.0f));
}

// g * sigmoid(slope * g), g = min(x, limit).
HYDRANT_SIMD F32x16 ClampedSwish(F32x16 x) {
  const F32x16 g = Min(Set(kSwishLimit), x);
  return g / (Set(1.0f) + Exp(Set(-kSwishSlope) * g));
}

// A NaN stays a NaN in all of them.
HYDRANT_SIMD F32x16 ApplyActivation(Activation activation, F32x16 x) {
  switch (activation) {
    case Activation::kSilu:
      return Silu(x);
    case Activation::kGelu:
      return Gelu(x);
    case Activation::kGeluTanh:
      return GeluTanh(x);
    case Activation::kRelu:
      return Max(Zero(), x);
    case Activation::kClampedSwish:
      return ClampedSwish(x);
  }
  return x;
}

// What an activation is multiplied by, of the up projection beside its gate.
HYDRANT_SIMD F32x16 UpFactor(Activation activation, F32x16 up) {
  if (activation != Activation::kClampedSwish) return up;
  return Max(Set(-kSwishLimit), Min(Set(kSwishLimit), up)) + Set(1.0f);
}

}  // namespace hydrant::HYDRANT_ISA

#endif  // HYDRANT_KERNELS_CPU_RUNTIME_ACTIVATION_H_
