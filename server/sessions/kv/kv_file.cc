#include "server/sessions/kv/kv_file.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "kernels/step/block_ops.h"
#include "server/sessions/journal/byte_codec.h"
#include "server/sessions/journal/crc32c.h"

namespace hydrant {
namespace {

constexpr std::string_view kHeaderMagic = "HYDRKVF1";
constexpr std::string_view kTrailerMagic = "HYDRKVE1";
constexpr uint32_t kEndianMark = 0x01020304;
constexpr uint32_t kKnownFeatures = kKvFeatureBase;
// More than any device has. Products of these fit into 64 bits.
constexpr int32_t kShapeMax = 1 << 16;
constexpr int64_t kBlockBytesMax = int64_t{1} << 32;
constexpr int64_t kPayloadBytesMaxOfFile = int64_t{1} << 46;

constexpr std::array<std::string_view, kKvRejects> kRejectNames = {
    "none",   "io",     "short",  "damaged",   "version", "directory", "session", "turn", "model",
    "layout", "tokens", "policy", "positions", "memory",  "busy",      "timeout", "key",  "slower"};

std::string_view View(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The mark is what the payload's numbers are: in the machine's order.
void PutNative(uint32_t value, std::string* out) {
  char bytes[sizeof(value)];
  std::memcpy(bytes, &value, sizeof(value));
  out->append(bytes, sizeof(bytes));
}
uint32_t ReadNative(ByteReader* reader) {
  uint32_t value = 0;
  const std::string_view from = reader->Bytes(sizeof(value));
  if (from.size() == sizeof(value)) std::memcpy(&value, from.data(), sizeof(value));
  return value;
}

// Calls visit(bytes of a number) for the numbers of every live slot in the arrays that begin at `begin` of block `i`.
template <typename Visit>
bool EachOfBlock(const KvFileHeader& header, int64_t i, std::span<const std::byte> block, size_t begin, int64_t arrays,
                 const Visit& visit) {
  const int64_t tiles = int64_t{header.format.layers} * header.format.kv_heads;
  const int64_t slots = std::min<int64_t>(kBlockSlots, header.live - i * kBlockSlots);
  for (int64_t tile = 0; tile < arrays * tiles; ++tile) {
    const std::byte* const at = block.data() + begin + tile * kBlockSlots * 4;
    for (int64_t slot = 0; slot < slots; ++slot) {
      if (!visit(at + slot * 4)) return false;
    }
  }
  return true;
}

// What scores, or positions, of a block take.
size_t ArrayBytes(const KvFormat& format) {
  return static_cast<size_t>(int64_t{format.layers} * format.kv_heads * kBlockSlots) * sizeof(int32_t);
}
// A block ends with its positions, and with the logical ones behind them where the cache is inspected; before them are its scores
// (kernels/kv_pieces.h).
int64_t PositionArrays(const KvFormat& format) { return format.inspected ? 2 : 1; }

bool RangesFit(const KvFileHeader& header, int64_t payload_bytes) {
  const KvFormat& format = header.format;
  const auto in = [](int64_t value, int64_t most) { return value >= 1 && value <= most; };
  if (!in(format.layers, kShapeMax) || !in(format.kv_heads, kShapeMax) || !in(format.head_dim, kShapeMax)) return false;
  if (!in(format.block_bytes, kBlockBytesMax) || header.live < 1 || header.binding.computed < header.live) return false;
  if (header.binding.turn == 0) return false;
  // What positions are looked for in.
  const int64_t tiles = int64_t{format.layers} * format.kv_heads;
  const int64_t beside = tiles * kBlockSlots * (format.inspected ? 12 : 8);
  return beside <= format.block_bytes && payload_bytes <= kPayloadBytesMaxOfFile &&
         payload_bytes == header.payload_bytes();
}

// Something of it is in the file of a turn before.
bool HasBase(const KvFileHeader& header) {
  return header.base_turn > 0 && header.base_turn < header.binding.turn && header.base_bytes > 0 &&
         header.base_bytes < header.payload_bytes() && header.base_bytes % static_cast<int64_t>(kKvChunkBytes) == 0;
}

}  // namespace

std::string_view KvRejectName(KvReject reject) { return kRejectNames[static_cast<size_t>(reject)]; }

Sha256Digest DigestOfTokens(std::span<const int32_t> tokens) {
  std::string bytes;
  bytes.reserve(tokens.size() * sizeof(int32_t));
  for (const int32_t token : tokens) PutFixed(token, &bytes);
  return Sha256(bytes);
}

int64_t KvFileHeader::payload_bytes() const { return BlocksForSlots(live) * format.block_bytes; }

int64_t KvFileHeader::chunks() const {
  constexpr auto kChunk = static_cast<int64_t>(kKvChunkBytes);
  return (payload_bytes() + kChunk - 1) / kChunk;
}

int64_t KvFileHeader::head_bytes() const {
  constexpr auto kPage = static_cast<int64_t>(kKvHeaderBytes);
  const int64_t table = chunks() * static_cast<int64_t>(sizeof(uint32_t));
  return kPage + (table + kPage - 1) / kPage * kPage;
}

std::pair<int64_t, int64_t> ChunkRange(const KvFileHeader& header, int64_t i) {
  constexpr auto kChunk = static_cast<int64_t>(kKvChunkBytes);
  return {i * kChunk, std::min((i + 1) * kChunk, header.payload_bytes())};
}

std::string EncodeKvHeader(const KvFileHeader& header) {
  assert(header.format.device.size() <= kKvDeviceBytes);
  const KvFormat& format = header.format;
  const KvBinding& binding = header.binding;
  std::string out(kHeaderMagic);
  PutFixed(kKvFileMajor, &out);
  PutFixed(kKvFileMinor, &out);
  PutFixed(header.base_turn != 0 ? kKvFeatureBase : 0, &out);
  PutNative(kEndianMark, &out);
  PutArray(format.directory, &out);
  PutArray(binding.session, &out);
  PutFixed(binding.turn, &out);
  PutFixed(binding.computed, &out);
  PutFixed(header.live, &out);
  PutArray(binding.tokens, &out);
  PutArray(binding.policy, &out);
  PutArray(format.model, &out);
  out.append(format.device).append(kKvDeviceBytes - format.device.size(), '\0');
  for (const int32_t value : {format.layers, format.kv_heads, format.head_dim, kBlockSlots}) PutFixed(value, &out);
  PutFixed(format.type, &out);
  PutFixed(static_cast<uint8_t>(format.inspected ? 1 : 0), &out);
  PutFixed(format.block_bytes, &out);
  PutFixed(header.payload_bytes(), &out);
  PutFixed(static_cast<uint32_t>(kKvChunkBytes), &out);
  PutFixed(header.wall_s, &out);
  if (header.base_turn != 0) {
    PutFixed(header.base_turn, &out);
    PutFixed(header.base_bytes, &out);
  }
  out.resize(kKvHeaderBytes - sizeof(uint32_t), '\0');
  PutFixed(Crc32c(out), &out);
  return out;
}

std::string EncodeKvHead(const KvFileHeader& header, std::span<const std::byte> payload) {
  assert(std::ssize(payload) == header.payload_bytes());
  std::string out = EncodeKvHeader(header);
  out.reserve(static_cast<size_t>(header.head_bytes()));
  const std::string_view bytes = View(payload);
  for (int64_t i = 0; i < header.chunks(); ++i) {
    const auto [begin, end] = ChunkRange(header, i);
    PutFixed(Crc32c(bytes.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin))), &out);
  }
  out.resize(static_cast<size_t>(header.head_bytes()), '\0');
  return out;
}

