// CheckpointParts is what the reader of a format hands over: everything a Checkpoint shows, and the mappings it stands on.
#ifndef HYDRANT_MODEL_CHECKPOINT_CHECKPOINT_PARTS_H_
#define HYDRANT_MODEL_CHECKPOINT_CHECKPOINT_PARTS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/tensor_table.h"
#include "model/config/model_config.h"
#include "model/files/mapped_file.h"
#include "model/tokenizer/tokenizer.h"

namespace hydrant {

struct CheckpointParts {
  std::vector<std::unique_ptr<MappedFile>> files;  // outlive `tensors`
  ModelConfig config;
  TensorTable tensors;
  std::shared_ptr<const Tokenizer> tokenizer;
  Checkpoint::GenerationDefaults generation_defaults;
  std::string chat_template, tool_use_template;
  std::string bos_token, eos_token;
  std::vector<std::string> warnings;
};

absl::StatusOr<CheckpointParts> ReadGgufCheckpoint(const std::string& path);
// A Hugging Face model directory.
absl::StatusOr<CheckpointParts> ReadDirectoryCheckpoint(const std::string& path);

}  // namespace hydrant

#endif  // HYDRANT_MODEL_CHECKPOINT_CHECKPOINT_PARTS_H_
