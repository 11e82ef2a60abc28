// Products of many rows with weights that are kept as they are stored, on Hopper's products of warpgroups: codes are the first
// operand, in registers, and rows of x the second, in shared memory. Each warp has a panel, as in the kernel for many rows
// (packed_product.cu), and the same sums in the same order.
#include "kernels/cuda/linear/packed_finish.cuh"
#include "kernels/cuda/linear/packed_panel.cuh"
#include "kernels/cuda/linear/packed_product_warpgroup.h"
#include "kernels/cuda/runtime/async_copy.cuh"
#include "kernels/cuda/runtime/launch.h"
#include "kernels/cuda/runtime/overlap.cuh"
#include "kernels/cuda/runtime/shared_memory.cuh"
#include "kernels/cuda/runtime/warpgroup.cuh"

namespace hydrant::cuda {
namespace {

constexpr int kGroupWarps = 4, kGroups = 2;
constexpr int kThreads = kGroups * kGroupWarps * static_cast<int>(kWarp);
// With 16 a thread has 248 to 255 registers (nvcc 13.0), and half as many products begin: no device has timed that yet.
constexpr int kEights = 8;
constexpr int kRows = kEights * 8;      // of x, in a block
constexpr int kSums = 2 * kEights * 4;  // of a thread
constexpr int kStageTiles = 2;          // kPanelColumns inputs
constexpr int kStageElements = kRows * kPanelColumns;

// Tiles of a warp's panel on their way to shared memory, each with its header in front.
constexpr int kDepth = 64 / kEights;
constexpr int64_t SlotBytes(PackedLayout layout) { return HeaderBytes(layout.scales) + TileBytes(layout); }

template <WeightFormat kFormat>
constexpr size_t SharedBytes() {
  return 2 * kStageElements * sizeof(__nv_bfloat16) + size_t{kThreads} * kSums * sizeof(float) +
         static_cast<size_t>(kGroups * kGroupWarps * kDepth * SlotBytes(PackedLayoutOf(kFormat)));
}

// All lanes of a warp.
template <WeightFormat kFormat>
__device__ __forceinline__ void BringTile(const std::byte* panel, int32_t number, std::byte* slot) {
  constexpr PackedLayout kLayout = PackedLayoutOf(kFormat);
  constexpr int kHeader = HeaderBytes(kLayout.scales), kTile = TileBytes(kLayout);
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const std::byte* tile = panel + TileAt(kLayout, number);
#pragma unroll
  for (int at = 0; at < kTile; at += static_cast<int>(kWarp) * 16) {
    const int own = at + lane * 16;
    if (own < kTile) CopyAsync16(slot + kHeader + own, tile + own, true);
  }
  if (lane * 16 < kHeader) CopyAsync16(slot + lane * 16, panel + HeaderAt(kLayout, number) + lane * 16, true);
}

// Adds the products of a tile, as AddTile forms them, with inputs [kRows][32] from `staged` on.
template <WeightFormat kFormat>
__device__ __forceinline__ void AddStagedTile(const PackedTile<kFormat>& tile, PanelOperand staged,
                                              PanelSums<kEights>& sums) {
  using Tile = PackedTile<kFormat>;
  constexpr uint32_t kOne = 0x3f803f80u;  // twice
  constexpr uint32_t kOnes[2][4] = {{kOne, kOne, kOne, kOne}, {kOne, kOne, kOne, kOne}};
  // There are registers for sums of inputs beside products, or they are formed for each 16 outputs.
  constexpr bool kKeepsAll = Tile::kHasMinimum && kEights == 8;
  const PanelOperand inputs[2] = {staged, staged + 16 * 2};
  uint32_t codes[2][2][4];
#pragma unroll
  for (int i = 0; i < 4; ++i) DecodeCodes<kFormat>(tile, i / 2, i % 2, codes[i / 2][i % 2]);
  float part[kEights][4], kept[kEights][4];
  const auto multiply = [&](const uint32_t(&a)[2][4], float(&to)[kEights][4]) {
    WarpgroupMultiply<__nv_bfloat16, false>(to, a[0], inputs[0], false);
    WarpgroupMultiply<__nv_bfloat16, false>(to, a[1], inputs[1], true);
  };
  const auto wait = [](float(&of)[kEights][4]) {
    CommitProducts();
    WaitForProducts<0>();
    HoldRegisters(of);
  };
  float steps[4][2], minima[4];
#pragma unroll
  for (int m = 0; m < 2; ++m) {
    // `low` multiplies what belongs to output 16m + g, `high` to 16m + g + 8.
    const auto add = [&](const float(&of)[kEights][4], float low, float high) {
#pragma unroll
      for (int i = 0; i < kEights * 4; ++i) {
        float& c = sums.c[m][i / 4][i % 4];
        c = fmaf(of[i / 4][i % 4], i % 4 < 2 ? low : high, c);
      }
    };
    BeginProducts();
    if constexpr (Tile::kHalves) {
      WarpgroupMultiply<__nv_bfloat16, false>(part, codes[m][0], inputs[0], false);
    } else {
      multiply(codes[m], part);
    }
    if constexpr (kKeepsAll) {
      if (m == 0) multiply(kOnes, kept);
    }
#pragma unroll
    for (int i = 2 * m; i < 2 * m + 2; ++i) DecodeScales<kFormat>(tile, i, steps[i], minima[i]);
    wait(part);
    if constexpr (kKeepsAll) {
      if (m == 0) HoldRegisters(kept);
    }
    add(part, steps[2 * m][0], steps[2 * m + 1][0]);
    if constexpr (Tile::kHalves) {
      BeginProducts();
      WarpgroupMultiply<__nv_bfloat16, false>(part, codes[m][1], inputs[1], false);
      wait(part);
      add(part, steps[2 * m][1], steps[2 * m + 1][1]);
    }
    if constexpr (kKeepsAll) add(kept, minima[2 * m], minima[2 * m + 1]);
    if constexpr (Tile::kHasMinimum && !kKeepsAll) {
      BeginProducts();
      multiply(kOnes, part);
      wait(part);
      add(part, minima[2 * m], minima[2 * m + 1]);
    }
  }
}

// A stage of x on its way to shared memory, in pieces of 16 inputs of a row. Tensor cores count inputs 4t and
// 4t + 1 of a half tile as 2t and 2t + 1, and 4t + 2 and 4t + 3 as 8 + 2t and 9 + 2t (packed_layout.h).
struct RowsOnTheirWay {
  static constexpr int kPieces = kStageElements / 16 / kThreads;
  uint4 read[kPieces][2];

