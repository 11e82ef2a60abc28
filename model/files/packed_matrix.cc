// Compiled with -O3 (CMakeLists.txt), so that its loops are vectorised.
#include "model/files/packed_matrix.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>

#include "kernels/small_floats.h"
#include "model/files/mapped_file.h"

namespace hydrant {
namespace {

constexpr int kBlock = 32;
constexpr int kMiddleOf4 = 8, kMiddleOf8 = 128;  // the zero points of codes that are symmetric

uint32_t WordAt(std::string_view bytes, int64_t index) {
  uint32_t word;
  std::memcpy(&word, bytes.data() + index * 4, 4);
  return word;
}

// The bits of a word at which the code of its n-th row begins, of four bits in AWQ's order.
int InterleavedShift(int64_t n) {
  constexpr int kShifts[8] = {0, 16, 4, 20, 8, 24, 12, 28};
  return kShifts[n];
}

const std::array<float, 256>& Fp8Values() {
  static const std::array<float, 256> values = [] {
    std::array<float, 256> all;
    for (int i = 0; i < 256; ++i) all[static_cast<size_t>(i)] = Fp8ToFloat(static_cast<uint8_t>(i));
    return all;
  }();
  return values;
}

// A NaN counts: it is one in the file, too.
bool IsHalf(float value) { return value != value || HalfToFloat(NearestHalf(value)) == value; }

bool AllScalesAreHalves(const PackedMatrix& m) {
  if (m.scale_format == WeightFormat::kF16) return true;
  bool all = true;
  for (int64_t row = 0; row < m.rows; row += m.group_rows) {
    for (int64_t group = 0; group < m.groups(); ++group) all &= IsHalf(m.Scale(row, group));
  }
  return all;
}

bool AllZerosAre(const PackedMatrix& m, int wanted) {
  if (m.zeros.empty()) return m.zero == wanted;
  bool all = true;
  for (int64_t row = 0; row < m.rows; ++row) {
    for (int64_t group = 0; group < m.groups(); ++group) all &= m.Zero(row, group) == wanted;
  }
  return all;
}

}  // namespace

int64_t PackedMatrix::GroupOf(int64_t col) const {
  return group_of.empty() ? col / group_cols : group_of[static_cast<size_t>(col)];
}

float PackedMatrix::Scale(int64_t row, int64_t group) const {
  const int64_t index = row / group_rows * scale_row_step + group * scale_group_step;
  if (scale_format == WeightFormat::kF32) return std::bit_cast<float>(WordAt(scales, index));
  uint16_t number;
  std::memcpy(&number, scales.data() + index * 2, 2);
  return scale_format == WeightFormat::kF16 ? HalfToFloat(number)
                                            : std::bit_cast<float>(static_cast<uint32_t>(number) << 16);
}

int PackedMatrix::Zero(int64_t row, int64_t group) const {
  if (zeros.empty()) return zero;
  const int n = 32 / bits;
  const uint32_t word = WordAt(zeros, row / n * zero_row_step + group * zero_group_step);
  const int shift = zeros_interleaved ? InterleavedShift(row % n) : static_cast<int>(row % n) * bits;
  return static_cast<int>(word >> shift & ((1u << bits) - 1)) + zero_offset;
}

void PackedMatrix::Codes(int64_t row, int64_t col, int count, uint8_t* out) const {
  assert(col % kBlock == 0 && count <= kBlock);
  const int n = 32 / bits;
  switch (order) {
    case CodeOrder::kRows:
      if (bits == 8) {
        const int64_t row_bytes = static_cast<int64_t>(codes.size()) / rows;
        std::memcpy(out, codes.data() + row * row_bytes + col, static_cast<size_t>(count));
      } else {
        const int64_t row_bytes = (cols + n - 1) / n * 4;
        const auto* bytes = reinterpret_cast<const uint8_t*>(codes.data() + row * row_bytes + col / 2);
        for (int i = 0; i < count; ++i) out[i] = bytes[i / 2] >> i % 2 * 4 & 15;
      }
      break;
    case CodeOrder::kColumns:
      for (int i = 0; i < count; i += n) {
        const uint32_t word = WordAt(codes, (col + i) / n * rows + row);
        for (int j = 0; j < n; ++j) out[i + j] = static_cast<uint8_t>(word >> j * bits & ((1u << bits) - 1));
      }
      break;
    case CodeOrder::kInterleaved: {
      assert(bits == 4);
      const int shift = InterleavedShift(row % 8);
      for (int i = 0; i < count; ++i) out[i] = WordAt(codes, (col + i) * (rows / 8) + row / 8) >> shift & 15;
      break;
    }
  }
  for (int i = 0; i < count; ++i) out[i] ^= flipped;
}

ExactFormat FindExactFormat(const PackedMatrix& m) {
  if (m.fp8) return {.why_not = "no device multiplies FP8 here"};
  if (!m.group_of.empty()) return {.why_not = "its groups are not of columns after each other (desc_act)"};
  if (m.cols % kBlock != 0) return {.why_not = "its rows are no multiple of 32"};
  if (m.group_cols % kBlock != 0 && m.group_cols < m.cols)
    return {.why_not = "its groups are no multiple of 32 columns"};
  if (!AllScalesAreHalves(m)) return {.why_not = "a scale is no fp16 number"};
  if (m.bits == 4) return {AllZerosAre(m, kMiddleOf4) ? WeightFormat::kQ4_0 : WeightFormat::kQ5_0};
  if (AllZerosAre(m, kMiddleOf8)) return {WeightFormat::kQ8_0};
  return {.why_not = "its 8 bits have zero points of their own"};
}

void PackedRows::Read(int64_t begin, int64_t end, std::byte* out) const {
  const int64_t row_bytes = RowBytes(format_, matrix_.cols);
  const WeightFormatInfo& info = InfoOf(format_);
  uint8_t codes[kBlock];
  // Rows within: those of the orders by columns lie beside each other.
  for (int64_t col = 0; col < matrix_.cols; col += kBlock) {
    const int count = static_cast<int>(std::min<int64_t>(kBlock, matrix_.cols - col));
    std::byte* to = out + col / info.block_elements * info.block_bytes;
    for (int64_t row = begin; row < end; ++row, to += row_bytes) {
      matrix_.Codes(row, col, count, codes);
      if (format_ == WeightFormat::kF32) {
        WriteFloats(row, col, count, codes, to);
      } else {
        WriteBlock(row, col, codes, reinterpret_cast<uint8_t*>(to));
      }
    }
  }
}

void PackedRows::WriteBlock(int64_t row, int64_t col, const uint8_t* codes, uint8_t* out) const {
  const int64_t group = matrix_.GroupOf(col);
  const float scale = matrix_.Scale(row, group);
  const uint16_t step = IsHalf(scale) ? NearestHalf(scale) : kHalfNan;
  std::memcpy(out, &step, sizeof(step));
  out += sizeof(step);
  if (format_ == WeightFormat::kQ8_0) {
    for (int i = 0; i < kBlock; ++i) out[i] = codes[i] ^ 0x80;  // code - 128 in two's complement
    return;
  }
  uint8_t moved[kBlock];
  std::memcpy(moved, codes, kBlock);
  if (format_ == WeightFormat::kQ5_0) {
    const int by = 16 - matrix_.Zero(row, group);
    uint32_t fifth = 0;
    for (int i = 0; i < kBlock; ++i) {
      moved[i] = static_cast<uint8_t>(codes[i] + by);
      fifth |= static_cast<uint32_t>(moved[i] >> 4 & 1) << i;
    }
    std::memcpy(out, &fifth, sizeof(fifth));
    out += sizeof(fifth);
  }
  for (int i = 0; i < kBlock / 2; ++i) out[i] = static_cast<uint8_t>((moved[i] & 15) | moved[i + 16] << 4);
}

void PackedRows::WriteFloats(int64_t row, int64_t col, int count, const uint8_t* codes, std::byte* out) const {
  const std::array<float, 256>& fp8 = Fp8Values();
  float values[kBlock];
  int64_t group = -1;
  float scale = 0;
  int zero = 0;
  for (int i = 0; i < count; ++i) {
    if (const int64_t its_group = matrix_.GroupOf(col + i); its_group != group) {
      group = its_group;
      scale = matrix_.Scale(row, group);
      zero = matrix_.Zero(row, group);
    }
    values[i] = (matrix_.fp8 ? fp8[codes[i]] : static_cast<float>(codes[i] - zero)) * scale;
  }
  std::memcpy(out, values, static_cast<size_t>(count) * sizeof(float));
}

void PackedRows::ReturnMemory() const {
  for (const std::string_view bytes : {matrix_.codes, matrix_.scales, matrix_.zeros}) hydrant::ReturnMemory(bytes);
}

}  // namespace hydrant
