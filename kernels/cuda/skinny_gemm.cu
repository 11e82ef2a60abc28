#include <algorithm>
#include <cassert>

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/async_copy.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/skinny_gemm.h"
#include "kernels/cuda/tensor_core.cuh"

namespace hydrant::cuda {
namespace {

constexpr int kWarps = 4;
constexpr uint32_t kThreads = kWarps * kWarp;
// A tile is two runs of weight rows, of which each warp has 16: neighbours, or the halves of a gated weight, so that one thread
// holds a gate and what it lets through.
constexpr int kRunRows = kWarps * 16;
constexpr int kTileRows = 2 * kRunRows;
constexpr int kColumns = 32;           // of a stage
constexpr int kStride = kColumns + 8;  // elements from one staged row to the next: eight rows lie in different banks
constexpr int kPiece = 8;              // elements of one copy
constexpr int kBlocksPerProcessor =
    2;  // two stages of two blocks are 32 KB in flight, the share of 4.3 TB/s at 0.7 us is 23
constexpr int kStagesPerSplitMin = 8;

// As many as 48 KB hold.
template <int kRows>
inline constexpr int kStages = kRows <= 16 ? 4 : 3;

// Where a block's sums go, [threads] for each of `kRows` values that a thread has, if they are not all of the tile's.
struct SkinnyScratch {
  uint32_t* arrived;  // of each tile
  float* sums;        // [tile][split][kRows][kThreads]
};

__device__ __forceinline__ int64_t Least(int64_t a, int64_t b) { return a < b ? a : b; }

// A thread's sums, kRows of them: by run, eight rows of x, and MultiplyAdd's c.
template <int kRows>
struct SkinnySums {
  float c[2][kRows / 8][4] = {};
};

// The tile's sums over all columns are in `sums` of the block that gets true.
template <int kRows>
__device__ bool JoinSplits(const SkinnyScratch& scratch, SkinnySums<kRows>& sums) {
  const auto tile = int64_t{blockIdx.x}, splits = int64_t{gridDim.y};
  const auto at = [&](int64_t split, int run, int eight, int i) {
    const int value = (run * (kRows / 8) + eight) * 4 + i;
    return scratch.sums + ((tile * splits + split) * kRows + value) * kThreads + threadIdx.x;
  };
#pragma unroll
  for (int run = 0; run < 2; ++run) {
#pragma unroll
    for (int eight = 0; eight < kRows / 8; ++eight) {
#pragma unroll
      for (int i = 0; i < 4; ++i) *at(blockIdx.y, run, eight, i) = sums.c[run][eight][i];
    }
  }
  __threadfence();  // before it is told
  __syncthreads();
  __shared__ bool last;
  if (threadIdx.x == 0) last = atomicAdd(&scratch.arrived[tile], 1u) + 1 == splits;
  __syncthreads();
  if (!last) return false;
  __threadfence();
  sums = {};
  for (int64_t split = 0; split < splits; ++split) {
#pragma unroll
    for (int run = 0; run < 2; ++run) {
#pragma unroll
      for (int eight = 0; eight < kRows / 8; ++eight) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums.c[run][eight][i] += __ldcg(at(split, run, eight, i));
      }
    }
  }
  if (threadIdx.x == 0) scratch.arrived[tile] = 0;  // for the next launch
  return true;
}

// Grid: tiles x splits.
template <typename T, int kRows>
__global__ void __launch_bounds__(kThreads) SkinnyGemmKernel(WeightView weight, Finish finish, Activation activation,
                                                             const T* x, int32_t n, SkinnyScratch scratch, float* y) {
  alignas(16) __shared__ T weights[kStages<kRows>][kTileRows * kStride];
  alignas(16) __shared__ T inputs[kStages<kRows>][kRows * kStride];
  const int lane = static_cast<int>(threadIdx.x % kWarp), warp = static_cast<int>(threadIdx.x / kWarp);
  const bool gated = finish == Finish::kGate;
  const int64_t outputs = gated ? weight.rows / 2 : weight.rows;
  // The first weight row of each run, and the row behind its last.
  const int64_t first[2] = {
      int64_t{blockIdx.x} * (gated ? kRunRows : kTileRows),
      gated ? outputs + int64_t{blockIdx.x} * kRunRows : int64_t{blockIdx.x} * kTileRows + kRunRows};
  const int64_t behind[2] = {Least(first[0] + kRunRows, outputs), Least(first[1] + kRunRows, weight.rows)};

  // A thread copies one piece of every 32nd row.
  constexpr int kPieces = kColumns / kPiece, kRowsAtOnce = static_cast<int>(kThreads) / kPieces;
  const int own = static_cast<int>(threadIdx.x) / kPieces, piece = static_cast<int>(threadIdx.x) % kPieces * kPiece;
  const T* data = static_cast<const T*>(weight.data);
  const auto stage = [&](int64_t number, int slot) {
    const int64_t col = number * kColumns + piece;
    const bool inside = col < weight.stride;
#pragma unroll
    for (int from = 0; from < kTileRows; from += kRowsAtOnce) {
      const int run = from / kRunRows;
      const int64_t row = first[run] + from % kRunRows + own;
      const bool present = inside && row < behind[run];
      CopyAsync16(&weights[slot][(from + own) * kStride + piece], present ? data + row * weight.stride + col : data,
                  present);
    }
#pragma unroll
    for (int from = 0; from < kRows; from += kRowsAtOnce) {
      const int row = from + own;
      if (row >= kRows) break;
      const bool present = inside && row < n;
      CopyAsync16(&inputs[slot][row * kStride + piece], present ? x + row * weight.stride + col : x, present);
    }
  };

  SkinnySums<kRows> sums;
  const int64_t all = (weight.stride + kColumns - 1) / kColumns;
  const int64_t begin = all * blockIdx.y / gridDim.y, end = all * (blockIdx.y + 1) / gridDim.y;
#pragma unroll
  for (int ahead = 0; ahead < kStages<kRows> - 1; ++ahead) {
    if (begin + ahead < end) stage(begin + ahead, ahead);
    CommitCopies();
  }
  int slot = 0;
  for (int64_t number = begin; number < end; ++number) {
    WaitForCopies<kStages<kRows> - 2>();
    __syncthreads();  // everybody's copies are there, and nobody reads the stage before this one any more
    const int64_t next = number + kStages<kRows> - 1;
    if (next < end) stage(next, slot == 0 ? kStages<kRows> - 1 : slot - 1);
    CommitCopies();
#pragma unroll
    for (int k = 0; k < kColumns; k += 16) {
      uint32_t a[2][4];
#pragma unroll
      for (int run = 0; run < 2; ++run) {
        const int row = run * kRunRows + warp * 16 + lane % 16;
        LoadMatrices(&weights[slot][row * kStride + k + lane / 16 * 8], a[run]);
      }
#pragma unroll
      for (int sixteen = 0; sixteen < kRows / 16; ++sixteen) {
        uint32_t b[4];
        const int row = sixteen * 16 + lane / 16 * 8 + lane % 8;
        LoadMatrices(&inputs[slot][row * kStride + k + lane / 8 % 2 * 8], b);
#pragma unroll
        for (int run = 0; run < 2; ++run) {
          MultiplyAdd<T>(sums.c[run][sixteen * 2], a[run], {b[0], b[1]});
          MultiplyAdd<T>(sums.c[run][sixteen * 2 + 1], a[run], {b[2], b[3]});
        }
      }
    }
    slot = slot + 1 == kStages<kRows> ? 0 : slot + 1;
  }

  if (gridDim.y > 1 && !JoinSplits<kRows>(scratch, sums)) return;
#pragma unroll
  for (int eight = 0; eight < kRows / 8; ++eight) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = eight * 8 + lane % 4 * 2 + i % 2;
      if (row >= n) continue;
      float value[2];
      const int of_run = warp * 16 + lane / 4 + i / 2 * 8;
#pragma unroll
      for (int run = 0; run < 2; ++run) {
        value[run] = sums.c[run][eight][i];
        const int64_t output = first[run] + of_run;
        if (weight.bias != nullptr && output < behind[run]) value[run] += weight.bias[output];
      }
      float* to = y + int64_t{row} * outputs;
      if (gated) {
        if (first[0] + of_run < behind[0]) to[first[0] + of_run] = Activate(activation, value[0]) * value[1];
        continue;
      }
#pragma unroll
      for (int run = 0; run < 2; ++run) {
        const int64_t output = first[run] + of_run;
        if (output >= behind[run]) continue;
        if (finish == Finish::kAccumulate) {
          to[output] += value[run];
        } else {
          to[output] = finish == Finish::kActivate ? Activate(activation, value[run]) : value[run];
        }
      }
    }
  }
}

