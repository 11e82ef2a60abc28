// A library for LD_PRELOAD: of the calls that a program makes on files below one directory it has some fail, come to less than was
// asked for, or end the process; and that as if power were lost: what was appended to a file and not synced is cut off, and files
// whose names were not synced are gone. fault_test.py says which, and reads how many there were, in a file that both have mapped.
//
//   HYDRANT_FAULT_DIRECTORY  absolute path
//   HYDRANT_FAULT_CONTROL    the file: a Control
//
// Calls that libc makes for itself are not seen: nobody here uses stdio on a file of sessions.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

// What is defined here has its declaration in libc's headers, which say that some arguments are never null.
#pragma GCC diagnostic ignored "-Wnonnull-compare"
#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

enum class Action : int64_t { kFail, kShort, kKillBefore, kKillAfter, kLosePower };

// fault_test.py has the same offsets.
struct Control {
  std::atomic<int64_t> calls;  // counted so far
  std::atomic<int64_t> first;  // the calls from this one …
  std::atomic<int64_t> count;  // … that meet the fault; 0: none
  std::atomic<Action> action;
  std::atomic<int64_t> error;         // errno
  std::atomic<int64_t> changes_only;  // 1: only calls that change something are counted, and no others fail
  std::atomic<int64_t> hits;          // met the fault
  std::atomic<int64_t> clock_s;       // added to the wall clock
  // That a pread of more than a header, and opening a KV file, take longer; a shorter time ends those that wait.
  std::atomic<int64_t> slow_us;
  std::atomic<int64_t> slow_open_us;
  char hit[192];  // the last one, in words
};

constexpr size_t kFilesMax = 4096;
// Long enough for whoever was told too early to have heard it when the process ends.
constexpr useconds_t kBeforeTheEndUs = 30'000;

// A file below the directory that is open.
struct File {
  bool ours = false;
  bool appends = false;
  bool poisoned = false;  // a sync of it has failed: later ones say that all is well, and write nothing
  off_t synced = 0;       // bytes of it that power may be lost after
};
struct Name {
  int parent = -1;
  std::string name;
};

std::mutex mutex;
// Guarded by it.
std::array<File, kFilesMax> files;  // by descriptor
std::map<int, File> closed;         // by a descriptor of our own: not synced when it was closed
std::vector<Name> names;            // created and not synced

Control* Mapped() {
  const char* path = std::getenv("HYDRANT_FAULT_CONTROL");
  const auto open_file = reinterpret_cast<int (*)(const char*, int, ...)>(dlsym(RTLD_NEXT, "open"));
  const int fd = path != nullptr ? open_file(path, O_RDWR | O_CLOEXEC) : -1;
  if (fd < 0) return nullptr;
  void* at = mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  reinterpret_cast<int (*)(int)>(dlsym(RTLD_NEXT, "close"))(fd);
  return at == MAP_FAILED ? nullptr : static_cast<Control*>(at);
}

Control* TheControl() {
  static Control* const control = Mapped();
  return control;
}

void Wait(const std::atomic<int64_t>& us) {
  constexpr int64_t kStepUs = 10'000;
  int64_t waited = 0;
  for (int64_t left = us.load(); left > 0; left = us.load() - waited) {
    const int64_t step = std::min(kStepUs, left);
    usleep(static_cast<useconds_t>(step));
    waited += step;
  }
}

// The next definition of `name`, which is the system's.
template <typename Function>
Function Real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

File Of(int fd) {
  const std::lock_guard<std::mutex> lock(mutex);
  return fd >= 0 && static_cast<size_t>(fd) < kFilesMax ? files[static_cast<size_t>(fd)] : File();
}

bool IsOurs(int fd) { return Of(fd).ours; }

off_t SizeOf(int fd) {
  static const auto real = Real<int (*)(int, struct stat*)>("fstat");
  struct stat status {};
  return real(fd, &status) == 0 ? status.st_size : 0;
}

bool IsOurs(int parent, const char* path) {
  static const char* const directory = std::getenv("HYDRANT_FAULT_DIRECTORY");
  if (path == nullptr || directory == nullptr) return false;
  if (path[0] != '/') return IsOurs(parent);
  const std::string_view prefix(directory);
  const std::string_view whole(path);
  return whole.starts_with(prefix) && (whole.size() == prefix.size() || whole[prefix.size()] == '/');
}

