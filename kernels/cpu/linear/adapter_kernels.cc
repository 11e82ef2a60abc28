#include "kernels/cpu/linear/adapter_kernels.h"

#include <cassert>
#include <cstring>

#include "kernels/cpu/linear/linear_kernels.h"
#include "kernels/cpu/runtime/simd.h"

namespace hydrant::HYDRANT_ISA {
namespace {

constexpr int kSums = 4;
#ifdef __AVX512F__
constexpr int kTileRows = kAdapterTileRows, kTogether = 4;
#else
constexpr int kTileRows = 1, kTogether = 2;
#endif

// A of an adapter comes from memory once in a step, in one stream.
constexpr int64_t kAheadBytes = 4096;

// A panel's line of B: a step of all its outputs.
constexpr int64_t kStepBytes = 128, kHalfBytes = 64;

// One step of 16 outputs of a row: what is stored of it, and the numbers of x or h that go with it.
struct Fp32Steps {
  static constexpr int64_t kPerStep = 1, kWeightBytes = 4, kNumberBytes = 4;
  struct Weights {
    F32x16 all;
  };
  HYDRANT_SIMD Weights At(const std::byte* p) { return {Load(reinterpret_cast<const float*>(p))}; }
  HYDRANT_SIMD F32x16 Step(const std::byte* x, int64_t step, const Weights& weights, F32x16 sum) {
    return MulAdd(Set(reinterpret_cast<const float*>(x)[step]), weights.all, sum);
  }
};

#ifdef __AVX512BF16__
struct Bf16Steps {
  static constexpr int64_t kPerStep = 2, kWeightBytes = 4, kNumberBytes = 2;
  struct Weights {
    __m512bh all;
  };
  HYDRANT_SIMD Weights At(const std::byte* p) { return {reinterpret_cast<__m512bh>(_mm512_loadu_si512(p))}; }
  HYDRANT_SIMD F32x16 Step(const std::byte* x, int64_t step, const Weights& weights, F32x16 sum) {
    int32_t pair;
    std::memcpy(&pair, x + step * 4, sizeof(pair));
    return {_mm512_dpbf16_ps(sum.v, weights.all, reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair)))};
  }
};

void RoundRow(const float* x, int64_t cols, uint16_t* out) {
  int64_t col = 0;
  for (; col + kLanes <= cols; col += kLanes) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + col),
                        reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_loadu_ps(x + col))));
  }
  if (col == cols) return;
  alignas(32) uint16_t last[kLanes];
  _mm256_store_si256(reinterpret_cast<__m256i*>(last),
                     reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(LoadN(x + col, cols - col).v)));
  // With the zero behind an odd column.
  std::memcpy(out + col, last, static_cast<size_t>((cols - col + 1) / 2 * 2) * sizeof(uint16_t));
}
#else
struct Bf16Steps {
  static constexpr int64_t kPerStep = 2, kWeightBytes = 4, kNumberBytes = 4;
  struct Weights {
    F32x16 first, second;
  };
#ifdef __AVX512F__
  HYDRANT_SIMD Weights At(const std::byte* p) {
    const __m512i pairs = _mm512_loadu_si512(p);
    return {{_mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16))},
            {_mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xffff0000u))))}};
  }
#else
  HYDRANT_SIMD Weights At(const std::byte* p) {
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32));
    const __m256i mask = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
    return {{_mm256_castsi256_ps(_mm256_slli_epi32(low, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(high, 16))},
            {_mm256_castsi256_ps(_mm256_and_si256(low, mask)), _mm256_castsi256_ps(_mm256_and_si256(high, mask))}};
  }
#endif
  HYDRANT_SIMD F32x16 Step(const std::byte* x, int64_t step, const Weights& weights, F32x16 sum) {
    const float* pair = reinterpret_cast<const float*>(x) + 2 * step;
    return MulAdd(Set(pair[1]), weights.second, MulAdd(Set(pair[0]), weights.first, sum));
  }
};
#endif

