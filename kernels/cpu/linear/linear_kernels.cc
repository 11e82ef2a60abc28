#include "kernels/cpu/linear/linear_kernels.h"

#include <cassert>

#include "kernels/cpu/linear/linear_epilogue.h"
#include "kernels/cpu/runtime/simd.h"

namespace hydrant::HYDRANT_ISA {
namespace {

#define HYDRANT_OP static inline __attribute__((always_inline))

// One op per stored type. A step consumes kInputs columns: an X of each row of x, kVectorBytes of weights per 16 outputs.
struct OpF32 {
  using X = float;
  using Weight = F32x16;
  static constexpr int kInputs = 1;
  static constexpr int kVectorBytes = 64;
  HYDRANT_OP Weight LoadWeight(const char* p) { return Load(reinterpret_cast<const float*>(p)); }
  HYDRANT_OP F32x16 Add(F32x16 sum, const X* x, Weight weight) { return MulAdd(Set(*x), weight, sum); }
};

struct OpF16 {
  using X = float;
  using Weight = F32x16;
  static constexpr int kInputs = 1;
  static constexpr int kVectorBytes = 32;
  HYDRANT_OP Weight LoadWeight(const char* p) { return LoadF16(reinterpret_cast<const uint16_t*>(p)); }
  HYDRANT_OP F32x16 Add(F32x16 sum, const X* x, Weight weight) { return MulAdd(Set(*x), weight, sum); }
};

#ifdef __AVX512BF16__

struct Weight512bh {
  __m512bh v;
};

struct OpBf16 {
  using X = int32_t;  // two bf16
  using Weight = Weight512bh;
  static constexpr int kInputs = 2;
  static constexpr int kVectorBytes = 64;
  HYDRANT_OP Weight LoadWeight(const char* p) { return {reinterpret_cast<__m512bh>(_mm512_loadu_si512(p))}; }
  HYDRANT_OP F32x16 Add(F32x16 sum, const X* x, Weight weight) {
    return {_mm512_dpbf16_ps(sum.v, weight.v, reinterpret_cast<__m512bh>(_mm512_set1_epi32(*x)))};
  }
};

#else

struct OpBf16 {
  struct X {
    float even, odd;
  };
  struct Weight {
    F32x16 even, odd;
  };
  static constexpr int kInputs = 2;
  static constexpr int kVectorBytes = 64;
  // A bf16 is the upper half of an fp32.
  HYDRANT_OP Weight LoadWeight(const char* p) {
#ifdef __AVX512F__
    const __m512i pairs = _mm512_loadu_si512(p);
    const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
    return {{_mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16))}, {_mm512_castsi512_ps(_mm512_and_si512(pairs, upper))}};
#else
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32));
    const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
    return {{_mm256_castsi256_ps(_mm256_slli_epi32(low, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(high, 16))},
            {_mm256_castsi256_ps(_mm256_and_si256(low, upper)), _mm256_castsi256_ps(_mm256_and_si256(high, upper))}};
#endif
  }
  HYDRANT_OP F32x16 Add(F32x16 sum, const X* x, Weight weight) {
    return MulAdd(Set(x->odd), weight.odd, MulAdd(Set(x->even), weight.even, sum));
  }
};

#endif

constexpr int kPanelVectors = static_cast<int>(kPanelRows) / kLanes;

// Tile height: as many sums as there are registers for, less two for weights and
// one or two for x. AVX2 has half the registers of half the size and takes the panel's vectors one after the other.
#ifdef __AVX512F__
constexpr int kTileRows = 14;
constexpr int kTileVectors = 2;
#else
constexpr int kTileRows = 6;
constexpr int kTileVectors = 1;
#endif

// kRows x rows times kVectors x 16 outputs. sums [kRows][kPanelRows], written from column 0 on.
template <typename Op, int kRows, int kVectors>
void TileVectors(const typename Op::X* x, const char* weight, int64_t steps, Ahead ahead, float* sums) {
  F32x16 sum[kRows][kVectors];
  HYDRANT_UNROLL(16)
  for (int row = 0; row < kRows; ++row) {
    HYDRANT_UNROLL(2)
    for (int vector = 0; vector < kVectors; ++vector) sum[row][vector] = Zero();
  }
  HYDRANT_UNROLL(2)
  for (int64_t step = 0; step < steps; ++step) {
    typename Op::Weight w[kVectors];
    HYDRANT_UNROLL(2)
    for (int vector = 0; vector < kVectors; ++vector) w[vector] = Op::LoadWeight(weight + vector * Op::kVectorBytes);
    HYDRANT_UNROLL(16)
    for (int row = 0; row < kRows; ++row) {
      HYDRANT_UNROLL(2)
      for (int vector = 0; vector < kVectors; ++vector)
        sum[row][vector] = Op::Add(sum[row][vector], x + row, w[vector]);
    }
    _mm_prefetch(ahead.next, _MM_HINT_T1);
    _mm_prefetch(ahead.next + 64, _MM_HINT_T1);
    ahead.next += ahead.stride;
    x += kRows;
    weight += kPanelVectors * Op::kVectorBytes;
  }
  HYDRANT_UNROLL(16)
  for (int row = 0; row < kRows; ++row) {
    HYDRANT_UNROLL(2)
    for (int vector = 0; vector < kVectors; ++vector)
      Store(sums + row * kPanelRows + vector * kLanes, sum[row][vector]);
  }
}

