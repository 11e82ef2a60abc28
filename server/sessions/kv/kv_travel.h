// KV files on their way between two servers, piece by piece: KvOutgoing reads one that is here, KvIncoming writes one that comes.
//
// What travels is a KV file that is nobody's: its header names neither directory nor session (zeros), which are the receiver's to say.
// Everything else has to be what the receiver's own file would be: content of the weights, device, type, shape, turn, history, policy.
//
// Thread: one at a time. What they are made from outlives them.
#ifndef HYDRANT_SERVER_SESSIONS_KV_KV_TRAVEL_H_
#define HYDRANT_SERVER_SESSIONS_KV_KV_TRAVEL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "server/sessions/kv/kv_disk.h"

namespace hydrant {

class KvOutgoing {
 public:
  // Null: `reject` says why not. Waits for the disk, as Next does.
  static std::unique_ptr<KvOutgoing> Open(KvDisk& disk, std::shared_ptr<const OpenKvFile> file, KvReject* reject);

  // What Next gives in all, and the CRC-32C of that, which is known before any of the payload is read.
  int64_t bytes() const { return header_.file_bytes(); }
  uint32_t crc() const { return crc_; }
  // The next piece, of a chunk's size at most; none: there is no more. Whatever is returned beside kNone, the rest is not to be had.
  KvReject Next(std::string* piece);
  // Told of such a rest, and why.
  void OnDamage(std::function<void(KvReject)> on_damage) { on_damage_ = std::move(on_damage); }

 private:
  KvOutgoing(KvDisk& disk, std::shared_ptr<const OpenKvFile> file) : disk_(disk), file_(std::move(file)) {}

  KvDisk& disk_;
  const std::shared_ptr<const OpenKvFile> file_;
  std::function<void(KvReject)> on_damage_;
  KvFileHeader header_;  // as it travels
  std::string head_, trailer_;
  uint32_t crc_ = 0;
  int64_t next_ = -1;  // a chunk; -1: the head
};

class KvIncoming {
 public:
  // `keys` null: what is written is not sealed.
  KvIncoming(LogDirectory& directory, const SessionKeys* keys, KvFormat format, KvBinding expected,
             std::string unfinished);
  // What was not adopted leaves the disk.
  ~KvIncoming();
  KvIncoming(const KvIncoming&) = delete;
  KvIncoming& operator=(const KvIncoming&) = delete;

  // The next of its bytes. After anything but kNone no more is taken. Waits for the disk. Throws std::bad_alloc.
  KvReject Take(std::string_view piece);
  // All of it has come: it is whole, what is expected, and synced, where kNone is returned.
  KvReject Finish();

  // REQUIRES: Finish was well.
  const KvFileHeader& header() const { return header_; }
  const std::string& unfinished() const { return unfinished_; }
  void SetAdopted() { adopted_ = true; }
  // `let_in` is asked before `more` bytes are added to what has been let in, and kBusy is what Take says where they may not come;
  // `on_end` is told what was let in when this goes.
  void OnBytes(std::function<bool(int64_t own_bytes, int64_t more)> let_in, std::function<void(int64_t)> on_end) {
    let_in_ = std::move(let_in);
    on_end_ = std::move(on_end);
  }

 private:
  enum class Part : uint8_t { kHeader, kTable, kPayload, kTrailer, kEnd };

  KvReject TakeHeader();
  KvReject TakeTable();
  KvReject TakeChunk();
  KvReject TakeTrailer();
  KvReject CheckBlocks(std::string_view bytes);
  KvReject Append(std::string_view bytes);

  LogDirectory& directory_;
  const SessionKeys* const keys_;
  const KvFormat format_;
  const KvBinding expected_;
  const std::string unfinished_;
  std::function<bool(int64_t, int64_t)> let_in_;
  std::function<void(int64_t)> on_end_;
  int64_t let_in_bytes_ = 0;
  KvFileHeader header_;         // as it is written
  KvFileHeader sent_;           // as it came
  std::string head_sent_;       // header and table, as they came
  std::string head_;            // and as they are written
  std::string buffer_, block_;  // of the part, and of the block of the payload, that is being read
  Part part_ = Part::kHeader;
  size_t part_bytes_ = kKvHeaderBytes;
  int64_t next_chunk_ = 0, next_block_ = 0;
  KvReject reject_ = KvReject::kNone;
  int fd_ = -1;
  std::optional<SealedWriter> sealed_;
  bool created_ = false, adopted_ = false;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SESSIONS_KV_KV_TRAVEL_H_
