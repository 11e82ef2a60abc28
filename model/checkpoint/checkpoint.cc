#include "model/checkpoint/checkpoint.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "model/checkpoint/checkpoint_parts.h"
#include "model/files/file_error.h"
#include "model/tokenizer/tokenizer.h"

namespace hydrant {
namespace {

class LoadedCheckpoint final : public Checkpoint {
 public:
  explicit LoadedCheckpoint(CheckpointParts parts) : parts_(std::move(parts)) {}

  const ModelConfig& config() const override { return parts_.config; }
  const TensorSource* Find(TensorRole role, int32_t layer) const override { return parts_.tensors.Find(role, layer); }
  const Tokenizer& tokenizer() const override { return *parts_.tokenizer; }
  std::shared_ptr<const Tokenizer> shared_tokenizer() const override { return parts_.tokenizer; }
  const GenerationDefaults& generation_defaults() const override { return parts_.generation_defaults; }
  const std::string& chat_template() const override { return parts_.chat_template; }
  const std::string& tool_use_template() const override { return parts_.tool_use_template; }
  const std::string& bos_token() const override { return parts_.bos_token; }
  const std::string& eos_token() const override { return parts_.eos_token; }
  const std::vector<std::string>& warnings() const override { return parts_.warnings; }
  std::vector<std::string> NonFiniteTensors() const override { return parts_.tensors.NonFinite(); }

 private:
  CheckpointParts parts_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::Open(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return FileError(path, "", std::strerror(errno));
  absl::StatusOr<CheckpointParts> parts =
      S_ISDIR(info.st_mode) ? ReadDirectoryCheckpoint(path) : ReadGgufCheckpoint(path);
  if (!parts.ok()) return parts.status();
  // Where no file spells them, they are what the ids of the configuration are.
  const ModelConfig& config = parts->config;
  if (parts->bos_token.empty() && config.bos_id >= 0) parts->bos_token = parts->tokenizer->TokenPiece(config.bos_id);
  if (parts->eos_token.empty() && !config.eos_ids.empty()) {
    parts->eos_token = parts->tokenizer->TokenPiece(config.eos_ids.front());
  }
  return std::make_unique<LoadedCheckpoint>(*std::move(parts));
}

}  // namespace hydrant
