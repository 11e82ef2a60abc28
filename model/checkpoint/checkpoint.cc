#include "model/checkpoint/checkpoint.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "model/files/file_error.h"

namespace hydrant {

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::Open(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return FileError(path, "", std::strerror(errno));
  HYDRANT_ASSIGN_OR_RETURN(std::unique_ptr<Checkpoint> opened,
                           S_ISDIR(info.st_mode) ? ReadDirectoryCheckpoint(path) : ReadGgufCheckpoint(path));
  // Where no file spells them, they are what the ids of the configuration are.
  const ModelConfig& config = opened->config;
  if (opened->bos_token.empty() && config.bos_id >= 0) opened->bos_token = opened->tokenizer->TokenPiece(config.bos_id);
  if (opened->eos_token.empty() && !config.eos_ids.empty()) {
    opened->eos_token = opened->tokenizer->TokenPiece(config.eos_ids.front());
  }
  return opened;
}

}  // namespace hydrant
