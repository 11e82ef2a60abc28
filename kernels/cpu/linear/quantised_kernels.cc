#include "kernels/cpu/linear/quantised_kernels.h"

#include <cassert>

#include "kernels/cpu/linear/linear_epilogue.h"
#include "kernels/cpu/linear/quantised_layout.h"
#include "kernels/cpu/runtime/simd.h"

namespace hydrant::HYDRANT_ISA {
namespace {

// --- one register of outputs ----------------------------------------------------------------------------------------

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
HYDRANT_SIMD Ints Broadcast(const char* p) {
  int four;
  __builtin_memcpy(&four, p, sizeof(four));
  return _mm512_set1_epi32(four);
}
HYDRANT_SIMD Reals NoReals() { return _mm512_setzero_ps(); }
HYDRANT_SIMD Reals Broadcast(const float* p) { return _mm512_set1_ps(*p); }
HYDRANT_SIMD Reals ToReals(Ints a) { return _mm512_cvtepi32_ps(a); }
HYDRANT_SIMD Reals Times(Reals a, Reals b) { return _mm512_mul_ps(a, b); }
HYDRANT_SIMD Reals Add(Reals a, Reals b, Reals c) { return _mm512_fmadd_ps(a, b, c); }
HYDRANT_SIMD Reals Subtract(Reals a, Reals b, Reals c) { return _mm512_fnmadd_ps(a, b, c); }
HYDRANT_SIMD void StoreReals(float* p, Reals a) { _mm512_storeu_ps(p, a); }
HYDRANT_SIMD Reals LoadHalves(const char* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
HYDRANT_SIMD Reals LoadUnsigned(const char* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
HYDRANT_SIMD Reals LoadSigned(const char* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}

HYDRANT_SIMD Ints AddInts(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
HYDRANT_SIMD Ints Xor(Ints a, Ints b) { return _mm512_xor_si512(a, b); }

#ifndef __AVX512VNNI__
HYDRANT_SIMD Ints BytePairs(Ints codes, Ints q) { return _mm512_maddubs_epi16(codes, q); }
HYDRANT_SIMD Ints AddShorts(Ints a, Ints b) { return _mm512_add_epi16(a, b); }
HYDRANT_SIMD Ints SumPairs(Ints pairs) { return _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)); }
HYDRANT_SIMD Ints SignedLowBytes(Ints a) { return _mm512_srai_epi16(_mm512_slli_epi16(a, 8), 8); }
HYDRANT_SIMD Ints SignedHighBytes(Ints a) { return _mm512_srai_epi16(a, 8); }
HYDRANT_SIMD Ints AddPairs(Ints sum, Ints a, Ints b) { return AddInts(sum, _mm512_madd_epi16(a, b)); }
#endif

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
HYDRANT_SIMD Ints Broadcast(const char* p) {
  int four;
  __builtin_memcpy(&four, p, sizeof(four));
  return _mm256_set1_epi32(four);
}
HYDRANT_SIMD Reals NoReals() { return _mm256_setzero_ps(); }
HYDRANT_SIMD Reals Broadcast(const float* p) { return _mm256_broadcast_ss(p); }
HYDRANT_SIMD Reals ToReals(Ints a) { return _mm256_cvtepi32_ps(a); }
HYDRANT_SIMD Reals Times(Reals a, Reals b) { return _mm256_mul_ps(a, b); }
HYDRANT_SIMD Reals Add(Reals a, Reals b, Reals c) { return _mm256_fmadd_ps(a, b, c); }
HYDRANT_SIMD Reals Subtract(Reals a, Reals b, Reals c) { return _mm256_fnmadd_ps(a, b, c); }
HYDRANT_SIMD void StoreReals(float* p, Reals a) { _mm256_storeu_ps(p, a); }
HYDRANT_SIMD Reals LoadHalves(const char* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
HYDRANT_SIMD Reals LoadUnsigned(const char* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
HYDRANT_SIMD Reals LoadSigned(const char* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}

HYDRANT_SIMD Ints AddInts(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
HYDRANT_SIMD Ints Xor(Ints a, Ints b) { return _mm256_xor_si256(a, b); }

#ifndef __AVXVNNI__
HYDRANT_SIMD Ints BytePairs(Ints codes, Ints q) { return _mm256_maddubs_epi16(codes, q); }
HYDRANT_SIMD Ints AddShorts(Ints a, Ints b) { return _mm256_add_epi16(a, b); }
HYDRANT_SIMD Ints SumPairs(Ints pairs) { return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)); }
HYDRANT_SIMD Ints SignedLowBytes(Ints a) { return _mm256_srai_epi16(_mm256_slli_epi16(a, 8), 8); }
HYDRANT_SIMD Ints SignedHighBytes(Ints a) { return _mm256_srai_epi16(a, 8); }
HYDRANT_SIMD Ints AddPairs(Ints sum, Ints a, Ints b) { return AddInts(sum, _mm256_madd_epi16(a, b)); }
#endif

#endif

// Without VNNI, codes of 8 bits are multiplied with q in 16 bits, which a prepared block has behind its other parts: int16
// [R][32], every four of them in the order 0, 2, 1, 3.
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
constexpr bool kPairs = false;
#else
constexpr bool kPairs = true;
#endif
constexpr int64_t kXBlockBytes = kPreparedBlockBytes + (kPairs ? 64 : 0);

// A tile's block in the prepared x.
template <int kRows>
struct XBlock {
  const char* at;
  const char* low(int row) const { return at + row * 32; }
  const char* high(int row) const { return at + (kRows + row) * 32; }
  const char* pairs(int row) const { return at + kRows * kPreparedBlockBytes + row * 64; }  // if kPairs
  const float* scale(int row) const { return reinterpret_cast<const float*>(at + kRows * 64) + row; }
  const float* sum(int row) const { return scale(kRows + row); }
  // part 0: of the block, 1 and 2: of its halves.
  const char* minus(int part, int row) const { return at + kRows * (72 + part * 4) + row * 4; }
};

// --- sums of codes --------------------------------------------------------------------------------------------------

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)

// sum + Σ code * q over 4 * kCount inputs, q in bytes.
template <int kBits, int kCount>
HYDRANT_SIMD Ints AddDot(Ints sum, const Ints* codes, const char* q) {
#pragma GCC unroll 8
  for (int j = 0; j < kCount; ++j) {
#ifdef __AVX512F__
    sum = _mm512_dpbusd_epi32(sum, codes[j], Broadcast(q + 4 * j));
#else
    sum = _mm256_dpbusd_avx_epi32(sum, codes[j], Broadcast(q + 4 * j));
#endif
  }
  return sum;
}

#else

// The same with 16-bit sums of pairs between: as many of them are added before they are widened as cannot overflow. A pair is
// at most 2 * 15 * 127 = 3,810 (4 bits), 7,874 (5) or 16,002 (6), so 8, 4 or 2 of them fit.
template <int kBits, int kCount>
HYDRANT_SIMD Ints AddDot(Ints sum, const Ints* codes, const char* q) {
  static_assert(kBits < 8);
  constexpr int kFit = kBits == 4 ? 8 : kBits == 5 ? 4 : 2;
  constexpr int kRun = kFit < kCount ? kFit : kCount;
#pragma GCC unroll 8
  for (int first = 0; first < kCount; first += kRun) {
    Ints pairs = BytePairs(codes[first], Broadcast(q + 4 * first));
#pragma GCC unroll 8
    for (int j = first + 1; j < first + kRun; ++j) pairs = AddShorts(pairs, BytePairs(codes[j], Broadcast(q + 4 * j)));
    sum = AddInts(sum, SumPairs(pairs));
  }
  return sum;
}

// Σ code * q of a block for all rows of a tile, with codes of 8 bits made signed, so that no offset is left: a pair of their
// byte products would not fit into 16 bits. They are widened once for all rows, and multiplied with q in 16 bits: inputs 4j and
// 4j + 2 of an output, then 4j + 1 and 4j + 3.
template <int kRows>
HYDRANT_SIMD void DotsOfPairs(const Ints* codes, XBlock<kRows> x, Ints (&sums)[kRows]) {
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) sums[row] = NoInts();
#pragma GCC unroll 8
  for (int j = 0; j < 8; ++j) {
    const Ints even = SignedLowBytes(codes[j]), odd = SignedHighBytes(codes[j]);
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
      const char* pairs = x.pairs(row) + 8 * j;
      sums[row] = AddPairs(sums[row], even, Broadcast(pairs));
      sums[row] = AddPairs(sums[row], odd, Broadcast(pairs + 4));
    }
  }
}

#endif

// Σ (code - offset) * q over 4 * kCount inputs, where `minus` is -Σ q.
template <int kBits, int kOffset, int kCount>
HYDRANT_SIMD Ints Dot(const Ints* codes, const char* low, const char* high, const char* minus) {
  Ints sum = NoInts();
  if constexpr (kOffset > 0) sum = ShiftLeft(Broadcast(minus), __builtin_ctz(kOffset));
  sum = AddDot<kBits, kCount>(sum, codes, low);
  return AddInts(sum, ShiftLeft(AddDot<kBits, kCount>(NoInts(), codes, high), 8));
}

// Codes of a block -> codes[j], the inputs 4j to 4j + 3 of every output. A shift moves bits into the neighbouring bytes, too,
// but not to those that the mask leaves.
template <int kBits>
HYDRANT_SIMD void LoadCodes(const char* p, Ints (&codes)[8]) {
  if constexpr (kBits == 8) {
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      codes[j] = LoadInts(p + j * 64);
      if constexpr (kPairs) codes[j] = Xor(codes[j], Bytes(0x80));
    }
    return;
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const Ints both = LoadInts(p + j * 64);
    codes[j] = And(both, Bytes(0x0f));
    codes[4 + j] = And(ShiftRight(both, 4), Bytes(0x0f));
  }
  if constexpr (kBits == 5) {
    const Ints bits = LoadInts(p + 256);
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      const Ints moved = j <= 4 ? ShiftLeft(bits, 4 - j) : ShiftRight(bits, j - 4);
      codes[j] = Or(codes[j], And(moved, Bytes(0x10)));
    }
  } else if constexpr (kBits == 6) {
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      const Ints bits = LoadInts(p + 256 + j / 4 * 64);
      const Ints moved = j % 4 <= 2 ? ShiftLeft(bits, 4 - 2 * (j % 4)) : ShiftRight(bits, 2);
      codes[j] = Or(codes[j], And(moved, Bytes(0x30)));
    }
  }
}

