#include "model/checkpoint_parts.h"
#include "model/file_error.h"

namespace hydrant {

absl::StatusOr<CheckpointParts> ReadDirectoryCheckpoint(const std::string& path) {
  return FileError(path, "", "model directories are not supported yet");
}

}  // namespace hydrant
