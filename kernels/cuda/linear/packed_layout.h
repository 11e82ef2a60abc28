// How the rows of a quantised WeightFormat lie on the device: the bits of the file, in the order in which a warp's lanes want
// them for a product on tensor cores (docs/decisions/0046-packed-weights-on-cuda.md).
//
// Thread: any (pure functions).
//
// An element is step * (code - offset) + minimum, with a code of 4, 5, 6 or 8 bits. A panel of 32 outputs is a row of tiles of 32
// inputs; where 256 inputs share a scale, a header comes before every eight tiles. A lane is g = lane / 4, t = lane % 4. It
// holds outputs g, g + 8, g + 16 and g + 24 and, of each half of a tile's inputs, 4t to 4t + 3: k0 to k3. Tensor cores want
// pairs: number p of half `h` of outputs 16m to 16m + 15 is output 16m + g + p % 2 * 8, inputs k0 and k1 (p < 2) or k2 and k3.
//
//   header   [g 8] fp16 d of the four outputs; kStepsAndMinima: fp16 n of them behind
//   then for every tile
//     codes, a lane's side by side, so that a warp reads each part as one run of memory
//       4 to 6 bits  [lane 32][m 2][h 2] words: the low four bits of pair p's first element at bit 4p, of its second at 16 + 4p
//       5 bits       + [lane 32] words: the fifth bit of pair p at bit e and 16 + e, e = 8m + 4h + p
//       6 bits       + [lane 32][m 2] words: the two high bits of pair p at bit 2e and 16 + 2e, e = 4h + p
//       8 bits       [m 2][lane 32][h 2][i 2] words: pair 2i in bytes 0 and 2, pair 2i + 1 in bytes 1 and 3, signed
//     scales, [g 8] of the four outputs: kOwn: fp16 d; kOwnAndMinimum: fp16 d, fp16 m; kStepsAndMinima: uint8 s, uint8 m;
//       kHalves: int8 s of the first half, then of the second
#ifndef HYDRANT_KERNELS_CUDA_LINEAR_PACKED_LAYOUT_H_
#define HYDRANT_KERNELS_CUDA_LINEAR_PACKED_LAYOUT_H_

#include <cstddef>
#include <cstdint>

#include "kernels/types.h"

namespace hydrant::cuda {

inline constexpr int64_t kPackedOutputs = 32;  // of a panel
inline constexpr int64_t kTileInputs = 32;

enum class PackedScales : uint8_t {
  kOwn,             // step = d
  kOwnAndMinimum,   // step = d, minimum = m
  kStepsAndMinima,  // step = d * s, minimum = -n * m
  kHalves,          // step = d * s, each for 16 inputs
};

struct PackedLayout {
  int code_bits = 0;  // 4, 5, 6 or 8; 0: the device does not keep the format
  PackedScales scales = PackedScales::kOwn;
  int offset = 0;  // taken off a code; codes of 8 bits have a sign of their own
};

constexpr PackedLayout PackedLayoutOf(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ8_0:
      return {8, PackedScales::kOwn, 0};
    case WeightFormat::kQ4_0:
      return {4, PackedScales::kOwn, 8};
    case WeightFormat::kQ4_1:
      return {4, PackedScales::kOwnAndMinimum, 0};
    case WeightFormat::kQ5_0:
      return {5, PackedScales::kOwn, 16};
    case WeightFormat::kQ5_1:
      return {5, PackedScales::kOwnAndMinimum, 0};
    case WeightFormat::kQ4_K:
      return {4, PackedScales::kStepsAndMinima, 0};
    case WeightFormat::kQ5_K:
      return {5, PackedScales::kStepsAndMinima, 0};
    case WeightFormat::kQ6_K:
      return {6, PackedScales::kHalves, 32};
    default:
      return {};
  }
}

constexpr bool HasMinimum(PackedScales scales) {
  return scales == PackedScales::kOwnAndMinimum || scales == PackedScales::kStepsAndMinima;
}
// Tiles behind one header.
constexpr int64_t HeaderTiles(PackedScales scales) { return scales >= PackedScales::kStepsAndMinima ? 8 : 1; }
constexpr int64_t HeaderBytes(PackedScales scales) {
  if (HeaderTiles(scales) == 1) return 0;
  return HasMinimum(scales) ? 128 : 64;
}
constexpr int64_t CodeBytes(PackedLayout layout) { return int64_t{128} * layout.code_bits; }
constexpr int64_t TileBytes(PackedLayout layout) {
  return CodeBytes(layout) + (layout.scales == PackedScales::kOwnAndMinimum ? 128 : 64);
}
// Where tile `tile` of a panel begins, and (of eight tiles) the header before it.
constexpr int64_t HeaderAt(PackedLayout layout, int64_t tile) {
  const int64_t tiles = HeaderTiles(layout.scales);
  return tile / tiles * (HeaderBytes(layout.scales) + tiles * TileBytes(layout));
}
constexpr int64_t TileAt(PackedLayout layout, int64_t tile) {
  return HeaderAt(layout, tile) + HeaderBytes(layout.scales) + tile % HeaderTiles(layout.scales) * TileBytes(layout);
}
// REQUIRES: cols is a multiple of the format's block_elements.
constexpr int64_t PackedPanelBytes(WeightFormat format, int64_t cols) {
  return HeaderAt(PackedLayoutOf(format), cols / kTileInputs);
}
constexpr int64_t PackedPanels(int64_t rows) { return (rows + kPackedOutputs - 1) / kPackedOutputs; }

// Adjacent rows of a weight in one format, on the device.
struct PackedView {
  const std::byte* data = nullptr;  // [PackedPanels(rows)][panel_bytes]
  WeightFormat format = WeightFormat::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t panel_bytes = 0;
  const float* bias = nullptr;  // [rows] or null
};

// rows [32][RowBytes(format, cols)], as they are stored, zero where the weight has no such row -> panel
// [PackedPanelBytes(format, cols)]. REQUIRES: PackedLayoutOf(format).code_bits > 0; cols is a multiple of the format's
// block_elements.
void PackPanel(WeightFormat format, const std::byte* rows, int64_t cols, std::byte* panel);

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_LINEAR_PACKED_LAYOUT_H_
