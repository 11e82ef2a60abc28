// PackedMatrix is a matrix as quantised Hugging Face checkpoints store it: codes in one tensor, the scales (and zero points) of
// groups of its columns in others. PackedRows reads it as one tensor.
//
// Thread: any (immutable). The views must outlive it.
//
// Element (row, col) is (code - zero) * scale, in fp32 rounded once; of FP8 the number that the code is, times the scale.
#ifndef HYDRANT_MODEL_FILES_PACKED_MATRIX_H_
#define HYDRANT_MODEL_FILES_PACKED_MATRIX_H_

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/types.h"
#include "model/files/raw_tensor.h"

namespace hydrant {

// Where codes lie in words of 32 bits, the first one in the lowest bits; n = 32 / bits of them in a word.
enum class CodeOrder : uint8_t {
  kRows,     // [rows, cols / n rounded up]: n columns of a row. Of 8 bits that is a byte for each, without rounding up
  kColumns,  // [cols / n, rows]: n columns of a row
  kInterleaved,  // [cols, rows / n]: n = 8 rows of a column, in the order 0, 2, 4, 6, 1, 3, 5, 7
};

struct PackedMatrix {
  int64_t rows = 0, cols = 0;
  int bits = 4;  // 4 or 8
  bool fp8 = false;
  CodeOrder order = CodeOrder::kRows;
  std::string_view codes;
  uint8_t flipped = 0;  // bits of a code that are stored the other way round: 0x80 for int8, whose code 0 is -128

  // Groups of `group_cols` columns have a scale, `group_rows` rows together. It is at (row / group_rows) * scale_row_step + group
  // * scale_group_step.
  int64_t group_cols = 0, group_rows = 1;
  WeightFormat scale_format = WeightFormat::kF16;  // kF32, kF16 or kBF16
  int64_t scale_row_step = 0, scale_group_step = 0;
  std::string_view scales;
  std::vector<int32_t> group_of;  // [cols]; empty: group_cols columns after each other

  // Zero points are packed as codes are, n rows together, in the word (row / n) * zero_row_step + group * zero_group_step, less
  // `zero_offset`. Empty: all are `zero`.
  std::string_view zeros;
  bool zeros_interleaved = false;
  int64_t zero_row_step = 0, zero_group_step = 0;
  int zero_offset = 0;
  int zero = 8;

  int64_t groups() const { return (cols + group_cols - 1) / group_cols; }
  int64_t GroupOf(int64_t col) const;
  float Scale(int64_t row, int64_t group) const;
  int Zero(int64_t row, int64_t group) const;
  // Codes of columns [col, col + count) of a row into out [32]. REQUIRES: col is a multiple of 32, count at most 32 and not beyond
  // the row.
  void Codes(int64_t row, int64_t col, int count, uint8_t* out) const;
};

// The format of kernels/types.h in which a matrix is exactly what it is here, or kF32 and why none is.
struct ExactFormat {
  WeightFormat format = WeightFormat::kF32;
  std::string_view why_not = {};  // "a scale is no fp16 number"; empty: `format` is a quantised one
};
ExactFormat FindExactFormat(const PackedMatrix& matrix);

class PackedRows final : public RowSource {
 public:
  // REQUIRES: the format is FindExactFormat's, or kF32; views and `group_of` are as long as the extents say.
  PackedRows(PackedMatrix matrix, WeightFormat format) : matrix_(std::move(matrix)), format_(format) {}

  // Scales that have changed since, because somebody writes to the file, and that the format cannot have read as NaN.
  void Read(int64_t begin, int64_t end, std::byte* out) const override;
  void ReadAhead() const override;
  void ReturnMemory() const override;

 private:
  void WriteBlock(int64_t row, int64_t col, const uint8_t* codes, uint8_t* out) const;
  void ReadFloats(int64_t begin, int64_t end, float* out) const;

  PackedMatrix matrix_;
  WeightFormat format_;
};

}  // namespace hydrant

#endif  // HYDRANT_MODEL_FILES_PACKED_MATRIX_H_
