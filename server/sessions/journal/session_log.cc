#include "server/sessions/journal/session_log.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "server/sessions/journal/crc32c.h"

namespace hydrant {
namespace {

constexpr size_t kNowhere = std::numeric_limits<size_t>::max();

absl::Status Unavailable(std::string_view where, int64_t negated_errno) {
  return absl::UnavailableError(absl::StrCat(std::string(where), std::strerror(static_cast<int>(-negated_errno))));
}
absl::Status FileUnavailable(const std::string& name, int64_t negated_errno) {
  return Unavailable(absl::StrCat(name, ": "), negated_errno);
}

}  // namespace

absl::StatusOr<std::unique_ptr<SessionLog>> SessionLog::Open(std::unique_ptr<LogDirectory> directory,
                                                             SessionLogOptions options) {
  std::unique_ptr<SessionLog> log(new SessionLog(std::move(directory), std::move(options)));
  if (absl::Status status = log->Load(); !status.ok()) return status;
  return log;
}

SessionLog::~SessionLog() { EndSegment(); }

// --- start -----------------------------------------------------------------------------------------------------------

absl::Status SessionLog::Load() {
  std::vector<std::string> names;
  if (const int error = directory_->List(&names); error < 0) return Unavailable("", error);
  std::set<uint32_t> segments, checkpoints;
  for (const std::string& name : names) {
    if (const auto number = LogFileNumber(name, kSegmentSuffix)) segments.insert(*number);
    if (const auto number = LogFileNumber(name, kCheckpointSuffix)) checkpoints.insert(*number);
    if (name.ends_with(".tmp")) directory_->Remove(name);
  }
  if (!segments.empty()) next_number_ = *segments.rbegin() + 1;
  if (!checkpoints.empty()) next_number_ = std::max(next_number_, *checkpoints.rbegin());
  if (options_.reseals) stale_up_to_ = next_number_ - 1;
  if (absl::Status status = OpenSegments(segments); !status.ok()) return status;
  for (auto it = checkpoints.rbegin(); it != checkpoints.rend() && checkpoint_ == 0; ++it) {
    const int fd = directory_->Open(LogFileName(*it, kCheckpointSuffix));
    if (fd < 0) continue;
    const int64_t size = directory_->Size(fd);
    std::string bytes(size > 0 ? static_cast<size_t>(size) : 0, '\0');
    const int64_t got = ReadAll(*directory_, fd, bytes.data(), bytes.size(), 0);
    directory_->Close(fd);
    bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
    const std::optional<std::string> opened = OpenIndex(options_.keys.get(), *it, options_.directory, std::move(bytes));
    std::optional<LogIndex> index;
    if (opened.has_value()) index = LogIndex::FromCheckpoint(*opened, *it, options_.directory);
    if (!index.has_value()) {
      ++counts_.damaged;
      continue;
    }
    index_ = *std::move(index);
    checkpoint_ = *it;
    stale_checkpoint_ = options_.reseals;
  }
  index_.KeepSegments(segments);
  if (index_.knows_chains_alone()) {
    // What was replaced or moved may be in any of them, so that all are written anew once.
    unmarked_up_to_ = next_number_ - 1;
    stale_up_to_ = std::max(stale_up_to_, unmarked_up_to_);
    stale_checkpoint_ = true;
  }
  for (const auto& [number, segment] : *segments_) {
    if (number >= checkpoint_) {
      if (absl::Status status = Replay(number); !status.ok()) return status;
      since_checkpoint_ += segment->bytes;
    }
    counts_.bytes += segment->bytes;
  }
  if (since_checkpoint_ > 0 && directory_->SyncNames() < 0) ++counts_.errors;
  index_.SetUncertainFrom(checkpoint_);
  return absl::OkStatus();
}

absl::Status SessionLog::OpenSegments(const std::set<uint32_t>& numbers) {
  auto segments = std::make_shared<Segments>();
  for (const uint32_t number : numbers) {
    const std::string name = LogFileName(number, kSegmentSuffix);
    const int fd = directory_->Open(name);
    if (fd == -EPERM || fd == -ELOOP) {  // not a file of ours: nothing in it is
      ++counts_.damaged;
      continue;
    }
    if (fd < 0) return FileUnavailable(name, fd);
    auto segment = std::make_shared<Segment>(*directory_, fd);
    segment->bytes = directory_->Size(fd);
    if (segment->bytes < 0) return FileUnavailable(name, segment->bytes);
    std::array<char, kSegmentHeaderBytes> bytes{};
    const int64_t got = ReadAll(*directory_, fd, bytes.data(), bytes.size(), 0);
    if (got < 0) return FileUnavailable(name, got);
    const auto header = ParseSegmentHeader(std::string_view(bytes.data(), static_cast<size_t>(got)));
    if (header.has_value() && header->major > kLogMajor) {
      return absl::FailedPreconditionError(absl::StrCat(name, ": written by a later version (format ", header->major,
                                                        "); this one reads format ", kLogMajor));
    }
    // A header that is not whole is that of a segment whose first sync never ended; its records, if any, name it.
    if (header.has_value() && (header->directory != options_.directory || header->number != number)) {
      ++counts_.damaged;
      continue;
    }
    segments->emplace(number, std::move(segment));
  }
  segments_ = std::move(segments);
  return absl::OkStatus();
}

absl::Status SessionLog::Replay(uint32_t number) {
  Segment& segment = *segments_->at(number);
  // A process that was killed may have left what it had not synced, and from here on it counts; what it could not sync does not, although
  // it may be in memory still.
  if (directory_->Sync(segment.fd) < 0) ++counts_.errors;
  directory_->DropCached(segment.fd);
  segment.bytes = directory_->Size(segment.fd);
  if (segment.bytes < 0) return FileUnavailable(LogFileName(number, kSegmentSuffix), segment.bytes);
  std::string bytes(static_cast<size_t>(segment.bytes), '\0');
  const int64_t got = ReadAll(*directory_, segment.fd, bytes.data(), bytes.size(), 0);
  if (got < 0) return FileUnavailable(LogFileName(number, kSegmentSuffix), got);
  bytes.resize(static_cast<size_t>(got));
  // Between two records nothing is lost by a process that ends; behind the last one there may be what it had begun to write.
  size_t expected = kSegmentHeaderBytes;
  ScanRecords(bytes, number, [this, &expected](const ScannedRecord& record) {
    if (record.place.offset > expected) ++counts_.damaged;
    expected = record.whole ? record.place.offset + kRecordHeaderBytes + record.header.payload_bytes : kNowhere;
    ApplyReplayed(record);
  });
  return absl::OkStatus();
}

void SessionLog::ApplyReplayed(const ScannedRecord& record) {
  std::optional<std::string> opened;
  if (record.whole) opened = OpenPayload(options_.keys.get(), record.header, record.payload);
  std::optional<SessionFacts> facts;
  if (opened.has_value() && record.header.type == RecordType::kForget) {
    facts.emplace();
  } else if (opened.has_value()) {
    std::string_view payload = *opened;
    facts = TakeFacts(&payload);
    if (facts.has_value() && options_.name_of(facts->tenant, facts->id) != record.header.name) facts.reset();
  }
  if (!facts.has_value()) {
    ++counts_.damaged;
    return;
  }
  if (index_.Apply(record.header, record.place, *std::move(facts)) == LogIndex::Applied::kOrphan &&
      record.header.type == RecordType::kTurn) {
    ++counts_.damaged;
  }
}

// --- writing ---------------------------------------------------------------------------------------------------------

// 0, or an errno, negated.
int SessionLog::BeginSegment() {
  const uint32_t number = next_number_++;
  const std::string name = LogFileName(number, kSegmentSuffix);
  const int fd = directory_->Create(name);
  if (fd < 0) return fd;
  std::string header;
  AppendSegmentHeader(number, options_.directory, &header);
  int error = WriteAll(*directory_, fd, header);
  if (error == 0) error = directory_->Sync(fd);
  if (error == 0) error = directory_->SyncNames();
  const int reader = error == 0 ? directory_->Open(name) : error;
  if (reader < 0) {
    directory_->Close(fd);
    directory_->Remove(name);
    return reader;
  }
  auto segment = std::make_shared<Segment>(*directory_, reader);
  segment->bytes = std::ssize(header);
  fd_ = fd;
  number_ = number;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto segments = std::make_shared<Segments>(*segments_);
    segments->emplace(number, std::move(segment));
    segments_ = std::move(segments);
    counts_.bytes += std::ssize(header);
  }
  // Where it cannot be written the next start reads more.
  if (since_checkpoint_ >= options_.segment_bytes) WriteCheckpoint(number);
  return 0;
}

