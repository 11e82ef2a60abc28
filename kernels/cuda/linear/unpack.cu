#include <algorithm>
#include <cassert>

#include "kernels/cuda/linear/packed_panel.cuh"
#include "kernels/cuda/linear/unpack.h"
#include "kernels/cuda/runtime/element.cuh"
#include "kernels/cuda/runtime/launch.h"
#include "kernels/cuda/runtime/overlap.cuh"

namespace hydrant::cuda {
namespace {

constexpr int32_t kWarps = 8;
constexpr int32_t kTilesPerBlock =
    32;  // four for each warp, so that the second and later ones are on their way in time

__device__ __forceinline__ float ExpandOne(uint16_t code, float step, float minimum, bool has_minimum) {
  __nv_bfloat16 exact;
  memcpy(&exact, &code, sizeof(exact));
  const float product = __fmul_rn(step, __bfloat162float(exact));  // no fma: expanding rounds twice
  return has_minimum ? __fadd_rn(product, minimum) : product;
}

// Two codes, and two elements, of bf16.
__device__ __forceinline__ uint32_t ExpandPair(uint32_t codes, float step, float minimum, bool has_minimum) {
  const float low = ExpandOne(static_cast<uint16_t>(codes), step, minimum, has_minimum);
  const float high = ExpandOne(static_cast<uint16_t>(codes >> 16), step, minimum, has_minimum);
  return Pack(FromFloat<__nv_bfloat16>(low), FromFloat<__nv_bfloat16>(high));
}

// Grid: tiles, panels from that of `first` on.
template <WeightFormat kFormat>
__global__ void __launch_bounds__(kWarps* kWarp)
    UnpackKernel(PackedView weight, int64_t first, int64_t count, __nv_bfloat16* to) {
  AwaitEarlier();
  constexpr bool kHasMinimum = PackedTile<kFormat>::kHasMinimum;
  const int lane = static_cast<int>(threadIdx.x % kWarp), g = lane / 4, t = lane % 4;
  const auto tiles = static_cast<int32_t>(weight.cols / kTileInputs);
  const int32_t begin = static_cast<int32_t>(blockIdx.x) * kTilesPerBlock;
  const int32_t end = tiles - begin < kTilesPerBlock ? tiles : begin + kTilesPerBlock;
  const int64_t number = first / kPackedOutputs + blockIdx.y;
  const std::byte* panel = weight.data + number * weight.panel_bytes;
  const int64_t row = number * kPackedOutputs + g - first;  // of `to`, that of the lane's first output
  int32_t at = begin + static_cast<int32_t>(threadIdx.x / kWarp);
  if (at >= end) return;  // a whole warp
  PackedTile<kFormat> next = LoadTile<kFormat>(panel, at);
#pragma unroll 1
  for (; at < end; at += kWarps) {
    const PackedTile<kFormat> tile = next;
    if (at + kWarps < end) next = LoadTile<kFormat>(panel, at + kWarps);
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      uint32_t codes[2][4];
      DecodeCodes<kFormat>(tile, m, 0, codes[0]);
      DecodeCodes<kFormat>(tile, m, 1, codes[1]);
#pragma unroll
      for (int odd = 0; odd < 2; ++odd) {
        const int i = m * 2 + odd;  // output g + 8 i
        float steps[2], minimum;
        DecodeScales<kFormat>(tile, i, steps, minimum);
        uint32_t four[2][2];  // of either half, inputs 4t to 4t + 3
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          four[h][0] = ExpandPair(codes[h][odd], steps[h], minimum, kHasMinimum);
          four[h][1] = ExpandPair(codes[h][2 + odd], steps[h], minimum, kHasMinimum);
        }
        // Lanes of even t get eight inputs of the first half, their neighbours the eight behind them of the second.
        const bool second = t % 2 == 1;
        const uint32_t got0 = __shfl_xor_sync(kAllLanes, second ? four[0][0] : four[1][0], 1);
        const uint32_t got1 = __shfl_xor_sync(kAllLanes, second ? four[0][1] : four[1][1], 1);
        const int64_t of_output = row + i * 8, col = at * kTileInputs + (second ? 16 + (t - 1) * 4 : t * 4);
        if (of_output >= 0 && of_output < count) {
          *reinterpret_cast<uint4*>(to + of_output * weight.cols + col) =
              second ? uint4{got0, got1, four[1][0], four[1][1]} : uint4{four[0][0], four[0][1], got0, got1};
        }
      }
    }
  }
}

}  // namespace

void LaunchUnpack(cudaStream_t stream, const PackedView& weight, int64_t first, int64_t count, void* to) {
  assert(first >= 0 && count >= 1 && first + count <= weight.rows && Aligned(to) && Aligned(weight.data));
  const int64_t panels = (first + count - 1) / kPackedOutputs - first / kPackedOutputs + 1;
  WithPackedFormat(weight.format, [&]<WeightFormat kFormat>() {
    const dim3 grid(BlocksFor(weight.cols / kTileInputs, kTilesPerBlock), static_cast<uint32_t>(panels));
    Launch(stream, grid, kWarps * kWarp, UnpackKernel<kFormat>, weight, first, count, static_cast<__nv_bfloat16*>(to));
  });
}

}  // namespace hydrant::cuda
