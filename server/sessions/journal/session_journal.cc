#include "server/sessions/journal/session_journal.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"

namespace hydrant {
absl::StatusOr<std::unique_ptr<SessionJournal>> SessionJournal::Open(const std::string& path, Options options) {
  absl::StatusOr<std::unique_ptr<SessionDirectory>> directory =
      SessionDirectory::Open(path, options.any_file_system, options.keys.get());
  if (!directory.ok()) return directory.status();
  SessionLogOptions log_options;
  log_options.directory = (*directory)->id();
  log_options.name_of = [&named = **directory](std::string_view tenant, std::string_view id) {
    return named.NameOf(tenant, id);
  };
  log_options.segment_bytes = options.segment_bytes;
  log_options.purge_s = options.purge_s;
  log_options.retry_s = options.retry_s;
  log_options.keys = options.keys;
  log_options.reseals = (*directory)->has_old_keys();
  std::unique_ptr<LogDirectory> files = (*directory)->TakeLog();
  if (options.through) files = options.through(std::move(files));
  std::unique_ptr<SessionJournal> journal(new SessionJournal(*std::move(directory), std::move(options)));
  absl::StatusOr<std::unique_ptr<SessionLog>> log = SessionLog::Open(std::move(files), std::move(log_options));
  if (!log.ok()) {
    return absl::Status(log.status().code(),
                        absl::StrCat("--session-dir: ", path, "/log: ", std::string(log.status().message())));
  }
  journal->log_ = *std::move(log);
  journal->thread_ = std::thread([running = journal.get()] { running->Run(); });
  return journal;
}

// Whoever has taken as much as is left takes no more: n tenants that want all of it have an (n + 1)th part each, and as much is free.
bool SessionJournal::Share::HasRoom(const std::string& tenant, int64_t more) const {
  const auto own = of.find(tenant);
  return taken == 0 || (own == of.end() ? 0 : own->second) + more <= max - taken - more;
}

int64_t SessionJournal::ChargeOf(int64_t bytes) const {
  const auto places = static_cast<int64_t>(options_.waiting_max);
  return std::max(bytes, (options_.waiting_bytes_max + places - 1) / places);
}

bool SessionJournal::TakesNow(const std::string& tenant, int64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool room = records_.HasRoom(tenant, ChargeOf(bytes));
  if (!room) ++passed_;
  return room;
}

// Whether it waits; where not, `record` and `done` are as they were, or there is no memory.
bool SessionJournal::Queue(LogRecord& record, std::function<void(bool)>& done, int64_t bytes) {
  const bool ends = record.type == RecordType::kForget;
  int64_t charge = ends ? 1 : ChargeOf(bytes);
  Share& share = ends ? ends_ : records_;
  const auto same = ends_waiting_.find(record.name);
  const bool joins = ends && same != ends_waiting_.end();
  if (joins && !done) charge = 0;  // nothing is kept of it
  const bool room = charge == 0 || share.HasRoom(record.facts.tenant, charge);
  if (!room) ++passed_;
  if (stopping_ || !room) return false;
  if (joins) {
    Waiting& waiting = *same->second;
    bytes = done ? static_cast<int64_t>(sizeof(done)) : 0;
    if (done) waiting.others.emplace_back().swap(done);
    waiting.record.turn = std::max(waiting.record.turn, record.turn);
    waiting.record.wall_s = std::max(waiting.record.wall_s, record.wall_s);
    waiting.record.until_durable |= record.until_durable;
    Charge(waiting, charge, bytes);
    return true;
  }
  int64_t& own = share.of[record.facts.tenant];
  Waiting& waiting = waiting_.emplace_back();
  waiting.share = &share;
  waiting.own = &own;
  waiting.since_us = options_.clock();
  waiting.record = std::move(record);
  waiting.done.swap(done);
  Charge(waiting, charge, bytes);
  // What ends what is said from here on comes after it.
  if (!ends && same != ends_waiting_.end()) ends_waiting_.erase(same);
  if (ends) NoteEnd(&waiting);
  return true;
}

void SessionJournal::Charge(Waiting& waiting, int64_t charge, int64_t bytes) {
  waiting.charge += charge;
  waiting.bytes += bytes;
  waiting_bytes_ += bytes;
  *waiting.own += charge;
  waiting.share->taken += charge;
}

// Others can join it. Without memory for that it stays alone.
void SessionJournal::NoteEnd(Waiting* end) {
  try {
    ends_waiting_.emplace(end->record.name, end);
  } catch (const std::bad_alloc&) {
  }
}

void SessionJournal::Commit(LogRecord record, std::function<void(bool)> done, int64_t bytes_beside) {
  bool waits = false;
  const int64_t bytes = std::ssize(record.body) + static_cast<int64_t>(kRecordHeaderBytes) + bytes_beside;
  try {
    const std::lock_guard<std::mutex> lock(mutex_);
    waits = Queue(record, done, bytes);
  } catch (const std::exception&) {
    // No memory to let it wait.
  }
  if (waits) {
    arrived_.notify_one();
  } else if (done) {
    done(false);
  }
}

LogCounts SessionJournal::counts() const {
  LogCounts counts = log_->counts();
  const std::lock_guard<std::mutex> lock(mutex_);
  counts.waiting_bytes = waiting_bytes_;
  counts.passed = passed_;
  return counts;
}

CommitTimes SessionJournal::times() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return times_;
}