// Steps that may read all of their numbers: those of x end with its columns, where they are not pairs that were padded.
template <typename Steps>
constexpr int64_t WholeSteps(int64_t cols) {
  return Steps::kNumberBytes == 4 ? cols / Steps::kPerStep : (cols + Steps::kPerStep - 1) / Steps::kPerStep;
}

HYDRANT_SIMD void StoreInner(std::byte* to, F32x16 values, bool rounded) {
#ifdef __AVX512BF16__
  if (rounded) {
    return _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(values.v)));
  }
#endif
  assert(!rounded);
  Store(reinterpret_cast<float*>(to), values);
}

template <typename Steps, int kRows>
void InnerTile(const AdapterInner& call, const int32_t* rows) {
  F32x16 sums[kRows][kSums];
  const std::byte* x[kRows];
  HYDRANT_UNROLL(4)
  for (int row = 0; row < kRows; ++row) {
    x[row] = call.x + rows[row] * call.x_stride;
    HYDRANT_UNROLL(4)
    for (int i = 0; i < kSums; ++i) sums[row][i] = Zero();
  }
  const std::byte* a = call.a;
  const int64_t stride = call.lanes * Steps::kWeightBytes, steps = WholeSteps<Steps>(call.cols);
  int64_t step = 0;
  for (; step + kSums <= steps; step += kSums) {
    HYDRANT_UNROLL(4)
    for (int i = 0; i < kSums; ++i, a += stride) {
      const auto weights = Steps::At(a);
      _mm_prefetch(reinterpret_cast<const char*>(a) + kAheadBytes, _MM_HINT_T0);
      HYDRANT_UNROLL(4)
      for (int row = 0; row < kRows; ++row) sums[row][i] = Steps::Step(x[row], step + i, weights, sums[row][i]);
    }
  }
  HYDRANT_UNROLL(4)
  for (int i = 0; i < kSums; ++i) {
    if (step + i >= steps) break;
    const auto weights = Steps::At(a + i * stride);
    HYDRANT_UNROLL(4)
    for (int row = 0; row < kRows; ++row) sums[row][i] = Steps::Step(x[row], step + i, weights, sums[row][i]);
  }
  if (steps * Steps::kPerStep < call.cols) {  // half a pair
    const auto weights = Steps::At(call.a + steps * stride);
    for (int row = 0; row < kRows; ++row) {
      float pair[2] = {reinterpret_cast<const float*>(x[row])[call.cols - 1], 0.0f};
      sums[row][0] = Steps::Step(reinterpret_cast<const std::byte*>(pair), 0, weights, sums[row][0]);
    }
  }
  const F32x16 scales = Load(call.scales);
  HYDRANT_UNROLL(4)
  for (int row = 0; row < kRows; ++row) {
    const F32x16 sum = (sums[row][0] + sums[row][1]) + (sums[row][2] + sums[row][3]);
    StoreInner(call.inner + rows[row] * call.inner_stride, sum * scales, Steps::kNumberBytes == 2);
  }
}

template <typename Steps>
void InnerOf(const AdapterInner& call) {
  static_assert(kAdapterTileRows == 4);
  assert(call.count <= kAdapterTileRows);
  if constexpr (kTileRows > 1) {
    if (call.count == 4) return InnerTile<Steps, 4>(call, call.rows);
    if (call.count == 3) return InnerTile<Steps, 3>(call, call.rows);
    if (call.count == 2) return InnerTile<Steps, 2>(call, call.rows);
  }
  for (int64_t row = 0; row < call.count; ++row) InnerTile<Steps, 1>(call, call.rows + row);
}

void Inner(const AdapterInner& call) {
  assert(call.dtype != DType::kF16);
  return call.dtype == DType::kF32 ? InnerOf<Fp32Steps>(call) : InnerOf<Bf16Steps>(call);
}

