#include "kernels/reference/quantised_reference.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

namespace hydrant::reference {
namespace {

constexpr size_t kBlock = 32;

float Half(const std::byte* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof(bits));
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 31) return mantissa != 0 ? std::numeric_limits<float>::quiet_NaN() : sign * HUGE_VALF;
  return sign * (exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                               : std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25));
}

int Byte(const std::byte* at) { return std::to_integer<int>(*at); }

// Element i of 32 in 16 bytes: the low half of byte i, or the high half of byte i - 16.
int Nibble(const std::byte* q, int64_t i) { return i < 16 ? Byte(q + i) & 15 : Byte(q + i - 16) >> 4; }

int Bit(const std::byte* bits, int64_t i) { return Byte(bits + i / 8) >> i % 8 & 1; }

StoredElement InBlockOf32(WeightFormat format, const std::byte* block, int64_t i) {
  const float d = Half(block);
  switch (format) {
    case WeightFormat::kQ8_0:
      return {static_cast<int8_t>(Byte(block + 2 + i)), d, 0};
    case WeightFormat::kQ4_0:
      return {Nibble(block + 2, i) - 8, d, 0};
    case WeightFormat::kQ4_1:
      return {Nibble(block + 4, i), d, Half(block + 2)};
    case WeightFormat::kQ5_0:
      return {Nibble(block + 6, i) + 16 * Bit(block + 2, i) - 16, d, 0};
    case WeightFormat::kIQ4_NL:
      return {kNonLinearCodes[Nibble(block + 2, i)], d, 0};
    case WeightFormat::kMXFP4:
      return {kFp4Codes[Nibble(block + 1, i)], std::ldexp(1.0f, Byte(block) - 128), 0};
    default:
      assert(format == WeightFormat::kQ5_1);
      return {Nibble(block + 8, i) + 16 * Bit(block + 4, i), d, Half(block + 2)};
  }
}

// Q4_K and Q5_K: eight groups of 32, two of them in the halves of 32 bytes.
StoredElement InGroups(WeightFormat format, const std::byte* block, int64_t i) {
  const int64_t group = i / 32, at = i % 32;
  const std::byte* packed = block + 4;
  const int first = Byte(packed + group % 4), second = Byte(packed + 4 + group % 4),
            third = Byte(packed + 8 + group % 4);
  const int scale = group < 4 ? first % 64 : third % 16 + first / 64 * 16;
  const int minimum = group < 4 ? second % 64 : third / 16 + second / 64 * 16;
  const std::byte* q = block + (format == WeightFormat::kQ5_K ? 48 : 16) + group / 2 * 32;
  int code = group % 2 == 0 ? Byte(q + at) % 16 : Byte(q + at) / 16;
  if (format == WeightFormat::kQ5_K) code += 16 * (Byte(block + 16 + at) >> group & 1);
  return {code, Half(block) * static_cast<float>(scale), -(Half(block + 2) * static_cast<float>(minimum))};
}

// Two bits of element i of 256: those of elements 32 apart, up to four of them, are in one byte.
int TwoBits(const std::byte* q, int64_t i) { return Byte(q + i / 128 * 32 + i % 32) >> i % 128 / 32 * 2 & 3; }

// Q6_K: low four bits of elements 0 to 31 and 64 to 95 of each 128 in the halves of 32 bytes, of the others in the next 32.
StoredElement InQ6_K(const std::byte* block, int64_t i) {
  const int64_t half = i / 128, quarter = i % 128 / 32;
  const int low = Byte(block + half * 64 + quarter % 2 * 32 + i % 32);
  const auto scale = static_cast<int8_t>(Byte(block + 192 + i / 16));
  const int code = (quarter < 2 ? low % 16 : low / 16) + 16 * TwoBits(block + 128, i) - 32;
  return {code, Half(block + 208) * static_cast<float>(scale), 0};
}

StoredElement InQ2_K(const std::byte* block, int64_t i) {
  const int scale = Byte(block + i / 16);
  return {TwoBits(block + 16, i), Half(block + 80) * static_cast<float>(scale % 16),
          -(Half(block + 82) * static_cast<float>(scale / 16))};
}

