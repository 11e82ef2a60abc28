// A file that is sealed in pieces (session_keys.h), so that it is written, and read from anywhere, without being in memory as a whole.
//
//   head    88 bytes: {magic 8, version u16, zero u16, key id 8, salt 32, session 16, turn u64, bytes of the text u64, crc u32}
//   pieces  of the text: 4 KiB, then 1 MiB each, the last one shorter; each with its tag of 16 bytes behind it
//
// The number of a piece is its nonce, and the head is beside each of them. Numbers are little endian.
//
// Thread: one at a time.
#ifndef HYDRANT_SERVER_SESSIONS_KV_SEALED_FILE_H_
#define HYDRANT_SERVER_SESSIONS_KV_SEALED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "server/sessions/journal/log_directory.h"
#include "server/sessions/journal/session_keys.h"
#include "server/sessions/kv/kv_file.h"

namespace hydrant {

inline constexpr std::string_view kSealedMagic = "HYDRKVS1";
inline constexpr size_t kSealedHeadBytes = 88;
// What a file takes whose text has `text_bytes`.
int64_t SealedBytes(int64_t text_bytes);

class SealedWriter {
 public:
  // `directory` and `keys` outlive it.
  SealedWriter(LogDirectory& directory, int fd, const SessionKeys& keys, const SessionName& session, uint64_t turn,
               int64_t text_bytes);
  // In the order of the text; 0, or an errno, negated. Throws std::bad_alloc.
  int Append(std::string_view text);

 private:
  int WritePiece();

  LogDirectory& directory_;
  const int fd_;
  std::string head_;
  SealKey key_{};
  int64_t left_ = 0;    // bytes of the text that are still to come
  int64_t piece_ = -1;  // -1: the head is not written yet
  std::string buffer_;
};

class SealedReader {
 public:
  // Null: `reject` says why not. kKey: it is not sealed, or with a key that is not here.
  static std::unique_ptr<SealedReader> Open(LogDirectory& directory, int fd, const SessionKeys& keys, KvReject* reject);

  int64_t text_bytes() const { return text_bytes_; }
  const SessionName& session() const { return session_; }
  uint64_t turn() const { return turn_; }
  // Sealed with the key that seals now.
  bool is_current() const { return is_current_; }
  // kNone: `bytes` bytes from `offset` on are in `out`. REQUIRES: they are in the text. Throws std::bad_alloc.
  KvReject Read(char* out, int64_t bytes, int64_t offset);
  // What it has in memory of the text goes: up to 1 MiB.
  void Forget();

 private:
  SealedReader(LogDirectory& directory, int fd) : directory_(directory), fd_(fd) {}

  LogDirectory& directory_;
  const int fd_;
  std::string head_;
  SealKey key_{};
  SessionName session_{};
  uint64_t turn_ = 0;
  int64_t text_bytes_ = 0;
  bool is_current_ = false;
  int64_t piece_ = -1;  // that is in buffer_
  std::string buffer_;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SESSIONS_KV_SEALED_FILE_H_
