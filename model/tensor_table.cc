#include "model/tensor_table.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_join.h"
#include "model/file_error.h"

namespace hydrant {
namespace {

constexpr size_t kRoleCount = static_cast<size_t>(TensorRole::kDownBias) + 1;

std::vector<int64_t> ExpectedShape(TensorRole role, const ModelConfig& c) {
  switch (role) {
    case TensorRole::kEmbedding:
    case TensorRole::kHead:
      return {c.vocab, c.hidden};
    case TensorRole::kFinalNorm:
    case TensorRole::kFinalNormBias:
    case TensorRole::kAttentionNorm:
    case TensorRole::kAttentionNormBias:
    case TensorRole::kMlpNorm:
    case TensorRole::kMlpNormBias:
    case TensorRole::kOBias:
    case TensorRole::kDownBias:
      return {c.hidden};
    case TensorRole::kQ:
      return {c.q_cols(), c.hidden};
    case TensorRole::kK:
    case TensorRole::kV:
      return {c.kv_cols(), c.hidden};
    case TensorRole::kO:
      return {c.hidden, c.q_cols()};
    case TensorRole::kQBias:
      return {c.q_cols()};
    case TensorRole::kKBias:
    case TensorRole::kVBias:
      return {c.kv_cols()};
    case TensorRole::kGate:
    case TensorRole::kUp:
      return {c.ffn, c.hidden};
    case TensorRole::kGateBias:
    case TensorRole::kUpBias:
      return {c.ffn};
    case TensorRole::kDown:
      return {c.hidden, c.ffn};
  }
  assert(false);
  return {};
}

bool IsRotated(TensorRole role) {
  return role == TensorRole::kQ || role == TensorRole::kK || role == TensorRole::kQBias || role == TensorRole::kKBias;
}

bool InLayers(std::string_view name) { return name.find('#') != name.npos; }

std::string NameIn(std::string_view name, int32_t layer) {
  const size_t hash = name.find('#');
  return hash == name.npos ? std::string(name) : Cat(name.substr(0, hash), layer, name.substr(hash + 1));
}

}  // namespace

class TensorTable::Source final : public TensorSource {
 public:
  // `head_dim` is 0 unless rows are stored interleaved.
  Source(const RawTensor& tensor, int32_t head_dim)
      : name_(tensor.name),
        type_(tensor.type),
        rows_(tensor.shape.size() == 1 ? 1 : tensor.shape[0]),
        cols_(tensor.shape.back()),
        row_bytes_(cols_ / InfoOf(type_).block_elements * InfoOf(type_).block_bytes),
        head_dim_(head_dim),
        data_(tensor.data.data()) {}

  int64_t rows() const override { return rows_; }
  int64_t cols() const override { return cols_; }
  const std::string& name() const { return name_; }
  bool non_finite() const { return non_finite_.load(std::memory_order_relaxed); }

  void ReadRows(int64_t begin, int64_t end, float* out) const override {
    assert(0 <= begin && begin <= end && end <= rows_);
    bool finite = true;
    for (int64_t row = begin; row < end; ++row, out += cols_) {
      const int64_t stored = rows_ > 1 ? StoredIndex(row) : row;
      finite &= DequantizeRow(type_, data_ + stored * row_bytes_, cols_, out);
      if (rows_ == 1 && head_dim_ > 0) Unpermute(out);
    }
    // Relaxed: a flag on its own, read after the readers were joined.
    if (!finite) non_finite_.store(true, std::memory_order_relaxed);
  }

 private:
  // Where row (or bias element) `index` of the halves convention lies: within a head, element i of half j is at 2i + j.
  int64_t StoredIndex(int64_t index) const {
    if (head_dim_ == 0) return index;
    const int64_t in_head = index % head_dim_;
    const int64_t half = head_dim_ / 2;
    return index - in_head + 2 * (in_head % half) + in_head / half;
  }

  void Unpermute(float* row) const {
    const std::vector<float> stored(row, row + cols_);
    for (int64_t i = 0; i < cols_; ++i) row[i] = stored[static_cast<size_t>(StoredIndex(i))];
  }

  std::string name_;
  StoredType type_;
  int64_t rows_, cols_, row_bytes_;
  int64_t head_dim_;
  const char* data_;  // [rows, cols] in type_
  mutable std::atomic<bool> non_finite_{false};
};

// Takes tensors by name; whatever nobody took is extra.
class TensorTable::Binder {
 public:
  Binder(const TensorNaming& naming, const ModelConfig& config, std::string_view file,
         const std::vector<RawTensor>& tensors)
      : naming_(naming), config_(config), file_(file), taken_(tensors.size(), false), tensors_(tensors) {
    for (size_t i = 0; i < tensors.size(); ++i) by_name_.emplace(tensors[i].name, i);
  }

  bool Has(const std::string& name) const { return by_name_.contains(name); }

