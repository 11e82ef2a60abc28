#include "kernels/cpu/linear/quantised_layout.h"

#include <cassert>
#include <cstring>

#include "kernels/small_floats.h"
#include "kernels/stored_codes.h"

namespace hydrant {
namespace {

constexpr int kLaneCount = 32;
constexpr int kBlock = static_cast<int>(kQuantisedBlock);

float LoadHalf(const uint8_t* at) {
  uint16_t half;
  std::memcpy(&half, at, sizeof(half));
  return HalfToFloat(half);
}

// --- words ----------------------------------------------------------------------------------------------------------
//
// Codes are moved four at a time, as kernels/stored_codes.h reads them: packing is most of what a start takes. Taking panels
// apart, below, goes element by element, and is what the tests hold it to.

using stored_codes::BlockCodes;
using stored_codes::kLowFour;
using stored_codes::kLowOne;
using stored_codes::kLowTwo;

void StoreWord(uint8_t* at, uint32_t word) { std::memcpy(at, &word, sizeof(word)); }

// --- stored scales --------------------------------------------------------------------------------------------------

// The scale of group `group` of 16 of a Q3_K: low four bits of groups 0 to 7 and 8 to 15 in halves of eight bytes, two high bits
// of groups g, g + 4, g + 8 and g + 12 in byte g of four more.
uint8_t ScaleOfQ3_K(const uint8_t* packed, int group) {
  const int low = packed[group % 8] >> group / 8 * 4 & 15, high = packed[8 + group % 4] >> group / 4 * 2 & 3;
  return static_cast<uint8_t>(low | high << 4);
}

// That of group `group` of 8 of an IQ4_XS: four bits in half a byte, two in a 16-bit word for all groups.
uint8_t ScaleOfIQ4_XS(const uint8_t* block, int group) {
  const int low = block[4 + group / 2] >> group % 2 * 4 & 15, high = block[2 + group / 4] >> group % 4 * 2 & 3;
  return static_cast<uint8_t>(low | high << 4);
}

// The scales of block `block` of the stored step -> their lane.
[[gnu::always_inline]] inline void PackScales(WeightFormat format, const uint8_t* stored, int block, int lane,
                                              uint8_t* scales) {
  const auto in_halves = [&](const auto& scale_of) {
    for (int half = 0; half < 2; ++half) scales[half * kLaneCount + lane] = scale_of(2 * block + half);
  };
  switch (format) {
    case WeightFormat::kMXFP4:
      scales[lane] = stored[0];
      return;
    case WeightFormat::kIQ4_XS:
      scales[lane] = ScaleOfIQ4_XS(stored, block);
      return;
    case WeightFormat::kQ2_K:
      return in_halves([&](int group) { return stored[group]; });
    case WeightFormat::kQ3_K:
      return in_halves([&](int group) { return ScaleOfQ3_K(stored + 96, group); });
    case WeightFormat::kQ4_K:
    case WeightFormat::kQ5_K:
      return stored_codes::ReadSixBitScales(stored + 4, block, scales + lane, scales + kLaneCount + lane);
    case WeightFormat::kQ6_K:
      // Signed in the file: adding 128 flips the highest bit.
      return in_halves([&](int group) { return static_cast<uint8_t>(stored[192 + group] ^ 0x80); });
    default:
      std::memcpy(scales + lane * 2, stored, 2);
      if (HasMinimum(LayoutOf(format).scales)) std::memcpy(scales + 64 + lane * 2, stored + 2, 2);
  }
}

// --- panels ---------------------------------------------------------------------------------------------------------

// Each of the code_bits words that a block of a lane has lies 64 bytes behind the one before.
[[gnu::always_inline]] inline void PutCodes(QuantisedLayout layout, const BlockCodes& codes, int lane, uint8_t* block) {
  uint8_t* out = block + lane / 16 * CodeBytes(layout) + lane % 16 * 4;
  const auto& words = codes.words;
  if (layout.code_bits == 8) {
    for (int j = 0; j < 8; ++j) StoreWord(out + j * 64, words[j]);
    return;
  }
  const BitParts parts = PartsOf(layout.code_bits);
  for (int j = 0; j < 4 && parts.four_bytes >= 0; ++j) {
    StoreWord(out + parts.four_bytes + j * 64, (words[j] & kLowFour) | (words[4 + j] & kLowFour) << 4);
  }
  for (int p = 0; p < 2 && parts.two_bytes >= 0; ++p) {
    uint32_t bits = 0;
    for (int k = 0; k < 4; ++k) bits |= (words[4 * p + k] >> parts.two_at & kLowTwo) << 2 * k;
    StoreWord(out + parts.two_bytes + p * 64, bits);
  }
  if (parts.one_bytes < 0) return;
  uint32_t bits = 0;
  for (int j = 0; j < 8; ++j) bits |= (words[j] >> parts.one_at & kLowOne) << j;
  StoreWord(out + parts.one_bytes, bits);
}

void GetCodes(QuantisedLayout layout, const uint8_t* block, int lane, uint8_t* codes) {
  const uint8_t* in = block + lane / 16 * CodeBytes(layout) + lane % 16 * 4;
  const BitParts parts = PartsOf(layout.code_bits);
  for (int input = 0; input < kBlock; ++input) {
    const int j = input / 4, i = input % 4;
    if (layout.code_bits == 8) {
      codes[input] = in[j * 64 + i];
      continue;
    }
    int code = 0;
    if (parts.four_bytes >= 0) code |= in[parts.four_bytes + j % 4 * 64 + i] >> j / 4 * 4 & 15;
    if (parts.two_bytes >= 0) code |= (in[parts.two_bytes + j / 4 * 64 + i] >> j % 4 * 2 & 3) << parts.two_at;
    if (parts.one_bytes >= 0) code |= (in[parts.one_bytes + i] >> j & 1) << parts.one_at;
    codes[input] = static_cast<uint8_t>(code);
  }
}

// A step of 32 rows, `row_bytes` apart, the first at `stored` -> the panel's step. Inlined for one format at a time, so that its
// loops ask nothing of the format.
template <WeightFormat kFormat>
void PackStep(const uint8_t* stored, int64_t row_bytes, uint8_t* step) {
  constexpr QuantisedLayout kLayout = LayoutOf(kFormat);
  if constexpr (HeaderBytes(kLayout) > 0) {
    constexpr stored_codes::HeaderPlaces kPlaces = stored_codes::PlacesOf(kFormat);
    for (int lane = 0; lane < kLaneCount; ++lane) {
      std::memcpy(step + lane * 2, stored + lane * row_bytes + kPlaces.d, 2);
      if (HasMinimum(kLayout.scales)) std::memcpy(step + 64 + lane * 2, stored + lane * row_bytes + kPlaces.n, 2);
    }
  }
  uint8_t* block = step + HeaderBytes(kLayout);
  for (int b = 0; b < StepBlocks(kLayout); ++b, block += BlockBytes(kLayout)) {
    for (int lane = 0; lane < kLaneCount; ++lane) {
      const uint8_t* row = stored + lane * row_bytes;
      PutCodes(kLayout, stored_codes::ReadCodes(kFormat, row, b), lane, block);
      PackScales(kFormat, row, b, lane, block + 2 * CodeBytes(kLayout));
    }
  }
}

using PackStepFunction = void (*)(const uint8_t* stored, int64_t row_bytes, uint8_t* step);

PackStepFunction PackStepOf(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ8_0:
      return PackStep<WeightFormat::kQ8_0>;
    case WeightFormat::kQ4_0:
    case WeightFormat::kIQ4_NL:  // the codes alone: what they stand for is nobody's affair here
      return PackStep<WeightFormat::kQ4_0>;
    case WeightFormat::kQ4_1:
      return PackStep<WeightFormat::kQ4_1>;
    case WeightFormat::kQ5_0:
      return PackStep<WeightFormat::kQ5_0>;
    case WeightFormat::kQ5_1:
      return PackStep<WeightFormat::kQ5_1>;
    case WeightFormat::kQ2_K:
      return PackStep<WeightFormat::kQ2_K>;
    case WeightFormat::kQ3_K:
      return PackStep<WeightFormat::kQ3_K>;
    case WeightFormat::kQ4_K:
      return PackStep<WeightFormat::kQ4_K>;
    case WeightFormat::kQ5_K:
      return PackStep<WeightFormat::kQ5_K>;
    case WeightFormat::kQ6_K:
      return PackStep<WeightFormat::kQ6_K>;
    case WeightFormat::kIQ4_XS:
      return PackStep<WeightFormat::kIQ4_XS>;
    case WeightFormat::kMXFP4:
      return PackStep<WeightFormat::kMXFP4>;
    default:
      break;
  }
  assert(false);
  return nullptr;
}

// Step and minimum of half `half` of a block of one lane.
struct LaneScale {
  float step = 0, minimum = 0;
};
LaneScale ScaleOf(QuantisedLayout layout, const uint8_t* step, const uint8_t* scales, int lane, int half) {
  const uint8_t s = scales[lane], in_half = scales[half * kLaneCount + lane];
  const auto times_d = [&](int scale) {
    return LoadHalf(step + lane * 2) * static_cast<float>(scale - layout.scale_offset);
  };
  const auto minus_n = [&](int minimum) { return -(LoadHalf(step + 64 + lane * 2) * static_cast<float>(minimum)); };
  switch (layout.scales) {
    case ScaleKind::kOwn:
      return {LoadHalf(scales + lane * 2)};
    case ScaleKind::kOwnPower:
      return {PowerToFloat(s)};
    case ScaleKind::kOwnAndMinimum:
      return {LoadHalf(scales + lane * 2), LoadHalf(scales + 64 + lane * 2)};
    case ScaleKind::kSteps:
      return {times_d(s)};
    case ScaleKind::kStepsAndMinima:
      return {times_d(s), minus_n(scales[kLaneCount + lane])};
    case ScaleKind::kHalves:
      return {times_d(in_half)};
    case ScaleKind::kHalvesAndMinima:
      return {times_d(in_half & 15), minus_n(in_half >> 4)};
  }
  return {};
}

int NumberOf(QuantisedLayout layout, uint8_t code) {
  switch (layout.table) {
    case CodeTable::kNonLinear:
      return kNonLinearCodes[code];
    case CodeTable::kFp4:
      return kFp4Codes[code];
    case CodeTable::kNone:
      break;
  }
  return code - layout.offset;
}

// One block of one lane -> out [32].
void UnpackBlock(QuantisedLayout layout, const uint8_t* step, const uint8_t* block, int lane, float* out) {
  const uint8_t* scales = block + 2 * CodeBytes(layout);
  uint8_t codes[kBlock];
  GetCodes(layout, block, lane, codes);
  for (int half = 0; half < 2; ++half) {
    const LaneScale scale = ScaleOf(layout, step, scales, lane, HasHalves(layout.scales) ? half : 0);
    for (int i = half * 16; i < half * 16 + 16; ++i) {
      const float product = scale.step * static_cast<float>(NumberOf(layout, codes[i]));
      // Without a minimum nothing is added: -0 + 0 would be another number.
      out[i] = HasMinimum(layout.scales) ? product + scale.minimum : product;
    }
  }
}

}  // namespace

