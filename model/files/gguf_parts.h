// GgufParts is a model in one .gguf file, or in the parts that llama.cpp splits one into: NAME-00001-of-00003.gguf and its like
// in one folder. The first part has the metadata of the model; each has some of the tensors.
//
// Thread: any (immutable). Views point into the mapped files and live as long as those.
//
// Invariants
//  1. All parts are there, and they belong together by what they say of themselves: number, count, tensors in all.
//  2. Tensor names are unique over all parts.
#ifndef HYDRANT_MODEL_FILES_GGUF_PARTS_H_
#define HYDRANT_MODEL_FILES_GGUF_PARTS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "model/files/gguf_file.h"
#include "model/files/mapped_file.h"
#include "model/files/raw_tensor.h"

namespace hydrant {

class GgufParts {
 public:
  // `path` is that of the one file, or of the first part. Errors name the part, and what it says.
  static absl::StatusOr<GgufParts> Open(const std::string& path);

  const GgufFile& metadata() const { return metadata_; }              // of the first part
  const std::vector<RawTensor>& tensors() const { return tensors_; }  // of all parts, in their order
  std::vector<std::unique_ptr<MappedFile>> TakeFiles() && { return std::move(files_); }

 private:
  explicit GgufParts(GgufFile metadata) : metadata_(std::move(metadata)) {}

  std::vector<std::unique_ptr<MappedFile>> files_;
  GgufFile metadata_;
  std::vector<RawTensor> tensors_;
};

}  // namespace hydrant

#endif  // HYDRANT_MODEL_FILES_GGUF_PARTS_H_
