#include "server/sessions/journal/session_directory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/process/random_id.h"
#include "server/process/sha256.h"

namespace hydrant {
namespace {

constexpr std::string_view kPlainFormat = "hydrant-sessions 1.0 ";
// Another major version: one that knows of no keys would take every record for damage, and give its room back.
constexpr std::string_view kSealedFormat = "hydrant-sessions 2.0 ";
constexpr size_t kSecretBytes = 64;  // hexadecimal digits: 256 bits
constexpr std::string_view kKeysFormat = "hydrant-keys 1\n";
constexpr size_t kSmallBytes = 512;  // of a file that is read as a whole, more than it has

absl::Status Wrong(const std::string& path, std::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat("--session-dir: ", path, ": ", std::string(what)));
}
absl::Status WrongCall(const std::string& path, int error) { return Wrong(path, std::strerror(error)); }

// An open directory that is ours alone. -1: `*wrong` says why not.
int OpenOwn(int parent, const std::string& name, const std::string& path, absl::Status* wrong) {
  if (mkdirat(parent, name.c_str(), 0700) != 0 && errno != EEXIST) {
    *wrong = WrongCall(path, errno);
    return -1;
  }
  const int fd = openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) {
    *wrong = errno == ELOOP || errno == ENOTDIR ? Wrong(path, "is not a directory, or is a link to one")
                                                : WrongCall(path, errno);
    return -1;
  }
  struct stat status {};
  if (fstat(fd, &status) != 0) {
    *wrong = WrongCall(path, errno);
  } else if (status.st_uid != geteuid()) {
    // The root of a volume that was mounted is most often root's.
    *wrong = Wrong(path, absl::StrCat("belongs to user ", status.st_uid, ", and this process is user ", geteuid(),
                                      "; name a folder in it, which is made then, or run chown on it"));
  } else if ((status.st_mode & 077) != 0) {
    *wrong = Wrong(path, "may be entered by others than its owner; run chmod 700 on it");
  } else {
    return fd;
  }
  close(fd);
  return -1;
}

// What the lock's file says of its owner, for a message.
std::string ReadSmall(int fd) {
  std::array<char, kSmallBytes> bytes{};
  const ssize_t got = pread(fd, bytes.data(), bytes.size(), 0);
  return {bytes.data(), got > 0 ? static_cast<size_t>(got) : 0};
}

// Takes the lock, or says who has it. It goes with the process, however that ends. Returns the file's descriptor, or -1.
int TakeLock(int directory, const std::string& path, absl::Status* wrong) {
  const int fd = openat(directory, "LOCK", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) {
    *wrong = WrongCall(path + "/LOCK", errno);
    return -1;
  }
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (fcntl(fd, F_OFD_SETLK, &whole) != 0) {
    *wrong = errno == EAGAIN || errno == EACCES ? Wrong(path, absl::StrCat("is in use by ", ReadSmall(fd)))
                                                : WrongCall(path + "/LOCK", errno);
    close(fd);
    return -1;
  }
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  const std::string owner = absl::StrCat("process ", getpid(), " on host ", std::string(host.data()));
  // Only for the words above: that it is not written is no reason not to start.
  if (ftruncate(fd, 0) == 0) (void)!pwrite(fd, owner.data(), owner.size(), 0);
  return fd;
}

// A small file that was written once and whole; `make` says what is in it when there is none.
absl::StatusOr<std::string> ReadOrMake(LogDirectory& directory, const std::string& name, const std::string& path,
                                       const std::string& make) {
  int fd = directory.Open(name);
  if (fd == -ENOENT) {
    if (const int error = WriteWhole(directory, name, make); error < 0) return WrongCall(path + "/" + name, -error);
    fd = directory.Open(name);
  }
  if (fd == -EPERM) return Wrong(path + "/" + name, "is not a file that its owner alone may read, by this name alone");
  if (fd < 0) return WrongCall(path + "/" + name, -fd);
  std::string text(kSmallBytes, '\0');
  const int64_t got = ReadAll(directory, fd, text.data(), text.size(), 0);
  directory.Close(fd);
  if (got < 0) return WrongCall(path + "/" + name, static_cast<int>(-got));
  text.resize(static_cast<size_t>(got));
  return text;
}

std::string RandomHex(size_t digits) {
  std::string hex;
  while (hex.size() < digits) hex += RandomId();
  hex.resize(digits);
  return hex;
}

}  // namespace

std::string_view WrongFileSystem(int64_t type) {
  if (type == NFS_SUPER_MAGIC) return "is on NFS, where neither locks nor syncs are what they are on a local disk";
  if (type == OVERLAYFS_SUPER_MAGIC) {
    return "is in a container's own layer (overlayfs), which goes with the container: mount a volume there";
  }
  return "";
}

