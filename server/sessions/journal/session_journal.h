// SessionJournal is the token log with a thread of its own: whoever has a record to be made durable hands it over and is called
// when it is. What comes while the disk is busy goes out together, with one sync.
//
// Thread: any; a short lock, never held while the disk is waited for. Read waits for the disk.
//
// Invariants
//  1. Records become durable in the order in which they were handed over.
//  2. Every `done` is called once, whatever happens: also for want of memory, and for what comes after Stop.
//  3. At most `waiting_max` records wait, and `waiting_bytes_max` bytes, or one record: of these a tenant has no more than are left,
//     which is half of them where it is alone, so that another one always finds room. However small a record is, it counts as one place's
//     part of the bytes. Beyond that a record is not durable, at once. Those that say that a session is gone have as many places of their
//     own, shared in the same way; where one of a session waits, the next is no other record, and has a place for its `done` alone.
//  4. An end that is to be durable (LogRecord::until_durable) and could not be written goes before what is written next, and at the next
//     look: `waiting_max` of them. The next start finds what is beyond.
#ifndef HYDRANT_SERVER_SESSIONS_JOURNAL_SESSION_JOURNAL_H_
#define HYDRANT_SERVER_SESSIONS_JOURNAL_SESSION_JOURNAL_H_

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "server/sessions/journal/log_directory.h"
#include "server/sessions/journal/session_directory.h"
#include "server/sessions/journal/session_log.h"

namespace hydrant {

// Commits by how long they took from being handed over to being durable.
struct CommitTimes {
  static constexpr std::array<double, 11> kBoundsS = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005,
                                                      0.01,   0.025,   0.05,   0.1,   1.0};
  std::array<uint64_t, kBoundsS.size() + 1> counts{};  // the last: longer
  double sum_s = 0;
};

class SessionJournal {
 public:
  static constexpr size_t kGroupMax = 64;

  struct Options {
    bool any_file_system = false;  // SessionDirectory::Open's
    int64_t segment_bytes = 64 << 20;
    int64_t purge_s = 3600;
    int64_t retry_s = 10;
    int64_t look_us = 5'000'000;              // how often it looks whether there is something to clean
    int64_t waiting_bytes_max = 256 << 20;    // of records, and of what is kept for as long as they wait
    int32_t waiting_max = 1 << 16;            // records, > 0
    std::function<int64_t()> clock;           // monotonic microseconds
    std::function<int64_t()> wall_clock;      // Unix seconds
    std::shared_ptr<const SessionKeys> keys;  // null: nothing is encrypted
    // Stands between the log and its files, in tests; null: nothing does.
    std::function<std::unique_ptr<LogDirectory>(std::unique_ptr<LogDirectory>)> through;
  };

  // Errors: SessionDirectory::Open's and SessionLog::Open's.
  static absl::StatusOr<std::unique_ptr<SessionJournal>> Open(const std::string& path, Options options);
  ~SessionJournal() { Stop(); }
  SessionJournal(const SessionJournal&) = delete;
  SessionJournal& operator=(const SessionJournal&) = delete;

  SessionName NameOf(std::string_view tenant, std::string_view id) const { return directory_->NameOf(tenant, id); }
  // `done` is told whether the record is durable: on the journal's thread, or on this one where it cannot be. It takes a
  // short time; null: nobody asks. `bytes_beside`: what `done` keeps in memory until then. Also a kForget is of the tenant of its facts,
  // which are not written.
  void Commit(LogRecord record, std::function<void(bool durable)> done, int64_t bytes_beside = 0);
  // Whether a record of the tenant of this name with which so many bytes would wait would be taken; where not, that is counted.
  bool TakesNow(const std::string& tenant, int64_t bytes);

  // `done` is told, as Commit's, when no segment has a record of a session of this name that is gone by now, or that this cannot be. The
  // work is done between two groups, a part at a time, for all who ask; those who ask meanwhile wait for the next. What cannot be
  // moved for another session's sake is that one's: nobody else is told that it is there.
  void Purge(const SessionName& name, std::function<void(bool purged)> done);
  // Whether there is something for Purge to do.
  bool HasForgotten(const SessionName& name) const { return log_->HasForgotten(name); }

