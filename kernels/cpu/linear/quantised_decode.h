// Blocks of a packed panel (quantised_layout.h) -> what products are made of, the same for all formats.
//
// For kernel families only (kernels/cpu/kernel_table.h has the rules): everything is in the family's own namespace.
#ifndef HYDRANT_KERNELS_CPU_LINEAR_QUANTISED_DECODE_H_
#define HYDRANT_KERNELS_CPU_LINEAR_QUANTISED_DECODE_H_

#include "kernels/cpu/linear/quantised_layout.h"
#include "kernels/cpu/linear/quantised_vectors.h"

namespace hydrant::HYDRANT_ISA {
namespace {

// Vectors of codes for every four inputs of a block: one of their bytes, or one of inputs 4j and 4j + 2 and one of 4j + 1 and
// 4j + 3 in 16 bits.
#ifdef HYDRANT_BYTE_PRODUCTS
constexpr int kQuadVectors = 1;
#else
constexpr int kQuadVectors = 2;
#endif

// 32 inputs of the outputs of a slice: x = steps * (code - offset) + minima.
struct DecodedSlice {
  Ints codes[8 * kQuadVectors];
  Reals steps[2];  // [1]: of the second half of the block, if the halves have steps of their own
  Reals minimum;   // if the format has minima
};

// Codes of a block -> codes[j], the inputs 4j to 4j + 3 of every output. A shift moves bits into the neighbouring bytes, too,
// but not to those that the mask leaves.
template <int kBits>
HYDRANT_SIMD void LoadCodes(const char* p, Ints (&codes)[8]) {
  if constexpr (kBits == 8) {
    HYDRANT_UNROLL(8)
    for (int j = 0; j < 8; ++j) codes[j] = LoadInts(p + j * 64);
    return;
  }
  HYDRANT_UNROLL(4)
  for (int j = 0; j < 4; ++j) {
    const Ints both = LoadInts(p + j * 64);
    codes[j] = And(both, Bytes(0x0f));
    codes[4 + j] = And(ShiftRight(both, 4), Bytes(0x0f));
  }
  if constexpr (kBits == 5) {
    const Ints bits = LoadInts(p + 256);
    HYDRANT_UNROLL(8)
    for (int j = 0; j < 8; ++j) {
      const Ints moved = j <= 4 ? ShiftLeft(bits, 4 - j) : ShiftRight(bits, j - 4);
      codes[j] = Or(codes[j], And(moved, Bytes(0x10)));
    }
  } else if constexpr (kBits == 6) {
    HYDRANT_UNROLL(8)
    for (int j = 0; j < 8; ++j) {
      const Ints bits = LoadInts(p + 256 + j / 4 * 64);
      const Ints moved = j % 4 <= 2 ? ShiftLeft(bits, 4 - 2 * (j % 4)) : ShiftRight(bits, 2);
      codes[j] = Or(codes[j], And(moved, Bytes(0x30)));
    }
  }
}

// header: of the step that the block is in; scales: of the block.
template <ScaleKind kScales>
HYDRANT_SIMD void LoadScales(const char* header, const char* scales, int lane, DecodedSlice& out) {
  if constexpr (kScales == ScaleKind::kOwn || kScales == ScaleKind::kOwnAndMinimum) {
    out.steps[0] = LoadHalves(scales + lane * 2);
    if constexpr (kScales == ScaleKind::kOwnAndMinimum) out.minimum = LoadHalves(scales + 64 + lane * 2);
  } else if constexpr (kScales == ScaleKind::kStepsAndMinima) {
    out.steps[0] = Times(LoadHalves(header + lane * 2), LoadUnsigned(scales + lane));
    const Reals n = LoadHalves(header + 64 + lane * 2);
    out.minimum = Negative(Times(n, LoadUnsigned(scales + kPanelRows + lane)));
  } else {
    const Reals d = LoadHalves(header + lane * 2);
    out.steps[0] = Times(d, LoadSigned(scales + lane));
    out.steps[1] = Times(d, LoadSigned(scales + kPanelRows + lane));
  }
}

// Block `block` of a panel, the outputs of slice `slice`.
template <WeightFormat kFormat>
HYDRANT_SIMD void DecodeSlice(const char* panel, int64_t block, int slice, DecodedSlice& out) {
  constexpr QuantisedLayout kLayout = LayoutOf(kFormat);
  constexpr int64_t kBlocks = StepBlocks(kLayout), kCodeBytes = CodeBytes(kLayout);
  const int lane = slice * kWidth;
  const char* header = panel + block / kBlocks * StepBytes(kLayout);
  const char* at = header + HeaderBytes(kLayout) + block % kBlocks * BlockBytes(kLayout);
  LoadScales<kLayout.scales>(header, at + 2 * kCodeBytes, lane, out);
  Ints codes[8];
  LoadCodes<kLayout.code_bits>(at + lane / 16 * kCodeBytes + lane % 16 * 4, codes);
  HYDRANT_UNROLL(8)
  for (int j = 0; j < 8; ++j) {
#ifdef HYDRANT_BYTE_PRODUCTS
    out.codes[j] = codes[j];
#else
    out.codes[2 * j] = EvenBytes(codes[j]);
    out.codes[2 * j + 1] = OddBytes(codes[j]);
#endif
  }
}

// Blocks [begin, end) of a panel -> out [end - begin][kPanelSlices].
template <WeightFormat kFormat>
void DecodeBlocks(const char* panel, int64_t begin, int64_t end, DecodedSlice* out) {
  for (int64_t block = begin; block < end; ++block) {
    for (int slice = 0; slice < kPanelSlices; ++slice) DecodeSlice<kFormat>(panel, block, slice, *out++);
  }
}

}  // namespace
}  // namespace hydrant::HYDRANT_ISA

#endif  // HYDRANT_KERNELS_CPU_LINEAR_QUANTISED_DECODE_H_
