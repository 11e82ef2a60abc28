// StoreConnection is one connection to a Redis (or what speaks its protocol): commands go out in order and their answers come back
// in that order. libhiredis writes and reads the protocol; waiting, deadlines and bounds are ours.
//
// Thread: one at a time.
//
// Invariants
//  1. Nothing here waits but Connect and Call, and those until their deadline; only a host's name is looked up for as long as
//     the system takes for that.
//  2. However hostile the store: an answer is a text of at most kAnswerBytesMax bytes or at most kAnswerItemsMax integers, or the
//     connection fails.
//
// Without memory the library's version 0.14 may end the process (hi_malloc): to write a command and to begin a connection it takes
// some hundred bytes each. The rest, ours and that of reading, is std::bad_alloc or a failed connection.
#ifndef HYDRANT_SERVER_SHARED_LIMITS_STORE_CONNECTION_H_
#define HYDRANT_SERVER_SHARED_LIMITS_STORE_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/shared_limits/store_address.h"

struct redisContext;

namespace hydrant {

// An answer.
struct StoreReply {
  enum class Kind : uint8_t { kIntegers, kText, kError, kOther };
  Kind kind = Kind::kOther;
  std::vector<int64_t> integers;  // one, or an array's
  std::string text;               // of kText and kError
};

class StoreConnection {
 public:
  static constexpr size_t kAnswerBytesMax = 64 << 10;
  static constexpr size_t kAnswerItemsMax = 16;

  // Once `stop_fd` can be read, here and in Call, nobody waits any more (-1: there is none). Errors: UNAVAILABLE, why there is none;
  // DEADLINE_EXCEEDED; CANCELLED, by stop_fd.
  static absl::StatusOr<std::unique_ptr<StoreConnection>> Connect(const StoreAddress& address, int64_t until_us,
                                                                  int stop_fd = -1);
  ~StoreConnection();
  StoreConnection(const StoreConnection&) = delete;
  StoreConnection& operator=(const StoreConnection&) = delete;

  int fd() const { return fd_; }
  // There are bytes that the socket has not taken.
  bool wants_write() const { return sent_ < out_.size(); }

  void Append(const std::vector<std::string_view>& command);
  // Moves what can be moved at once. Errors: UNAVAILABLE, the connection is of no more use.
  absl::Status Write();
  absl::Status Read();
  // The next answer; nullopt: it is not there yet. Errors: Read's, for what is no answer.
  absl::StatusOr<std::optional<StoreReply>> Next();

  // Sends a command and waits for its answer. REQUIRES: no other one is under way. Errors: the above,
  // DEADLINE_EXCEEDED, CANCELLED.
  absl::StatusOr<StoreReply> Call(const std::vector<std::string_view>& command, int64_t until_us);

 private:
  StoreConnection(redisContext* context, int stop_fd);

  redisContext* const context_;
  const int fd_;
  const int stop_fd_;
  std::string out_;
  size_t sent_ = 0;  // of out_
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SHARED_LIMITS_STORE_CONNECTION_H_
