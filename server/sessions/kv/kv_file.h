// KvFile is how the KV that a turn left is written to disk: a file by itself, or one that goes on from the file of an earlier turn of the
// session, whose payload begins alike. It is used as a whole or not at all.
//
//   header   4 KiB: {magic 8, major u16, minor u16, features u32, endian mark u32, directory 16, session 16, turn u64, computed i32,
//            live i32, tokens 32, policy 32, model 32, device 32, layers i32, KV heads i32, head size i32, slots of a block i32,
//            type u8, inspected u8, bytes of a block u64, bytes of the payload u64, bytes of a chunk u32, wall clock i64; with the feature
//            kKvFeatureBase: turn of the file before u64, bytes of the payload that are there u64}, zeros, crc u32
//   table    a crc u32 of each chunk of the payload, of those in the file before, too; zeros up to whole 4 KiB
//   payload  what Device::ExportBlocks wrote, block after block, without what is in the file before
//   trailer  24 bytes: {magic 8, bytes of the file u64, crc of header and table u32, crc of these 20 bytes u32}
//
// Numbers are little endian; what is in the payload is as the machine has it, which the endian mark (written as the machine has it,
// too) says. Every crc is CRC-32C; there is no byte of the file that none of them covers.
//
// Thread: any (plain data, pure functions).
//
// Invariants
//  1. Nothing that is read is trusted further than its checksum: sizes are compared with what is there before they are used.
//  2. A checksum says that the bytes are those that were written; the rest of the header says whose they are. Only both together let
//     a turn go on from them: CheckKvFile, then every chunk, then CheckPositions.
#ifndef HYDRANT_SERVER_SESSIONS_KV_KV_FILE_H_
#define HYDRANT_SERVER_SESSIONS_KV_KV_FILE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "server/process/sha256.h"
#include "server/sessions/journal/log_record.h"

namespace hydrant {

// Files of another major version are not read; of another minor one they are, unless they have a feature that is not known here.
inline constexpr uint16_t kKvFileMajor = 1;
inline constexpr uint16_t kKvFileMinor = 0;
inline constexpr size_t kKvHeaderBytes = 4096;
inline constexpr size_t kKvTrailerBytes = 24;
inline constexpr size_t kKvChunkBytes = 1 << 20;
inline constexpr uint32_t kKvFeatureBase = 1;
inline constexpr size_t kKvDeviceBytes = 32;

// What the bytes of a block mean. Of two that differ in anything the one cannot be read as the other.
struct KvFormat {
  DirectoryId directory{};
  Sha256Digest model{};  // of the content of every weight, and of what is made of it
  std::string device;    // Device::kv_format(); at most kKvDeviceBytes bytes
  int32_t layers = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  uint8_t type = 0;         // KvType
  bool inspected = false;   // KvCacheLayout::inspected
  int64_t block_bytes = 0;  // KvCacheLayout::block_bytes
  friend bool operator==(const KvFormat&, const KvFormat&) = default;
};

// Whose KV it is, and after which history.
struct KvBinding {
  SessionName session{};  // derived from tenant and id
  uint64_t turn = 0;
  int32_t computed = 0;   // tokens that it stands for
  Sha256Digest tokens{};  // of these
  Sha256Digest policy{};  // of the session's KV policy, as it is written into the log
  friend bool operator==(const KvBinding&, const KvBinding&) = default;
};
// `tokens` [computed].
Sha256Digest DigestOfTokens(std::span<const int32_t> tokens);

struct KvFileHeader {
  KvFormat format;
  KvBinding binding;
  int32_t live = 0;    // slots; >= 1
  int64_t wall_s = 0;  // Unix time at which the turn ended
  // The first bytes of the payload are the first of that turn's; 0: the file has all of it.
  uint64_t base_turn = 0;
  int64_t base_bytes = 0;  // whole chunks, and less than there are

