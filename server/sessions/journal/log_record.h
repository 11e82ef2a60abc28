// LogRecord is how the token log is written: segments of records, each with a header that has a checksum of its own, so that a
// damaged payload does not hide where the next record begins.
//
// Segment: {magic 8, major u16, minor u16, number u32, directory 16, crc u32}, then records back to back.
// Record: {magic u32, type u8, flags u8, zero u16, payload bytes u32, payload crc u32, session 16, turn u64, turn before u64,
// wall clock i64, place of what it goes on from u32 u32, segment u32, crc of all that u32}, then the payload. Little endian; every
// crc is CRC-32C.
//
// Thread: any (plain data, pure functions).
//
// Invariants
//  1. A header is read only if its checksum fits and it names the segment that it is in: what is left of a file that was here
//     before is no record.
//  2. Nothing that is read is trusted further than its checksum: sizes are compared with what is there.
#ifndef HYDRANT_SERVER_SESSIONS_JOURNAL_LOG_RECORD_H_
#define HYDRANT_SERVER_SESSIONS_JOURNAL_LOG_RECORD_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/sessions/journal/session_keys.h"

namespace hydrant {

// A file of another major version is left alone; of another minor one what is unknown is skipped, or makes its session unreadable
// where the record says so.
inline constexpr uint16_t kLogMajor = 1;
inline constexpr uint16_t kLogMinor = 0;

// HMAC-SHA256 of the directory's secret over tenant and id, half of it: nothing that a client wrote names anything on disk.
using SessionName = std::array<uint8_t, 16>;
using DirectoryId = std::array<uint8_t, 16>;

enum class RecordType : uint8_t {
  kReplace = 1,  // all of a session's past
  kTurn = 2,     // what a turn added to the one before
  kForget = 3,   // the session is gone
  kKvRef = 4,    // reserved: where the turn's KV is
};
// A reader that does not know the type may not go on from this session.
inline constexpr uint8_t kRecordRequired = 1;
// The payload is sealed, beside what the header says (SealPayload).
inline constexpr uint8_t kRecordSealed = 2;

// Where a record is. Segment 0: nowhere.
struct LogPlace {
  uint32_t segment = 0;
  uint32_t offset = 0;
  friend bool operator==(const LogPlace&, const LogPlace&) = default;
};

struct RecordHeader {
  RecordType type = RecordType::kReplace;
  uint8_t flags = kRecordRequired;
  uint32_t payload_bytes = 0;
  uint32_t payload_crc = 0;
  SessionName name{};
  uint64_t turn = 0;
  uint64_t turn_before = 0;  // kTurn: what it was added to
  int64_t wall_s = 0;
  LogPlace before;  // kTurn: that one's record
  uint32_t segment = 0;
};
inline constexpr size_t kRecordHeaderBytes = 72;
inline constexpr size_t kSegmentHeaderBytes = 36;
// Largest payload: a session's whole past is bounded by the memory for sessions.
inline constexpr uint32_t kPayloadBytesMax = 1u << 28;

// The payload as it is written: with keys sealed, an empty one too, and the header says so.
std::string SealPayload(const SessionKeys* keys, RecordHeader* header, std::string_view payload);
// The payload as it was before. nullopt: it was not sealed with these keys, or is not what was sealed; with keys also one that is not
// sealed, for nobody who has them writes it.
std::optional<std::string> OpenPayload(const SessionKeys* keys, const RecordHeader& header, std::string_view payload);

// Appends header and payload; sizes and checksums are filled in.
void AppendRecord(RecordHeader header, std::string_view payload, std::string* out);
// nullopt: no header of this segment is here.
std::optional<RecordHeader> ParseRecordHeader(std::string_view bytes, uint32_t segment);

void AppendSegmentHeader(uint32_t number, const DirectoryId& directory, std::string* out);
struct SegmentHeader {
  uint16_t major = 0;
  uint32_t number = 0;
  DirectoryId directory{};
};
std::optional<SegmentHeader> ParseSegmentHeader(std::string_view bytes);

struct ScannedRecord {
  RecordHeader header;
  LogPlace place;
  std::string_view payload;  // empty unless whole
  bool whole = false;        // all of the payload is there, and its checksum fits
};
// Calls `visit` for every record of a segment's bytes, in their order; after a header that does not fit goes on at the next one that
// does. Returns how many bytes were no record.
int64_t ScanRecords(std::string_view segment_bytes, uint32_t number,
                    const std::function<void(const ScannedRecord&)>& visit);

// What is known of a session without its past.
struct SessionFacts {
  std::string tenant;  // its name
  std::string id;
  int64_t created_s = 0;  // Unix time
  int32_t tokens = 0;
  int32_t budget = 0;
  uint8_t policy = 0;  // KvPreset
};
// A payload is the facts, then what is the caller's.
void AppendFacts(const SessionFacts& facts, std::string* out);
// Takes the facts from the front of `payload`. nullopt: there are none.
std::optional<SessionFacts> TakeFacts(std::string_view* payload);

// What a kReplace holds behind the facts: the bodies of the chain that it takes the place of, at least one.
void AppendBodies(std::span<const std::string> bodies, std::string* out);
// False: that is not what `payload` is.
bool ReadBodies(std::string_view payload, std::vector<std::string>* bodies);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SESSIONS_JOURNAL_LOG_RECORD_H_
