#include "tests/gpu/random_checkpoint.h"

#include <cmath>
#include <memory>

#include "tests/model/weights/shaped_tensors.h"

namespace hydrant {
namespace {

class RandomTensor final : public TensorSource {
 public:
  // Values are even in [-spread, spread), around `centre`.
  RandomTensor(int64_t rows, int64_t cols, uint64_t seed, float centre, float spread)
      : TensorSource("random", rows, cols, WeightFormat::kBF16), seed_(seed), centre_(centre), spread_(spread) {}
  void ReadRows(int64_t begin, int64_t end, float* out) const override {
    for (int64_t i = begin * cols(); i < end * cols(); ++i) {
      uint64_t bits = (static_cast<uint64_t>(i) + seed_) * 0x9E3779B97F4A7C15u;
      bits = (bits ^ (bits >> 32)) * 0xD6E8FEB86659FD93u;
      *out++ = centre_ + spread_ * (static_cast<float>(bits >> 40) * 0x1p-23f - 1.0f);
    }
  }

 private:
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

Checkpoint RandomCheckpoint(const ModelConfig& config) {
  Checkpoint checkpoint;
  checkpoint.config = config;
  checkpoint.tensors = TensorsFor(config, [](TensorRole role, int32_t layer, int64_t rows, int64_t cols) {
    const uint64_t seed = (static_cast<uint64_t>(role) * 1000 + static_cast<uint64_t>(layer)) << 40;
    // Norms near 1; matrices so that a product keeps the size of what goes in.
    const bool norm = rows == 1;
    const float spread = norm ? 0.1f : std::sqrt(3.0f / static_cast<float>(cols));
    return std::make_unique<RandomTensor>(rows, cols, seed, norm ? 1.0f : 0.0f, spread);
  });
  return checkpoint;
}

}  // namespace hydrant
