#include "model/checkpoint/quantised_tensors.h"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/str_join.h"
#include "model/checkpoint/mxfp4_tensors.h"
#include "model/checkpoint/part_tensors.h"
#include "model/files/file_error.h"
#include "model/files/packed_matrix.h"
#include "model/text/str_cat.h"

namespace hydrant {
namespace {

absl::Status CheckShape(const RawTensor& tensor, const std::vector<int64_t>& shape) {
  if (tensor.shape == shape) return absl::OkStatus();
  return Wrong(tensor, "its shape is [", absl::StrJoin(tensor.shape, ", "), "], that of its matrix asks for [",
               absl::StrJoin(shape, ", "), "]");
}

int64_t DividedUp(int64_t a, int64_t b) { return a / b + (a % b != 0); }

template <typename T>
T ElementAt(const RawTensor& tensor, int64_t index) {
  T element;
  std::memcpy(&element, tensor.data.data() + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return element;
}

class Joiner {
 public:
  Joiner(const HfQuantization& quantization, std::vector<RawTensor>& tensors)
      : quantization_(quantization), parts_(tensors) {}

  absl::Status Run(std::vector<std::string>& warnings) {
    std::vector<RawTensor> joined;
    for (size_t i = 0; i < parts_.all().size(); ++i) {
      const RawTensor& codes = parts_.all()[i];
      const std::string_view suffix = CodesSuffix();
      if (!codes.name.ends_with(suffix) || !IsCodes(codes)) continue;
      parts_.Take(i);
      HYDRANT_ASSIGN_OR_RETURN(RawTensor whole, Join(codes, codes.name.substr(0, codes.name.size() - suffix.size())));
      joined.push_back(std::move(whole));
    }
    HYDRANT_RETURN_IF_ERROR(parts_.Replace(std::move(joined)));
    WarnOfExpanded(warnings);
    return absl::OkStatus();
  }

 private:
  std::string_view CodesSuffix() const {
    switch (quantization_.packing) {
      case HfPacking::kPacked:
        return ".weight_packed";
      case HfPacking::kGptq:
      case HfPacking::kAwq:
        return ".qweight";
      case HfPacking::kBytes:
      case HfPacking::kMxfp4:
      case HfPacking::kNone:
        break;
    }
    return ".weight";
  }

  // Layers that were left out of the quantisation have a weight of the same name as one in bytes.
  bool IsCodes(const RawTensor& tensor) const {
    return quantization_.packing != HfPacking::kBytes || !tensor.refused_type.empty();
  }

  absl::StatusOr<RawTensor> Join(const RawTensor& codes, const std::string& base) {
    RawTensor whole{.file = codes.file, .name = base + ".weight"};
    if (whole.name != codes.name && parts_.Has(whole.name)) {
      return Wrong(codes, Quoted(whole.name), " is there as well");
    }
    // Then no product of extents is larger than the file.
    if (codes.shape.size() != 2 || codes.shape[0] < 1 || codes.shape[1] < 1) {
      return Wrong(codes, "its shape is [", absl::StrJoin(codes.shape, ", "), "], which is no matrix");
    }
    PackedMatrix matrix;
    matrix.bits = quantization_.bits;
    matrix.fp8 = quantization_.fp8;
    matrix.codes = codes.data;
    switch (quantization_.packing) {
      case HfPacking::kPacked:
        HYDRANT_RETURN_IF_ERROR(ReadPacked(codes, base, matrix));
        break;
      case HfPacking::kBytes:
        HYDRANT_RETURN_IF_ERROR(ReadBytes(codes, base, matrix));
        break;
      case HfPacking::kGptq:
      case HfPacking::kAwq:
        HYDRANT_RETURN_IF_ERROR(ReadTransposed(codes, base, matrix));
        break;
      case HfPacking::kMxfp4:
      case HfPacking::kNone:
        assert(false);
    }
    whole.shape = {matrix.rows, matrix.cols};
    const ExactFormat exact = FindExactFormat(matrix);
    whole.format = exact.format;
    if (!exact.why_not.empty()) NoteExpanded(whole, exact.why_not);
    whole.rows = std::make_shared<PackedRows>(std::move(matrix), whole.format);
    return whole;
  }

  // compressed-tensors: words of codes along a row, whose own length another tensor says.
  absl::Status ReadPacked(const RawTensor& codes, const std::string& base, PackedMatrix& m) {
    HYDRANT_RETURN_IF_ERROR(CheckDtype(codes, {"I32"}));
    HYDRANT_ASSIGN_OR_RETURN(const RawTensor* shape, Take(base + ".weight_shape", {"I64", "I32"}));
    HYDRANT_RETURN_IF_ERROR(CheckShape(*shape, {2}));
    const bool wide = DtypeOf(*shape) == "I64";
    m.rows = wide ? ElementAt<int64_t>(*shape, 0) : ElementAt<int32_t>(*shape, 0);
    m.cols = wide ? ElementAt<int64_t>(*shape, 1) : ElementAt<int32_t>(*shape, 1);
    const int64_t per_word = 32 / m.bits;
    if (m.rows != codes.shape[0] || m.cols < 1 || DividedUp(m.cols, per_word) != codes.shape[1]) {
      return Wrong(*shape, "[", m.rows, ", ", m.cols, "] is not the shape of what ", Quoted(codes.name),
                   " packs into [", absl::StrJoin(codes.shape, ", "), "]");
    }
    HYDRANT_RETURN_IF_ERROR(TakeScalesByRow(base, {"weight_scale"}, m));
    m.zero = m.bits == 4 ? 8 : 128;
    if (quantization_.symmetric) {
      HYDRANT_RETURN_IF_ERROR(TakeNoZeros(base + ".weight_zero_point"));
    } else {
      HYDRANT_ASSIGN_OR_RETURN(const RawTensor* zeros, Take(base + ".weight_zero_point", {"I32"}));
      HYDRANT_RETURN_IF_ERROR(CheckShape(*zeros, {DividedUp(m.rows, per_word), m.groups()}));
      m.zeros = zeros->data;
      m.zero_row_step = m.groups();
      m.zero_group_step = 1;
    }
    return TakeGroupIndex(codes, base + ".weight_g_idx", m);
  }

  // A byte for each code.
  absl::Status ReadBytes(const RawTensor& codes, const std::string& base, PackedMatrix& m) {
    HYDRANT_RETURN_IF_ERROR(CheckDtype(codes, {m.fp8 ? "F8_E4M3" : "I8"}));
    m.rows = codes.shape[0];
    m.cols = codes.shape[1];
    m.flipped = m.fp8 ? 0 : 0x80;
    m.zero = 128;
    // Those of activations: they are rounded in another way here (docs/models.md).
    for (const char* name : {".input_scale", ".input_zero_point"}) parts_.TryTake(base + name);
    HYDRANT_RETURN_IF_ERROR(TakeNoZeros(base + ".weight_zero_point"));
    return TakeScalesByRow(base, {"weight_scale_inv", "weight_scale"}, m);
  }

  // GPTQ and AWQ: all lies by columns.
  absl::Status ReadTransposed(const RawTensor& codes, const std::string& base, PackedMatrix& m) {
    const bool awq = quantization_.packing == HfPacking::kAwq;
    const int64_t per_word = 32 / m.bits;
    HYDRANT_RETURN_IF_ERROR(CheckDtype(codes, {"I32"}));
    m.order = awq ? CodeOrder::kInterleaved : CodeOrder::kColumns;
    m.rows = awq ? codes.shape[1] * per_word : codes.shape[1];
    m.cols = awq ? codes.shape[0] : codes.shape[0] * per_word;
    if (m.rows % per_word != 0) {
      return Wrong(codes, "its ", m.rows, " rows are no multiple of ", per_word,
                   ", as many as share a word of zero points");
    }
    SetGroups(m);
    HYDRANT_ASSIGN_OR_RETURN(const RawTensor* scales, Take(base + ".scales", {"F16", "BF16", "F32"}));
    HYDRANT_RETURN_IF_ERROR(CheckShape(*scales, {m.groups(), m.rows}));
    m.scales = scales->data;
    m.scale_format = scales->format;
    m.scale_row_step = 1;
    m.scale_group_step = m.rows;
    HYDRANT_ASSIGN_OR_RETURN(const RawTensor* zeros, Take(base + ".qzeros", {"I32"}));
    HYDRANT_RETURN_IF_ERROR(CheckShape(*zeros, {m.groups(), m.rows / per_word}));
    m.zeros = zeros->data;
    m.zeros_interleaved = awq;
    m.zero_row_step = 1;
    m.zero_group_step = m.rows / per_word;
    m.zero_offset = quantization_.zero_offset;
    HYDRANT_RETURN_IF_ERROR(CheckZeros(*zeros, m));
    return awq ? absl::OkStatus() : TakeGroupIndex(codes, base + ".g_idx", m);
  }

  // Older tools store the zero points of symmetric weights, too: bytes of 0.
  absl::Status TakeNoZeros(const std::string& name) {
    const RawTensor* zeros = parts_.TryTake(name);
    if (zeros == nullptr || zeros->data.find_first_not_of('\0') == zeros->data.npos) return absl::OkStatus();
    return Wrong(*zeros, "is not 0, and the weights are said to be symmetric");
  }

  void SetGroups(PackedMatrix& m) const {
    m.group_cols = quantization_.group_cols == 0 ? m.cols : quantization_.group_cols;
    m.group_rows = quantization_.group_rows == 0 ? m.rows : quantization_.group_rows;
  }

  // Scales [rows, groups], under the first of `names` that is there.
  absl::Status TakeScalesByRow(const std::string& base, const std::vector<std::string>& names, PackedMatrix& m) {
    SetGroups(m);
    std::string name = base + "." + names.back();
    for (const std::string& other : names) {
      if (parts_.Has(base + "." + other)) name = base + "." + other;
    }
    HYDRANT_ASSIGN_OR_RETURN(const RawTensor* scales, Take(name, {"F16", "BF16", "F32"}));
    const std::vector<int64_t> shape = {DividedUp(m.rows, m.group_rows), m.groups()};
    // One column of them may be stored as a vector; the only one of a tensor as a number.
    if (shape[1] != 1 || scales->shape != std::vector<int64_t>{shape[0]})
      HYDRANT_RETURN_IF_ERROR(CheckShape(*scales, shape));
    m.scales = scales->data;
    m.scale_format = scales->format;
    m.scale_row_step = m.groups();
    m.scale_group_step = 1;
    return absl::OkStatus();
  }

  // The first version of GPTQ has no code for a zero point of 0: some of its readers take the largest code for it, others for the
  // number after the largest, and some writers spoil the zero points beside it.
  absl::Status CheckZeros(const RawTensor& zeros, const PackedMatrix& m) const {
    const int middle = 1 << (m.bits - 1), end = 1 << m.bits;
    for (int64_t group = 0; group < m.groups(); ++group) {
      for (int64_t row = 0; row < m.rows; ++row) {
        const int zero = m.Zero(row, group);
        if (zero == end) {
          return Wrong(zeros, "the zero point of group ", group, " of row ", row, " is stored as ", end - 1,
                       ", which its readers disagree on");
        }
        if (quantization_.symmetric && zero != middle) {
          return Wrong(zeros, "the zero point of group ", group, " of row ", row, " is ", zero, "; sym asks for ",
                       middle);
        }
      }
    }
    return absl::OkStatus();
  }

  // Which group each column is in: all of their sizes, in any order.
  absl::Status TakeGroupIndex(const RawTensor& codes, const std::string& name, PackedMatrix& m) {
    if (!parts_.Has(name)) {
      if (!quantization_.group_index) return absl::OkStatus();
      return Wrong(codes, Quoted(name), " is missing, which says which column is in which group");
    }
    HYDRANT_ASSIGN_OR_RETURN(const RawTensor* index, Take(name, {"I32"}));
    HYDRANT_RETURN_IF_ERROR(CheckShape(*index, {m.cols}));
    std::vector<int32_t> group_of(static_cast<size_t>(m.cols));
    std::vector<int64_t> left(static_cast<size_t>(m.groups()), m.group_cols);
    left.back() = m.cols - (m.groups() - 1) * m.group_cols;
    bool in_order = true;
    for (int64_t col = 0; col < m.cols; ++col) {
      const auto group = ElementAt<int32_t>(*index, col);
      if (group < 0 || group >= m.groups()) {
        return Wrong(*index, "column ", col, " is in group ", group, " of ", m.groups());
      }
      if (--left[static_cast<size_t>(group)] < 0) return Wrong(*index, "group ", group, " has too many columns");
      group_of[static_cast<size_t>(col)] = group;
      in_order &= group == col / m.group_cols;
    }
    if (!in_order) m.group_of = std::move(group_of);
    return absl::OkStatus();
  }

  absl::StatusOr<const RawTensor*> Take(const std::string& name, std::initializer_list<std::string_view> dtypes) {
    HYDRANT_ASSIGN_OR_RETURN(const RawTensor* tensor, parts_.Take(name, parts_.all().front().file));
    HYDRANT_RETURN_IF_ERROR(CheckDtype(*tensor, dtypes));
    return tensor;
  }

  void NoteExpanded(const RawTensor& tensor, std::string_view why) {
    if (expanded_++ > 0) return;
    first_expanded_ = StrCat(tensor.file, ": tensor ", Quoted(tensor.name));
    why_ = why;
  }

  void WarnOfExpanded(std::vector<std::string>& warnings) const {
    if (expanded_ == 0) return;
    warnings.push_back(StrCat(first_expanded_, expanded_ > 1 ? StrCat(" and ", expanded_ - 1, " more: are") : ": is",
                              " expanded: ", why_));
  }

  const HfQuantization& quantization_;
  PartTensors parts_;
  int64_t expanded_ = 0;
  std::string first_expanded_;
  std::string_view why_;
};

}  // namespace

absl::Status JoinQuantised(const HfQuantization& quantization, std::vector<RawTensor>& tensors,
                           std::vector<std::string>& warnings) {
  if (quantization.packing == HfPacking::kNone) return absl::OkStatus();
  if (quantization.packing == HfPacking::kMxfp4) return JoinMxfp4(tensors);
  return Joiner(quantization, tensors).Run(warnings);
}

}  // namespace hydrant
