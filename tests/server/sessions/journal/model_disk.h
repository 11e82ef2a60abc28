// ModelDisk is a directory in memory that forgets as a disk may: after a loss of power any subset of the 4 KiB pages that were not
// synced is there, and any subset of the names. Its k-th call fails, or ends the process.
#ifndef HYDRANT_TESTS_SERVER_SESSIONS_JOURNAL_MODEL_DISK_H_
#define HYDRANT_TESTS_SERVER_SESSIONS_JOURNAL_MODEL_DISK_H_

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/sessions/journal/log_directory.h"

namespace hydrant {

// The process was killed: whatever it wrote is in the page cache still.
struct Killed {};

class ModelDisk {
 public:
  struct File {
    std::string bytes;
    std::string synced;
    std::string once;       // what it was before it was truncated
    bool poisoned = false;  // a sync has failed: later ones say that all is well, and write nothing
  };
  using Names = std::map<std::string, std::shared_ptr<File>>;

  std::unique_ptr<LogDirectory> Mount() { return std::make_unique<View>(*this); }

  // What is left after a loss of power.
  void LosePower(std::mt19937& random) {
    const auto coin = [&random] { return (random() & 1) != 0; };
    Names left = synced_names;
    for (const auto& [from, to] : pending) {
      if (!coin()) continue;
      if (from.empty()) {  // created, or removed
        const auto found = names.find(to);
        if (found == names.end()) {
          left.erase(to);
        } else {
          left[to] = found->second;
        }
      } else if (const auto found = left.find(from); found != left.end()) {
        left[to] = found->second;
        left.erase(from);
      } else if (names.contains(to)) {
        left[to] = names[to];
      }
    }
    for (auto& [name, file] : left) {
      auto kept = std::make_shared<File>();
      kept->bytes = file->synced;
      const std::string& written = file->once.size() > file->bytes.size() && coin() ? file->once : file->bytes;
      for (size_t page = 0; page < written.size(); page += kPage) {
        const std::string_view now = std::string_view(written).substr(page, kPage);
        const bool same = page < file->synced.size() && std::string_view(file->synced).substr(page, kPage) == now;
        if (same || !coin()) continue;
        if (kept->bytes.size() < page + now.size()) kept->bytes.resize(page + now.size(), '\0');
        std::copy(now.begin(), now.end(), kept->bytes.begin() + static_cast<std::ptrdiff_t>(page));
      }
      kept->synced = kept->bytes;
      file = std::move(kept);
    }
    names = synced_names = std::move(left);
    pending.clear();
  }

  bool Contains(std::string_view text) const {
    return std::any_of(names.begin(), names.end(),
                       [&](const auto& named) { return named.second->bytes.find(text) != std::string::npos; });
  }

  Names names, synced_names;
  std::vector<std::pair<std::string, std::string>> pending;  // of names: from, to; from "": created or removed
  int64_t calls = 0;
  int64_t kill_at = -1;
  int64_t fail_at = -1;
  int64_t fail_count = 1;
  int failure = -EIO;         // 1: a write takes one byte only
  int64_t no_memory_at = -1;  // a read, counted from 0, for which whoever reads finds no memory
  int64_t reads = 0;
  bool lies = false;  // syncs do nothing
  bool truncates_fail = false;
  bool keeps_names = false;                 // nothing can be removed
  int64_t volume_bytes = int64_t{1} << 40;  // nothing but FreeBytes asks for it

 private:
  static constexpr size_t kPage = 4096;

  class View : public LogDirectory {
   public:
    explicit View(ModelDisk& disk) : disk_(disk) {}

