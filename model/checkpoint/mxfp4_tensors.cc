#include "model/checkpoint/mxfp4_tensors.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_join.h"
#include "model/checkpoint/part_tensors.h"
#include "model/config/model_config.h"
#include "model/files/mxfp4_rows.h"
#include "model/text/str_cat.h"

namespace hydrant {
namespace {

constexpr std::string_view kBlocks = "_blocks", kScales = "_scales";

// "a.x", 3 -> "a.3.x"
std::string NameOf(std::string_view all, int64_t expert) {
  const size_t dot = all.rfind('.');
  const size_t at = dot == all.npos ? 0 : dot + 1;
  return StrCat(all.substr(0, at), expert, ".", all.substr(at));
}

// Appends the matrices of the experts whose codes are in `blocks`.
absl::Status JoinExperts(const RawTensor& blocks, PartTensors& parts, std::vector<RawTensor>& matrices) {
  const std::string name = blocks.name.substr(0, blocks.name.size() - kBlocks.size());
  if (parts.Has(name)) return Wrong(blocks, Quoted(name), " is there as well");
  HYDRANT_ASSIGN_OR_RETURN(const RawTensor* scales, parts.Take(StrCat(name, kScales), blocks.file));
  HYDRANT_RETURN_IF_ERROR(CheckDtype(blocks, {"U8"}));
  HYDRANT_RETURN_IF_ERROR(CheckDtype(*scales, {"U8"}));
  // Then no product of extents is larger than the file.
  const std::vector<int64_t>& shape = blocks.shape;
  if (shape.size() != 4 || shape[0] < 1 || shape[1] < 1 || shape[2] < 1 || shape[3] != kMxfp4BlockBytes) {
    return Wrong(blocks, "its shape is [", absl::StrJoin(shape, ", "), "], which is not [experts, rows, blocks, ",
                 kMxfp4BlockBytes, "]");
  }
  if (shape[0] > kExpertsMax) return Wrong(blocks, shape[0], " experts are more than ", kExpertsMax);
  const std::vector<int64_t> of_scales(shape.begin(), shape.end() - 1);
  if (scales->shape != of_scales) {
    return Wrong(*scales, "its shape is [", absl::StrJoin(scales->shape, ", "), "], that of ", Quoted(blocks.name),
                 " asks for [", absl::StrJoin(of_scales, ", "), "]");
  }
  const size_t scale_bytes = static_cast<size_t>(shape[1] * shape[2]), block_bytes = scale_bytes * kMxfp4BlockBytes;
  for (int64_t expert = 0; expert < shape[0]; ++expert) {
    RawTensor matrix{.file = blocks.file, .name = NameOf(name, expert), .format = WeightFormat::kMXFP4};
    if (parts.Has(matrix.name)) return Wrong(blocks, Quoted(matrix.name), " is there as well");
    matrix.shape = {shape[1], shape[2] * InfoOf(WeightFormat::kMXFP4).block_elements};
    const auto at = static_cast<size_t>(expert);
    matrix.rows = std::make_shared<Mxfp4Rows>(shape[2], blocks.data.substr(at * block_bytes, block_bytes),
                                              scales->data.substr(at * scale_bytes, scale_bytes));
    matrices.push_back(std::move(matrix));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status JoinMxfp4(std::vector<RawTensor>& tensors) {
  PartTensors parts(tensors);
  std::vector<RawTensor> matrices;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].name.ends_with(kBlocks)) continue;
    parts.Take(i);
    HYDRANT_RETURN_IF_ERROR(JoinExperts(tensors[i], parts, matrices));
  }
  return parts.Replace(std::move(matrices));
}

}  // namespace hydrant
