#include "model/transformer.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace hydrant {
namespace {

std::unique_ptr<DeviceBuffer> Floats(Device& device, int64_t rows, int64_t cols) {
  return device.Allocate(static_cast<size_t>(rows * cols) * sizeof(float));
}

}  // namespace

Transformer::Transformer(const ModelConfig& config, Weights weights, Device& device, const Limits& limits)
    : config_(config),
      weights_(std::move(weights)),
      device_(device),
      limits_(limits),
      attention_scale_(static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim)))),
      x_(Floats(device, limits.tokens_max, config.hidden)),
      normed_(Floats(device, limits.tokens_max, config.hidden)),
      qkv_(Floats(device, limits.tokens_max, config.q_cols() + 2 * config.kv_cols())),
      attention_(Floats(device, limits.tokens_max, config.q_cols())),
      ffn_(Floats(device, limits.tokens_max, config.ffn)),
      last_(Floats(device, limits.logits_rows_max, config.hidden)),
      logits_(Floats(device, limits.logits_rows_max, config.vocab)) {
  const int64_t cols_max = std::max({config.hidden, config.q_cols(), config.ffn});
  device.ReserveScratch(limits.tokens_max, limits.rows_max, limits.slots_max, cols_max, config.query_heads,
                        config.head_dim, config.vocab);
}

Matrix Transformer::Rows(const std::unique_ptr<DeviceBuffer>& buffer, int64_t rows, int64_t cols) {
  assert(static_cast<size_t>(rows * cols) * sizeof(float) <= buffer->bytes());
  return Matrix{.data = buffer->data(), .dtype = DType::kF32, .rows = rows, .cols = cols};
}

void Transformer::Forward(const StepBatch& batch, const KvCacheView& kv) {
  tokens_ = static_cast<int64_t>(batch.token_ids.size());
  assert(tokens_ > 0 && tokens_ <= limits_.tokens_max);
  device_.BeginStep(batch);
  device_.Embed(*weights_.embedding, Rows(x_, tokens_, config_.hidden));
  for (int32_t layer = 0; layer < config_.layers; ++layer) Layer(layer, tokens_, kv);
}

void Transformer::Layer(int32_t layer, int64_t tokens, const KvCacheView& kv) {
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  const Matrix x = Rows(x_, tokens, config_.hidden);
  const Matrix normed = Rows(normed_, tokens, config_.hidden);
  const Matrix qkv = Rows(qkv_, tokens, config_.q_cols() + 2 * config_.kv_cols());
  const Matrix attention = Rows(attention_, tokens, config_.q_cols());

  device_.Norm(weights.attention_norm, x, normed);
  device_.Linear(*weights.qkv, normed, qkv, /*accumulate=*/false);
  device_.RopeAndWriteKv(weights_.rope.get(), layer, qkv, kv);
  device_.Attention(weights_.rope.get(), layer, attention_scale_, qkv, kv, attention);
  // With a parallel residual the MLP reads the layer's input, so its norm is taken before attention adds to x.
  if (config_.parallel_residual) device_.Norm(weights.mlp_norm, x, normed);
  device_.Linear(*weights.o, attention, x, /*accumulate=*/true);
  if (!config_.parallel_residual) device_.Norm(weights.mlp_norm, x, normed);
  Mlp(weights, normed, tokens);
}

void Transformer::Mlp(const LayerWeights& weights, Matrix normed, int64_t tokens) {
  const Matrix ffn = Rows(ffn_, tokens, config_.ffn);
  if (config_.gated) {
    device_.LinearGated(*weights.up, config_.activation, normed, ffn);
  } else {
    device_.LinearActivated(*weights.up, config_.activation, normed, ffn);
  }
  device_.Linear(*weights.down, ffn, Rows(x_, tokens, config_.hidden), /*accumulate=*/true);
}

Matrix Transformer::Logits(std::span<const int32_t> token_indices) {
  const int64_t rows = static_cast<int64_t>(token_indices.size());
  assert(rows > 0 && rows <= limits_.logits_rows_max);
  const Matrix last = Rows(last_, rows, config_.hidden);
  const Matrix logits = Rows(logits_, rows, config_.vocab);
  device_.GatherRows(Rows(x_, tokens_, config_.hidden), token_indices, last);
  device_.Norm(weights_.final_norm, last, last);
  device_.Linear(weights_.head(), last, logits, /*accumulate=*/false);
  return logits;
}

}  // namespace hydrant
