#include "model/weights/weights.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <span>

namespace hydrant {
namespace {

class Loader {
 public:
  Loader(const Checkpoint& checkpoint, Device& device, DType dtype, Weights& weights)
      : checkpoint_(checkpoint), device_(device), dtype_(dtype), weights_(weights) {}

  // A norm without weights multiplies by 1.
  NormWeight Norm(TensorRole weight, TensorRole bias, int32_t layer) {
    const ModelConfig& config = checkpoint_.config();
    const TensorSource* source = checkpoint_.Find(weight, layer);
    return NormWeight{.kind = config.norm,
                      .weight = source != nullptr ? Vector(source)
                                                  : Upload(std::vector<float>(static_cast<size_t>(config.hidden), 1)),
                      .bias = Vector(checkpoint_.Find(bias, layer)),
                      .eps = config.norm_eps};
  }

  NormWeight HeadNorm(TensorRole weight, int32_t layer) {
    return NormWeight{.kind = NormKind::kRms,
                      .weight = Vector(checkpoint_.Find(weight, layer)),
                      .eps = checkpoint_.config().norm_eps};
  }

  // Rows [begin, begin + rows) of a tensor.
  std::unique_ptr<LinearWeight> Slice(TensorRole role, int64_t begin, int64_t rows) {
    const TensorSource* source = checkpoint_.Find(role, 0);
    assert(source != nullptr && begin + rows <= source->rows());
    return device_.MakeLinear(
        {.rows = rows, .cols = source->cols(), .dtype = dtype_},
        [source, begin](int64_t from, int64_t to, float* out) { source->ReadRows(begin + from, begin + to, out); }, {});
  }

  // One weight from the rows of several tensors, one after the other.
  std::unique_ptr<LinearWeight> Stacked(std::span<const TensorRole> roles, std::span<const TensorRole> bias_roles,
                                        int32_t layer, bool gated) {
    std::vector<const TensorSource*> parts;
    LinearSpec spec{.rows = 0, .cols = 0, .dtype = dtype_, .gated = gated};
    for (TensorRole role : roles) {
      const TensorSource* part = checkpoint_.Find(role, layer);
      assert(part != nullptr);
      assert(spec.cols == 0 || spec.cols == part->cols());
      parts.push_back(part);
      spec.rows += part->rows();
      spec.cols = part->cols();
    }
    return device_.MakeLinear(spec, StackedReader(parts), Bias(parts, bias_roles, layer));
  }

 private:
  static RowReader StackedReader(std::vector<const TensorSource*> parts) {
    return [parts = std::move(parts)](int64_t begin, int64_t end, float* out) {
      int64_t part_begin = 0;
      for (const TensorSource* part : parts) {
        const int64_t from = std::max(begin, part_begin);
        const int64_t to = std::min(end, part_begin + part->rows());
        if (from < to) {
          part->ReadRows(from - part_begin, to - part_begin, out);
          out += (to - from) * part->cols();
        }
        part_begin += part->rows();
      }
    };
  }

  // Zeros stand for a part without a bias; empty when no part has one.
  std::vector<float> Bias(std::span<const TensorSource* const> parts, std::span<const TensorRole> roles,
                          int32_t layer) {
    std::vector<float> bias;
    bool any = false;
    for (size_t i = 0; i < parts.size(); ++i) {
      const size_t at = bias.size();
      bias.resize(at + static_cast<size_t>(parts[i]->rows()), 0.0f);
      const TensorSource* source = i < roles.size() ? checkpoint_.Find(roles[i], layer) : nullptr;
      if (source == nullptr) continue;
      any = true;
      source->ReadRows(0, 1, bias.data() + at);
    }
    if (!any) bias.clear();
    return bias;
  }

  const float* Vector(const TensorSource* source) {
    if (source == nullptr) return nullptr;
    std::vector<float> host(static_cast<size_t>(source->cols()));
    source->ReadRows(0, 1, host.data());
    return Upload(host);
  }

