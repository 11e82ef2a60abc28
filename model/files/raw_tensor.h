// RawTensor is one entry of a file's tensor table, its extent checked against the file but not yet its meaning; or what several
// entries are together.
//
// Thread: any.
#ifndef HYDRANT_MODEL_FILES_RAW_TENSOR_H_
#define HYDRANT_MODEL_FILES_RAW_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/types.h"

namespace hydrant {

// The rows of a matrix that no file holds as such: they are put together when they are read.
class RowSource {
 public:
  virtual ~RowSource() = default;
  // Rows [begin, end) into out [end - begin, RowBytes(format, cols)], in the format of the tensor. `out` is aligned as memory of
  // its own is.
  virtual void Read(int64_t begin, int64_t end, std::byte* out) const = 0;
  // What they are made of may be read ahead, and its memory returned; see TensorSource.
  virtual void ReadAhead() const = 0;
  virtual void ReturnMemory() const = 0;
};

struct RawTensor {
  std::string file;  // for messages
  std::string name;
  WeightFormat format = WeightFormat::kF32;
  std::string_view refused_type;  // not empty: the elements are of this type, which is no WeightFormat
  std::vector<int64_t> shape;     // slowest first, as in PyTorch
  std::string_view data;          // exactly the bytes of `shape` in `format`; empty beside `rows`
  std::shared_ptr<const RowSource> rows = nullptr;  // of a matrix that is put together; else null
};

}  // namespace hydrant

#endif  // HYDRANT_MODEL_FILES_RAW_TENSOR_H_
