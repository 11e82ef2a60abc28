#include "kernels/cpu/linear/quantised_layout.h"

#include <cassert>
#include <cstring>

#include "kernels/small_floats.h"

namespace hydrant {
namespace {

constexpr int kLaneCount = 32;
constexpr int kBlock = static_cast<int>(kQuantisedBlock);

float LoadHalf(const uint8_t* at) {
  uint16_t half;
  std::memcpy(&half, at, sizeof(half));
  return HalfToFloat(half);
}

// --- stored blocks --------------------------------------------------------------------------------------------------

// The 32 codes of block `block` of the stored step at `stored`, offset not taken off.
void ReadCodes(WeightFormat format, const uint8_t* stored, int block, uint8_t* codes) {
  const auto halves = [codes](const uint8_t* q) {
    for (int i = 0; i < 16; ++i) codes[i] = q[i] & 15;
    for (int i = 0; i < 16; ++i) codes[i + 16] = q[i] >> 4;
  };
  // Element i's fifth bit is bit i of four bytes.
  const auto fifth_in_row = [codes](const uint8_t* bits) {
    for (int i = 0; i < kBlock; ++i) codes[i] = static_cast<uint8_t>(codes[i] | (bits[i / 8] >> i % 8 & 1) << 4);
  };
  // Two blocks share 32 bytes: the low halves, then the high ones.
  const auto shared = [codes](const uint8_t* q, int shift) {
    for (int i = 0; i < kBlock; ++i) codes[i] = q[i] >> shift & 15;
  };
  // Two bits of four blocks share 32 bytes.
  const auto quarters = [codes, block](const uint8_t* q) {
    for (int i = 0; i < kBlock; ++i) codes[i] = q[block / 4 * 32 + i] >> block % 4 * 2 & 3;
  };
  // Another bit of a block's element i is bit `block` of byte i.
  const auto bit_of_block = [codes, block](const uint8_t* bits, int to) {
    for (int i = 0; i < kBlock; ++i) codes[i] = static_cast<uint8_t>(codes[i] | (bits[i] >> block & 1) << to);
  };
  switch (format) {
    case WeightFormat::kQ8_0:
      // Signed in the file: adding 128 flips the highest bit.
      for (int i = 0; i < kBlock; ++i) codes[i] = stored[2 + i] ^ 0x80;
      return;
    case WeightFormat::kQ4_0:
    case WeightFormat::kIQ4_NL:
      return halves(stored + 2);
    case WeightFormat::kIQ4_XS:
      return halves(stored + 8 + block * 16);
    case WeightFormat::kMXFP4:
      return halves(stored + 1);
    case WeightFormat::kQ4_1:
      return halves(stored + 4);
    case WeightFormat::kQ5_0:
      halves(stored + 6);
      return fifth_in_row(stored + 2);
    case WeightFormat::kQ5_1:
      halves(stored + 8);
      return fifth_in_row(stored + 4);
    case WeightFormat::kQ2_K:
      return quarters(stored + 16);
    case WeightFormat::kQ3_K:
      quarters(stored + 32);
      return bit_of_block(stored, 2);
    case WeightFormat::kQ4_K:
      return shared(stored + 16 + block / 2 * 32, block % 2 * 4);
    case WeightFormat::kQ5_K:
      shared(stored + 48 + block / 2 * 32, block % 2 * 4);
      return bit_of_block(stored + 16, 4);
    case WeightFormat::kQ6_K:
      shared(stored + block / 4 * 64 + block % 2 * 32, block % 4 / 2 * 4);
      for (int i = 0; i < kBlock; ++i) {
        const int high = stored[128 + block / 4 * 32 + i] >> block % 4 * 2 & 3;
        codes[i] = static_cast<uint8_t>(codes[i] | high << 4);
      }
      return;
    default:
      assert(false);
  }
}

// Scale and minimum of block `block` of a Q4_K or Q5_K: 6 bits each in 12 bytes, those of the first four blocks in the low
// bits of bytes of their own, the others in halves of the last four bytes and in the two bits that the first eight have left.
void ReadSixBitScales(const uint8_t* packed, int block, uint8_t* scale, uint8_t* minimum) {
  if (block < 4) {
    *scale = packed[block] & 63;
    *minimum = packed[block + 4] & 63;
    return;
  }
  *scale = static_cast<uint8_t>((packed[block + 4] & 15) | packed[block - 4] >> 6 << 4);
  *minimum = static_cast<uint8_t>(packed[block + 4] >> 4 | packed[block] >> 6 << 4);
}

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

// Where fp16 d and n of 256 elements lie in a stored block.
struct HeaderPlaces {
  int d, n;
};
HeaderPlaces PlacesOf(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ2_K:
      return {80, 82};
    case WeightFormat::kQ3_K:
      return {108, 0};
    case WeightFormat::kQ6_K:
      return {208, 0};
    default:
      return {0, 2};
  }
}

// The scales of block `block` of the stored step -> their lane.
void PackScales(WeightFormat format, const uint8_t* stored, int block, int lane, uint8_t* scales) {
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
      return ReadSixBitScales(stored + 4, block, scales + lane, scales + kLaneCount + lane);
    case WeightFormat::kQ6_K:
      // Signed in the file: adding 128 flips the highest bit.
      return in_halves([&](int group) { return static_cast<uint8_t>(stored[192 + group] ^ 0x80); });
    default:
      std::memcpy(scales + lane * 2, stored, 2);
      if (HasMinimum(LayoutOf(format).scales)) std::memcpy(scales + 64 + lane * 2, stored + 2, 2);
  }
}

