#include "model/checkpoint/tensor_table.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_join.h"
#include "model/files/dequantize.h"
#include "model/files/file_error.h"
#include "model/files/mapped_file.h"
#include "model/text/str_cat.h"

namespace hydrant {
namespace {

bool IsRotated(TensorRole role) {
  return role == TensorRole::kQ || role == TensorRole::kK || role == TensorRole::kQBias || role == TensorRole::kKBias;
}

// Which of the parts that share a tensor a role is: of q, k and v, or of the gate and up.
int64_t FusedPart(TensorRole role) {
  switch (role) {
    case TensorRole::kQ:
    case TensorRole::kQBias:
    case TensorRole::kGate:
    case TensorRole::kExpertGate:
    case TensorRole::kExpertGateBias:
      return 0;
    case TensorRole::kK:
    case TensorRole::kKBias:
    case TensorRole::kUp:
    case TensorRole::kExpertUp:
    case TensorRole::kExpertUpBias:
      return 1;
    default:
      return 2;
  }
}

// Rows of the parts that share a tensor with the role.
std::vector<int64_t> FusedRows(TensorRole role, const ModelConfig& config) {
  if (role == TensorRole::kGate || role == TensorRole::kUp || InExperts(role)) return {config.ffn, config.ffn};
  return {config.q_cols(), config.kv_cols(), config.kv_cols()};
}

// What `presence` says without looking at the tensors.
bool Wanted(Presence presence, const ModelConfig& config, const TensorExpectation& expectation) {
  switch (presence) {
    case Presence::kRequired:
      return true;
    case Presence::kUnlessTied:
      return !config.tied_embeddings;
    case Presence::kAttentionBias:
      return expectation.attention_bias;
    case Presence::kMlpBias:
      return expectation.mlp_bias;
    case Presence::kOptional:
      return false;
    case Presence::kAffineNorm:
      return expectation.affine_norms;
    case Presence::kFinalNorm:
      return expectation.affine_norms && config.final_norm;
    case Presence::kProjected:
      return config.projected();
  }
  assert(false);
  return false;
}

bool InLayers(std::string_view name) { return name.find('#') != name.npos; }

std::string WithNumber(std::string_view name, char mark, int32_t number) {
  const size_t at = name.find(mark);
  return at == name.npos ? std::string(name) : StrCat(name.substr(0, at), number, name.substr(at + 1));
}

std::string NameIn(std::string_view name, int32_t layer, int32_t expert = 0) {
  return WithNumber(WithNumber(name, '#', layer), '@', expert);
}

// Where the rows of a role (of a vector, its elements) lie among those of the stored tensor.
struct RowOrder {
  Fusion fusion = Fusion::kNone;
  int64_t part = 0;   // of a fused tensor
  int64_t first = 0;  // kStacked, kInTurn: the first row of the part
  int64_t step = 1;   // from one row of the part to its next; not of interleaved ones
  int64_t head_dim = 0;
  bool interleaved = false;  // rotary pairs (2i, 2i + 1) instead of (i, i + head_dim / 2)

  bool changes() const { return fusion != Fusion::kNone || interleaved; }
  int64_t StoredIndex(int64_t index) const {
    if (fusion == Fusion::kPerHead) {
      return (index / head_dim * 3 + part) * head_dim + index % head_dim;
    }
    if (!interleaved) return first + step * index;
    // Within a head, element i of half j is at 2i + j.
    const int64_t in_head = index % head_dim;
    const int64_t half = head_dim / 2;
    return first + index - in_head + 2 * (in_head % half) + in_head / half;
  }
};

// The columns of a matrix [cols, rows] as rows.
class ColumnsAsRows final : public RowSource {
 public:
  ColumnsAsRows(std::string_view data, int64_t rows, int64_t cols, size_t element_bytes)
      : data_(data), rows_(static_cast<size_t>(rows)), cols_(static_cast<size_t>(cols)), bytes_(element_bytes) {
    assert(data.size() == rows_ * cols_ * bytes_);
  }

  // Elements that lie beside each other in the file are of rows beside each other.
  void Read(int64_t begin, int64_t end, std::byte* out) const override {
    const auto first = static_cast<size_t>(begin), count = static_cast<size_t>(end - begin);
    for (size_t col = 0; col < cols_; ++col) {
      const char* from = data_.data() + (col * rows_ + first) * bytes_;
      for (size_t row = 0; row < count; ++row) {
        std::memcpy(out + (row * cols_ + col) * bytes_, from + row * bytes_, bytes_);
      }
    }
  }
  void ReadAhead() const override { hydrant::ReadAhead(data_); }
  void ReturnMemory() const override { hydrant::ReturnMemory(data_); }

