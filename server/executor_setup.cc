#include "server/executor_setup.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "server/process/log.h"

namespace hydrant {
namespace {

// The image of the weights, named after the model's file or folder.
std::string ImagePath(const Config& config) {
  std::string model = config.model_path;
  while (model.size() > 1 && model.back() == '/') model.pop_back();
  constexpr const char* kSuffix = ".hydrant-image";
  if (config.weights_image_dir.empty()) return model + kSuffix;
  return absl::StrCat(config.weights_image_dir, "/", model.substr(model.find_last_of('/') + 1), kSuffix);
}

}  // namespace

ModelExecutorOptions ExecutorOptionsOf(const Config& config, const Sizing& sizing) {
  ModelExecutorOptions options;
  options.weights = sizing.weights;
  if (sizing.stream_bytes > 0) options.stream = {sizing.stream_bytes, ImagePath(config)};
  options.kv_type = sizing.kv_type;
  options.blocks = sizing.limits.blocks + sizing.replay_blocks;
  options.spare_score_blocks = sizing.limits.spare_score_blocks;
  options.sequences_max = sizing.limits.sequences_max;
  options.batch_tokens_max = sizing.limits.batch_tokens_max;
  options.drafts_max = sizing.drafts_max;
  options.logits_rows_max = sizing.logits_rows_max;
  options.context_max = sizing.limits.context_max;
  options.swap_blocks = sizing.limits.swap_blocks;
  options.adapters = sizing.adapters;
  return options;
}

absl::StatusOr<std::unique_ptr<ModelExecutor>> CreateExecutor(const Checkpoint& checkpoint, Device& device,
                                                              const ModelExecutorOptions& options) {
  absl::StatusOr<std::unique_ptr<ModelExecutor>> executor = ModelExecutor::Create(checkpoint, device, options);
  if (options.stream.memory_bytes == 0) return executor;
  if (!executor.ok()) {
    return absl::Status(executor.status().code(), absl::StrCat("--weights-memory ", options.stream.memory_bytes, ": ",
                                                               std::string(executor.status().message())));
  }
  const LogField fields[] = {{"file", options.stream.image},
                             {"memory_bytes", options.stream.memory_bytes},
                             {"pass_bytes", (*executor)->WeightReads().pass_bytes}};
  Log(LogLevel::kInfo, "weights are streamed: every step reads what is not in memory", fields);
  return executor;
}

}  // namespace hydrant
