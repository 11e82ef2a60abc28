#include <type_traits>

#include "kernels/cuda/linear/packed_panel.cuh"
#include "kernels/cuda/linear/row_kernels.h"
#include "kernels/cuda/runtime/activation.cuh"
#include "kernels/cuda/runtime/element.cuh"
#include "kernels/cuda/runtime/launch.h"
#include "kernels/cuda/runtime/norm_row.cuh"
#include "kernels/cuda/runtime/overlap.cuh"

namespace hydrant::cuda {
namespace {

constexpr uint32_t kThreads = 256, kNormThreads = 512;

// `value` times `scale`, added to *x or put there.
__device__ __forceinline__ void Take(float value, float scale, bool add, float* x) {
  *x = add ? *x + value * scale : value * scale;
}

// Row `row` of a weight times `scale`, added to x or put there.
template <typename T>
__device__ void TakeRow(const WeightView& weight, int64_t row, float scale, bool add, float* x) {
  const T* from = static_cast<const T*>(weight.data) + row * weight.stride;
  constexpr int kCount = Vector<T>::kCount;
  if (weight.cols % kCount == 0 && Aligned(from) && Aligned(x)) {
    for (int64_t col = threadIdx.x * kCount; col < weight.cols; col += blockDim.x * kCount) {
      const Vector<T> some = *reinterpret_cast<const Vector<T>*>(from + col);
#pragma unroll
      for (int i = 0; i < kCount; i += 4) {
        auto* to = reinterpret_cast<float4*>(x + col + i);
        float4 four = add ? *to : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        Take(ToFloat(some.at[i]), scale, add, &four.x);
        Take(ToFloat(some.at[i + 1]), scale, add, &four.y);
        Take(ToFloat(some.at[i + 2]), scale, add, &four.z);
        Take(ToFloat(some.at[i + 3]), scale, add, &four.w);
        *to = four;
      }
    }
    return;
  }
  for (int64_t col = threadIdx.x; col < weight.cols; col += blockDim.x) Take(ToFloat(from[col]), scale, add, x + col);
}

__device__ void TakePackedRow(const PackedView& weight, int64_t row, float scale, bool add, float* x) {
  for (int64_t col = threadIdx.x; col < weight.cols; col += blockDim.x) {
    Take(PackedElement(weight, row, col), scale, add, x + col);
  }
}

__device__ void TakeRowOf(const TableView& table, int64_t row, float scale, bool add, float* x) {
  if (table.packed.data != nullptr) return TakePackedRow(table.packed, row, scale, add, x);
  switch (table.dense.dtype) {
    case DType::kF32:
      return TakeRow<float>(table.dense, row, scale, add, x);
    case DType::kF16:
      return TakeRow<__half>(table.dense, row, scale, add, x);
    case DType::kBF16:
      return TakeRow<__nv_bfloat16>(table.dense, row, scale, add, x);
  }
}

__device__ __forceinline__ bool Present(const TableView& table) {
  return table.dense.data != nullptr || table.packed.data != nullptr;
}

__global__ void EmbedKernel(StepView step, TableView tokens, float scale, TableView positions, int64_t cols, float* x) {
  LetNextBegin();
  AwaitEarlier();
  const int64_t token = blockIdx.x;
  const int32_t row_of_token = step.row_of_token[token];
  int32_t id = step.token_ids[token];  // on its way meanwhile
  if (row_of_token < 0) return;
  float* to = x + token * cols;
  const DeviceRow& row = step.rows[row_of_token];
  if (Present(tokens)) {
    if (id == kSampledId) id = step.sampled_ids[row.state_row];
    TakeRowOf(tokens, id == kNoNextId ? 0 : id, scale, false, to);
  }
  if (!Present(positions)) return;
  // A thread adds to the elements that it has put there itself.
  TakeRowOf(positions, row.position + token - row.token_begin, 1.0f, Present(tokens), to);
}

__global__ void NormKernel(NormWeight norm, const float* x, Output y, int64_t cols) {
  LetNextBegin();
  AwaitEarlier();
  const int64_t begin = int64_t{blockIdx.x} * cols;
  NormRow(norm, x + begin, cols, [&](int64_t col, float value) { Store(y, begin + col, value); });
}

template <int kVectors>
__global__ void __launch_bounds__(kNormThreads)
    NormShortKernel(NormWeight norm, const float* x, Output y, int64_t cols) {
  LetNextBegin();
  AwaitEarlier();
  const int64_t begin = int64_t{blockIdx.x} * cols;
  NormShortRow<kVectors>(norm, x + begin, cols,
                         [&](int64_t col, const float4& values) { StoreFour(y, begin + col, values); });
}

__global__ void AddNormedKernel(NormWeight norm, const float* x, float* y, int64_t cols) {
  LetNextBegin();
  AwaitEarlier();
  const int64_t begin = int64_t{blockIdx.x} * cols;
  NormRow(norm, x + begin, cols, [&](int64_t col, float value) { y[begin + col] += value; });
}

template <int kVectors>
__global__ void __launch_bounds__(kNormThreads)
    AddNormedShortKernel(NormWeight norm, const float* x, float* y, int64_t cols) {
  LetNextBegin();
  AwaitEarlier();
  const int64_t begin = int64_t{blockIdx.x} * cols;
  NormShortRow<kVectors>(norm, x + begin, cols, [&](int64_t col, const float4& values) {
    auto* to = reinterpret_cast<float4*>(y + begin + col);
    const float4 sum = *to;
    *to = make_float4(sum.x + values.x, sum.y + values.y, sum.z + values.z, sum.w + values.w);
  });
}

__global__ void SoftCapKernel(float cap, float* x, int64_t cols) {
  LetNextBegin();
  AwaitEarlier();
  float* row = x + int64_t{blockIdx.x} * cols;
  for (int64_t col = threadIdx.x; col < cols; col += blockDim.x) row[col] = cap * tanhf(row[col] / cap);
}

__global__ void __launch_bounds__(kThreads)
    GatherRowsKernel(const float* x, const int32_t* indices, float* y, int64_t cols) {
  LetNextBegin();
  AwaitEarlier();
  const float* from = x + int64_t{indices[blockIdx.x]} * cols;
  float* to = y + int64_t{blockIdx.x} * cols;
  if (cols % 4 == 0 && Aligned(x) && Aligned(y)) {
#pragma unroll 4
    for (int64_t col = threadIdx.x * 4; col < cols; col += blockDim.x * 4) {
      *reinterpret_cast<float4*>(to + col) = *reinterpret_cast<const float4*>(from + col);
    }
    return;
  }
  for (int64_t col = threadIdx.x; col < cols; col += blockDim.x) to[col] = from[col];
}

__global__ void __launch_bounds__(kThreads) RoundKernel(const float* x, Output y, int64_t cols, int64_t stride) {
  LetNextBegin();
  AwaitEarlier();
  const float* from = x + int64_t{blockIdx.x} * cols;
  const int64_t to = int64_t{blockIdx.x} * stride;
  if (cols % 4 == 0 && cols == stride && Aligned(x) && Aligned(y.data)) {
#pragma unroll 4
    for (int64_t col = threadIdx.x * 4; col < cols; col += blockDim.x * 4) {
      StoreFour(y, to + col, *reinterpret_cast<const float4*>(from + col));
    }
    return;
  }
  for (int64_t col = threadIdx.x; col < stride; col += blockDim.x) Store(y, to + col, col < cols ? from[col] : 0.0f);
}

__global__ void FinishProductKernel(const float* bias, bool activates, Activation activation, const float* x, Output y,
                                    int64_t cols) {
  LetNextBegin();
  AwaitEarlier();
  const int64_t begin = int64_t{blockIdx.x} * cols;
  for (int64_t col = threadIdx.x; col < cols; col += blockDim.x) {
    const float sum = bias != nullptr ? x[begin + col] + bias[col] : x[begin + col];
    Store(y, begin + col, activates ? Activate(activation, sum) : sum);
  }
}

__global__ void GateKernel(const float* bias, Activation activation, const float* x, Output y, int64_t cols) {
  LetNextBegin();
  AwaitEarlier();
  const float* gate = x + int64_t{blockIdx.x} * 2 * cols;
  const float* up = gate + cols;
  for (int64_t col = threadIdx.x; col < cols; col += blockDim.x) {
    const float g = bias != nullptr ? gate[col] + bias[col] : gate[col];
    const float u = bias != nullptr ? up[col] + bias[cols + col] : up[col];
    Store(y, int64_t{blockIdx.x} * cols + col, Activate(activation, g) * UpFactor(activation, u));
  }
}

dim3 OnePerRow(int64_t rows) { return {static_cast<uint32_t>(rows)}; }

// Calls function(std::integral_constant<int, vectors>, threads) where a norm may keep the row in registers, and says whether it may.
// How follows from the columns alone, so that the bits of a row do not depend on how many there are.
template <typename Function>
bool WithShortRow(const NormWeight& norm, int64_t cols, bool aligned, Function function) {
  const bool bias_aligned = norm.bias == nullptr || Aligned(norm.bias);
  const uint32_t vectors = BlocksFor(cols, 4 * int64_t{kNormThreads});
  if (cols % 4 != 0 || vectors > 4 || !aligned || !Aligned(norm.weight) || !bias_aligned) return false;
  const uint32_t threads = vectors > 1 ? kNormThreads : BlocksFor(cols, 4 * kWarp) * kWarp;
  if (vectors == 1) function(std::integral_constant<int, 1>(), threads);
  if (vectors == 2) function(std::integral_constant<int, 2>(), threads);
  if (vectors > 2) function(std::integral_constant<int, 4>(), threads);
  return true;
}

}  // namespace

void LaunchEmbed(cudaStream_t stream, const StepView& step, const TableView& tokens, float scale,
                 const TableView& positions, int64_t token_count, int64_t cols, float* x) {
  Launch(stream, OnePerRow(token_count), kThreads, EmbedKernel, step, tokens, scale, positions, cols, x);
}

void LaunchNorm(cudaStream_t stream, const NormWeight& norm, const float* x, const Output& y, int64_t rows,
                int64_t cols) {
  const bool is_short = WithShortRow(norm, cols, Aligned(x) && Aligned(y.data), [&](auto vectors, uint32_t threads) {
    Launch(stream, OnePerRow(rows), threads, NormShortKernel<decltype(vectors)::value>, norm, x, y, cols);
  });
  if (!is_short) Launch(stream, OnePerRow(rows), kThreads, NormKernel, norm, x, y, cols);
}

void LaunchAddNormed(cudaStream_t stream, const NormWeight& norm, const float* x, float* y, int64_t rows,
                     int64_t cols) {
  const bool is_short = WithShortRow(norm, cols, Aligned(x) && Aligned(y), [&](auto vectors, uint32_t threads) {
    Launch(stream, OnePerRow(rows), threads, AddNormedShortKernel<decltype(vectors)::value>, norm, x, y, cols);
  });
  if (!is_short) Launch(stream, OnePerRow(rows), kThreads, AddNormedKernel, norm, x, y, cols);
}

void LaunchSoftCap(cudaStream_t stream, float cap, float* x, int64_t rows, int64_t cols) {
  Launch(stream, OnePerRow(rows), kThreads, SoftCapKernel, cap, x, cols);
}

void LaunchGatherRows(cudaStream_t stream, const float* x, const int32_t* indices, float* y, int64_t rows,
                      int64_t cols) {
  Launch(stream, OnePerRow(rows), kThreads, GatherRowsKernel, x, indices, y, cols);
}

void LaunchRound(cudaStream_t stream, const float* x, DType dtype, void* y, int64_t rows, int64_t cols,
                 int64_t stride) {
  Launch(stream, OnePerRow(rows), kThreads, RoundKernel, x, Output(y, dtype), cols, stride);
}

void LaunchFinishProduct(cudaStream_t stream, const float* bias, bool activates, Activation activation, const float* x,
                         const Output& y, int64_t rows, int64_t cols) {
  Launch(stream, OnePerRow(rows), kThreads, FinishProductKernel, bias, activates, activation, x, y, cols);
}

void LaunchGate(cudaStream_t stream, const float* bias, Activation activation, const float* x, const Output& y,
                int64_t rows, int64_t cols) {
  Launch(stream, OnePerRow(rows), kThreads, GateKernel, bias, activation, x, y, cols);
}

}  // namespace hydrant::cuda