// B h of rows with one adapter, in halves [half, half + kHalves) of a panel, which are of one part.
template <typename Steps, int kRows, int kHalves>
void AddHalves(const AdapterRows& added, const int64_t* rows, int64_t begin, int64_t panel, int half, float* sums) {
  const int64_t slot = added.slots[rows[0]], part = added.part_of[panel * 2 + half];
  const int32_t rank = added.ranks[slot * added.parts + part];
  if (rank == 0) return;  // what is added changes a row's bits
  const std::byte* at = added.b + slot * added.slot_bytes + panel * added.panel_bytes + half * kHalfBytes;
  const std::byte* inner[kRows];
  F32x16 sum[kRows][kHalves];
  HYDRANT_UNROLL(4)
  for (int row = 0; row < kRows; ++row) {
    inner[row] = added.inner + (rows[row] * added.parts + part) * added.lanes * Steps::kNumberBytes;
    HYDRANT_UNROLL(2)
    for (int i = 0; i < kHalves; ++i) sum[row][i] = Zero();
  }
  const int64_t steps = (rank + Steps::kPerStep - 1) / Steps::kPerStep;
  for (int64_t step = 0; step < steps; ++step, at += kStepBytes) {
    HYDRANT_UNROLL(2)
    for (int i = 0; i < kHalves; ++i) {
      const auto weights = Steps::At(at + i * kHalfBytes);
      // The next panel's: the hardware does not look beyond a border of 4 KiB.
      _mm_prefetch(reinterpret_cast<const char*>(at) + i * kHalfBytes + added.panel_bytes, _MM_HINT_T0);
      HYDRANT_UNROLL(4)
      for (int row = 0; row < kRows; ++row) sum[row][i] = Steps::Step(inner[row], step, weights, sum[row][i]);
    }
  }
  HYDRANT_UNROLL(4)
  for (int row = 0; row < kRows; ++row) {
    float* to = sums + (rows[row] - begin) * kPanelRows + half * kLanes;
    HYDRANT_UNROLL(2)
    for (int i = 0; i < kHalves; ++i) Store(to + i * kLanes, Load(to + i * kLanes) + sum[row][i]);
  }
}

template <typename Steps, int kRows>
void AddRows(const AdapterRows& added, const int64_t* rows, int64_t begin, int64_t panel, float* sums) {
  if (added.part_of[panel * 2] == added.part_of[panel * 2 + 1]) {
    return AddHalves<Steps, kRows, 2>(added, rows, begin, panel, 0, sums);
  }
  for (int half = 0; half < 2; ++half) AddHalves<Steps, kRows, 1>(added, rows, begin, panel, half, sums);
}

// Some with the same adapter read B together, wherever they are in the tile.
template <typename Steps>
void AddOf(const AdapterRows& added, int64_t begin, int64_t end, int64_t panel, float* sums) {
  for (int64_t first = begin; first < end; ++first) {
    if (added.slots[first] < 0 || added.before[first] >= begin) continue;
    int64_t rows[kTogether];
    int count = 0;
    for (int64_t row = first; row < end; row = added.after[row]) {
      rows[count++] = row;
      if (count < kTogether) continue;
      AddRows<Steps, kTogether>(added, rows, begin, panel, sums);
      count = 0;
    }
    if constexpr (kTogether > 2) {
      if (count == 3) AddRows<Steps, 3>(added, rows, begin, panel, sums);
      if (count == 2) AddRows<Steps, 2>(added, rows, begin, panel, sums);
    }
    if (count == 1) AddRows<Steps, 1>(added, rows, begin, panel, sums);
  }
}

void Add(const AdapterRows& added, int64_t begin, int64_t end, int64_t panel, float* sums) {
  return added.dtype == DType::kF32 ? AddOf<Fp32Steps>(added, begin, end, panel, sums)
                                    : AddOf<Bf16Steps>(added, begin, end, panel, sums);
}

}  // namespace

extern const AdapterKernels kAdapterKernels;
#ifdef __AVX512BF16__
const AdapterKernels kAdapterKernels = {true, RoundRow, Inner, Add};
#else
const AdapterKernels kAdapterKernels = {false, nullptr, Inner, Add};
#endif

}  // namespace hydrant::HYDRANT_ISA
