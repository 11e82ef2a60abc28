// SessionDirectory is the directory of --session-dir: that it is ours alone, that no other process uses it, and what sessions are
// called in it.
//
//   LOCK    locked for as long as the process lives; says whose it is
//   FORMAT  the version, and the directory's own id
//   secret  what names are derived from: nothing that a client wrote is the name of anything
//   check   what both of them were when they were written
//   keys    ids of the keys with which something here may be sealed; not there: nothing is
//   log/    the token log
//   kv/     KV of sessions, a file each
//
// Thread: any (immutable once opened).
#ifndef HYDRANT_SERVER_SESSIONS_JOURNAL_SESSION_DIRECTORY_H_
#define HYDRANT_SERVER_SESSIONS_JOURNAL_SESSION_DIRECTORY_H_

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "server/sessions/journal/log_directory.h"
#include "server/sessions/journal/log_record.h"
#include "server/sessions/journal/session_keys.h"

namespace hydrant {

// Why a directory on a file system of this kind (statfs(2)'s f_type) keeps no promise, or nothing.
std::string_view WrongFileSystem(int64_t type);

class SessionDirectory {
 public:
  // Makes it where there is none; its parent must be there. Errors: FAILED_PRECONDITION, which names the path and what is wrong: somebody
  // else's, open to others, a link, in use by another process (which it names), of a later version, or, unless `any_file_system`, on
  // one of WrongFileSystem. With `keys` what is written is sealed: a directory that has sessions which are not, or that was sealed with
  // a key that is not among these, is refused, and without them one that was sealed.
  static absl::StatusOr<std::unique_ptr<SessionDirectory>> Open(const std::string& path, bool any_file_system = false,
                                                                const SessionKeys* keys = nullptr);
  ~SessionDirectory();
  SessionDirectory(const SessionDirectory&) = delete;
  SessionDirectory& operator=(const SessionDirectory&) = delete;

  const DirectoryId& id() const { return id_; }
  // Something may be sealed with another key than the one that seals.
  bool has_old_keys() const { return has_old_keys_; }
  // Nothing is any more. 0, or an errno, negated. One thread at a time.
  int ForgetOldKeys();
  SessionName NameOf(std::string_view tenant, std::string_view session) const;
  // The directory log/. Once.
  std::unique_ptr<LogDirectory> TakeLog() { return std::move(log_); }
  // The directory kv/. Once.
  std::unique_ptr<LogDirectory> TakeKv() { return std::move(kv_); }

 private:
  SessionDirectory() = default;
  absl::Status CheckKeys(LogDirectory& files, const std::string& path, const SessionKeys* keys);

  int fd_ = -1;
  int lock_fd_ = -1;
  DirectoryId id_{};
  std::string secret_;
  std::string own_key_;  // of the file `keys`, with the key that seals alone
  std::atomic<bool> has_old_keys_ = false;
  std::unique_ptr<LogDirectory> log_, kv_;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SESSIONS_JOURNAL_SESSION_DIRECTORY_H_