// Nothing more comes into the newest segment.
void SessionLog::EndSegment() {
  if (fd_ >= 0) directory_->Close(fd_);
  fd_ = -1;
}

// There is a segment with room. 0, or an errno, negated.
int SessionLog::HaveRoom() {
  if (fd_ >= 0 && segments_->at(number_)->bytes >= options_.segment_bytes) EndSegment();
  return fd_ >= 0 ? 0 : BeginSegment();
}

// What could not be written is taken away again, so that a start of this machine's next process does not find in the page cache what
// the disk does not have.
void SessionLog::Abandon() {
  if (fd_ >= 0) directory_->Truncate(fd_, segments_->at(number_)->bytes);
  EndSegment();
  const std::lock_guard<std::mutex> lock(mutex_);
  ++counts_.errors;
}

// Appends to the newest segment, and syncs it.
int SessionLog::Append(std::string_view bytes) {
  int error = WriteAll(*directory_, fd_, bytes);
  if (error == 0) error = directory_->Sync(fd_);
  if (error != 0) return error;
  since_checkpoint_ += std::ssize(bytes);
  const std::lock_guard<std::mutex> lock(mutex_);
  segments_->at(number_)->bytes += std::ssize(bytes);
  counts_.bytes += std::ssize(bytes);
  return 0;
}