 private:
  std::string_view data_;
  size_t rows_, cols_, bytes_;
};

// A tensor of a mapped file.
class StoredTensor final : public TensorSource {
 public:
  // `shape` is the role's, the tensor's own unless it is fused.
  StoredTensor(const RawTensor& tensor, const std::vector<int64_t>& shape, const RowOrder& order)
      : TensorSource(tensor.name, shape.size() == 1 ? 1 : shape[0], shape.back(), tensor.format),
        order_(order),
        vector_(shape.size() == 1),
        stored_cols_(tensor.shape.back()),
        row_bytes_(RowBytes(tensor.format, stored_cols_)),
        bytes_(tensor.data),
        row_source_(tensor.rows) {}

  void ReadRows(int64_t begin, int64_t end, float* out) const override {
    assert(0 <= begin && begin <= end && end <= rows());
    bool finite = true;
    if (has_stored_rows()) {
      ForEachStoredRow(begin, end, [&](const void* row) {
        finite &= DequantizeRow(format(), row, cols(), out);
        out += cols();
      });
    } else {
      std::vector<float> stored(static_cast<size_t>(stored_cols_));
      finite = DequantizeRow(format(), bytes_.data(), stored_cols_, stored.data());
      for (int64_t i = 0; i < cols(); ++i) out[i] = stored[static_cast<size_t>(order_.StoredIndex(i))];
    }
    // Relaxed: a flag on its own, read after the readers were joined.
    if (!finite) non_finite_.store(true, std::memory_order_relaxed);
  }

  // The elements of a vector are what would be the rows of a matrix.
  bool has_stored_rows() const override { return !vector_ || !order_.changes(); }

  void ReadStoredRows(int64_t begin, int64_t end, std::byte* out) const override {
    assert(has_stored_rows() && 0 <= begin && begin <= end && end <= rows());
    bool finite = true;
    ForEachStoredRow(begin, end, [&](const void* row) {
      std::memcpy(out, row, static_cast<size_t>(row_bytes_));
      // The copy is looked at: somebody may be writing to the file.
      if (IsQuantised(format())) finite &= ScalesAreFinite(format(), out, cols());
      out += row_bytes_;
    });
    if (!finite) non_finite_.store(true, std::memory_order_relaxed);
  }

  bool non_finite() const override { return non_finite_.load(std::memory_order_relaxed); }

  int64_t StoredRow(int64_t row) const override { return StoredIndex(row); }

  void ReadAhead() const override {
    if (row_source_ != nullptr) return row_source_->ReadAhead();
    hydrant::ReadAhead(bytes_);
  }

  void ReturnMemory() const override {
    if (row_source_ != nullptr) return row_source_->ReturnMemory();
    hydrant::ReturnMemory(bytes_);
  }

  void ReturnRows(int64_t begin, int64_t end) const override {
    if (row_source_ != nullptr || vector_ || order_.changes()) return;
    // In large pieces: a call of the system costs more than a few rows, and at the ends of a piece some memory stays.
    const int64_t from = begin * row_bytes_ / kReturnedBytes, to = end * row_bytes_ / kReturnedBytes;
    if (from == to) return;
    hydrant::ReturnMemory(
        bytes_.substr(static_cast<size_t>(from * kReturnedBytes), static_cast<size_t>((to - from) * kReturnedBytes)));
  }

 private:
  static constexpr int64_t kReturnedBytes = int64_t{1} << 20;

  int64_t StoredIndex(int64_t row) const { return vector_ ? row : order_.StoredIndex(row); }

  // Calls visit(stored bytes) for rows [begin, end).
  template <typename Visit>
  void ForEachStoredRow(int64_t begin, int64_t end, const Visit& visit) const {
    if (row_source_ == nullptr) {
      for (int64_t row = begin; row < end; ++row) visit(bytes_.data() + StoredIndex(row) * row_bytes_);
      return;
    }
    // Rows that follow each other in the file are cheaper to put together at once.
    std::vector<std::byte> run;
    for (int64_t row = begin; row < end;) {
      const int64_t first = StoredIndex(row);
      int64_t count = 1;
      while (row + count < end && StoredIndex(row + count) == first + count) ++count;
      run.resize(static_cast<size_t>(count * row_bytes_));
      row_source_->Read(first, first + count, run.data());
      for (int64_t i = 0; i < count; ++i) visit(run.data() + i * row_bytes_);
      row += count;
    }
  }

