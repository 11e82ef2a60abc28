// KvKeeper keeps KV files with threads of its own: one that writes and removes them, one that opens them (kv_opener.h), one that reads
// them back. Nobody else waits for the disk on their account for longer than it may.
//
// What is asked is carried out in this order: what is to go, what somebody waits for, the sweep (once, at the start: what is there and
// belongs to nobody goes, and the rest becomes known), what is written so that it need not be in memory. So what is to go is what was
// there when that was asked, and never what was written since.
//
// Thread: any; a short lock, never held while the disk is waited for, nor while anything of the options and the hooks is called, but for
// `clock` and `weight_of`. All of these are called on the writing thread; `clock` on any.
//
// Invariants
//  1. A file that is in the catalogue is whole, and of a turn that the log had when it was written. Nothing relies on it: Open and Read
//     look at everything again.
//  2. At most `waiting_bytes_max` bytes wait to be written and `reading_bytes_max` to be read; what comes beyond is not done.
//  3. Every `done` is called once, whatever happens.
//  4. The files take at most `bytes_max` bytes, and one more while it is written, and `reading_bytes_max` (or one) while they come from
//     elsewhere.
//  5. While less than `free_bytes_min` is free on their volume, files only replace others, and once in `retry_us` as many go as are missing.
#ifndef HYDRANT_SERVER_SESSIONS_KV_KV_KEEPER_H_
#define HYDRANT_SERVER_SESSIONS_KV_KV_KEEPER_H_

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/step/kv_bytes.h"
#include "server/process/random_id.h"
#include "server/sessions/journal/session_journal.h"
#include "server/sessions/kv/kv_catalogue.h"
#include "server/sessions/kv/kv_disk.h"
#include "server/sessions/kv/kv_opener.h"
#include "server/sessions/kv/kv_travel.h"

namespace hydrant {

// What becomes of KV on its way to the disk.
enum class KvOutcome : uint8_t {
  kTaken,
  kNoRoom,  // on the disk, or of the tenant's part of it
  kBusy,    // too much comes at once, or nothing any more
  kWentOn,  // the session has, or is gone
  kFailed,  // the disk did not take it
};
std::string_view KvOutcomeName(KvOutcome outcome);

// A turn's KV on its way to the disk.
struct KvWrite {
  KvBinding binding;
  std::string tenant;  // its name
  int64_t used_s = 0;  // Unix time of the turn's end
  KvBytes kv;          // empty: there is none, and `done` hears so
  // The history's; only where its KV never changes but grows: what a file of an earlier turn has of it is not written again.
  std::shared_ptr<const std::vector<int32_t>> tokens;
  // In its place: what came from another server, and is on the disk under another name. Its Finish was well.
  std::shared_ptr<KvIncoming> received;
  std::shared_ptr<KvOutcome> outcome;  // said before `done` is told; null: nobody asks for more than that
};

struct KvCounts {
  int64_t files = 0;
  int64_t bytes = 0;
  uint64_t writes = 0;         // files that were written
  uint64_t written_bytes = 0;  // of them, without what was in files before
  uint64_t reads = 0;          // files that were read back, and found to be right
  uint64_t read_bytes = 0;
  uint64_t errors = 0;   // writes and removals that failed
  uint64_t evicted = 0;  // files that made room for others
  uint64_t moved = 0;    // KV that made room in memory and is in its file
  uint64_t passed = 0;   // that were to be written, and for which there was no room to wait, or none on the disk
  std::array<uint64_t, kKvRejects> rejected{};  // by KvReject
};

class KvKeeper {
 public:
  struct Options {
    int64_t bytes_max = 0;
    int64_t free_bytes_min =
        0;  // what the files leave of their volume to the log, which is no cache; 0: they ask nothing of it
    int64_t waiting_bytes_max = 256 << 20;
    int64_t reading_bytes_max = 1 << 30;
    int64_t bytes_per_s = 0;    // most that is written of what nobody waits for; 0: no limit
    int64_t look_us = 500'000;  // how often `look` is called
    int64_t retry_us =
        10'000'000;  // how long nothing is written after a write that failed, none of the log's room is given back again, and
                     // what could not be removed stays
    int64_t read_max_us = 10'000'000;  // after which a read is taken to hang: others are not begun behind it
    std::function<int64_t()> clock;    // monotonic microseconds
    std::function<double(const std::string& tenant)> weight_of;      // > 0
    std::function<int64_t(const std::string& tenant)> bytes_max_of;  // 0: no limit of its own
    // Whose a session is, as the log has it.
    struct Owner {
      uint64_t turn = 0;
      int64_t used_s = 0;
      std::string tenant;
    };
    std::function<std::optional<Owner>(const SessionName&)> owner_of;  // nullopt: there is no such session
    std::shared_ptr<const SessionKeys> keys;                           // null: files are not sealed
    // The sweep is over, and what it found is sealed with the key that seals, as far as that could be; null: nobody asks.
    std::function<void(bool all)> on_swept;
  };
  struct Hooks {
    // A session's file is the one of `turn` now; 0: it has none.
    std::function<void(const SessionName&, uint64_t turn)> on_change;
    std::function<void()> look;  // whether there is something to be written
  };