// What goes on from the session's last record, or, where that is uncertain, all of its past with it. False: that cannot be read.
bool SessionLog::EncodeTurn(const LogRecord& record, const LoggedSession& session, RecordHeader* header,
                            std::string* payload) const {
  if (session.unreadable) return false;
  if (!session.uncertain) {
    header->turn_before = record.turn_before;
    header->before = session.last;
    payload->append(record.body);
    return true;
  }
  absl::StatusOr<LoggedPast> past = Read(record.name);
  if (!past.ok()) return false;
  past->bodies.push_back(record.body);
  header->type = RecordType::kReplace;
  AppendBodies(past->bodies, payload);
  return true;
}

// Puts a record behind what is in buffer_, as that goes behind what the newest segment has.
SessionLog::Placed SessionLog::Put(RecordHeader header, std::string_view payload) {
  header.segment = number_;
  const std::string written = SealPayload(options_.keys.get(), &header, payload);
  header.payload_bytes = static_cast<uint32_t>(written.size());
  const LogPlace place = {number_, static_cast<uint32_t>(segments_->at(number_)->bytes + std::ssize(buffer_))};
  AppendRecord(header, written, &buffer_);
  return {header, place};
}

// Puts the records that fit into buffer_.
std::vector<SessionLog::Placed> SessionLog::Encode(std::span<const LogRecord> records, std::vector<bool>* fits) {
  std::vector<Placed> placed(records.size());
  buffer_.clear();
  std::string payload;
  for (size_t i = 0; i < records.size(); ++i) {
    const LogRecord& record = records[i];
    const LoggedSession* session = index_.Find(record.name);
    RecordHeader header;
    header.type = record.type;
    header.name = record.name;
    header.turn = record.turn;
    header.wall_s = record.wall_s;
    payload.clear();
    if (record.type != RecordType::kForget) AppendFacts(record.facts, &payload);
    if (record.type == RecordType::kReplace) AppendBodies({&record.body, 1}, &payload);
    if (record.type == RecordType::kTurn) {
      (*fits)[i] =
          session != nullptr && session->turn == record.turn_before && EncodeTurn(record, *session, &header, &payload);
    }
    if (payload.size() + SessionKeys::kOverhead > kPayloadBytesMax) (*fits)[i] = false;
    if ((*fits)[i]) placed[i] = Put(header, payload);
  }
  return placed;
}

