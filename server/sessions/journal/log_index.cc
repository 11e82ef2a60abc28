#include "server/sessions/journal/log_index.h"

#include <limits>
#include <tuple>
#include <utility>

#include "server/sessions/journal/byte_codec.h"
#include "server/sessions/journal/crc32c.h"

namespace hydrant {
namespace {

constexpr std::string_view kCheckpointMagic = "HYDRNTX1";
constexpr std::string_view kSealedIndexMagic = "HYDRNTS1";
constexpr std::string_view kSealedIndex = "checkpoint";
constexpr auto kWordMax = static_cast<uint64_t>(std::numeric_limits<uint32_t>::max());

void PutPlace(const LogPlace& place, std::string* out) {
  PutVarint(place.segment, out);
  PutVarint(place.offset, out);
}

LogPlace ReadPlace(ByteReader* reader) {
  LogPlace place;
  place.segment = static_cast<uint32_t>(reader->Varint(kWordMax));
  place.offset = static_cast<uint32_t>(reader->Varint(kWordMax));
  return place;
}

void PutSession(const SessionName& name, const LoggedSession& session, std::string* out) {
  PutArray(name, out);
  PutPlace(session.last, out);
  PutPlace(session.before, out);
  PutVarint(session.first_segment, out);
  PutVarint(session.records, out);
  PutVarint(session.bytes, out);
  PutVarint(session.turn, out);
  PutFixed(session.used_s, out);
  PutFixed(static_cast<uint8_t>(session.unreadable), out);
  AppendFacts(session.facts, out);
}

bool ReadSession(ByteReader* reader, SessionName* name, LoggedSession* session) {
  *name = reader->Array<std::tuple_size_v<SessionName>>();
  session->last = ReadPlace(reader);
  session->before = ReadPlace(reader);
  session->first_segment = static_cast<uint32_t>(reader->Varint(kWordMax));
  session->records = static_cast<uint32_t>(reader->Varint(kWordMax));
  session->bytes = reader->Varint(uint64_t{1} << 60);
  session->turn = reader->Varint();
  session->used_s = reader->Fixed<int64_t>();
  session->unreadable = reader->Fixed<uint8_t>() != 0;
  std::string_view left = reader->left();
  std::optional<SessionFacts> facts = TakeFacts(&left);
  if (!reader->ok() || !facts.has_value()) return false;
  session->facts = *std::move(facts);
  *reader = ByteReader(left);
  return true;
}

// What a sealed checkpoint cannot be parted from.
std::string BesideIndex(uint32_t segment, const DirectoryId& directory) {
  std::string out(kSealedIndexMagic);
  PutFixed(segment, &out);
  PutArray(directory, &out);
  return out;
}

}  // namespace

std::string SealIndex(const SessionKeys* keys, uint32_t segment, const DirectoryId& directory, std::string index) {
  if (keys == nullptr) return index;
  const std::string beside = BesideIndex(segment, directory);
  return beside + keys->SealText(kSealedIndex, "", beside, index);
}

std::optional<std::string> OpenIndex(const SessionKeys* keys, uint32_t segment, const DirectoryId& directory,
                                     std::string bytes) {
  if (keys == nullptr) return bytes;
  const std::string beside = BesideIndex(segment, directory);
  if (!bytes.starts_with(beside)) return std::nullopt;
  return keys->OpenText(kSealedIndex, "", beside, std::string_view(bytes).substr(beside.size()));
}

const LoggedSession* LogIndex::Find(const SessionName& name) const {
  const auto found = sessions_.find(name);
  return found == sessions_.end() ? nullptr : &found->second;
}

void LogIndex::SetUncertain(const SessionName& name) {
  const auto found = sessions_.find(name);
  if (found != sessions_.end()) found->second.uncertain = true;
}

void LogIndex::SetUncertainFrom(uint32_t segment) {
  for (auto& [name, session] : sessions_) session.uncertain |= session.last.segment >= segment;
}

LogIndex::Applied LogIndex::Apply(const RecordHeader& header, LogPlace place, SessionFacts facts) {
  const auto found = sessions_.find(header.name);
  LoggedSession* const session = found == sessions_.end() ? nullptr : &found->second;
  const uint64_t bytes = kRecordHeaderBytes + header.payload_bytes;
  if (header.type == RecordType::kForget) {
    if (session == nullptr) return Applied::kOrphan;
    for (uint32_t segment = session->first_segment; segment <= session->last.segment; ++segment) {
      forgotten_.emplace(segment, header.wall_s);  // the first time counts
    }
    bytes_ -= static_cast<int64_t>(session->bytes);
    sessions_.erase(found);
    return Applied::kYes;
  }
  if (header.type == RecordType::kReplace) {
    LoggedSession& replaced = session != nullptr ? *session : sessions_[header.name];
    bytes_ += static_cast<int64_t>(bytes) - static_cast<int64_t>(replaced.bytes);
    replaced = {.last = place,
                .before = {},
                .first_segment = place.segment,
                .records = 1,
                .bytes = bytes,
                .turn = header.turn,
                .used_s = header.wall_s,
                .unreadable = false,
                .uncertain = false,
                .facts = std::move(facts)};
    return Applied::kYes;
  }
  if (header.type != RecordType::kTurn) {
    if ((header.flags & kRecordRequired) == 0) return Applied::kYes;
    if (session != nullptr) session->unreadable = true;
    return Applied::kOrphan;
  }
  if (session == nullptr) return Applied::kOrphan;
  const bool goes_on = header.before == session->last && header.turn_before == session->turn;
  const bool again = session->records > 1 && header.before == session->before && header.turn == session->turn;
  if (!goes_on && !again) return Applied::kOrphan;
  if (goes_on) {
    session->before = session->last;
    ++session->records;
    session->bytes += bytes;
    bytes_ += static_cast<int64_t>(bytes);
  }
  session->last = place;
  session->turn = header.turn;
  session->used_s = header.wall_s;
  session->facts = std::move(facts);
  return Applied::kYes;
}

std::string LogIndex::Checkpoint(uint32_t segment, const DirectoryId& directory) const {
  std::string out(kCheckpointMagic);
  PutFixed(kLogMajor, &out);
  PutFixed(segment, &out);
  PutArray(directory, &out);
  PutVarint(forgotten_.size(), &out);
  for (const auto& [number, since_s] : forgotten_) {
    PutVarint(number, &out);
    PutFixed(since_s, &out);
  }
  PutVarint(sessions_.size(), &out);
  out.reserve(out.size() + sessions_.size() * 96 + 4);
  for (const auto& [name, session] : sessions_) PutSession(name, session, &out);
  PutFixed(Crc32c(out), &out);
  return out;
}

std::optional<LogIndex> LogIndex::FromCheckpoint(std::string_view bytes, uint32_t segment,
                                                 const DirectoryId& directory) {
  if (bytes.size() < 4 || !bytes.starts_with(kCheckpointMagic)) return std::nullopt;
  const std::string_view body = bytes.substr(0, bytes.size() - 4);
  if (ByteReader(bytes.substr(body.size())).Fixed<uint32_t>() != Crc32c(body)) return std::nullopt;
  ByteReader reader(body.substr(kCheckpointMagic.size()));
  if (reader.Fixed<uint16_t>() != kLogMajor || reader.Fixed<uint32_t>() != segment) return std::nullopt;
  if (reader.Array<std::tuple_size_v<DirectoryId>>() != directory) return std::nullopt;
  LogIndex index;
  for (uint64_t left = reader.Varint(body.size()); left > 0 && reader.ok(); --left) {
    const auto number = static_cast<uint32_t>(reader.Varint(kWordMax));
    index.forgotten_.emplace(number, reader.Fixed<int64_t>());
  }
  const uint64_t count = reader.Varint(body.size());
  if (!reader.ok()) return std::nullopt;
  index.sessions_.reserve(count);
  for (uint64_t left = count; left > 0; --left) {
    SessionName name{};
    LoggedSession session;
    if (!ReadSession(&reader, &name, &session)) return std::nullopt;
    index.bytes_ += static_cast<int64_t>(session.bytes);
    index.sessions_.insert_or_assign(name, std::move(session));
  }
  return reader.done() ? std::optional(std::move(index)) : std::nullopt;
}

}  // namespace hydrant