// --- tiles ----------------------------------------------------------------------------------------------------------

// A tile is as high as there are registers for sums beside the eight of codes. A slice is the outputs of one register; low
// tiles take several slices at once, so that there are enough sums to hide a latency.
#ifdef __AVX512F__
constexpr int SlicesOf(int rows) { return rows <= 4 ? 2 : 1; }
#else
constexpr int SlicesOf(int rows) { return rows == 1 ? 4 : rows == 2 ? 2 : 1; }
#endif
#if defined(HYDRANT_LOW_TILES)  // the height of a tile changes no bit
constexpr int kTileRows = 2;
#elif defined(__AVX512F__)
constexpr int kTileRows = 14;
#else
constexpr int kTileRows = 6;
#endif
constexpr int kPanelSlices = static_cast<int>(kPanelRows) / kWidth;

// The steps, and the minimum without its sign where that is taken off, of a slice's outputs.
struct Scales {
  Reals steps[2];  // [1]: of the second half of a block
  Reals minimum;
};

template <ScaleKind kScales>
HYDRANT_SIMD Scales LoadScales(const char* scales, int lane, Reals d, Reals n) {
  Scales out{};
  if constexpr (kScales == ScaleKind::kOwn || kScales == ScaleKind::kOwnAndMinimum) {
    out.steps[0] = LoadHalves(scales + lane * 2);
    if constexpr (kScales == ScaleKind::kOwnAndMinimum) out.minimum = LoadHalves(scales + 64 + lane * 2);
  } else if constexpr (kScales == ScaleKind::kStepsAndMinima) {
    out.steps[0] = Times(d, LoadUnsigned(scales + lane));
    out.minimum = Times(n, LoadUnsigned(scales + kPanelRows + lane));
  } else {
    out.steps[0] = Times(d, LoadSigned(scales + lane));
    out.steps[1] = Times(d, LoadSigned(scales + kPanelRows + lane));
  }
  return out;
}

