#include "tests/gpu/random_checkpoint.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace hydrant {
namespace {

class RandomTensor final : public TensorSource {
 public:
  // Values are even in [-spread, spread), around `centre`.
  RandomTensor(int64_t rows, int64_t cols, uint64_t seed, float centre, float spread)
      : rows_(rows), cols_(cols), seed_(seed), centre_(centre), spread_(spread) {}
  int64_t rows() const override { return rows_; }
  int64_t cols() const override { return cols_; }
  void ReadRows(int64_t begin, int64_t end, float* out) const override {
    for (int64_t i = begin * cols_; i < end * cols_; ++i) {
      uint64_t bits = (static_cast<uint64_t>(i) + seed_) * 0x9E3779B97F4A7C15u;
      bits = (bits ^ (bits >> 32)) * 0xD6E8FEB86659FD93u;
      *out++ = centre_ + spread_ * (static_cast<float>(bits >> 40) * 0x1p-23f - 1.0f);
    }
  }

 private:
  const int64_t rows_, cols_;
  const uint64_t seed_;
  const float centre_, spread_;
};

}  // namespace

std::optional<ModelConfig> LlamaShape(const std::string& name) {
  ModelConfig config;
  config.context = 131072;
  config.vocab = 128256;
  config.kv_heads = 8;
  config.query_heads = 32;
  config.stored_dtype = DType::kBF16;
  if (name == "8b") {
    config.hidden = 4096, config.layers = 32, config.head_dim = 128, config.ffn = 14336;
  } else if (name == "1b") {
    config.hidden = 2048, config.layers = 16, config.head_dim = 64, config.ffn = 8192;
    config.tied_embeddings = true;
  } else if (name == "tiny") {
    config.hidden = 64, config.layers = 2, config.head_dim = 16, config.ffn = 128;
    config.query_heads = 4, config.kv_heads = 2, config.vocab = 500, config.context = 4096;
  } else {
    return std::nullopt;
  }
  config.rope_dims = config.head_dim;
  for (int32_t i = 0; i < config.rope_dims / 2; ++i) {
    config.rope_inv_freq.push_back(std::pow(500000.0, -2.0 * i / config.rope_dims));
  }
  return config;
}

RandomCheckpoint::RandomCheckpoint(const ModelConfig& config) : config_(config) {
  Add(TensorRole::kEmbedding, 0, config.vocab, config.hidden);
  if (!config.tied_embeddings) Add(TensorRole::kHead, 0, config.vocab, config.hidden);
  Add(TensorRole::kFinalNorm, 0, 1, config.hidden);
  for (int32_t layer = 0; layer < config.layers; ++layer) {
    Add(TensorRole::kAttentionNorm, layer, 1, config.hidden);
    Add(TensorRole::kMlpNorm, layer, 1, config.hidden);
    Add(TensorRole::kQ, layer, config.q_cols(), config.hidden);
    Add(TensorRole::kK, layer, config.kv_cols(), config.hidden);
    Add(TensorRole::kV, layer, config.kv_cols(), config.hidden);
    Add(TensorRole::kO, layer, config.hidden, config.q_cols());
    Add(TensorRole::kGate, layer, config.ffn, config.hidden);
    Add(TensorRole::kUp, layer, config.ffn, config.hidden);
    Add(TensorRole::kDown, layer, config.hidden, config.ffn);
  }
}

void RandomCheckpoint::Add(TensorRole role, int32_t layer, int64_t rows, int64_t cols) {
  const uint64_t seed = (static_cast<uint64_t>(role) * 1000 + static_cast<uint64_t>(layer)) << 40;
  // Norms near 1; matrices so that a product keeps the size of what goes in.
  const bool norm = rows == 1;
  const float spread = norm ? 0.1f : std::sqrt(3.0f / static_cast<float>(cols));
  tensors_[{role, layer}] = std::make_unique<RandomTensor>(rows, cols, seed, norm ? 1.0f : 0.0f, spread);
}

const TensorSource* RandomCheckpoint::Find(TensorRole role, int32_t layer) const {
  const auto found = tensors_.find({role, layer});
  return found != tensors_.end() ? found->second.get() : nullptr;
}

const Tokenizer& RandomCheckpoint::tokenizer() const {
  std::fprintf(stderr, "random weights have no tokenizer\n");
  std::abort();
}

}  // namespace hydrant
