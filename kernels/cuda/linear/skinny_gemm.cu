#include <algorithm>
#include <cassert>

#include "kernels/cuda/linear/skinny_gemm.h"
#include "kernels/cuda/runtime/activation.cuh"
#include "kernels/cuda/runtime/async_copy.cuh"
#include "kernels/cuda/runtime/element.cuh"
#include "kernels/cuda/runtime/launch.h"
#include "kernels/cuda/runtime/overlap.cuh"
#include "kernels/cuda/runtime/tensor_core.cuh"

namespace hydrant::cuda {
namespace {

constexpr int kWarps = 4;
constexpr uint32_t kThreads = kWarps * kWarp;
// A tile is two runs of weight rows, of which each warp has 16: neighbours, or the halves of a gated weight, so that one block
// has a gate and what it lets through.
constexpr int kRunRows = kWarps * 16;
constexpr int kTileRows = 2 * kRunRows;
static_assert(kTileRows == kThreads);  // FinishTile
constexpr int kColumns = 32;           // of a stage
constexpr int kPiece = 8;              // elements of one copy
constexpr int kPieces = kColumns / kPiece;
// Two stages of two blocks are 32 KB in flight on each multiprocessor; its share of 4.3 TB/s at 0.7 us is 23.
constexpr int kBlocksPerProcessor = 2;
constexpr int kStagesPerSplitMin = 8;

// As many as 48 KB hold beside a flag.
template <int kRows>
inline constexpr int kStages = kRows <= 16   ? 5
                               : kRows <= 32 ? 4
                                             : 3;

// Elements of one stage: those of the weight, then those of x.
template <int kRows>
inline constexpr int kStageElements = (kTileRows + kRows) * kColumns;

// Where a piece of a staged row is. Two rows share the banks' 128 bytes, so the pieces of each two rows are permuted in their own
// way: eight rows of one piece, which ldmatrix reads, and two rows of all pieces, which eight threads write, meet every bank once.
__device__ __forceinline__ int PlaceOf(int row, int piece) {
  return row * kColumns + (piece ^ (row / 2 % kPieces)) * kPiece;
}

// What blocks of one tile tell each other.
struct SkinnyScratch {
  uint32_t* arrived;  // of each tile
  float4* sums;       // [tile][split][kRows / 4][kThreads]
};

// A thread's sums: by run and eight rows of x, MultiplyAdd's c.
template <int kRows>
struct SkinnySums {
  float c[2][kRows / 8][4] = {};
};

// True in the block of a tile that arrives last: it gets the sums over all columns.
template <int kRows>
__device__ bool JoinSplits(const SkinnyScratch& scratch, SkinnySums<kRows>& sums) {
  constexpr int kEights = kRows / 8;
  const int64_t tile = blockIdx.x;
  const int splits = static_cast<int>(gridDim.y);
  const auto at = [&](int split, int run, int eight) {
    return scratch.sums + ((tile * splits + split) * (kRows / 4) + run * kEights + eight) * kThreads + threadIdx.x;
  };
#pragma unroll
  for (int run = 0; run < 2; ++run) {
#pragma unroll
    for (int eight = 0; eight < kEights; ++eight) {
      const float(&c)[4] = sums.c[run][eight];
      *at(static_cast<int>(blockIdx.y), run, eight) = make_float4(c[0], c[1], c[2], c[3]);
    }
  }
  __threadfence();  // before it is told
  __syncthreads();
  __shared__ bool last;
  if (threadIdx.x == 0) last = atomicAdd(&scratch.arrived[tile], 1u) + 1 == gridDim.y;
  __syncthreads();
  if (!last) return false;
  __threadfence();
  sums = {};
  // 16 loads of a thread are in flight, of however many splits.
#pragma unroll(64 / kRows)
  for (int split = 0; split < splits; ++split) {
#pragma unroll
    for (int run = 0; run < 2; ++run) {
#pragma unroll
      for (int eight = 0; eight < kEights; ++eight) {
        const float4 part = __ldcg(at(split, run, eight));
        float(&c)[4] = sums.c[run][eight];
        c[0] += part.x;
        c[1] += part.y;
        c[2] += part.z;
        c[3] += part.w;
      }
    }
  }
  if (threadIdx.x == 0) scratch.arrived[tile] = 0;  // for the next launch
  return true;
}

// Bias, activation or gate, and the way to y of a tile's sums, which the block shares: [n] rows of kFinishStride.
constexpr int kFinishStride = kTileRows + 4;  // a thread's rows are two apart: eight banks

__device__ void FinishTile(const WeightView& weight, Epilogue epilogue, Activation activation, const float* sums, int n,
                           const Output& y) {
  const int thread = static_cast<int>(threadIdx.x);
  if (epilogue == Epilogue::kGate) {
    // Two rows at a time.
    const int64_t outputs = weight.rows / 2;
    const int of_run = thread % kRunRows;
    const int64_t output = int64_t{blockIdx.x} * kRunRows + of_run;
    if (output >= outputs) return;
    const float gate_bias = weight.bias != nullptr ? weight.bias[output] : 0.0f;
    const float up_bias = weight.bias != nullptr ? weight.bias[outputs + output] : 0.0f;
#pragma unroll 1
    for (int row = thread / kRunRows; row < n; row += 2) {
      const float* both = sums + row * kFinishStride + of_run;
      Store(y, row * outputs + output,
            Activate(activation, both[0] + gate_bias) * UpFactor(activation, both[kRunRows] + up_bias));
    }
    return;
  }
  const int64_t output = int64_t{blockIdx.x} * kTileRows + thread;
  if (output >= weight.rows) return;
  const float bias = weight.bias != nullptr ? weight.bias[output] : 0.0f;
  if (epilogue == Epilogue::kAccumulate) {
    float* to = static_cast<float*>(y.data);
    // Rows are read together: after a store, which might be to the same place, no load may begin.
    constexpr int kAtOnce = 8;
    for (int first = 0; first < n; first += kAtOnce) {
      float before[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) before[i] = first + i < n ? to[(first + i) * weight.rows + output] : 0.0f;
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int row = first + i;
        if (row < n) to[row * weight.rows + output] = before[i] + (sums[row * kFinishStride + thread] + bias);
      }
    }
    return;
  }
#pragma unroll 1
  for (int row = 0; row < n; ++row) {
    const float value = sums[row * kFinishStride + thread] + bias;
    Store(y, row * weight.rows + output, epilogue == Epilogue::kActivate ? Activate(activation, value) : value);
  }
}

// Grid: tiles x splits.
template <typename T, int kRows>
__global__ void __launch_bounds__(kThreads)
    SkinnyGemmKernel(WeightView weight, Epilogue epilogue, Activation activation, const T* x, int32_t n,
                     SkinnyScratch scratch, Output y) {
  AwaitEarlier();
  alignas(16) __shared__ T stages[kStages<kRows> * kStageElements<kRows>];
  const int lane = static_cast<int>(threadIdx.x % kWarp), warp = static_cast<int>(threadIdx.x / kWarp);
  const bool gated = epilogue == Epilogue::kGate;
  // The first weight row of each run, and the row after its last.
  const int64_t half = weight.rows / 2, tile = blockIdx.x;
  const int64_t first[2] = {tile * (gated ? kRunRows : kTileRows),
                            gated ? half + tile * kRunRows : tile * kTileRows + kRunRows};
  const int64_t behind[2] = {gated ? half : weight.rows, weight.rows};

  // A thread copies one piece of every 32nd row.
  constexpr int kRowsAtOnce = static_cast<int>(kThreads) / kPieces;
  const int own = static_cast<int>(threadIdx.x) / kPieces, piece = static_cast<int>(threadIdx.x) % kPieces;
  const T* data = static_cast<const T*>(weight.data);
  const auto stage = [&](int number, T* to) {
    const int64_t col = int64_t{number} * kColumns + piece * kPiece;
    const bool inside = col < weight.stride;
#pragma unroll
    for (int from = 0; from < kTileRows; from += kRowsAtOnce) {
      const int run = from / kRunRows;
      const int64_t row = first[run] + from % kRunRows + own;
      const bool present = inside && row < behind[run];
      CopyAsync16(to + PlaceOf(from + own, piece), present ? data + row * weight.stride + col : data, present);
    }
#pragma unroll
    for (int from = 0; from < kRows; from += kRowsAtOnce) {
      const int row = from + own;
      if (row >= kRows) break;
      const bool present = inside && row < n;
      CopyAsync16(to + kTileRows * kColumns + PlaceOf(row, piece), present ? x + row * weight.stride + col : x,
                  present);
    }
  };

  SkinnySums<kRows> sums;
  const auto all = static_cast<uint32_t>((weight.stride + kColumns - 1) / kColumns);
  const int begin = static_cast<int>(all * blockIdx.y / gridDim.y);
  const int end = static_cast<int>(all * (blockIdx.y + 1) / gridDim.y);
#pragma unroll
  for (int ahead = 0; ahead < kStages<kRows> - 1; ++ahead) {
    if (begin + ahead < end) stage(begin + ahead, stages + ahead * kStageElements<kRows>);
    CommitCopies();
  }
  int slot = 0;
  for (int number = begin; number < end; ++number) {
    WaitForCopies<kStages<kRows> - 2>();
    __syncthreads();  // everybody's copies are there, and nobody reads the stage before this one any more
    const int next = number + kStages<kRows> - 1;
    if (next < end) stage(next, stages + (slot == 0 ? kStages<kRows> - 1 : slot - 1) * kStageElements<kRows>);
    CommitCopies();
    const T* weights = stages + slot * kStageElements<kRows>;
    const T* inputs = weights + kTileRows * kColumns;
#pragma unroll
    for (int k = 0; k < kPieces; k += 2) {  // 16 columns
      uint32_t a[2][4];
#pragma unroll
      for (int run = 0; run < 2; ++run) {
        LoadMatrices(weights + PlaceOf(run * kRunRows + warp * 16 + lane % 16, k + lane / 16), a[run]);
      }
#pragma unroll
      for (int sixteen = 0; sixteen < kRows / 16; ++sixteen) {
        uint32_t b[4];
        LoadMatrices(inputs + PlaceOf(sixteen * 16 + lane / 16 * 8 + lane % 8, k + lane / 8 % 2), b);
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
  __syncthreads();  // nobody reads a stage any more
  static_assert(kRows * kFinishStride * sizeof(float) <= sizeof(stages));
  auto* finished = reinterpret_cast<float*>(stages);
#pragma unroll
  for (int run = 0; run < 2; ++run) {
#pragma unroll
    for (int eight = 0; eight < kRows / 8; ++eight) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = eight * 8 + lane % 4 * 2 + i % 2, of_tile = run * kRunRows + warp * 16 + lane / 4 + i / 2 * 8;
        finished[row * kFinishStride + of_tile] = sums.c[run][eight][i];
      }
    }
  }
  __syncthreads();
  FinishTile(weight, epilogue, activation, finished, n, y);
}

// Tiles that are divided: each takes two blocks at least.
int32_t DividedTilesMax(int32_t multiprocessors) { return kBlocksPerProcessor * multiprocessors / 2; }

size_t ArrivedBytes(int32_t multiprocessors) {
  return (static_cast<size_t>(DividedTilesMax(multiprocessors)) * sizeof(uint32_t) + 15) / 16 * 16;
}

}  // namespace

SkinnySplit SplitSkinny(int64_t rows, int64_t cols, bool gated, int32_t multiprocessors) {
  const auto tiles = static_cast<int32_t>(gated ? BlocksFor(rows / 2, kRunRows) : BlocksFor(rows, kTileRows));
  const int64_t fitting = std::max<int64_t>(cols / (kColumns * kStagesPerSplitMin), 1);
  const int64_t wanted = int64_t{kBlocksPerProcessor} * multiprocessors / std::max(tiles, 1);
  return {tiles, static_cast<int32_t>(std::clamp<int64_t>(wanted, 1, fitting))};
}

size_t SkinnyScratchBytes(int32_t multiprocessors) {
  return ArrivedBytes(multiprocessors) +
         static_cast<size_t>(kBlocksPerProcessor * multiprocessors) * kSkinnyRowsMax * kThreads * sizeof(float);
}

void LaunchSkinnyGemm(cudaStream_t stream, const WeightView& weight, Epilogue epilogue, Activation activation,
                      const void* x, int64_t n, int32_t multiprocessors, void* scratch, const Output& y) {
  assert(n >= 1 && n <= kSkinnyRowsMax && weight.dtype != DType::kF32);
  assert(y.dtype == DType::kF32 || epilogue == Epilogue::kActivate || epilogue == Epilogue::kGate);
  assert(weight.stride % kPiece == 0 && Aligned(weight.data) && Aligned(x) && Aligned(scratch));
  const SkinnySplit split = SplitSkinny(weight.rows, weight.cols, epilogue == Epilogue::kGate, multiprocessors);
  assert(split.splits == 1 || (split.tiles <= DividedTilesMax(multiprocessors) &&
                               split.tiles * split.splits <= kBlocksPerProcessor * multiprocessors));
  auto* bytes = static_cast<std::byte*>(scratch);
  const SkinnyScratch between = {reinterpret_cast<uint32_t*>(bytes),
                                 reinterpret_cast<float4*>(bytes + ArrivedBytes(multiprocessors))};
  const dim3 grid(static_cast<uint32_t>(split.tiles), static_cast<uint32_t>(split.splits));
  const auto launch = [&](auto element) {
    using T = decltype(element);
    const auto with = [&](auto kernel) {
      Launch(stream, grid, kThreads, kernel, weight, epilogue, activation, static_cast<const T*>(x),
             static_cast<int32_t>(n), between, y);
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
