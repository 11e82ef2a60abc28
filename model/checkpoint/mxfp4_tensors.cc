#include "model/checkpoint/mxfp4_tensors.h"

#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_join.h"
#include "model/config/model_config.h"
#include "model/files/file_error.h"
#include "model/files/mxfp4_rows.h"
#include "model/text/str_cat.h"

namespace hydrant {
namespace {

constexpr std::string_view kBlocks = "_blocks", kScales = "_scales";

template <typename... Parts>
absl::Status Misfit(const RawTensor& tensor, const Parts&... message) {
  return FileError(tensor.file, "tensor " + Quoted(tensor.name), message...);
}

absl::Status CheckBytes(const RawTensor& tensor) {
  if (tensor.refused_type == "U8") return absl::OkStatus();
  return Misfit(tensor, "dtype ", tensor.refused_type.empty() ? InfoOf(tensor.format).name : tensor.refused_type,
                " is not U8");
}

// "a.x", 3 -> "a.3.x"
std::string NameOf(std::string_view all, int64_t expert) {
  const size_t dot = all.rfind('.');
  const size_t at = dot == all.npos ? 0 : dot + 1;
  return StrCat(all.substr(0, at), expert, ".", all.substr(at));
}

class Mxfp4Joiner {
 public:
  explicit Mxfp4Joiner(std::vector<RawTensor>& tensors) : tensors_(tensors), taken_(tensors.size(), false) {
    for (size_t i = 0; i < tensors.size(); ++i) by_name_.emplace(tensors[i].name, i);
  }

  absl::Status Run() {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const std::string& name = tensors_[i].name;
      if (!name.ends_with(kBlocks)) continue;
      taken_[i] = true;
      HYDRANT_RETURN_IF_ERROR(Join(tensors_[i], name.substr(0, name.size() - kBlocks.size())));
    }
    if (joined_.empty() && !tensors_.empty()) {
      return FileError(tensors_.front().file, "", "no matrix is stored in the way that quantization_config says");
    }
    std::vector<RawTensor> left;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (!taken_[i]) left.push_back(std::move(tensors_[i]));
    }
    std::move(joined_.begin(), joined_.end(), std::back_inserter(left));
    tensors_ = std::move(left);
    return absl::OkStatus();
  }

 private:
  absl::Status Join(const RawTensor& blocks, const std::string& name) {
    if (by_name_.contains(name)) return Misfit(blocks, Quoted(name), " is there as well");
    const auto found = by_name_.find(StrCat(name, kScales));
    if (found == by_name_.end()) {
      return FileError(blocks.file, "tensor " + Quoted(StrCat(name, kScales)), "is missing");
    }
    taken_[found->second] = true;
    const RawTensor& scales = tensors_[found->second];
    HYDRANT_RETURN_IF_ERROR(CheckBytes(blocks));
    HYDRANT_RETURN_IF_ERROR(CheckBytes(scales));
    // Then no product of extents is larger than the file.
    const std::vector<int64_t>& shape = blocks.shape;
    if (shape.size() != 4 || shape[0] < 1 || shape[1] < 1 || shape[2] < 1 || shape[3] != kMxfp4BlockBytes) {
      return Misfit(blocks, "its shape is [", absl::StrJoin(shape, ", "), "], which is not [experts, rows, blocks, ",
                    kMxfp4BlockBytes, "]");
    }
    if (shape[0] > kExpertsMax) return Misfit(blocks, shape[0], " experts are more than ", kExpertsMax);
    const std::vector<int64_t> of_scales(shape.begin(), shape.end() - 1);
    if (scales.shape != of_scales) {
      return Misfit(scales, "its shape is [", absl::StrJoin(scales.shape, ", "), "], that of ", Quoted(blocks.name),
                    " asks for [", absl::StrJoin(of_scales, ", "), "]");
    }
    const size_t scale_bytes = static_cast<size_t>(shape[1] * shape[2]), block_bytes = scale_bytes * kMxfp4BlockBytes;
    for (int64_t expert = 0; expert < shape[0]; ++expert) {
      RawTensor matrix{.file = blocks.file, .name = NameOf(name, expert), .format = WeightFormat::kMXFP4};
      if (by_name_.contains(matrix.name)) return Misfit(blocks, Quoted(matrix.name), " is there as well");
      matrix.shape = {shape[1], shape[2] * InfoOf(WeightFormat::kMXFP4).block_elements};
      const auto at = static_cast<size_t>(expert);
      matrix.rows = std::make_shared<Mxfp4Rows>(shape[2], blocks.data.substr(at * block_bytes, block_bytes),
                                                scales.data.substr(at * scale_bytes, scale_bytes));
      joined_.push_back(std::move(matrix));
    }
    return absl::OkStatus();
  }

  std::vector<RawTensor>& tensors_;
  std::vector<bool> taken_;
  absl::flat_hash_map<std::string, size_t> by_name_;
  std::vector<RawTensor> joined_;
};

}  // namespace

absl::Status JoinMxfp4(std::vector<RawTensor>& tensors) { return Mxfp4Joiner(tensors).Run(); }

}  // namespace hydrant
