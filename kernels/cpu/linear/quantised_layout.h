// How the rows of a quantised WeightFormat lie in a panel of 32 outputs: the same bits as in the file, in an order that
// every instruction set loads whole vectors of.
//
// Thread: any (pure functions).
//
// An element is step * (code - offset) + minimum with a code of 2 to 8 bits that is never negative; or step times what a table
// of 16 whole numbers has for the code. A panel is a row of steps of 32 inputs, or of 256 where that many share a scale:
//
//   header of a step of 256    fp16 d [32 lanes]; with minima: fp16 n [32]
//   then for every 32 inputs
//     codes of lanes 0 to 15, then those of lanes 16 to 31, each
//       4 to 6 bits   [j 4][lane 16][i 4] bytes: the low four bits of input 4j + i, and of input 16 + 4j + i above them
//       5 bits        + [lane 16][i 4] bytes: bit j is the fifth bit of input 4j + i, j < 8
//       6 bits        + [p 2][lane 16][i 4] bytes: bits 2k and 2k + 1 are the high bits of input 16p + 4k + i
//       8 bits        [j 8][lane 16][i 4] bytes: input 4j + i
//       2 and 3 bits  as the high bits of 6, then as the fifth of 5
//     scales          kOwn: fp16 d [32]; kOwnPower: uint8 e [32]; kOwnAndMinimum: fp16 d [32], fp16 m [32];
//                     kSteps: uint8 s [32]; kStepsAndMinima: uint8 s [32], uint8 m [32];
//                     kHalves: uint8 s [2][32], one for 16 inputs; kHalvesAndMinima: the same, s in the low four bits, m above
//
// Four neighbouring inputs of one output are what a byte product adds up (vpdpbusd). Every part is a multiple of 64 bytes, so no
// load of a vector crosses a cache line, but for scales of 32 bytes (kOwnPower, kSteps), which move every other block.
#ifndef HYDRANT_KERNELS_CPU_LINEAR_QUANTISED_LAYOUT_H_
#define HYDRANT_KERNELS_CPU_LINEAR_QUANTISED_LAYOUT_H_

#include <cstddef>
#include <cstdint>

#include "kernels/types.h"

namespace hydrant {

// Inputs that share an activation's scale, and the unit of the order of sums.
inline constexpr int64_t kQuantisedBlock = 32;

enum class ScaleKind : uint8_t {
  kOwn,              // step = d
  kOwnPower,         // step = 2^(e - 128)
  kOwnAndMinimum,    // step = d, minimum = m
  kSteps,            // step = d * s
  kStepsAndMinima,   // step = d * s, minimum = -n * m
  kHalves,           // step = d * s, each for 16 inputs
  kHalvesAndMinima,  // step = d * s, minimum = -n * m, each for 16 inputs
};

// What codes of four bits stand for, if not for themselves (kernels/types.h).
enum class CodeTable : uint8_t { kNone, kNonLinear, kFp4 };

struct QuantisedLayout {
  int code_bits;  // 2 to 6 or 8; 0: the format is not quantised
  ScaleKind scales;
  int offset;            // a power of two that is taken off a code, or that makes every number of a table positive
  int scale_offset = 0;  // taken off s
  CodeTable table = CodeTable::kNone;
};

constexpr QuantisedLayout LayoutOf(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ8_0:
      return {8, ScaleKind::kOwn, 128};
    case WeightFormat::kQ4_0:
      return {4, ScaleKind::kOwn, 8};
    case WeightFormat::kQ4_1:
      return {4, ScaleKind::kOwnAndMinimum, 0};
    case WeightFormat::kQ5_0:
      return {5, ScaleKind::kOwn, 16};
    case WeightFormat::kQ5_1:
      return {5, ScaleKind::kOwnAndMinimum, 0};
    case WeightFormat::kQ2_K:
      return {2, ScaleKind::kHalvesAndMinima, 0};
    case WeightFormat::kQ3_K:
      return {3, ScaleKind::kHalves, 4, 32};
    case WeightFormat::kQ4_K:
      return {4, ScaleKind::kStepsAndMinima, 0};
    case WeightFormat::kQ5_K:
      return {5, ScaleKind::kStepsAndMinima, 0};
    case WeightFormat::kQ6_K:
      return {6, ScaleKind::kHalves, 32, 128};
    case WeightFormat::kIQ4_NL:
      return {4, ScaleKind::kOwn, 128, 0, CodeTable::kNonLinear};
    case WeightFormat::kIQ4_XS:
      return {4, ScaleKind::kSteps, 128, 32, CodeTable::kNonLinear};
    case WeightFormat::kMXFP4:
      return {4, ScaleKind::kOwnPower, 16, 0, CodeTable::kFp4};
    default:
      return {0, ScaleKind::kOwn, 0};
  }
}