int Opened(int fd, const File& file) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (fd >= 0 && static_cast<size_t>(fd) < kFilesMax) files[static_cast<size_t>(fd)] = file;
  return fd;
}

// Something was done to a file of ours; `change` says what it now is.
template <typename Change>
void Note(int fd, Change change) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (static_cast<size_t>(fd) < kFilesMax) change(files[static_cast<size_t>(fd)]);
}

void NoteSynced(int fd, int result) {
  const off_t size = SizeOf(fd);
  Note(fd, [&](File& file) {
    if (result != 0) file.poisoned = true;
    if (!file.poisoned) file.synced = size;
  });
  const std::lock_guard<std::mutex> lock(mutex);
  if (result == 0) std::erase_if(names, [fd](const Name& name) { return name.parent == fd; });
}

void CutOff(int fd, const File& file) {
  static const auto real = Real<int (*)(int, off_t)>("ftruncate");
  if (file.ours && file.appends && SizeOf(fd) > file.synced) static_cast<void>(real(fd, file.synced));
}

[[noreturn]] void End(bool loses_power) {
  usleep(kBeforeTheEndUs);
  if (loses_power) {
    static const auto remove = Real<int (*)(int, const char*, int)>("unlinkat");
    const std::lock_guard<std::mutex> lock(mutex);
    for (size_t fd = 0; fd < kFilesMax; ++fd) CutOff(static_cast<int>(fd), files[fd]);
    for (const auto& [fd, file] : closed) CutOff(fd, file);
    for (const Name& name : names) remove(name.parent, name.name.c_str(), 0);
  }
  kill(getpid(), SIGKILL);
  std::abort();
}

// What becomes of a call.
struct Fate {
  bool fails = false;
  bool shortens = false;
  bool kills_after = false;
};

Fate Next(const char* call, const char* path, bool changes) {
  Control* const control = TheControl();
  if (control == nullptr || (control->changes_only.load() == 1 && !changes)) return {};
  const int64_t number = control->calls.fetch_add(1);
  const int64_t first = control->first.load();
  if (number < first || number >= first + control->count.load()) return {};
  control->hits.fetch_add(1);
  std::snprintf(control->hit, sizeof(control->hit), "call %lld: %s %s", static_cast<long long>(number), call,
                path != nullptr ? path : "");
  Fate fate;
  switch (control->action.load()) {
    case Action::kFail:
      fate.fails = true;
      break;
    case Action::kShort:
      fate.shortens = true;
      break;
    case Action::kKillBefore:
      End(/*loses_power=*/false);
    case Action::kLosePower:
      End(/*loses_power=*/true);
    case Action::kKillAfter:
      fate.kills_after = true;
      break;
  }
  return fate;
}

// Makes the call, or not.
template <typename Make>
auto Do(const char* name, const char* path, bool changes, Make make) -> decltype(make(false)) {
  const Fate fate = Next(name, path, changes);
  if (fate.fails) {
    errno = static_cast<int>(TheControl()->error.load());
    return -1;
  }
  const auto result = make(fate.shortens);
  if (fate.kills_after) End(/*loses_power=*/false);
  return result;
}

int OpenAt(const char* name, int parent, const char* path, int flags, mode_t mode) {
  static const auto real = Real<int (*)(int, const char*, int, ...)>("openat");
  const auto make = [&](bool) { return real(parent, path, flags, mode); };
  if (!IsOurs(parent, path)) return Opened(make(false), File());
  const bool changes = (flags & (O_CREAT | O_TRUNC | O_WRONLY | O_RDWR)) != 0;
  if (!changes && std::string_view(path).ends_with(".kv") && TheControl() != nullptr) {
    Wait(TheControl()->slow_open_us);
  }
  const int fd = Do(name, path, changes, make);
  File file;
  file.ours = true;
  file.appends = (flags & O_APPEND) != 0;
  if (fd >= 0) file.synced = SizeOf(fd);
  if (fd >= 0 && (flags & O_EXCL) != 0) {
    const std::lock_guard<std::mutex> lock(mutex);
    names.push_back({parent, path});
  }
  return Opened(fd, file);
}

