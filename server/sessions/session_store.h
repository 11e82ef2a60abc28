// SessionStore knows every session by its tenant and id: the tokens of the turns that ended, under which policy they were
// computed, and whether their KV is parked. The KV itself is the engine's.
//
// A turn is a transaction. Begin hands out the session for one turn; End puts the turn's tokens in force; a SessionTurn
// that goes without it (cancelled, failed, refused) leaves the session as it was, and one that had no turn before is gone.
// Either way the engine is told (on_settle) before the session's next turn can begin: it may have computed and parked the
// turn of a client that did not stay to hear of it.
//
// Thread: any; a short lock at the beginning and the end of a turn. OnParked comes from the engine thread, which never waits
// for that lock: what it says is put down beside it, and taken in by whoever comes next.
//
// Invariants
//  1. One turn at a time per session.
//  2. A session is found by its own tenant only; for any other its id is one that was never there.
//  3. At most sessions_max sessions and bytes_max bytes of what they said are kept, those with a turn in progress aside.
//     Beyond that the tenant with the most for its weight loses the session it used least recently, but for bytes never its newest.
//     Of its sessions the lines of chats go first, which nobody asked to keep: none that it named goes for one of its own.
//  4. A turn ends, and a session goes, without memory: the list node that holds it moves from one list to another.
//  5. With a journal, a turn that ends is put into it first: it is in force, and its session free, when it is durable or cannot be
//     made so. What is durable is known again after a start; its past is read when somebody asks for the session.
//  6. With a keeper of KV files, KV that was parked for a while is written behind, and KV that has to make room before it goes. A turn
//     whose owner was promised its KV is in force when that is on the disk, too. What is read back is bound to the past by its tokens,
//     its policy and the turn: a file says nothing that the journal does not say.
//  7. An expired session is not found. No call forgets more than kExpiredPerCall of them that nobody asked for: thousands that
//     expire together hold up nobody, and the engine is not told of all of them at once.
#ifndef HYDRANT_SERVER_SESSIONS_SESSION_STORE_H_
#define HYDRANT_SERVER_SESSIONS_SESSION_STORE_H_

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "api/kv/kv_spec.h"
#include "api/session/session.h"
#include "api/wire/api_error.h"
#include "api/wire/durability.h"
#include "kernels/step/kv_bytes.h"
#include "model/tokenizer/tokenizer.h"
#include "server/engine/engine_types.h"
#include "server/kv/kv_resolution.h"
#include "server/sessions/journal/session_journal.h"
#include "server/sessions/kv/kv_keeper.h"

namespace hydrant {

// What tokens mean, and which KV policies there are, is the model's: a past of another one is not gone on from.
using ModelId = std::array<uint8_t, 16>;

// What the ids of chats' lines begin with (chat_lines.h).
inline constexpr std::string_view kLinePrefix = "auto_";

// What a turn has said beside its tokens, for whoever asks for it by its id (/v1/responses). Immutable.
struct TurnNote {
  uint64_t turn = 0;
  int32_t tokens = 0;  // that the past had when the turn had ended, and begins with now; 0: it does not
  std::string text;    // the endpoint's own
  // What the prompt began with: others go on from its tokens only with the same. Never null; neighbours share what is equal.
  std::shared_ptr<const std::string> head;
};
using TurnNotes = std::vector<std::shared_ptr<const TurnNote>>;  // in order

// SessionPast is the history that ended turns have left. Immutable.
struct SessionPast {
  std::vector<int32_t> tokens;  // prompt and answer of the last turn, and so all there is; without a final stop token
  // How many of these; the last token of an answer is not. Where the session recalls: those of the whole blocks of its
  // last prompt, but for its last token, whether or not they were parked.
  int32_t computed = 0;
  int32_t added_special_tokens = 0;  // leading tokens that the server added
  // What a client that sends its whole history begins with: what was sent and what was generated, a stop string included.
  // Reasoning that the template left out of answers before the last is not in it. Else absent when that is not the text of the
  // tokens.
  std::optional<std::string> text;
  std::optional<size_t> text_before_last;  // bytes of it that stand for all tokens but the last, where that can be told
  // Ranges of `text`, ascending, disjoint and apart: what a client wrote in the prompt, where no byte is a special token's; and
  // after the prompt what the answer's special tokens are shown as.
  size_t prompt_bytes = 0;
  std::vector<ByteRange> client_ranges;
  std::vector<ByteRange> answer_specials;
  TurnNotes notes;      // of turns that are to be found again
  uint64_t turn = 0;    // the last
  std::string adapter;  // LoadedAdapter::digest of the adapter that computed all of it; empty: none did
  // What was asked for, and what that came to: it holds for the session's life, or for the turn where it recalls.
  KvSpec spec;
  KvResolution kv;

