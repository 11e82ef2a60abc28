#include <cassert>

#include "kernels/cuda/linear/matvec.h"
#include "kernels/cuda/runtime/activation.cuh"
#include "kernels/cuda/runtime/element.cuh"
#include "kernels/cuda/runtime/launch.h"
#include "kernels/cuda/runtime/overlap.cuh"

namespace hydrant::cuda {
namespace {

constexpr uint32_t kThreads = 128;
constexpr int kOutputs = 2;  // of a warp

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
template <typename T, typename X, int kRows>
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

template <typename T, typename X, int kRows>
__global__ void __launch_bounds__(kThreads)
    MatvecKernel(WeightView weight, Epilogue epilogue, Activation activation, const X* x, Output y) {
  constexpr int kPiece = Vector<T>::kCount;
  const int64_t warp = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp;
  const int64_t lane = threadIdx.x % kWarp;
  // A gated weight's halves belong together; otherwise neighbours do.
  const bool gated = epilogue == Epilogue::kGate;
  const int64_t first = gated ? warp : warp * kOutputs;
  const int64_t second = gated ? warp + weight.rows / 2 : first + 1;
  const bool works = first < (gated ? weight.rows / 2 : weight.rows);
  const T* data = static_cast<const T*>(weight.data);
  const auto* w0 = reinterpret_cast<const Vector<T>*>(data + (works ? first : 0) * weight.stride);
  // The last warp may have one output only: it computes it twice.
  const auto* w1 =
      works && second < weight.rows ? reinterpret_cast<const Vector<T>*>(data + second * weight.stride) : w0;

  float sums[kOutputs][kRows] = {};
  const int64_t pieces = works ? weight.stride / kPiece : 0;
  int64_t piece = lane;
  Vector<T> here[kOutputs], there[kOutputs];
  if (piece + kWarp < pieces) {  // no kernel writes weights
    here[0] = w0[piece], here[1] = w1[piece];
    there[0] = w0[piece + kWarp], there[1] = w1[piece + kWarp];
  }
  AwaitEarlier();
  if (!works) return;
  while (piece + kWarp < pieces) {
    AddPiece<T, X, kRows>(here, x, weight.cols, piece * kPiece, sums);
    AddPiece<T, X, kRows>(there, x, weight.cols, (piece + kWarp) * kPiece, sums);
    piece += 2 * kWarp;
    if (piece + kWarp >= pieces) break;
    here[0] = w0[piece], here[1] = w1[piece];
    there[0] = w0[piece + kWarp], there[1] = w1[piece + kWarp];
  }
  if (piece < pieces) {
    const Vector<T> rest[kOutputs] = {w0[piece], w1[piece]};
    AddPiece<T, X, kRows>(rest, x, weight.cols, piece * kPiece, sums);
  }

  LetNextBegin();  // the weight is read
  const int64_t outputs = gated ? weight.rows / 2 : weight.rows;
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
    float a = WarpReduce(sums[0][row], Sum());
    float b = WarpReduce(sums[1][row], Sum());
    if (lane != 0) continue;
    if (weight.bias != nullptr) {
      a += weight.bias[first];
      if (second < weight.rows) b += weight.bias[second];
    }
    const int64_t at = row * outputs + first;
    if (gated) {
      Store(y, at, Activate(activation, a) * UpFactor(activation, b));
      continue;
    }
    const bool both = second < weight.rows;
    float* to = static_cast<float*>(y.data) + at;
    switch (epilogue) {
      case Epilogue::kAccumulate:
        to[0] += a;
        if (both) to[1] += b;
        break;
      case Epilogue::kActivate:
        Store(y, at, Activate(activation, a));
        if (both) Store(y, at + 1, Activate(activation, b));
        break;
      default:
        to[0] = a;
        if (both) to[1] = b;
    }
  }
}

template <typename T, int kRows>
void LaunchRows(cudaStream_t stream, const WeightView& weight, Epilogue epilogue, Activation activation, const Input& x,
                const Output& y) {
  const int64_t warps = (weight.rows + kOutputs - 1) / kOutputs;  // of a gated weight, too
  const dim3 blocks(BlocksFor(warps, kThreads / kWarp));
  if (x.dtype == DType::kF32) {
    Launch(stream, blocks, kThreads, MatvecKernel<T, float, kRows>, weight, epilogue, activation,
           static_cast<const float*>(x.data), y);
  } else {
    Launch(stream, blocks, kThreads, MatvecKernel<T, T, kRows>, weight, epilogue, activation,
           static_cast<const T*>(x.data), y);
  }
}

}  // namespace

void LaunchMatvec(cudaStream_t stream, const WeightView& weight, Epilogue epilogue, Activation activation,
                  const Input& x, int64_t n, const Output& y) {
  assert(n >= 1 && n <= kMatvecRowsMax);
  assert(x.dtype == DType::kF32 || (x.dtype == weight.dtype && weight.stride == weight.cols));
  assert(y.dtype == DType::kF32 || epilogue == Epilogue::kActivate || epilogue == Epilogue::kGate);
  assert(Aligned(weight.data) && (Aligned(x.data) || (x.dtype == DType::kF32 && weight.cols % 4 != 0)));
  WithElement(weight.dtype, [&](auto element) {
    using T = decltype(element);
    if (n == 1) return LaunchRows<T, 1>(stream, weight, epilogue, activation, x, y);
    return LaunchRows<T, 2>(stream, weight, epilogue, activation, x, y);
  });
}

}  // namespace hydrant::cuda
