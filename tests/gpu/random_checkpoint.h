// A Llama of any shape with random weights: made on the spot, because what is measured does not depend on what it says.
#ifndef HYDRANT_TESTS_GPU_RANDOM_CHECKPOINT_H_
#define HYDRANT_TESTS_GPU_RANDOM_CHECKPOINT_H_

#include <optional>
#include <string>

#include "model/checkpoint/checkpoint.h"
#include "model/config/model_config.h"

namespace hydrant {

// "8b" (Llama 3 8B), "1b" (Llama 3.2 1B), "tiny"; empty for any other name.
std::optional<ModelConfig> LlamaShape(const std::string& name);

// It has no tokenizer: nothing is read or written as text.
Checkpoint RandomCheckpoint(const ModelConfig& config);

}  // namespace hydrant

#endif  // HYDRANT_TESTS_GPU_RANDOM_CHECKPOINT_H_
