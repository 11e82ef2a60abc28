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
  Reals steps[2];   // [1]: of the second half of the block, if the halves have steps of their own
  Reals minima[2];  // if the format has minima
};

// The numbers that codes stand for, an offset added.
struct alignas(16) NumberTable {
  uint8_t numbers[16];
};
constexpr NumberTable Raised(const int8_t (&numbers)[16], int offset) {
  NumberTable table{};
  for (int i = 0; i < 16; ++i) table.numbers[i] = static_cast<uint8_t>(numbers[i] + offset);
  return table;
}
constexpr NumberTable kRaisedNonLinear = Raised(kNonLinearCodes, LayoutOf(WeightFormat::kIQ4_NL).offset);
constexpr NumberTable kRaisedFp4 = Raised(kFp4Codes, LayoutOf(WeightFormat::kMXFP4).offset);
static_assert(LayoutOf(WeightFormat::kIQ4_XS).offset == LayoutOf(WeightFormat::kIQ4_NL).offset);

// kCount bits of inputs 4j to 4j + 3 from bit kCount * j on of every byte -> bit `to`. A shift moves bits into the neighbouring
// bytes, too, but not to those that the mask leaves.
template <int kCount>
HYDRANT_SIMD Ints BitsOf(Ints bytes, int j, int to) {
  const int left = to - kCount * j;
  const Ints moved = left >= 0 ? ShiftLeft(bytes, left) : ShiftRight(bytes, -left);
  return And(moved, Bytes(((1 << kCount) - 1) << to));
}

// Codes of a block -> codes[j], the inputs 4j to 4j + 3 of every output.
template <int kBits>
HYDRANT_SIMD void LoadCodes(const char* p, Ints (&codes)[8]) {
  constexpr BitParts kParts = PartsOf(kBits);
  HYDRANT_UNROLL(8)
  for (int j = 0; j < 8; ++j) {
    if constexpr (kBits == 8) {
      codes[j] = LoadInts(p + j * 64);
      continue;
    }
    codes[j] = NoInts();
    if constexpr (kParts.four_bytes >= 0) codes[j] = BitsOf<4>(LoadInts(p + kParts.four_bytes + j % 4 * 64), j / 4, 0);
    if constexpr (kParts.two_bytes >= 0) {
      codes[j] = Or(codes[j], BitsOf<2>(LoadInts(p + kParts.two_bytes + j / 4 * 64), j % 4, kParts.two_at));
    }
    if constexpr (kParts.one_bytes >= 0) {
      codes[j] = Or(codes[j], BitsOf<1>(LoadInts(p + kParts.one_bytes), j, kParts.one_at));
    }
  }
}

// header: of the step that the block is in; scales: of the block.
template <WeightFormat kFormat>
HYDRANT_SIMD void LoadScales(const char* header, const char* scales, int lane, DecodedSlice& out) {
  constexpr QuantisedLayout kLayout = LayoutOf(kFormat);
  const auto d = [&] { return LoadHalves(header + lane * 2); };
  const auto minus_n = [&] { return Negative(LoadHalves(header + 64 + lane * 2)); };
  const auto whole = [](Ints s) { return ToReals(SubInts(s, SetInts(kLayout.scale_offset))); };
  const Ints second = LoadBytes(scales + (ScaleBytes(kLayout.scales) > 32 ? kPanelRows : 0) + lane);
  if constexpr (kLayout.scales == ScaleKind::kOwn || kLayout.scales == ScaleKind::kOwnAndMinimum) {
    out.steps[0] = LoadHalves(scales + lane * 2);
    if constexpr (HasMinimum(kLayout.scales)) out.minima[0] = LoadHalves(scales + 64 + lane * 2);
  } else if constexpr (kLayout.scales == ScaleKind::kOwnPower) {
    out.steps[0] = Powers(LoadBytes(scales + lane));
  } else if constexpr (kLayout.scales == ScaleKind::kHalvesAndMinima) {
    const Ints first = LoadBytes(scales + lane);
    out.steps[0] = Times(d(), ToReals(And(first, SetInts(15))));
    out.steps[1] = Times(d(), ToReals(And(second, SetInts(15))));
    out.minima[0] = Times(minus_n(), ToReals(ShiftRight(first, 4)));
    out.minima[1] = Times(minus_n(), ToReals(ShiftRight(second, 4)));
  } else {
    out.steps[0] = Times(d(), whole(LoadBytes(scales + lane)));
    if constexpr (kLayout.scales == ScaleKind::kHalves) out.steps[1] = Times(d(), whole(second));
    if constexpr (kLayout.scales == ScaleKind::kStepsAndMinima) out.minima[0] = Times(minus_n(), ToReals(second));
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
  LoadScales<kFormat>(header, at + 2 * kCodeBytes, lane, out);
  Ints codes[8];
  LoadCodes<kLayout.code_bits>(at + lane / 16 * kCodeBytes + lane % 16 * 4, codes);
  if constexpr (kLayout.table != CodeTable::kNone) {
    const uint8_t* numbers = (kLayout.table == CodeTable::kFp4 ? kRaisedFp4 : kRaisedNonLinear).numbers;
    HYDRANT_UNROLL(8)
    for (int j = 0; j < 8; ++j) codes[j] = Lookup(numbers, codes[j]);
  }
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