  // Tokens that whoever goes on from it begins with: all that were computed, parked or not.
  size_t said() const { return spec.recalls() && !tokens.empty() ? tokens.size() - 1 : static_cast<size_t>(computed); }
};

// The owner of sessions: a tenant, and how many it may have.
struct SessionOwner {
  int32_t tenant = 0;        // index
  double weight = 1;         // > 0
  int32_t sessions_max = 0;  // 0: no limit of its own
  int64_t disk_bytes = 0;    // what they may take of the log and in KV files; 0: no limit of its own
  bool keeps_kv = false;     // their turns end when their KV is on the disk
  // Not null: whoever asks does not wait for the disk. What would have to be read is not, and this says so: whatever comes of it is
  // nothing then, and is asked for again where the disk may be waited for.
  bool* needs_disk = nullptr;
};

class SessionTurn;

class SessionStore {
 private:
  struct Session;

 public:
  struct Options {
    int64_t ttl_us = 0;  // since the last turn; 0: sessions do not expire
    int32_t sessions_max = 1 << 16;
    int64_t bytes_max = 256 << 20;            // of their tokens and texts
    std::function<int64_t()> clock;           // monotonic microseconds
    std::function<int64_t()> wall_clock;      // Unix seconds; null: the system's
    std::function<void(uint64_t)> on_forget;  // the session's number is done with: its parked KV may go. Any thread
    // The turn has ended: the session goes on from it (`keep`), or as if it had not been. Once per turn. Any thread
    std::function<void(const TurnId& turn, bool keep)> on_settle;
    // Null: nothing outlives the process. It outlives the store, and is stopped before.
    SessionJournal* journal = nullptr;
    // Null: no KV is kept on the disk. Only with a journal, and likewise. The caller has it call OnKvFile and KeepDue.
    KvKeeper* kv = nullptr;
    // EnginePort::TakeParked; needed with one.
    std::function<void(const TurnId& turn, std::function<void(KvBytes)> done)> take_parked;
    int64_t kv_idle_us = 5'000'000;         // how long a session is left alone before its KV is written
    int64_t kv_lost_bytes_max = 256 << 20;  // of KV that has to go and waits to be written
    // What pasts may take that are not in force before their KV is on the disk. A tenant has no more of it than are left; beyond that a
    // turn ends when its tokens are.
    int64_t kv_promised_bytes_max = 256 << 20;
    ModelId model{};
    int32_t tenants = 0;  // whose sessions are known at once; others' when one of them asks
    std::function<std::string(int32_t tenant)> tenant_name;  // by which the journal knows it; needed with one
  };

  // A few microseconds each, and so a millisecond together. Whoever scrapes metrics every 15 s gets rid of a
  // thousand a minute without any other call; until then they count among the sessions, and make room first.
  static constexpr int32_t kExpiredPerCall = 256;
  // No turn comes after it, so that what was imported can be exported again (SessionFile).
  static constexpr uint64_t kTurnMax = uint64_t{1} << 62;

  // With a journal: knows what is in it.
  explicit SessionStore(Options options);
  SessionStore(const SessionStore&) = delete;
  SessionStore& operator=(const SessionStore&) = delete;

