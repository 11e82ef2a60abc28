#include "server/process/secret_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace hydrant {
namespace {

bool SameFile(const struct stat& a, const struct stat& b) {
  return a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

// The text of an open file.
absl::StatusOr<std::string> ReadOpen(int fd, const std::string& path, int64_t bytes_max) {
  struct stat before {};
  if (fstat(fd, &before) != 0) return FileError(path, std::strerror(errno));
  if (!S_ISREG(before.st_mode)) return FileError(path, "is not a regular file");
  if (const std::string wrong = WrongMode(before.st_mode, before.st_uid == geteuid()); !wrong.empty()) {
    return FileError(path, wrong);
  }
  if (before.st_size > bytes_max) return FileError(path, absl::StrCat("is larger than ", bytes_max, " bytes"));
  std::string text(static_cast<size_t>(before.st_size) + 1, '\0');  // one byte more shows a file that grows
  size_t used = 0;
  while (used < text.size()) {
    const ssize_t got = read(fd, text.data() + used, text.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(path, std::strerror(errno));
    if (got == 0) break;
    used += static_cast<size_t>(got);
  }
  struct stat after {};
  if (used == text.size() || fstat(fd, &after) != 0 || !SameFile(before, after)) {
    return FileError(path, "changes while it is read");
  }
  text.resize(used);
  return text;
}

}  // namespace

absl::Status FileError(const std::string& path, const std::string& what) {
  return absl::FailedPreconditionError(absl::StrCat(path, ": ", what));
}

std::string WrongMode(mode_t mode, bool ours) {
  if ((mode & 07) != 0) {
    return "may be read by others than its owner; run chmod 600 on it (a Kubernetes Secret: defaultMode: 0440)";
  }
  if (ours && (mode & 070) != 0) return "may be read by others than its owner; run chmod 600 on it";
  if ((mode & 020) != 0) return "may be written by its group; run chmod 640 on it";
  return "";
}

absl::StatusOr<std::string> ReadSecretFile(const std::string& path, int64_t bytes_max) {
  // Not blocking: a FIFO is refused, not waited for.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return FileError(path, std::strerror(errno));
  absl::StatusOr<std::string> text = ReadOpen(fd, path, bytes_max);
  close(fd);
  return text;
}

}  // namespace hydrant