  absl::StatusOr<std::unique_ptr<Source>> Take(TensorRole role, const std::string& name) {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) return FileError(file_, "tensor " + Quoted(name), "is missing");
    const RawTensor& tensor = tensors_[found->second];
    taken_[found->second] = true;
    if (!tensor.refused_type.empty()) {
      return FileError(tensor.file, "tensor " + Quoted(name), "dtype ", tensor.refused_type,
                       " is not supported (F32, F16 and BF16 are)");
    }
    const std::vector<int64_t> expected = ExpectedShape(role, config_);
    if (tensor.shape != expected) {
      return FileError(tensor.file, "tensor " + Quoted(name), "its shape is [", absl::StrJoin(tensor.shape, ", "),
                       "], the config asks for [", absl::StrJoin(expected, ", "), "]");
    }
    const bool interleaved = naming_.interleaved_qk && IsRotated(role);
    return std::make_unique<Source>(tensor, interleaved ? config_.head_dim : 0);
  }

  void TakeKnown() {
    for (const std::string_view name : naming_.known) {
      for (int32_t layer = 0; layer < (InLayers(name) ? config_.layers : 1); ++layer) {
        if (const auto found = by_name_.find(NameIn(name, layer)); found != by_name_.end())
          taken_[found->second] = true;
      }
    }
  }

  void WarnOfExtra(std::vector<std::string>& warnings) const {
    const auto extra = std::count(taken_.begin(), taken_.end(), false);
    if (extra == 0) return;
    const size_t first = static_cast<size_t>(std::find(taken_.begin(), taken_.end(), false) - taken_.begin());
    warnings.push_back(Cat(tensors_[first].file, ": tensor ", Quoted(tensors_[first].name),
                           extra > 1 ? Cat(" and ", extra - 1, " more: are") : ": is", " not used"));
  }

 private:
  const TensorNaming& naming_;
  const ModelConfig& config_;
  std::string_view file_;
  std::vector<bool> taken_;
  const std::vector<RawTensor>& tensors_;
  absl::flat_hash_map<std::string_view, size_t> by_name_;
};

TensorTable::TensorTable() = default;
TensorTable::TensorTable(TensorTable&&) noexcept = default;
TensorTable& TensorTable::operator=(TensorTable&&) noexcept = default;
TensorTable::~TensorTable() = default;

absl::StatusOr<TensorTable> TensorTable::Bind(const TensorNaming& naming, const ModelConfig& config,
                                              const TensorExpectation& expectation, std::string_view file,
                                              const std::vector<RawTensor>& tensors,
                                              std::vector<std::string>& warnings) {
  TensorTable table;
  table.sources_.resize(static_cast<size_t>(config.layers) * kRoleCount);
  Binder binder(naming, config, file, tensors);
  for (const TensorName& entry : naming.names) {
    const bool wanted = entry.presence == Presence::kRequired ||
                        (entry.presence == Presence::kUnlessTied && !config.tied_embeddings) ||
                        (entry.presence == Presence::kAttentionBias && expectation.attention_bias) ||
                        (entry.presence == Presence::kMlpBias && expectation.mlp_bias) ||
                        (entry.presence == Presence::kOptional && binder.Has(NameIn(entry.name, 0)));
    if (!wanted) continue;
    for (int32_t layer = 0; layer < (InLayers(entry.name) ? config.layers : 1); ++layer) {
      auto& slot = table.sources_[static_cast<size_t>(layer) * kRoleCount + static_cast<size_t>(entry.role)];
      HYDRANT_ASSIGN_OR_RETURN(slot, binder.Take(entry.role, NameIn(entry.name, layer)));
    }
  }
  binder.TakeKnown();
  binder.WarnOfExtra(warnings);

  int64_t elements[3] = {};
  for (const RawTensor& tensor : tensors) {
    if (!tensor.refused_type.empty()) continue;
    const StoredTypeInfo& info = InfoOf(tensor.type);
    const DType dtype = tensor.type == StoredType::kF32   ? DType::kF32
                        : tensor.type == StoredType::kF16 ? DType::kF16
                                                          : DType::kBF16;
    elements[static_cast<size_t>(dtype)] +=
        static_cast<int64_t>(tensor.data.size()) / info.block_bytes * info.block_elements;
  }
  table.stored_dtype_ = static_cast<DType>(std::max_element(elements, elements + 3) - elements);
  return table;
}

const TensorSource* TensorTable::Find(TensorRole role, int32_t layer) const {
  // Roles outside layers live with layer 0.
  const bool outside = role == TensorRole::kEmbedding || role == TensorRole::kHead || role == TensorRole::kFinalNorm ||
                       role == TensorRole::kFinalNormBias;
  const size_t index = static_cast<size_t>(outside ? 0 : layer) * kRoleCount + static_cast<size_t>(role);
  assert(index < sources_.size());
  return sources_[index].get();
}

std::vector<std::string> TensorTable::NonFinite() const {
  std::vector<std::string> names;
  for (const auto& source : sources_) {
    if (source != nullptr && source->non_finite()) names.push_back(source->name());
  }
  return names;
}

}  // namespace hydrant
