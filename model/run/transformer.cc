#include "model/run/transformer.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace hydrant {
namespace {

// Counts of fp32 numbers in the activations.
struct Floats {
  Floats(const ModelConfig& config, const Transformer::Limits& limits)
      : state(int64_t{limits.tokens_max} * config.hidden),
        qkv(int64_t{limits.tokens_max} *
            std::max(config.q_cols() + 2 * config.kv_cols(), config.norms_outputs() ? config.hidden : 0)),
        attention(int64_t{limits.tokens_max} * config.q_cols()),
        ffn(int64_t{limits.tokens_max} * std::max(config.experts_per_token, 1) * config.ffn),
        router(int64_t{limits.tokens_max} * config.experts),
        embedded(config.projected()
                     ? int64_t{std::max(limits.tokens_max, limits.logits_rows_max)} * config.embedding_cols()
                     : 0),
        last(int64_t{limits.logits_rows_max} * config.hidden),
        logits(int64_t{limits.logits_rows_max} * config.vocab) {}

  const int64_t state, qkv, attention, ffn, router, embedded, last, logits;
};

StepBounds BoundsOf(const ModelConfig& config, const Transformer::Limits& limits, int64_t quantised_cols_max) {
  return {.tokens_max = limits.tokens_max,
          .rows_max = limits.rows_max,
          .slots_max = limits.slots_max,
          .drafts_max = limits.drafts_max,
          .layer_heads = config.layers * config.kv_heads,
          .cols_max = std::max({config.hidden, config.embedding_cols(), config.q_cols(), config.ffn}),
          .query_heads = config.query_heads,
          .head_dim = config.head_dim,
          .vocab = config.vocab,
          .logits_rows_max = limits.logits_rows_max,
          .experts = config.experts,
          .experts_per_row = config.experts_per_token,
          .expert_cols_max = config.experts > 0 ? std::max(config.hidden, config.ffn) : 0,
          .quantised_cols_max = quantised_cols_max,
          .adapter_rank_max = limits.adapters.slots > 0 ? limits.adapters.rank_max : 0,
          .adapter_dtype = limits.adapters.dtype};
}

std::unique_ptr<DeviceBuffer> Take(Device& device, int64_t floats) {
  return device.Allocate(static_cast<size_t>(floats) * sizeof(float));
}

}  // namespace

int64_t Transformer::WorkspaceBytes(const ModelConfig& config, const WeightPlan& plan, const Limits& limits,
                                    const std::function<int64_t(const StepBounds&)>& scratch_bytes, int64_t copies) {
  const Floats floats(config, limits);
  const int64_t sum = 2 * floats.state + floats.qkv + floats.attention + floats.ffn + floats.router + floats.embedded +
                      floats.last + floats.logits;
  return copies * sum * static_cast<int64_t>(sizeof(float)) +
         scratch_bytes(BoundsOf(config, limits, plan.quantised_cols_max()));
}

Transformer::Transformer(const ModelConfig& config, Weights weights, Device& device, const Limits& limits)
    : config_(config),
      weights_(std::move(weights)),
      device_(device),
      limits_(limits),
      attention_scale_(static_cast<float>(config.attention_scale > 0
                                              ? config.attention_scale
                                              : 1.0 / std::sqrt(static_cast<double>(config.head_dim)))) {
  assert(!config.parallel_residual || config.norm_place == NormPlace::kBefore);
  assert(config.experts == 0 || (config.gated && !config.norms_outputs()));
  if (limits.adapters.slots > 0) {
    adapters_ = std::make_unique<AdapterSlots>(config, weights_, device, limits.adapters);
  }
  const Floats floats(config, limits);
  x_ = Take(device, floats.state);
  normed_ = Take(device, floats.state);
  qkv_ = Take(device, floats.qkv);
  attention_ = Take(device, floats.attention);
  ffn_ = Take(device, floats.ffn);
  if (floats.router > 0) router_ = Take(device, floats.router);
  if (floats.embedded > 0) embedded_ = Take(device, floats.embedded);
  last_ = Take(device, floats.last);
  logits_ = Take(device, floats.logits);
  device.ReserveScratch(BoundsOf(config, limits, weights_.quantised_cols_max));
}