// False: it is over. What waits, up to a group of it, is moved to `group`; none: it is time to clean.
bool SessionJournal::WaitForWork(bool cleans, std::deque<Waiting>* group) {
  std::unique_lock<std::mutex> lock(mutex_);
  const std::chrono::microseconds look(options_.look_us);
  if (!cleans) arrived_.wait_for(lock, look, [this] { return stopping_ || !waiting_.empty() || !purges_.empty(); });
  if (waiting_.empty()) return !stopping_;
  if (waiting_.size() <= kGroupMax) {
    group->swap(waiting_);
    ends_waiting_.clear();
    return true;
  }
  for (size_t i = 0; i < kGroupMax; ++i) {
    const auto end = ends_waiting_.find(waiting_.front().record.name);
    if (end != ends_waiting_.end() && end->second == &waiting_.front()) ends_waiting_.erase(end);
    group->push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  return true;
}

// What is said in the group may be of sessions with the names of those that ended: the ends come first.
void SessionJournal::WriteGroup(std::deque<Waiting>& group) {
  std::vector<bool> durable;
  try {
    std::vector<LogRecord> records = unended_;
    records.reserve(records.size() + group.size());
    for (Waiting& waiting : group) records.push_back(std::move(waiting.record));
    durable = log_->Write(records, options_.clock());
    const auto ends = static_cast<std::ptrdiff_t>(unended_.size());
    KeepUnended(std::move(records), durable);
    durable.erase(durable.begin(), durable.begin() + ends);
  } catch (const std::exception&) {
    durable.clear();  // no memory: nothing was promised
  }
  const int64_t now_us = options_.clock();
  for (size_t i = 0; i < group.size(); ++i) {
    const bool is_durable = i < durable.size() && durable[i];
    if (is_durable) {
      const double took_s = static_cast<double>(now_us - group[i].since_us) * 1e-6;
      const auto bound = std::lower_bound(CommitTimes::kBoundsS.begin(), CommitTimes::kBoundsS.end(), took_s);
      const std::lock_guard<std::mutex> lock(mutex_);
      ++times_.counts[static_cast<size_t>(bound - CommitTimes::kBoundsS.begin())];
      times_.sum_s += took_s;
    }
    Tell(group[i], is_durable);
  }
}

void SessionJournal::KeepUnended(std::vector<LogRecord> records, const std::vector<bool>& durable) {
  unended_.clear();
  const auto max = static_cast<size_t>(options_.waiting_max);
  for (size_t i = 0; i < records.size() && unended_.size() < max; ++i) {
    if (records[i].until_durable && !durable[i]) unended_.push_back(std::move(records[i]));
  }
}

void SessionJournal::Tell(Waiting& waiting, bool durable) {
  if (waiting.done) waiting.done(durable);
  waiting.done = nullptr;  // and what it kept
  for (const auto& other : waiting.others) other(durable);
  waiting.others.clear();
  const std::lock_guard<std::mutex> lock(mutex_);
  waiting.share->taken -= waiting.charge;
  *waiting.own -= waiting.charge;
  waiting_bytes_ -= waiting.bytes;
}

void SessionJournal::Purge(const SessionName& name, std::function<void(bool)> done) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!stopping_) {
      purges_.push_back({name, std::move(done)});
      done = nullptr;
    }
  }
  if (done) return done(false);
  arrived_.notify_one();
}

// Those who ask from here on are the next ones: a purge that others join has no end.
void SessionJournal::TakePurges(Purges* purges, uint32_t* up_to) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!purges->empty() || purges_.empty()) return;
  purges->swap(purges_);
  for (const AskedPurge& asked : *purges) log_->TryStuckAgain(asked.name);
  *up_to = log_->newest_segment();
}

// A part of the work. True: there is more.
bool SessionJournal::CleanSome(Purges* purges, uint32_t* up_to) {
  TakePurges(purges, up_to);
  bool more = false;
  if (std::deque<Waiting> nothing_else; !unended_.empty()) WriteGroup(nothing_else);
  try {
    log_->TryAgain(options_.clock());
    more = log_->Clean(options_.wall_clock(), /*purge=*/!purges->empty());
  } catch (const std::exception&) {
    // No memory: later.
  }
  if (!more && kv_resealed_ && directory_->has_old_keys() && log_->IsResealed()) directory_->ForgetOldKeys();
  std::erase_if(*purges, [&](const AskedPurge& asked) {
    const bool purged = !log_->HasForgotten(asked.name, *up_to);
    if (purged || !more) asked.done(purged);
    return purged || !more;
  });
  return more;
}

void SessionJournal::Run() {
  bool cleans = false;
  int64_t look_us = options_.clock() + options_.look_us;
  std::deque<Waiting> group;
  Purges purges;
  uint32_t purged_up_to = 0;
  while (WaitForWork(cleans, &group)) {
    const bool wrote = !group.empty();
    if (wrote) {
      WriteGroup(group);
      group.clear();
    }
    TakePurges(&purges, &purged_up_to);
    // A log that is never at rest is cleaned, too: a part between two groups.
    if (wrote && !cleans && purges.empty() && options_.clock() < look_us) continue;
    look_us = options_.clock() + options_.look_us;
    cleans = CleanSome(&purges, &purged_up_to);
  }
  for (Purges* left : {&purges, &purges_}) {
    for (const AskedPurge& asked : *left) asked.done(false);
  }
  try {
    log_->Checkpoint();
  } catch (const std::exception&) {
    // The next start reads more.
  }
}

void SessionJournal::Stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  arrived_.notify_one();
  if (thread_.joinable()) thread_.join();
}

}  // namespace hydrant
