// Activations of one row -> 16 bits per 32 inputs (quantised_kernels.h has the layout).
//
// For kernel families only (kernels/cpu/kernel_table.h has the rules): everything is in the family's own namespace.
#ifndef HYDRANT_KERNELS_CPU_LINEAR_QUANTISED_PREPARE_H_
#define HYDRANT_KERNELS_CPU_LINEAR_QUANTISED_PREPARE_H_

#include "kernels/cpu/linear/quantised_kernels.h"
#include "kernels/cpu/linear/quantised_layout.h"
#include "kernels/cpu/linear/quantised_vectors.h"

namespace hydrant::HYDRANT_ISA {
namespace {

HYDRANT_SIMD int LargestOf(__m256i a) {
  const __m128i four = _mm_max_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  const __m128i two = _mm_max_epi32(four, _mm_shuffle_epi32(four, _MM_SHUFFLE(1, 0, 3, 2)));
  return _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, _MM_SHUFFLE(2, 3, 0, 1))));
}

HYDRANT_SIMD int SumOf(__m256i a) {
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, _MM_SHUFFLE(1, 0, 3, 2)));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, _MM_SHUFFLE(2, 3, 0, 1))));
}

struct QuantisedBlock {
  __m256i q[4];
  float scale;
  int sums[2];  // Σ q of the halves
};

// 32 whole numbers within a byte -> bytes. Packing works within 128-bit halves; the permutation puts the eight quads back in
// order.
HYDRANT_SIMD __m256i ToBytes(const __m256i (&a)[4]) {
  const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(a[0], a[1]), _mm256_packs_epi32(a[2], a[3]));
  return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

// 256 * the high byte of q = 256 * high + low, low in [-128, 127].
HYDRANT_SIMD __m256i UpperByte(__m256i q) {
  return _mm256_slli_epi32(_mm256_srai_epi32(_mm256_add_epi32(q, _mm256_set1_epi32(128)), 8), 8);
}

// As bits, magnitudes are in the order of whole numbers, a NaN above infinity.
HYDRANT_SIMD QuantisedBlock Quantise(const float* x) {
  constexpr int kInfinity = 0x7f800000, kTiny = (127 - 100) << 23;
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  const __m256i none = _mm256_setzero_si256();
  __m256 values[4];
  __m256i largest = none;
  HYDRANT_UNROLL(4)
  for (int i = 0; i < 4; ++i) {
    values[i] = _mm256_loadu_ps(x + 8 * i);
    largest = _mm256_max_epi32(largest, _mm256_and_si256(_mm256_castps_si256(values[i]), magnitude));
  }
  const int bits = LargestOf(largest);
  if (bits >= kInfinity) return {{none, none, none, none}, __builtin_nanf(""), {0, 0}};
  if (bits < kTiny) return {{none, none, none, none}, 0.0f, {0, 0}};
  float max;
  __builtin_memcpy(&max, &bits, sizeof(max));
  const __m256 inverse = _mm256_set1_ps(32512.0f / max);
  QuantisedBlock block;
  HYDRANT_UNROLL(4)
  for (int i = 0; i < 4; ++i) {
    const __m256i q = _mm256_cvtps_epi32(_mm256_mul_ps(values[i], inverse));
    const __m256i upper = UpperByte(q);
    // A low byte of -128 becomes -127: the negative of every byte is one.
    block.q[i] = _mm256_max_epi32(q, _mm256_sub_epi32(upper, _mm256_set1_epi32(127)));
  }
  block.scale = max / 32512.0f;
  block.sums[0] = SumOf(_mm256_add_epi32(block.q[0], block.q[1]));
  block.sums[1] = SumOf(_mm256_add_epi32(block.q[2], block.q[3]));
  return block;
}

#ifdef HYDRANT_BYTE_PRODUCTS

// q of row `row` of `rows` -> its two bytes in a prepared block.
HYDRANT_SIMD void StoreQ(const __m256i (&q)[4], int64_t rows, int64_t row, char* out) {
  __m256i low[4], high[4];
  HYDRANT_UNROLL(4)
  for (int i = 0; i < 4; ++i) {
    const __m256i upper = UpperByte(q[i]);
    low[i] = _mm256_sub_epi32(q[i], upper);
    high[i] = _mm256_srai_epi32(upper, 8);
  }
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + row * 32), ToBytes(low));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + (rows + row) * 32), ToBytes(high));
}

#else

// The same in 16 bits, every four of them in the order 0, 2, 1, 3.
HYDRANT_SIMD void StoreQ(const __m256i (&q)[4], int64_t, int64_t row, char* out) {
  for (int i = 0; i < 2; ++i) {
    const __m256i packed = _mm256_packs_epi32(q[2 * i], q[2 * i + 1]);
    const __m256i ordered = _mm256_permute4x64_epi64(packed, _MM_SHUFFLE(3, 1, 2, 0));
    const __m256i first = _mm256_shufflelo_epi16(ordered, _MM_SHUFFLE(3, 1, 2, 0));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + row * 64 + i * 32),
                        _mm256_shufflehi_epi16(first, _MM_SHUFFLE(3, 1, 2, 0)));
  }
}

#endif

// Rows x [rows, cols] of a strip -> out, prepared.
void PrepareStrip(const float* x, int64_t rows, int64_t cols, char* out) {
  for (int64_t col = 0; col < cols; col += kQuantisedBlock, out += rows * kPreparedBlockBytes) {
    auto* scales = reinterpret_cast<float*>(out + rows * 64);
    auto* minus = reinterpret_cast<int32_t*>(scales + 2 * rows);
    for (int64_t row = 0; row < rows; ++row) {
      const QuantisedBlock block = Quantise(x + row * cols + col);
      const int all = block.sums[0] + block.sums[1];
      StoreQ(block.q, rows, row, out);
      scales[row] = block.scale;
      scales[rows + row] = block.scale * static_cast<float>(all);
      minus[row] = -all;
      minus[rows + row] = -block.sums[0];
      minus[2 * rows + row] = -block.sums[1];
    }
  }
}

}  // namespace
}  // namespace hydrant::HYDRANT_ISA

#endif  // HYDRANT_KERNELS_CPU_LINEAR_QUANTISED_PREPARE_H_
