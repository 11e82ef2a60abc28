// Checkpoint is an opened model on disk, validated in full: config, tensor table and tokenizer, from a Hugging Face
// directory or one .gguf file. Nothing after it knows which it was.
//
// Thread: any (nobody changes it after Open). Tensor data is mapped; rows may be read from several threads at once.
#ifndef HYDRANT_MODEL_CHECKPOINT_CHECKPOINT_H_
#define HYDRANT_MODEL_CHECKPOINT_CHECKPOINT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/checkpoint/quantization.h"
#include "model/checkpoint/tensor_table.h"
#include "model/config/model_config.h"
#include "model/files/mapped_file.h"
#include "model/tokenizer/tokenizer.h"

namespace hydrant {

// What generation_config.json says of requests that do not, in its own words.
struct GenerationDefaults {
  double temperature = -1, top_p = -1, min_p = -1, repetition_penalty = -1;  // -1: unset
  int32_t top_k = -1;                                                        // -1: unset
  int32_t max_new_tokens = -1;                                               // -1: unset
};

struct Checkpoint {
  // Errors are one line that names the file and the field: "model.safetensors: tensor 'x': …".
  static absl::StatusOr<std::unique_ptr<Checkpoint>> Open(const std::string& path);

  std::vector<std::unique_ptr<MappedFile>> files;  // what `tensors` point into
  ModelConfig config;
  TensorTable tensors;
  Quantization quantization = Quantization::kNone;  // what the files have
  // Shared so that it may outlive the checkpoint, whose mappings are dropped once weights are packed.
  std::shared_ptr<const Tokenizer> tokenizer;
  GenerationDefaults generation_defaults;
  std::string chat_template;      // empty when there is none
  std::string tool_use_template;  // for conversations with tools; empty when chat_template is for these, too
  // What chat templates call bos_token and eos_token: texts, empty where the model has none.
  std::string bos_token, eos_token;
  std::vector<std::string> warnings;  // things worth a log line: extra tensors, ignored fields
};

// The readers of the two formats, which Open chooses from and completes: bos_token and eos_token are empty where no file spells
// them.
absl::StatusOr<std::unique_ptr<Checkpoint>> ReadGgufCheckpoint(const std::string& path);
absl::StatusOr<std::unique_ptr<Checkpoint>> ReadDirectoryCheckpoint(const std::string& path);

// Whether the config.json (and generation_config.json) of a directory can be served: what is asked before weights are fetched.
absl::Status CheckDirectoryConfig(const std::string& path);

}  // namespace hydrant

#endif  // HYDRANT_MODEL_CHECKPOINT_CHECKPOINT_H_