  KvKeeper(std::unique_ptr<LogDirectory> directory, KvFormat format, Options options);
  ~KvKeeper() { Stop(); }
  KvKeeper(const KvKeeper&) = delete;
  KvKeeper& operator=(const KvKeeper&) = delete;

  // Begins both threads. What is called before waits for it.
  void Start(Hooks hooks);
  // Has what waits to be written done at once, at whatever pace and before the sweep, and waits for it, for so long at most. What comes
  // behind it does not wait either: for the end of the process.
  void Flush(int64_t patience_us);
  // What waits is not done; what is being done is. No hook is called afterwards.
  void Stop();

  // `done` is told on the writing thread (after Stop on this one) whether the file is durable; null: nobody asks. Somebody waits for it
  // where it is `urgent`. Other files of the session go, but for those that it goes on from.
  void Write(KvWrite write, bool urgent, std::function<void(bool durable)> done);
  // Whether what is not urgent would be taken.
  bool has_room() const;
  // `done` is told whether no file of the session is left; null: nobody asks. What the disk does not remove is tried again, every
  // `retry_us` and whenever this is called. Throws std::bad_alloc, and then nothing happens.
  void Remove(const SessionName& session, std::function<void(bool gone)> done);
  // Whether there are files of the session that were to be removed, and could not be.
  bool HasLeft(const SessionName& session) const;
  // The session's last turn is this one, and nothing goes on from the KV of another, whose files go.
  void Supersede(const SessionName& session, uint64_t turn);
  // `look` is called soon.
  void Wake();

  // Whether there may be such a file, as far as is known without the disk.
  bool MayHave(const SessionName& session, uint64_t turn) const;
  // The file of that turn if it is what it has to be: waits for the disk, for `read_max_us` at most once Start was called, and not at all
  // while something else has waited for longer. Null: there is none, or it was refused, which is counted.
  // `expected` is asked if there is one.
  std::shared_ptr<const OpenKvFile> Open(const SessionName& session, uint64_t turn,
                                         const std::function<KvBinding()>& expected);
  // `done` is told on the reading thread, or on this one where it cannot be read at all; empty: it is not what was written, which is
  // counted, or there was no memory for it.
  void Read(std::shared_ptr<const OpenKvFile> file, std::function<void(KvBytes)> done);
  // The file as it travels to another server. Null: it is not what was written, which is counted, as it is where that shows later. Waits
  // for the disk. This outlives it.
  std::unique_ptr<KvOutgoing> Send(std::shared_ptr<const OpenKvFile> file);
  // Takes a file of `bytes` bytes from another server, whose turn's KV it has to be: kBusy where more comes at once than may, then or
  // later. Null, and why: so much is not taken, or not at present. This outlives it.
  std::unique_ptr<KvIncoming> Receive(const KvBinding& expected, int64_t bytes, KvOutcome* why);
  // It is not read, or whoever asked for it waits no longer: it is counted as rejected. `done` is told all the same.
  void CountUnread(KvReject why);
  void CountMoved();
  // A turn was not promised its KV, for too many wait for theirs.
  void CountPassed();
  // Bytes a second of the last files that were read; 0: none was.
  double read_rate() const;

  const KvFormat& format() const { return disk_.format(); }
  KvCounts counts() const;
  CommitTimes write_times() const;  // from Write to durable
  CommitTimes read_times() const;   // from Read to `done`

