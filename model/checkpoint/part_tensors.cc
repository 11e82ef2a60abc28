#include "model/checkpoint/part_tensors.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "kernels/types.h"

namespace hydrant {

PartTensors::PartTensors(std::vector<RawTensor>& tensors) : tensors_(tensors), taken_(tensors.size(), false) {
  for (size_t i = 0; i < tensors.size(); ++i) by_name_.emplace(tensors[i].name, i);
}

const RawTensor* PartTensors::TryTake(const std::string& name) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return nullptr;
  Take(found->second);
  return &tensors_[found->second];
}

absl::StatusOr<const RawTensor*> PartTensors::Take(const std::string& name, std::string_view file) {
  const RawTensor* tensor = TryTake(name);
  if (tensor == nullptr) return FileError(file, "tensor " + Quoted(name), "is missing");
  return tensor;
}

absl::Status PartTensors::Replace(std::vector<RawTensor> matrices) {
  if (matrices.empty() && !tensors_.empty()) {
    return FileError(tensors_.front().file, "", "no matrix is stored in the way that quantization_config says");
  }
  std::vector<RawTensor> left;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (!taken_[i]) left.push_back(std::move(tensors_[i]));
  }
  std::move(matrices.begin(), matrices.end(), std::back_inserter(left));
  tensors_ = std::move(left);
  return absl::OkStatus();
}

std::string_view DtypeOf(const RawTensor& tensor) {
  return tensor.refused_type.empty() ? InfoOf(tensor.format).name : tensor.refused_type;
}

absl::Status CheckDtype(const RawTensor& tensor, std::initializer_list<std::string_view> dtypes) {
  if (std::find(dtypes.begin(), dtypes.end(), DtypeOf(tensor)) != dtypes.end()) return absl::OkStatus();
  return Wrong(tensor, "dtype ", DtypeOf(tensor), " is not ", Joined(dtypes, " or "));
}

}  // namespace hydrant
