// SessionStore knows every session by its tenant and id: the tokens of the turns that ended, under which policy they were
// computed, and whether their KV is parked. The KV itself is the engine's.
//
// A turn is a transaction. Begin hands out the session for one turn; End puts the turn's tokens in force; a SessionTurn
// that goes without it (cancelled, failed, refused) leaves the session as it was, and one that had no turn before is gone.
//
// Thread: any; a short lock at the beginning and the end of a turn. OnParked comes from the engine thread.
//
// Invariants
//  1. One turn at a time per session.
//  2. A session is found by its own tenant only; for any other its id is one that was never there.
//  3. At most sessions_max sessions and bytes_max bytes of what they said are kept, those with a turn in progress aside.
//     Beyond that the tenant with the most for its weight loses the session it used least recently.
#ifndef HYDRANT_SERVER_SESSION_STORE_H_
#define HYDRANT_SERVER_SESSION_STORE_H_

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
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "api/api_error.h"
#include "api/kv_spec.h"
#include "api/session.h"
#include "server/engine_core.h"
#include "server/kv_resolution.h"

namespace hydrant {

// What the turns that ended have left. Immutable.
struct SessionPast {
  std::vector<int32_t> tokens;  // prompt and answer of the last turn, and so all there is; without a final stop token
  int32_t computed = 0;         // of these; the last token of an answer is not
  int32_t hidden_specials = 0;  // leading tokens that the server added
  // What a client that sends its whole history begins with: what was sent and what was generated, a stop string included.
  // Absent when that is not the text of the tokens.
  std::optional<std::string> text;
  std::optional<size_t> text_before_last;  // bytes of it that stand for all tokens but the last, where that can be told
  uint64_t turn = 0;                       // the last
  KvSpec spec;                             // what was asked for, and what that came to: it holds for the session's life
  KvResolution kv;
};

// Whose sessions, and how many it may have.
struct SessionOwner {
  int32_t tenant = 0;        // index
  double weight = 1;         // > 0
  int32_t sessions_max = 0;  // 0: no limit of its own
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
    std::function<void(uint64_t)> on_forget;  // the session's number is done with: its parked KV may go. Any thread
  };

  explicit SessionStore(Options options) : options_(std::move(options)) {}
  SessionStore(const SessionStore&) = delete;
  SessionStore& operator=(const SessionStore&) = delete;

  // Begins a turn, with a new session when there is none of this id, or, when `must_exist`, not. Errors: 404
  // session_not_found or session_expired, 409 session_busy; 429 session_limit_exceeded, 503 when there are too many
  // sessions and all of them have a turn in progress.
  ApiResult<SessionTurn> Begin(const SessionOwner& owner, const std::string& id, bool must_exist);

  // What EngineHooks::on_parked says.
  void OnParked(std::span<const uint64_t> dropped, std::span<const ParkedTurn> parked);

  // Errors: 404; 409 for one with a turn in progress.
  ApiResult<SessionCard> Get(int32_t tenant, const std::string& id);
  std::optional<ApiError> Delete(int32_t tenant, const std::string& id);

  struct Page {
    std::vector<SessionCard> cards;  // by id
    bool has_more = false;
  };
  // Up to `count_max` sessions with ids above `after`.
  Page List(int32_t tenant, const std::string& after, size_t count_max);

  SessionCounts counts();

 private:
  friend class SessionTurn;

  struct Session {
    std::string id;
    int32_t tenant = 0;
    uint64_t number = 0;                      // the engine's name for it
    std::shared_ptr<const SessionPast> past;  // null before the first turn has ended
    ParkedTurn parked;                        // turn 0: nothing
    bool busy = true;
    uint64_t turns = 0;  // begun
    int64_t created_us = 0;
    int64_t used_us = 0;
    std::list<Session*>::iterator idle;  // its place there, unless busy
  };
  struct Tenant {
    std::map<std::string, std::unique_ptr<Session>> sessions;  // by id
    std::list<Session*> idle;                                  // least recently used first
    std::deque<std::string> gone;                              // ids that expired or gave way, the latest few
    double weight = 1;
    int64_t bytes = 0;
    int32_t sessions_max = 0;
  };

  class Lock;

  // All of these REQUIRE the lock.
  Tenant& TenantOf(int32_t tenant);
  Session* Find(int32_t tenant, const std::string& id);
  Session* Add(int32_t tenant, const std::string& id);
  std::optional<ApiError> CheckRoom(const SessionOwner& owner);
  void MakeRoom(const Session* newest);
  Tenant* MostOverShare(bool by_bytes);
  void Expire();
  void Forget(Session* session, bool remember);
  void SetPast(Session* session, std::shared_ptr<const SessionPast> past);
  void SetIdle(Session* session);
  SessionState StateOf(const Session& session) const;
  SessionCard CardOf(const Session& session) const;
  void Count(const Session& session, int64_t delta) { counts_[static_cast<size_t>(StateOf(session))] += delta; }

  void End(Session* session, std::shared_ptr<const SessionPast> past);  // null: as it was

  const Options options_;
  std::mutex mutex_;
  // Guarded by mutex_.
  std::deque<Tenant> tenants_;  // by index
  absl::flat_hash_map<uint64_t, Session*> by_number_;
  std::vector<uint64_t> forgotten_;  // numbers, for on_forget
  int64_t bytes_ = 0;
  uint64_t numbers_ = 0;
  int64_t counts_[3] = {};  // by SessionState
};

// A session in the hands of one request. The store outlives it.
class SessionTurn {
 public:
  SessionTurn(SessionTurn&& other) noexcept
      : store_(other.store_),
        session_(std::exchange(other.session_, nullptr)),
        turn_(other.turn_),
        past_(std::move(other.past_)),
        parked_(other.parked_) {}
  SessionTurn& operator=(SessionTurn&&) = delete;
  ~SessionTurn() {
    if (session_ != nullptr) store_->End(session_, nullptr);
  }

  const std::string& id() const { return session_->id; }
  uint64_t session() const { return session_->number; }
  uint64_t turn() const { return turn_; }
  // Null before the session's first turn has ended.
  const SessionPast* past() const { return past_.get(); }
  // What is parked of the past; null: nothing, as far as is known here. The engine has the last word.
  const ParkedTurn* parked() const { return past_ != nullptr && parked_.turn == past_->turn ? &parked_ : nullptr; }

  // The turn has ended well: `past` is in force for whoever comes next. Nothing of this object may be used afterwards.
  void End(SessionPast past);

 private:
  friend class SessionStore;
  SessionTurn(SessionStore* store, SessionStore::Session* session)
      : store_(store), session_(session), turn_(session->turns), past_(session->past), parked_(session->parked) {}

  SessionStore* store_;
  SessionStore::Session* session_;  // null: ended
  uint64_t turn_ = 0;
  std::shared_ptr<const SessionPast> past_;
  ParkedTurn parked_;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SESSION_STORE_H_
