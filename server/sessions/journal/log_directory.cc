#include "server/sessions/journal/log_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "absl/strings/str_cat.h"

namespace hydrant {
namespace {

int Or(int result) { return result < 0 ? -errno : result; }

class Disk : public LogDirectory {
 public:
  explicit Disk(int fd) : fd_(fd) {}
  ~Disk() override { close(fd_); }

  int Create(const std::string& name) override {
    const int fd = openat(fd_, name.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return -errno;
    // Whatever the umask is: before anything is in it.
    if (fchmod(fd, 0600) != 0) {
      const int error = errno;
      close(fd);
      return -error;
    }
    return fd;
  }
  int Open(const std::string& name) override {
    // Not blocking: a FIFO is refused, not waited for.
    const int fd = openat(fd_, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return -errno;
    struct stat status {};
    if (fstat(fd, &status) != 0) {
      const int error = errno;
      close(fd);
      return -error;
    }
    // Somebody else's file, or one that has a second name where others may read it, is none of ours.
    const bool ours =
        S_ISREG(status.st_mode) && status.st_uid == geteuid() && status.st_nlink == 1 && (status.st_mode & 077) == 0;
    if (ours) return fd;
    close(fd);
    return -EPERM;
  }
  int64_t Write(int fd, std::string_view bytes) override {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    return written < 0 ? -errno : written;
  }
  int64_t ReadAt(int fd, char* out, size_t bytes, int64_t offset) override {
    const ssize_t got = pread(fd, out, bytes, offset);
    return got < 0 ? -errno : got;
  }
  int64_t Size(int fd) override {
    struct stat status {};
    return fstat(fd, &status) != 0 ? -errno : status.st_size;
  }
  int Sync(int fd) override {
    if (fdatasync(fd) != 0) return -errno;
    // A file that has no name any more takes everything, and no start will find it: somebody has removed the directory.
    struct stat status {};
    if (fstat(fd, &status) != 0) return -errno;
    return status.st_nlink == 0 ? -ENOENT : 0;
  }
  void DropCached(int fd) override { (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); }
  int Truncate(int fd, int64_t size) override { return Or(ftruncate(fd, size)); }
  void Close(int fd) override { close(fd); }
  void Uncache(int fd) override { (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); }
  int Rename(const std::string& from, const std::string& to) override {
    return Or(renameat(fd_, from.c_str(), fd_, to.c_str()));
  }
  int Remove(const std::string& name) override { return Or(unlinkat(fd_, name.c_str(), 0)); }
  int SyncNames() override { return Or(fsync(fd_)); }
  int List(std::vector<std::string>* names) override {
    const int copy = openat(fd_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (copy < 0) return -errno;
    DIR* const entries = fdopendir(copy);
    if (entries == nullptr) {
      const int error = errno;
      close(copy);
      return -error;
    }
    errno = 0;
    while (const dirent* entry = readdir(entries)) names->emplace_back(entry->d_name);
    const int error = errno;
    closedir(entries);
    return -error;
  }
  int64_t FreeBytes() override {
    struct statvfs status {};
    if (fstatvfs(fd_, &status) != 0) return -errno;
    if (status.f_blocks == 0) return -ENOTSUP;  // ramfs, and whoever else does not say
    const auto bytes = static_cast<double>(status.f_bavail) * static_cast<double>(status.f_frsize);
    return static_cast<int64_t>(std::min(bytes, 0x1p62));  // a volume may say that it has no end
  }

 private:
  const int fd_;
};

}  // namespace

std::string LogFileName(uint32_t number, std::string_view suffix) {
  std::string name = absl::StrCat(number);
  if (name.size() < 6) name.insert(0, 6 - name.size(), '0');
  return name.append(suffix);
}

std::optional<uint32_t> LogFileNumber(std::string_view name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return std::nullopt;
  name.remove_suffix(suffix.size());
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size() || number == 0) return std::nullopt;
  return number;
}

int WriteAll(LogDirectory& directory, int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const int64_t written = directory.Write(fd, bytes);
    if (written == -EINTR) continue;
    if (written < 0) return static_cast<int>(written);
    if (written == 0) return -EIO;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

int64_t ReadAll(LogDirectory& directory, int fd, char* out, size_t bytes, int64_t offset) {
  size_t have = 0;
  while (have < bytes) {
    const int64_t got = directory.ReadAt(fd, out + have, bytes - have, offset + static_cast<int64_t>(have));
    if (got == -EINTR) continue;
    if (got < 0) return got;
    if (got == 0) break;
    have += static_cast<size_t>(got);
  }
  return static_cast<int64_t>(have);
}

int WriteWhole(LogDirectory& directory, const std::string& name, std::string_view bytes) {
  const std::string unfinished = name + ".tmp";
  directory.Remove(unfinished);  // of a process that did not come further
  const int fd = directory.Create(unfinished);
  if (fd < 0) return fd;
  int error = WriteAll(directory, fd, bytes);
  if (error == 0) error = directory.Sync(fd);
  directory.Close(fd);
  if (error == 0) error = directory.Rename(unfinished, name);
  if (error == 0) error = directory.SyncNames();
  return error;
}

std::unique_ptr<LogDirectory> DiskDirectory(int fd) { return std::make_unique<Disk>(fd); }

}  // namespace hydrant
