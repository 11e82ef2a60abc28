#include "model/checkpoint/quantization.h"

#include <atomic>
#include <cassert>
#include <cstddef>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "model/files/dequantize.h"
#include "model/files/quantize.h"
#include "model/text/str_cat.h"

namespace hydrant {
namespace {

// In the order of Quantization.
constexpr std::string_view kNames[] = {"", "int8", "int4", "gguf", "compressed-tensors", "gptq", "awq", "fp8", "mxfp4"};

// A learned position is added, not multiplied, and is no matrix here. Nor is a router: it is small, and what is rounded there
// sends tokens to other experts.
constexpr TensorRole kMatrices[] = {
    TensorRole::kEmbedding, TensorRole::kHead,       TensorRole::kProjectIn, TensorRole::kProjectOut, TensorRole::kQ,
    TensorRole::kK,         TensorRole::kV,          TensorRole::kO,         TensorRole::kGate,       TensorRole::kUp,
    TensorRole::kDown,      TensorRole::kExpertGate, TensorRole::kExpertUp,  TensorRole::kExpertDown,
};

// Calls visit(role, layer, expert) for every matrix that the table has.
template <typename Visit>
void ForEachMatrix(const TensorTable& tensors, const ModelConfig& config, const Visit& visit) {
  for (const TensorRole role : kMatrices) {
    for (int32_t layer = 0; layer < (InLayers(role) ? config.layers : 1); ++layer) {
      for (int32_t expert = 0; expert < (InExperts(role) ? config.experts : 1); ++expert) {
        if (tensors.Find(role, layer, expert) != nullptr) visit(role, layer, expert);
      }
    }
  }
}

// What `inner` would be, had its rows been rounded before they were stored.
class QuantisedTensor final : public TensorSource {
 public:
  QuantisedTensor(std::unique_ptr<TensorSource> inner, WeightFormat format)
      : TensorSource(inner->name(), inner->rows(), inner->cols(), format), inner_(std::move(inner)) {}

  void ReadRows(int64_t begin, int64_t end, float* out) const override {
    std::vector<std::byte> row(static_cast<size_t>(RowBytes(format(), cols())));
    for (int64_t i = begin; i < end; ++i, out += cols()) {
      ReadStoredRows(i, i + 1, row.data());
      DequantizeRow(format(), row.data(), cols(), out);
    }
  }

  bool has_stored_rows() const override { return true; }

  void ReadStoredRows(int64_t begin, int64_t end, std::byte* out) const override {
    std::vector<float> row(static_cast<size_t>(cols()));
    bool finite = true;
    for (int64_t i = begin; i < end; ++i, out += RowBytes(format(), cols())) {
      inner_->ReadRows(i, i + 1, row.data());
      finite &= QuantizeRow(format(), row.data(), cols(), out);
    }
    // Relaxed: a flag on its own, read after the readers were joined.
    if (!finite) non_finite_.store(true, std::memory_order_relaxed);
  }

  int64_t StoredRow(int64_t row) const override { return inner_->StoredRow(row); }

  void ReadAhead() const override { inner_->ReadAhead(); }
  void ReturnMemory() const override { inner_->ReturnMemory(); }
  void ReturnRows(int64_t begin, int64_t end) const override { inner_->ReturnRows(begin, end); }
  bool non_finite() const override { return non_finite_.load(std::memory_order_relaxed) || inner_->non_finite(); }

 private:
  std::unique_ptr<TensorSource> inner_;
  mutable std::atomic<bool> non_finite_{false};
};

// int4 leaves the embedding table and the head, which every token's probability comes from, 8 bits.
WeightFormat FormatFor(Quantization quantization, TensorRole role) {
  const bool table = role == TensorRole::kEmbedding || role == TensorRole::kHead;
  return quantization == Quantization::kInt4 && !table ? WeightFormat::kQ4_0 : WeightFormat::kQ8_0;
}

}  // namespace

std::optional<Quantization> QuantizationFromName(std::string_view name) {
  for (size_t i = 1; i < std::size(kNames); ++i) {
    if (name == kNames[i]) return static_cast<Quantization>(i);
  }
  return std::nullopt;
}

std::string_view QuantizationName(Quantization quantization) { return kNames[static_cast<size_t>(quantization)]; }

std::span<const std::string_view> QuantizationNames() { return std::span(kNames).subspan(1); }

bool HasQuantised(const TensorTable& tensors, const ModelConfig& config) {
  bool any = false;
  ForEachMatrix(tensors, config, [&](TensorRole role, int32_t layer, int32_t expert) {
    any |= IsQuantised(tensors.Find(role, layer, expert)->format());
  });
  return any;
}

absl::Status QuantiseOnLoad(Quantization quantization, Quantization stored, const ModelConfig& config,
                            TensorTable& tensors) {
  if (quantization == Quantization::kNone || quantization == stored) return absl::OkStatus();
  const std::string flag = StrCat("--quantization ", QuantizationName(quantization), ": ");
  if (stored != Quantization::kNone) {
    return absl::InvalidArgumentError(
        StrCat(flag, "the model's weights are quantised already; say ", QuantizationName(stored), ", or nothing"));
  }
  if (quantization != Quantization::kInt8 && quantization != Quantization::kInt4) {
    return absl::InvalidArgumentError(
        StrCat(flag, "the model's weights are not quantised; say int8 or int4, or nothing"));
  }
  ForEachMatrix(tensors, config, [&](TensorRole role, int32_t layer, int32_t expert) {
    const WeightFormat format = FormatFor(quantization, role);
    if (tensors.Find(role, layer, expert)->cols() % InfoOf(format).block_elements != 0) return;
    auto rounded = std::make_unique<QuantisedTensor>(tensors.Take(role, layer, expert), format);
    tensors.Set(role, layer, std::move(rounded), expert);
  });
  return absl::OkStatus();
}

}  // namespace hydrant