  __device__ __forceinline__ void Read(const __nv_bfloat16* x, int64_t cols, int32_t rows, int32_t stage) {
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const int piece = i * kThreads + static_cast<int>(threadIdx.x), row = piece / 4;
      const int64_t col = int64_t{stage} * kPanelColumns + piece % 4 * 16;
      const bool present = row < rows && col < cols;
      const auto* from = reinterpret_cast<const uint4*>(x + row * cols + col);
      read[i][0] = present ? from[0] : uint4{};
      read[i][1] = present ? from[1] : uint4{};
    }
  }
  __device__ __forceinline__ void Put(__nv_bfloat16* stage) const {
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const int piece = i * kThreads + static_cast<int>(threadIdx.x), row = piece / 4, chunk = piece % 4 * 2;
      const uint4 &a = read[i][0], &b = read[i][1];
      *reinterpret_cast<uint4*>(stage + InPanel(row, chunk)) = {a.x, a.z, b.x, b.z};
      *reinterpret_cast<uint4*>(stage + InPanel(row, chunk + 1)) = {a.y, a.w, b.y, b.w};
    }
  }
};

// Grid: rows of x, panels of all warps. kGated: of two warpgroups one has panels of the gate, `weight`, the other the same of `up`.
template <WeightFormat kFormat, bool kGated>
__global__ void __launch_bounds__(kThreads, 1)
    PackedWarpgroupKernel(PackedView weight, PackedView up, Epilogue epilogue, Activation activation,
                          const __nv_bfloat16* x, int32_t n, Output y, int64_t y_stride) {
  AwaitEarlier();
  auto* stages = reinterpret_cast<__nv_bfloat16*>(SharedMemory());
  auto* totals = reinterpret_cast<float*>(stages + 2 * kStageElements) + threadIdx.x;  // kThreads apart
  const int lane = static_cast<int>(threadIdx.x % kWarp), warp = static_cast<int>(threadIdx.x / kWarp);
  const int g = lane / 4, t = lane % 4;
  const bool of_up = kGated && warp >= kGroupWarps;
  const PackedView& own = of_up ? up : weight;
  const int32_t first = static_cast<int32_t>(blockIdx.x) * kRows;
  const auto tiles = static_cast<int32_t>(weight.cols / kTileInputs);
  const int32_t staged = (tiles + kStageTiles - 1) / kStageTiles;
  // Warps behind the last panel read it, too, and keep nothing.
  const int64_t panels = PackedPanels(weight.rows);
  const int64_t number = kGated ? int64_t{blockIdx.y} * kGroupWarps + warp % kGroupWarps
                                : int64_t{blockIdx.y} * kGroups * kGroupWarps + warp;
  const std::byte* panel = Panel(own, number < panels ? number : panels - 1);

  RowsOnTheirWay rows;
  const __nv_bfloat16* from = x + first * weight.cols;
  rows.Read(from, weight.cols, n - first, 0);
  constexpr PackedLayout kLayout = PackedLayoutOf(kFormat);
  std::byte* slots = SharedMemory() + 2 * kStageElements * sizeof(__nv_bfloat16) + kThreads * kSums * sizeof(float) +
                     warp * kDepth * SlotBytes(kLayout);
#pragma unroll
  for (int i = 0; i < kDepth - 1; ++i) {
    if (i < tiles) BringTile<kFormat>(panel, i, slots + i * SlotBytes(kLayout));
    CommitCopies();
  }
  rows.Put(stages);
  rows.Read(from, weight.cols, n - first, 1);
  int32_t tile = 0;
#pragma unroll 1
  for (int run = 0; run < kRuns; ++run) {
    PanelSums<kEights> sums;
#pragma unroll 1
    for (const int32_t end = RunBegin(tiles, run + 1); tile < end; ++tile) {
      WaitForCopies<kDepth - 2>();
      __syncwarp();  // all lanes' copies of this tile are there, and the slot of the one before has been read
      const std::byte* slot = slots + tile % kDepth * SlotBytes(kLayout);
      const PackedTile<kFormat> now = LoadTile<kFormat>(slot + HeaderBytes(kLayout.scales), slot);
      const int32_t coming = tile + kDepth - 1;
      if (coming < tiles) BringTile<kFormat>(panel, coming, slots + coming % kDepth * SlotBytes(kLayout));
      CommitCopies();
      const int32_t stage = tile / kStageTiles;
      if (tile % kStageTiles == 0) {
        // The stage is there for all, and everybody is done with the one before.
        ShowToProducts();
        __syncthreads();
        if (stage + 1 < staged) rows.Put(stages + (stage + 1) % 2 * kStageElements);
        if (stage + 2 < staged) rows.Read(from, weight.cols, n - first, stage + 2);
      }
      const __nv_bfloat16* inputs = stages + stage % 2 * kStageElements + tile % kStageTiles * kTileInputs;
      AddStagedTile<kFormat>(now, PanelOperand::RowsAsColumns(inputs), sums);
    }
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      const float of_run = sums.c[i / 4 % 2][i / 8][i % 4];
      totals[i * kThreads] = run == 0 ? of_run : totals[i * kThreads] + of_run;
    }
  }
  // Sums of `up` are where those of the gate's threads are, a warpgroup further on.
  if constexpr (kGated) __syncthreads();
  if (of_up) return;
