#include <cassert>

#include "kernels/cuda/linear/packed_finish.cuh"
#include "kernels/cuda/linear/packed_panel.cuh"
#include "kernels/cuda/linear/packed_product.h"
#include "kernels/cuda/linear/packed_product_warpgroup.h"
#include "kernels/cuda/runtime/async_copy.cuh"
#include "kernels/cuda/runtime/element.cuh"
#include "kernels/cuda/runtime/launch.h"
#include "kernels/cuda/runtime/overlap.cuh"

namespace hydrant::cuda {
namespace {

constexpr uint32_t kFewThreads = kRuns * kWarp;

// The kernel for many rows has tiles of four panels and 64 rows of x.
constexpr int kManyPanels = 4;
constexpr uint32_t kManyThreads = kManyPanels * kWarp;
constexpr int kManyEights = 8;
constexpr int kManyRows = kManyEights * 8;
constexpr int kStages = 4;  // of a tile's inputs each
constexpr int kStageElements = kManyRows * static_cast<int>(kTileInputs);

// Grid: rows of x, kPanels panels each. `up.data`: epilogue is kGate, and `weight` the gate; of two panels one is of either.
template <WeightFormat kFormat, int kEights, int kPanels>
__global__ void __launch_bounds__(kFewThreads)
    PackedFewKernel(PackedView weight, PackedView up, Epilogue epilogue, Activation activation, const __nv_bfloat16* x,
                    int32_t n, Output y, int64_t y_stride) {
  AwaitEarlier();
  __shared__ float joined[kJoinFloats];
  const int32_t first = static_cast<int32_t>(blockIdx.x) * kEights * 8;
  const int lane = static_cast<int>(threadIdx.x % kWarp), warp = static_cast<int>(threadIdx.x / kWarp);
  const bool gated = epilogue == Epilogue::kGate;
  const auto finish_gated = [&](const float(&open)[kEights], const float(&factor)[kEights]) {
    const int64_t output = int64_t{blockIdx.y} * kPackedOutputs + lane;
    if (output >= weight.rows) return;
#pragma unroll
    for (int eight = 0; eight < kEights; ++eight) {
      const int32_t row = first + eight * 8 + warp;
      if (row >= n) break;
      FinishGate(activation, open[eight], weight.bias, factor[eight], up.bias, output, y, row * y_stride + output);
    }
  };
  const auto finish = [&](int64_t panel, const float(&products)[kEights]) {
    const int64_t output = panel * kPackedOutputs + lane;
    if (output >= weight.rows) return;
#pragma unroll
    for (int eight = 0; eight < kEights; ++eight) {
      const int32_t row = first + eight * 8 + warp;
      if (row >= n) break;
      Finish(epilogue, activation, products[eight], weight.bias, output, y, row * y_stride + output);
    }
  };
  const __nv_bfloat16* rows = x + first * weight.cols;
  if constexpr (kPanels == 2) {
    const int64_t panel = gated ? blockIdx.y : int64_t{blockIdx.y} * 2, last = PackedPanels(weight.rows) - 1;
    // Behind the last panel it is the last once more, and nothing of it is kept.
    const std::byte* const panels[2] = {Panel(weight, panel),
                                        gated ? Panel(up, panel) : Panel(weight, panel < last ? panel + 1 : last)};
    float products[2][kEights];
    MultiplyPanels<kFormat, kEights, 2>(panels, weight.cols, rows, n - first, joined, products);
    if (gated) return finish_gated(products[0], products[1]);
    finish(panel, products[0]);
    if (panel < last) finish(panel + 1, products[1]);
  } else {
    float products[kEights], open[kEights] = {};
    // One copy of the code: what is inside is long.
#pragma unroll 1
    for (int part = 0; part < (gated ? 2 : 1); ++part) {
      if (part == 1) {
#pragma unroll
        for (int eight = 0; eight < kEights; ++eight) open[eight] = products[eight];
      }
      MultiplyPanel<kFormat, kEights>(Panel(part == 0 ? weight : up, blockIdx.y), weight.cols, rows, n - first, joined,
                                      products);
    }
    if (gated) return finish_gated(open, products);
    finish(blockIdx.y, products);
  }
}

// Where inputs `piece` * 8 on of a staged row are: a warp's half reads 32 bytes of each of four rows at once, and rows two apart
// would share banks.
__device__ __forceinline__ int PlaceOf(int row, int piece) {
  return row * static_cast<int>(kTileInputs) + (piece ^ row / 2 % 2 * 2) * 8;
}

// Grid: rows of x, panels.
template <WeightFormat kFormat>
__global__ void __launch_bounds__(kManyThreads)
    PackedManyKernel(PackedView weight, Epilogue epilogue, Activation activation, const __nv_bfloat16* x, int32_t n,
                     Output y, int64_t y_stride) {
  AwaitEarlier();
  alignas(16) __shared__ __nv_bfloat16 stages[kStages * kStageElements];
  const int lane = static_cast<int>(threadIdx.x % kWarp), warp = static_cast<int>(threadIdx.x / kWarp);
  const int g = lane / 4, t = lane % 4;
  const int32_t first = static_cast<int32_t>(blockIdx.x) * kManyRows;
  const auto tiles = static_cast<int32_t>(weight.cols / kTileInputs);
  // Warps behind the last panel read it, too, and keep nothing.
  const int64_t own = int64_t{blockIdx.y} * kManyPanels + warp, panels = PackedPanels(weight.rows);
  const std::byte* panel = Panel(weight, own < panels ? own : panels - 1);

  const auto stage = [&](int32_t number) {
    __nv_bfloat16* to = stages + number % kStages * kStageElements;
#pragma unroll
    for (int i = 0; i < kManyRows * 4; i += static_cast<int>(kManyThreads)) {
      const int row = (i + static_cast<int>(threadIdx.x)) / 4, piece = static_cast<int>(threadIdx.x) % 4;
      const bool present = first + row < n;
      const __nv_bfloat16* from = x + (first + row) * weight.cols + number * kTileInputs + piece * 8;
      CopyAsync16(to + PlaceOf(row, piece), present ? from : x, present);
    }
  };
#pragma unroll
  for (int i = 0; i < kStages - 1; ++i) {
    if (i < tiles) stage(i);
    CommitCopies();
  }
  PackedTile<kFormat> next = LoadTile<kFormat>(panel, 0), after = LoadTile<kFormat>(panel, tiles > 1 ? 1 : 0);
  PanelSums<kManyEights> total;
  int32_t number = 0;
#pragma unroll 1
  for (int run = 0; run < kRuns; ++run) {
    PanelSums<kManyEights> sums;
#pragma unroll 1
    for (const int32_t end = RunBegin(tiles, run + 1); number < end; ++number) {
      const PackedTile<kFormat> tile = next;
      next = after;
      if (number + 2 < tiles) after = LoadTile<kFormat>(panel, number + 2);
      WaitForCopies<kStages - 2>();
      __syncthreads();  // everybody's copies are there, and nobody reads the stage before this one any more
      if (number + kStages - 1 < tiles) stage(number + kStages - 1);
      CommitCopies();
      const __nv_bfloat16* staged = stages + number % kStages * kStageElements;
      const auto inputs = [&](int eight) {
        TileInputs of_row;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          LoadFour(staged + PlaceOf(eight * 8 + g, h * 2 + t / 2) + t % 2 * 4, of_row.b[h]);
        }
        return of_row;
      };
      AddTile<kFormat, kManyEights>(tile, inputs, sums);
    }
#pragma unroll
    for (int i = 0; i < 8 * kManyEights; ++i) {
      float& all = total.c[i / 4 % 2][i / 8][i % 4];
      const float of_run = sums.c[i / 4 % 2][i / 8][i % 4];
      all = run == 0 ? of_run : all + of_run;
    }
  }
#pragma unroll
  for (int i = 0; i < 8 * kManyEights; ++i) {
    const int32_t row = first + i / 8 * 8 + 2 * t + i % 2;
    const int64_t output = own * kPackedOutputs + i / 4 % 2 * 16 + i % 4 / 2 * 8 + g;
    if (row >= n || output >= weight.rows) continue;
    Finish(epilogue, activation, total.c[i / 4 % 2][i / 8][i % 4], weight.bias, output, y, row * y_stride + output);
  }
}

// Whether the kernel for many rows is the sooner one: its blocks of 64 rows take as long as 1.8 of 32 of the other's, where there are
// enough of them to keep all multiprocessors busy.
bool TakesMany(const PackedView& weight, int64_t n, int32_t multiprocessors) {
  const int64_t many = BlocksFor(n, kManyRows), few = BlocksFor(n, kManyRows / 2);
  return few * 10 >= many * 18 && many * BlocksFor(PackedPanels(weight.rows), kManyPanels) >= multiprocessors;
}

// Whether the kernel on warpgroups is the sooner one, of `panels` panels: where its blocks, one on a multiprocessor, keep at least
// three quarters of them busy to the end. Of 65 to 96 rows the others take as long, with less of a second block to no use.
bool TakesWarpgroups(int64_t panels, int64_t n, const Multiprocessors& multiprocessors) {
  if (!multiprocessors.warpgroups || !HasWarpgroupProducts() || n <= 32 || (n > 64 && n <= 96)) return false;
  const int64_t blocks = PackedWarpgroupBlocks(panels, n), rounds = BlocksFor(blocks, multiprocessors.count);
  return blocks * 4 >= rounds * multiprocessors.count * 3;
}

// Whether a block is to have two panels, which read the same rows of x. A block of 32 rows has a multiprocessor's registers for itself
// where formats have headers, with one panel or two; with one, of other formats two blocks fit, and keep more bytes under way.
bool TakesPairs(WeightFormat format, int64_t n, int64_t blocks, int32_t multiprocessors) {
  if (n <= 8 || blocks * 10 < int64_t{multiprocessors} * 9) return false;
  const PackedScales scales = PackedLayoutOf(format).scales;
  return n <= 16 ? scales != PackedScales::kStepsAndMinima : HeaderTiles(scales) > 1;
}

// Calls launch.template operator()<eights, panels>() for the rows and the panels that a block has.
template <typename Function>
void WithFewRows(int64_t n, bool pairs, const Function& launch) {
  if (n <= 8) return launch.template operator()<1, 1>();
  if (n <= 16) return pairs ? launch.template operator()<2, 2>() : launch.template operator()<2, 1>();
  pairs ? launch.template operator()<4, 2>() : launch.template operator()<4, 1>();
}

void LaunchFew(cudaStream_t stream, const PackedView& weight, const PackedView& up, Epilogue epilogue,
               Activation activation, const void* x, int64_t n, int32_t multiprocessors, const Output& y,
               int64_t y_stride) {
  const auto panels = static_cast<uint32_t>(PackedPanels(weight.rows));
  const uint32_t pairs = epilogue == Epilogue::kGate ? panels : BlocksFor(panels, 2);
  const bool takes_pairs = TakesPairs(weight.format, n, int64_t{BlocksFor(n, 32)} * pairs, multiprocessors);
  WithPackedFormat(weight.format, [&]<WeightFormat kFormat>() {
    WithFewRows(n, takes_pairs, [&]<int kEights, int kPanels>() {
      Launch(stream, dim3(BlocksFor(n, kEights * 8), kPanels == 2 ? pairs : panels), kFewThreads,
             PackedFewKernel<kFormat, kEights, kPanels>, weight, up, epilogue, activation,
             static_cast<const __nv_bfloat16*>(x), static_cast<int32_t>(n), y, y_stride);
    });
  });
}

}  // namespace

