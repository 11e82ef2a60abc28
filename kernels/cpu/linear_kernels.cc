#include "kernels/cpu/linear_kernels.h"

#include <cassert>

#include "kernels/cpu/activation.h"
#include "kernels/cpu/simd.h"

namespace hydrant::HYDRANT_ISA {
namespace {

// One op per stored type: `kInputs` columns of x are consumed per step, `kVectorBytes` of weights per 16 outputs.
struct OpF32 {
  using X = float;
  static constexpr int kInputs = 1;
  static constexpr int kVectorBytes = 64;
  struct Weight {
    F32x16 w;
  };
  static inline __attribute__((always_inline)) Weight LoadWeight(const char* p) {
    return {Load(reinterpret_cast<const float*>(p))};
  }
  static inline __attribute__((always_inline)) F32x16 Add(F32x16 sum, const float* x, Weight weight) {
    return MulAdd(Set(x[0]), weight.w, sum);
  }
};

struct OpF16 {
  using X = float;
  static constexpr int kInputs = 1;
  static constexpr int kVectorBytes = 32;
  struct Weight {
    F32x16 w;
  };
  static inline __attribute__((always_inline)) Weight LoadWeight(const char* p) {
    return {LoadF16(reinterpret_cast<const uint16_t*>(p))};
  }
  static inline __attribute__((always_inline)) F32x16 Add(F32x16 sum, const float* x, Weight weight) {
    return MulAdd(Set(x[0]), weight.w, sum);
  }
};

#ifdef __AVX512BF16__

struct OpBf16 {
  using X = uint16_t;
  static constexpr int kInputs = 2;
  static constexpr int kVectorBytes = 64;
  struct Weight {
    __m512bh w;
  };
  static inline __attribute__((always_inline)) Weight LoadWeight(const char* p) {
    return {reinterpret_cast<__m512bh>(_mm512_loadu_si512(p))};
  }
  static inline __attribute__((always_inline)) F32x16 Add(F32x16 sum, const uint16_t* x, Weight weight) {
    int32_t pair;
    __builtin_memcpy(&pair, x, sizeof(pair));
    return {_mm512_dpbf16_ps(sum.v, weight.w, reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair)))};
  }
};

#else

struct OpBf16 {
  using X = float;
  static constexpr int kInputs = 2;
  static constexpr int kVectorBytes = 64;
  struct Weight {
    F32x16 even, odd;
  };
  // A bf16 is the upper half of an fp32.
  static inline __attribute__((always_inline)) Weight LoadWeight(const char* p) {
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
  static inline __attribute__((always_inline)) F32x16 Add(F32x16 sum, const float* x, Weight weight) {
    return MulAdd(Set(x[1]), weight.odd, MulAdd(Set(x[0]), weight.even, sum));
  }
};

#endif

// kRows x rows times kVectors x 16 outputs, all sums in registers. `weight` points at the panel's first vector of the
// group; sums [kRows][kPanelRows], written from column 0 on.
template <typename Op, int kRows, int kVectors>
void Tile(const typename Op::X* x, int64_t x_stride, const char* weight, int64_t steps, float* sums) {
  F32x16 sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 2
    for (int vector = 0; vector < kVectors; ++vector) sum[row][vector] = Zero();
  }
  for (int64_t step = 0; step < steps; ++step) {
    typename Op::Weight w[kVectors];
#pragma GCC unroll 2
    for (int vector = 0; vector < kVectors; ++vector) w[vector] = Op::LoadWeight(weight + vector * Op::kVectorBytes);
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 2
      for (int vector = 0; vector < kVectors; ++vector) {
        sum[row][vector] = Op::Add(sum[row][vector], x + row * x_stride, w[vector]);
      }
    }
    x += Op::kInputs;
    weight += 2 * Op::kVectorBytes;
  }
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 2
    for (int vector = 0; vector < kVectors; ++vector)
      Store(sums + row * kPanelRows + vector * kLanes, sum[row][vector]);
  }
}

// Rows of a tile: as many sums as there are registers for, less two for weights and one or two for x.
#ifdef __AVX512F__
constexpr int kTileRows = 14;
constexpr int kTileVectors = 2;
#else
constexpr int kTileRows = 6;
constexpr int kTileVectors = 1;
#endif