template <typename Op, int kRows>
void Tile(const typename Op::X* x, const char* panel, int64_t steps, Ahead ahead, float* sums) {
  TileVectors<Op, kRows, kTileVectors>(x, panel, steps, ahead, sums);
  if constexpr (kTileVectors < kPanelVectors) {
    ahead.next += ahead.stride * steps;
    TileVectors<Op, kRows, kTileVectors>(x, panel + Op::kVectorBytes, steps, ahead, sums + kLanes);
  }
}

template <typename Op, int kRows = kTileRows>
void DispatchTile(int64_t rows, const typename Op::X* x, const char* panel, int64_t steps, Ahead ahead, float* sums) {
  if constexpr (kRows > 0) {
    if (rows == kRows) return Tile<Op, kRows>(x, panel, steps, ahead, sums);
    DispatchTile<Op, kRows - 1>(rows, x, panel, steps, ahead, sums);
  }
}

constexpr auto TileCount = TilesOf<kTileRows>;
constexpr auto TileBegin = TileBeginOf<kTileRows>;

template <typename Op>
void MultiplyOp(const LinearCall& call, int64_t tile_begin, int64_t tile_end, int64_t panel_begin, int64_t panel_end) {
  const int64_t steps = (call.weight.inputs + Op::kInputs - 1) / Op::kInputs;
  const auto* x = static_cast<const typename Op::X*>(call.x);
  const int64_t passes = kPanelVectors / kTileVectors;  // of a tile over the panel
  const int64_t stride = kPanelVectors * Op::kVectorBytes / ((tile_end - tile_begin) * passes);
  MultiplyPanels<kTileRows>(call, tile_begin, tile_end, panel_begin, panel_end, stride, steps * passes,
                            [&](int64_t begin, int64_t end, const char* panel, Ahead ahead, float* sums) {
                              DispatchTile<Op>(end - begin, x + begin * steps, panel, steps, ahead, sums);
                            });
}

void Multiply(const LinearCall& call, int64_t tile_begin, int64_t tile_end, int64_t panel_begin, int64_t panel_end) {
  switch (static_cast<DType>(call.weight.format)) {
    case DType::kF32:
      return MultiplyOp<OpF32>(call, tile_begin, tile_end, panel_begin, panel_end);
    case DType::kF16:
      return MultiplyOp<OpF16>(call, tile_begin, tile_end, panel_begin, panel_end);
    case DType::kBF16:
      return MultiplyOp<OpBf16>(call, tile_begin, tile_end, panel_begin, panel_end);
  }
}

bool Native(DType dtype) {
#ifdef __AVX512BF16__
  return dtype != DType::kF16;
#else
  return dtype == DType::kF32;
#endif
}

// --- layout of x ----------------------------------------------------------------------------------------------------

#ifdef __AVX512F__

// Lane j of rows[i] becomes lane i of rows[j].
void Transpose16(F32x16 rows[kLanes]) {
  __m512 a[kLanes], b[kLanes];
  HYDRANT_UNROLL(8)
  for (int i = 0; i < 16; i += 2) {
    a[i] = _mm512_unpacklo_ps(rows[i].v, rows[i + 1].v);
    a[i + 1] = _mm512_unpackhi_ps(rows[i].v, rows[i + 1].v);
  }
  // b[4g + q], 128-bit part p: column 4p + q of rows 4g .. 4g + 3.
  HYDRANT_UNROLL(4)
  for (int i = 0; i < 16; i += 4) {
    b[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a[i]), _mm512_castps_pd(a[i + 2])));
    b[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a[i]), _mm512_castps_pd(a[i + 2])));
    b[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a[i + 1]), _mm512_castps_pd(a[i + 3])));
    b[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a[i + 1]), _mm512_castps_pd(a[i + 3])));
  }
  // What is left is a 4 x 4 transposition of 128-bit parts between the row groups g, for each q.
  HYDRANT_UNROLL(4)
  for (int q = 0; q < 4; ++q) {
    const __m512 low01 = _mm512_shuffle_f32x4(b[q], b[4 + q], 0x44);
    const __m512 high01 = _mm512_shuffle_f32x4(b[q], b[4 + q], 0xee);
    const __m512 low23 = _mm512_shuffle_f32x4(b[8 + q], b[12 + q], 0x44);
    const __m512 high23 = _mm512_shuffle_f32x4(b[8 + q], b[12 + q], 0xee);
    rows[q].v = _mm512_shuffle_f32x4(low01, low23, 0x88);
    rows[4 + q].v = _mm512_shuffle_f32x4(low01, low23, 0xdd);
    rows[8 + q].v = _mm512_shuffle_f32x4(high01, high23, 0x88);
    rows[12 + q].v = _mm512_shuffle_f32x4(high01, high23, 0xdd);
  }
}

