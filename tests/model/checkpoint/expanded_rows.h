// What the rows that a tensor puts together stand for.
#ifndef HYDRANT_TESTS_MODEL_CHECKPOINT_EXPANDED_ROWS_H_
#define HYDRANT_TESTS_MODEL_CHECKPOINT_EXPANDED_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/types.h"
#include "model/files/dequantize.h"
#include "model/files/raw_tensor.h"

namespace hydrant {

// Rows [begin, end) in fp32. REQUIRES: tensor.rows.
inline std::vector<float> ExpandedRows(const RawTensor& tensor, int64_t begin, int64_t end) {
  const int64_t cols = tensor.shape[1], row_bytes = RowBytes(tensor.format, cols);
  std::vector<std::byte> rows(static_cast<size_t>((end - begin) * row_bytes));
  tensor.rows->Read(begin, end, rows.data());
  std::vector<float> values(static_cast<size_t>((end - begin) * cols));
  for (int64_t row = 0; row < end - begin; ++row) {
    DequantizeRow(tensor.format, rows.data() + row * row_bytes, cols, values.data() + row * cols);
  }
  return values;
}

}  // namespace hydrant

#endif  // HYDRANT_TESTS_MODEL_CHECKPOINT_EXPANDED_ROWS_H_
