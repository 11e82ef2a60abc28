#include "kernels/cpu/linear/quantised_layout.h"

#include <bit>
#include <cassert>
#include <cstring>

namespace hydrant {
namespace {

constexpr int kLaneCount = 32;
constexpr int kBlock = static_cast<int>(kQuantisedBlock);

// Branch-free fp16 -> fp32 as in model/files/dequantize.cc: shift into place, repair the exponent with one product.
float HalfToFloat(uint16_t half) {
  const uint32_t magnitude = static_cast<uint32_t>(half & 0x7FFFu) << 13;
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112f;
  const uint32_t special = magnitude >= 0x0F800000u ? 0x7F800000u : 0u;
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) | special | sign);
}

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
  switch (format) {
    case WeightFormat::kQ8_0:
      // Signed in the file: adding 128 flips the highest bit.
      for (int i = 0; i < kBlock; ++i) codes[i] = stored[2 + i] ^ 0x80;
      return;
    case WeightFormat::kQ4_0:
      return halves(stored + 2);
    case WeightFormat::kQ4_1:
      return halves(stored + 4);
    case WeightFormat::kQ5_0:
      halves(stored + 6);
      return fifth_in_row(stored + 2);
    case WeightFormat::kQ5_1:
      halves(stored + 8);
      return fifth_in_row(stored + 4);
    case WeightFormat::kQ4_K:
      return shared(stored + 16 + block / 2 * 32, block % 2 * 4);
    case WeightFormat::kQ5_K:
      shared(stored + 48 + block / 2 * 32, block % 2 * 4);
      for (int i = 0; i < kBlock; ++i) {
        codes[i] = static_cast<uint8_t>(codes[i] | (stored[16 + i] >> block & 1) << 4);
      }
      return;
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

// --- panels ---------------------------------------------------------------------------------------------------------

void PutCodes(QuantisedLayout layout, const uint8_t* codes, int lane, uint8_t* block) {
  uint8_t* out = block + lane / 16 * CodeBytes(layout) + lane % 16 * 4;
  if (layout.code_bits == 8) {
    for (int j = 0; j < 8; ++j) std::memcpy(out + j * 64, codes + 4 * j, 4);
    return;
  }
  for (int j = 0; j < 4; ++j) {
    for (int i = 0; i < 4; ++i) {
      out[j * 64 + i] = static_cast<uint8_t>((codes[4 * j + i] & 15) | (codes[16 + 4 * j + i] & 15) << 4);
    }
  }
  for (int i = 0; i < 4 && layout.code_bits == 5; ++i) {
    int bits = 0;
    for (int j = 0; j < 8; ++j) bits |= (codes[4 * j + i] >> 4) << j;
    out[256 + i] = static_cast<uint8_t>(bits);
  }
  for (int i = 0; i < 8 && layout.code_bits == 6; ++i) {
    int bits = 0;
    for (int k = 0; k < 4; ++k) bits |= (codes[i / 4 * 16 + 4 * k + i % 4] >> 4) << 2 * k;
    out[256 + i / 4 * 64 + i % 4] = static_cast<uint8_t>(bits);
  }
}

void GetCodes(QuantisedLayout layout, const uint8_t* block, int lane, uint8_t* codes) {
  const uint8_t* in = block + lane / 16 * CodeBytes(layout) + lane % 16 * 4;
  for (int input = 0; input < kBlock; ++input) {
    const int j = input / 4, i = input % 4;
    if (layout.code_bits == 8) {
      codes[input] = in[j * 64 + i];
      continue;
    }
    int code = in[j % 4 * 64 + i] >> j / 4 * 4 & 15;
    if (layout.code_bits == 5) code |= (in[256 + i] >> j & 1) << 4;
    if (layout.code_bits == 6) code |= (in[256 + j / 4 * 64 + i] >> j % 4 * 2 & 3) << 4;
    codes[input] = static_cast<uint8_t>(code);
  }
}

// fp16 number `index` of the stored step -> place `lane` of out [32].
void PutHalf(const uint8_t* stored, int lane, uint8_t* out) { std::memcpy(out + lane * 2, stored, 2); }

// One step of one row -> its lane of the panel's step.
void PackStep(WeightFormat format, const uint8_t* stored, int lane, uint8_t* step) {
  const QuantisedLayout layout = LayoutOf(format);
  if (layout.scales == ScaleKind::kStepsAndMinima) {
    PutHalf(stored, lane, step);
    PutHalf(stored + 2, lane, step + 64);
  } else if (layout.scales == ScaleKind::kHalves) {
    PutHalf(stored + 208, lane, step);
  }
  uint8_t* block = step + HeaderBytes(layout);
  for (int b = 0; b < StepBlocks(layout); ++b, block += BlockBytes(layout)) {
    uint8_t codes[kBlock];
    ReadCodes(format, stored, b, codes);
    PutCodes(layout, codes, lane, block);
    uint8_t* scales = block + 2 * CodeBytes(layout);
    switch (layout.scales) {
      case ScaleKind::kOwnAndMinimum:
        PutHalf(stored + 2, lane, scales + 64);
        [[fallthrough]];
      case ScaleKind::kOwn:
        PutHalf(stored, lane, scales);
        break;
      case ScaleKind::kStepsAndMinima:
        ReadSixBitScales(stored + 4, b, scales + lane, scales + kLaneCount + lane);
        break;
      case ScaleKind::kHalves:
        scales[lane] = stored[192 + 2 * b];
        scales[kLaneCount + lane] = stored[192 + 2 * b + 1];
        break;
    }
  }
}

// One block of one lane -> out [32].
void UnpackBlock(QuantisedLayout layout, const uint8_t* step, const uint8_t* block, int lane, float* out) {
  const uint8_t* scales = block + 2 * CodeBytes(layout);
  uint8_t codes[kBlock];
  GetCodes(layout, block, lane, codes);
  float steps[2] = {0, 0}, minimum = 0;
  switch (layout.scales) {
    case ScaleKind::kOwnAndMinimum:
      minimum = LoadHalf(scales + 64 + lane * 2);
      [[fallthrough]];
    case ScaleKind::kOwn:
      steps[0] = steps[1] = LoadHalf(scales + lane * 2);
      break;
    case ScaleKind::kStepsAndMinima:
      steps[0] = steps[1] = LoadHalf(step + lane * 2) * static_cast<float>(scales[lane]);
      minimum = -(LoadHalf(step + 64 + lane * 2) * static_cast<float>(scales[kLaneCount + lane]));
      break;
    case ScaleKind::kHalves:
      for (int half = 0; half < 2; ++half) {
        const auto scale = static_cast<int8_t>(scales[half * kLaneCount + lane]);
        steps[half] = LoadHalf(step + lane * 2) * static_cast<float>(scale);
      }
      break;
  }
  for (int i = 0; i < kBlock; ++i) {
    const float product = steps[i / 16] * static_cast<float>(codes[i] - layout.offset);
    // Without a minimum nothing is added: -0 + 0 would be another number.
    out[i] = HasMinimum(layout.scales) ? product + minimum : product;
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
