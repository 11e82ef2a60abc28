#include "model/files/mapped_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <mutex>
#include <utility>

#include "model/files/file_error.h"
#include "model/text/str_cat.h"

namespace hydrant {
namespace {

// --- SIGBUS -------------------------------------------------------------------------------------------------------------

// What the signal handler may look at: a fixed table, because a handler can neither lock nor allocate. The largest
// checkpoints have some 200 shards.
constexpr int kRegionsMax = 1024;
struct Region {
  std::atomic<uintptr_t> begin{0};  // 0: free. Stored last and with release, so a handler that sees it sees the rest.
  std::atomic<uintptr_t> end{0};
  char name[128] = {};
};
Region regions[kRegionsMax];

std::mutex regions_mutex;  // guards the two below and who owns which entry
int regions_used = 0;
struct sigaction previous_action;

void WriteAll(const char* text) {
  // Best effort: the process is about to end and there is nobody left to tell.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, strlen(text));
}

void OnSigbus(int, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (const Region& region : regions) {
    const uintptr_t begin = region.begin.load(std::memory_order_acquire);
    if (begin == 0 || address < begin || address >= region.end.load(std::memory_order_relaxed)) continue;
    WriteAll("hydrantd: ");
    WriteAll(region.name);
    WriteAll(": the file was cut short, or its disk failed, while it was being read\n");
    _exit(kExitBadModelFile);
  }
  // Not ours: put back what was there and let the instruction fault again.
  sigaction(SIGBUS, &previous_action, nullptr);
}

int AddRegion(std::string_view bytes, const std::string& name) {
  const std::lock_guard lock(regions_mutex);
  for (int i = 0; i < kRegionsMax; ++i) {
    Region& region = regions[i];
    if (region.begin.load(std::memory_order_relaxed) != 0) continue;
    const size_t length = std::min(name.size(), sizeof(region.name) - 1);
    std::memcpy(region.name, name.data(), length);
    region.name[length] = '\0';
    const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
    region.end.store(begin + bytes.size(), std::memory_order_relaxed);
    region.begin.store(begin, std::memory_order_release);
    if (regions_used++ == 0) {
      struct sigaction action = {};
      action.sa_sigaction = OnSigbus;
      action.sa_flags = SA_SIGINFO;
      sigemptyset(&action.sa_mask);
      sigaction(SIGBUS, &action, &previous_action);
    }
    return i;
  }
  return -1;
}

// Whether all of `bytes` lies in a mapped file.
bool IsMapped(std::string_view bytes) {
  const std::lock_guard lock(regions_mutex);
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  return std::any_of(std::begin(regions), std::end(regions), [&](const Region& region) {
    const uintptr_t region_begin = region.begin.load(std::memory_order_relaxed);
    return region_begin != 0 && region_begin <= begin &&
           begin + bytes.size() <= region.end.load(std::memory_order_relaxed);
  });
}

// What the system maps at once, in bytes.
uintptr_t MemoryUnit() {
  static const auto unit = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  return unit;
}

void RemoveRegion(int index) {
  const std::lock_guard lock(regions_mutex);
  regions[index].begin.store(0, std::memory_order_release);
  assert(regions_used > 0);
  if (--regions_used == 0) sigaction(SIGBUS, &previous_action, nullptr);
}

// --- opening ------------------------------------------------------------------------------------------------------------

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

absl::Status OpenError(std::string_view name, int error) {
  if (error == ENOENT) return absl::NotFoundError(StrCat(name, ": no such file"));
  if (error == ELOOP)
    return FileError(name, "", "is a symbolic link; a model directory must hold the files themselves");
  return FileError(name, "", "cannot be opened: ", std::strerror(error));
}

// Bytes of the regular file behind `fd`.
absl::StatusOr<size_t> RegularFileBytes(int fd, std::string_view name) {
  struct stat info;
  if (fstat(fd, &info) != 0) return FileError(name, "", "cannot be examined: ", std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return FileError(name, "", "is not a regular file");
  return static_cast<size_t>(info.st_size);
}

// O_NONBLOCK: opening a pipe must not wait for its writer; it has no effect on regular files.
constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

// The cache of a Hugging Face hub has the files of a model in `blobs`, by the hash of each, and in the model's directory links
// to them. No other link is followed: a model that somebody sent must not read what it was not sent with.
constexpr std::string_view kBlobs = "../../blobs/";

// Opens the file of the hub's cache that the link `name` leads to. Fails with ELOOP where the link leads elsewhere.
int OpenBlob(int directory, const std::string& name, int flags) {
  std::array<char, 256> target;
  const ssize_t bytes = readlinkat(directory, name.c_str(), target.data(), target.size());
  const std::string_view text(target.data(), bytes < 0 ? 0 : static_cast<size_t>(bytes));
  if (!text.starts_with(kBlobs) || text.size() == target.size() ||
      !WeightDirectory::IsPlainName(text.substr(kBlobs.size()))) {
    errno = ELOOP;
    return -1;
  }
  return openat(directory, std::string(text).c_str(), flags);
}

absl::StatusOr<int> OpenInside(int directory, std::string_view name, int more_flags = 0) {
  if (!WeightDirectory::IsPlainName(name))
    return FileError(Quoted(name), "", "is not a plain file name; files must lie in the model directory");
  const int flags = kOpenFlags | O_NOFOLLOW | more_flags;
  int fd = openat(directory, std::string(name).c_str(), flags);
  if (fd < 0 && errno == ELOOP) fd = OpenBlob(directory, std::string(name), flags);
  if (fd < 0) return OpenError(name, errno);
  return fd;
}

}  // namespace

MappedFile::MappedFile(std::string name, std::string_view bytes, int region)
    : name_(std::move(name)), bytes_(bytes), region_(region) {}

MappedFile::~MappedFile() {
  if (region_ < 0) return;
  RemoveRegion(region_);
  munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

absl::StatusOr<std::unique_ptr<MappedFile>> MappedFile::Open(const std::string& path) {
  const std::string name = path.substr(path.find_last_of('/') + 1);
  const FileDescriptor fd(open(path.c_str(), kOpenFlags));
  if (fd.get() < 0) return OpenError(path, errno);
  return Map(fd.get(), name);
}

absl::StatusOr<std::unique_ptr<MappedFile>> MappedFile::Map(int fd, std::string name) {
  HYDRANT_ASSIGN_OR_RETURN(const size_t size, RegularFileBytes(fd, name));
  if (size == 0) return std::unique_ptr<MappedFile>(new MappedFile(std::move(name), {}, -1));
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) return FileError(name, "", "cannot be mapped: ", std::strerror(errno));
  const std::string_view bytes(static_cast<const char*>(data), size);
  const int region = AddRegion(bytes, name);
  if (region < 0) {
    munmap(data, size);
    return FileError(name, "", "more than ", kRegionsMax, " files are open at once");
  }
  auto file = std::unique_ptr<MappedFile>(new MappedFile(std::move(name), bytes, region));
  if (struct stat info; fstat(fd, &info) == 0) {
    file->modified_ns_ = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
  }
  return file;
}

void ReadAhead(std::string_view bytes) {
  if (!IsMapped(bytes)) return;
  const auto address = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t begin = address / MemoryUnit() * MemoryUnit();
  // A hint, so its result does not matter.
  madvise(reinterpret_cast<void*>(begin), address + bytes.size() - begin, MADV_WILLNEED);
}

void ReturnMemory(std::string_view bytes) {
  if (!IsMapped(bytes)) return;  // memory of another kind would lose what it holds
  const auto address = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t begin = (address + MemoryUnit() - 1) / MemoryUnit() * MemoryUnit();
  const uintptr_t end = (address + bytes.size()) / MemoryUnit() * MemoryUnit();
  // The result does not matter: what stays costs its memory until the file is closed.
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

bool WeightDirectory::IsPlainName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == name.npos && name.find('\0') == name.npos;
}

absl::StatusOr<WeightDirectory> WeightDirectory::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY);
  if (fd < 0) return OpenError(path, errno);
  return WeightDirectory(fd);
}