template <typename Op, int kRows>
void PanelTile(const typename Op::X* x, int64_t x_stride, const char* panel, int64_t steps, float* sums) {
  Tile<Op, kRows, kTileVectors>(x, x_stride, panel, steps, sums);
  if constexpr (kTileVectors == 1) {
    Tile<Op, kRows, kTileVectors>(x, x_stride, panel + Op::kVectorBytes, steps, sums + kLanes);
  }
}

template <typename Op, int kRows = kTileRows>
void DispatchTile(int rows, const typename Op::X* x, int64_t x_stride, const char* panel, int64_t steps, float* sums) {
  if constexpr (kRows > 0) {
    if (rows == kRows) {
      PanelTile<Op, kRows>(x, x_stride, panel, steps, sums);
    } else {
      DispatchTile<Op, kRows - 1>(rows, x, x_stride, panel, steps, sums);
    }
  }
}

// One row of one panel: 32 sums -> y, of which `outputs` columns exist.
void Finish(const LinearCall& call, const float* sums, const float* bias, float* y, int64_t outputs) {
  F32x16 first = Load(sums);
  F32x16 second = Load(sums + kLanes);
  if (bias != nullptr) {
    first = first + Load(bias);
    second = second + Load(bias + kLanes);
  }
  if (call.epilogue == Epilogue::kGate) {
    StoreN(y, ApplyActivation(call.activation, first) * second, outputs);
    return;
  }
  if (call.epilogue == Epilogue::kActivate) {
    first = ApplyActivation(call.activation, first);
    second = ApplyActivation(call.activation, second);
  }
  const int64_t in_first = outputs < kLanes ? outputs : kLanes;
  const int64_t in_second = outputs - in_first;
  if (call.epilogue == Epilogue::kAccumulate) {
    first = LoadN(y, in_first) + first;
    second = LoadN(y + kLanes, in_second) + second;
  }
  StoreN(y, first, in_first);
  StoreN(y + kLanes, second, in_second);
}

template <typename Op>
void MultiplyOp(const LinearCall& call, int64_t row_begin, int64_t row_end, int64_t panel_begin, int64_t panel_end) {
  const PackedWeight& weight = call.weight;
  const int64_t steps = (weight.inputs + Op::kInputs - 1) / Op::kInputs;
  const auto* x = static_cast<const typename Op::X*>(call.x);
  const int64_t rows = row_end - row_begin;
  // Tiles of nearly equal height: 16 rows are 8 + 8, not 14 + 2.
  const int64_t tiles = (rows + kTileRows - 1) / kTileRows;
  alignas(64) float sums[kTileRows * kPanelRows];
  for (int64_t panel = panel_begin; panel < panel_end; ++panel) {
    const char* data = static_cast<const char*>(weight.data) + panel * weight.panel_bytes;
    const float* bias = weight.bias == nullptr ? nullptr : weight.bias + panel * kPanelRows;
    const int64_t output = panel * weight.panel_outputs;
    const int64_t left = weight.outputs - output;
    const int64_t outputs = left < weight.panel_outputs ? left : weight.panel_outputs;
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t begin = row_begin + rows * tile / tiles;
      const int64_t end = row_begin + rows * (tile + 1) / tiles;
      DispatchTile<Op>(static_cast<int>(end - begin), x + begin * call.x_stride, call.x_stride, data, steps, sums);
      for (int64_t row = begin; row < end; ++row) {
        Finish(call, sums + (row - begin) * kPanelRows, bias, call.y + row * call.y_stride + output, outputs);
      }
    }
  }
}

void Multiply(const LinearCall& call, int64_t row_begin, int64_t row_end, int64_t panel_begin, int64_t panel_end) {
  switch (call.weight.dtype) {
    case DType::kF32:
      return MultiplyOp<OpF32>(call, row_begin, row_end, panel_begin, panel_end);
    case DType::kF16:
      return MultiplyOp<OpF16>(call, row_begin, row_end, panel_begin, panel_end);
    case DType::kBF16:
      return MultiplyOp<OpBf16>(call, row_begin, row_end, panel_begin, panel_end);
  }
}

