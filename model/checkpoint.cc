#include "model/checkpoint.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "model/checkpoint_parts.h"
#include "model/file_error.h"

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
  return std::make_unique<LoadedCheckpoint>(*std::move(parts));
}

}  // namespace hydrant
