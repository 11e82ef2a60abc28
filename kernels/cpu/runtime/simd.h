// Sixteen floats, whatever the instruction set: one AVX-512 register or two AVX2 ones. The lanes never mix except in
// ReduceAdd and ReduceMax, whose order is fixed and the same everywhere.
//
// For kernel families only (kernels/cpu/kernel_table.h has the rules): everything is in the family's own namespace.
#ifndef HYDRANT_KERNELS_CPU_RUNTIME_SIMD_H_
#define HYDRANT_KERNELS_CPU_RUNTIME_SIMD_H_

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#ifndef HYDRANT_ISA
#error "simd.h is for sources compiled once per instruction set"
#endif

// Internal linkage on top of the family's namespace: no symbol of this file leaves its object file.
#define HYDRANT_SIMD [[maybe_unused]] static inline __attribute__((always_inline))

// Before a small constant loop whose body works on registers. Instrumented, unrolled loops take minutes to compile.
#ifdef HYDRANT_INSTRUMENTED
#define HYDRANT_UNROLL(count)
#else
#define HYDRANT_PRAGMA(text) _Pragma(#text)
#define HYDRANT_UNROLL(count) HYDRANT_PRAGMA(GCC unroll count)
#endif

namespace hydrant::HYDRANT_ISA {

inline constexpr int kLanes = 16;

#ifdef __AVX512F__

struct F32x16 {
  __m512 v;
};
struct Mask16 {
  __mmask16 m;
};

HYDRANT_SIMD F32x16 Zero() { return {_mm512_setzero_ps()}; }
HYDRANT_SIMD F32x16 Set(float x) { return {_mm512_set1_ps(x)}; }
HYDRANT_SIMD F32x16 Load(const float* p) { return {_mm512_loadu_ps(p)}; }
HYDRANT_SIMD void Store(float* p, F32x16 a) { _mm512_storeu_ps(p, a.v); }
HYDRANT_SIMD F32x16 operator+(F32x16 a, F32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
HYDRANT_SIMD F32x16 operator-(F32x16 a, F32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
HYDRANT_SIMD F32x16 operator*(F32x16 a, F32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
HYDRANT_SIMD F32x16 operator/(F32x16 a, F32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
// a * b + c, rounded once.
HYDRANT_SIMD F32x16 MulAdd(F32x16 a, F32x16 b, F32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
// c - a * b, rounded once.
HYDRANT_SIMD F32x16 NegMulAdd(F32x16 a, F32x16 b, F32x16 c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }
// A NaN in b survives both.
HYDRANT_SIMD F32x16 Max(F32x16 a, F32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
HYDRANT_SIMD F32x16 Min(F32x16 a, F32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }
HYDRANT_SIMD F32x16 Round(F32x16 a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
HYDRANT_SIMD Mask16 Less(F32x16 a, F32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
// mask ? a : b.
HYDRANT_SIMD F32x16 Select(Mask16 mask, F32x16 a, F32x16 b) { return {_mm512_mask_blend_ps(mask.m, b.v, a.v)}; }
// The first n lanes, n in [0, 16].
HYDRANT_SIMD Mask16 FirstN(int64_t n) { return {static_cast<__mmask16>((1u << n) - 1u)}; }
// The lanes whose bits are set; those above bit 15 do not count.
HYDRANT_SIMD Mask16 FromBits(uint32_t bits) { return {static_cast<__mmask16>(bits)}; }
// The lanes whose integer is `bound` or more; bound > INT32_MIN.
HYDRANT_SIMD Mask16 AtLeast(const int32_t* p, int32_t bound) {
  return {_mm512_cmpge_epi32_mask(_mm512_loadu_si512(p), _mm512_set1_epi32(bound))};
}
HYDRANT_SIMD F32x16 LoadN(const float* p, int64_t n) { return {_mm512_maskz_loadu_ps(FirstN(n).m, p)}; }
HYDRANT_SIMD void StoreN(float* p, F32x16 a, int64_t n) { _mm512_mask_storeu_ps(p, FirstN(n).m, a.v); }
// a * 2^n for whole n; overflows to infinity, underflows gradually.
HYDRANT_SIMD F32x16 ScalePow2(F32x16 a, F32x16 n) { return {_mm512_scalef_ps(a.v, n.v)}; }
HYDRANT_SIMD F32x16 LoadF16(const uint16_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
HYDRANT_SIMD void StoreF16(uint16_t* p, F32x16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
HYDRANT_SIMD F32x16 LoadBf16(const uint16_t* p) {
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16))};
}
// Round to nearest even in the upper 16 bits of every lane, the lower 16 zero; a NaN stays a (quiet) NaN.
HYDRANT_SIMD __m512i RoundBf16Bits(F32x16 a) {
  const __m512i bits = _mm512_castps_si512(a.v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x00400000));
  const __mmask16 nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
  return _mm512_and_si512(_mm512_mask_blend_epi32(nan, rounded, quiet),
                          _mm512_set1_epi32(static_cast<int>(0xffff0000u)));
}
HYDRANT_SIMD void StoreBf16(uint16_t* p, F32x16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(_mm512_srli_epi32(RoundBf16Bits(a), 16)));
}

HYDRANT_SIMD F32x16 Abs(F32x16 a) { return {_mm512_abs_ps(a.v)}; }
// a with the signs of b; REQUIRES: no sign in a.
HYDRANT_SIMD F32x16 WithSign(F32x16 a, F32x16 b) {
  return {_mm512_or_ps(a.v, _mm512_and_ps(b.v, _mm512_set1_ps(-0.0f)))};
}

HYDRANT_SIMD __m256 LowHalf(F32x16 a) { return _mm512_castps512_ps256(a.v); }
HYDRANT_SIMD __m256 HighHalf(F32x16 a) { return _mm512_extractf32x8_ps(a.v, 1); }

#else  // AVX2

struct F32x16 {
  __m256 lo, hi;
};
struct Mask16 {
  __m256 lo, hi;  // all bits of a lane set or clear
};

HYDRANT_SIMD F32x16 Zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
HYDRANT_SIMD F32x16 Set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
HYDRANT_SIMD F32x16 Load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
HYDRANT_SIMD void Store(float* p, F32x16 a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
HYDRANT_SIMD F32x16 operator+(F32x16 a, F32x16 b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
HYDRANT_SIMD F32x16 operator-(F32x16 a, F32x16 b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
HYDRANT_SIMD F32x16 operator*(F32x16 a, F32x16 b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
HYDRANT_SIMD F32x16 operator/(F32x16 a, F32x16 b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
HYDRANT_SIMD F32x16 MulAdd(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
HYDRANT_SIMD F32x16 NegMulAdd(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fnmadd_ps(a.lo, b.lo, c.lo), _mm256_fnmadd_ps(a.hi, b.hi, c.hi)};
}
HYDRANT_SIMD F32x16 Max(F32x16 a, F32x16 b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
HYDRANT_SIMD F32x16 Min(F32x16 a, F32x16 b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
HYDRANT_SIMD F32x16 Round(F32x16 a) {
  return {_mm256_round_ps(a.lo, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
          _mm256_round_ps(a.hi, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
HYDRANT_SIMD Mask16 Less(F32x16 a, F32x16 b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ)};
}
HYDRANT_SIMD F32x16 Select(Mask16 mask, F32x16 a, F32x16 b) {
  return {_mm256_blendv_ps(b.lo, a.lo, mask.lo), _mm256_blendv_ps(b.hi, a.hi, mask.hi)};
}
HYDRANT_SIMD Mask16 FirstN(int64_t n) {
  const __m256i count = _mm256_set1_epi32(static_cast<int>(n));
  const __m256i low = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i high = _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15);
  return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(count, low)), _mm256_castsi256_ps(_mm256_cmpgt_epi32(count, high))};
}
HYDRANT_SIMD Mask16 FromBits(uint32_t bits) {
  const __m256i all = _mm256_set1_epi32(static_cast<int>(bits));
  const __m256i low = _mm256_setr_epi32(0x1, 0x2, 0x4, 0x8, 0x10, 0x20, 0x40, 0x80);
  const __m256i high = _mm256_slli_epi32(low, 8);
  return {_mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(all, low), low)),
          _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(all, high), high))};
}
HYDRANT_SIMD Mask16 AtLeast(const int32_t* p, int32_t bound) {
  const __m256i below = _mm256_set1_epi32(bound - 1);
  const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 8));
  return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(low, below)), _mm256_castsi256_ps(_mm256_cmpgt_epi32(high, below))};
}
HYDRANT_SIMD F32x16 LoadN(const float* p, int64_t n) {
  const Mask16 mask = FirstN(n);
  return {_mm256_maskload_ps(p, _mm256_castps_si256(mask.lo)), _mm256_maskload_ps(p + 8, _mm256_castps_si256(mask.hi))};
}
HYDRANT_SIMD void StoreN(float* p, F32x16 a, int64_t n) {
  const Mask16 mask = FirstN(n);
  _mm256_maskstore_ps(p, _mm256_castps_si256(mask.lo), a.lo);
  _mm256_maskstore_ps(p + 8, _mm256_castps_si256(mask.hi), a.hi);
}
HYDRANT_SIMD __m256 ScalePow2Half(__m256 a, __m256 n) {
  // Two factors of half the exponent each: 2^n itself may be outside the range of fp32 while a * 2^n is inside.
  n = _mm256_max_ps(_mm256_min_ps(n, _mm256_set1_ps(252.0f)), _mm256_set1_ps(-252.0f));
  const __m256i whole = _mm256_cvtps_epi32(n);
  const __m256i half = _mm256_srai_epi32(whole, 1);
  const __m256i rest = _mm256_sub_epi32(whole, half);
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256 first = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
  const __m256 second = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));
  return _mm256_mul_ps(_mm256_mul_ps(a, first), second);
}
HYDRANT_SIMD F32x16 ScalePow2(F32x16 a, F32x16 n) { return {ScalePow2Half(a.lo, n.lo), ScalePow2Half(a.hi, n.hi)}; }
HYDRANT_SIMD F32x16 LoadF16(const uint16_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
HYDRANT_SIMD void StoreF16(uint16_t* p, F32x16 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a.lo, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8),
                   _mm256_cvtps_ph(a.hi, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
HYDRANT_SIMD __m256 LoadBf16Half(const uint16_t* p) {
  const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}
HYDRANT_SIMD F32x16 LoadBf16(const uint16_t* p) { return {LoadBf16Half(p), LoadBf16Half(p + 8)}; }
HYDRANT_SIMD __m256i RoundBf16BitsHalf(__m256 a) {
  const __m256i bits = _mm256_castps_si256(a);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x00400000));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
  return _mm256_and_si256(_mm256_blendv_epi8(rounded, quiet, nan), _mm256_set1_epi32(static_cast<int>(0xffff0000u)));
}
HYDRANT_SIMD void StoreBf16(uint16_t* p, F32x16 a) {
  const __m256i lo = _mm256_srli_epi32(RoundBf16BitsHalf(a.lo), 16);
  const __m256i hi = _mm256_srli_epi32(RoundBf16BitsHalf(a.hi), 16);
  // packus works within 128-bit halves; the permutation puts the four quarters back in order.
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(lo, hi), _MM_SHUFFLE(3, 1, 2, 0));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), packed);
}

