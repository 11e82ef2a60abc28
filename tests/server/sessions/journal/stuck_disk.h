// A disk that does not answer whoever reads from it, or writes to it, until it is let go; or that cannot be read, or written, or removes nothing.
#ifndef HYDRANT_TESTS_SERVER_SESSIONS_JOURNAL_STUCK_DISK_H_
#define HYDRANT_TESTS_SERVER_SESSIONS_JOURNAL_STUCK_DISK_H_

#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/sessions/journal/log_directory.h"

namespace hydrant {

// Outlives the directories that stand behind it. Thread: any.
class StuckDisk {
 public:
  enum class Stuck { kNothing, kReads, kWrites, kReadsFail, kWritesFail, kRemovesFail };
  void Hang(Stuck stuck) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stuck_ = stuck;
    }
    changed_.notify_all();
  }
  bool is(Stuck stuck) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return stuck_ == stuck;
  }
  // Those that wait.
  int waiting() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return waiting_;
  }
  // False: the call fails.
  bool Wait(Stuck call) {
    std::unique_lock<std::mutex> lock(mutex_);
    ++waiting_;
    changed_.wait(lock, [this, call] { return stuck_ != call; });
    --waiting_;
    return stuck_ != (call == Stuck::kReads ? Stuck::kReadsFail : Stuck::kWritesFail);
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  Stuck stuck_ = Stuck::kNothing;
  int waiting_ = 0;
};

class StuckDirectory : public LogDirectory {
 public:
  StuckDirectory(std::unique_ptr<LogDirectory> files, StuckDisk& disk) : files_(std::move(files)), disk_(disk) {}

  int Create(const std::string& name) override { return files_->Create(name); }
  int Open(const std::string& name) override { return files_->Open(name); }
  int64_t Write(int fd, std::string_view bytes) override {
    if (!disk_.Wait(StuckDisk::Stuck::kWrites)) return -ENOSPC;
    return files_->Write(fd, bytes);
  }
  int64_t ReadAt(int fd, char* out, size_t bytes, int64_t offset) override {
    if (!disk_.Wait(StuckDisk::Stuck::kReads)) return -EIO;
    return files_->ReadAt(fd, out, bytes, offset);
  }
  int64_t Size(int fd) override { return files_->Size(fd); }
  int Sync(int fd) override { return files_->Sync(fd); }
  void DropCached(int fd) override { files_->DropCached(fd); }
  int Truncate(int fd, int64_t size) override { return files_->Truncate(fd, size); }
  void Close(int fd) override { files_->Close(fd); }
  void Uncache(int fd) override { files_->Uncache(fd); }
  int Rename(const std::string& from, const std::string& to) override { return files_->Rename(from, to); }
  int Remove(const std::string& name) override {
    return disk_.is(StuckDisk::Stuck::kRemovesFail) ? -EIO : files_->Remove(name);
  }
  int SyncNames() override { return files_->SyncNames(); }
  int List(std::vector<std::string>* names) override { return files_->List(names); }
  int64_t FreeBytes() override { return files_->FreeBytes(); }

 private:
  const std::unique_ptr<LogDirectory> files_;
  StuckDisk& disk_;
};

}  // namespace hydrant

#endif  // HYDRANT_TESTS_SERVER_SESSIONS_JOURNAL_STUCK_DISK_H_