// The parts of 2, 4 and 1 bits that codes lie in, and the place of each in a code; -1: there is none.
struct BitParts {
  int four_bytes, two_bytes, one_bytes;  // where the part begins in the codes of 16 lanes
  int two_at, one_at;                    // the bit of a code that it begins with
};
constexpr BitParts PartsOf(int code_bits) {
  switch (code_bits) {
    case 2:
      return {-1, 0, -1, 0, 0};
    case 3:
      return {-1, 0, 128, 0, 2};
    case 5:
      return {0, -1, 256, 0, 4};
    case 6:
      return {0, 256, -1, 4, 0};
    default:
      return {0, -1, -1, 0, 0};
  }
}

constexpr bool HasMinimum(ScaleKind kind) {
  return kind == ScaleKind::kOwnAndMinimum || kind == ScaleKind::kStepsAndMinima || kind == ScaleKind::kHalvesAndMinima;
}
constexpr bool HasHalves(ScaleKind kind) { return kind == ScaleKind::kHalves || kind == ScaleKind::kHalvesAndMinima; }

constexpr int OffsetBits(QuantisedLayout layout) { return layout.offset == 0 ? 0 : __builtin_ctz(layout.offset); }

// Blocks of a step.
constexpr int64_t StepBlocks(QuantisedLayout layout) { return layout.scales <= ScaleKind::kOwnAndMinimum ? 1 : 8; }
constexpr int64_t HeaderBytes(QuantisedLayout layout) {
  if (StepBlocks(layout) == 1) return 0;
  return HasMinimum(layout.scales) ? 128 : 64;
}
// The codes of 16 lanes in a block.
constexpr int64_t CodeBytes(QuantisedLayout layout) { return 64 * layout.code_bits; }
constexpr int64_t ScaleBytes(ScaleKind kind) {
  if (kind == ScaleKind::kOwnPower || kind == ScaleKind::kSteps) return 32;
  return kind == ScaleKind::kOwnAndMinimum ? 128 : 64;
}
constexpr int64_t BlockBytes(QuantisedLayout layout) { return 2 * CodeBytes(layout) + ScaleBytes(layout.scales); }
constexpr int64_t StepBytes(QuantisedLayout layout) {
  return HeaderBytes(layout) + StepBlocks(layout) * BlockBytes(layout);
}
constexpr int64_t QuantisedPanelBytes(WeightFormat format, int64_t cols) {
  const QuantisedLayout layout = LayoutOf(format);
  const int64_t bytes = cols / (StepBlocks(layout) * kQuantisedBlock) * StepBytes(layout);
  return (bytes + 63) / 64 * 64;
}

// rows [32][RowBytes(format, cols)], as they are stored, zero where the weight has no such row -> panel
// [QuantisedPanelBytes]. REQUIRES: LayoutOf(format).code_bits > 0; cols is a multiple of the format's block_elements.
void PackQuantisedPanel(WeightFormat format, const std::byte* rows, int64_t cols, void* panel);

// Lane `lane` of a panel as fp32 -> out [cols]: the bits that the stored row expands to.
void UnpackQuantisedRow(WeightFormat format, const void* panel, int64_t lane, int64_t cols, float* out);

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CPU_LINEAR_QUANTISED_LAYOUT_H_