    int Create(const std::string& name) override {
      if (const int error = Fails(); error < 0) return error;
      if (disk_.names.contains(name)) return -EEXIST;
      disk_.pending.emplace_back("", name);
      return Descriptor(disk_.names[name] = std::make_shared<File>());
    }
    int Open(const std::string& name) override {
      if (const int error = Fails(); error < 0) return error;
      const auto found = disk_.names.find(name);
      return found == disk_.names.end() ? -ENOENT : Descriptor(found->second);
    }
    int64_t Write(int fd, std::string_view bytes) override {
      const int error = Fails();
      if (error < 0) {
        if (error != -EINTR) files_[fd]->bytes.append(bytes.substr(0, bytes.size() / 2));  // some of it came in
        return error;
      }
      if (error > 0) bytes = bytes.substr(0, 1);
      files_[fd]->bytes.append(bytes);
      return static_cast<int64_t>(bytes.size());
    }
    int64_t ReadAt(int fd, char* out, size_t bytes, int64_t offset) override {
      if (disk_.reads++ == disk_.no_memory_at) throw std::bad_alloc();
      const int error = Fails();
      if (error < 0) return error;
      const std::string& from = files_[fd]->bytes;
      if (static_cast<size_t>(offset) >= from.size()) return 0;
      const size_t count = std::min({bytes, from.size() - static_cast<size_t>(offset), error > 0 ? 1 : bytes});
      from.copy(out, count, static_cast<size_t>(offset));
      return static_cast<int64_t>(count);
    }
    int64_t Size(int fd) override {
      if (const int error = Fails(); error < 0) return error;
      return static_cast<int64_t>(files_[fd]->bytes.size());
    }
    int Sync(int fd) override {
      const int error = Fails();
      File& file = *files_[fd];
      if (error < 0) file.poisoned = true;
      if (error < 0) return error;
      if (!file.poisoned && !disk_.lies) file.synced = file.bytes;
      return 0;
    }
    void DropCached(int fd) override {
      File& file = *files_[fd];
      if (file.poisoned) file.bytes = file.synced;  // the pages that a failed sync called clean
    }
    int Truncate(int fd, int64_t size) override {
      if (const int error = Fails(); error < 0) return error;
      if (disk_.truncates_fail) return -EIO;
      File& file = *files_[fd];
      file.once = file.bytes;
      file.bytes.resize(static_cast<size_t>(size));
      return 0;
    }
    void Uncache(int) override {}
    void Close(int fd) override { files_.erase(fd); }
    int Rename(const std::string& from, const std::string& to) override {
      if (const int error = Fails(); error < 0) return error;
      const auto found = disk_.names.find(from);
      if (found == disk_.names.end()) return -ENOENT;
      disk_.names[to] = found->second;
      disk_.names.erase(from);
      disk_.pending.emplace_back(from, to);
      return 0;
    }
    int Remove(const std::string& name) override {
      if (const int error = Fails(); error < 0) return error;
      if (disk_.keeps_names) return -EPERM;
      if (disk_.names.erase(name) == 0) return -ENOENT;
      disk_.pending.emplace_back("", name);
      return 0;
    }
    int SyncNames() override {
      if (const int error = Fails(); error < 0) return error;
      if (disk_.lies) return 0;
      disk_.synced_names = disk_.names;
      disk_.pending.clear();
      return 0;
    }
    int List(std::vector<std::string>* out) override {
      if (const int error = Fails(); error < 0) return error;
      for (const auto& [name, file] : disk_.names) out->push_back(name);
      return 0;
    }
    int64_t FreeBytes() override {
      int64_t left = disk_.volume_bytes;
      for (const auto& [name, file] : disk_.names) left -= std::ssize(file->bytes);
      return std::max<int64_t>(0, left);
    }

   private:
    int Descriptor(std::shared_ptr<File> file) {
      files_[++last_] = std::move(file);
      return last_;
    }
    // 0: the call does what it should.
    int Fails() {
      const int64_t call = disk_.calls++;
      if (call == disk_.kill_at) throw Killed();
      const bool fails = disk_.fail_at >= 0 && call >= disk_.fail_at && call < disk_.fail_at + disk_.fail_count;
      return fails ? disk_.failure : 0;
    }

    ModelDisk& disk_;
    std::map<int, std::shared_ptr<File>> files_;
    int last_ = 2;
  };
};

}  // namespace hydrant

#endif  // HYDRANT_TESTS_SERVER_SESSIONS_JOURNAL_MODEL_DISK_H_
