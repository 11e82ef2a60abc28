// KvDisk writes, reads and removes KV files. It knows nothing of which of them there ought to be.
//
// Thread: Write and Remove belong to one thread. Open and Read may be called from any thread beside it. All of them wait for the disk.
//
// Invariants
//  1. A file has its name only once it is whole and synced; a write that fails leaves no file of that name.
//  2. A file descriptor whose write or sync has failed is not used again.
//  3. A file is never changed. One that goes on from another says so, and what is read of either has to fit the table of the newer one.
//  4. Whoever has a session's KV open holds one descriptor, and a second one while a file before it is being read.
#ifndef HYDRANT_SERVER_SESSIONS_KV_KV_DISK_H_
#define HYDRANT_SERVER_SESSIONS_KV_KV_DISK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/sessions/journal/log_directory.h"
#include "server/sessions/kv/kv_file.h"
#include "server/sessions/kv/sealed_file.h"

namespace hydrant {

// The text of one file, sealed or not. Thread: one at a time.
class KvFileReader {
 public:
  // Null, and the reason; kNone: there is no such file. `keys` null: it is not sealed.
  static std::unique_ptr<KvFileReader> Open(LogDirectory& directory, const std::string& name, const SessionKeys* keys,
                                            KvReject* reject);
  ~KvFileReader() { directory_.Close(fd_); }
  KvFileReader(const KvFileReader&) = delete;
  KvFileReader& operator=(const KvFileReader&) = delete;

  int64_t bytes() const { return bytes_; }
  // kShort: so much is not there.
  KvReject Read(char* to, int64_t bytes, int64_t offset);
  // It was read: nothing of it need stay in memory.
  void Forget();

 private:
  KvFileReader(LogDirectory& directory, int fd) : directory_(directory), fd_(fd) {}

  LogDirectory& directory_;
  const int fd_;
  int64_t bytes_ = 0;
  std::unique_ptr<SealedReader> sealed_;
};

// A file whose header is what is expected, as are those of the files that it goes on from; of the rest nothing is known yet. It stays
// readable when its name goes; those before it are opened while they are read, and short where they are gone by then. Thread: one at a
// time.
class OpenKvFile {
 public:
  OpenKvFile(std::unique_ptr<KvFileReader> file, KvFileHeader header, std::vector<KvFileHeader> bases)
      : file_(std::move(file)), header_(std::move(header)), bases_(std::move(bases)) {}

  const KvFileHeader& header() const { return header_; }
  const std::vector<KvFileHeader>& bases() const { return bases_; }  // the newest first

 private:
  friend class KvDisk;
  const std::unique_ptr<KvFileReader> file_;
  const KvFileHeader header_;
  const std::vector<KvFileHeader> bases_;
  // The one of them that was read last: chunks are read in their order, so that each is opened once.
  mutable std::unique_ptr<KvFileReader> base_;
  mutable uint64_t base_turn_ = 0;  // whose
};

class KvIncoming;

// Removes every KV file of a directory whose KV nobody keeps, and what was not finished of one. 0, or an errno, negated: some may be left.
int RemoveKvFiles(LogDirectory& directory);

class KvDisk {
 public:
  // The most files that one session's KV is in. Each is opened to read it: 50 us of it, where a MiB takes 1 ms.
  static constexpr int32_t kFilesMax = 64;

  // With `keys` files are sealed (sealed_file.h): what they say, and what is checked of it, is the same.
  KvDisk(std::unique_ptr<LogDirectory> directory, KvFormat format, std::shared_ptr<const SessionKeys> keys = nullptr)
      : directory_(std::move(directory)), format_(std::move(format)), keys_(std::move(keys)) {}

  const KvFormat& format() const { return format_; }

  // Returns once a start would find it: 0, or an errno, negated. REQUIRES: the header has this format;
  // payload.size() == header.payload_bytes(); `head` is EncodeKvHead's, or PutOnto's. `wrote` is told after each piece how many bytes it
  // had, and may take its time; null: nobody asks.
  int Write(const KvFileHeader& header, std::string_view head, std::span<const std::byte> payload,
            const std::function<void(int64_t bytes)>& wrote = nullptr);
  int Write(const KvFileHeader& header, std::span<const std::byte> payload) {
    return Write(header, EncodeKvHead(header, payload), payload);
  }
  // Has the file go on from `base`, an earlier turn's of the session, as far as their payloads begin with the same chunks; by their
  // checksums, so the caller knows of another reason why they would. Not where the files would be too many, or come to more than half as
  // much again as the payload, for chunks that a later one has again. Waits for the disk.
  void PutOnto(const OpenKvFile& base, KvFileHeader* header, std::string* head);
  // 0 where there is none any more. `sync`: it stays away.
  int Remove(const SessionName& session, uint64_t turn, bool sync);
  int RemoveNamed(const std::string& name) { return directory_->Remove(name); }
  int List(std::vector<std::string>* names) { return directory_->List(names); }
  // What a file with this header takes.
  int64_t BytesOf(const KvFileHeader& header) const {
    return keys_ == nullptr ? header.file_bytes() : SealedBytes(header.file_bytes());
  }
  // Seals a file anew that another key has sealed; nothing where the key that seals has. 0, or an errno, negated: it is as it was.
  int Reseal(const std::string& name);
  // What the volume has room for, or an errno, negated. Any thread.
  int64_t FreeBytes() const { return directory_->FreeBytes(); }
  // Its size, or an errno, negated.
  int64_t SizeOf(const std::string& name);

  // Null, and the reason; kNone: there is no such file. With the files that it goes on from.
  std::shared_ptr<const OpenKvFile> Open(const SessionName& session, uint64_t turn, KvReject* reject);
  // What a file says of itself, of whichever weights it is. Nullopt: there is none, or it cannot be read.
  std::optional<KvFileHeader> ReadHeader(const SessionName& session, uint64_t turn);
  // Header and table, as far as they can be told to be those that were written: behind this chunks may be read. The trailer is looked
  // at, too.
  KvReject ReadHead(const OpenKvFile& file, std::string* head);
  // Chunk `i` of the payload into `out` [ChunkRange(…, i)].
  KvReject ReadChunk(const OpenKvFile& file, std::string_view head, int64_t i, std::span<std::byte> out);

  // Begins to take a file that comes from elsewhere, under a name that no start takes for one. Any thread.
  std::unique_ptr<KvIncoming> Receive(const KvBinding& expected, const std::string& unfinished);
  // It gets its name, and its bytes are durable: 0, or an errno, negated, and it is gone. REQUIRES: its Finish was well.
  int Adopt(KvIncoming& incoming);

  // All of the payload into `out` [payload_bytes], which is what was written only where kNone is returned.
  KvReject Read(const OpenKvFile& file, std::span<std::byte> out);

 private:
  std::unique_ptr<KvFileReader> OpenOne(const SessionName& session, uint64_t turn, KvFileHeader* header,
                                        KvReject* reject);
  KvReject ReadBaseHeader(const KvFileHeader& header, KvFileHeader* base);
  int Finish(int fd, int error, const std::string& unfinished, const std::string& name);

  const std::unique_ptr<LogDirectory> directory_;
  const KvFormat format_;
  const std::shared_ptr<const SessionKeys> keys_;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SESSIONS_KV_KV_DISK_H_
