#include "kernels/cpu/linear/adapter_kernels.h"

#include <cassert>

#include "kernels/cpu/runtime/simd.h"

namespace hydrant::HYDRANT_ISA {
namespace {

// Rows that read A together: four sums each are what there are registers for.
#ifdef __AVX512F__
constexpr int kTileRows = 4;
#else
constexpr int kTileRows = 1;
#endif
constexpr int kSums = 4;

// A of an adapter comes from memory once in a step, in one stream.
constexpr int64_t kAheadBytes = 1024;

struct InFp32 {
  static constexpr int kBytes = 4;
  HYDRANT_SIMD F32x16 At(const std::byte* p) { return Load(reinterpret_cast<const float*>(p)); }
};
struct InBf16 {
  static constexpr int kBytes = 2;
  HYDRANT_SIMD F32x16 At(const std::byte* p) { return LoadBf16(reinterpret_cast<const uint16_t*>(p)); }
};

template <typename Stored, int kRows>
void InnerTile(const AdapterInner& call, const int32_t* rows) {
  F32x16 sums[kRows][kSums];
  const float* x[kRows];
  HYDRANT_UNROLL(4)
  for (int row = 0; row < kRows; ++row) {
    x[row] = call.x + rows[row] * call.cols;
    HYDRANT_UNROLL(4)
    for (int i = 0; i < kSums; ++i) sums[row][i] = Zero();
  }
  const std::byte* a = call.a;
  const int64_t stride = call.lanes * Stored::kBytes;
  int64_t col = 0;
  for (; col + kSums <= call.cols; col += kSums) {
    HYDRANT_UNROLL(4)
    for (int i = 0; i < kSums; ++i, a += stride) {
      const F32x16 weights = Stored::At(a);
      _mm_prefetch(reinterpret_cast<const char*>(a) + kAheadBytes, _MM_HINT_T0);
      HYDRANT_UNROLL(4)
      for (int row = 0; row < kRows; ++row) sums[row][i] = MulAdd(Set(x[row][col + i]), weights, sums[row][i]);
    }
  }
  HYDRANT_UNROLL(4)
  for (int i = 0; i < kSums; ++i) {
    if (col + i >= call.cols) break;
    const F32x16 weights = Stored::At(a + i * stride);
    HYDRANT_UNROLL(4)
    for (int row = 0; row < kRows; ++row) sums[row][i] = MulAdd(Set(x[row][col + i]), weights, sums[row][i]);
  }
  const F32x16 scales = Load(call.scales);
  HYDRANT_UNROLL(4)
  for (int row = 0; row < kRows; ++row) {
    const F32x16 sum = (sums[row][0] + sums[row][1]) + (sums[row][2] + sums[row][3]);
    Store(call.inner + rows[row] * call.inner_stride, sum * scales);
  }
}

template <typename Stored>
void InnerOf(const AdapterInner& call) {
  int64_t row = 0;
  for (; row + kTileRows <= call.count; row += kTileRows) InnerTile<Stored, kTileRows>(call, call.rows + row);
  for (; row < call.count; ++row) InnerTile<Stored, 1>(call, call.rows + row);
}

void Inner(const AdapterInner& call) {
  assert(call.dtype != DType::kF16);
  return call.dtype == DType::kF32 ? InnerOf<InFp32>(call) : InnerOf<InBf16>(call);
}

}  // namespace

extern const AdapterKernels kAdapterKernels;
const AdapterKernels kAdapterKernels = {Inner};

}  // namespace hydrant::HYDRANT_ISA
