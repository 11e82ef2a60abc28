// One register of outputs, as wide as the instruction set has them: codes of four inputs of each, or one number of each.
//
// For kernel families only (kernels/cpu/kernel_table.h has the rules): everything is in the family's own namespace.
#ifndef HYDRANT_KERNELS_CPU_LINEAR_QUANTISED_VECTORS_H_
#define HYDRANT_KERNELS_CPU_LINEAR_QUANTISED_VECTORS_H_

#include "kernels/cpu/linear/linear_kernels.h"
#include "kernels/cpu/runtime/simd.h"

namespace hydrant::HYDRANT_ISA {
namespace {

#ifdef __AVX512F__

constexpr int kWidth = 16;  // outputs
using Ints = __m512i;       // codes: four inputs of an output in four bytes; or a whole sum of each output
using Reals = __m512;

HYDRANT_SIMD Ints LoadInts(const char* p) { return _mm512_loadu_si512(p); }
HYDRANT_SIMD Ints Bytes(int byte) { return _mm512_set1_epi8(static_cast<char>(byte)); }
HYDRANT_SIMD Ints And(Ints a, Ints b) { return _mm512_and_si512(a, b); }
HYDRANT_SIMD Ints Or(Ints a, Ints b) { return _mm512_or_si512(a, b); }
HYDRANT_SIMD Ints ShiftLeft(Ints a, int bits) { return _mm512_slli_epi32(a, static_cast<unsigned>(bits)); }
HYDRANT_SIMD Ints ShiftRight(Ints a, int bits) { return _mm512_srli_epi32(a, static_cast<unsigned>(bits)); }
HYDRANT_SIMD Ints NoInts() { return _mm512_setzero_si512(); }
HYDRANT_SIMD Reals NoReals() { return _mm512_setzero_ps(); }
HYDRANT_SIMD Reals Broadcast(const float* p) { return _mm512_set1_ps(*p); }
HYDRANT_SIMD Reals ToReals(Ints a) { return _mm512_cvtepi32_ps(a); }
HYDRANT_SIMD Reals Times(Reals a, Reals b) { return _mm512_mul_ps(a, b); }
HYDRANT_SIMD Reals Add(Reals a, Reals b, Reals c) { return _mm512_fmadd_ps(a, b, c); }
HYDRANT_SIMD void StoreReals(float* p, Reals a) { _mm512_storeu_ps(p, a); }
HYDRANT_SIMD Reals LoadHalves(const char* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
HYDRANT_SIMD Ints LoadBytes(const char* p) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
HYDRANT_SIMD Ints SetInts(int a) { return _mm512_set1_epi32(a); }
HYDRANT_SIMD Ints SubInts(Ints a, Ints b) { return _mm512_sub_epi32(a, b); }
HYDRANT_SIMD Ints Least(Ints a, Ints b) { return _mm512_min_epi32(a, b); }
HYDRANT_SIMD Ints ShiftLeftByEach(Ints a, Ints bits) { return _mm512_sllv_epi32(a, bits); }
HYDRANT_SIMD Reals AsReals(Ints a) { return _mm512_castsi512_ps(a); }
// The bytes of 16 that codes are the numbers of.
HYDRANT_SIMD Ints Lookup(const uint8_t* table, Ints codes) {
  const __m128i bytes = _mm_load_si128(reinterpret_cast<const __m128i*>(table));
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(bytes), codes);
}
HYDRANT_SIMD Ints AddInts(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
HYDRANT_SIMD Ints ShiftLeftBy(Ints a, __m128i bits) { return _mm512_sll_epi32(a, bits); }
HYDRANT_SIMD Ints OddBytes(Ints a) { return _mm512_srli_epi16(a, 8); }
HYDRANT_SIMD Ints PairProducts(Ints a, Ints b) { return _mm512_madd_epi16(a, b); }
HYDRANT_SIMD Reals Negative(Reals a) { return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f)); }
HYDRANT_SIMD Reals LoadReals(const float* p) { return _mm512_loadu_ps(p); }

#else

constexpr int kWidth = 8;
using Ints = __m256i;
using Reals = __m256;

HYDRANT_SIMD Ints LoadInts(const char* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
HYDRANT_SIMD Ints Bytes(int byte) { return _mm256_set1_epi8(static_cast<char>(byte)); }
HYDRANT_SIMD Ints And(Ints a, Ints b) { return _mm256_and_si256(a, b); }
HYDRANT_SIMD Ints Or(Ints a, Ints b) { return _mm256_or_si256(a, b); }
HYDRANT_SIMD Ints ShiftLeft(Ints a, int bits) { return _mm256_slli_epi32(a, bits); }
HYDRANT_SIMD Ints ShiftRight(Ints a, int bits) { return _mm256_srli_epi32(a, bits); }
HYDRANT_SIMD Ints NoInts() { return _mm256_setzero_si256(); }
HYDRANT_SIMD Reals NoReals() { return _mm256_setzero_ps(); }
HYDRANT_SIMD Reals Broadcast(const float* p) { return _mm256_broadcast_ss(p); }
HYDRANT_SIMD Reals ToReals(Ints a) { return _mm256_cvtepi32_ps(a); }
HYDRANT_SIMD Reals Times(Reals a, Reals b) { return _mm256_mul_ps(a, b); }
HYDRANT_SIMD Reals Add(Reals a, Reals b, Reals c) { return _mm256_fmadd_ps(a, b, c); }
HYDRANT_SIMD void StoreReals(float* p, Reals a) { _mm256_storeu_ps(p, a); }
HYDRANT_SIMD Reals LoadHalves(const char* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
HYDRANT_SIMD Ints LoadBytes(const char* p) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}
HYDRANT_SIMD Ints SetInts(int a) { return _mm256_set1_epi32(a); }
HYDRANT_SIMD Ints SubInts(Ints a, Ints b) { return _mm256_sub_epi32(a, b); }
HYDRANT_SIMD Ints Least(Ints a, Ints b) { return _mm256_min_epi32(a, b); }
HYDRANT_SIMD Ints ShiftLeftByEach(Ints a, Ints bits) { return _mm256_sllv_epi32(a, bits); }
HYDRANT_SIMD Reals AsReals(Ints a) { return _mm256_castsi256_ps(a); }
// The bytes of 16 that codes are the numbers of.
HYDRANT_SIMD Ints Lookup(const uint8_t* table, Ints codes) {
  const __m128i bytes = _mm_load_si128(reinterpret_cast<const __m128i*>(table));
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(bytes), codes);
}
HYDRANT_SIMD Ints AddInts(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
HYDRANT_SIMD Ints ShiftLeftBy(Ints a, __m128i bits) { return _mm256_sll_epi32(a, bits); }
HYDRANT_SIMD Ints OddBytes(Ints a) { return _mm256_srli_epi16(a, 8); }
HYDRANT_SIMD Ints PairProducts(Ints a, Ints b) { return _mm256_madd_epi16(a, b); }
HYDRANT_SIMD Reals Negative(Reals a) { return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f)); }
HYDRANT_SIMD Reals LoadReals(const float* p) { return _mm256_loadu_ps(p); }

