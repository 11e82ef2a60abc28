// Reads a file of secrets: keys, or what is known of them.
//
// Thread: any.
#ifndef HYDRANT_SERVER_PROCESS_SECRET_FILE_H_
#define HYDRANT_SERVER_PROCESS_SECRET_FILE_H_

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace hydrant {

// The error of a file: FAILED_PRECONDITION, "PATH: what".
absl::Status FileError(const std::string& path, const std::string& what);

// What is wrong with who may read the file, or nothing. Others may never, and nobody but its owner may write. The group of a file
// that is `ours` may not read either; that of somebody else's file may, because it is what lets us: a Kubernetes Secret under
// fsGroup and a systemd credential are root's and 0440.
std::string WrongMode(mode_t mode, bool ours);

// The text of a regular file whose mode is right, the one that `path` leads to at this moment: a mount that is replaced by a symbolic
// link (..data) is read as a whole from before or from after. Errors: FileError's, also for a file of more than `bytes_max` and for one
// that is written to meanwhile.
absl::StatusOr<std::string> ReadSecretFile(const std::string& path, int64_t bytes_max);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_PROCESS_SECRET_FILE_H_