  // Begins a turn, with a new session when there is none of this id, or, when `must_exist`, not. Errors: 404
  // session_not_found or session_expired, 409 session_busy; 429 session_limit_exceeded, 503 when there are too many
  // sessions and all of them have a turn in progress. 409 turn_conflict when the session's last turn is not `turn_before`; 0: it has
  // none. May wait for the disk where there is a journal, and then: 404 session_damaged, with `must_exist`, when what is there cannot
  // be gone on from; without, the session begins anew. With owner.needs_disk it does not wait: some error, where it would.
  ApiResult<SessionTurn> Begin(const SessionOwner& owner, const std::string& id, bool must_exist,
                               std::optional<uint64_t> turn_before = std::nullopt);
  // Reads the KV of the turn's past from its file. `done` is told once, on any thread, also on this one; empty: it is not to be had.
  // REQUIRES: turn.kv_file() is not null, and this was not called before.
  void ReadKv(SessionTurn* turn, std::function<void(KvBytes)> done);
  // It is not read, or whoever called it waits no longer, which is counted.
  void StopReadingKv(KvReject why) { options_.kv->CountUnread(why); }

  // EngineHooks' of KV that has to make room: only notes it.
  void OnKvLoss(const TurnId& turn, KvBytes kv);
  // KvKeeper::Hooks::on_change.
  void OnKvFile(const SessionName& session, uint64_t turn);
  // KvKeeper::Hooks::look: has the KV written that is due.
  void KeepDue();
  // Has the KV of all sessions written that is not on the disk, and waits for it: what had to make room and waits to be written, then what
  // is parked, of that what is dearest to compute for its size first. It waits until the monotonic clock says `until_us`. `read` gives a turn's parked KV; empty: none. Returns how many were written. For
  // the end of the process.
  int32_t KeepAll(int64_t until_us, const std::function<KvBytes(const TurnId&)>& read);
  // What the tenant's KV files may take beside its part of the log; 0: no limit of its own.
  int64_t KvBytesMaxOf(const std::string& tenant);

  // Whether Begin may wait for the disk.
  bool journals() const { return options_.journal != nullptr; }

  // EngineHooks::on_parked. Only notes the events; the next call of another method applies them.
  void OnParked(std::span<const TurnId> dropped, std::span<const ParkedTurn> parked);

  // A session between two turns, as another server can go on from it.
  struct Kept {
    std::shared_ptr<const SessionPast> past;
    int64_t created_s = 0;  // Unix time
    int64_t used_s = 0;
    SessionName name{};  // with a journal
  };
  // Errors: 404 as above; 409 for one with a turn in progress. May wait for the disk where there is a journal.
  ApiResult<Kept> Export(int32_t tenant, const std::string& id);
  // Has the session's KV written, where it is parked and on no disk. `done` is told when that is so, or cannot be: once, on any thread,
  // also on this one. May wait for the disk.
  void KeepKv(int32_t tenant, const std::string& id, std::function<void()> done);
  // The KV file of what was exported, as it travels. Null: there is none. Waits for the disk.
  std::unique_ptr<KvOutgoing> SendKv(const Kept& kept);
  // Whether a session whose log record is of about `bytes` may be imported now: it takes nobody's place. Errors: 412 session_exists;
  // 413 session_disk_exceeded, 429 session_limit_exceeded, 503 too_many_sessions; CheckWrite's.
  std::optional<ApiError> CheckImport(const SessionOwner& owner, const std::string& id, int64_t bytes);
  // Whether the disk keeps up. What a request writes beside turns is refused where it does not, for it waits in memory, also when its
  // client has gone; a turn goes on without being durable. Errors: 503 disk_behind.
  std::optional<ApiError> CheckWrite(const SessionOwner& owner, const SessionPast& past);
  // The session is there from now on, and free once it is durable or cannot be made so: `done` is told which, once, on any thread,
  // also on this one; not when there is an error. Errors: CheckImport's; 400 for one that has expired. REQUIRES: kept.past, checked
  // (past_check.h).
  std::optional<ApiError> Import(const SessionOwner& owner, const std::string& id, const Kept& kept,
                                 std::function<void(bool durable)> done);