void LaunchPackedProduct(cudaStream_t stream, const PackedView& weight, Epilogue epilogue, Activation activation,
                         const void* x, int64_t n, const Multiprocessors& multiprocessors, const Output& y,
                         int64_t y_stride) {
  assert(n >= 1 && Aligned(x) && Aligned(weight.data));
  assert(epilogue != Epilogue::kGate && (y.dtype == DType::kF32 || epilogue == Epilogue::kActivate));
  if (TakesWarpgroups(PackedPanels(weight.rows), n, multiprocessors)) {
    return LaunchPackedWarpgroup(stream, weight, epilogue, activation, x, n, y, y_stride);
  }
  if (!TakesMany(weight, n, multiprocessors.count)) {
    return LaunchFew(stream, weight, {}, epilogue, activation, x, n, multiprocessors.count, y, y_stride);
  }
  WithPackedFormat(weight.format, [&]<WeightFormat kFormat>() {
    const dim3 grid(BlocksFor(n, kManyRows), BlocksFor(PackedPanels(weight.rows), kManyPanels));
    Launch(stream, grid, kManyThreads, PackedManyKernel<kFormat>, weight, epilogue, activation,
           static_cast<const __nv_bfloat16*>(x), static_cast<int32_t>(n), y, y_stride);
  });
}

bool TakesPackedGate(const PackedView& gate, const PackedView& up, int64_t n, const Multiprocessors& multiprocessors) {
  if (gate.format != up.format) return false;
  return TakesWarpgroups(2 * PackedPanels(gate.rows), n, multiprocessors) || !TakesMany(gate, n, multiprocessors.count);
}

void LaunchPackedGate(cudaStream_t stream, const PackedView& gate, const PackedView& up, Activation activation,
                      const void* x, int64_t n, const Multiprocessors& multiprocessors, const Output& y) {
  assert(n >= 1 && Aligned(x) && Aligned(gate.data) && Aligned(up.data));
  assert(gate.format == up.format && gate.rows == up.rows && gate.cols == up.cols);
  if (TakesWarpgroups(2 * PackedPanels(gate.rows), n, multiprocessors)) {
    return LaunchPackedGateWarpgroup(stream, gate, up, activation, x, n, y);
  }
  LaunchFew(stream, gate, up, Epilogue::kGate, activation, x, n, multiprocessors.count, y, gate.rows);
}

}  // namespace hydrant::cuda
