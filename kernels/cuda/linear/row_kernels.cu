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

constexpr uint32_t kThreads = 256;

// Row `row` of a weight times `scale`, added to x or put there.
template <typename T>
__device__ void TakeRow(const WeightView& weight, int64_t row, float scale, bool add, float* x) {
  const T* from = static_cast<const T*>(weight.data) + row * weight.stride;
  for (int64_t col = threadIdx.x; col < weight.cols; col += blockDim.x) {
    const float value = ToFloat(from[col]) * scale;
    x[col] = add ? x[col] + value : value;
  }
}

__device__ void TakePackedRow(const PackedView& weight, int64_t row, float scale, bool add, float* x) {
  for (int64_t col = threadIdx.x; col < weight.cols; col += blockDim.x) {
    const float value = PackedElement(weight, row, col) * scale;
    x[col] = add ? x[col] + value : value;
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
  if (step.row_of_token[token] < 0) return;
  float* to = x + token * cols;
  const DeviceRow& row = step.rows[step.row_of_token[token]];
  if (Present(tokens)) {
    int32_t id = step.token_ids[token];
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

__global__ void AddNormedKernel(NormWeight norm, const float* x, float* y, int64_t cols) {
  LetNextBegin();
  AwaitEarlier();
  const int64_t begin = int64_t{blockIdx.x} * cols;
  NormRow(norm, x + begin, cols, [&](int64_t col, float value) { y[begin + col] += value; });
}

__global__ void SoftCapKernel(float cap, float* x, int64_t cols) {
  LetNextBegin();
  AwaitEarlier();
  float* row = x + int64_t{blockIdx.x} * cols;
  for (int64_t col = threadIdx.x; col < cols; col += blockDim.x) row[col] = cap * tanhf(row[col] / cap);
}

__global__ void GatherRowsKernel(const float* x, const int32_t* indices, float* y, int64_t cols) {
  LetNextBegin();
  AwaitEarlier();
  const float* from = x + int64_t{indices[blockIdx.x]} * cols;
  float* to = y + int64_t{blockIdx.x} * cols;
  for (int64_t col = threadIdx.x; col < cols; col += blockDim.x) to[col] = from[col];
}

template <typename T>
__global__ void RoundKernel(const float* x, T* y, int64_t cols, int64_t stride) {
  LetNextBegin();
  AwaitEarlier();
  const float* from = x + int64_t{blockIdx.x} * cols;
  T* to = y + int64_t{blockIdx.x} * stride;
  for (int64_t col = threadIdx.x; col < stride; col += blockDim.x) {
    to[col] = FromFloat<T>(col < cols ? from[col] : 0.0f);
  }
}

// Neighbouring columns of a thread, which are read and written together: four where all rows begin at multiples of 16 bytes.
template <int kColumns>
struct Columns {
  float at[kColumns];
  __device__ explicit Columns(const float* from) {
    if constexpr (kColumns == 4) {
      const auto four = *reinterpret_cast<const float4*>(from);
      at[0] = four.x, at[1] = four.y, at[2] = four.z, at[3] = four.w;
    } else {
      at[0] = *from;
    }
  }
  __device__ void Add(const float* bias) {
    if (bias == nullptr) return;
    const Columns other(bias);
#pragma unroll
    for (int i = 0; i < kColumns; ++i) at[i] += other.at[i];
  }
  __device__ void StoreTo(const Output& y, int64_t first) const {
    if constexpr (kColumns == 4) {
      StorePair(y, first, at[0], at[1]);
      StorePair(y, first + 2, at[2], at[3]);
    } else {
      Store(y, first, at[0]);
    }
  }
};

template <int kColumns>
__global__ void FinishProductKernel(const float* bias, bool activates, Activation activation, const float* x, Output y,
                                    int64_t cols) {
  LetNextBegin();
  AwaitEarlier();
  const int64_t col = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kColumns, at = blockIdx.y * cols + col;
  if (col >= cols) return;
  Columns<kColumns> sums(x + at);
  sums.Add(bias != nullptr ? bias + col : nullptr);
  if (activates) {
#pragma unroll
    for (float& sum : sums.at) sum = Activate(activation, sum);
  }
  sums.StoreTo(y, at);
}

template <int kColumns>
__global__ void GateKernel(const float* bias, Activation activation, const float* x, Output y, int64_t cols) {
  LetNextBegin();
  AwaitEarlier();
  const int64_t col = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kColumns;
  if (col >= cols) return;
  const float* row = x + int64_t{blockIdx.y} * 2 * cols;
  Columns<kColumns> gate(row + col), up(row + cols + col);
  gate.Add(bias != nullptr ? bias + col : nullptr);
  up.Add(bias != nullptr ? bias + cols + col : nullptr);
#pragma unroll
  for (int i = 0; i < kColumns; ++i) gate.at[i] = Activate(activation, gate.at[i]) * UpFactor(activation, up.at[i]);
  gate.StoreTo(y, blockIdx.y * cols + col);
}

// Calls function(std::integral_constant<int, columns of a thread>, grid) for a kernel with threads for each of `cols` columns.
template <typename Function>
void OverColumns(int64_t rows, int64_t cols, const Function& function) {
  const auto grid = [&](int64_t each) { return dim3(BlocksFor(cols, kThreads * each), static_cast<uint32_t>(rows)); };
  if (cols % 4 == 0) return function(std::integral_constant<int, 4>(), grid(4));
  function(std::integral_constant<int, 1>(), grid(1));
}

dim3 OnePerRow(int64_t rows) { return {static_cast<uint32_t>(rows)}; }

}  // namespace

void LaunchEmbed(cudaStream_t stream, const StepView& step, const TableView& tokens, float scale,
                 const TableView& positions, int64_t token_count, int64_t cols, float* x) {
  Launch(stream, OnePerRow(token_count), kThreads, EmbedKernel, step, tokens, scale, positions, cols, x);
}

void LaunchNorm(cudaStream_t stream, const NormWeight& norm, const float* x, const Output& y, int64_t rows,
                int64_t cols) {
  Launch(stream, OnePerRow(rows), kThreads, NormKernel, norm, x, y, cols);
}

void LaunchAddNormed(cudaStream_t stream, const NormWeight& norm, const float* x, float* y, int64_t rows,
                     int64_t cols) {
  Launch(stream, OnePerRow(rows), kThreads, AddNormedKernel, norm, x, y, cols);
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
  WithElement(dtype, [&](auto element) {
    using T = decltype(element);
    Launch(stream, OnePerRow(rows), kThreads, RoundKernel<T>, x, static_cast<T*>(y), cols, stride);
  });
}

void LaunchFinishProduct(cudaStream_t stream, const float* bias, bool activates, Activation activation, const float* x,
                         const Output& y, int64_t rows, int64_t cols) {
  OverColumns(rows, cols, [&](auto columns, dim3 grid) {
    Launch(stream, grid, kThreads, FinishProductKernel<columns()>, bias, activates, activation, x, y, cols);
  });
}

void LaunchGate(cudaStream_t stream, const float* bias, Activation activation, const float* x, const Output& y,
                int64_t rows, int64_t cols) {
  OverColumns(rows, cols, [&](auto columns, dim3 grid) {
    Launch(stream, grid, kThreads, GateKernel<columns()>, bias, activation, x, y, cols);
  });
}

}  // namespace hydrant::cuda
