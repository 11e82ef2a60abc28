// SessionFile is a session on its way between two servers, or from one into a file: what it has said, whole, with checksums
// (application/vnd.hydrant.session).
//
// {magic 8, major u16, minor u16, bytes of the header u32, bytes in all u64, zero u32, crc u32 of these}, then the header {model 16,
// turn u64, last used i64, facts, whatever a later minor version adds, crc u32 of the header}, then sections back to back: {type u8,
// flags u8, zero u16, crc u32 of the content, bytes of it u64, crc u32 of these}, then the content. Little endian; every crc is
// CRC-32C. Of a section that is not known the flags say whether the session means anything without it.
//
// Thread: any (plain data, pure functions).
#ifndef HYDRANT_SERVER_SESSIONS_TRANSFER_SESSION_FILE_H_
#define HYDRANT_SERVER_SESSIONS_TRANSFER_SESSION_FILE_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/sessions/journal/log_record.h"

namespace hydrant {

inline constexpr std::string_view kSessionFileType = "application/vnd.hydrant.session";
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

// Reads what anybody may have made. What `past` says is not looked at. Errors, which name the part: INVALID_ARGUMENT for what is not
// such a file, or not whole; UNIMPLEMENTED for one of a later version.
absl::StatusOr<SessionFile> ReadSessionFile(std::string_view bytes);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SESSIONS_TRANSFER_SESSION_FILE_H_