std::string EncodeKvTrailer(const KvFileHeader& header, std::string_view head) {
  std::string out(kTrailerMagic);
  PutFixed(header.file_bytes(), &out);
  PutFixed(Crc32c(head), &out);
  PutFixed(Crc32c(out), &out);
  return out;
}

std::optional<KvFileHeader> DecodeKvHeader(std::string_view bytes, KvReject* reject) {
  *reject = KvReject::kShort;
  if (bytes.size() < kKvHeaderBytes) return std::nullopt;
  bytes = bytes.substr(0, kKvHeaderBytes);
  *reject = KvReject::kDamaged;
  const std::string_view covered = bytes.substr(0, kKvHeaderBytes - sizeof(uint32_t));
  ByteReader crc(bytes.substr(covered.size()));
  if (!bytes.starts_with(kHeaderMagic) || Crc32c(covered) != crc.Fixed<uint32_t>()) return std::nullopt;
  ByteReader reader(covered.substr(kHeaderMagic.size()));
  const auto major = reader.Fixed<uint16_t>(), minor = reader.Fixed<uint16_t>();
  const auto features = reader.Fixed<uint32_t>();
  if (major != kKvFileMajor || (features & ~kKnownFeatures) != 0) {
    *reject = KvReject::kOtherVersion;
    return std::nullopt;
  }
  if (ReadNative(&reader) != kEndianMark) {
    *reject = KvReject::kLayout;
    return std::nullopt;
  }
  KvFileHeader header;
  KvFormat& format = header.format;
  KvBinding& binding = header.binding;
  format.directory = reader.Array<std::tuple_size_v<DirectoryId>>();
  binding.session = reader.Array<std::tuple_size_v<SessionName>>();
  binding.turn = reader.Fixed<uint64_t>();
  binding.computed = reader.Fixed<int32_t>();
  header.live = reader.Fixed<int32_t>();
  binding.tokens = reader.Array<std::tuple_size_v<Sha256Digest>>();
  binding.policy = reader.Array<std::tuple_size_v<Sha256Digest>>();
  format.model = reader.Array<std::tuple_size_v<Sha256Digest>>();
  const std::string_view device = reader.Bytes(kKvDeviceBytes);
  const size_t device_bytes = std::min(device.find('\0'), device.size());
  format.device = device.substr(0, device_bytes);
  const bool padded = device.find_first_not_of('\0', device_bytes) == std::string_view::npos;
  for (int32_t* value : {&format.layers, &format.kv_heads, &format.head_dim}) *value = reader.Fixed<int32_t>();
  const auto slots = reader.Fixed<int32_t>();
  format.type = reader.Fixed<uint8_t>();
  const auto inspected = reader.Fixed<uint8_t>();
  format.inspected = inspected == 1;
  format.block_bytes = reader.Fixed<int64_t>();
  const auto payload_bytes = reader.Fixed<int64_t>();
  const auto chunk_bytes = reader.Fixed<uint32_t>();
  header.wall_s = reader.Fixed<int64_t>();
  const bool has_base = (features & kKvFeatureBase) != 0;
  if (has_base) {
    header.base_turn = reader.Fixed<uint64_t>();
    header.base_bytes = reader.Fixed<int64_t>();
  }
  // A later minor version may have put something behind this.
  const bool nothing_more = reader.left().find_first_not_of('\0') == std::string_view::npos;
  if (!reader.ok() || (!nothing_more && minor == kKvFileMinor) || !padded || inspected > 1 || slots != kBlockSlots ||
      chunk_bytes != kKvChunkBytes || !RangesFit(header, payload_bytes) || has_base != HasBase(header)) {
    return std::nullopt;
  }
  *reject = KvReject::kNone;
  return header;
}