// What is in buffer_ is durable.
void SessionLog::Applied(std::span<const LogRecord> records, std::span<const Placed> placed,
                         const std::vector<bool>& fits) {
  const std::lock_guard<std::mutex> lock(mutex_);
  // Without memory for all of it the log has records that the index does not know.
  absl::Cleanup unsure = [&] {
    for (const LogRecord& record : records) index_.SetUncertain(record.name);
  };
  for (size_t i = 0; i < records.size(); ++i) {
    if (!fits[i]) continue;
    index_.Apply(placed[i].header, placed[i].place, records[i].facts);
    ++counts_.records;
  }
  ++counts_.commits;
  std::move(unsure).Cancel();
}

int SessionLog::WriteOnce(std::span<const LogRecord> records, std::vector<bool>* fits) {
  if (const int error = HaveRoom(); error < 0) return error;
  const std::vector<Placed> placed = Encode(records, fits);
  if (buffer_.empty()) return 0;
  if (const int error = Append(buffer_); error < 0) return error;
  Applied(records, placed, *fits);
  return 0;
}

std::vector<bool> SessionLog::Write(std::span<const LogRecord> records, int64_t now_us) {
  std::vector<bool> durable(records.size(), true);
  if (records.empty()) return durable;
  const bool waits = retry_us_ >= 0 && now_us < retry_us_;
  for (int attempt = 0; attempt < 2 && !waits; ++attempt) {
    std::vector<bool> fits(records.size(), true);
    if (WriteOnce(records, &fits) == 0) {
      NoteWorks();
      return fits;
    }
    Abandon();
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const LogRecord& record : records) index_.SetUncertain(record.name);
  }
  if (!waits) retry_us_ = now_us + options_.retry_s * 1'000'000;
  durable.assign(records.size(), false);
  const std::lock_guard<std::mutex> lock(mutex_);
  counts_.read_only = true;
  return durable;
}

void SessionLog::NoteWorks() {
  retry_us_ = -1;
  const std::lock_guard<std::mutex> lock(mutex_);
  counts_.read_only = false;
}

void SessionLog::TryAgain(int64_t now_us) {
  if (retry_us_ < 0 || now_us < retry_us_) return;
  if (HaveRoom() == 0) return NoteWorks();
  Abandon();
  retry_us_ = now_us + options_.retry_s * 1'000'000;
}

// What is older than `number` is in it. 0, or an errno, negated.
int SessionLog::WriteCheckpoint(uint32_t number) {
  // Nobody else changes the index.
  const std::string bytes =
      SealIndex(options_.keys.get(), number, options_.directory, index_.Checkpoint(number, options_.directory));
  const int error = WriteWhole(*directory_, LogFileName(number, kCheckpointSuffix), bytes);
  if (error != 0) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++counts_.errors;
    return error;
  }
  // One is enough: without it all segments are read.
  if (checkpoint_ != 0 && checkpoint_ != number) directory_->Remove(LogFileName(checkpoint_, kCheckpointSuffix));
  checkpoint_ = number;
  since_checkpoint_ = 0;
  stale_checkpoint_ = false;
  return 0;
}

void SessionLog::Checkpoint() {
  if (since_checkpoint_ == 0 && !stale_checkpoint_) return;
  EndSegment();
  WriteCheckpoint(next_number_);
}