#else

void Transpose8(__m256 rows[8]) {
  __m256 a[8], b[8];
  HYDRANT_UNROLL(4)
  for (int i = 0; i < 8; i += 2) {
    a[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
    a[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
  }
  HYDRANT_UNROLL(2)
  for (int i = 0; i < 8; i += 4) {
    b[i] = _mm256_shuffle_ps(a[i], a[i + 2], 0x44);
    b[i + 1] = _mm256_shuffle_ps(a[i], a[i + 2], 0xee);
    b[i + 2] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0x44);
    b[i + 3] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0xee);
  }
  HYDRANT_UNROLL(4)
  for (int q = 0; q < 4; ++q) {
    rows[q] = _mm256_permute2f128_ps(b[q], b[4 + q], 0x20);
    rows[4 + q] = _mm256_permute2f128_ps(b[q], b[4 + q], 0x31);
  }
}

// Lane j of rows[i] becomes lane i of rows[j].
void Transpose16(F32x16 rows[kLanes]) {
  __m256 block[2][2][8];  // [row half][column half][row]
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 8; ++i) {
      block[half][0][i] = rows[half * 8 + i].lo;
      block[half][1][i] = rows[half * 8 + i].hi;
    }
    Transpose8(block[half][0]);
    Transpose8(block[half][1]);
  }
  for (int i = 0; i < 8; ++i) {
    rows[i] = {block[0][0][i], block[1][0][i]};
    rows[8 + i] = {block[0][1][i], block[1][1][i]};
  }
}

#endif

// Columns [col, col + 16) of `count` rows, transposed; missing rows and columns are zero.
void LoadColumns(const float* rows, int64_t count, int64_t stride, int64_t col, int64_t cols, F32x16 columns[kLanes]) {
  const int64_t width = cols - col < kLanes ? cols - col : kLanes;
  for (int64_t row = 0; row < kLanes; ++row)
    columns[row] = row < count ? LoadN(rows + row * stride + col, width) : Zero();
  Transpose16(columns);
}

// even, odd: two fp32 columns -> their bf16 pairs, lane by lane.
HYDRANT_SIMD F32x16 Bf16Pairs(F32x16 even, F32x16 odd) {
#ifdef __AVX512F__
  return {_mm512_castsi512_ps(_mm512_or_si512(_mm512_srli_epi32(RoundBf16Bits(even), 16), RoundBf16Bits(odd)))};
#else
  const __m256i low = _mm256_or_si256(_mm256_srli_epi32(RoundBf16BitsHalf(even.lo), 16), RoundBf16BitsHalf(odd.lo));
  const __m256i high = _mm256_or_si256(_mm256_srli_epi32(RoundBf16BitsHalf(even.hi), 16), RoundBf16BitsHalf(odd.hi));
  return {_mm256_castsi256_ps(low), _mm256_castsi256_ps(high)};
#endif
}

int64_t EvenUp(int64_t count) { return (count + 1) / 2 * 2; }

size_t PreparedBytes(int64_t rows, int64_t cols) { return static_cast<size_t>(rows * EvenUp(cols)) * sizeof(float); }

// One row alone: steps follow each other as columns do.
void PrepareRow(bool rounded, const float* x, int64_t cols, void* prepared) {
  for (int64_t col = 0; col < cols; col += kLanes) {
    const int64_t width = cols - col < kLanes ? cols - col : kLanes;
    const F32x16 values = LoadN(x + col, width);
    if (!rounded) {
      StoreN(static_cast<float*>(prepared) + col, values, EvenUp(width));
      continue;
    }
    alignas(32) uint16_t halves[kLanes];
    StoreBf16(halves, values);
    __builtin_memcpy(static_cast<uint16_t*>(prepared) + col, halves,
                     static_cast<size_t>(EvenUp(width)) * sizeof(uint16_t));
  }
}