// A wrong key is found here, by name, and not by every session being unreadable.
absl::Status SessionDirectory::CheckKeys(LogDirectory& files, const std::string& path, const SessionKeys* keys) {
  std::string text;
  int fd = files.Open("keys");
  if (fd >= 0) {
    text.resize(kSmallBytes);
    const int64_t got = ReadAll(files, fd, text.data(), text.size(), 0);
    files.Close(fd);
    if (got < 0) return WrongCall(path + "/keys", static_cast<int>(-got));
    text.resize(static_cast<size_t>(got));
    if (!text.starts_with(kKeysFormat)) return Wrong(path + "/keys", "is not what was written");
  } else if (fd != -ENOENT) {
    return WrongCall(path + "/keys", -fd);
  }
  std::vector<std::string> listed;
  for (std::string_view rest = text.empty() ? "" : std::string_view(text).substr(kKeysFormat.size()); !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    listed.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (keys == nullptr) {
    if (listed.empty()) return absl::OkStatus();
    return Wrong(path, absl::StrCat("is encrypted with key ", listed.front(), ": --session-key-file is needed"));
  }
  if (text.empty()) {
    fd = files.Open("FORMAT");
    if (fd >= 0) files.Close(fd);
    if (fd != -ENOENT) {
      return Wrong(path,
                   "was begun without --session-key-file, and what is in it is not encrypted: begin with another "
                   "directory, and move the sessions (hydrantd sessions export, import)");
    }
  }
  std::vector<std::string> known;
  for (const SessionKeys::Id& id : keys->ids()) known.push_back(SessionKeys::NameOf(id));
  for (const std::string& each : listed) {
    if (std::find(known.begin(), known.end(), each) != known.end()) continue;
    return Wrong(path, absl::StrCat("is encrypted with key ", each, ", which is not in --session-key-file"));
  }
  own_key_ = absl::StrCat(std::string(kKeysFormat), known.front(), "\n");
  std::string all = own_key_;
  for (const std::string& each : listed) {
    if (each == known.front()) continue;
    has_old_keys_ = true;
    absl::StrAppend(&all, each, "\n");
  }
  if (all == text) return absl::OkStatus();
  const int error = WriteWhole(files, "keys", all);
  return error == 0 ? absl::OkStatus() : WrongCall(path + "/keys", -error);
}

int SessionDirectory::ForgetOldKeys() {
  const int copy = dup(fd_);
  if (copy < 0) return -errno;
  const int error = WriteWhole(*DiskDirectory(copy), "keys", own_key_);
  if (error == 0) has_old_keys_ = false;
  return error;
}

absl::StatusOr<std::unique_ptr<SessionDirectory>> SessionDirectory::Open(const std::string& path_in,
                                                                         bool any_file_system,
                                                                         const SessionKeys* keys) {
  std::string path = path_in;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  std::unique_ptr<SessionDirectory> directory(new SessionDirectory());
  absl::Status wrong;
  directory->fd_ = OpenOwn(AT_FDCWD, path, path, &wrong);
  if (directory->fd_ < 0) return wrong;
  struct statfs system {};
  if (!any_file_system && fstatfs(directory->fd_, &system) == 0) {
    const std::string_view wrong_system = WrongFileSystem(static_cast<int64_t>(system.f_type));
    if (!wrong_system.empty())
      return Wrong(path, absl::StrCat(std::string(wrong_system), " (--session-dir-unsafe insists)"));
  }
  directory->lock_fd_ = TakeLock(directory->fd_, path, &wrong);
  if (directory->lock_fd_ < 0) return wrong;
  const std::unique_ptr<LogDirectory> files = DiskDirectory(dup(directory->fd_));
  if (absl::Status status = directory->CheckKeys(*files, path, keys); !status.ok()) return status;
  const std::string_view own_format = keys == nullptr ? kPlainFormat : kSealedFormat;
  absl::StatusOr<std::string> format =
      ReadOrMake(*files, "FORMAT", path, absl::StrCat(std::string(own_format), RandomHex(32), "\n"));
  if (!format.ok()) return format.status();
  // The minor version may be another one: what it adds can be told from what must be understood.
  if (!format->starts_with(own_format.substr(0, own_format.find('.') + 1)) || format->size() < own_format.size() + 32) {
    return Wrong(path, absl::StrCat("FORMAT is \"", format->substr(0, format->find('\n')), "\"; this version reads \"",
                                    std::string(own_format.substr(0, own_format.size() - 1)), "\""));
  }
  const Sha256Digest id = Sha256(*format);
  std::copy_n(id.begin(), directory->id_.size(), directory->id_.begin());
  absl::StatusOr<std::string> secret = ReadOrMake(*files, "secret", path, RandomHex(kSecretBytes));
  if (!secret.ok()) return secret.status();
  if (secret->size() != kSecretBytes) return Wrong(path + "/secret", "is not what was written");
  // A bit of either would make every session a stranger's, and new ones would be written beside them.
  const Sha256Digest both = Sha256(*format + *secret);
  const std::string digits = absl::BytesToHexString({reinterpret_cast<const char*>(both.data()), both.size() / 2});
  absl::StatusOr<std::string> check = ReadOrMake(*files, "check", path, digits);
  if (!check.ok()) return check.status();
  if (*check != digits) {
    return Wrong(path,
                 "FORMAT and secret are not what was written, or not of this directory, as check tells: put back what "
                 "they were");
  }
  directory->secret_ = *std::move(secret);
  const int log = OpenOwn(directory->fd_, "log", path + "/log", &wrong);
  if (log < 0) return wrong;
  directory->log_ = DiskDirectory(log);
  const int kv = OpenOwn(directory->fd_, "kv", path + "/kv", &wrong);
  if (kv < 0) return wrong;
  directory->kv_ = DiskDirectory(kv);
  if (fsync(directory->fd_) != 0) return WrongCall(path, errno);
  return directory;
}

SessionDirectory::~SessionDirectory() {
  for (const int fd : {lock_fd_, fd_}) {
    if (fd >= 0) close(fd);
  }
}

SessionName SessionDirectory::NameOf(std::string_view tenant, std::string_view session) const {
  std::string what(tenant);
  what.push_back('\0');
  what.append(session);
  const Sha256Digest digest = HmacSha256(secret_, what);
  SessionName name{};
  std::copy_n(digest.begin(), name.size(), name.begin());
  return name;
}

}  // namespace hydrant