  // Takes the KV of a session that is going to be imported: `past` is its. Null, and why: `bytes` bytes of it are not taken, or not at
  // present. The store outlives it. REQUIRES: kv().
  std::unique_ptr<KvIncoming> ReceiveKv(const SessionOwner& owner, const std::string& id, const SessionPast& past,
                                        int64_t bytes, KvOutcome* why);
  // Puts it beside the session, which has been imported: the next turn goes on from it, if it was taken. `done` is told as Import's.
  // REQUIRES: its Finish was well.
  void TakeKv(const SessionOwner& owner, std::unique_ptr<KvIncoming> kv, int64_t used_s,
              std::function<void(KvOutcome)> done);

  // Errors: 404; 409 for one with a turn in progress.
  ApiResult<SessionCard> Get(int32_t tenant, const std::string& id);
  // `done` is told when no start will find it again and no file of its KV is left, or that this is not so: on any thread, also on this
  // one; not when there is an error. 412 turn_changed when `turn` is not the session's last. One that is gone, and that a start would
  // find, or whose KV is left, is there to be deleted.
  std::optional<ApiError> Delete(int32_t tenant, const std::string& id, std::function<void(bool gone)> done = nullptr,
                                 std::optional<uint64_t> turn = std::nullopt);

  // The past that a start would find, where that is not the session's: it is gone, or its last turn is not durable. Null: there is none,
  // or it cannot be read. Waits for the disk, but not where there is none.
  std::shared_ptr<const SessionPast> ReadDurable(int32_t tenant, const std::string& id);
  // Whether there are files of its KV that were to be removed, and could not be.
  bool HasLeftKv(int32_t tenant, const std::string& id);

  struct View {
    SessionCard card;
    uint64_t number = 0;  // the engine's name for it
    std::shared_ptr<const SessionPast>
        past;             // null before the first turn has ended, and when it is in the journal only
    bool stored = false;  // the latter
  };
  // Errors: 404.
  ApiResult<View> Inspect(int32_t tenant, const std::string& id);
  // The past of such a session, for somebody who only looks: nothing of it stays in memory. Null: it cannot be read, or is not in the
  // journal only any more. Waits for the disk.
  std::shared_ptr<const SessionPast> ReadStored(int32_t tenant, const std::string& id);

  struct Page {
    std::vector<SessionCard> cards;  // by id
    bool has_more = false;
  };
  // Up to `count_max` sessions with ids above `after`.
  Page List(int32_t tenant, const std::string& after, size_t count_max);

  SessionCounts counts();
  // What has expired goes, also where nobody asks for anything. To be called every second or so.
  void ForgetExpired();
  const ModelId& model() const { return options_.model; }
  // `done` is told when no file has what sessions of this id that are gone by now have said, or that this cannot be: as Delete's.
  void Purge(int32_t tenant, const std::string& id, std::function<void(bool purged)> done);
  // Whether there is something for Purge to do.
  bool IsUnpurged(int32_t tenant, const std::string& id) const;
  // Null without a journal.
  const SessionJournal* journal() const { return options_.journal; }
  // Null: no KV is kept on the disk.
  const KvKeeper* kv() const { return options_.kv; }

 private:
  friend class SessionTurn;

