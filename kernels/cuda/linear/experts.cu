#include <algorithm>
#include <cassert>

#include "kernels/cuda/linear/experts.h"
#include "kernels/cuda/linear/packed_panel.cuh"
#include "kernels/cuda/runtime/activation.cuh"
#include "kernels/cuda/runtime/element.cuh"
#include "kernels/cuda/runtime/launch.h"
#include "kernels/cuda/runtime/overlap.cuh"

namespace hydrant::cuda {
namespace {

constexpr uint32_t kThreads = 128;
constexpr int64_t kWarps = kThreads / kWarp;
constexpr uint32_t kPackedThreads = kRuns * kWarp;

// What one launch has in its second dimension.
constexpr int64_t kRowsOfLaunch = 65535;

// Orders experts: the larger logit, then the lower number; a NaN is the smallest.
__device__ __forceinline__ uint64_t RankOf(float logit, int64_t expert) {
  uint32_t bits = 0x007fffffu;  // of -infinity
  if (logit == 0.0f) {
    bits = 0x80000000u;  // -0 is no less than 0
  } else if (logit == logit) {
    bits = __float_as_uint(logit);
    bits = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  }
  return uint64_t{bits} << 32 | (0xffffffffu - static_cast<uint32_t>(expert));
}

__global__ void __launch_bounds__(kThreads)
    ChooseExpertsKernel(const float* all_logits, int64_t rows, int64_t experts, int32_t per_row, bool normalised,
                        ExpertShare* all_chosen) {
  AwaitEarlier();
  const int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
  const int64_t lane = threadIdx.x % kWarp;
  if (row >= rows) return;
  const float* logits = all_logits + row * experts;
  // The rank of the last of the chosen ones, found one after the other.
  uint64_t first = 0, last = ~uint64_t{0};
  for (int32_t i = 0; i < per_row; ++i) {
    uint64_t best = 0;
    for (int64_t expert = lane; expert < experts; expert += kWarp) {
      const uint64_t rank = RankOf(logits[expert], expert);
      if (rank < last && rank > best) best = rank;
    }
    last = WarpReduce(best, Largest());
    if (i == 0) first = last;
  }
  const float largest = logits[0xffffffffu - static_cast<uint32_t>(first)];
  float all = 0.0f, of_chosen = 0.0f;
  for (int64_t expert = lane; expert < experts; expert += kWarp) {
    const float share = expf(logits[expert] - largest);
    all += share;
    if (RankOf(logits[expert], expert) >= last) of_chosen += share;
  }
  all = WarpReduce(all, Sum());
  of_chosen = WarpReduce(of_chosen, Sum());
  const float total = normalised ? of_chosen : all;
  ExpertShare* chosen = all_chosen + row * per_row;
  int32_t count = 0;
  for (int64_t begin = 0; begin < experts; begin += kWarp) {
    const int64_t expert = begin + lane;
    const bool takes = expert < experts && RankOf(logits[expert], expert) >= last;
    const int32_t up_to = WarpInclusiveSum(takes ? 1 : 0);
    if (takes) chosen[count + up_to - 1] = {static_cast<int32_t>(expert), expf(logits[expert] - largest) / total};
    count += WarpReduce(takes ? 1 : 0, Sum());
  }
}

// The product of a row of the weight with x [weight.cols], rounded to the weight's type; every lane gets it.
template <typename T, typename X>
__device__ __forceinline__ float Product(const WeightView& weight, int64_t row, const X* x, int64_t lane) {
  constexpr int64_t kPiece = Vector<T>::kCount;
  const auto* pieces = reinterpret_cast<const Vector<T>*>(static_cast<const T*>(weight.data) + row * weight.stride);
  float sum = 0.0f;
  for (int64_t piece = lane; piece * kPiece < weight.cols; piece += kWarp) {
    const Vector<T> w = pieces[piece];
    const int64_t col = piece * kPiece;
#pragma unroll
    for (int i = 0; i < kPiece; ++i) {
      if (col + i < weight.cols) sum = fmaf(ToFloat(w.at[i]), ToFloat(FromFloat<T>(ToFloat(x[col + i]))), sum);
    }
  }
  return WarpReduce(sum, Sum());
}

// A launch has the experts of one format; blocks of others have nothing to do.
__device__ __forceinline__ bool IsOf(const ExpertMatrix& matrix, WeightFormat format) {
  return matrix.packed[0].data != nullptr ? matrix.packed[0].format == format : FormatOf(matrix.dense.dtype) == format;
}

template <typename T, typename X>
__global__ void __launch_bounds__(kThreads)
    ExpertsUpKernel(const ExpertMatrix* up, WeightFormat format, const ExpertShare* chosen, int32_t per_row,
                    Activation activation, const X* x, int64_t first_entry, Output inner) {
  AwaitEarlier();
  const int64_t entry = first_entry + blockIdx.y, lane = threadIdx.x % kWarp;
  if (!IsOf(up[chosen[entry].expert], format)) return;
  const WeightView weight = up[chosen[entry].expert].dense;
  const int64_t outputs = weight.rows / 2, output = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
  if (output >= outputs) return;
  const X* row = x + entry / per_row * weight.cols;
  float gate = Product<T>(weight, output, row, lane), value = Product<T>(weight, outputs + output, row, lane);
  if (lane != 0) return;
  if (weight.bias != nullptr) {
    gate += weight.bias[output];
    value += weight.bias[outputs + output];
  }
  Store(inner, entry * outputs + output, Activate(activation, gate) * UpFactor(activation, value));
}

template <typename T, typename X>
__global__ void __launch_bounds__(kThreads)
    ExpertsDownKernel(const ExpertMatrix* down, WeightFormat format, const ExpertShare* chosen, int32_t per_row,
                      const X* inner, int64_t first_row, int64_t hidden, float* y) {
  AwaitEarlier();
  const int64_t row = first_row + blockIdx.y, lane = threadIdx.x % kWarp;
  const int64_t output = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
  if (output >= hidden) return;
  float sum = y[row * hidden + output];
  for (int64_t entry = row * per_row; entry < (row + 1) * per_row; ++entry) {
    if (!IsOf(down[chosen[entry].expert], format)) continue;
    const WeightView weight = down[chosen[entry].expert].dense;
    float product = Product<T>(weight, output, inner + entry * weight.cols, lane);
    if (weight.bias != nullptr) product += weight.bias[output];
    sum += chosen[entry].weight * product;
  }
  if (lane == 0) y[row * hidden + output] = sum;
}

// Output 32 * blockIdx.x + `lane` of a part, with its bias, in warp 0.
template <WeightFormat kFormat, typename X>
__device__ __forceinline__ float PanelProduct(const PackedView& part, const X* x, float* joined) {
  float product[1];
  MultiplyPanel<kFormat, 1>(part.data + blockIdx.x * part.panel_bytes, part.cols, x, 1, joined, product);
  const int64_t output = int64_t{blockIdx.x} * kPackedOutputs + threadIdx.x % kWarp;
  return part.bias != nullptr && output < part.rows ? product[0] + part.bias[output] : product[0];
}

template <WeightFormat kFormat, typename X>
__global__ void __launch_bounds__(kPackedThreads)
    PackedExpertsUpKernel(const ExpertMatrix* up, const ExpertShare* chosen, int32_t per_row, Activation activation,
                          const X* x, int64_t first_entry, Output inner) {
  AwaitEarlier();
  __shared__ float joined[kJoinFloats];
  const int64_t entry = first_entry + blockIdx.y;
  const ExpertMatrix& matrix = up[chosen[entry].expert];
  if (!IsOf(matrix, kFormat)) return;
  const int64_t ffn = matrix.packed[0].rows;
  const X* row = x + entry / per_row * matrix.packed[0].cols;
  float gate = 0.0f, product = 0.0f;
  // One copy of the code: what is inside is long.
#pragma unroll 1
  for (int part = 0; part < 2; ++part) {
    gate = product;
    product = PanelProduct<kFormat>(matrix.packed[part], row, joined);
  }
  const int64_t output = int64_t{blockIdx.x} * kPackedOutputs + threadIdx.x;
  if (threadIdx.x < kWarp && output < ffn)
    Store(inner, entry * ffn + output, Activate(activation, gate) * UpFactor(activation, product));
}

template <WeightFormat kFormat, typename X>
__global__ void __launch_bounds__(kPackedThreads)
    PackedExpertsDownKernel(const ExpertMatrix* down, const ExpertShare* chosen, int32_t per_row, const X* inner,
                            int64_t first_row, int64_t hidden, float* y) {
  AwaitEarlier();
  __shared__ float joined[kJoinFloats];
  const int64_t row = first_row + blockIdx.y, output = int64_t{blockIdx.x} * kPackedOutputs + threadIdx.x % kWarp;
  float sum = output < hidden ? y[row * hidden + output] : 0.0f;
#pragma unroll 1
  for (int64_t entry = row * per_row; entry < (row + 1) * per_row; ++entry) {
    const ExpertMatrix& matrix = down[chosen[entry].expert];
    if (!IsOf(matrix, kFormat)) continue;
    const float product = PanelProduct<kFormat>(matrix.packed[0], inner + entry * matrix.packed[0].cols, joined);
    sum += chosen[entry].weight * product;
  }
  if (threadIdx.x < kWarp && output < hidden) y[row * hidden + output] = sum;
}

// Calls function.template operator()<format>(elements of x) with the type of x.
template <typename Function>
void WithPackedTypes(WeightFormat format, const Input& x, const Function& function) {
  assert(x.dtype != DType::kF16);
  WithPackedFormat(format, [&]<WeightFormat kFormat>() {
    if (x.dtype == DType::kF32) return function.template operator()<kFormat>(static_cast<const float*>(x.data));
    function.template operator()<kFormat>(static_cast<const __nv_bfloat16*>(x.data));
  });
}

// Calls function(T{}, elements of x) with the types of the weight and of x.
template <typename Function>
void WithTypes(DType dtype, const Input& x, const Function& function) {
  assert(x.dtype == DType::kF32 || x.dtype == dtype);
  WithElement(dtype, [&](auto element) {
    using T = decltype(element);
    if (x.dtype == DType::kF32) return function(element, static_cast<const float*>(x.data));
    function(element, static_cast<const T*>(x.data));
  });
}

// Calls launch(first, count) for parts of `all` that a grid's second dimension holds.
template <typename Function>
void InParts(int64_t all, const Function& launch) {
  for (int64_t first = 0; first < all; first += kRowsOfLaunch) {
    launch(first, static_cast<uint32_t>(std::min(kRowsOfLaunch, all - first)));
  }
}

}  // namespace

void LaunchChooseExperts(cudaStream_t stream, const float* logits, int64_t rows, int64_t experts,
                         const ExpertRouting& routing, ExpertShare* chosen) {
  assert(routing.per_row >= 1 && routing.per_row <= experts);
  Launch(stream, dim3(BlocksFor(rows, kWarps)), kThreads, ChooseExpertsKernel, logits, rows, experts, routing.per_row,
         routing.normalised, chosen);
}

void LaunchExpertsUp(cudaStream_t stream, const ExpertMatrix* up, WeightFormat format, const ExpertShare* chosen,
                     int32_t per_row, Activation activation, const Input& x, int64_t rows, const Output& inner,
                     int64_t ffn) {
  InParts(rows * per_row, [&](int64_t first, uint32_t count) {
    if (IsQuantised(format)) {
      WithPackedTypes(format, x, [&]<WeightFormat kFormat, typename X>(const X* elements) {
        Launch(stream, dim3(BlocksFor(ffn, kPackedOutputs), count), kPackedThreads, PackedExpertsUpKernel<kFormat, X>,
               up, chosen, per_row, activation, elements, first, inner);
      });
      return;
    }
    WithTypes(DTypeOf(format), x, [&]<typename T, typename X>(T, const X* elements) {
      Launch(stream, dim3(BlocksFor(ffn, kWarps), count), kThreads, ExpertsUpKernel<T, X>, up, format, chosen, per_row,
             activation, elements, first, inner);
    });
  });
}

void LaunchExpertsDown(cudaStream_t stream, const ExpertMatrix* down, WeightFormat format, const ExpertShare* chosen,
                       int32_t per_row, const Input& inner, int64_t rows, float* y, int64_t hidden) {
  InParts(rows, [&](int64_t first, uint32_t count) {
    if (IsQuantised(format)) {
      WithPackedTypes(format, inner, [&]<WeightFormat kFormat, typename X>(const X* elements) {
        Launch(stream, dim3(BlocksFor(hidden, kPackedOutputs), count), kPackedThreads,
               PackedExpertsDownKernel<kFormat, X>, down, chosen, per_row, elements, first, hidden, y);
      });
      return;
    }
    WithTypes(DTypeOf(format), inner, [&]<typename T, typename X>(T, const X* elements) {
      Launch(stream, dim3(BlocksFor(hidden, kWarps), count), kThreads, ExpertsDownKernel<T, X>, down, format, chosen,
             per_row, elements, first, hidden, y);
    });
  });
}

}  // namespace hydrant::cuda