  RowOrder order_;
  bool vector_;
  int64_t stored_cols_;  // of a fused vector more than cols()
  int64_t row_bytes_;
  std::string_view bytes_;  // [stored rows, stored_cols_] in the format: a fused tensor's rows of other roles, too
  std::shared_ptr<const RowSource> row_source_;  // not null: in the place of `bytes_`
  mutable std::atomic<bool> non_finite_{false};
};

// Takes tensors by name; whatever nobody took is extra.
constexpr size_t kNotThere = ~size_t{0};

// Where stored tensors are, by the names that a family has for them.
class TensorIndex {
 public:
  TensorIndex(const TensorNaming& naming, const std::vector<RawTensor>& tensors) : naming_(naming) {
    for (size_t i = 0; i < tensors.size(); ++i) by_name_.emplace(tensors[i].name, i);
  }

  size_t Find(std::string_view name) const {
    auto found = by_name_.find(name);
    if (found == by_name_.end() && !naming_.prefix.empty() && name.starts_with(naming_.prefix)) {
      found = by_name_.find(name.substr(naming_.prefix.size()));
    }
    return found == by_name_.end() ? kNotThere : found->second;
  }
  size_t Find(const TensorName& entry, int32_t layer, int32_t expert = 0) const {
    const size_t index = Find(NameIn(entry.name, layer, expert));
    return index != kNotThere || entry.other_name.empty() ? index : Find(NameIn(entry.other_name, layer, expert));
  }

 private:
  const TensorNaming& naming_;
  absl::flat_hash_map<std::string_view, size_t> by_name_;
};

class Binder {
 public:
  Binder(const TensorNaming& naming, const ModelConfig& config, std::string_view file,
         const std::vector<RawTensor>& tensors)
      : naming_(naming),
        config_(config),
        file_(file),
        taken_(tensors.size(), false),
        tensors_(tensors),
        index_(naming, tensors) {}

  bool Has(const TensorName& entry) const { return index_.Find(entry, 0) != kNotThere; }

  absl::StatusOr<std::unique_ptr<TensorSource>> Take(const TensorName& entry, int32_t layer, int32_t expert) {
    const size_t index = index_.Find(entry, layer, expert);
    if (index == kNotThere) {
      return FileError(file_, "tensor " + Quoted(NameIn(entry.name, layer, expert)), "is missing");
    }
    const RawTensor& tensor = tensors_[index];
    const std::string& name = tensor.name;
    taken_[index] = true;
    if (!tensor.refused_type.empty()) {
      return FileError(tensor.file, "tensor " + Quoted(name), "dtype ", tensor.refused_type,
                       " is not supported (F32, F16 and BF16 are)");
    }
    const std::vector<int64_t> shape = ShapeOf(entry.role, config_);
    if (InExperts(entry.role) && tensor.shape.size() == shape.size() + 1) {
      return TakeSlice(tensor, entry, expert, shape);
    }
    std::vector<int64_t> expected = shape;
    if (entry.fusion != Fusion::kNone) {
      const std::vector<int64_t> parts = FusedRows(entry.role, config_);
      expected[0] = std::accumulate(parts.begin(), parts.end(), int64_t{0});
    }
    if (tensor.shape != expected) {
      return FileError(tensor.file, "tensor " + Quoted(name), "its shape is [", absl::StrJoin(tensor.shape, ", "),
                       "], the config asks for [", absl::StrJoin(expected, ", "), "]");
    }
    return std::make_unique<StoredTensor>(tensor, shape, OrderOf(entry));
  }