  using Sessions = std::list<std::unique_ptr<Session>>;
  struct Session {
    std::string id;
    int32_t tenant = 0;
    uint64_t number = 0;  // the engine's name for it
    // Null before the first turn has ended, and when it is in the journal only.
    std::shared_ptr<const SessionPast> past;
    uint64_t past_turn = 0;  // its turn; 0: none has ended. The next three are of it, too
    int64_t tokens = 0;
    int32_t budget = 0;
    KvPreset preset = KvPreset::kFull;
    // What the journal has of it. Turn 0: nothing.
    SessionName name{};
    uint64_t logged_turn = 0;
    int64_t logged_bytes = 0;
    int32_t logged_records = 0;  // since the last whole one
    uint64_t disk_turn = 0;      // whose KV is in a file; 0: none is known
    // The turns whose KV is parked: the past, and beside it one that is not settled. Turn 0: nothing.
    ParkedTurn parked[2];
    bool keeps_kv = false;  // SessionOwner's
    bool busy = true;
    bool stored = false;    // idle, and in the list of those whose past is in the journal only
    uint64_t turns = 0;     // begun
    int64_t used_us = 0;    // monotonic
    int64_t created_s = 0;  // Unix time, read when it happened: it does not depend on when somebody asks
    int64_t used_s = 0;
    Sessions::iterator place;  // in the list that it is in: stays the same whichever that is

    bool is_line() const { return id.starts_with(kLinePrefix); }
  };
  // Sessions without a turn in progress, each list least recently used first.
  struct Idle {
    Sessions loaded;
    Sessions stored;  // without a past in memory
  };
  struct Tenant {
    std::map<std::string, Session*> sessions;  // by id
    Sessions busy;
    Idle lines;                    // of chats
    Idle named;                    // all others
    std::string name;              // with a journal
    std::deque<std::string> gone;  // ids that expired or gave way, the latest few
    double weight = 1;
    int64_t bytes = 0;
    int64_t logged_bytes = 0;
    int64_t promised_bytes = 0;  // Options::kv_promised_bytes_max
    int32_t sessions_max = 0;
    int64_t disk_bytes = 0;
  };
  // A session of the journal whose tenant nobody has asked for yet.
  struct Unclaimed {
    SessionName name{};
    LoggedSession session;
  };

  // A turn whose KV may be written when it has been left alone.
  struct Due {
    TurnId turn;
    int64_t at_us = 0;
  };
  struct LostKv {
    TurnId turn;
    KvBytes kv;
  };
  // A session whose KV is to be written.
  struct KvWish {
    TurnId turn;
    KvWrite write;                            // without binding and KV
    std::shared_ptr<const SessionPast> past;  // null: in the journal only
    double value = 0;                         // tokens that need not be computed again, for each slot
  };

  struct ParkEvent {
    ParkedTurn turn;
    bool parked = false;  // or dropped
  };
  // Holds the mutex, with what the engine has said taken in. Once it has let go of it, it says what was removed, and frees it.
  class Lock {
   public:
    explicit Lock(SessionStore& store) : store_(store), lock_(store.mutex_) { store_.ApplyParkEvents(); }
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    SessionStore& store_;
    std::unique_lock<std::mutex> lock_;
  };

