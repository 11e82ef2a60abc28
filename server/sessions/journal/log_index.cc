#include "server/sessions/journal/log_index.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "server/sessions/journal/byte_codec.h"
#include "server/sessions/journal/crc32c.h"

namespace hydrant {
namespace {

constexpr std::string_view kCheckpointMagic = "HYDRNTX2";
// Without what sessions have left in segments, and the names of those that are gone: of versions that did not know it.
constexpr std::string_view kOlderMagic = "HYDRNTX1";
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
  PutVarint(session.left_in.size(), out);
  for (const uint32_t segment : session.left_in) PutVarint(segment, out);
}

bool ReadSession(ByteReader* reader, bool is_older, SessionName* name, LoggedSession* session) {
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
  for (uint64_t count = is_older ? 0 : reader->Varint(left.size()); count > 0 && reader->ok(); --count) {
    session->left_in.push_back(static_cast<uint32_t>(reader->Varint(kWordMax)));
  }
  return reader->ok();
}

void PutForgotten(const ForgottenIn& forgotten, std::string* out) {
  PutFixed(forgotten.since_s, out);
  PutVarint(forgotten.names.size(), out);
  for (const SessionName& name : forgotten.names) PutArray(name, out);
}

ForgottenIn ReadForgotten(ByteReader* reader, bool is_older) {
  ForgottenIn forgotten;
  forgotten.since_s = reader->Fixed<int64_t>();
  for (uint64_t count = is_older ? 0 : reader->Varint(reader->left().size()); count > 0 && reader->ok(); --count) {
    forgotten.names.insert(reader->Array<std::tuple_size_v<SessionName>>());
  }
  return forgotten;
}

// Its newest record is to be no longer that, and stays where it is.
void LeaveLast(LoggedSession* session) {
  std::vector<uint32_t>& left_in = session->left_in;
  const uint32_t segment = session->last.segment;
  const auto place = std::lower_bound(left_in.begin(), left_in.end(), segment);
  if (place == left_in.end() || *place != segment) left_in.insert(place, segment);
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

std::vector<SessionName> LogIndex::LeftIn(uint32_t segment) const {
  std::vector<SessionName> names;
  for (const auto& [name, session] : sessions_) {
    if (std::binary_search(session.left_in.begin(), session.left_in.end(), segment)) names.push_back(name);
  }
  return names;
}

void LogIndex::DropSegment(uint32_t segment, const std::vector<SessionName>& left_in) {
  forgotten_.erase(segment);
  for (const SessionName& name : left_in) {
    const auto found = sessions_.find(name);
    if (found != sessions_.end()) std::erase(found->second.left_in, segment);
  }
}

void LogIndex::KeepSegments(const std::set<uint32_t>& segments) {
  std::erase_if(forgotten_, [&](const auto& entry) { return !segments.contains(entry.first); });
  for (auto& [name, session] : sessions_) {
    std::erase_if(session.left_in, [&](uint32_t segment) { return !segments.contains(segment); });
    if (!knows_chains_alone_) continue;
    const auto begin = segments.lower_bound(session.first_segment), end = segments.lower_bound(session.last.segment);
    session.left_in.assign(begin, end);
  }
}

bool LogIndex::HasChainIn(uint32_t segment) const {
  return std::any_of(sessions_.begin(), sessions_.end(), [segment](const auto& entry) {
    const LoggedSession& session = entry.second;
    if (session.first_segment == segment || session.last.segment == segment) return true;
    // Chains before it end where it begins.
    return session.first_segment < segment &&
           std::binary_search(session.left_in.begin(), session.left_in.end(), segment);
  });
}

LogIndex::Applied LogIndex::Apply(const RecordHeader& header, LogPlace place, SessionFacts facts) {
  const auto found = sessions_.find(header.name);
  LoggedSession* const session = found == sessions_.end() ? nullptr : &found->second;
  const uint64_t bytes = kRecordHeaderBytes + header.payload_bytes;
  if (header.type == RecordType::kForget) {
    if (session == nullptr) return Applied::kOrphan;
    LeaveLast(session);
    for (const uint32_t segment : session->left_in) {
      // The first time counts.
      forgotten_.try_emplace(segment, ForgottenIn{header.wall_s, {}}).first->second.names.insert(header.name);
    }
    bytes_ -= static_cast<int64_t>(session->bytes);
    sessions_.erase(found);
    return Applied::kYes;
  }
  if (header.type == RecordType::kReplace) {
    if (session != nullptr) LeaveLast(session);
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
                .left_in = std::move(replaced.left_in),
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
  if (place.segment != session->last.segment) LeaveLast(session);
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
  for (const auto& [number, forgotten] : forgotten_) {
    PutVarint(number, &out);
    PutForgotten(forgotten, &out);
  }
  PutVarint(sessions_.size(), &out);
  out.reserve(out.size() + sessions_.size() * 96 + 4);
  for (const auto& [name, session] : sessions_) PutSession(name, session, &out);
  PutFixed(Crc32c(out), &out);
  return out;
}

std::optional<LogIndex> LogIndex::FromCheckpoint(std::string_view bytes, uint32_t segment,
                                                 const DirectoryId& directory) {
  const bool is_older = bytes.starts_with(kOlderMagic);
  if (bytes.size() < 4 || !(is_older || bytes.starts_with(kCheckpointMagic))) return std::nullopt;
  const std::string_view body = bytes.substr(0, bytes.size() - 4);
  if (ByteReader(bytes.substr(body.size())).Fixed<uint32_t>() != Crc32c(body)) return std::nullopt;
  ByteReader reader(body.substr(kCheckpointMagic.size()));
  if (reader.Fixed<uint16_t>() != kLogMajor || reader.Fixed<uint32_t>() != segment) return std::nullopt;
  if (reader.Array<std::tuple_size_v<DirectoryId>>() != directory) return std::nullopt;
  LogIndex index;
  index.knows_chains_alone_ = is_older;
  for (uint64_t left = reader.Varint(body.size()); left > 0 && reader.ok(); --left) {
    const auto number = static_cast<uint32_t>(reader.Varint(kWordMax));
    index.forgotten_.emplace(number, ReadForgotten(&reader, is_older));
  }
  const uint64_t count = reader.Varint(body.size());
  if (!reader.ok()) return std::nullopt;
  index.sessions_.reserve(count);
  for (uint64_t left = count; left > 0; --left) {
    SessionName name{};
    LoggedSession session;
    if (!ReadSession(&reader, is_older, &name, &session)) return std::nullopt;
    index.bytes_ += static_cast<int64_t>(session.bytes);
    index.sessions_.insert_or_assign(name, std::move(session));
  }
  return reader.done() ? std::optional(std::move(index)) : std::nullopt;
}

}  // namespace hydrant
