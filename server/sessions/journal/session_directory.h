// SessionDirectory is the directory of --session-dir: that it is ours alone, that no other process uses it, and what sessions are
// called in it.
//
//   LOCK    locked for as long as the process lives; says whose it is
//   FORMAT  the version, and the directory's own id
//   secret  what names are derived from: nothing that a client wrote is the name of anything
//   check   what both of them were when they were written
//   log/    the token log
//   kv/     KV of sessions, a file each
//
// Thread: any (immutable once opened).
#ifndef HYDRANT_SERVER_SESSIONS_JOURNAL_SESSION_DIRECTORY_H_
#define HYDRANT_SERVER_SESSIONS_JOURNAL_SESSION_DIRECTORY_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/sessions/journal/log_directory.h"
#include "server/sessions/journal/log_record.h"

namespace hydrant {

// Why a directory on a file system of this kind (statfs(2)'s f_type) keeps no promise, or nothing.
std::string_view WrongFileSystem(int64_t type);

class SessionDirectory {
 public:
  // Makes it where there is none; its parent must be there. Errors: FAILED_PRECONDITION, which names the path and what is wrong: somebody
  // else's, open to others, a link, in use by another process (which it names), of a later version, or, unless `any_file_system`, on
  // one of WrongFileSystem.
  static absl::StatusOr<std::unique_ptr<SessionDirectory>> Open(const std::string& path, bool any_file_system = false);
  ~SessionDirectory();
  SessionDirectory(const SessionDirectory&) = delete;
  SessionDirectory& operator=(const SessionDirectory&) = delete;

  const DirectoryId& id() const { return id_; }
  SessionName NameOf(std::string_view tenant, std::string_view session) const;
  // The directory log/. Once.
  std::unique_ptr<LogDirectory> TakeLog() { return std::move(log_); }
  // The directory kv/. Once.
  std::unique_ptr<LogDirectory> TakeKv() { return std::move(kv_); }

 private:
  SessionDirectory() = default;

  int fd_ = -1;
  int lock_fd_ = -1;
  DirectoryId id_{};
  std::string secret_;
  std::unique_ptr<LogDirectory> log_, kv_;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SESSIONS_JOURNAL_SESSION_DIRECTORY_H_
