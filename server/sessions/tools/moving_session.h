// MovingSession is a session on its way through an operator's tool: what it has said in memory, and its KV in a file.
//
// Thread: one at a time; waits for the disk.
#ifndef HYDRANT_SERVER_SESSIONS_TOOLS_MOVING_SESSION_H_
#define HYDRANT_SERVER_SESSIONS_TOOLS_MOVING_SESSION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/sessions/transfer/session_file.h"

namespace hydrant {

// Bytes of a file.
class KvSpool {
 public:
  // An empty one, without a name, below $TMPDIR or else /tmp: it goes with this.
  static absl::StatusOr<std::shared_ptr<KvSpool>> Create();
  // Those of `fd`, which this takes over, from `offset` on.
  KvSpool(int fd, int64_t offset, int64_t bytes) : fd_(fd), offset_(offset), bytes_(bytes) {}
  ~KvSpool();
  KvSpool(const KvSpool&) = delete;
  KvSpool& operator=(const KvSpool&) = delete;

  absl::Status Append(std::string_view piece);
  int64_t bytes() const { return bytes_; }
  // All of them, in pieces of a MiB at most, until one is not wanted.
  absl::Status Read(absl::FunctionRef<absl::Status(std::string_view piece)> take) const;

 private:
  const int fd_;
  const int64_t offset_;
  int64_t bytes_;
};

struct MovingSession {
  SessionFile file;
  std::shared_ptr<const KvSpool> kv;  // null: there is none
  uint32_t kv_crc = 0;
  std::string kv_lost;  // why there is none, though there was some
  std::string holder;   // who had it: a run of a server, or a directory; empty: nobody says

  // What the state begins with; its KV follows. `with_kv` false: without.
  std::string Head(bool with_kv = true) const {
    return WriteSessionHead(file, kv != nullptr && with_kv ? static_cast<uint64_t>(kv->bytes()) : 0, kv_crc);
  }
};

// Puts together what comes in pieces, of `bytes` bytes in all.
class MovingSessionReader {
 public:
  explicit MovingSessionReader(uint64_t bytes);
  MovingSessionReader(const MovingSessionReader&) = delete;
  MovingSessionReader& operator=(const MovingSessionReader&) = delete;

  // Errors: SessionFileReader's, and the disk's.
  absl::Status Take(std::string_view piece) { return reader_.Take(piece); }
  absl::StatusOr<MovingSession> Finish();

 private:
  std::shared_ptr<KvSpool> spool_;
  uint32_t crc_ = 0;
  SessionFileReader reader_;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SESSIONS_TOOLS_MOVING_SESSION_H_