// kRows x rows times the outputs of slices [first_slice, first_slice + kSlices). sums [kRows][kPanelRows].
template <WeightFormat kFormat, int kRows, int kSlices>
void TileSlices(XBlock<kRows> x, const char* panel, int64_t steps, int first_slice, Ahead ahead, float* sums) {
  constexpr QuantisedLayout kLayout = LayoutOf(kFormat);
  constexpr int kBits = kLayout.code_bits, kOffset = kLayout.offset;
  constexpr int kCodeBytes = static_cast<int>(CodeBytes(kLayout));
  Reals sum[kRows][kSlices];
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
    for (int slice = 0; slice < kSlices; ++slice) sum[row][slice] = NoReals();
  }
  for (int64_t step = 0; step < steps; ++step) {
    const char* header = panel;
    panel += HeaderBytes(kLayout);
    for (int64_t block = 0; block < StepBlocks(kLayout); ++block) {
#pragma GCC unroll 4
      for (int slice = 0; slice < kSlices; ++slice) {
        const int lane = (first_slice + slice) * kWidth;
        Reals d = NoReals(), n = NoReals();
        if constexpr (HeaderBytes(kLayout) > 0) d = LoadHalves(header + lane * 2);
        if constexpr (kLayout.scales == ScaleKind::kStepsAndMinima) n = LoadHalves(header + 64 + lane * 2);
        const Scales scales = LoadScales<kLayout.scales>(panel + 2 * kCodeBytes, lane, d, n);
        Ints codes[8];
        LoadCodes<kBits>(panel + lane / 16 * kCodeBytes + lane % 16 * 4, codes);
        constexpr int kGroups = kLayout.scales == ScaleKind::kHalves ? 2 : 1;
        constexpr int kCount = 8 / kGroups;
        // Part 0 of the sums of q is that of the block, parts 1 and 2 are those of its halves.
        constexpr int kFirstPart = kGroups - 1;
#pragma GCC unroll 2
        for (int group = 0; group < kGroups; ++group) {
          const Ints* own = codes + group * kCount;
          [[maybe_unused]] Ints sums_of_codes[kRows];
          if constexpr (kPairs && kBits == 8) DotsOfPairs<kRows>(codes, x, sums_of_codes);
#pragma GCC unroll 16
          for (int row = 0; row < kRows; ++row) {
            if constexpr (!kPairs || kBits < 8) {
              const int64_t at = group * kCount * 4;
              sums_of_codes[row] =
                  Dot<kBits, kOffset, kCount>(own, x.low(row) + at, x.high(row) + at, x.minus(kFirstPart + group, row));
            }
            const Reals scale = Times(scales.steps[group], Broadcast(x.scale(row)));
            sum[row][slice] = Add(ToReals(sums_of_codes[row]), scale, sum[row][slice]);
          }
        }
#pragma GCC unroll 16
        for (int row = 0; row < kRows; ++row) {
          if constexpr (kLayout.scales == ScaleKind::kOwnAndMinimum) {
            sum[row][slice] = Add(scales.minimum, Broadcast(x.sum(row)), sum[row][slice]);
          } else if constexpr (kLayout.scales == ScaleKind::kStepsAndMinima) {
            sum[row][slice] = Subtract(scales.minimum, Broadcast(x.sum(row)), sum[row][slice]);
          }
        }
      }
      for (int64_t byte = 0; byte < ahead.stride; byte += 64) _mm_prefetch(ahead.next + byte, _MM_HINT_T1);
      ahead.next += ahead.stride;
      x.at += kRows * kXBlockBytes;
      panel += BlockBytes(kLayout);
    }
  }
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
    for (int slice = 0; slice < kSlices; ++slice) {
      StoreReals(sums + row * kPanelRows + (first_slice + slice) * kWidth, sum[row][slice]);
    }
  }
}