// --- panels ---------------------------------------------------------------------------------------------------------

void PutCodes(QuantisedLayout layout, const uint8_t* codes, int lane, uint8_t* block) {
  uint8_t* out = block + lane / 16 * CodeBytes(layout) + lane % 16 * 4;
  if (layout.code_bits == 8) {
    for (int j = 0; j < 8; ++j) std::memcpy(out + j * 64, codes + 4 * j, 4);
    return;
  }
  const BitParts parts = PartsOf(layout.code_bits);
  for (int i = 0; i < 16 && parts.four_bytes >= 0; ++i) {
    out[parts.four_bytes + i / 4 * 64 + i % 4] = static_cast<uint8_t>((codes[i] & 15) | (codes[16 + i] & 15) << 4);
  }
  for (int i = 0; i < 8 && parts.two_bytes >= 0; ++i) {
    int bits = 0;
    for (int k = 0; k < 4; ++k) bits |= (codes[i / 4 * 16 + 4 * k + i % 4] >> parts.two_at & 3) << 2 * k;
    out[parts.two_bytes + i / 4 * 64 + i % 4] = static_cast<uint8_t>(bits);
  }
  for (int i = 0; i < 4 && parts.one_bytes >= 0; ++i) {
    int bits = 0;
    for (int j = 0; j < 8; ++j) bits |= (codes[4 * j + i] >> parts.one_at & 1) << j;
    out[parts.one_bytes + i] = static_cast<uint8_t>(bits);
  }
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

// One step of one row -> its lane of the panel's step.
void PackStep(WeightFormat format, const uint8_t* stored, int lane, uint8_t* step) {
  const QuantisedLayout layout = LayoutOf(format);
  if (HeaderBytes(layout) > 0) {
    const HeaderPlaces places = PlacesOf(format);
    std::memcpy(step + lane * 2, stored + places.d, 2);
    if (HasMinimum(layout.scales)) std::memcpy(step + 64 + lane * 2, stored + places.n, 2);
  }
  uint8_t* block = step + HeaderBytes(layout);
  for (int b = 0; b < StepBlocks(layout); ++b, block += BlockBytes(layout)) {
    uint8_t codes[kBlock];
    ReadCodes(format, stored, b, codes);
    PutCodes(layout, codes, lane, block);
    PackScales(format, stored, b, lane, block + 2 * CodeBytes(layout));
  }
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
  for (int64_t step = 0; step < steps; ++step) {
    for (int lane = 0; lane < kLaneCount; ++lane) PackStep(format, stored + lane * row_bytes, lane, out);
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