// Tiles that are divided at all; one for each multiprocessor at most.
int32_t DividedTilesMax(int32_t multiprocessors) { return kBlocksPerProcessor * multiprocessors / 2; }

size_t ArrivedBytes(int32_t multiprocessors) {
  return (static_cast<size_t>(DividedTilesMax(multiprocessors)) * sizeof(uint32_t) + 15) / 16 * 16;
}

}  // namespace

SkinnySplit SplitSkinny(int64_t rows, int64_t cols, bool fused, int32_t multiprocessors) {
  const auto tiles = static_cast<int32_t>(fused ? BlocksFor(rows / 2, kRunRows) : BlocksFor(rows, kTileRows));
  const int64_t fitting = std::max<int64_t>(cols / (kColumns * kStagesPerSplitMin), 1);
  const int64_t wanted = int64_t{kBlocksPerProcessor} * multiprocessors / std::max(tiles, 1);
  return {tiles, static_cast<int32_t>(std::clamp<int64_t>(wanted, 1, fitting))};
}

size_t SkinnyScratchBytes(int32_t multiprocessors) {
  return ArrivedBytes(multiprocessors) +
         static_cast<size_t>(kBlocksPerProcessor * multiprocessors) * kSkinnyRowsMax * kThreads * sizeof(float);
}