template <WeightFormat kFormat, int kRows = kTileRows>
void DispatchTile(int64_t rows, const char* x, const char* panel, int64_t steps, Ahead ahead, float* sums) {
  if constexpr (kRows > 0) {
    if (rows != kRows) return DispatchTile<kFormat, kRows - 1>(rows, x, panel, steps, ahead, sums);
    constexpr int kSlices = SlicesOf(kRows);
    ahead.stride = ahead.stride * kSlices / kPanelSlices;
    for (int slice = 0; slice < kPanelSlices; slice += kSlices) {
      TileSlices<kFormat, kRows, kSlices>({x}, panel, steps, slice, ahead, sums);
      ahead.next += ahead.stride * steps * StepBlocks(LayoutOf(kFormat));
    }
  }
}

constexpr auto TileCount = TilesOf<kTileRows>;
constexpr auto TileBegin = TileBeginOf<kTileRows>;

template <WeightFormat kFormat>
void MultiplyFormat(const LinearCall& call, int64_t tile_begin, int64_t tile_end, int64_t panel_begin,
                    int64_t panel_end) {
  constexpr QuantisedLayout kLayout = LayoutOf(kFormat);
  const int64_t steps = call.weight.inputs / (StepBlocks(kLayout) * kQuantisedBlock);
  const int64_t row_bytes = call.weight.inputs / kQuantisedBlock * kXBlockBytes;
  const auto* x = static_cast<const char*>(call.x);
  MultiplyPanels<kTileRows>(call, tile_begin, tile_end, panel_begin, panel_end,
                            BlockBytes(kLayout) / (tile_end - tile_begin), steps * StepBlocks(kLayout),
                            [&](int64_t begin, int64_t end, const char* panel, Ahead ahead, float* sums) {
                              DispatchTile<kFormat>(end - begin, x + begin * row_bytes, panel, steps, ahead, sums);
                            });
}

