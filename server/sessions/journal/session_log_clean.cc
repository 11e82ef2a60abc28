// The part of SessionLog that gives room back: what is still needed of a segment is written again at the log's end, and the segment
// removed. Segments go for two reasons: sessions that are gone have records in them, or more than half of the log is of no use.
#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "server/sessions/journal/session_log.h"

namespace hydrant {
namespace {

// What one call of Clean writes at most, the last session aside: a few milliseconds, in which turns that end wait.
constexpr size_t kMovedBytes = 1 << 20;

}  // namespace

// REQUIRES: the writing thread.
std::optional<uint32_t> SessionLog::ChooseSegment(int64_t now_s, bool purge) const {
  for (const auto& [segment, forgotten] : index_.forgotten()) {
    const bool due = purge || forgotten.since_s <= now_s - options_.purge_s;
    if (due && segments_->contains(segment) && !stuck_.contains(segment)) return segment;
  }
  for (const auto& [segment, ignored] : *segments_) {
    if (segment <= stale_up_to_ && !stuck_.contains(segment)) return segment;
  }
  // Twice what is needed, and two segments besides, so that a small log is left alone. Oldest first: it has the most dead records.
  // What cannot be cleaned is no reason to write the others again and again.
  int64_t bytes = counts_.bytes;
  for (const uint32_t segment : stuck_) bytes -= segments_->contains(segment) ? segments_->at(segment)->bytes : 0;
  if (bytes <= 2 * index_.bytes() + 2 * options_.segment_bytes) return std::nullopt;
  for (const auto& [segment, ignored] : *segments_) {
    if (segment != number_ && !stuck_.contains(segment)) return segment;
  }
  return std::nullopt;
}

bool SessionLog::IsResealed() const {
  const bool cleans = std::any_of(segments_->begin(), segments_->end(), [this](const auto& entry) {
    return entry.first <= stale_up_to_ && !stuck_.contains(entry.first);
  });
  if (stale_checkpoint_ || cleans) return false;
  // Why a session could not be read or written anew is not known for certain: the next start may read it, with the key.
  return std::none_of(index_.sessions().begin(), index_.sessions().end(),
                      [this](const auto& entry) { return entry.second.first_segment <= stale_up_to_; });
}

bool SessionLog::HasForgotten(const SessionName& name, uint32_t up_to) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto& forgotten = index_.forgotten();
  if (!segments_->empty() && segments_->begin()->first <= std::min(up_to, unmarked_up_to_)) return true;
  return std::any_of(forgotten.begin(), forgotten.end(), [&](const auto& entry) {
    return entry.first <= up_to && segments_->contains(entry.first) && entry.second.names.contains(name);
  });
}

void SessionLog::TryStuckAgain(const SessionName& name) {
  for (const auto& [segment, forgotten] : index_.forgotten()) {
    if (forgotten.names.contains(name)) stuck_.erase(segment);
  }
}

bool SessionLog::Clean(int64_t now_s, bool purge) {
  if (retry_us_ >= 0) return false;  // what cannot be written cannot be moved
  if (!cleaning_.has_value()) {
    const std::optional<uint32_t> segment = ChooseSegment(now_s, purge);
    if (segment.has_value()) {
      BeginCleaning(*segment);
      return true;
    }
    if (stale_checkpoint_) Checkpoint();
    const std::lock_guard<std::mutex> lock(mutex_);
    unmarked_up_to_ = 0;
    return false;
  }
  if (!cleaning_->names.empty() || !cleaning_->forgets.empty()) {
    bool moved = false;
    // What was taken off the list is not moved yet, also where there is no memory: the next time it is listed anew.
    absl::Cleanup begin_anew = [&] {
      if (!moved) cleaning_.reset();
    };
    moved = MoveSome();
    return moved;
  }
  // One that stays holds up no other.
  const bool stays = cleaning_->unreadable || index_.HasChainIn(cleaning_->segment);
  const bool goes_on = stays || RemoveSegment(cleaning_->segment);
  if (stays) stuck_.insert(cleaning_->segment);
  cleaning_.reset();
  return goes_on;
}