HYDRANT_SIMD F32x16 Abs(F32x16 a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
}
HYDRANT_SIMD F32x16 WithSign(F32x16 a, F32x16 b) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_or_ps(a.lo, _mm256_and_ps(b.lo, sign)), _mm256_or_ps(a.hi, _mm256_and_ps(b.hi, sign))};
}

HYDRANT_SIMD __m256 LowHalf(F32x16 a) { return a.lo; }
HYDRANT_SIMD __m256 HighHalf(F32x16 a) { return a.hi; }

#endif

// ((a0 + a8) + (a4 + a12)) + … : halves are added until one lane is left.
HYDRANT_SIMD float ReduceAdd(F32x16 a) {
  const __m256 eight = _mm256_add_ps(LowHalf(a), HighHalf(a));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

// A NaN may get lost; callers that care test for it.
HYDRANT_SIMD float ReduceMax(F32x16 a) {
  const __m256 eight = _mm256_max_ps(LowHalf(a), HighHalf(a));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

// Columns of 16 rows of 8 floats: lane i of columns[j] is rows[i][j].
#ifdef __AVX512F__
HYDRANT_SIMD void LoadColumns(const float* const (&rows)[16], F32x16 (&columns)[8]) {
  // Quarters of a register: columns 0–3 and 4–7 of a row, then the same of the row four further on.
  __m512 x[8], a[8], b[8];
  for (int i = 0; i < 8; ++i) {
    const int row = i % 4 + i / 4 * 8;
    x[i] = _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(rows[row])), _mm256_loadu_ps(rows[row + 4]), 1);
  }
  for (int i = 0; i < 8; i += 2) {
    a[i] = _mm512_unpacklo_ps(x[i], x[i + 1]);
    a[i + 1] = _mm512_unpackhi_ps(x[i], x[i + 1]);
  }
  // Four rows at a time: b[j] and b[4 + j] have columns j and 4 + j in turn.
  for (int i = 0; i < 8; i += 4) {
    for (int half = 0; half < 2; ++half) {
      const __m512d low = _mm512_castps_pd(a[i + half]), high = _mm512_castps_pd(a[i + 2 + half]);
      b[i + 2 * half] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
      b[i + 2 * half + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
    }
  }
  for (int j = 0; j < 4; ++j) {
    columns[j].v = _mm512_shuffle_f32x4(b[j], b[4 + j], 0x88);
    columns[4 + j].v = _mm512_shuffle_f32x4(b[j], b[4 + j], 0xdd);
  }
}
#else
HYDRANT_SIMD void TransposeEight(const float* const* rows, __m256 (&columns)[8]) {
  __m256 a[8], b[8];
  for (int i = 0; i < 8; i += 2) {
    const __m256 even = _mm256_loadu_ps(rows[i]), odd = _mm256_loadu_ps(rows[i + 1]);
    a[i] = _mm256_unpacklo_ps(even, odd);
    a[i + 1] = _mm256_unpackhi_ps(even, odd);
  }
  for (int i = 0; i < 8; i += 4) {
    for (int half = 0; half < 2; ++half) {
      const __m256d low = _mm256_castps_pd(a[i + half]), high = _mm256_castps_pd(a[i + 2 + half]);
      b[i + 2 * half] = _mm256_castpd_ps(_mm256_unpacklo_pd(low, high));
      b[i + 2 * half + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(low, high));
    }
  }
  for (int j = 0; j < 4; ++j) {
    columns[j] = _mm256_permute2f128_ps(b[j], b[4 + j], 0x20);
    columns[4 + j] = _mm256_permute2f128_ps(b[j], b[4 + j], 0x31);
  }
}
HYDRANT_SIMD void LoadColumns(const float* const (&rows)[16], F32x16 (&columns)[8]) {
  __m256 low[8], high[8];
  TransposeEight(rows, low);
  TransposeEight(rows + 8, high);
  for (int j = 0; j < 8; ++j) columns[j] = {low[j], high[j]};
}
#endif

// e^x within 2 ulp (tests/kernels/cpu/runtime/row_kernels_test.cc); 0 below -104, infinity above 88.73; NaN in, NaN out.
HYDRANT_SIMD F32x16 Exp(F32x16 x) {
  // Outside these borders the result is 0 or infinity anyway, and n below stays a small whole number.
  x = Max(Set(-106.0f), Min(Set(90.0f), x));
  const F32x16 n = Round(x * Set(1.44269504f));
  // ln 2 in two parts, the first with few enough bits that n times it is exact.
  F32x16 r = NegMulAdd(n, Set(0.693359375f), x);
  r = NegMulAdd(n, Set(-2.12194440e-4f), r);
  // The Taylor series of e^r on [-ln 2 / 2, ln 2 / 2]; its first dropped term is below 2^-27.
  F32x16 p = Set(1.0f / 5040.0f);
  p = MulAdd(p, r, Set(1.0f / 720.0f));
  p = MulAdd(p, r, Set(1.0f / 120.0f));
  p = MulAdd(p, r, Set(1.0f / 24.0f));
  p = MulAdd(p, r, Set(1.0f / 6.0f));
  p = MulAdd(p, r, Set(0.5f));
  p = MulAdd(p, r, Set(1.0f));
  p = MulAdd(p, r, Set(1.0f));
  return ScalePow2(p, n);
}

}  // namespace hydrant::HYDRANT_ISA

#endif  // HYDRANT_KERNELS_CPU_RUNTIME_SIMD_H_