  const float* Upload(const std::vector<float>& host) {
    weights_.vectors.push_back(device_.Allocate(host.size() * sizeof(float)));
    device_.CopyToDevice(weights_.vectors.back()->data(), host.data(), host.size() * sizeof(float));
    return static_cast<const float*>(weights_.vectors.back()->data());
  }

  const Checkpoint& checkpoint_;
  Device& device_;
  DType dtype_;
  Weights& weights_;
};

}  // namespace

size_t Weights::step_bytes() const {
  size_t bytes = head().bytes();
  if (project_in != nullptr) bytes += project_in->bytes() + project_out->bytes();
  for (const LayerWeights& layer : layers) {
    bytes += layer.qkv->bytes() + layer.o->bytes() + layer.up->bytes() + layer.down->bytes();
  }
  return bytes;
}

Weights LoadWeights(const Checkpoint& checkpoint, Device& device, DType dtype, int32_t positions_max) {
  using enum TensorRole;
  const ModelConfig& config = checkpoint.config();
  Weights weights;
  Loader loader(checkpoint, device, dtype, weights);
  weights.embedding = loader.Stacked(std::array{kEmbedding}, {}, 0, false);
  if (!config.tied_embeddings) weights.own_head = loader.Stacked(std::array{kHead}, {}, 0, false);
  if (config.projected()) {
    weights.project_in = loader.Stacked(std::array{kProjectIn}, {}, 0, false);
    weights.project_out = loader.Stacked(std::array{kProjectOut}, {}, 0, false);
  }
  weights.final_norm = loader.Norm(kFinalNorm, kFinalNormBias, 0);
  weights.layers.reserve(static_cast<size_t>(config.layers));
  for (int32_t i = 0; i < config.layers; ++i) {
    LayerWeights layer;
    layer.attention_norm = loader.Norm(kAttentionNorm, kAttentionNormBias, i);
    layer.qkv = loader.Stacked(std::array{kQ, kK, kV}, std::array{kQBias, kKBias, kVBias}, i, false);
    layer.head_norms = {.q = loader.HeadNorm(kQNorm, i), .k = loader.HeadNorm(kKNorm, i)};
    layer.o = loader.Stacked(std::array{kO}, std::array{kOBias}, i, false);
    layer.mlp_norm = loader.Norm(kMlpNorm, kMlpNormBias, i);
    layer.up = config.gated ? loader.Stacked(std::array{kGate, kUp}, std::array{kGateBias, kUpBias}, i, true)
                            : loader.Stacked(std::array{kUp}, std::array{kUpBias}, i, false);
    layer.down = loader.Stacked(std::array{kDown}, std::array{kDownBias}, i, false);
    weights.layers.push_back(std::move(layer));
  }
  if (config.position_rows > 0) {
    weights.positions = loader.Slice(kPositions, config.position_offset, std::min(positions_max, config.context));
  } else {
    weights.rope = device.MakeRope(RopeSpec{.dims = config.rope_dims,
                                            .inv_freq = config.rope_inv_freq,
                                            .attention_factor = config.rope_attention_factor,
                                            .positions_max = positions_max});
  }
  return weights;
}

int64_t WeightBytes(const ModelConfig& config, DType dtype) {
  const int64_t attention = 2 * int64_t{config.q_cols()} + 2 * int64_t{config.kv_cols()};
  const int64_t mlp = (config.gated ? 3 : 2) * int64_t{config.ffn};
  const int64_t tables = (config.tied_embeddings ? 1 : 2) * int64_t{config.vocab} * config.embedding_cols();
  const int64_t projections = config.projected() ? 2 * int64_t{config.embedding_cols()} * config.hidden : 0;
  return (tables + projections + config.layers * (attention + mlp) * config.hidden) *
         static_cast<int64_t>(DTypeBytes(dtype));
}

int64_t PositionBytes(const ModelConfig& config, DType dtype, int32_t positions_max) {
  if (config.position_rows > 0) {
    return int64_t{positions_max} * config.hidden * static_cast<int64_t>(DTypeBytes(dtype));
  }
  return int64_t{positions_max} * config.rope_dims * static_cast<int64_t>(sizeof(float));
}

}  // namespace hydrant