  // One expert of a tensor that has all of them.
  absl::StatusOr<std::unique_ptr<TensorSource>> TakeSlice(const RawTensor& all, const TensorName& entry, int32_t expert,
                                                          const std::vector<int64_t>& shape) const {
    const bool transposed = shape.size() == 2 && naming_.transposed_experts, in_turn = entry.fusion == Fusion::kInTurn;
    const bool has_part = FusedPart(entry.role) < 2;
    const int64_t rows = shape[0];
    const bool both = has_part && (in_turn || all.shape[1] == 2 * rows);
    const int64_t rows_of_all = both ? 2 * rows : rows;
    std::vector<int64_t> of_expert = shape;
    of_expert[0] = rows_of_all;
    std::vector<int64_t> expected = of_expert;
    if (transposed) std::swap(expected[0], expected[1]);
    expected.insert(expected.begin(), config_.experts);
    if (all.shape != expected) {
      return FileError(all.file, "tensor " + Quoted(all.name), "its shape is [", absl::StrJoin(all.shape, ", "),
                       "], the config asks for ", config_.experts, " experts of [", absl::StrJoin(shape, ", "), "]",
                       in_turn ? ", gate and up in turn" : "", transposed ? ", transposed" : "");
    }
    RawTensor slice = all;
    slice.shape = of_expert;
    const auto bytes =
        static_cast<size_t>(RowBytes(all.format, expected.back()) * (shape.size() == 2 ? expected[1] : 1));
    slice.data = all.data.substr(static_cast<size_t>(expert) * bytes, bytes);
    if (transposed) {
      if (IsQuantised(all.format))
        return FileError(all.file, "tensor " + Quoted(all.name), "is transposed and quantised");
      const auto element_bytes = static_cast<size_t>(InfoOf(all.format).block_bytes);
      slice.rows = std::make_shared<ColumnsAsRows>(slice.data, rows_of_all, shape[1], element_bytes);
    }
    RowOrder order;
    order.fusion = both ? (in_turn ? Fusion::kInTurn : Fusion::kStacked) : Fusion::kNone;
    if (both) PlacePart(entry.role, order);
    return std::make_unique<StoredTensor>(slice, shape, order);
  }

  void TakeKnown() {
    for (const std::string_view name : naming_.known) {
      for (int32_t layer = 0; layer < (InLayers(name) ? config_.layers : 1); ++layer) {
        if (const size_t index = index_.Find(NameIn(name, layer)); index != kNotThere) taken_[index] = true;
      }
    }
  }

  void WarnOfExtra(std::vector<std::string>& warnings) const {
    const auto extra = std::count(taken_.begin(), taken_.end(), false);
    if (extra == 0) return;
    const size_t first = static_cast<size_t>(std::find(taken_.begin(), taken_.end(), false) - taken_.begin());
    warnings.push_back(StrCat(tensors_[first].file, ": tensor ", Quoted(tensors_[first].name),
                              extra > 1 ? StrCat(" and ", extra - 1, " more: are") : ": is", " not used"));
  }

 private:
  RowOrder OrderOf(const TensorName& entry) const {
    RowOrder order;
    order.fusion = entry.fusion;
    order.head_dim = config_.head_dim;
    order.interleaved = naming_.interleaved_qk && IsRotated(entry.role);
    if (entry.fusion == Fusion::kNone) return order;
    assert(entry.fusion != Fusion::kPerHead || (config_.kv_heads == config_.query_heads && !order.interleaved));
    PlacePart(entry.role, order);
    return order;
  }

  // Where the role's rows are among those of the parts that share its tensor.
  void PlacePart(TensorRole role, RowOrder& order) const {
    order.part = FusedPart(role);
    const std::vector<int64_t> parts = FusedRows(role, config_);
    if (order.fusion == Fusion::kInTurn) {
      order.first = order.part;
      order.step = std::ssize(parts);
    } else {
      order.first = std::accumulate(parts.begin(), parts.begin() + order.part, int64_t{0});
    }
  }

