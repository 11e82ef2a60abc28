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

uint32_t WordAt(const char* words, int64_t index) {
  uint32_t word;
  std::memcpy(&word, words + index * 4, 4);
  return word;
}
uint32_t WordAt(std::string_view words, int64_t index) { return WordAt(words.data(), index); }

// The eight codes of a word into a byte each, the lowest one first.
void SpreadHalfBytes(uint32_t word, uint8_t* out) {
  uint64_t spread = word;
  spread = (spread | spread << 16) & 0x0000FFFF0000FFFF;
  spread = (spread | spread << 8) & 0x00FF00FF00FF00FF;
  spread = (spread | spread << 4) & 0x0F0F0F0F0F0F0F0F;
  std::memcpy(out, &spread, sizeof(spread));
}

// The lowest bits of eight bytes, that of the first one lowest.
uint8_t LowestBits(const uint8_t* bytes) {
  uint64_t all;
  std::memcpy(&all, bytes, sizeof(all));
  // Byte i's bit is moved to bit 56 + i, and no two of the products meet.
  return static_cast<uint8_t>((all & 0x0101010101010101) * 0x0102040810204080 >> 56);
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
  const int64_t word_row = bits == 4 ? row / 8 : row / 4, in_word = bits == 4 ? row % 8 : row % 4;
  const uint32_t word = WordAt(zeros, word_row * zero_row_step + group * zero_group_step);
  const int shift = zeros_interleaved ? InterleavedShift(in_word) : static_cast<int>(in_word) * bits;
  return static_cast<int>(word >> shift & ((1u << bits) - 1)) + zero_offset;
}

// Into an array of its own: bytes that are written through a pointer might be the members, which would be read again each time.
void PackedMatrix::Codes(int64_t row, int64_t col, int count, uint8_t* out) const {
  assert(col % kBlock == 0 && count <= kBlock);
  uint8_t block[kBlock] = {};
  switch (order) {
    case CodeOrder::kRows:
      if (bits == 8) {
        std::memcpy(block, codes.data() + row * (static_cast<int64_t>(codes.size()) / rows) + col,
                    static_cast<size_t>(count));
      } else {
        const char* words = codes.data() + ((cols + 7) / 8 * row + col / 8) * 4;
        for (int i = 0; i < count; i += 8) SpreadHalfBytes(WordAt(words, i / 8), block + i);
      }
      break;
    case CodeOrder::kColumns:
      if (bits == 8) {
        const char* words = codes.data() + (col / 4 * rows + row) * 4;
        for (int i = 0; i < count; i += 4, words += rows * 4) std::memcpy(block + i, words, 4);
      } else {
        const char* words = codes.data() + (col / 8 * rows + row) * 4;
        for (int i = 0; i < count; i += 8, words += rows * 4) SpreadHalfBytes(WordAt(words, 0), block + i);
      }
      break;
    case CodeOrder::kInterleaved: {
      assert(bits == 4);
      const int shift = InterleavedShift(row % 8);
      const int64_t column_bytes = rows / 8 * 4;
      // The shift leaves four bits of one byte.
      const char* byte = codes.data() + col * column_bytes + row / 8 * 4 + shift / 8;
      for (int i = 0; i < count; ++i, byte += column_bytes) block[i] = static_cast<uint8_t>(*byte) >> shift % 8 & 15;
      break;
    }
  }
  for (int i = 0; i < kBlock; ++i) out[i] = block[i] ^ flipped;
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
  if (format_ == WeightFormat::kF32) return ReadFloats(begin, end, reinterpret_cast<float*>(out));
  const int64_t row_bytes = RowBytes(format_, matrix_.cols), block_bytes = InfoOf(format_).block_bytes;
  uint8_t codes[kBlock];
  // Rows within: those of the orders by columns lie beside each other.
  for (int64_t col = 0; col < matrix_.cols; col += kBlock) {
    auto* to = reinterpret_cast<uint8_t*>(out + col / kBlock * block_bytes);
    for (int64_t row = begin; row < end; ++row, to += row_bytes) {
      matrix_.Codes(row, col, kBlock, codes);
      WriteBlock(row, col, codes, to);
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
    const auto by = static_cast<uint8_t>(16 - matrix_.Zero(row, group));
    uint8_t fifth[kBlock];
    for (int i = 0; i < kBlock; ++i) moved[i] = static_cast<uint8_t>(codes[i] + by);
    for (int i = 0; i < kBlock; ++i) fifth[i] = moved[i] >> 4;
    for (int i = 0; i < kBlock / 8; ++i) *out++ = LowestBits(fifth + 8 * i);
  }
  for (int i = 0; i < kBlock / 2; ++i) out[i] = static_cast<uint8_t>((moved[i] & 15) | moved[i + 16] << 4);
}

void PackedRows::ReadFloats(int64_t begin, int64_t end, float* out) const {
  struct Step {
    float scale;
    int zero;
  };
  std::vector<Step> steps;  // [end - begin][groups]
  steps.reserve(static_cast<size_t>((end - begin) * matrix_.groups()));
  for (int64_t row = begin; row < end; ++row) {
    for (int64_t group = 0; group < matrix_.groups(); ++group) {
      steps.push_back({matrix_.Scale(row, group), matrix_.Zero(row, group)});
    }
  }
  const std::array<float, 256>& fp8 = Fp8Values();
  uint8_t codes[kBlock];
  for (int64_t col = 0; col < matrix_.cols; col += kBlock) {
    const int count = static_cast<int>(std::min<int64_t>(kBlock, matrix_.cols - col));
    int64_t groups[kBlock];
    for (int i = 0; i < count; ++i) groups[i] = matrix_.GroupOf(col + i);
    const Step* of_row = steps.data();
    float* to = out + col;
    for (int64_t row = begin; row < end; ++row, to += matrix_.cols, of_row += matrix_.groups()) {
      matrix_.Codes(row, col, count, codes);
      for (int i = 0; i < count; ++i) {
        const Step step = of_row[groups[i]];
        to[i] = (matrix_.fp8 ? fp8[codes[i]] : static_cast<float>(codes[i] - step.zero)) * step.scale;
      }
    }
  }
}

void PackedRows::ReadAhead() const {
  for (const std::string_view bytes : {matrix_.codes, matrix_.scales, matrix_.zeros}) hydrant::ReadAhead(bytes);
}

void PackedRows::ReturnMemory() const {
  for (const std::string_view bytes : {matrix_.codes, matrix_.scales, matrix_.zeros}) hydrant::ReturnMemory(bytes);
}

}  // namespace hydrant
