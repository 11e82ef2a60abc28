#include <cassert>
#include <type_traits>

#include "kernels/cuda/linear/matvec.h"
#include "kernels/cuda/runtime/activation.cuh"
#include "kernels/cuda/runtime/element.cuh"
#include "kernels/cuda/runtime/launch.h"
#include "kernels/cuda/runtime/overlap.cuh"

namespace hydrant::cuda {
namespace {

constexpr uint32_t kThreads = 128;
// Outputs of a warp: two, or one where that leaves too few warps to keep the memory busy. Pieces that a lane reads together.
constexpr int kOutputsMax = 2, kPiecesAtOnce = 4;
constexpr int64_t kWarpsPerProcessor = 8;

// Columns of one row of x from `col` on, rounded to the weight's type. After the last column are zeros, as in the weight's
// row; x has another row there.
template <typename T>
__device__ __forceinline__ void Load(const T* row, int64_t, int64_t col,
                                     float (&values)[Vector<T>::kCount]) requires(sizeof(T) == 2) {
  // Rows of x are whole pieces, as the weight's are.
  const auto piece = *reinterpret_cast<const Vector<T>*>(row + col);
#pragma unroll
  for (int i = 0; i < Vector<T>::kCount; ++i) values[i] = ToFloat(piece.at[i]);
}
template <typename T>
__device__ __forceinline__ void Load(const float* row, int64_t cols, int64_t col, float (&values)[Vector<T>::kCount]) {
  constexpr int kCount = Vector<T>::kCount, kFour = Vector<float>::kCount;
  if (cols % kFour == 0 && col + kCount <= cols) {
#pragma unroll
    for (int i = 0; i < kCount; i += kFour) {
      const auto piece = *reinterpret_cast<const Vector<float>*>(row + col + i);
#pragma unroll
      for (int j = 0; j < kFour; ++j) values[i + j] = ToFloat(FromFloat<T>(piece.at[j]));
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) values[i] = col + i < cols ? ToFloat(FromFloat<T>(row[col + i])) : 0.0f;
}

// sums[o][r] += the lane's share of the products of weight row o with row r of x.
template <typename T, typename X, int kOutputs, int kRows>
__device__ __forceinline__ void AddPiece(const Vector<T> (&w)[kOutputs], const X* x, int64_t cols, int64_t col,
                                         float (&sums)[kOutputs][kRows]) {
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    float values[Vector<T>::kCount];
    Load<T>(x + row * cols, cols, col, values);
#pragma unroll
    for (int i = 0; i < Vector<T>::kCount; ++i) {
#pragma unroll
      for (int o = 0; o < kOutputs; ++o) sums[o][row] = fmaf(ToFloat(w[o].at[i]), values[i], sums[o][row]);
    }
  }
}

template <typename T, typename X, int kOutputs, int kRows>
__global__ void __launch_bounds__(kThreads)
    MatvecKernel(WeightView weight, Epilogue epilogue, Activation activation, const X* x, Output y) {
  constexpr int kPiece = Vector<T>::kCount, kAtOnce = kPiecesAtOnce / kOutputs;
  constexpr int64_t kStep = kAtOnce * kWarp;
  const int64_t warp = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
  const int64_t lane = threadIdx.x % kWarp;
  // A gated weight's halves belong together; otherwise neighbours do.
  const bool gated = epilogue == Epilogue::kGate;
  const int64_t outputs = gated ? weight.rows / 2 : weight.rows;
  const int64_t first = gated ? warp : warp * kOutputs;
  const bool works = first < outputs;
  // The last warp may have one output only: it computes it twice.
  const bool both = kOutputs == 2 && works && (gated || first + 1 < weight.rows);
  const auto row_of = [&](int64_t row) {
    return reinterpret_cast<const Vector<T>*>(static_cast<const T*>(weight.data) + row * weight.stride);
  };
  const Vector<T>* w[kOutputs];
  w[0] = row_of(works ? first : 0);
  if constexpr (kOutputs == 2) w[1] = both ? row_of(gated ? first + outputs : first + 1) : w[0];

  float sums[kOutputs][kRows] = {};
  const int64_t pieces = works ? weight.stride / kPiece : 0;
  int64_t piece = lane;
  Vector<T> read[kAtOnce][kOutputs];
  const auto read_from = [&](int64_t from) {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
#pragma unroll
      for (int o = 0; o < kOutputs; ++o) read[i][o] = w[o][from + i * kWarp];
    }
  };
  const auto whole = [&] { return piece + kStep - kWarp < pieces; };
  if (whole()) read_from(piece);  // no kernel writes weights
  AwaitEarlier();
  if (!works) return;
  while (whole()) {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      AddPiece<T, X, kOutputs, kRows>(read[i], x, weight.cols, (piece + i * kWarp) * kPiece, sums);
    }
    piece += kStep;
    if (whole()) read_from(piece);
  }
  for (; piece < pieces; piece += kWarp) {
#pragma unroll
    for (int o = 0; o < kOutputs; ++o) read[0][o] = w[o][piece];
    AddPiece<T, X, kOutputs, kRows>(read[0], x, weight.cols, piece * kPiece, sums);
  }