  const TensorNaming& naming_;
  const ModelConfig& config_;
  std::string_view file_;
  std::vector<bool> taken_;
  const std::vector<RawTensor>& tensors_;
  const TensorIndex index_;
};

// Roles outside layers live with layer 0, those of which a layer has one with expert 0.
std::tuple<int32_t, TensorRole, int32_t> KeyOf(TensorRole role, int32_t layer, int32_t expert) {
  return {InLayers(role) ? layer : 0, role, InExperts(role) ? expert : 0};
}

}  // namespace

const RawTensor* FindTensor(const TensorNaming& naming, TensorRole role, const std::vector<RawTensor>& tensors) {
  const TensorIndex index(naming, tensors);
  for (const TensorName& entry : naming.names) {
    const size_t found = entry.role == role ? index.Find(entry, 0) : kNotThere;
    if (found != kNotThere) return &tensors[found];
  }
  return nullptr;
}

void TensorSource::ReadStoredRows(int64_t, int64_t, std::byte*) const { assert(false); }

std::vector<int64_t> ShapeOf(TensorRole role, const ModelConfig& c) {
  switch (role) {
    case TensorRole::kEmbedding:
    case TensorRole::kHead:
      return {c.vocab, c.embedding_cols()};
    case TensorRole::kPositions:
      return {c.position_rows, c.hidden};
    case TensorRole::kProjectIn:
      return {c.hidden, c.embedding_cols()};
    case TensorRole::kProjectOut:
      return {c.embedding_cols(), c.hidden};
    case TensorRole::kFinalNorm:
    case TensorRole::kFinalNormBias:
    case TensorRole::kAttentionNorm:
    case TensorRole::kAttentionNormBias:
    case TensorRole::kAttentionOutNorm:
    case TensorRole::kMlpNorm:
    case TensorRole::kMlpNormBias:
    case TensorRole::kMlpOutNorm:
    case TensorRole::kOBias:
    case TensorRole::kDownBias:
    case TensorRole::kExpertDownBias:
      return {c.hidden};
    case TensorRole::kQ:
      return {c.q_cols(), c.hidden};
    case TensorRole::kK:
    case TensorRole::kV:
      return {c.kv_cols(), c.hidden};
    case TensorRole::kQNorm:
      return {c.norms_over_heads ? c.q_cols() : c.head_dim};
    case TensorRole::kKNorm:
      return {c.norms_over_heads ? c.kv_cols() : c.head_dim};
    case TensorRole::kO:
      return {c.hidden, c.q_cols()};
    case TensorRole::kQBias:
      return {c.q_cols()};
    case TensorRole::kSinks:
      return {c.query_heads};
    case TensorRole::kKBias:
    case TensorRole::kVBias:
      return {c.kv_cols()};
    case TensorRole::kGate:
    case TensorRole::kUp:
      return {c.ffn, c.hidden};
    case TensorRole::kGateBias:
    case TensorRole::kUpBias:
    case TensorRole::kExpertGateBias:
    case TensorRole::kExpertUpBias:
      return {c.ffn};
    case TensorRole::kRouterBias:
      return {c.experts};
    case TensorRole::kRouter:
      return {c.experts, c.hidden};
    case TensorRole::kExpertGate:
    case TensorRole::kExpertUp:
      return {c.ffn, c.hidden};
    case TensorRole::kDown:
    case TensorRole::kExpertDown:
      return {c.hidden, c.ffn};
  }
  assert(false);
  return {};
}

absl::StatusOr<TensorTable> TensorTable::Bind(const TensorNaming& naming, const ModelConfig& config,
                                              const TensorExpectation& expectation, std::string_view file,
                                              const std::vector<RawTensor>& tensors,
                                              std::vector<std::string>& warnings) {
  TensorTable table;
  Binder binder(naming, config, file, tensors);
  for (const TensorName& entry : naming.names) {
    if (!Wanted(entry.presence, config, expectation) && !(entry.presence == Presence::kOptional && binder.Has(entry))) {
      continue;
    }
    for (int32_t layer = 0; layer < (InLayers(entry.name) ? config.layers : 1); ++layer) {
      for (int32_t expert = 0; expert < (InExperts(entry.role) ? config.experts : 1); ++expert) {
        HYDRANT_ASSIGN_OR_RETURN(std::unique_ptr<TensorSource> source, binder.Take(entry, layer, expert));
        table.Set(entry.role, layer, std::move(source), expert);
      }
    }
  }
  binder.TakeKnown();
  binder.WarnOfExtra(warnings);

  int64_t elements[3] = {};
  for (const RawTensor& tensor : tensors) {
    if (!tensor.refused_type.empty()) continue;
    const WeightFormatInfo& info = InfoOf(tensor.format);
    const DType dtype = IsQuantised(tensor.format) ? DType::kBF16 : DTypeOf(tensor.format);
    elements[static_cast<size_t>(dtype)] +=
        static_cast<int64_t>(tensor.data.size()) / info.block_bytes * info.block_elements;
  }
  table.stored_dtype_ = static_cast<DType>(std::max_element(elements, elements + 3) - elements);
  return table;
}

void TensorTable::Set(TensorRole role, int32_t layer, std::unique_ptr<TensorSource> source, int32_t expert) {
  sources_[KeyOf(role, layer, expert)] = std::move(source);
}

std::unique_ptr<TensorSource> TensorTable::Take(TensorRole role, int32_t layer, int32_t expert) {
  const auto found = sources_.find(KeyOf(role, layer, expert));
  assert(found != sources_.end());
  std::unique_ptr<TensorSource> source = std::move(found->second);
  sources_.erase(found);
  return source;
}

const TensorSource* TensorTable::Find(TensorRole role, int32_t layer, int32_t expert) const {
  const auto found = sources_.find(KeyOf(role, layer, expert));
  return found == sources_.end() ? nullptr : found->second.get();
}

std::vector<std::string> TensorTable::NonFinite() const {
  std::vector<std::string> names;
  for (const auto& [key, source] : sources_) {
    if (source->non_finite()) names.push_back(source->name());
  }
  // Several roles and experts may share a tensor.
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace hydrant