  // All of these REQUIRE the lock.
  void ApplyParkEvents();
  Tenant& TenantOf(int32_t tenant);
  Session* Find(int32_t tenant, const std::string& id);  // null when it has expired
  Session* Add(int32_t tenant, const std::string& id);
  std::optional<ApiError> CheckRoom(const SessionOwner& owner);
  ApiResult<SessionTurn> BeginNow(const SessionOwner& owner, const std::string& id, bool must_exist,
                                  std::optional<uint64_t> turn_before);
  void LoadNames();
  void Claim(int32_t tenant);
  Sessions& ListOf(const Session& session);
  static Sessions::iterator PlaceIn(Sessions& idle, int64_t used_us);
  static Idle& IdleOf(Tenant& tenant, const Session& session) {
    return session.is_line() ? tenant.lines : tenant.named;
  }
  Session* FirstToGo(const Tenant& tenant, Session* newest, bool by_bytes);
  void Unload(Session* session);
  void SetStored(Session* session);
  void NotePast(Session* session, const SessionPast& past);
  void MakeRoom(Session* newest);
  int64_t WallClock() const;  // Unix seconds
  // The same for what outlives the process: not before what the journal had at the start, and going on from there. What is stamped by
  // a clock that was put back, and then right again, would be as old as it was off.
  int64_t StampS() const;
  bool Expired(const Session& session, int64_t now_us) const;
  void Expire();
  void Forget(Session* session, bool remember, std::function<void(bool)> done = nullptr) noexcept;
  void ForgetLogged(const Tenant& tenant, const SessionName& name, uint64_t turn, std::function<void(bool)> done);
  static int64_t BytesOf(const std::shared_ptr<const SessionPast>& past);
  static int64_t BytesOf(const SessionPast& past);
  std::optional<ApiError> CheckWriteNow(int32_t tenant, int64_t bytes);
  static const ParkedTurn* ParkedPast(const Session& session);  // null: nothing of it is parked
  void CountBytes(const Session& session, int64_t more);
  void SetIdle(Session* session, std::optional<int64_t> used_s = std::nullopt);
  SessionState StateOf(const Session& session) const;
  SessionCard CardOf(const Session& session) const;
  void Count(const Session& session, int64_t delta) { counts_[static_cast<size_t>(StateOf(session))] += delta; }

  // REQUIRES the lock.
  std::optional<ApiError> CheckImportNow(const SessionOwner& owner, const std::string& id, int64_t bytes);
  // How long ago a wall clock showed `used_s`: never less than nothing, whatever was done to that clock.
  int64_t AgeUs(int64_t used_s) const;

  std::optional<KvWish> WishOf(Session* session);
  void NoteDue(const Session& session, bool grows);

  // What follows takes the lock. `past` null: as it was. `logged`: the turn is in the journal, as so many bytes. `used_s`: it was not
  // used now but then.
  struct Logged {
    bool yes = false;
    bool whole = false;
    int64_t bytes = 0;
    std::optional<int64_t> used_s = std::nullopt;
    bool grows = false;  // nothing of the past before is gone, and its KV may be gone on from
  };
  void End(Session* session, uint64_t turn, std::shared_ptr<const SessionPast> past, Logged logged) noexcept;
  // REQUIRES: the session is the turn's. Throws std::bad_alloc, and then it still is; else `done` is called once. `used_s`: as in
  // Logged. `removes`: SessionTurn's.
  void Commit(Session* session, uint64_t turn, const SessionPast* before, std::shared_ptr<const SessionPast> past,
              std::function<void(Durability)> done, std::optional<int64_t> used_s = std::nullopt, bool removes = false);
  // The past that the journal has. Null: it cannot be gone on from.
  std::shared_ptr<const SessionPast> ReadPast(Session* session);
  std::shared_ptr<const SessionPast> ReadLogged(const SessionName& name, uint64_t turn) const;
  std::shared_ptr<const SessionPast> ReadLogged(const SessionName& name) const;
  static KvBinding BindingOf(const SessionName& name, const SessionPast& past);
  void FindKv(SessionTurn* turn);
  void RemoveKv(const SessionName& name, std::function<void(bool gone)> done);
  bool ReadsDisk(const Session& session) const;  // whether Begin of it waits for the disk; REQUIRES the lock
  // Whether so many bytes of the tenant's may wait for their KV; then they do.
  bool TakePromise(int32_t tenant, int64_t bytes);
  void EndPromise(int32_t tenant, int64_t bytes);
  // Takes no lock. `kv` empty: what the engine has parked.
  void WriteKv(KvWish wish, KvBytes kv, bool urgent, std::function<void(bool)> done);
  void KeepParked(const std::function<int64_t()>& left_us, const std::function<KvBytes(const TurnId&)>& read);