#endif

// Four bytes, the same in every output.
HYDRANT_SIMD Ints Broadcast(const char* p) {
  int four;
  __builtin_memcpy(&four, p, sizeof(four));
  return SetInts(four);
}
HYDRANT_SIMD Ints EvenBytes(Ints a) { return And(a, SetInts(0x00ff00ff)); }
// 2^(e - 128), which is not a normal number below e = 2.
HYDRANT_SIMD Reals Powers(Ints e) {
  const Ints low = Least(e, SetInts(2));
  return AsReals(AddInts(ShiftLeftByEach(SetInts(0x00200000), low), ShiftLeft(SubInts(e, low), 23)));
}

// Whether the instruction set adds products of bytes up in 32 bits (VNNI). Otherwise numbers of 16 bits are multiplied: sums of
// pairs of byte products would not fit into 16.
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
#define HYDRANT_BYTE_PRODUCTS
HYDRANT_SIMD Ints AddByteProducts(Ints sum, Ints codes, Ints q) {
#ifdef __AVX512F__
  return _mm512_dpbusd_epi32(sum, codes, q);
#else
  return _mm256_dpbusd_avx_epi32(sum, codes, q);
#endif
}
#else
HYDRANT_SIMD Ints AddPairProducts(Ints sum, Ints codes, Ints q) {
  sum = AddInts(sum, PairProducts(codes, q));
  // Here and now: GCC would multiply everything first and add up later, and it has no registers for that.
  asm("" : "+v"(sum));
  return sum;
}
#endif

constexpr int kPanelSlices = static_cast<int>(kPanelRows) / kWidth;  // a slice: the outputs of one register

}  // namespace
}  // namespace hydrant::HYDRANT_ISA

#endif  // HYDRANT_KERNELS_CPU_LINEAR_QUANTISED_VECTORS_H_