void PackQuantisedPanel(WeightFormat format, const std::byte* rows, int64_t cols, void* panel) {
  const QuantisedLayout layout = LayoutOf(format);
  assert(layout.code_bits > 0 && cols % InfoOf(format).block_elements == 0);
  const int64_t steps = cols / InfoOf(format).block_elements;
  const int64_t row_bytes = RowBytes(format, cols);
  const auto* stored = reinterpret_cast<const uint8_t*>(rows);
  auto* out = static_cast<uint8_t*>(panel);
  const PackStepFunction pack_step = PackStepOf(format);
  for (int64_t step = 0; step < steps; ++step) {
    pack_step(stored, row_bytes, out);
    stored += InfoOf(format).block_bytes;
    out += StepBytes(layout);
  }
  std::memset(out, 0, static_cast<size_t>(QuantisedPanelBytes(format, cols) - steps * StepBytes(layout)));
}

void UnpackQuantisedRow(WeightFormat format, const void* panel, int64_t lane, int64_t cols, float* out) {
  const QuantisedLayout layout = LayoutOf(format);
  assert(layout.code_bits > 0 && lane >= 0 && lane < kLaneCount);
  const int64_t steps = cols / InfoOf(format).block_elements;
  const auto* step = static_cast<const uint8_t*>(panel);
  for (int64_t s = 0; s < steps; ++s, step += StepBytes(layout)) {
    const uint8_t* block = step + HeaderBytes(layout);
    for (int64_t b = 0; b < StepBlocks(layout); ++b, block += BlockBytes(layout), out += kQuantisedBlock) {
      UnpackBlock(layout, step, block, static_cast<int>(lane), out);
    }
  }
}

}  // namespace hydrant