  const Options options_;
  std::mutex mutex_;
  // Guarded by mutex_.
  std::deque<Tenant> tenants_;  // by index
  absl::flat_hash_map<uint64_t, Session*> by_number_;
  Sessions removed_;  // since the lock was taken
  std::vector<ParkEvent> park_events_taken_;
  int64_t bytes_ = 0;
  int64_t promised_bytes_ = 0;  // of all tenants
  uint64_t numbers_ = 0;
  int64_t start_s_ = 0;  // StampS() when options_.clock() said start_us_
  int64_t start_us_ = 0;
  int64_t counts_[4] = {};                                   // by SessionState
  std::map<std::string, std::vector<Unclaimed>> unclaimed_;  // by tenant
  // With a keeper of KV files.
  absl::flat_hash_map<SessionName, Session*, SessionNameHash> by_name_;
  std::deque<Due> due_;  // the earliest first

  std::mutex park_events_mutex_;  // held for a few stores; taken with mutex_ held, never the other way round
  // Guarded by park_events_mutex_. In the order of events. Bounded: only a turn can be parked, and whoever begins one takes all
  // of this in.
  std::vector<ParkEvent> park_events_;
  std::vector<LostKv> lost_kv_;
  int64_t lost_kv_bytes_ = 0;
};

// A session in the hands of one request. The store outlives it.
class SessionTurn {
 public:
  SessionTurn(SessionTurn&& other) noexcept
      : store_(other.store_),
        session_(std::exchange(other.session_, nullptr)),
        turn_(other.turn_),
        past_(std::move(other.past_)),
        has_kv_file_(other.has_kv_file_),
        parked_(other.parked_),
        kv_header_(std::move(other.kv_header_)),
        kv_file_(std::move(other.kv_file_)) {}
  SessionTurn& operator=(SessionTurn&&) = delete;
  ~SessionTurn() {
    if (session_ != nullptr) store_->End(session_, turn_, nullptr, {});
  }

  const std::string& id() const { return session_->id; }
  uint64_t session() const { return session_->number; }
  uint64_t turn() const { return turn_; }
  bool keeps_kv() const { return session_->keeps_kv; }  // SessionOwner's
  // Null before the session's first turn has ended.
  const SessionPast* past() const { return past_.get(); }
  // The KV of the past, parked or in kv_file(); null: none, as far as the store knows. The engine decides.
  const ParkedTurn* parked() const { return parked_.has_value() ? &*parked_ : nullptr; }
  // As far as was known when the turn began, a file has the KV of the past, wherever else it is.
  bool has_kv_file() const { return has_kv_file_; }
  // The file that it is to be read from; null: it is parked, or there is none.
  const KvFileHeader* kv_file() const { return kv_header_.has_value() ? &*kv_header_ : nullptr; }
  // It will not be read: whoever computes holds no descriptor meanwhile.
  void CloseKvFile() { kv_file_.reset(); }

  // The turn has ended well: `past` is in force for whoever comes next. Nothing of this object may be used afterwards.
  void End(SessionPast past);
  // The same, once it is durable: `done` is called once, on any thread, also on this one, and says what of it is. Throws
  // std::bad_alloc, and then the turn has not ended. `removes`: something of what was said goes, and once this is durable there is no
  // file of the session's KV that was written before.
  void Commit(SessionPast past, std::function<void(Durability durable)> done, bool removes = false);

 private:
  friend class SessionStore;
  SessionTurn(SessionStore* store, SessionStore::Session* session)
      : store_(store),
        session_(session),
        turn_(session->turns),
        past_(session->past),
        has_kv_file_(session->past_turn != 0 && session->disk_turn == session->past_turn) {
    if (const ParkedTurn* parked = SessionStore::ParkedPast(*session); parked != nullptr) parked_ = *parked;
  }

  SessionStore* store_;
  SessionStore::Session* session_;  // null: ended
  uint64_t turn_ = 0;
  std::shared_ptr<const SessionPast> past_;
  bool has_kv_file_ = false;
  std::optional<ParkedTurn> parked_;  // of the past
  std::optional<KvFileHeader> kv_header_;
  std::shared_ptr<const OpenKvFile> kv_file_;  // until it is read, or is not to be
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SESSIONS_SESSION_STORE_H_
