// Compiled with -O3 (CMakeLists.txt), so that its loops are vectorised.
#include "model/files/quantize.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>

#include "kernels/small_floats.h"

namespace hydrant {
namespace {

constexpr int kBlock = 32;

// codes[i] = in[i] * inverse, rounded to the nearest in [low, high].
void Round(const float* in, float inverse, float low, float high, int32_t (&codes)[kBlock]) {
  constexpr float kMagic = 0x1.8p23f;  // adding it leaves a whole number in the lowest bits
  for (int i = 0; i < kBlock; ++i) {
    const float scaled = std::min(std::max(in[i] * inverse, low), high);
    codes[i] = std::bit_cast<int32_t>(scaled + kMagic) - std::bit_cast<int32_t>(kMagic);
  }
}

bool AllFinite(const float* in) {
  bool finite = true;
  for (int i = 0; i < kBlock; ++i) finite &= std::fabs(in[i]) <= 0x1.fffffep127f;
  return finite;
}

// The number of the largest magnitude, with its sign.
float Extreme(const float* in) {
  float least = 0, most = 0;
  for (int i = 0; i < kBlock; ++i) {
    least = std::min(least, in[i]);
    most = std::max(most, in[i]);
  }
  return most > -least ? most : least;
}

// 1 / step, or 0 where all codes are to be 0.
float Inverse(uint16_t step) {
  const float value = HalfToFloat(step);
  return value == 0 ? 0.0f : 1 / value;
}

// Returns the step.
uint16_t QuantizeQ8_0(const float* in, uint8_t* codes_out) {
  const uint16_t step = NearestHalf(std::fabs(Extreme(in)) / 127);
  if (step == kHalfNan) return step;
  int32_t codes[kBlock];
  Round(in, Inverse(step), -128, 127, codes);
  for (int i = 0; i < kBlock; ++i) codes_out[i] = static_cast<uint8_t>(codes[i]);
  return step;
}

uint16_t QuantizeQ4_0(const float* in, uint8_t* codes_out) {
  uint16_t step = NearestHalf(Extreme(in) / -8);
  if (step == kHalfNan) return step;
  int32_t codes[kBlock];
  Round(in, Inverse(step), -8, 7, codes);
  float products = 0, squares = 0;
  for (int i = 0; i < kBlock; ++i) {
    products += in[i] * static_cast<float>(codes[i]);
    squares += static_cast<float>(codes[i] * codes[i]);
  }
  if (squares > 0) step = NearestHalf(products / squares);
  for (int i = 0; i < kBlock / 2; ++i) codes_out[i] = static_cast<uint8_t>((codes[i] + 8) | (codes[i + 16] + 8) << 4);
  return step;
}

}  // namespace

bool QuantizeRow(WeightFormat format, const float* in, int64_t elements, void* out) {
  assert(format == WeightFormat::kQ8_0 || format == WeightFormat::kQ4_0);
  assert(elements % kBlock == 0);
  auto* block = static_cast<uint8_t*>(out);
  const auto block_bytes = static_cast<size_t>(InfoOf(format).block_bytes);
  bool finite = true;
  for (int64_t i = 0; i < elements; i += kBlock, block += block_bytes) {
    std::memset(block, 0, block_bytes);
    uint16_t step = kHalfNan;
    if (AllFinite(in + i)) {
      step = format == WeightFormat::kQ8_0 ? QuantizeQ8_0(in + i, block + 2) : QuantizeQ4_0(in + i, block + 2);
    }
    finite &= step != kHalfNan;
    std::memcpy(block, &step, sizeof(step));
  }
  return finite;
}

}  // namespace hydrant
