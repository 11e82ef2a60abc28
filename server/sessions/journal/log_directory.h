// LogDirectory is the system calls that the token log makes, and KvDisk, on one directory: tests put a disk of their own behind it that
// loses what was not synced and fails the k-th call. What is to be done about an error is the caller's.
//
// Thread: any; calls on one file descriptor that change it come from one thread at a time.
#ifndef HYDRANT_SERVER_SESSIONS_JOURNAL_LOG_DIRECTORY_H_
#define HYDRANT_SERVER_SESSIONS_JOURNAL_LOG_DIRECTORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hydrant {

// Every call returns a value >= 0, or an errno, negated. Names have no slash.
class LogDirectory {
 public:
  virtual ~LogDirectory() = default;

  virtual int Create(const std::string& name) = 0;  // to append to; must not be there
  virtual int Open(const std::string& name) = 0;    // to read
  virtual int64_t Write(int fd, std::string_view bytes) = 0;
  virtual int64_t ReadAt(int fd, char* out, size_t bytes, int64_t offset) = 0;
  virtual int64_t Size(int fd) = 0;
  virtual int Sync(int fd) = 0;  // the bytes and what is needed to find them; -ENOENT: the file has been removed
  // What is in memory of a file that has been synced is let go of, where the system can, so that what is read next is what the disk
  // has. After a sync that failed, Linux calls pages clean that the disk does not have, and a later sync of them says that all is well.
  virtual void DropCached(int fd) = 0;
  virtual int Truncate(int fd, int64_t size) = 0;
  virtual void Close(int fd) = 0;
  // Its bytes, which are synced, need not stay in the system's memory.
  virtual void Uncache(int fd) = 0;
  virtual int Rename(const std::string& from, const std::string& to) = 0;
  virtual int Remove(const std::string& name) = 0;
  virtual int SyncNames() = 0;  // what was created, renamed and removed
  virtual int List(std::vector<std::string>* names) = 0;
  virtual int64_t FreeBytes() = 0;  // what the volume has room for
};

inline constexpr std::string_view kSegmentSuffix = ".seg";
inline constexpr std::string_view kCheckpointSuffix = ".idx";
// 42 and ".seg": "000042.seg". And back; nullopt: some other file.
std::string LogFileName(uint32_t number, std::string_view suffix);
std::optional<uint32_t> LogFileNumber(std::string_view name, std::string_view suffix);

// All of `bytes`, in several calls where one takes less. 0, or an errno, negated.
int WriteAll(LogDirectory& directory, int fd, std::string_view bytes);
// Up to `bytes` bytes at `offset`: less where the file ends. An errno, negated, where they cannot be read.
int64_t ReadAll(LogDirectory& directory, int fd, char* out, size_t bytes, int64_t offset);
// A whole file that appears at once, or not at all.
int WriteWhole(LogDirectory& directory, const std::string& name, std::string_view bytes);

// The directory behind `fd`, which this takes over. Files are opened without following links, and are 0600.
std::unique_ptr<LogDirectory> DiskDirectory(int fd);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SESSIONS_JOURNAL_LOG_DIRECTORY_H_