  absl::StatusOr<LoggedPast> Read(const SessionName& name) const { return log_->Read(name); }
  std::optional<LoggedSession> Find(const SessionName& name) const { return log_->Find(name); }
  uint64_t TurnOf(const SessionName& name) const { return log_->TurnOf(name); }
  const DirectoryId& directory_id() const { return directory_->id(); }
  int64_t segment_bytes() const { return options_.segment_bytes; }
  const std::shared_ptr<const SessionKeys>& keys() const { return options_.keys; }
  // Something may be sealed with another key than the one that seals. Once the log has nothing of it, and NoteKvResealed was called, it
  // says in the directory that the other key is not needed.
  bool has_old_keys() const { return directory_->has_old_keys(); }
  void NoteKvResealed() { kv_resealed_ = true; }
  // The directory kv/, once.
  std::unique_ptr<LogDirectory> TakeKv() { return directory_->TakeKv(); }
  void ForEach(const std::function<void(const SessionName&, const LoggedSession&)>& visit) const {
    log_->ForEach(visit);
  }
  LogCounts counts() const;
  CommitTimes times() const;
  // Makes durable what waits, and ends the thread.
  void Stop();

 private:
  // What may wait, and who has taken how much of it: bytes, or places.
  struct Share {
    // Guarded by mutex_.
    bool HasRoom(const std::string& tenant, int64_t more) const;

    const int64_t max;
    int64_t taken = 0;                  // by what waits or is being written
    std::map<std::string, int64_t> of;  // by tenant
  };
  struct Waiting {
    LogRecord record;
    std::function<void(bool)> done;
    std::vector<std::function<void(bool)>> others;  // of those that joined it
    int64_t since_us = 0;
    Share* share = nullptr;
    int64_t* own = nullptr;  // its tenant's in `share`
    int64_t charge = 0;
    int64_t bytes = 0;  // in memory, as far as that is known
  };

  SessionJournal(std::unique_ptr<SessionDirectory> directory, Options options)
      : directory_(std::move(directory)),
        options_(std::move(options)),
        records_{options_.waiting_bytes_max},
        ends_{options_.waiting_max} {}
  void Run();
  bool WaitForWork(bool cleans, std::deque<Waiting>* group);
  void WriteGroup(std::deque<Waiting>& group);
  void KeepUnended(std::vector<LogRecord> records, const std::vector<bool>& durable);
  void Tell(Waiting& waiting, bool durable);
  int64_t ChargeOf(int64_t bytes) const;  // of a record
  // These REQUIRE mutex_ held.
  bool Queue(LogRecord& record, std::function<void(bool)>& done, int64_t bytes);
  void Charge(Waiting& waiting, int64_t charge, int64_t bytes);
  void NoteEnd(Waiting* end);
  struct AskedPurge {
    SessionName name{};
    std::function<void(bool)> done;
  };
  using Purges = std::vector<AskedPurge>;
  bool CleanSome(Purges* purges, uint32_t* up_to);
  void TakePurges(Purges* purges, uint32_t* up_to);

  const std::unique_ptr<SessionDirectory> directory_;
  const Options options_;
  std::unique_ptr<SessionLog> log_;
  std::atomic<bool> kv_resealed_ = false;
  std::vector<LogRecord> unended_;  // the journal's thread alone: ends to be written again

  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  // Guarded by mutex_.
  std::deque<Waiting> waiting_;
  std::map<SessionName, Waiting*> ends_waiting_;  // kForget records in waiting_ with no other of that name behind them
  Share records_;                                 // bytes
  Share ends_;                                    // places
  int64_t waiting_bytes_ = 0;                     // of all that waits or is being written, in memory
  uint64_t passed_ = 0;
  Purges purges_;  // asked for, and not begun
  CommitTimes times_;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SESSIONS_JOURNAL_SESSION_JOURNAL_H_
