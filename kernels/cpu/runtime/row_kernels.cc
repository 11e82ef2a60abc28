#include "kernels/cpu/runtime/row_kernels.h"

#include "kernels/cpu/runtime/activation.h"
#include "kernels/cpu/runtime/simd.h"

namespace hydrant::HYDRANT_ISA {
namespace {

float Sqrt(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }

// Sum over the row of f(column values); columns past the end do not contribute.
template <typename F>
float SumColumns(const float* x, int64_t cols, F f) {
  F32x16 sum = Zero();
  int64_t col = 0;
  for (; col + kLanes <= cols; col += kLanes) sum = f(sum, Load(x + col));
  if (col < cols) {
    const int64_t rest = cols - col;
    sum = Select(FirstN(rest), f(sum, LoadN(x + col, rest)), sum);
  }
  return ReduceAdd(sum);
}

template <typename F>
void MapColumns(const float* x, const float* weight, const float* bias, float* y, int64_t cols, F f) {
  int64_t col = 0;
  for (; col + kLanes <= cols; col += kLanes) {
    Store(y + col, f(Load(x + col), Load(weight + col), bias == nullptr ? Zero() : Load(bias + col)));
  }
  if (col < cols) {
    const int64_t rest = cols - col;
    const F32x16 b = bias == nullptr ? Zero() : LoadN(bias + col, rest);
    StoreN(y + col, f(LoadN(x + col, rest), LoadN(weight + col, rest), b), rest);
  }
}

void NormRow(const NormWeight& norm, const float* x, float* y, int64_t cols) {
  const float count = static_cast<float>(cols);
  float mean = 0.0f;
  if (norm.kind == NormKind::kLayer) {
    mean = SumColumns(
               x, cols, [](F32x16 sum, F32x16 v) __attribute__((always_inline)) { return sum + v; }) /
           count;
  }
  // The second pass over centred values keeps the variance exact where E[x^2] - E[x]^2 would cancel.
  const F32x16 center = Set(mean);
  const float square_sum = SumColumns(
      x, cols, [center](F32x16 sum, F32x16 v) __attribute__((always_inline)) {
        const F32x16 d = v - center;
        return MulAdd(d, d, sum);
      });
  const F32x16 scale = Set(1.0f / Sqrt(square_sum / count + norm.eps));
  MapColumns(
      x, norm.weight, norm.bias, y, cols,
      [ center, scale ](F32x16 v, F32x16 weight, F32x16 bias)
          __attribute__((always_inline)) { return MulAdd((v - center) * scale, weight, bias); });
}

void Norm(const NormWeight& norm, const float* x, int64_t x_stride, float* y, int64_t y_stride, int64_t rows,
          int64_t cols) {
  for (int64_t row = 0; row < rows; ++row) NormRow(norm, x + row * x_stride, y + row * y_stride, cols);
}

template <typename F>
void MapInPlace(float* values, int64_t count, F f) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) Store(values + i, f(Load(values + i)));
  if (i < count) StoreN(values + i, f(LoadN(values + i, count - i)), count - i);
}

void Activate(Activation activation, float* values, int64_t count) {
  MapInPlace(values, count, [activation](F32x16 x) { return ApplyActivation(activation, x); });
}

void ExpAll(float* values, int64_t count) {
  MapInPlace(values, count, [](F32x16 x) { return Exp(x); });
}

void SoftCapAll(float cap, float* values, int64_t count) {
  MapInPlace(values, count, [cap](F32x16 x) { return SoftCap(x, cap); });
}

}  // namespace

extern const RowKernels kRowKernels;
const RowKernels kRowKernels = {Norm, Activate, ExpAll, SoftCapAll};

}  // namespace hydrant::HYDRANT_ISA
