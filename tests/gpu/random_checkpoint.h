// A Llama of any shape with random weights: made on the spot, because what is measured does not depend on what it says.
#ifndef HYDRANT_TESTS_GPU_RANDOM_CHECKPOINT_H_
#define HYDRANT_TESTS_GPU_RANDOM_CHECKPOINT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/checkpoint/checkpoint.h"
#include "model/config/model_config.h"

namespace hydrant {

// "8b" (Llama 3 8B), "1b" (Llama 3.2 1B), "tiny"; empty for any other name.
std::optional<ModelConfig> LlamaShape(const std::string& name);

class RandomCheckpoint final : public Checkpoint {
 public:
  explicit RandomCheckpoint(const ModelConfig& config);

  const ModelConfig& config() const override { return config_; }
  const TensorSource* Find(TensorRole role, int32_t layer) const override;
  // It has none: nothing is read or written as text. Never called.
  const Tokenizer& tokenizer() const override;
  std::shared_ptr<const Tokenizer> shared_tokenizer() const override { return nullptr; }
  const GenerationDefaults& generation_defaults() const override { return defaults_; }
  const std::string& chat_template() const override { return none_; }
  const std::string& tool_use_template() const override { return none_; }
  const std::string& bos_token() const override { return none_; }
  const std::string& eos_token() const override { return none_; }
  const std::vector<std::string>& warnings() const override { return no_warnings_; }
  std::vector<std::string> NonFiniteTensors() const override { return {}; }

 private:
  void Add(TensorRole role, int32_t layer, int64_t rows, int64_t cols);

  const ModelConfig config_;
  std::map<std::pair<TensorRole, int32_t>, std::unique_ptr<TensorSource>> tensors_;
  GenerationDefaults defaults_;
  std::string none_;
  std::vector<std::string> no_warnings_;
};

}  // namespace hydrant

#endif  // HYDRANT_TESTS_GPU_RANDOM_CHECKPOINT_H_
