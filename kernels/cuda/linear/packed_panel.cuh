// A panel of packed_layout.h times rows of x, by a warp or by a block of eight.
//
// Codes become bf16, which holds all of them exactly, and are multiplied on tensor cores; so are rows of x, rounded to bf16. A
// product is formed so, with tiles [0, T) divided into eight runs [T i / 8, T (i + 1) / 8), all in fp32:
//   part = the tensor cores' sum over the 32 inputs of a tile, or of a half of it that has a step of its own
//   sum of a run = fma(part, step, sum), tile by tile; with minima then fma(the sum of 32 inputs, minimum, sum)
//   the product = the sums of the runs, one on top of the other in their order
// Which kernel a row of x is in, and which rows are beside it, does not change that: a row's bits are the same in every batch.
#ifndef HYDRANT_KERNELS_CUDA_LINEAR_PACKED_PANEL_CUH_
#define HYDRANT_KERNELS_CUDA_LINEAR_PACKED_PANEL_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cassert>
#include <cstdint>

#include "kernels/cuda/linear/packed_layout.h"
#include "kernels/cuda/runtime/element.cuh"
#include "kernels/cuda/runtime/tensor_core.cuh"

namespace hydrant::cuda {

inline constexpr int kRuns = 8;
constexpr int32_t RunBegin(int32_t tiles, int run) { return static_cast<int32_t>(int64_t{tiles} * run / kRuns); }

__device__ __forceinline__ float HalfAt(uint32_t word, int which) {
  const auto bits = static_cast<uint16_t>(word >> 16 * which);
  __half half;
  memcpy(&half, &bits, sizeof(half));
  return __half2float(half);
}

__device__ __forceinline__ const std::byte* Panel(const PackedView& weight, int64_t number) {
  return weight.data + number * weight.panel_bytes;
}

// What a lane reads of a tile.
template <WeightFormat kFormat>
struct PackedTile {
  static constexpr PackedLayout kLayout = PackedLayoutOf(kFormat);
  static constexpr bool kHasMinimum = HasMinimum(kLayout.scales), kHalves = kLayout.scales == PackedScales::kHalves;

  uint32_t codes[kLayout.code_bits == 8 ? 8 : 4];
  uint32_t high[2];    // the bits above the fourth
  uint32_t scales[4];  // of the tile, and
  uint32_t header[4];  // of the header: d of the four outputs; m or n
};

template <WeightFormat kFormat>
__device__ __forceinline__ PackedTile<kFormat> LoadTile(const std::byte* from, const std::byte* header) {
  using Tile = PackedTile<kFormat>;
  constexpr PackedLayout kLayout = Tile::kLayout;
  constexpr int kBits = kLayout.code_bits;
  const int lane = static_cast<int>(threadIdx.x % kWarp), g = lane / 4;
  const auto four = [](const std::byte* at, uint32_t* words) {
    const auto read = *reinterpret_cast<const uint4*>(at);
    words[0] = read.x, words[1] = read.y, words[2] = read.z, words[3] = read.w;
  };
  const auto two = [](const std::byte* at, uint32_t* words) {
    const auto read = *reinterpret_cast<const uint2*>(at);
    words[0] = read.x, words[1] = read.y;
  };
  Tile tile = {};
  four(from + lane * 16, tile.codes);
  if constexpr (kBits == 8) four(from + 512 + lane * 16, tile.codes + 4);
  if constexpr (kBits == 5) tile.high[0] = *reinterpret_cast<const uint32_t*>(from + 512 + lane * 4);
  if constexpr (kBits == 6) two(from + 512 + lane * 8, tile.high);
  const std::byte* scales = from + CodeBytes(kLayout);
  if constexpr (kLayout.scales == PackedScales::kOwnAndMinimum) four(scales + g * 16, tile.scales);
  if constexpr (kLayout.scales != PackedScales::kOwnAndMinimum) two(scales + g * 8, tile.scales);
  if constexpr (kLayout.scales == PackedScales::kStepsAndMinima) four(header + g * 16, tile.header);
  if constexpr (kLayout.scales == PackedScales::kHalves) two(header + g * 8, tile.header);
  return tile;
}
template <WeightFormat kFormat>
__device__ __forceinline__ PackedTile<kFormat> LoadTile(const std::byte* panel, int32_t number) {
  constexpr PackedLayout kLayout = PackedTile<kFormat>::kLayout;
  return LoadTile<kFormat>(panel + TileAt(kLayout, number), panel + HeaderAt(kLayout, number));
}

// The codes of half `h` of outputs 16m to 16m + 15, as MultiplyAdd's a: 128 + u in bf16 is u in the low bits of 128, and what is
// above u is taken off again.
template <WeightFormat kFormat>
__device__ __forceinline__ void DecodeCodes(const PackedTile<kFormat>& tile, int m, int h, uint32_t (&a)[4]) {
  constexpr int kBits = PackedTile<kFormat>::kLayout.code_bits;
  constexpr uint32_t k128 = 0x43004300u, kLess128 = 0xc300c300u;
  if constexpr (kBits == 8) {
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      a[p] = PairOfBytes(tile.codes[m * 4 + h * 2 + p / 2] >> p % 2 * 8);
    }
    return;
  }
  constexpr uint32_t kOffset = static_cast<uint32_t>(PackedTile<kFormat>::kLayout.offset) * 0x00010001u;
#pragma unroll
  for (int p = 0; p < 4; ++p) {
    uint32_t code = (tile.codes[m * 2 + h] >> 4 * p & 0x000f000fu) | k128;
    if constexpr (kBits == 5) {
      const int e = m * 8 + h * 4 + p;
      code |= (e < 4 ? tile.high[0] << (4 - e) : tile.high[0] >> (e - 4)) & 0x00100010u;
    }
    if constexpr (kBits == 6) {
      const int at = 2 * (h * 4 + p);
      code |= (at < 4 ? tile.high[m] << (4 - at) : tile.high[m] >> (at - 4)) & 0x00300030u;
    }
    a[p] = AddPairs(code, kLess128 | kOffset);
  }
}

