// SessionLog keeps what sessions have said in segments of records that are only ever appended to, and an index of them.
//
// Thread: Write, Clean, and Checkpoint belong to one thread, which waits for the disk. The others may be called from any thread
// beside it; a short lock, which is never held while the disk is waited for.
//
// Invariants
//  1. What Write has said is durable was synced before, and a start finds it: in a checkpoint or in what came after it.
//  2. A file descriptor whose write or sync has failed is not written to again: what the disk kept of it is unknown. What was not
//     acknowledged goes to a new segment.
//  3. A segment is removed only when no chain has a record in it, when the checkpoint is newer than it, and when the records in it
//     that say that a session is gone are not needed or were copied: nothing that was forgotten comes back.
//  4. A past is given out only if every record of its chain is whole, belongs to the session, and has the turn that the record after
//     it says: the index is not trusted over the payload.
#ifndef HYDRANT_SERVER_SESSIONS_JOURNAL_SESSION_LOG_H_
#define HYDRANT_SERVER_SESSIONS_JOURNAL_SESSION_LOG_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/sessions/journal/log_directory.h"
#include "server/sessions/journal/log_index.h"
#include "server/sessions/journal/log_record.h"
#include "server/sessions/journal/session_keys.h"

namespace hydrant {

struct SessionLogOptions {
  DirectoryId directory{};
  std::function<SessionName(std::string_view tenant, std::string_view id)> name_of;
  int64_t segment_bytes = 64 << 20;  // then another is begun, with a checkpoint
  int64_t purge_s = 3600;            // what sessions that are gone have said leaves the directory after this long
  int64_t retry_s = 10;              // how long nothing is written after a commit that failed twice
  std::shared_ptr<const SessionKeys> keys;  // null: nothing is sealed
  bool reseals =
      false;  // what is there may be sealed with another key than the one that seals: it is written anew, bit by bit
};

// What is to be made durable.
struct LogRecord {
  RecordType type = RecordType::kReplace;
  SessionName name{};
  uint64_t turn = 0;
  uint64_t turn_before = 0;  // kTurn: the turn that `body` was made against
  int64_t wall_s = 0;        // Unix time
  SessionFacts facts;        // not written of a kForget
  std::string body;
  // A kForget: nobody asks for it again where it is not durable, so that SessionJournal does.
  bool until_durable = false;
};

// A session as it was last acknowledged.
struct LoggedPast {
  LoggedSession session;
  std::vector<std::string> bodies;  // of its records, the oldest, of a kReplace, first
};

struct LogCounts {
  int64_t bytes = 0;       // of all segments
  int64_t live_bytes = 0;  // of the records that count
  int64_t sessions = 0;
  int64_t segments = 0;
  int64_t forgotten_segments = 0;  // with records of sessions that are gone
  uint64_t commits = 0;
  uint64_t records = 0;
  uint64_t errors = 0;     // writes and syncs that failed
  uint64_t damaged = 0;    // records that were not what was written, and sessions that could not be read
  bool read_only = false;  // nothing is durable at present
  // SessionJournal's: of records that wait or are being written, and of what is kept for them; what was not taken for its size.
  int64_t waiting_bytes = 0;
  uint64_t passed = 0;
};

class SessionLog {
 public:
  // Errors: FAILED_PRECONDITION for a log that a later version wrote, which is left as it is; UNAVAILABLE for a directory that cannot be
  // read.
  static absl::StatusOr<std::unique_ptr<SessionLog>> Open(std::unique_ptr<LogDirectory> directory,
                                                          SessionLogOptions options);
  ~SessionLog();
  SessionLog(const SessionLog&) = delete;
  SessionLog& operator=(const SessionLog&) = delete;

  // Writes the records in one piece, and returns when they are durable; which of them are. Not: it cannot be written, or, a kTurn, it
  // was made against another turn than the last. `now_us` is monotonic.
  std::vector<bool> Write(std::span<const LogRecord> records, int64_t now_us);
  // After a commit that failed, and once it is time: begins a segment, so that what works again says so, also where nobody has anything to
  // be written.
  void TryAgain(int64_t now_us);
  // Does a part of the work of giving room back, a few ms. `now_s` is Unix time. `purge`: what sessions that are gone have said goes
  // whatever purge_s is. True: there is more.
  bool Clean(int64_t now_s, bool purge = false);
  // By the writing thread. What could not be read of a segment is tried again where it has records of a session of this name that is
  // gone: somebody waits for it to go. The newest segment there has been.
  void TryStuckAgain(const SessionName& name);
  uint32_t newest_segment() const { return next_number_ - 1; }
  // No session needs what is older than this start, and what could be written anew was; true where nothing is to be
  // (SessionLogOptions::reseals).
  bool IsResealed() const;
  // So that the next start reads nothing else.
  void Checkpoint();

