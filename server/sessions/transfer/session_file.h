// SessionFile is a session on its way between two servers, or from one into a file: what it has said, whole, with checksums, and
// where its sender was asked for it its KV (application/vnd.hydrant.session).
//
// {magic 8, major u16, minor u16, bytes of the header u32, bytes in all u64, zero u32, crc u32 of these}, then the header {model 16,
// turn u64, last used i64, facts, whatever a later minor version adds, crc u32 of the header}, then sections back to back: {type u8,
// flags u8, zero u16, crc u32 of the content, bytes of it u64, crc u32 of these}, then the content. Little endian; every crc is
// CRC-32C. Of a section that is not known the flags say whether the session means anything without it.
//
// What was said is in memory wherever the session is, and so it is here. KV is a thousand times more: it is a section that goes from
// one disk to the other piece by piece, behind what was said. Its content is a KV file (kv/kv_file.h) that is nobody's: the names of
// directory and session in it are zeros.
//
// Thread: any (plain data, pure functions).
#ifndef HYDRANT_SERVER_SESSIONS_TRANSFER_SESSION_FILE_H_
#define HYDRANT_SERVER_SESSIONS_TRANSFER_SESSION_FILE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/sessions/journal/log_record.h"

namespace hydrant {

inline constexpr std::string_view kSessionFileType = "application/vnd.hydrant.session";
// The field that names who gives it: another one for every run of a server.
inline constexpr std::string_view kSessionHolderField = "x-hydrant-instance";
inline constexpr uint16_t kSessionFileMajor = 1;
inline constexpr uint16_t kSessionFileMinor = 0;

struct SessionFile {
  SessionFacts facts;
  std::array<uint8_t, 16> model{};  // ModelId
  uint64_t turn = 0;                // the last, >= 1
  int64_t used_s = 0;               // Unix time
  std::string past;                 // EncodePast's, of all of it
};

std::string WriteSessionFile(const SessionFile& file);
// The same but for its KV, which its writer lets follow: `kv_bytes` bytes whose checksum is `kv_crc`; 0: there is none.
std::string WriteSessionHead(const SessionFile& file, uint64_t kv_bytes, uint32_t kv_crc);

// Reads what anybody may have made. What `past` says is not looked at, and KV is passed over. Errors, which name the part:
// INVALID_ARGUMENT for what is not such a file, or not whole; UNIMPLEMENTED for one of a later version.
absl::StatusOr<SessionFile> ReadSessionFile(std::string_view bytes);

// The same, piece by piece: it holds what was said, and nothing of the KV.
class SessionFileReader {
 public:
  // Who takes the KV; null: nobody. Either may refuse the whole file; what it says is what Take says.
  struct KvTaker {
    // The rest has been read, and `bytes` bytes of KV come.
    std::function<absl::Status(const SessionFile& file, uint64_t bytes)> begin;
    // The next of them. That all of them are what was written is known when Finish says so.
    std::function<absl::Status(std::string_view piece)> take;
  };

  // `bytes`: of the whole file, as whoever sends it says. `past_bytes_max`: RESOURCE_EXHAUSTED for one that says more.
  SessionFileReader(uint64_t bytes, uint64_t past_bytes_max, KvTaker kv = {})
      : bytes_(bytes), past_bytes_max_(past_bytes_max), kv_(std::move(kv)) {}

  // Errors: ReadSessionFile's. After one nothing more may come.
  absl::Status Take(std::string_view bytes);
  // No more comes.
  absl::Status Finish();
  // REQUIRES: Finish was well, or it is KvTaker::begin that asks.
  SessionFile& file() { return file_; }

 private:
  enum class Part : uint8_t { kStart, kHeader, kSection, kContent, kEnd };

  absl::Status TakePart();
  absl::Status TakeStart();
  absl::Status TakeSection();
  absl::Status TakeContent(std::string_view piece);
  absl::Status EndSection();
  std::string Name() const;  // of the part that is being read

  const uint64_t bytes_;
  const uint64_t past_bytes_max_;
  const KvTaker kv_;
  SessionFile file_;
  Part part_ = Part::kStart;
  uint64_t read_ = 0;
  std::string buffer_;  // what has come of a part that is read as a whole, and how much of it there has to be
  size_t part_bytes_ = 32;
  int section_ = 0;  // its number
  uint8_t type_ = 0;
  uint32_t crc_said_ = 0, crc_ = 0;
  uint64_t content_left_ = 0;
  bool has_past_ = false, has_kv_ = false;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SESSIONS_TRANSFER_SESSION_FILE_H_