 private:
  struct Writing {
    KvWrite write;
    std::function<void(bool)> done;
    int64_t since_us = 0;
    bool cancelled = false;
  };
  struct Removal {
    SessionName session{};
    uint64_t turn = 0;  // other than 0: only files of turns before
    std::function<void(bool)> done;
  };
  struct Reading {
    std::shared_ptr<const OpenKvFile> file;
    std::function<void(KvBytes)> done;
    int64_t since_us = 0;
  };
  // What was in the directory at the start, and is still to be looked at.
  struct Unswept {
    std::vector<std::string> strays;                     // names of other files
    std::map<SessionName, std::vector<uint64_t>> turns;  // of which there are files
  };
  // What the writing thread does next; nothing in it: look.
  struct Work {
    std::optional<Removal> removal;
    std::optional<Writing> writing;
    bool sweeps = false;
    bool over = false;
  };

  void RunWriter();
  void RunReader();
  Work WaitForWork();
  void DoRemoval(Removal& removal);
  bool RemoveFiles(const Removal& removal);
  bool RemoveFile(const SessionName& session, uint64_t turn);
  bool HasLeftNow(const SessionName& session) const;
  bool RemoveLeftOf(const SessionName& session);
  void RemoveLeft();
  void DoWrite(Writing& writing);
  KvOutcome WriteOne(const KvWrite& write, int64_t* written);
  std::shared_ptr<const OpenKvFile> BaseOf(const KvWrite& write);
  bool MakeRoomFor(const KvWrite& write, KvFileHeader* header, std::string* head);
  std::vector<uint64_t> NoteFile(const KvWrite& write, const KvFileHeader& header, int error);
  void Pace(int64_t bytes);
  bool MakeRoom(const KvWrite& write, const KvFileHeader& header);
  void Lose(const SessionName& session);
  void CountError();  // of a disk
  void Tell(const SessionName& session, uint64_t turn);
  Unswept& ListUnswept();
  void RemoveUnswept(const SessionName& session);
  void SweepSome();
  void SweepStray(const std::string& name);
  void SweepSession(const SessionName& session, const std::vector<uint64_t>& turns);
  std::optional<KvFileEntry> FilesOf(const SessionName& session, const std::vector<uint64_t>& turns);
  int64_t BytesMaxNow(int64_t own_bytes, bool restores);
  bool HasRoomFor(int64_t incoming);
  void CutToSize();
  bool LetIn(int64_t own_bytes, int64_t more);
  bool ReadHangs() const;
  KvBytes ReadOne(const OpenKvFile& file, KvReject* reject);
  void Reject(KvReject reject);
  void NoteUnread(const SessionName& session, KvReject reject);
  static void Observe(double seconds, CommitTimes* times);

  KvDisk disk_;
  const Options options_;
  // In the names of what comes from elsewhere: what another process has left of that has another one, and goes with the sweep.
  const std::string incoming_mark_ = "." + RandomId() + ".";
  Hooks hooks_;  // set before the threads begin

  // The writing thread's alone.
  bool resealed_ = true;            // all that the sweep has met
  std::optional<Unswept> unswept_;  // nullopt: not listed yet
  int64_t look_at_us_ = 0;
  int64_t retry_at_us_ = 0;
  int64_t left_at_us_ = 0;  // when what is left is tried again
  int64_t cut_at_us_ = 0;
  bool in_hand_is_urgent_ = false;
  int64_t paced_until_us_ = 0;  // when what was written may have been

  mutable std::mutex mutex_;
  std::condition_variable arrived_;       // for the writer
  std::condition_variable read_arrived_;  // for the reader
  // Guarded by mutex_.
  KvCatalogue catalogue_;                            // files come and go by the writing thread alone
  std::set<std::pair<SessionName, uint64_t>> left_;  // files that could not be removed; by the writing thread alone
  std::deque<Removal> removals_;
  std::deque<Writing> urgent_, background_;
  std::optional<SessionName> in_hand_;  // whose file is being written
  bool cancelled_ = false;              // it is to go again
  std::deque<Reading> reads_;
  int64_t waiting_bytes_ = 0;
  int64_t reading_bytes_ = 0;
  int64_t incoming_bytes_ = 0;  // that have come from elsewhere and are no files yet
  uint64_t incoming_ = 0;       // that there were
  double read_rate_ = 0;
  std::optional<int64_t> read_since_us_;  // the one that is being read
  bool swept_ = false;
  // Sessions whose files could not be read before the sweep knew of them; nullopt: there was no memory to note one.
  std::optional<std::vector<SessionName>> unread_ = std::vector<SessionName>();
  bool wakes_ = false;
  bool flushes_ = false;  // Flush was called
  bool stopping_ = false;
  KvCounts counts_;
  CommitTimes write_times_, read_times_;
  KvOpener opener_;
  std::thread writer_, reader_;  // last: they use the others
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SESSIONS_KV_KV_KEEPER_H_
