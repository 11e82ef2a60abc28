// PartTensors are the tensors of a quantised checkpoint while several of them become one matrix.
//
// Thread: one.
#ifndef HYDRANT_MODEL_CHECKPOINT_PART_TENSORS_H_
#define HYDRANT_MODEL_CHECKPOINT_PART_TENSORS_H_

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/files/file_error.h"
#include "model/files/raw_tensor.h"
#include "model/text/str_cat.h"

namespace hydrant {

class PartTensors {
 public:
  // `tensors` must outlive it.
  explicit PartTensors(std::vector<RawTensor>& tensors);

  const std::vector<RawTensor>& all() const { return tensors_; }
  bool Has(const std::string& name) const { return by_name_.contains(name); }
  // That tensor is a part of a matrix, and goes with Replace.
  void Take(size_t index) { taken_[index] = true; }
  // The same; null: there is none of this name.
  const RawTensor* TryTake(const std::string& name);
  // The same. Errors name `file`: there is none.
  absl::StatusOr<const RawTensor*> Take(const std::string& name, std::string_view file);
  // Puts matrices behind the tensors that were not taken. Errors: there are no matrices, and there are tensors.
  absl::Status Replace(std::vector<RawTensor> matrices);

 private:
  std::vector<RawTensor>& tensors_;
  std::vector<bool> taken_;  // [tensors]
  absl::flat_hash_map<std::string, size_t> by_name_;
};

// An error that names the tensor and its file.
template <typename... Parts>
absl::Status Wrong(const RawTensor& tensor, const Parts&... message) {
  return FileError(tensor.file, "tensor " + Quoted(tensor.name), message...);
}

// The dtype of a tensor of a .safetensors file, in its words.
std::string_view DtypeOf(const RawTensor& tensor);
// Errors: it is none of these.
absl::Status CheckDtype(const RawTensor& tensor, std::initializer_list<std::string_view> dtypes);

}  // namespace hydrant

#endif  // HYDRANT_MODEL_CHECKPOINT_PART_TENSORS_H_