  int64_t payload_bytes() const;
  int64_t chunks() const;
  // Header and table together: the payload begins behind them.
  int64_t head_bytes() const;
  int64_t own_bytes() const { return payload_bytes() - base_bytes; }  // of the payload, in this file
  int64_t file_bytes() const { return head_bytes() + own_bytes() + static_cast<int64_t>(kKvTrailerBytes); }
};

// Why a file is not used. kNone: it is.
enum class KvReject : uint8_t {
  kNone,
  kIo,            // a call of the system failed
  kShort,         // it ends before its end, or after it
  kDamaged,       // a checksum does not fit, or there is something that no writer writes
  kOtherVersion,  // of another major version, or with a feature that is not known here
  kDirectory,     // written for another directory
  kSession,       // for another tenant or session
  kTurn,          // for another turn
  kModel,         // of other weights
  kLayout,        // of another device, type or shape
  kTokens,        // after another history
  kPolicy,        // under another KV policy
  kPositions,     // positions that its tokens do not have
  kMemory,        // there was none to read it into
  kBusy,          // too much was to be read at once
  kTimeout,       // the disk did not answer in time
  kKey,           // sealed with a key that is not here, or not as the directory is
  kSlower,        // reading it would take longer than computing
};
inline constexpr size_t kKvRejects = 18;
std::string_view KvRejectName(KvReject reject);

// The first 4 KiB.
std::string EncodeKvHeader(const KvFileHeader& header);
// Header and table. REQUIRES: payload.size() == header.payload_bytes().
std::string EncodeKvHead(const KvFileHeader& header, std::span<const std::byte> payload);
// `head`: what EncodeKvHead gave.
std::string EncodeKvTrailer(const KvFileHeader& header, std::string_view head);

// A header by itself, checksum and ranges; `reject` says why not. `bytes` [>= kKvHeaderBytes] may be longer.
std::optional<KvFileHeader> DecodeKvHeader(std::string_view bytes, KvReject* reject);
// Whether the file is what somebody expects of it. `head` is header and table [head_bytes], `trailer` what the file ends with.
KvReject CheckKvFile(const KvFileHeader& header, std::string_view head, std::string_view trailer, int64_t file_bytes);
KvReject CheckKvFormat(const KvFormat& file, const KvFormat& own);
KvReject CheckKvBinding(const KvBinding& file, const KvBinding& own);
// Whether this is chunk `i` of the payload. REQUIRES: `head` as CheckKvFile found it; i < header.chunks().
bool ChunkFits(std::string_view head, int64_t i, std::string_view chunk);
// What the table says of it.
uint32_t CrcOfChunk(std::string_view head, int64_t i);
// Where it lies in the payload: [first, second).
std::pair<int64_t, int64_t> ChunkRange(const KvFileHeader& header, int64_t i);
// Whether every live slot has a position in [0, computed). Rotation looks positions up in a table.
bool CheckPositions(const KvFileHeader& header, std::span<const std::byte> payload);
// The same of block `i`, whose bytes these are [block_bytes].
bool CheckBlockPositions(const KvFileHeader& header, int64_t i, std::span<const std::byte> block);
// Whether every live slot of it has a score that is a number.
bool CheckBlockScores(const KvFileHeader& header, int64_t i, std::span<const std::byte> block);

// A whole file in memory, with all of its payload; the checks above together. `binding` null: whosever it is. On kNone *header and *payload (within `file`)
// are set.
KvReject ReadKvFile(std::string_view file, const KvFormat& own, const KvBinding* binding, KvFileHeader* header,
                    std::string_view* payload);

// "0123…cdef.7.kv", in which nothing is what a client wrote; and back.
std::string KvFileName(const SessionName& session, uint64_t turn);
struct KvFileNameParts {
  SessionName session{};
  uint64_t turn = 0;
};
std::optional<KvFileNameParts> ParseKvFileName(std::string_view name);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SESSIONS_KV_KV_FILE_H_
