// RawTensor is one entry of a file's tensor table, its extent checked against the file but not yet its meaning.
#ifndef HYDRANT_MODEL_FILES_RAW_TENSOR_H_
#define HYDRANT_MODEL_FILES_RAW_TENSOR_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/types.h"

namespace hydrant {

struct RawTensor {
  std::string file;  // for messages
  std::string name;
  WeightFormat format = WeightFormat::kF32;
  std::string_view refused_type;  // not empty: the elements are of this type, which is no WeightFormat
  std::vector<int64_t> shape;     // slowest first, as in PyTorch
  std::string_view data;          // exactly the bytes of `shape` in `format`
};

}  // namespace hydrant

#endif  // HYDRANT_MODEL_FILES_RAW_TENSOR_H_