void SessionLog::BeginCleaning(uint32_t number) {
  if (number == number_) EndSegment();  // nothing may come after what is looked at now
  Cleaning cleaning;
  cleaning.segment = number;
  for (const auto& [name, session] : index_.sessions()) {
    if (session.first_segment <= number && number <= session.last.segment) cleaning.names.push_back(name);
  }
  // A record of a session's end is needed for as long as there is an older one that it could be taken to be there from, unless
  // there is a newer one of a session of the same name.
  if (segments_->begin()->first != number) {
    const Segment& segment = *segments_->at(number);
    std::string bytes(static_cast<size_t>(segment.bytes), '\0');
    cleaning.unreadable = ReadAll(*directory_, segment.fd, bytes.data(), bytes.size(), 0) != segment.bytes;
    if (cleaning.unreadable) bytes.clear();  // its sessions may be read by themselves
    ScanRecords(bytes, number, [&](const ScannedRecord& record) {
      if (record.header.type != RecordType::kForget || index_.Find(record.header.name) != nullptr) return;
      // The copy is sealed, so what is copied has to have been.
      if (!record.whole || !OpenPayload(options_.keys.get(), record.header, record.payload).has_value()) return;
      cleaning.forgets.push_back(record.header);
    });
  }
  cleaning_ = std::move(cleaning);
}

// Puts the session's whole chain behind what is in buffer_, as one record. False: it cannot be read.
bool SessionLog::PutMoved(const SessionName& name, std::vector<Placed>* moved) {
  const LoggedSession* session = index_.Find(name);
  // It may have gone, or come to other segments by itself.
  const uint32_t number = cleaning_->segment;
  if (session == nullptr || session->first_segment > number || session->last.segment < number) return true;
  const absl::StatusOr<LoggedPast> past = Read(name);
  if (!past.ok()) return false;
  std::string payload;
  AppendFacts(session->facts, &payload);
  AppendBodies(past->bodies, &payload);
  if (payload.size() + SessionKeys::kOverhead > kPayloadBytesMax) return false;
  RecordHeader header;
  header.type = RecordType::kReplace;
  header.name = name;
  header.turn = session->turn;
  header.wall_s = session->used_s;
  moved->push_back(Put(header, payload));
  return true;
}

// False: it cannot be written. What cannot be read stays where it is, the segment with it, and the others are moved.
bool SessionLog::MoveSome() {
  if (HaveRoom() < 0) {
    Abandon();
    return false;
  }
  buffer_.clear();
  std::vector<Placed> moved;
  std::vector<SessionName>& names = cleaning_->names;
  bool readable = true;
  while (!names.empty() && buffer_.size() < kMovedBytes && readable) {
    readable = PutMoved(names.back(), &moved);
    names.pop_back();
  }
  if (!readable) cleaning_->unreadable = true;
  for (const RecordHeader& forget : cleaning_->forgets) {
    if (!names.empty()) break;
    if (index_.Find(forget.name) == nullptr) Put(forget, "");
  }
  if (names.empty()) cleaning_->forgets.clear();
  const bool written = buffer_.empty() || Append(buffer_) == 0;
  if (!written) Abandon();
  const std::lock_guard<std::mutex> lock(mutex_);
  absl::Cleanup unsure = [&] {
    for (const Placed& record : moved) index_.SetUncertain(record.header.name);
  };
  if (!written) return false;
  for (const Placed& record : moved) {
    index_.Apply(record.header, record.place, SessionFacts(index_.Find(record.header.name)->facts));
  }
  std::move(unsure).Cancel();
  return true;
}

// False: a newer checkpoint than the segment cannot be written.
bool SessionLog::RemoveSegment(uint32_t number) {
  if (checkpoint_ <= number) {
    EndSegment();
    if (WriteCheckpoint(next_number_) != 0) return false;
  }
  const std::vector<SessionName> left_in = index_.LeftIn(number);
  auto segments = std::make_shared<Segments>(*segments_);
  segments->erase(number);
  // Whoever reads it has it open. One that cannot be removed has its text still, and says so.
  int error = directory_->Remove(LogFileName(number, kSegmentSuffix));
  const bool removed = error == 0;
  if (removed) error = directory_->SyncNames();
  if (!removed) stuck_.insert(number);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (error != 0) ++counts_.errors;
  if (!removed) return true;
  counts_.bytes -= segments_->at(number)->bytes;
  segments_ = std::move(segments);
  index_.DropSegment(number, left_in);
  return true;
}

}  // namespace hydrant