// Q3_K: the third bit of element i is bit i / 32 of byte i % 32. Of the 16 scales' six bits, the low four of the first eight are
// in low halves of eight bytes, of the others in the high halves, the high two in four more.
StoredElement InQ3_K(const std::byte* block, int64_t i) {
  const int64_t group = i / 16;
  const std::byte* scales = block + 96;
  const int low = Byte(scales + group % 8), high = Byte(scales + 8 + group % 4) >> 2 * (group / 4) & 3;
  const int scale = (group < 8 ? low % 16 : low / 16) + 16 * high - 32;
  const int third = Byte(block + i % 32) >> i / 32 & 1;
  return {TwoBits(block + 32, i) + 4 * third - 4, Half(block + 108) * static_cast<float>(scale), 0};
}

StoredElement InIQ4_XS(const std::byte* block, int64_t i) {
  const int64_t group = i / 32;
  const int both = Byte(block + 4 + group / 2), low = group % 2 == 0 ? both % 16 : both / 16;
  const int high = Byte(block + 2 + group / 4) >> 2 * (group % 4) & 3;
  const auto scale = static_cast<float>(low + 16 * high - 32);
  return {kNonLinearCodes[Nibble(block + 8 + group * 16, i % 32)], Half(block) * scale, 0};
}

bool HasMinima(WeightFormat format) {
  return format == WeightFormat::kQ4_1 || format == WeightFormat::kQ5_1 || format == WeightFormat::kQ2_K ||
         format == WeightFormat::kQ4_K || format == WeightFormat::kQ5_K;
}

}  // namespace

QuantisedRow QuantiseRow(std::span<const float> x) {
  assert(x.size() % kBlock == 0);
  QuantisedRow row{std::vector<int32_t>(x.size(), 0), {}};
  for (size_t begin = 0; begin < x.size(); begin += kBlock) {
    float largest = 0;
    bool finite = true;
    for (size_t i = begin; i < begin + kBlock; ++i) {
      finite = finite && std::isfinite(x[i]);
      largest = std::max(largest, std::abs(x[i]));
    }
    if (!finite) {
      row.scale.push_back(std::numeric_limits<float>::quiet_NaN());
      continue;
    }
    if (largest < 0x1p-100f) {
      row.scale.push_back(0);
      continue;
    }
    row.scale.push_back(largest / 32512.0f);
    const float inverse = 32512.0f / largest;
    for (size_t i = begin; i < begin + kBlock; ++i) {
      const auto q = static_cast<int32_t>(std::nearbyint(x[i] * inverse));
      const bool half = (q + 32768) % 256 == 128;  // the low byte would be -128
      row.q[i] = half ? q + 1 : q;
    }
  }
  return row;
}

StoredElement ElementOf(WeightFormat format, const std::byte* row, int64_t index) {
  const WeightFormatInfo& info = InfoOf(format);
  const std::byte* block = row + index / info.block_elements * info.block_bytes;
  const int64_t i = index % info.block_elements;
  switch (format) {
    case WeightFormat::kQ2_K:
      return InQ2_K(block, i);
    case WeightFormat::kQ3_K:
      return InQ3_K(block, i);
    case WeightFormat::kQ6_K:
      return InQ6_K(block, i);
    case WeightFormat::kIQ4_XS:
      return InIQ4_XS(block, i);
    case WeightFormat::kQ4_K:
    case WeightFormat::kQ5_K:
      return InGroups(format, block, i);
    default:
      return InBlockOf32(format, block, i);
  }
}

std::vector<StoredElement> ElementsOf(WeightFormat format, const std::byte* row, int64_t cols) {
  std::vector<StoredElement> elements;
  for (int64_t i = 0; i < cols; ++i) elements.push_back(ElementOf(format, row, i));
  return elements;
}

float QuantisedProduct(WeightFormat format, std::span<const StoredElement> row, const QuantisedRow& x) {
  const bool of_16 = format == WeightFormat::kQ2_K || format == WeightFormat::kQ3_K || format == WeightFormat::kQ6_K;
  const size_t group = of_16 ? 16 : kBlock;
  float sum = 0;
  for (size_t begin = 0; begin < x.q.size(); begin += group) {
    const float scale = x.scale[begin / kBlock];
    int whole = 0, all = 0;
    for (size_t i = begin; i < begin + group; ++i) {
      whole += row[i].code * x.q[i];
      all += x.q[i];
    }
    sum = std::fma(static_cast<float>(whole), row[begin].step * scale, sum);
    if (HasMinima(format)) sum = std::fma(row[begin].minimum, scale * static_cast<float>(all), sum);
  }
  return sum;
}

}  // namespace hydrant::reference