KvReject CheckKvFile(const KvFileHeader& header, std::string_view head, std::string_view trailer, int64_t file_bytes) {
  if (file_bytes != header.file_bytes() || std::ssize(head) != header.head_bytes() || trailer.size() != kKvTrailerBytes)
    return KvReject::kShort;
  ByteReader reader(trailer.substr(kTrailerMagic.size()));
  const auto said_bytes = reader.Fixed<int64_t>();
  const auto head_crc = reader.Fixed<uint32_t>(), crc = reader.Fixed<uint32_t>();
  const bool whole = trailer.starts_with(kTrailerMagic) && crc == Crc32c(trailer.substr(0, kKvTrailerBytes - 4)) &&
                     said_bytes == file_bytes && head_crc == Crc32c(head);
  if (!whole) return KvReject::kDamaged;
  const auto table_end = kKvHeaderBytes + static_cast<size_t>(header.chunks()) * sizeof(uint32_t);
  return head.find_first_not_of('\0', table_end) == std::string_view::npos ? KvReject::kNone : KvReject::kDamaged;
}

KvReject CheckKvFormat(const KvFormat& file, const KvFormat& own) {
  if (file.directory != own.directory) return KvReject::kDirectory;
  if (file.model != own.model) return KvReject::kModel;
  return file == own ? KvReject::kNone : KvReject::kLayout;
}

KvReject CheckKvBinding(const KvBinding& file, const KvBinding& own) {
  if (file.session != own.session) return KvReject::kSession;
  if (file.turn != own.turn) return KvReject::kTurn;
  if (file.computed != own.computed || file.tokens != own.tokens) return KvReject::kTokens;
  return file.policy == own.policy ? KvReject::kNone : KvReject::kPolicy;
}

uint32_t CrcOfChunk(std::string_view head, int64_t i) {
  ByteReader reader(head.substr(kKvHeaderBytes + static_cast<size_t>(i) * sizeof(uint32_t)));
  return reader.Fixed<uint32_t>();
}