WeightDirectory::WeightDirectory(WeightDirectory&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

WeightDirectory::~WeightDirectory() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<std::unique_ptr<MappedFile>> WeightDirectory::Map(std::string_view name) const {
  HYDRANT_ASSIGN_OR_RETURN(const int opened, OpenInside(fd_, name));
  const FileDescriptor fd(opened);
  return MappedFile::Map(fd.get(), std::string(name));
}

absl::StatusOr<std::string> WeightDirectory::Read(std::string_view name, size_t bytes_max) const {
  HYDRANT_ASSIGN_OR_RETURN(const int opened, OpenInside(fd_, name));
  const FileDescriptor fd(opened);
  HYDRANT_ASSIGN_OR_RETURN(const size_t size, RegularFileBytes(fd.get(), name));
  if (size > bytes_max) return FileError(name, "", "has ", size, " bytes; at most ", bytes_max, " are read");
  std::string text(size, '\0');
  size_t done = 0;
  while (done < size) {
    const ssize_t got = read(fd.get(), text.data() + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(name, "", "cannot be read: ", std::strerror(errno));
    if (got == 0) break;  // cut short meanwhile: what is left will not parse
    done += static_cast<size_t>(got);
  }
  text.resize(done);
  return text;
}

bool WeightDirectory::Contains(std::string_view name) const {
  return IsPlainName(name) && faccessat(fd_, std::string(name).c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

absl::StatusOr<WeightDirectory> WeightDirectory::Inner(std::string_view name) const {
  HYDRANT_ASSIGN_OR_RETURN(const int fd, OpenInside(fd_, name, O_DIRECTORY));
  return WeightDirectory(fd);
}

}  // namespace hydrant