Matrix Transformer::Rows(const std::unique_ptr<DeviceBuffer>& buffer, int64_t rows, int64_t cols, DType dtype) {
  assert(static_cast<size_t>(rows * cols) * DTypeBytes(dtype) <= buffer->bytes());
  return Matrix{.data = buffer->data(), .dtype = dtype, .rows = rows, .cols = cols};
}

Matrix Transformer::RowsFor(const LinearWeight& weight, const std::unique_ptr<DeviceBuffer>& buffer,
                            int64_t rows) const {
  const LinearSpec& spec = weight.spec();
  return Rows(buffer, rows, spec.cols, device_.PreferredInputType(spec));
}

Matrix Transformer::ForAll(const Experts::Matrices& weights, Matrix rows) const {
  for (const auto& weight : weights) {
    if (device_.PreferredInputType(weight->spec()) != rows.dtype) rows.dtype = DType::kF32;
  }
  return rows;
}

bool Transformer::Forward(const StepBatch& batch, const KvCacheView& kv, const std::atomic<bool>* overtaken) {
  assert(!batch.token_ids.empty() && std::ssize(batch.token_ids) <= limits_.tokens_max);
  tokens_ = device_.BeginStep(batch);
  assert(tokens_ <= limits_.tokens_max);
  if (!device_.ComputesAtOnce()) overtaken = nullptr;
  bool left_out = false;
  // Relaxed: nothing is handed over with it.
  const auto is_overtaken = [&] { return overtaken != nullptr && overtaken->load(std::memory_order_relaxed); };
  // Elsewhere this is run by several threads, or not at all.
  device_.RunLayers(this, [&] {
    Embed(tokens_);
    for (int32_t layer = 0; layer < config_.layers; ++layer) {
      if (is_overtaken()) {
        left_out = true;
        return;
      }
      Layer(layer, tokens_, kv);
    }
  });
  return !left_out;
}

void Transformer::Embed(int64_t tokens) {
  const Matrix x = Rows(x_, tokens, config_.hidden);
  if (weights_.project_in == nullptr) {
    device_.Embed(weights_.embedding.get(), config_.embedding_scale, weights_.positions.get(), x);
    return;
  }
  // Positions are as wide as the layers: they come first, and what the tokens are is added.
  const Matrix embedded = Rows(embedded_, tokens, config_.embedding_cols());
  const bool positioned = weights_.positions != nullptr;
  if (positioned) device_.Embed(nullptr, 1, weights_.positions.get(), x);
  device_.Embed(weights_.embedding.get(), config_.embedding_scale, nullptr, embedded);
  device_.Linear(*weights_.project_in, embedded, x, /*accumulate=*/positioned);
}

void Transformer::Layer(int32_t layer, int64_t tokens, const KvCacheView& kv) {
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  const Matrix x = Rows(x_, tokens, config_.hidden);
  const Matrix qkv = Rows(qkv_, tokens, config_.q_cols() + 2 * config_.kv_cols());
  const Matrix attention = RowsFor(*weights.o, attention_, tokens);
  // Without norms before them, attention and MLP read the residual stream itself.
  const bool norms_inputs = config_.norms_inputs(), norms_sums = config_.norm_place == NormPlace::kAfterSum;
  const Matrix in = norms_inputs ? RowsFor(*weights.qkv, normed_, tokens) : x;
  Matrix mlp_in = x;
  if (norms_inputs && weights.router == nullptr) mlp_in = RowsFor(*weights.up, normed_, tokens);
  if (norms_inputs && weights.router != nullptr) {
    mlp_in = ForAll(weights.experts->up(), RowsFor(*weights.router, normed_, tokens));
  }

  if (norms_inputs) device_.Norm(weights.attention_norm, x, in);
  const AdapterSlots::Layer& adapters = AdaptersOf(layer);
  device_.Linear(*weights.qkv, in, qkv, /*accumulate=*/false, adapters.qkv.get());
  device_.RopeAndWriteKv(weights.rope, weights.head_norms, layer, qkv, kv);
  const AttentionSpec spec{.scale = attention_scale_,
                           .softcap = config_.attention_softcap,
                           .window = config_.window_of(layer),
                           .sinks = weights.sinks};
  device_.Attention(weights.rope, spec, layer, qkv, kv, attention);
  // With a parallel residual the MLP reads the layer's input, so its norm is taken before attention adds to x.
  const bool parallel = config_.parallel_residual;
  if (parallel) device_.Norm(weights.mlp_norm, x, mlp_in);
  AddProduct(*weights.o, adapters.o.get(), attention, weights.attention_out_norm, tokens);
  if (norms_inputs && !parallel) device_.Norm(weights.mlp_norm, x, mlp_in);
  if (norms_sums) device_.Norm(weights.attention_norm, x, x);
  Mlp(layer, mlp_in, tokens);
  if (norms_sums) device_.Norm(weights.mlp_norm, x, x);
}

