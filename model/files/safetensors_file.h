// ParseSafetensors reads the tensor table of one .safetensors file and checks every entry against the file.
//
// Thread: any (pure).
#ifndef HYDRANT_MODEL_FILES_SAFETENSORS_FILE_H_
#define HYDRANT_MODEL_FILES_SAFETENSORS_FILE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "model/files/raw_tensor.h"

namespace hydrant {

// `name` is for messages. Views point into `bytes`. Tensors lie one after the other without gap or overlap and fill the
// file, as the format demands. A tensor of a known type that cannot be read is listed with `refused_type`.
absl::StatusOr<std::vector<RawTensor>> ParseSafetensors(std::string_view bytes, const std::string& name);

}  // namespace hydrant

#endif  // HYDRANT_MODEL_FILES_SAFETENSORS_FILE_H_