// Steps of output g + 8 * `i` in either half, and its minimum.
template <WeightFormat kFormat>
__device__ __forceinline__ void DecodeScales(const PackedTile<kFormat>& tile, int i, float (&steps)[2],
                                             float& minimum) {
  constexpr PackedScales kScales = PackedTile<kFormat>::kLayout.scales;
  const auto halves = [i](const uint32_t* words) { return HalfAt(words[i / 2], i % 2); };
  const auto byte = [i](uint32_t word) { return word >> 8 * i & 255u; };
  if constexpr (kScales == PackedScales::kOwn || kScales == PackedScales::kOwnAndMinimum) {
    steps[0] = steps[1] = halves(tile.scales);
    minimum = halves(tile.scales + 2);
  } else if constexpr (kScales == PackedScales::kStepsAndMinima) {
    steps[0] = steps[1] = halves(tile.header) * static_cast<float>(byte(tile.scales[0]));
    minimum = -(halves(tile.header + 2) * static_cast<float>(byte(tile.scales[1])));
  } else {
    for (int h = 0; h < 2; ++h) {
      steps[h] = halves(tile.header) * static_cast<float>(static_cast<int8_t>(byte(tile.scales[h])));
    }
    minimum = 0.0f;
  }
}

// Four inputs of each half of a tile, of one row of x: MultiplyAdd's b, twice.
struct TileInputs {
  uint32_t b[2][2];
};

// Sums of eight rows of x for each `eight`, as MultiplyAdd's c, of outputs 0 to 15 and 16 to 31.
template <int kEights>
struct PanelSums {
  float c[2][kEights][4] = {};
};

// Adds a tile. `inputs(eight)`: TileInputs of row eight * 8 + lane / 4.
template <WeightFormat kFormat, int kEights, typename Inputs>
__device__ __forceinline__ void AddTile(const PackedTile<kFormat>& tile, const Inputs& inputs,
                                        PanelSums<kEights>& sums) {
  using Tile = PackedTile<kFormat>;
  constexpr uint32_t kOnes[4] = {0x3f803f80u, 0x3f803f80u, 0x3f803f80u, 0x3f803f80u};
  uint32_t a[2][2][4];
#pragma unroll
  for (int i = 0; i < 4; ++i) DecodeCodes<kFormat>(tile, i / 2, i % 2, a[i / 2][i % 2]);
  float steps[4][2], minima[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) DecodeScales<kFormat>(tile, i, steps[i], minima[i]);
#pragma unroll
  for (int eight = 0; eight < kEights; ++eight) {
    const TileInputs x = inputs(eight);
    float all[4] = {};
    if constexpr (Tile::kHasMinimum) {
      MultiplyAdd<__nv_bfloat16>(all, kOnes, x.b[0]);
      MultiplyAdd<__nv_bfloat16>(all, kOnes, x.b[1]);
    }
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      float(&c)[4] = sums.c[m][eight];
      float part[4] = {};
      MultiplyAdd<__nv_bfloat16>(part, a[m][0], x.b[0]);
      if constexpr (Tile::kHalves) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          c[i] = fmaf(part[i], steps[m * 2 + i / 2][0], c[i]);
          part[i] = 0.0f;
        }
      }
      MultiplyAdd<__nv_bfloat16>(part, a[m][1], x.b[1]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        c[i] = fmaf(part[i], steps[m * 2 + i / 2][1], c[i]);
        if constexpr (Tile::kHasMinimum) c[i] = fmaf(all[i], minima[m * 2 + i / 2], c[i]);
      }
    }
  }
}