const AdapterSlots::Layer& Transformer::AdaptersOf(int32_t layer) const {
  static const auto& none = *new AdapterSlots::Layer;
  return adapters_ != nullptr ? adapters_->layer(layer) : none;
}

void Transformer::Mlp(int32_t layer, Matrix in, int64_t tokens) {
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  const AdapterSlots::Layer& adapters = AdaptersOf(layer);
  if (weights.router != nullptr) return AddExperts(weights, in, tokens);
  const Matrix ffn = RowsFor(*weights.down, ffn_, tokens);
  if (config_.gated) {
    device_.LinearGated(*weights.up, config_.activation, in, ffn, adapters.up.get());
  } else {
    device_.LinearActivated(*weights.up, config_.activation, in, ffn, adapters.up.get());
  }
  AddProduct(*weights.down, adapters.down.get(), ffn, weights.mlp_out_norm, tokens);
}

void Transformer::AddExperts(const LayerWeights& weights, Matrix in, int64_t tokens) {
  const Matrix logits = Rows(router_, tokens, config_.experts);
  const Experts::Matrices& down = weights.experts->down();
  const Matrix inner = ForAll(down, RowsFor(*down.front(), ffn_, tokens * config_.experts_per_token));
  device_.Linear(*weights.router, in, logits, /*accumulate=*/false);
  const ExpertRouting routing = {.per_row = config_.experts_per_token, .normalised = config_.normalised_experts};
  device_.AddExperts(*weights.experts, routing, config_.activation, in, logits, inner,
                     Rows(x_, tokens, config_.hidden));
}

void Transformer::AddProduct(const LinearWeight& weight, const AdapterWeight* adapters, Matrix in,
                             const NormWeight& out_norm, int64_t tokens) {
  const Matrix x = Rows(x_, tokens, config_.hidden);
  if (!config_.norms_outputs()) return device_.Linear(weight, in, x, /*accumulate=*/true, adapters);
  const Matrix product = Rows(qkv_, tokens, config_.hidden);
  device_.Linear(weight, in, product, /*accumulate=*/false, adapters);
  device_.AddNormed(out_norm, product, x);
}

Matrix Transformer::States(std::span<const int32_t> token_indices) {
  const int64_t rows = static_cast<int64_t>(token_indices.size());
  assert(rows > 0 && rows <= limits_.logits_rows_max);
  const Matrix last = Rows(last_, rows, config_.hidden);
  device_.GatherRows(Rows(x_, tokens_, config_.hidden), token_indices, last);
  if (config_.final_norm) device_.Norm(weights_.final_norm, last, last);
  if (weights_.project_out == nullptr) return last;
  const Matrix projected = Rows(embedded_, rows, config_.embedding_cols());
  device_.Linear(*weights_.project_out, last, projected, /*accumulate=*/false);
  return projected;
}

Matrix Transformer::Logits(std::span<const int32_t> token_indices) {
  const Matrix logits = Rows(logits_, static_cast<int64_t>(token_indices.size()), config_.vocab);
  device_.Linear(weights_.head(), States(token_indices), logits, /*accumulate=*/false);
  if (config_.final_softcap > 0) device_.SoftCap(config_.final_softcap, logits);
  return logits;
}

}  // namespace hydrant