bool ChunkFits(std::string_view head, int64_t i, std::string_view chunk) {
  return Crc32c(chunk) == CrcOfChunk(head, i);
}

bool CheckBlockPositions(const KvFileHeader& header, int64_t i, std::span<const std::byte> block) {
  const int64_t arrays = PositionArrays(header.format);
  const size_t begin = block.size() - static_cast<size_t>(arrays) * ArrayBytes(header.format);
  return EachOfBlock(header, i, block, begin, arrays, [&](const std::byte* at) {
    int32_t position = 0;
    std::memcpy(&position, at, sizeof(position));
    return position >= 0 && position < header.binding.computed;
  });
}

bool CheckBlockScores(const KvFileHeader& header, int64_t i, std::span<const std::byte> block) {
  const size_t behind = static_cast<size_t>(PositionArrays(header.format) + 1) * ArrayBytes(header.format);
  return EachOfBlock(header, i, block, block.size() - behind, 1, [](const std::byte* at) {
    float score = 0;
    std::memcpy(&score, at, sizeof(score));
    return std::isfinite(score) && score >= 0;
  });
}

bool CheckPositions(const KvFileHeader& header, std::span<const std::byte> payload) {
  const auto block_bytes = static_cast<size_t>(header.format.block_bytes);
  for (int64_t i = 0; i < BlocksForSlots(header.live); ++i) {
    if (!CheckBlockPositions(header, i, payload.subspan(static_cast<size_t>(i) * block_bytes, block_bytes)))
      return false;
  }
  return true;
}

KvReject ReadKvFile(std::string_view file, const KvFormat& own, const KvBinding* binding, KvFileHeader* header,
                    std::string_view* payload) {
  KvReject reject = KvReject::kNone;
  const std::optional<KvFileHeader> decoded = DecodeKvHeader(file, &reject);
  if (!decoded.has_value()) return reject;
  if (decoded->base_turn != 0 || std::ssize(file) != decoded->file_bytes()) return KvReject::kShort;
  const auto head_bytes = static_cast<size_t>(decoded->head_bytes());
  const std::string_view head = file.substr(0, head_bytes);
  reject = CheckKvFile(*decoded, head, file.substr(file.size() - kKvTrailerBytes), std::ssize(file));
  if (reject == KvReject::kNone) reject = CheckKvFormat(decoded->format, own);
  if (reject == KvReject::kNone && binding != nullptr) reject = CheckKvBinding(decoded->binding, *binding);
  if (reject != KvReject::kNone) return reject;
  const std::string_view bytes = file.substr(head_bytes, static_cast<size_t>(decoded->payload_bytes()));
  for (int64_t i = 0; i < decoded->chunks(); ++i) {
    const auto [begin, end] = ChunkRange(*decoded, i);
    const std::string_view chunk = bytes.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    if (!ChunkFits(head, i, chunk)) return KvReject::kDamaged;
  }
  if (!CheckPositions(*decoded, std::as_bytes(std::span(bytes)))) return KvReject::kPositions;
  *header = *decoded;
  *payload = bytes;
  return KvReject::kNone;
}

std::string KvFileName(const SessionName& session, uint64_t turn) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string name;
  for (const uint8_t byte : session) {
    name.push_back(kDigits[byte >> 4]);
    name.push_back(kDigits[byte & 15]);
  }
  return name.append(".").append(std::to_string(turn)).append(".kv");
}

std::optional<KvFileNameParts> ParseKvFileName(std::string_view name) {
  KvFileNameParts parts;
  const size_t digits = 2 * parts.session.size();
  if (name.size() < digits + 2 || !name.ends_with(".kv") || name[digits] != '.') return std::nullopt;
  for (size_t i = 0; i < parts.session.size(); ++i) {
    const char* const at = name.data() + 2 * i;
    const auto [end, error] = std::from_chars(at, at + 2, parts.session[i], 16);
    if (error != std::errc() || end != at + 2) return std::nullopt;
  }
  const std::string_view turn = name.substr(digits + 1, name.size() - digits - 1 - std::string_view(".kv").size());
  const auto [end, error] = std::from_chars(turn.data(), turn.data() + turn.size(), parts.turn);
  if (error != std::errc() || end != turn.data() + turn.size()) return std::nullopt;
  // The one name that a writer gives it.
  return KvFileName(parts.session, parts.turn) == name ? std::optional(parts) : std::nullopt;
}

}  // namespace hydrant