size_t Less(size_t bytes, bool shortens) { return shortens && bytes > 1 ? 1 : bytes; }

mode_t ModeOf(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

}  // namespace

EXPORTED int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = ModeOf(flags, arguments);
  va_end(arguments);
  return OpenAt("open", AT_FDCWD, path, flags, mode);
}

EXPORTED int openat(int parent, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = ModeOf(flags, arguments);
  va_end(arguments);
  return OpenAt("openat", parent, path, flags, mode);
}

EXPORTED int dup(int fd) noexcept {
  static const auto real = Real<int (*)(int)>("dup");
  return Opened(real(fd), Of(fd));
}

EXPORTED int close(int fd) {
  static const auto real = Real<int (*)(int)>("close");
  static const auto copy = Real<int (*)(int)>("dup");
  const File file = Of(fd);
  if (file.ours && file.appends && SizeOf(fd) > file.synced) {
    const int kept = copy(fd);
    const std::lock_guard<std::mutex> lock(mutex);
    closed.emplace(kept, file);
  }
  Opened(fd, File());
  return real(fd);
}

EXPORTED int fcntl(int fd, int command, ...) {
  static const auto real = Real<int (*)(int, int, ...)>("fcntl");
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  const auto make = [&](bool) { return real(fd, command, argument); };
  if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) return Opened(make(false), Of(fd));
  return IsOurs(fd) && command == F_OFD_SETLK ? Do("fcntl (lock)", nullptr, true, make) : make(false);
}

EXPORTED ssize_t write(int fd, const void* from, size_t bytes) {
  static const auto real = Real<ssize_t (*)(int, const void*, size_t)>("write");
  const auto make = [&](bool shortens) { return real(fd, from, Less(bytes, shortens)); };
  return IsOurs(fd) ? Do("write", nullptr, true, make) : make(false);
}

EXPORTED ssize_t pwrite(int fd, const void* from, size_t bytes, off_t offset) {
  static const auto real = Real<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite");
  const auto make = [&](bool shortens) { return real(fd, from, Less(bytes, shortens), offset); };
  return IsOurs(fd) ? Do("pwrite", nullptr, true, make) : make(false);
}

EXPORTED ssize_t read(int fd, void* to, size_t bytes) {
  static const auto real = Real<ssize_t (*)(int, void*, size_t)>("read");
  const auto make = [&](bool shortens) { return real(fd, to, Less(bytes, shortens)); };
  return IsOurs(fd) ? Do("read", nullptr, false, make) : make(false);
}

EXPORTED ssize_t pread(int fd, void* to, size_t bytes, off_t offset) {
  static const auto real = Real<ssize_t (*)(int, void*, size_t, off_t)>("pread");
  const auto make = [&](bool shortens) { return real(fd, to, Less(bytes, shortens), offset); };
  constexpr size_t kHeaderBytes = 4096;
  if (IsOurs(fd) && bytes > kHeaderBytes && TheControl() != nullptr) {
    Wait(TheControl()->slow_us);
  }
  return IsOurs(fd) ? Do("pread", nullptr, false, make) : make(false);
}

EXPORTED int fsync(int fd) {
  static const auto real = Real<int (*)(int)>("fsync");
  const auto make = [&](bool) { return real(fd); };
  if (!IsOurs(fd)) return make(false);
  const int result = Do("fsync", nullptr, true, make);
  NoteSynced(fd, result);
  return result;
}

EXPORTED int fdatasync(int fd) {
  static const auto real = Real<int (*)(int)>("fdatasync");
  const auto make = [&](bool) { return real(fd); };
  if (!IsOurs(fd)) return make(false);
  const int result = Do("fdatasync", nullptr, true, make);
  NoteSynced(fd, result);
  return result;
}

EXPORTED int ftruncate(int fd, off_t size) noexcept {
  static const auto real = Real<int (*)(int, off_t)>("ftruncate");
  const auto make = [&](bool) { return real(fd, size); };
  if (!IsOurs(fd)) return make(false);
  const int result = Do("ftruncate", nullptr, true, make);
  if (result == 0) Note(fd, [size](File& file) { file.synced = std::min(file.synced, size); });
  return result;
}