bool InputIsBf16([[maybe_unused]] DType dtype) {
#ifdef __AVX512BF16__
  return dtype == DType::kBF16;
#else
  return false;
#endif
}

void RoundToBf16(const float* x, int64_t rows, int64_t cols, int64_t x_stride, uint16_t* out, int64_t out_stride) {
  for (int64_t row = 0; row < rows; ++row) {
    const float* from = x + row * x_stride;
    uint16_t* to = out + row * out_stride;
    int64_t col = 0;
    for (; col + kLanes <= cols; col += kLanes) StoreBf16(to + col, Load(from + col));
    if (col < out_stride) {
      alignas(32) uint16_t rest[kLanes];
      StoreBf16(rest, LoadN(from + col, cols - col));
      for (int64_t i = 0; col + i < out_stride; ++i) to[col + i] = i < kLanes ? rest[i] : 0;
    }
  }
}

// rows[lane] = 16 consecutive columns of row `lane` becomes rows[column] = 16 lanes of that column.
void Transpose16(F32x16 rows[kLanes]) {
  alignas(64) float block[kLanes][kLanes];
  for (int row = 0; row < kLanes; ++row) Store(block[row], rows[row]);
#ifdef __AVX512F__
  const __m512i index = _mm512_mullo_epi32(_mm512_set1_epi32(kLanes),
                                           _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  for (int col = 0; col < kLanes; ++col) rows[col] = {_mm512_i32gather_ps(index, &block[0][col], 4)};
#else
  for (int col = 0; col < kLanes; ++col) {
    alignas(64) float column[kLanes];
    for (int row = 0; row < kLanes; ++row) column[row] = block[row][col];
    rows[col] = Load(column);
  }
#endif
}

// Columns [col, col + 16) of 16 rows, transposed; missing columns are zero.
void LoadColumns(const float* rows, int64_t stride, int64_t col, int64_t cols, F32x16 columns[kLanes]) {
  const int64_t count = cols - col < kLanes ? cols - col : kLanes;
  for (int row = 0; row < kLanes; ++row) columns[row] = LoadN(rows + row * stride + col, count);
  Transpose16(columns);
}

// even, odd: two fp32 columns -> their bf16 pairs, lane by lane.
void StoreBf16Pairs(char* to, F32x16 even, F32x16 odd) {
#ifdef __AVX512F__
  const __m512i low = _mm512_srli_epi32(RoundBf16Bits(even), 16);
  _mm512_storeu_si512(to, _mm512_or_si512(low, RoundBf16Bits(odd)));
#else
  const __m256i low = _mm256_or_si256(_mm256_srli_epi32(RoundBf16BitsHalf(even.lo), 16), RoundBf16BitsHalf(odd.lo));
  const __m256i high = _mm256_or_si256(_mm256_srli_epi32(RoundBf16BitsHalf(even.hi), 16), RoundBf16BitsHalf(odd.hi));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), low);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 32), high);
#endif
}

void PackPanel(const float* rows, int64_t cols, DType dtype, void* panel) {
  char* out = static_cast<char*>(panel);
  for (int64_t half = 0; half < 2; ++half) {
    for (int64_t col = 0; col < cols; col += kLanes) {
      F32x16 columns[kLanes];
      LoadColumns(rows + half * kLanes * cols, cols, col, cols, columns);
      const int64_t count = cols - col < kLanes ? cols - col : kLanes;
      for (int64_t i = 0; i < count; ++i) {
        switch (dtype) {
          case DType::kF32:
            Store(reinterpret_cast<float*>(out + (col + i) * 128 + half * 64), columns[i]);
            break;
          case DType::kF16:
            StoreF16(reinterpret_cast<uint16_t*>(out + (col + i) * 64 + half * 32), columns[i]);
            break;
          case DType::kBF16:
            if (i % 2 == 0) StoreBf16Pairs(out + (col + i) / 2 * 128 + half * 64, columns[i], columns[i + 1]);
            break;
        }
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
const LinearKernels kLinearKernels = {InputIsBf16, RoundToBf16, Multiply, PackPanel, UnpackRow};

}  // namespace hydrant::HYDRANT_ISA