// Four elements of x as two pairs of bf16.
__device__ __forceinline__ void LoadFour(const __nv_bfloat16* from, uint32_t (&pairs)[2]) {
  const auto read = *reinterpret_cast<const uint2*>(from);
  pairs[0] = read.x, pairs[1] = read.y;
}
__device__ __forceinline__ void LoadFour(const float* from, uint32_t (&pairs)[2]) {
  const auto read = *reinterpret_cast<const float4*>(from);
  pairs[0] = Pack(FromFloat<__nv_bfloat16>(read.x), FromFloat<__nv_bfloat16>(read.y));
  pairs[1] = Pack(FromFloat<__nv_bfloat16>(read.z), FromFloat<__nv_bfloat16>(read.w));
}

// Where the warps of a block put their sums: [warp][16 rows of x] of kJoinStride outputs. Two rows of x are 72 words apart, so that
// the lanes of a warp, which write outputs g of rows 2t, meet every bank once.
inline constexpr int kJoinStride = 36;
inline constexpr int kJoinFloats = kRuns * 16 * kJoinStride;

// products[p][e] = output `lane` of panel p times row 8 e + `warp` of x [n, cols], by a block of 8 warps, each of which has a run of
// the tiles. All threads call it. `joined` [kJoinFloats] is shared memory.
template <WeightFormat kFormat, int kEights, int kPanels, typename X>
__device__ __forceinline__ void MultiplyPanels(const std::byte* const (&panels)[kPanels], int64_t cols, const X* x,
                                               int32_t n, float* joined, float (&products)[kPanels][kEights]) {
  // Tiles under way: some 600 bytes of weight each. Eight warps with four, two blocks on a multiprocessor: 38 KB, where the
  // memory wants 23 (4.3 TB/s at 0.7 us over 132 of them).
  constexpr int kAhead = kEights == 1 ? 4 : 2;
  const int lane = static_cast<int>(threadIdx.x % kWarp), warp = static_cast<int>(threadIdx.x / kWarp);
  const int g = lane / 4, t = lane % 4;
  const auto tiles = static_cast<int32_t>(cols / kTileInputs);
  const int32_t end = RunBegin(tiles, warp + 1);
  PanelSums<kEights> sums[kPanels];
  PackedTile<kFormat> ahead[kAhead][kPanels];
  TileInputs inputs[kAhead][kEights];
  const auto load = [&](int32_t number, int to) {
#pragma unroll
    for (int p = 0; p < kPanels; ++p) ahead[to][p] = LoadTile<kFormat>(panels[p], number);
#pragma unroll
    for (int eight = 0; eight < kEights; ++eight) {
      inputs[to][eight] = {};
      if (eight * 8 + g >= n) continue;
      const X* row = x + (eight * 8 + g) * cols + number * kTileInputs + t * 4;
      LoadFour(row, inputs[to][eight].b[0]);
      LoadFour(row + kTileInputs / 2, inputs[to][eight].b[1]);
    }
  };
  int32_t first = RunBegin(tiles, warp);
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    if (first + i < end) load(first + i, i);
  }
  for (; first < end; first += kAhead) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int32_t number = first + i;
      if (number >= end) break;
#pragma unroll
      for (int p = 0; p < kPanels; ++p) {
        AddTile<kFormat, kEights>(
            ahead[i][p], [&](int eight) { return inputs[i][eight]; }, sums[p]);
      }
      if (number + kAhead < end) load(number + kAhead, i);
    }
  }

#pragma unroll
  for (int p = 0; p < kPanels; ++p) {
#pragma unroll
    for (int pass = 0; pass < kEights; pass += 2) {
      __syncthreads();  // what was there has been read
#pragma unroll
      for (int eight = pass; eight < kEights && eight < pass + 2; ++eight) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          const int row = (eight - pass) * 8 + 2 * t + i % 2, output = i / 4 * 16 + i % 4 / 2 * 8 + g;
          joined[(warp * 16 + row) * kJoinStride + output] = sums[p].c[i / 4][eight][i % 4];
        }
      }
      __syncthreads();
#pragma unroll
      for (int eight = pass; eight < kEights && eight < pass + 2; ++eight) {
        const float* of_run = joined + ((eight - pass) * 8 + warp) * kJoinStride + lane;
        float sum = of_run[0];
#pragma unroll
        for (int run = 1; run < kRuns; ++run) sum += of_run[run * 16 * kJoinStride];
        products[p][eight] = sum;
      }
    }
  }
}