  // Errors: NOT_FOUND; DATA_LOSS when what is there is not what was written.
  absl::StatusOr<LoggedPast> Read(const SessionName& name) const;
  // What the log knows of a session; nullopt: there is none. Its last turn; 0: there is none.
  std::optional<LoggedSession> Find(const SessionName& name) const;
  uint64_t TurnOf(const SessionName& name) const;
  // Whether a segment, up to this one, has records of a session of this name that is gone.
  bool HasForgotten(const SessionName& name, uint32_t up_to = std::numeric_limits<uint32_t>::max()) const;
  void ForEach(const std::function<void(const SessionName&, const LoggedSession&)>& visit) const;
  LogCounts counts() const;

 private:
  // A file of the log, open for reading until nobody needs it.
  struct Segment {
    Segment(LogDirectory& directory_in, int fd_in) : directory(directory_in), fd(fd_in) {}
    ~Segment() { directory.Close(fd); }
    LogDirectory& directory;
    const int fd;
    int64_t bytes = 0;
  };
  using Segments = std::map<uint32_t, std::shared_ptr<Segment>>;

  SessionLog(std::unique_ptr<LogDirectory> directory, SessionLogOptions options)
      : directory_(std::move(directory)), options_(std::move(options)) {}
  absl::Status Load();
  absl::Status OpenSegments(const std::set<uint32_t>& numbers);
  absl::Status Replay(uint32_t number);
  void ApplyReplayed(const ScannedRecord& record);

  // A record that is in buffer_, and where it will be.
  struct Placed {
    RecordHeader header;
    LogPlace place;
  };

  int BeginSegment();
  void EndSegment();
  int HaveRoom();
  void NoteWorks();
  void Abandon();
  int Append(std::string_view bytes);
  int WriteOnce(std::span<const LogRecord> records, std::vector<bool>* fits);
  bool EncodeTurn(const LogRecord& record, const LoggedSession& session, RecordHeader* header,
                  std::string* payload) const;
  Placed Put(RecordHeader header, std::string_view payload);
  std::vector<Placed> Encode(std::span<const LogRecord> records, std::vector<bool>* fits);
  void Applied(std::span<const LogRecord> records, std::span<const Placed> placed, const std::vector<bool>& fits);
  int WriteCheckpoint(uint32_t number);

  absl::StatusOr<LoggedPast> ReadChain(const SessionName& name, LoggedSession session, const Segments& segments) const;
  struct Cleaning {
    uint32_t segment = 0;
    std::vector<SessionName> names;     // with a record in it; those that are left
    std::vector<RecordHeader> forgets;  // kForget records to be copied
    bool unreadable = false;            // something in it could not be read, so it stays
  };
  std::optional<uint32_t> ChooseSegment(int64_t now_s, bool purge) const;
  void BeginCleaning(uint32_t segment);
  bool MoveSome();
  bool PutMoved(const SessionName& name, std::vector<Placed>* moved);
  bool RemoveSegment(uint32_t segment);

  const std::unique_ptr<LogDirectory> directory_;
  const SessionLogOptions options_;

  // The writing thread's alone.
  int fd_ = -1;  // of the newest segment; -1: none is begun
  uint32_t number_ = 0;
  uint32_t next_number_ = 1;
  uint32_t checkpoint_ = 0;       // the segment that the newest one is of; 0: none
  int64_t since_checkpoint_ = 0;  // bytes
  int64_t retry_us_ = -1;         // when to try again; -1: now
  std::string buffer_;
  std::optional<Cleaning> cleaning_;
  uint32_t unmarked_up_to_ = 0;    // segments in which sessions may have left what nobody noted
  uint32_t stale_up_to_ = 0;       // segments that are to be written anew
  bool stale_checkpoint_ = false;  // and so is the checkpoint
  std::set<uint32_t> stuck_;       // segments that cannot be cleaned: something in them cannot be read

  mutable std::mutex mutex_;
  // Guarded by mutex_; changed by the writing thread alone.
  LogIndex index_;
  std::shared_ptr<const Segments> segments_ = std::make_shared<Segments>();  // replaced as a whole
  mutable LogCounts counts_;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SESSIONS_JOURNAL_SESSION_LOG_H_