// --- reading ---------------------------------------------------------------------------------------------------------

absl::StatusOr<LoggedPast> SessionLog::Read(const SessionName& name) const {
  LoggedSession session;
  std::shared_ptr<const Segments> segments;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const LoggedSession* found = index_.Find(name);
    if (found == nullptr) return absl::NotFoundError("no such session");
    session = *found;
    segments = segments_;
  }
  absl::StatusOr<LoggedPast> past = ReadChain(name, std::move(session), *segments);
  if (!past.ok()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++counts_.damaged;
  }
  return past;
}

absl::StatusOr<LoggedPast> SessionLog::ReadChain(const SessionName& name, LoggedSession session,
                                                 const Segments& segments) const {
  const auto lost = [](std::string_view why) { return absl::DataLossError(std::string(why)); };
  if (session.unreadable) return lost("a record of a later version");
  std::vector<std::string> newest_first;
  LogPlace place = session.last;
  uint64_t turn = session.turn;
  std::string bytes;
  for (uint32_t left = session.records; left > 0; --left) {
    const auto segment = segments.find(place.segment);
    if (segment == segments.end()) return lost("a segment is missing");
    bytes.resize(kRecordHeaderBytes);
    const auto read = [&](size_t from, size_t count) {
      return ReadAll(*directory_, segment->second->fd, bytes.data() + from, count,
                     static_cast<int64_t>(place.offset) + static_cast<int64_t>(from)) == static_cast<int64_t>(count);
    };
    if (!read(0, kRecordHeaderBytes)) return lost("a record is cut off");
    const std::optional<RecordHeader> header = ParseRecordHeader(bytes, place.segment);
    if (!header.has_value() || header->name != name || header->turn != turn) return lost("not the record of the turn");
    bytes.resize(kRecordHeaderBytes + header->payload_bytes);
    if (!read(kRecordHeaderBytes, header->payload_bytes)) return lost("a record is cut off");
    const std::string_view written = std::string_view(bytes).substr(kRecordHeaderBytes);
    if (Crc32c(written) != header->payload_crc) return lost("a checksum does not fit");
    const std::optional<std::string> opened = OpenPayload(options_.keys.get(), *header, written);
    if (!opened.has_value()) return lost("a record that these keys do not open");
    std::string_view payload = *opened;
    const std::optional<SessionFacts> facts = TakeFacts(&payload);
    if (!facts.has_value() || options_.name_of(facts->tenant, facts->id) != name)
      return lost("another session's record");
    if (header->type == RecordType::kReplace) {
      std::vector<std::string> bodies;
      if (left != 1 || !ReadBodies(payload, &bodies)) return lost("a chain that does not end");
      bodies.insert(bodies.end(), newest_first.rbegin(), newest_first.rend());
      return LoggedPast{std::move(session), std::move(bodies)};
    }
    newest_first.emplace_back(payload);
    place = header->before;
    turn = header->turn_before;
  }
  return lost("a chain without a beginning");
}

std::optional<LoggedSession> SessionLog::Find(const SessionName& name) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const LoggedSession* session = index_.Find(name);
  return session == nullptr ? std::nullopt : std::optional(*session);
}

uint64_t SessionLog::TurnOf(const SessionName& name) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const LoggedSession* session = index_.Find(name);
  return session == nullptr ? 0 : session->turn;
}

void SessionLog::ForEach(const std::function<void(const SessionName&, const LoggedSession&)>& visit) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [name, session] : index_.sessions()) visit(name, session);
}

LogCounts SessionLog::counts() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  LogCounts counts = counts_;
  counts.live_bytes = index_.bytes();
  counts.sessions = static_cast<int64_t>(index_.sessions().size());
  counts.segments = std::ssize(*segments_);
  for (const auto& [segment, ignored] : index_.forgotten()) counts.forgotten_segments += segments_->contains(segment);
  return counts;
}

}  // namespace hydrant
