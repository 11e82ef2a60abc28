#include <cassert>

#include "kernels/cuda/linear/adapters.h"
#include "kernels/cuda/runtime/element.cuh"
#include "kernels/cuda/runtime/launch.h"
#include "kernels/cuda/runtime/overlap.cuh"

namespace hydrant::cuda {
namespace {

constexpr uint32_t kInnerThreads = 128, kAddThreads = 256;

// The slot of a token's adapter; -1: none, or padding.
__device__ __forceinline__ int32_t AdapterOf(const StepView& step, int64_t token) {
  const int32_t row = step.row_of_token[token];
  return row < 0 ? -1 : step.rows[row].adapter;
}

template <typename T, typename X>
__global__ void AdapterInnerKernel(StepView step, AdapterView view, int64_t first_token, const X* x, float* inner) {
  AwaitEarlier();
  const int64_t token = blockIdx.x;
  const int32_t slot = AdapterOf(step, first_token + token);
  if (slot < 0) return;
  const auto part = static_cast<int32_t>(blockIdx.y);
  const int32_t at = slot * view.parts + part;
  const auto warp = static_cast<int32_t>(threadIdx.x / kWarp), lane = static_cast<int32_t>(threadIdx.x % kWarp);
  const X* row = x + token * view.cols;
  for (int32_t j = warp; j < view.ranks[at]; j += static_cast<int32_t>(kInnerThreads / kWarp)) {
    const T* a = static_cast<const T*>(view.a) + (int64_t{at} * view.rank_max + j) * view.cols;
    float sum = 0.0f;
    for (int64_t col = lane; col < view.cols; col += kWarp) sum = fmaf(ToFloat(row[col]), ToFloat(a[col]), sum);
    sum = WarpReduce(sum, Sum());
    if (lane == 0) inner[(token * view.parts + part) * view.rank_max + j] = sum * view.scales[at];
  }
}

template <typename T>
__global__ void AddAdaptersKernel(StepView step, AdapterView view, int64_t first_token, const float* inner, float* y) {
  AwaitEarlier();
  const int64_t token = blockIdx.x;
  const int32_t slot = AdapterOf(step, first_token + token);
  const int64_t row = int64_t{blockIdx.y} * blockDim.x + threadIdx.x;
  if (slot < 0 || row >= view.rows) return;
  int32_t part = 0;
  while (row >= view.part_ends[part]) ++part;
  const int32_t rank = view.ranks[slot * view.parts + part];
  if (rank == 0) return;
  const int64_t first = part == 0 ? 0 : view.part_ends[part - 1];
  const T* b = static_cast<const T*>(view.b) + (slot * view.rows + first) * view.rank_max + (row - first) * rank;
  const float* h = inner + (token * view.parts + part) * view.rank_max;
  float sum = 0.0f;
  for (int32_t j = 0; j < rank; ++j) sum = fmaf(ToFloat(b[j]), h[j], sum);
  y[token * view.rows + row] += sum;
}

template <typename T>
void LaunchInnerOf(cudaStream_t stream, const StepView& step, const AdapterView& view, int64_t first_token,
                   const Input& x, int64_t n, float* inner) {
  const dim3 blocks(static_cast<uint32_t>(n), static_cast<uint32_t>(view.parts));
  WithElement(x.dtype, [&](auto element) {
    using X = decltype(element);
    Launch(stream, blocks, kInnerThreads, AdapterInnerKernel<T, X>, step, view, first_token,
           static_cast<const X*>(x.data), inner);
  });
}

}  // namespace

void LaunchAdapterInner(cudaStream_t stream, const StepView& step, const AdapterView& view, int64_t first_token,
                        const Input& x, int64_t n, float* inner) {
  assert(view.dtype != DType::kF16);
  if (view.dtype == DType::kF32) {
    LaunchInnerOf<float>(stream, step, view, first_token, x, n, inner);
  } else {
    LaunchInnerOf<__nv_bfloat16>(stream, step, view, first_token, x, n, inner);
  }
}

void LaunchAddAdapters(cudaStream_t stream, const StepView& step, const AdapterView& view, int64_t first_token,
                       const float* inner, int64_t n, float* y) {
  assert(view.dtype != DType::kF16);
  const dim3 blocks(static_cast<uint32_t>(n), BlocksFor(view.rows, kAddThreads));
  if (view.dtype == DType::kF32) {
    Launch(stream, blocks, kAddThreads, AddAdaptersKernel<float>, step, view, first_token, inner, y);
  } else {
    Launch(stream, blocks, kAddThreads, AddAdaptersKernel<__nv_bfloat16>, step, view, first_token, inner, y);
  }
}

}  // namespace hydrant::cuda
