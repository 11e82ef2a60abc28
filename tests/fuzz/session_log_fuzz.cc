// Whatever is in a segment or a checkpoint, reading it ends in records that are whole, and a session's past is one that some record
// of that session has.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "server/sessions/journal/byte_codec.h"
#include "server/sessions/journal/crc32c.h"
#include "server/sessions/journal/log_index.h"
#include "server/sessions/journal/log_record.h"
#include "tests/fuzz/fuzz.h"

namespace hydrant {
namespace {

void CheckScan(std::string_view input) {
  int64_t records = 0;
  LogIndex index;
  const int64_t lost = ScanRecords(input, 1, [&](const ScannedRecord& record) {
    ++records;
    Require(record.place.segment == 1 && record.place.offset + kRecordHeaderBytes <= input.size(),
            "it is in the segment");
    if (!record.whole) return Require(record.payload.empty(), "a damaged payload is not shown");
    Require(Crc32c(record.payload) == record.header.payload_crc, "the checksum fits");
    std::string_view rest = record.payload;
    std::optional<SessionFacts> facts = TakeFacts(&rest);
    if (!facts.has_value()) return;
    Require(rest.size() <= record.payload.size(), "facts are a part of the payload");
    index.Apply(record.header, record.place, *std::move(facts));
    const LoggedSession* session = index.Find(record.header.name);
    if (session != nullptr) Require(session->records >= 1 && session->last.segment == 1, "a chain has an end");
  });
  Require(lost >= 0 && lost <= static_cast<int64_t>(input.size()), "no more is lost than there is");
  Require(records * static_cast<int64_t>(kRecordHeaderBytes) <= static_cast<int64_t>(input.size()),
          "records do not overlap");
  const std::string again = index.Checkpoint(3, DirectoryId{});
  Require(LogIndex::FromCheckpoint(again, 3, DirectoryId{}).has_value(), "an index can be read as it was written");
}

// What no fuzzer would find: the checksums of what it makes up.
std::string WithChecksums(std::string_view input) {
  std::string bytes(input.substr(0, std::min(input.size(), kSegmentHeaderBytes)));
  bytes.resize(kSegmentHeaderBytes);
  ByteReader reader(input.substr(std::min(input.size(), kSegmentHeaderBytes)));
  while (reader.ok() && !reader.left().empty()) {
    RecordHeader header;
    header.type = static_cast<RecordType>(reader.Fixed<uint8_t>() % 6);
    header.flags = reader.Fixed<uint8_t>();
    header.name[0] = reader.Fixed<uint8_t>() % 3;
    header.turn = reader.Varint();
    header.turn_before = reader.Varint();
    header.before = {1, reader.Fixed<uint16_t>()};
    header.segment = 1;
    AppendRecord(header, reader.String(), &bytes);
  }
  return bytes;
}

}  // namespace

void Fuzz(std::string_view input) {
  CheckScan(input);
  CheckScan(WithChecksums(input));
  (void)LogIndex::FromCheckpoint(input, 3, DirectoryId{});
  std::string checkpoint(input);
  PutFixed(Crc32c(checkpoint), &checkpoint);
  (void)LogIndex::FromCheckpoint(checkpoint, 3, DirectoryId{});
}

}  // namespace hydrant