  LetNextBegin();  // the weight is read
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    float sum[kOutputs];
#pragma unroll
    for (int o = 0; o < kOutputs; ++o) sum[o] = WarpReduce(sums[o][row], Sum());
    if (lane != 0) continue;
    const int64_t at = row * outputs + first;
    if (weight.bias != nullptr) {
      sum[0] += weight.bias[first];
      if (both) sum[kOutputs - 1] += weight.bias[gated ? first + outputs : first + 1];
    }
    if (gated) {
      Store(y, at, Activate(activation, sum[0]) * UpFactor(activation, sum[kOutputs - 1]));
      continue;
    }
    for (int o = 0; o < 1 + both; ++o) {
      switch (epilogue) {
        case Epilogue::kAccumulate:
          static_cast<float*>(y.data)[at + o] += sum[o];
          break;
        case Epilogue::kActivate:
          Store(y, at + o, Activate(activation, sum[o]));
          break;
        default:
          static_cast<float*>(y.data)[at + o] = sum[o];
      }
    }
  }
}

template <typename T, int kRows>
void LaunchRows(cudaStream_t stream, const WeightView& weight, Epilogue epilogue, Activation activation, const Input& x,
                int32_t multiprocessors, const Output& y) {
  const bool gated = epilogue == Epilogue::kGate;
  const int64_t outputs = gated ? weight.rows / 2 : weight.rows;
  const auto launch = [&](auto each) {
    const dim3 blocks(BlocksFor(outputs, (gated ? 1 : each()) * int64_t{kThreads / kWarp}));
    if (x.dtype == DType::kF32) {
      Launch(stream, blocks, kThreads, MatvecKernel<T, float, each(), kRows>, weight, epilogue, activation,
             static_cast<const float*>(x.data), y);
    } else {
      Launch(stream, blocks, kThreads, MatvecKernel<T, T, each(), kRows>, weight, epilogue, activation,
             static_cast<const T*>(x.data), y);
    }
  };
  const bool few = !gated && outputs < kOutputsMax * kWarpsPerProcessor * multiprocessors;
  if (few) return launch(std::integral_constant<int, 1>());
  launch(std::integral_constant<int, kOutputsMax>());
}

}  // namespace

void LaunchMatvec(cudaStream_t stream, const WeightView& weight, Epilogue epilogue, Activation activation,
                  const Input& x, int64_t n, int32_t multiprocessors, const Output& y) {
  assert(n >= 1 && n <= kMatvecRowsMax);
  assert(x.dtype == DType::kF32 || (x.dtype == weight.dtype && weight.stride == weight.cols));
  assert(y.dtype == DType::kF32 || epilogue == Epilogue::kActivate || epilogue == Epilogue::kGate);
  assert(Aligned(weight.data) && (Aligned(x.data) || (x.dtype == DType::kF32 && weight.cols % 4 != 0)));
  WithElement(weight.dtype, [&](auto element) {
    using T = decltype(element);
    if (n == 1) return LaunchRows<T, 1>(stream, weight, epilogue, activation, x, multiprocessors, y);
    return LaunchRows<T, 2>(stream, weight, epilogue, activation, x, multiprocessors, y);
  });
}

}  // namespace hydrant::cuda