// The same of one panel.
template <WeightFormat kFormat, int kEights, typename X>
__device__ __forceinline__ void MultiplyPanel(const std::byte* panel, int64_t cols, const X* x, int32_t n,
                                              float* joined, float (&products)[kEights]) {
  const std::byte* const panels[1] = {panel};
  float of_panel[1][kEights];
  MultiplyPanels<kFormat, kEights, 1>(panels, cols, x, n, joined, of_panel);
#pragma unroll
  for (int eight = 0; eight < kEights; ++eight) products[eight] = of_panel[0][eight];
}

// Calls function.template operator()<format>() for a format of packed_layout.h.
template <typename Function>
void WithPackedFormat(WeightFormat format, const Function& function) {
  switch (format) {
    case WeightFormat::kQ8_0:
      return function.template operator()<WeightFormat::kQ8_0>();
    case WeightFormat::kQ4_0:
      return function.template operator()<WeightFormat::kQ4_0>();
    case WeightFormat::kQ4_1:
      return function.template operator()<WeightFormat::kQ4_1>();
    case WeightFormat::kQ5_0:
      return function.template operator()<WeightFormat::kQ5_0>();
    case WeightFormat::kQ5_1:
      return function.template operator()<WeightFormat::kQ5_1>();
    case WeightFormat::kQ4_K:
      return function.template operator()<WeightFormat::kQ4_K>();
    case WeightFormat::kQ5_K:
      return function.template operator()<WeightFormat::kQ5_K>();
    case WeightFormat::kQ6_K:
      return function.template operator()<WeightFormat::kQ6_K>();
    default:
      assert(false);
  }
}

// Element `col` of row `row`, as the stored row expands to it.
__device__ inline float PackedElement(const PackedView& weight, int64_t row, int64_t col) {
  const PackedLayout layout = PackedLayoutOf(weight.format);
  const std::byte* panel = weight.data + row / kPackedOutputs * weight.panel_bytes;
  const int output = static_cast<int>(row % kPackedOutputs), input = static_cast<int>(col % kTileInputs);
  const int m = output / 16, g = output % 8, h = input / 16, t = input % 16 / 4, second = input % 2;
  const int p = output % 16 / 8 + input % 4 / 2 * 2, lane = g * 4 + t;
  const std::byte* tile = panel + TileAt(layout, col / kTileInputs);
  const std::byte* scales = tile + CodeBytes(layout);
  const std::byte* header = panel + HeaderAt(layout, col / kTileInputs);
  const auto word = [&](int64_t at) { return *reinterpret_cast<const uint32_t*>(tile + at); };
  const auto half = [&](const std::byte* from, bool both, int behind) {
    const std::byte* at = from + g * (both ? 16 : 8) + behind * 8 + output / 8 * 2;
    return __half2float(*reinterpret_cast<const __half*>(at));
  };
  const auto byte = [&](int i) { return static_cast<uint8_t>(scales[g * 8 + i * 4 + output / 8]); };
  int code;
  if (layout.code_bits == 8) {
    const uint32_t bytes = word(m * 512 + lane * 16 + (h * 2 + p / 2) * 4);
    code = static_cast<int8_t>(bytes >> (p % 2 * 8 + second * 16) & 255u);
  } else {
    uint32_t bits = word(lane * 16 + (m * 2 + h) * 4) >> (4 * p + 16 * second) & 15u;
    if (layout.code_bits == 5) bits |= (word(512 + lane * 4) >> (m * 8 + h * 4 + p + 16 * second) & 1u) << 4;
    if (layout.code_bits == 6) bits |= (word(512 + lane * 8 + m * 4) >> (2 * (h * 4 + p) + 16 * second) & 3u) << 4;
    code = static_cast<int>(bits) - layout.offset;
  }
  float step = 0.0f, minimum = 0.0f;
  switch (layout.scales) {
    case PackedScales::kOwn:
      step = half(scales, false, 0);
      break;
    case PackedScales::kOwnAndMinimum:
      step = half(scales, true, 0);
      minimum = half(scales, true, 1);
      break;
    case PackedScales::kStepsAndMinima:
      step = half(header, true, 0) * static_cast<float>(byte(0));
      minimum = -(half(header, true, 1) * static_cast<float>(byte(1)));
      break;
    case PackedScales::kHalves:
      step = half(header, false, 0) * static_cast<float>(static_cast<int8_t>(byte(h)));
      break;
  }
  const float product = __fmul_rn(step, static_cast<float>(code));  // no fma: expanding rounds twice
  return HasMinimum(layout.scales) ? __fadd_rn(product, minimum) : product;
}

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_LINEAR_PACKED_PANEL_CUH_