void LaunchSkinnyGemm(cudaStream_t stream, const WeightView& weight, Finish finish, Activation activation,
                      const void* x, int64_t n, int32_t multiprocessors, void* scratch, float* y) {
  assert(n >= 1 && n <= kSkinnyRowsMax && weight.dtype != DType::kF32);
  const SkinnySplit split = SplitSkinny(weight.rows, weight.cols, finish == Finish::kGate, multiprocessors);
  auto* bytes = static_cast<std::byte*>(scratch);
  const SkinnyScratch shared = {reinterpret_cast<uint32_t*>(bytes),
                                reinterpret_cast<float*>(bytes + ArrivedBytes(multiprocessors))};
  const dim3 grid(static_cast<uint32_t>(split.tiles), static_cast<uint32_t>(split.splits));
  const auto launch = [&](auto element) {
    using T = decltype(element);
    const auto with = [&](auto kernel) {
      Launch(stream, grid, kThreads, kernel, weight, finish, activation, static_cast<const T*>(x),
             static_cast<int32_t>(n), shared, y);
    };
    if (n <= 16) {
      with(SkinnyGemmKernel<T, 16>);
    } else if (n <= 32) {
      with(SkinnyGemmKernel<T, 32>);
    } else {
      with(SkinnyGemmKernel<T, 64>);
    }
  };
  if (weight.dtype == DType::kF16) {
    launch(__half{});
  } else {
    launch(__nv_bfloat16{});
  }
}

}  // namespace hydrant::cuda