#pragma unroll 4
  for (int i = 0; i < kSums; ++i) {
    const int32_t row = first + i / 8 * 8 + 2 * t + i % 2;
    const int64_t output = number * kPackedOutputs + i / 4 % 2 * 16 + i % 4 / 2 * 8 + g;
    if (row >= n || output >= weight.rows) continue;
    const float sum = totals[i * kThreads];
    if constexpr (kGated) {
      FinishGate(activation, sum, weight.bias, totals[i * kThreads + kThreads / 2], up.bias, output, y,
                 row * y_stride + output);
    } else {
      Finish(epilogue, activation, sum, weight.bias, output, y, row * y_stride + output);
    }
  }
}

}  // namespace

bool HasWarpgroupProducts() {
#if defined(HYDRANT_SM90A) || !defined(__CUDACC__)
  return true;
#else
  return false;
#endif
}

uint32_t PackedWarpgroupBlocks(int64_t panels, int64_t n) {
  return BlocksFor(n, kRows) * BlocksFor(panels, kGroups * kGroupWarps);
}

void LaunchPackedWarpgroup(cudaStream_t stream, const PackedView& weight, Epilogue epilogue, Activation activation,
                           const void* x, int64_t n, const Output& y, int64_t y_stride) {
  const dim3 grid(BlocksFor(n, kRows), BlocksFor(PackedPanels(weight.rows), kGroups * kGroupWarps));
  WithPackedFormat(weight.format, [&]<WeightFormat kFormat>() {
    LaunchShared(stream, grid, kThreads, SharedBytes<kFormat>(), PackedWarpgroupKernel<kFormat, false>, weight,
                 PackedView(), epilogue, activation, static_cast<const __nv_bfloat16*>(x), static_cast<int32_t>(n), y,
                 y_stride);
  });
}

void LaunchPackedGateWarpgroup(cudaStream_t stream, const PackedView& gate, const PackedView& up, Activation activation,
                               const void* x, int64_t n, const Output& y) {
  const dim3 grid(BlocksFor(n, kRows), BlocksFor(PackedPanels(gate.rows), kGroupWarps));
  WithPackedFormat(gate.format, [&]<WeightFormat kFormat>() {
    LaunchShared(stream, grid, kThreads, SharedBytes<kFormat>(), PackedWarpgroupKernel<kFormat, true>, gate, up,
                 Epilogue::kGate, activation, static_cast<const __nv_bfloat16*>(x), static_cast<int32_t>(n), y,
                 gate.rows);
  });
}

}  // namespace hydrant::cuda