void PrepareTile(DType dtype, const float* x, int64_t rows, int64_t cols, void* prepared) {
  const bool pairs = dtype == DType::kBF16;
  const bool rounded = pairs && Native(dtype);
  if (rows == 1) return PrepareRow(rounded, x, cols, prepared);
  auto* out = static_cast<float*>(prepared);
  for (int64_t col = 0; col < cols; col += kLanes) {
    F32x16 columns[kLanes];
    LoadColumns(x, rows, cols, col, cols, columns);
    const int64_t width = cols - col < kLanes ? cols - col : kLanes;
    if (rounded) {
      for (int64_t i = 0; i < width; i += 2) {
        StoreN(out, Bf16Pairs(columns[i], columns[i + 1]), rows);
        out += rows;
      }
    } else if (pairs) {
      for (int64_t i = 0; i < width; i += 2) {
        alignas(64) float even[kLanes], odd[kLanes];
        Store(even, columns[i]);
        Store(odd, columns[i + 1]);
        for (int64_t row = 0; row < rows; ++row) {
          *out++ = even[row];
          *out++ = odd[row];
        }
      }
    } else {
      for (int64_t i = 0; i < width; ++i) {
        StoreN(out, columns[i], rows);
        out += rows;
      }
    }
  }
}

void Prepare(WeightFormat format, const float* x, int64_t rows, int64_t cols, int64_t tile_begin, int64_t tile_end,
             void* prepared) {
  const auto dtype = static_cast<DType>(format);
  const int64_t row_bytes = dtype != DType::kBF16 ? cols * 4 : EvenUp(cols) * (Native(dtype) ? 2 : 4);
  for (int64_t tile = tile_begin; tile < tile_end; ++tile) {
    const int64_t begin = TileBegin(rows, tile);
    PrepareTile(dtype, x + begin * cols, TileBegin(rows, tile + 1) - begin, cols,
                static_cast<char*>(prepared) + begin * row_bytes);
  }
}

// --- layout of weights ----------------------------------------------------------------------------------------------

void PackPanel(const float* rows, int64_t cols, DType dtype, void* panel) {
  auto* out = static_cast<char*>(panel);
  for (int64_t half = 0; half < 2; ++half) {
    for (int64_t col = 0; col < cols; col += kLanes) {
      F32x16 columns[kLanes];
      LoadColumns(rows + half * kLanes * cols, kLanes, cols, col, cols, columns);
      const int64_t width = cols - col < kLanes ? cols - col : kLanes;
      switch (dtype) {
        case DType::kF32:
          for (int64_t i = 0; i < width; ++i) {
            Store(reinterpret_cast<float*>(out + ((col + i) * 2 + half) * OpF32::kVectorBytes), columns[i]);
          }
          break;
        case DType::kF16:
          for (int64_t i = 0; i < width; ++i) {
            StoreF16(reinterpret_cast<uint16_t*>(out + ((col + i) * 2 + half) * OpF16::kVectorBytes), columns[i]);
          }
          break;
        case DType::kBF16:
          for (int64_t i = 0; i < width; i += 2) {
            Store(reinterpret_cast<float*>(out + ((col + i) / 2 * 2 + half) * OpBf16::kVectorBytes),
                  Bf16Pairs(columns[i], columns[i + 1]));
          }
          break;
      }
    }
  }
}

void UnpackRow(const void* panel, int64_t lane, int64_t cols, DType dtype, float* out) {
  switch (dtype) {
    case DType::kF32: {
      const auto* from = static_cast<const float*>(panel) + lane;
      for (int64_t col = 0; col < cols; ++col) out[col] = from[col * kPanelRows];
      return;
    }
    case DType::kF16: {
      const auto* from = static_cast<const uint16_t*>(panel) + lane;
      for (int64_t col = 0; col < cols; ++col) out[col] = _cvtsh_ss(from[col * kPanelRows]);
      return;
    }
    case DType::kBF16: {
      const auto* from = static_cast<const uint16_t*>(panel) + lane * 2;
      for (int64_t col = 0; col < cols; ++col) {
        const uint32_t bits = static_cast<uint32_t>(from[col / 2 * (2 * kPanelRows) + col % 2]) << 16;
        __builtin_memcpy(out + col, &bits, sizeof(bits));
      }
      return;
    }
  }
}

}  // namespace

extern const LinearKernels kLinearKernels;
const LinearKernels kLinearKernels = {{TileCount, PreparedBytes, Prepare, Multiply}, Native, PackPanel, UnpackRow};

}  // namespace hydrant::HYDRANT_ISA