EXPORTED int fallocate(int fd, int mode, off_t offset, off_t size) {
  static const auto real = Real<int (*)(int, int, off_t, off_t)>("fallocate");
  const auto make = [&](bool) { return real(fd, mode, offset, size); };
  return IsOurs(fd) ? Do("fallocate", nullptr, true, make) : make(false);
}

EXPORTED int fstat(int fd, struct stat* status) noexcept {
  static const auto real = Real<int (*)(int, struct stat*)>("fstat");
  const auto make = [&](bool) { return real(fd, status); };
  return IsOurs(fd) ? Do("fstat", nullptr, false, make) : make(false);
}

EXPORTED int fstatat(int parent, const char* path, struct stat* status, int flags) noexcept {
  static const auto real = Real<int (*)(int, const char*, struct stat*, int)>("fstatat");
  const auto make = [&](bool) { return real(parent, path, status, flags); };
  return IsOurs(parent, path) ? Do("fstatat", path, false, make) : make(false);
}

EXPORTED int fstatfs(int fd, struct statfs* status) noexcept {
  static const auto real = Real<int (*)(int, struct statfs*)>("fstatfs");
  const auto make = [&](bool) { return real(fd, status); };
  return IsOurs(fd) ? Do("fstatfs", nullptr, false, make) : make(false);
}

EXPORTED int fchmod(int fd, mode_t mode) noexcept {
  static const auto real = Real<int (*)(int, mode_t)>("fchmod");
  const auto make = [&](bool) { return real(fd, mode); };
  return IsOurs(fd) ? Do("fchmod", nullptr, true, make) : make(false);
}

EXPORTED int mkdirat(int parent, const char* path, mode_t mode) noexcept {
  static const auto real = Real<int (*)(int, const char*, mode_t)>("mkdirat");
  const auto make = [&](bool) { return real(parent, path, mode); };
  return IsOurs(parent, path) ? Do("mkdirat", path, true, make) : make(false);
}

EXPORTED int renameat(int from, const char* name, int to, const char* new_name) noexcept {
  static const auto real = Real<int (*)(int, const char*, int, const char*)>("renameat");
  const auto make = [&](bool) { return real(from, name, to, new_name); };
  return IsOurs(from, name) ? Do("renameat", name, true, make) : make(false);
}

EXPORTED int linkat(int from, const char* name, int to, const char* new_name, int flags) noexcept {
  static const auto real = Real<int (*)(int, const char*, int, const char*, int)>("linkat");
  const auto make = [&](bool) { return real(from, name, to, new_name, flags); };
  return IsOurs(to, new_name) ? Do("linkat", new_name, true, make) : make(false);
}

EXPORTED int unlinkat(int parent, const char* path, int flags) noexcept {
  static const auto real = Real<int (*)(int, const char*, int)>("unlinkat");
  const auto make = [&](bool) { return real(parent, path, flags); };
  return IsOurs(parent, path) ? Do("unlinkat", path, true, make) : make(false);
}

EXPORTED DIR* fdopendir(int fd) {
  static const auto real = Real<DIR* (*)(int)>("fdopendir");
  if (IsOurs(fd) && Do("fdopendir", nullptr, false, [](bool) { return 0; }) < 0) return nullptr;
  return real(fd);
}

EXPORTED struct dirent* readdir(DIR* entries) {
  static const auto real = Real<struct dirent* (*)(DIR*)>("readdir");
  if (IsOurs(dirfd(entries)) && Do("readdir", nullptr, false, [](bool) { return 0; }) < 0) return nullptr;
  return real(entries);
}

EXPORTED int clock_gettime(clockid_t clock, struct timespec* time) noexcept {
  static const auto real = Real<int (*)(clockid_t, struct timespec*)>("clock_gettime");
  const int result = real(clock, time);
  if (result == 0 && clock == CLOCK_REALTIME && TheControl() != nullptr) time->tv_sec += TheControl()->clock_s.load();
  return result;
}

EXPORTED time_t time(time_t* result) noexcept {
  struct timespec now {};
  clock_gettime(CLOCK_REALTIME, &now);
  if (result != nullptr) *result = now.tv_sec;
  return now.tv_sec;
}
