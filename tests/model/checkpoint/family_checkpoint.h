// FamilyCheckpoint is a tiny model of one supported family, as tests/golden/families describes it: written as a Hugging Face
// directory in any storage type, or as a .gguf file with the same weights.
#ifndef HYDRANT_TESTS_MODEL_CHECKPOINT_FAMILY_CHECKPOINT_H_
#define HYDRANT_TESTS_MODEL_CHECKPOINT_FAMILY_CHECKPOINT_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/model/checkpoint/gguf_builder.h"

namespace hydrant {

class FamilyCheckpoint {
 public:
  explicit FamilyCheckpoint(const std::string& name);

  const nlohmann::json& golden() const { return golden_; }
  nlohmann::json& config() { return golden_["config"]; }

  // config.json, tokenizer.json and the weights; `dtype` is "F32", "F16" or "BF16". With more than one shard the tensors are
  // dealt out in turn, and an index names the files. `fused_experts`: as newer transformers writes them.
  void WriteTo(const std::string& directory, const std::string& dtype, size_t shards = 1,
               bool fused_experts = false) const;
  // As llama.cpp's converter writes it. REQUIRES: a family that has an architecture there, plain rope.
  GgufBuilder Gguf() const;

  // A tensor's fp32 elements.
  std::vector<float> Values(const std::string& tensor) const;

 private:
  // The tensors that one of ours becomes: its name with '#' for the layer, its shape, its elements.
  void AddToGguf(const std::string& name, const std::vector<int64_t>& shape, GgufBuilder& file) const;
  void AddGptOssExperts(const std::string& name, const std::vector<int64_t>& shape, GgufBuilder& file) const;

  nlohmann::json golden_;
};

}  // namespace hydrant

#endif  // HYDRANT_TESTS_MODEL_CHECKPOINT_FAMILY_CHECKPOINT_H_
