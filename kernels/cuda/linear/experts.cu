#include <algorithm>
#include <cassert>

#include "kernels/cuda/linear/experts.h"
#include "kernels/cuda/runtime/activation.cuh"
#include "kernels/cuda/runtime/element.cuh"
#include "kernels/cuda/runtime/launch.h"

namespace hydrant::cuda {
namespace {

constexpr uint32_t kThreads = 128;
constexpr int64_t kWarps = kThreads / kWarp;

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

template <typename T, typename X>
__global__ void __launch_bounds__(kThreads)
    ExpertsUpKernel(const WeightView* up, const ExpertShare* chosen, int32_t per_row, Activation activation, const X* x,
                    int64_t first_entry, Output inner) {
  const int64_t entry = first_entry + blockIdx.y, lane = threadIdx.x % kWarp;
  const WeightView weight = up[chosen[entry].expert];
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
    ExpertsDownKernel(const WeightView* down, const ExpertShare* chosen, int32_t per_row, const X* inner,
                      int64_t first_row, int64_t hidden, float* y) {
  const int64_t row = first_row + blockIdx.y, lane = threadIdx.x % kWarp;
  const int64_t output = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
  if (output >= hidden) return;
  float sum = y[row * hidden + output];
  for (int64_t entry = row * per_row; entry < (row + 1) * per_row; ++entry) {
    const WeightView weight = down[chosen[entry].expert];
    float product = Product<T>(weight, output, inner + entry * weight.cols, lane);
    if (weight.bias != nullptr) product += weight.bias[output];
    sum += chosen[entry].weight * product;
  }
  if (lane == 0) y[row * hidden + output] = sum;
}

// Calls function(T{}, elements of x) with the types of the weight and of x.
template <typename Function>
void WithTypes(const WeightView& shape, const Input& x, const Function& function) {
  assert(x.dtype == DType::kF32 || x.dtype == shape.dtype);
  WithElement(shape.dtype, [&](auto element) {
    using T = decltype(element);
    if (x.dtype == DType::kF32) return function(element, static_cast<const float*>(x.data));
    function(element, static_cast<const T*>(x.data));
  });
}

}  // namespace

void LaunchChooseExperts(cudaStream_t stream, const float* logits, int64_t rows, int64_t experts,
                         const ExpertRouting& routing, ExpertShare* chosen) {
  assert(routing.per_row >= 1 && routing.per_row <= experts);
  Launch(stream, dim3(BlocksFor(rows, kWarps)), kThreads, ChooseExpertsKernel, logits, rows, experts, routing.per_row,
         routing.normalised, chosen);
}

void LaunchExpertsUp(cudaStream_t stream, const WeightView* up, const WeightView& shape, const ExpertShare* chosen,
                     int32_t per_row, Activation activation, const Input& x, int64_t rows, const Output& inner) {
  WithTypes(shape, x, [&]<typename T, typename X>(T, const X* elements) {
    for (int64_t first = 0; first < rows * per_row; first += kRowsOfLaunch) {
      const int64_t count = std::min(kRowsOfLaunch, rows * per_row - first);
      const dim3 blocks(BlocksFor(shape.rows / 2, kWarps), static_cast<uint32_t>(count));
      Launch(stream, blocks, kThreads, ExpertsUpKernel<T, X>, up, chosen, per_row, activation, elements, first, inner);
    }
  });
}

void LaunchExpertsDown(cudaStream_t stream, const WeightView* down, const WeightView& shape, const ExpertShare* chosen,
                       int32_t per_row, const Input& inner, int64_t rows, float* y) {
  WithTypes(shape, inner, [&]<typename T, typename X>(T, const X* elements) {
    for (int64_t first = 0; first < rows; first += kRowsOfLaunch) {
      const int64_t count = std::min(kRowsOfLaunch, rows - first);
      const dim3 blocks(BlocksFor(shape.rows, kWarps), static_cast<uint32_t>(count));
      Launch(stream, blocks, kThreads, ExpertsDownKernel<T, X>, down, chosen, per_row, elements, first, shape.rows, y);
    }
  });
}

}  // namespace hydrant::cuda
