// What every product does around the sums of a tile, for kernel families (kernels/cpu/kernel_table.h): the way over panels and
// tiles, pulling the weights that come next, and what becomes of the sums.
#ifndef HYDRANT_KERNELS_CPU_LINEAR_LINEAR_EPILOGUE_H_
#define HYDRANT_KERNELS_CPU_LINEAR_LINEAR_EPILOGUE_H_

#include <cassert>

#include "kernels/cpu/linear/linear_kernels.h"
#include "kernels/cpu/runtime/activation.h"
#include "kernels/cpu/runtime/simd.h"

namespace hydrant::HYDRANT_ISA {

// Weights to pull into the second-level cache while a tile is being worked on: the memory then streams through all the
// tiles of a panel, not just through the first, and across the 4 KiB borders at which the hardware prefetcher stops. On a
// Zen 4 core this took 16 rows from 73 to 92 % of the bf16 peak and a single row from 24 to 35 GB/s; pulling into the first
// level instead lost 20 %.
struct Ahead {
  const char* next;
  int64_t stride;  // bytes per step
};

// Row `row` of x in one panel: 32 sums -> y, of which `outputs` columns exist.
[[maybe_unused]] static void Finish(const LinearCall& call, int64_t row, const float* sums, const float* bias, float* y,
                                    int64_t outputs) {
  F32x16 first = Load(sums);
  F32x16 second = Load(sums + kLanes);
  if (bias != nullptr) {
    first = first + Load(bias);
    second = second + Load(bias + kLanes);
  }
  if (call.epilogue == Epilogue::kGate) {
    StoreN(y, ApplyActivation(call.activation, first) * UpFactor(call.activation, second), outputs);
    return;
  }
  if (call.epilogue == Epilogue::kActivate) {
    first = ApplyActivation(call.activation, first);
    second = ApplyActivation(call.activation, second);
  }
  const int64_t in_first = outputs < kLanes ? outputs : kLanes;
  const int64_t in_second = outputs - in_first;
  if (call.epilogue == Epilogue::kAccumulate) {
    if (call.factors != nullptr) {
      first = first * Set(call.factors[row]);
      second = second * Set(call.factors[row]);
    }
    first = LoadN(y, in_first) + first;
    second = LoadN(y + kLanes, in_second) + second;
  } else if (call.epilogue == Epilogue::kScale) {
    first = LoadN(y, in_first) * UpFactor(call.activation, first);
    second = LoadN(y + kLanes, in_second) * UpFactor(call.activation, second);
  }
  StoreN(y, first, in_first);
  StoreN(y + kLanes, second, in_second);
}

// Rows in tiles of nearly equal height, at most kTileRows.
template <int kTileRows>
[[maybe_unused]] static int64_t TilesOf(int64_t rows) {
  return (rows + kTileRows - 1) / kTileRows;
}
template <int kTileRows>
[[maybe_unused]] static int64_t TileBeginOf(int64_t rows, int64_t tile) {
  return rows * tile / TilesOf<kTileRows>(rows);
}

// ProductKernels::multiply. `multiply_tile(begin, end, panel, ahead, sums)` sets sums [end - begin][kPanelRows] to those of rows
// [begin, end) of x, and pulls `strides` times `stride` bytes of what comes next.
template <int kTileRows, typename MultiplyTile>
[[maybe_unused]] static void MultiplyPanels(const LinearCall& call, int64_t tile_begin, int64_t tile_end,
                                            int64_t panel_begin, int64_t panel_end, int64_t stride, int64_t strides,
                                            const MultiplyTile& multiply_tile) {
  const PackedWeight& weight = call.weight;
  alignas(64) float sums[kTileRows * kPanelRows];
  for (int64_t panel = panel_begin; panel < panel_end; ++panel) {
    const char* data = static_cast<const char*>(weight.data) + panel * weight.panel_bytes;
    const float* bias = weight.bias == nullptr ? nullptr : weight.bias + panel * kPanelRows;
    const int64_t output = panel * weight.panel_outputs;
    const int64_t left = weight.outputs - output;
    const int64_t outputs = left < weight.panel_outputs ? left : weight.panel_outputs;
    // Each tile pulls its share of the next panel.
    Ahead ahead = {panel + 1 < panel_end ? data + weight.panel_bytes : static_cast<const char*>(call.next), stride};
    for (int64_t tile = tile_begin; tile < tile_end; ++tile) {
      const int64_t begin = TileBeginOf<kTileRows>(call.rows, tile);
      const int64_t end = TileBeginOf<kTileRows>(call.rows, tile + 1);
      multiply_tile(begin, end, data, ahead, sums);
      if (call.added != nullptr) call.added->add(*call.added, begin, end, panel, sums);
      ahead.next += stride * strides;
      for (int64_t row = begin; row < end; ++row) {
        const int64_t y_row = call.y_rows == nullptr ? row : call.y_rows[row];
        Finish(call, row, sums + (row - begin) * kPanelRows, bias, call.y + y_row * call.y_stride + output, outputs);
      }
    }
  }
}

}  // namespace hydrant::HYDRANT_ISA

#endif  // HYDRANT_KERNELS_CPU_LINEAR_LINEAR_EPILOGUE_H_
