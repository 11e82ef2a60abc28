// Transformer is the one forward pass, over Device, for every architecture: what differs between families is data in
// ModelConfig and Weights.
//
// Thread: engine. Ops of the layers (Embed to AddProduct) may run on several threads at once, one for each of the device's ranks
// (Device::RunLayers): these functions change no member. All activations are allocated in the constructor.
#ifndef HYDRANT_MODEL_RUN_TRANSFORMER_H_
#define HYDRANT_MODEL_RUN_TRANSFORMER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "kernels/device.h"
#include "model/config/model_config.h"
#include "model/weights/adapter_slots.h"
#include "model/weights/weights.h"

namespace hydrant {

class Transformer {
 public:
  struct Limits {
    int32_t tokens_max = 0;       // in one step
    int32_t rows_max = 0;         // sequences in one step
    int32_t drafts_max = 0;       // of its tokens
    int32_t slots_max = 0;        // of one sequence
    int32_t logits_rows_max = 0;  // in one call of Logits
    AdapterLimits adapters = {};
  };

  // Bytes of the activations and the device's scratch together, without those of adapters. `plan`: of the weights. `scratch_bytes`:
  // Device::ScratchBytes. `copies`: Device::copies.
  static int64_t WorkspaceBytes(const ModelConfig& config, const WeightPlan& plan, const Limits& limits,
                                const std::function<int64_t(const StepBounds&)>& scratch_bytes, int64_t copies);

  // `device` outlives the transformer.
  Transformer(const ModelConfig& config, Weights weights, Device& device, const Limits& limits);

  // Runs every layer over the batch: keys and values are in the cache afterwards, the hidden states wait for Logits. Returns false,
  // and some layers were left out, if `overtaken` came to be true and the device computes at once. Null: it never does.
  bool Forward(const StepBatch& batch, const KvCacheView& kv, const std::atomic<bool>* overtaken = nullptr);

  // Logits of the given tokens of the last Forward, [token_indices.size(), vocab] fp32; valid until the next call.
  // REQUIRES: 0 < token_indices.size() <= logits_rows_max.
  Matrix Logits(std::span<const int32_t> token_indices);
  // What their logits are made of, behind the last norm and projection, [token_indices.size(), state_cols()] fp32. Likewise.
  Matrix States(std::span<const int32_t> token_indices);
  int64_t state_cols() const { return config_.embedding_cols(); }

  const Weights& weights() const { return weights_; }
  // Null: Limits::adapters has no slots.
  AdapterSlots* adapters() { return adapters_.get(); }

 private:
  void Embed(int64_t tokens);
  void Layer(int32_t layer, int64_t tokens, const KvCacheView& kv);
  void Mlp(int32_t layer, Matrix in, int64_t tokens);
  // Adds what the experts of the layer make of `in` to the residual stream.
  void AddExperts(const LayerWeights& weights, Matrix in, int64_t tokens);
  // Adds weight(in), or the norm of it if the config says so, to the residual stream. Overwrites qkv_.
  void AddProduct(const LinearWeight& weight, const AdapterWeight* adapters, Matrix in, const NormWeight& out_norm,
                  int64_t tokens);
  // What adapters add to the layer's matrices; nulls: nothing.
  const AdapterSlots::Layer& AdaptersOf(int32_t layer) const;

  // The first `rows` rows of an activation buffer.
  static Matrix Rows(const std::unique_ptr<DeviceBuffer>& buffer, int64_t rows, int64_t cols,
                     DType dtype = DType::kF32);
  // A matrix for rows that only products with `weight`, or with weights of its type and columns, read.
  Matrix RowsFor(const LinearWeight& weight, const std::unique_ptr<DeviceBuffer>& buffer, int64_t rows) const;
  // `rows` with the type that all products with `weights` prefer; fp32 if `rows` has another one.
  Matrix ForAll(const Experts::Matrices& weights, Matrix rows) const;

  const ModelConfig config_;
  const Weights weights_;
  Device& device_;
  const Limits limits_;
  const float attention_scale_;
  std::unique_ptr<AdapterSlots> adapters_;

  std::unique_ptr<DeviceBuffer> x_;  // [tokens, hidden], the residual stream
  // [tokens, hidden]; this one, attention_ and ffn_: of Device::PreferredInputType.
  std::unique_ptr<DeviceBuffer> normed_;
  // [tokens, (query_heads + 2 kv_heads) * head_dim], and products before their norm, [tokens, hidden].
  std::unique_ptr<DeviceBuffer> qkv_;
  std::unique_ptr<DeviceBuffer> attention_;  // [tokens, query_heads * head_dim]
  std::unique_ptr<DeviceBuffer> ffn_;        // [tokens, ffn]; of experts [tokens * experts_per_token, ffn]
  std::unique_ptr<DeviceBuffer> router_;     // [tokens, experts]; null without experts
  std::unique_ptr<DeviceBuffer> embedded_;   // [tokens or logits_rows, embedding_cols]; null unless these are projected
  std::unique_ptr<DeviceBuffer> last_;       // [logits_rows, hidden]
  std::unique_ptr<DeviceBuffer> logits_;     // [logits_rows, vocab]
  int64_t tokens_ = 0;                       // rows of the last Forward: what Device::BeginStep said
};

}  // namespace hydrant

#endif  // HYDRANT_MODEL_RUN_TRANSFORMER_H_