void Multiply(const LinearCall& call, int64_t tile_begin, int64_t tile_end, int64_t panel_begin, int64_t panel_end) {
  switch (call.weight.format) {
    case WeightFormat::kQ8_0:
      return MultiplyFormat<WeightFormat::kQ8_0>(call, tile_begin, tile_end, panel_begin, panel_end);
    case WeightFormat::kQ4_0:
      return MultiplyFormat<WeightFormat::kQ4_0>(call, tile_begin, tile_end, panel_begin, panel_end);
    case WeightFormat::kQ4_1:
      return MultiplyFormat<WeightFormat::kQ4_1>(call, tile_begin, tile_end, panel_begin, panel_end);
    case WeightFormat::kQ5_0:
      return MultiplyFormat<WeightFormat::kQ5_0>(call, tile_begin, tile_end, panel_begin, panel_end);
    case WeightFormat::kQ5_1:
      return MultiplyFormat<WeightFormat::kQ5_1>(call, tile_begin, tile_end, panel_begin, panel_end);
    case WeightFormat::kQ4_K:
      return MultiplyFormat<WeightFormat::kQ4_K>(call, tile_begin, tile_end, panel_begin, panel_end);
    case WeightFormat::kQ5_K:
      return MultiplyFormat<WeightFormat::kQ5_K>(call, tile_begin, tile_end, panel_begin, panel_end);
    case WeightFormat::kQ6_K:
      return MultiplyFormat<WeightFormat::kQ6_K>(call, tile_begin, tile_end, panel_begin, panel_end);
    default:
      assert(false);
  }
}

// --- layout of x ----------------------------------------------------------------------------------------------------

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
#pragma GCC unroll 4
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
#pragma GCC unroll 4
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

// q of row `row` of `rows` -> its place in a prepared block.
HYDRANT_SIMD void StoreQ(const __m256i (&q)[4], int64_t rows, int64_t row, char* out) {
  __m256i low[4], high[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m256i upper = UpperByte(q[i]);
    low[i] = _mm256_sub_epi32(q[i], upper);
    high[i] = _mm256_srai_epi32(upper, 8);
  }
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + row * 32), ToBytes(low));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + (rows + row) * 32), ToBytes(high));
  char* pairs = out + rows * kPreparedBlockBytes + row * 64;
  for (int i = 0; kPairs && i < 2; ++i) {
    const __m256i packed = _mm256_packs_epi32(q[2 * i], q[2 * i + 1]);
    const __m256i ordered = _mm256_permute4x64_epi64(packed, _MM_SHUFFLE(3, 1, 2, 0));
    const __m256i first = _mm256_shufflelo_epi16(ordered, _MM_SHUFFLE(3, 1, 2, 0));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(pairs + i * 32),
                        _mm256_shufflehi_epi16(first, _MM_SHUFFLE(3, 1, 2, 0)));
  }
}

size_t PreparedBytes(int64_t rows, int64_t cols) {
  return static_cast<size_t>(rows * ((cols + kQuantisedBlock - 1) / kQuantisedBlock) * kXBlockBytes);
}

void PrepareTile(const float* x, int64_t rows, int64_t cols, char* out) {
  for (int64_t col = 0; col < cols; col += kQuantisedBlock, out += rows * kXBlockBytes) {
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

void Prepare(WeightFormat, const float* x, int64_t rows, int64_t cols, int64_t tile_begin, int64_t tile_end,
             void* prepared) {
  assert(cols % kQuantisedBlock == 0);
  const int64_t row_bytes = cols / kQuantisedBlock * kXBlockBytes;
  for (int64_t tile = tile_begin; tile < tile_end; ++tile) {
    const int64_t begin = TileBegin(rows, tile);
    PrepareTile(x + begin * cols, TileBegin(rows, tile + 1) - begin, cols,
                static_cast<char*>(prepared) + begin * row_bytes);
  }
}

}  // namespace

extern const ProductKernels kQuantisedKernels;
const ProductKernels kQuantisedKernels = {TileCount, PreparedBytes, Prepare, Multiply};

}  // namespace hydrant::HYDRANT_ISA
