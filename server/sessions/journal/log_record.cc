#include "server/sessions/journal/log_record.h"

#include <limits>

#include "server/sessions/journal/byte_codec.h"
#include "server/sessions/journal/crc32c.h"

namespace hydrant {
namespace {

constexpr uint32_t kRecordMagic = 0x31524853;  // "SHR1"
constexpr std::string_view kSegmentMagic = "HYDRNTL1";
constexpr std::string_view kSealedRecord = "record";

std::string_view View(const SessionName& name) { return {reinterpret_cast<const char*>(name.data()), name.size()}; }

// What a payload cannot be parted from.
std::string Beside(const RecordHeader& header) {
  std::string out;
  PutFixed(static_cast<uint8_t>(header.type), &out);
  PutFixed(header.flags, &out);
  PutArray(header.name, &out);
  PutFixed(header.turn, &out);
  PutFixed(header.turn_before, &out);
  PutFixed(header.wall_s, &out);
  PutFixed(header.before.segment, &out);
  PutFixed(header.before.offset, &out);
  PutFixed(header.segment, &out);
  return out;
}

}  // namespace

std::string SealPayload(const SessionKeys* keys, RecordHeader* header, std::string_view payload) {
  if (keys == nullptr) return std::string(payload);
  header->flags |= kRecordSealed;
  return keys->SealText(kSealedRecord, View(header->name), Beside(*header), payload);
}

std::optional<std::string> OpenPayload(const SessionKeys* keys, const RecordHeader& header, std::string_view payload) {
  const bool sealed = (header.flags & kRecordSealed) != 0;
  if (keys == nullptr && !sealed) return std::string(payload);
  if (keys == nullptr || !sealed) return std::nullopt;
  return keys->OpenText(kSealedRecord, View(header.name), Beside(header), payload);
}

void AppendRecord(RecordHeader header, std::string_view payload, std::string* out) {
  const size_t begin = out->size();
  PutFixed(kRecordMagic, out);
  PutFixed(static_cast<uint8_t>(header.type), out);
  PutFixed(header.flags, out);
  PutFixed(uint16_t{0}, out);
  PutFixed(static_cast<uint32_t>(payload.size()), out);
  PutFixed(Crc32c(payload), out);
  PutArray(header.name, out);
  PutFixed(header.turn, out);
  PutFixed(header.turn_before, out);
  PutFixed(header.wall_s, out);
  PutFixed(header.before.segment, out);
  PutFixed(header.before.offset, out);
  PutFixed(header.segment, out);
  PutFixed(Crc32c(std::string_view(*out).substr(begin)), out);
  out->append(payload);
}

std::optional<RecordHeader> ParseRecordHeader(std::string_view bytes, uint32_t segment) {
  if (bytes.size() < kRecordHeaderBytes) return std::nullopt;
  ByteReader reader(bytes.substr(0, kRecordHeaderBytes));
  RecordHeader header;
  if (reader.Fixed<uint32_t>() != kRecordMagic) return std::nullopt;
  header.type = static_cast<RecordType>(reader.Fixed<uint8_t>());
  header.flags = reader.Fixed<uint8_t>();
  reader.Fixed<uint16_t>();
  header.payload_bytes = reader.Fixed<uint32_t>();
  header.payload_crc = reader.Fixed<uint32_t>();
  header.name = reader.Array<16>();
  header.turn = reader.Fixed<uint64_t>();
  header.turn_before = reader.Fixed<uint64_t>();
  header.wall_s = reader.Fixed<int64_t>();
  header.before.segment = reader.Fixed<uint32_t>();
  header.before.offset = reader.Fixed<uint32_t>();
  header.segment = reader.Fixed<uint32_t>();
  const auto crc = reader.Fixed<uint32_t>();
  if (crc != Crc32c(bytes.substr(0, kRecordHeaderBytes - 4)) || header.segment != segment) return std::nullopt;
  if (header.payload_bytes > kPayloadBytesMax) return std::nullopt;
  return header;
}

void AppendSegmentHeader(uint32_t number, const DirectoryId& directory, std::string* out) {
  const size_t begin = out->size();
  out->append(kSegmentMagic);
  PutFixed(kLogMajor, out);
  PutFixed(kLogMinor, out);
  PutFixed(number, out);
  PutArray(directory, out);
  PutFixed(Crc32c(std::string_view(*out).substr(begin)), out);
}

std::optional<SegmentHeader> ParseSegmentHeader(std::string_view bytes) {
  if (bytes.size() < kSegmentHeaderBytes || !bytes.starts_with(kSegmentMagic)) return std::nullopt;
  ByteReader reader(bytes.substr(kSegmentMagic.size(), kSegmentHeaderBytes - kSegmentMagic.size()));
  SegmentHeader header;
  header.major = reader.Fixed<uint16_t>();
  reader.Fixed<uint16_t>();
  header.number = reader.Fixed<uint32_t>();
  header.directory = reader.Array<16>();
  if (reader.Fixed<uint32_t>() != Crc32c(bytes.substr(0, kSegmentHeaderBytes - 4))) return std::nullopt;
  return header;
}

int64_t ScanRecords(std::string_view segment_bytes, uint32_t number,
                    const std::function<void(const ScannedRecord&)>& visit) {
  std::string magic;
  PutFixed(kRecordMagic, &magic);
  int64_t lost = 0;
  size_t at = kSegmentHeaderBytes;
  while (at < segment_bytes.size()) {
    const std::string_view rest = segment_bytes.substr(at);
    const std::optional<RecordHeader> header = ParseRecordHeader(rest, number);
    if (!header.has_value()) {
      const size_t next = segment_bytes.find(magic, at + 1);
      const size_t end = next == std::string_view::npos ? segment_bytes.size() : next;
      lost += static_cast<int64_t>(end - at);
      at = end;
      continue;
    }
    ScannedRecord record{*header, {number, static_cast<uint32_t>(at)}, {}, false};
    const std::string_view payload = rest.substr(kRecordHeaderBytes);
    if (header->payload_bytes <= payload.size()) {
      record.payload = payload.substr(0, header->payload_bytes);
      record.whole = Crc32c(record.payload) == header->payload_crc;
    }
    if (!record.whole) record.payload = {};
    visit(record);
    at += kRecordHeaderBytes;
    // Behind a payload that does not fit may be anything, also inside of what it says its length is: records whose pages came to
    // the disk before this one's did.
    if (record.whole) {
      at += header->payload_bytes;
      continue;
    }
    const size_t next = segment_bytes.find(magic, at);
    const size_t end = next == std::string_view::npos ? segment_bytes.size() : next;
    lost += static_cast<int64_t>(end - at);
    at = end;
  }
  return lost;
}

void AppendFacts(const SessionFacts& facts, std::string* out) {
  PutString(facts.tenant, out);
  PutString(facts.id, out);
  PutFixed(facts.created_s, out);
  PutVarint(static_cast<uint64_t>(facts.tokens), out);
  PutVarint(static_cast<uint64_t>(facts.budget), out);
  PutFixed(facts.policy, out);
}

std::optional<SessionFacts> TakeFacts(std::string_view* payload) {
  constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<int32_t>::max());
  ByteReader reader(*payload);
  SessionFacts facts;
  facts.tenant = reader.String();
  facts.id = reader.String();
  facts.created_s = reader.Fixed<int64_t>();
  facts.tokens = static_cast<int32_t>(reader.Varint(kMax));
  facts.budget = static_cast<int32_t>(reader.Varint(kMax));
  facts.policy = reader.Fixed<uint8_t>();
  if (!reader.ok()) return std::nullopt;
  *payload = reader.left();
  return facts;
}

void AppendBodies(std::span<const std::string> bodies, std::string* out) {
  PutVarint(bodies.size(), out);
  for (const std::string& body : bodies) PutString(body, out);
}

bool ReadBodies(std::string_view payload, std::vector<std::string>* bodies) {
  ByteReader reader(payload);
  for (uint64_t left = reader.Varint(payload.size()); left > 0 && reader.ok(); --left) {
    bodies->emplace_back(reader.String());
  }
  return reader.done() && !bodies->empty();
}

}  // namespace hydrant
