#include "server/sessions/session_store.h"

#include <algorithm>
#include <cassert>
#include <ctime>
#include <iterator>
#include <new>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "scheduler/fairness/over_share.h"

namespace hydrant {
namespace {

// Ids of a tenant that are remembered to have been sessions: enough to tell most late clients why.
constexpr size_t kGoneMax = 256;

// Once no start finds the session any more, its KV goes. Nothing else is written of it then (KvKeeper::WriteOne).
std::function<void(bool)> ThenRemoveKv(KvKeeper& kv, const SessionName& name, std::function<void(bool)> done) {
  return [&kv, name, done = std::move(done)](bool durable) {
    try {
      kv.Remove(name,
                done ? std::function<void(bool)>([done, durable](bool gone) { done(durable && gone); }) : nullptr);
    } catch (const std::bad_alloc&) {
      if (done) done(false);  // the next start sweeps the file
    }
  };
}

}  // namespace

int64_t SessionStore::BytesOf(const std::shared_ptr<const SessionPast>& past) {
  return past == nullptr ? 0 : BytesOf(*past);
}

int64_t SessionStore::BytesOf(const SessionPast& past) {
  const size_t text = past.text.has_value() ? past.text->capacity() : 0;
  const size_t ranges = (past.client_ranges.capacity() + past.answer_specials.capacity()) * sizeof(ByteRange);
  size_t notes = 0;
  const std::string* head = nullptr;
  for (const std::shared_ptr<const TurnNote>& note : past.notes) {
    notes += sizeof(TurnNote) + note->text.capacity() + (note->head.get() != head ? note->head->capacity() : 0);
    head = note->head.get();
  }
  return static_cast<int64_t>(past.tokens.capacity() * sizeof(int32_t) + text + ranges + notes);
}

void SessionTurn::End(SessionPast past) {
  past.turn = turn_;
  // Where there is no memory for it, the turn is still this object's to end.
  auto kept = std::make_shared<const SessionPast>(std::move(past));
  store_->End(std::exchange(session_, nullptr), turn_, std::move(kept), {});
}

void SessionTurn::Commit(SessionPast past, std::function<void(Durability)> done, bool removes) {
  past.turn = turn_;
  auto kept = std::make_shared<const SessionPast>(std::move(past));
  const auto told = [this_done = std::move(done)](Durability durable) {
    if (this_done) this_done(durable);
  };
  store_->Commit(session_, turn_, past_.get(), std::move(kept), told, /*used_s=*/std::nullopt, removes);
  session_ = nullptr;
}

SessionStore::SessionStore(Options options) : options_(std::move(options)) {
  if (options_.journal != nullptr) LoadNames();
}

int64_t SessionStore::WallClock() const {
  return options_.wall_clock ? options_.wall_clock() : static_cast<int64_t>(std::time(nullptr));
}

SessionStore::Tenant& SessionStore::TenantOf(int32_t tenant) {
  while (tenants_.size() <= static_cast<size_t>(tenant)) {
    tenants_.emplace_back();
    if (options_.journal != nullptr) Claim(static_cast<int32_t>(tenants_.size()) - 1);
  }
  return tenants_[static_cast<size_t>(tenant)];
}

SessionStore::Session* SessionStore::Find(int32_t tenant, const std::string& id) {
  const Tenant& own = TenantOf(tenant);
  const auto found = own.sessions.find(id);
  if (found == own.sessions.end()) return nullptr;
  Session* session = found->second;
  if (!Expired(*session, options_.clock())) return session;
  Forget(session, /*remember=*/true);
  return nullptr;
}

SessionState SessionStore::StateOf(const Session& session) const {
  if (session.busy) return SessionState::kBusy;
  if (ParkedPast(session) != nullptr) return SessionState::kParked;
  return session.past_turn != 0 && session.disk_turn == session.past_turn ? SessionState::kOnDisk : SessionState::kCold;
}

const ParkedTurn* SessionStore::ParkedPast(const Session& session) {
  if (session.past_turn == 0) return nullptr;
  for (const ParkedTurn& parked : session.parked) {
    if (parked.id.turn == session.past_turn) return &parked;
  }
  return nullptr;
}

SessionStore::Lock::~Lock() {
  Sessions removed;
  removed.swap(store_.removed_);
  lock_.unlock();
  for (const std::unique_ptr<Session>& session : removed) {
    try {
      store_.options_.on_forget(session->number);
    } catch (const std::bad_alloc&) {
      // Its parked KV stays until another session needs the room: nothing will use it again.
    }
  }
}

ApiResult<SessionTurn> SessionStore::Begin(const SessionOwner& owner, const std::string& id, bool must_exist,
                                           std::optional<uint64_t> turn_before) {
  ApiResult<SessionTurn> begun = BeginNow(owner, id, must_exist, turn_before);
  if (!begun.ok()) return begun;
  SessionTurn& turn = begun.value();
  // It is this turn's now: nobody else changes what is read here.
  if (turn.past_ == nullptr && turn.session_->past_turn != 0) turn.past_ = ReadPast(turn.session_);
  if (turn.past_ != nullptr && !turn.parked_.has_value()) FindKv(&turn);
  if (turn.past_ != nullptr || turn.session_->past_turn == 0) return begun;
  if (must_exist) return SessionDamaged();
  turn.parked_.reset();
  return begun;
}

ApiResult<SessionTurn> SessionStore::BeginNow(const SessionOwner& owner, const std::string& id, bool must_exist,
                                              std::optional<uint64_t> turn_before) {
  const Lock lock(*this);
  Expire();
  Tenant& tenant = TenantOf(owner.tenant);
  tenant.weight = owner.weight;
  tenant.sessions_max = owner.sessions_max;
  tenant.disk_bytes = owner.disk_bytes;
  Session* session = Find(owner.tenant, id);
  if (session != nullptr && session->busy) return SessionBusy();
  const uint64_t last_turn = session != nullptr ? session->past_turn : 0;
  if (turn_before.has_value() && *turn_before != last_turn && (session != nullptr || !must_exist)) {
    return TurnConflict(last_turn);
  }
  if (last_turn >= kTurnMax) return SessionDamaged();
  if (owner.needs_disk != nullptr && session != nullptr && ReadsDisk(*session)) {
    *owner.needs_disk = true;
    return SessionBusy();  // which nobody is told
  }
  if (session != nullptr) {
    Count(*session, -1);
    tenant.busy.splice(tenant.busy.end(), ListOf(*session), session->place);
    session->busy = true;
    session->stored = false;
    Count(*session, 1);
  } else {
    if (must_exist) {
      return SessionNotFound(std::find(tenant.gone.begin(), tenant.gone.end(), id) != tenant.gone.end());
    }
    if (std::optional<ApiError> error = CheckRoom(owner)) return *std::move(error);
    session = Add(owner.tenant, id);
  }
  ++session->turns;
  session->keeps_kv = owner.keeps_kv && options_.kv != nullptr;
  return SessionTurn(this, session);
}

SessionStore::Session* SessionStore::Add(int32_t tenant, const std::string& id) {
  Sessions added;
  added.push_back(std::make_unique<Session>());
  Session* session = added.front().get();
  session->place = added.begin();
  session->id = id;
  session->tenant = tenant;
  session->number = ++numbers_;
  session->used_us = options_.clock();
  session->created_s = session->used_s = StampS();
  Tenant& own = TenantOf(tenant);
  if (options_.journal != nullptr) session->name = options_.journal->NameOf(own.name, id);
  const auto named = own.sessions.emplace(id, session).first;
  absl::Cleanup not_added = [&] {
    own.sessions.erase(named);
    by_name_.erase(session->name);
  };
  if (options_.kv != nullptr) by_name_.emplace(session->name, session);
  by_number_.emplace(session->number, session);
  std::move(not_added).Cancel();
  own.busy.splice(own.busy.end(), added);
  Count(*session, 1);
  return session;
}

// A new session takes nobody's place before its first turn has ended well: the request may still be refused.
std::optional<ApiError> SessionStore::CheckRoom(const SessionOwner& owner) {
  const Tenant& tenant = TenantOf(owner.tenant);
  if (owner.sessions_max > 0 && std::ssize(tenant.busy) >= owner.sessions_max) {
    return RateLimited(absl::StrCat("All ", owner.sessions_max, " sessions of this tenant have a turn in progress."),
                       "session_limit_exceeded", 1);
  }
  if (counts_[static_cast<size_t>(SessionState::kBusy)] >= options_.sessions_max) {
    return Overloaded("All sessions have a turn in progress.", "too_many_sessions", 1);
  }
  return std::nullopt;
}

SessionStore::Sessions& SessionStore::ListOf(const Session& session) {
  Tenant& tenant = TenantOf(session.tenant);
  if (session.busy) return tenant.busy;
  Idle& idle = IdleOf(tenant, session);
  return session.stored ? idle.stored : idle.loaded;
}

// The idle session of the tenant that makes room first: the line used least recently, then the session that a client named; null: there
// is none. `newest` goes only where it is a line and would have a named one go. `by_bytes`: of those with a past in memory.
SessionStore::Session* SessionStore::FirstToGo(const Tenant& tenant, Session* newest, bool by_bytes) {
  for (const Idle* idle : {&tenant.lines, &tenant.named}) {
    Session* oldest = nullptr;
    for (const Sessions* list : {by_bytes ? nullptr : &idle->stored, &idle->loaded}) {
      if (list == nullptr || list->empty() || list->front().get() == newest) continue;
      if (oldest == nullptr || list->front()->used_us < oldest->used_us) oldest = list->front().get();
    }
    if (oldest == nullptr) continue;
    const bool for_line =
        !oldest->is_line() && newest != nullptr && newest->is_line() && newest->tenant == oldest->tenant;
    return for_line && !(by_bytes && newest->stored) ? newest : oldest;
  }
  return nullptr;
}

// REQUIRES: `newest` is idle; it stays, unless it is a line.
void SessionStore::MakeRoom(Session* newest) {
  Tenant& tenant = TenantOf(newest->tenant);
  const auto forget_first = [&](Tenant* of) {
    Session* first = of != nullptr ? FirstToGo(*of, newest, /*by_bytes=*/false) : nullptr;
    if (first == nullptr) return false;
    if (first == newest) newest = nullptr;
    Forget(first, /*remember=*/true);
    return true;
  };
  while (tenant.sessions_max > 0 && std::ssize(tenant.sessions) > tenant.sessions_max && forget_first(&tenant)) {
  }
  while (tenant.disk_bytes > 0 && tenant.logged_bytes > tenant.disk_bytes && forget_first(&tenant)) {
  }
  const auto loser_for = [&](const Tenant* newcomer, bool by_bytes) {
    return WhoLoses(tenants_, newcomer, [&](const Tenant& of) {
      const int64_t held = by_bytes ? of.bytes : std::ssize(of.sessions);
      return ShareHeld{held, of.weight, FirstToGo(of, newest, by_bytes) != nullptr};
    });
  };
  while (std::ssize(by_number_) > options_.sessions_max && forget_first(loser_for(nullptr, /*by_bytes=*/false))) {
  }
  while (bytes_ > options_.bytes_max) {
    // What is over the bound then is one session's, the newest.
    Tenant* loser = loser_for(&tenant, /*by_bytes=*/true);
    if (loser == nullptr) return;
    Session* first = FirstToGo(*loser, newest, /*by_bytes=*/true);
    // What the journal has need not be in memory.
    if (first->logged_turn == first->past_turn) {
      Unload(first);
    } else {
      if (first == newest) newest = nullptr;
      Forget(first, /*remember=*/true);
    }
  }
}

// REQUIRES: idle, with its past in memory and in the journal.
void SessionStore::Unload(Session* session) {
  CountBytes(*session, -BytesOf(session->past));
  session->past.reset();
  SetStored(session);
}

// REQUIRES: idle, without its past in memory.
void SessionStore::SetStored(Session* session) {
  Idle& idle = IdleOf(TenantOf(session->tenant), *session);
  session->stored = true;
  idle.stored.splice(idle.stored.end(), idle.loaded, session->place);
}

bool SessionStore::Expired(const Session& session, int64_t now_us) const {
  return options_.ttl_us > 0 && !session.busy && session.used_us <= now_us - options_.ttl_us;
}

void SessionStore::Expire() {
  const int64_t now_us = options_.clock();
  int32_t left = kExpiredPerCall;
  for (Tenant& tenant : tenants_) {
    for (const Sessions* list :
         {&tenant.lines.loaded, &tenant.lines.stored, &tenant.named.loaded, &tenant.named.stored}) {
      while (!list->empty() && Expired(*list->front(), now_us)) {
        if (left-- == 0) return;
        Forget(list->front().get(), /*remember=*/true);
      }
    }
  }
}

void SessionStore::ForgetExpired() {
  const Lock lock(*this);
  Expire();
}

// REQUIRES: idle.
void SessionStore::Forget(Session* session, bool remember, std::function<void(bool)> done) noexcept {
  assert(!session->busy);
  Tenant& tenant = TenantOf(session->tenant);
  Count(*session, -1);
  CountBytes(*session, -BytesOf(session->past));
  tenant.logged_bytes -= session->logged_bytes;
  uint64_t logged_turn = session->logged_turn;
  // There may have been another one of this name, whose end the disk has not taken.
  if (logged_turn == 0 && options_.journal != nullptr) logged_turn = options_.journal->TurnOf(session->name);
  if (logged_turn > 0) {
    ForgetLogged(tenant, session->name, logged_turn, std::move(done));
  } else if (done) {
    done(true);
  }
  by_number_.erase(session->number);
  by_name_.erase(session->name);
  tenant.sessions.erase(session->id);
  removed_.splice(removed_.end(), ListOf(*session), session->place);
  if (!remember) {
    std::erase(tenant.gone, session->id);
    return;
  }
  try {
    tenant.gone.push_back(session->id);
    if (tenant.gone.size() > kGoneMax) tenant.gone.pop_front();
  } catch (const std::bad_alloc&) {
    // A late client hears that there is no such session, and not why.
  }
}

void SessionStore::ForgetLogged(const Tenant& tenant, const SessionName& name, uint64_t turn,
                                std::function<void(bool)> done) {
  LogRecord end;
  end.type = RecordType::kForget;
  end.name = name;
  end.turn = turn;
  end.wall_s = WallClock();
  end.until_durable = !done;
  try {
    end.facts.tenant = tenant.name;
  } catch (const std::bad_alloc&) {
    // It waits as nobody's.
  }
  if (options_.kv != nullptr) done = ThenRemoveKv(*options_.kv, name, std::move(done));
  options_.journal->Commit(std::move(end), std::move(done));
}

void SessionStore::CountBytes(const Session& session, int64_t more) {
  TenantOf(session.tenant).bytes += more;
  bytes_ += more;
}

void SessionStore::SetIdle(Session* session, std::optional<int64_t> used_s) {
  Tenant& tenant = TenantOf(session->tenant);
  Count(*session, -1);
  session->busy = false;
  session->used_s = used_s.value_or(StampS());
  session->used_us = options_.clock() - (used_s.has_value() ? AgeUs(*used_s) : 0);
  Sessions& loaded = IdleOf(tenant, *session).loaded;
  loaded.splice(PlaceIn(loaded, session->used_us), tenant.busy, session->place);
  Count(*session, 1);
}

// Behind those that were used before: the list is in that order. Sought from both ends: it is nearly always one of them.
SessionStore::Sessions::iterator SessionStore::PlaceIn(Sessions& idle, int64_t used_us) {
  auto first = idle.begin(), last = idle.end();
  while (first != last) {
    if ((*first)->used_us > used_us) return first;
    if ((*std::prev(last))->used_us <= used_us) return last;
    ++first;
    if (first != last) --last;
  }
  return last;
}

int64_t SessionStore::AgeUs(int64_t used_s) const {
  const int64_t now_s = WallClock();
  return used_s >= now_s ? 0 : std::min<uint64_t>(uint64_t(now_s) - uint64_t(used_s), uint64_t{1} << 40) * 1'000'000;
}

void SessionStore::NotePast(Session* session, const SessionPast& past) {
  session->past_turn = past.turn;
  session->tokens = static_cast<int64_t>(past.tokens.size());
  session->budget = past.kv.budget.keep;
  session->preset = past.spec.preset;
}

void SessionStore::End(Session* session, uint64_t turn, std::shared_ptr<const SessionPast> past,
                       Logged logged) noexcept {
  // While the session is still this turn's: nothing that the next one asks of the engine comes before this.
  try {
    options_.on_settle({session->number, turn}, /*keep=*/past != nullptr);
  } catch (const std::bad_alloc&) {
    // The engine keeps what both turns left until the session's next one is settled.
  }
  const Lock lock(*this);
  const bool stays = past == nullptr;
  if (past != nullptr) {
    CountBytes(*session, BytesOf(past) - BytesOf(session->past));
    session->past.swap(past);  // the old one is freed without the lock
    NotePast(session, *session->past);
  }
  if (logged.yes) {
    session->logged_turn = session->past_turn;
    session->logged_records = logged.whole ? 1 : session->logged_records + 1;
    const int64_t bytes = logged.whole ? logged.bytes : session->logged_bytes + logged.bytes;
    TenantOf(session->tenant).logged_bytes += bytes - session->logged_bytes;
    session->logged_bytes = bytes;
    if (options_.kv != nullptr) NoteDue(*session, logged.grows);
  } else if (stays && options_.kv != nullptr && session->past_turn != 0 && session->logged_turn == session->past_turn) {
    NoteDue(*session, /*grows=*/true);  // it may have become due while it was busy
  }
  SetIdle(session, logged.used_s);
  if (session->past_turn == 0) {
    Forget(session, /*remember=*/false);
  } else {
    if (session->past == nullptr) SetStored(session);  // it could not be read
    MakeRoom(session);
  }
}

void SessionStore::OnParked(std::span<const TurnId> dropped, std::span<const ParkedTurn> parked) {
  const std::lock_guard<std::mutex> lock(park_events_mutex_);
  for (const TurnId& id : dropped) park_events_.push_back({{.id = id}, /*parked=*/false});
  for (const ParkedTurn& turn : parked) park_events_.push_back({turn, /*parked=*/true});
}

void SessionStore::ApplyParkEvents() {
  {
    const std::lock_guard<std::mutex> lock(park_events_mutex_);
    park_events_taken_.swap(park_events_);
  }
  for (const ParkEvent& event : park_events_taken_) {
    const auto found = by_number_.find(event.turn.id.session);
    if (found == by_number_.end()) continue;  // forgotten meanwhile; the engine is told
    Session& session = *found->second;
    Count(session, -1);
    auto& [one, other] = session.parked;
    if (event.parked) {
      (one.id < other.id ? one : other) = event.turn;
    } else {
      for (ParkedTurn& parked : session.parked) parked = parked.id == event.turn.id ? ParkedTurn() : parked;
    }
    Count(session, 1);
  }
  park_events_taken_.clear();
}

SessionCard SessionStore::CardOf(const Session& session) const {
  SessionCard card;
  card.id = session.id;
  card.state = StateOf(session);
  card.created = session.created_s;
  card.last_used = session.used_s;
  if (options_.ttl_us > 0 && !session.busy) card.expires = session.used_s + options_.ttl_us / 1'000'000;
  if (session.past_turn == 0) return card;
  card.turn = session.past_turn;
  card.durable = session.logged_turn == session.past_turn;
  card.tokens = session.tokens;
  card.budget = session.budget;
  card.policy = KvPresetName(session.preset);
  if (const ParkedTurn* parked = ParkedPast(session); parked != nullptr) card.live = parked->live;
  return card;
}

ApiResult<SessionCard> SessionStore::Get(int32_t tenant, const std::string& id) {
  const Lock lock(*this);
  Expire();
  const Session* session = Find(tenant, id);
  if (session == nullptr) return SessionNotFound(/*expired=*/false);
  return CardOf(*session);
}

ApiResult<SessionStore::View> SessionStore::Inspect(int32_t tenant, const std::string& id) {
  const Lock lock(*this);
  Expire();
  const Session* session = Find(tenant, id);
  if (session == nullptr) return SessionNotFound(/*expired=*/false);
  return View{CardOf(*session), session->number, session->past, session->past == nullptr && session->past_turn > 0};
}

std::optional<ApiError> SessionStore::Delete(int32_t tenant, const std::string& id, std::function<void(bool)> done,
                                             std::optional<uint64_t> turn) {
  const Lock lock(*this);
  Expire();
  Session* session = Find(tenant, id);
  if (session == nullptr) {
    if (options_.journal == nullptr) return SessionNotFound(/*expired=*/false);
    const SessionName name = options_.journal->NameOf(TenantOf(tenant).name, id);
    const uint64_t logged_turn = options_.journal->TurnOf(name);
    if (logged_turn == 0) {
      // It is gone, and not all of its KV.
      if (options_.kv == nullptr || !options_.kv->HasLeft(name)) return SessionNotFound(/*expired=*/false);
      RemoveKv(name, std::move(done));
      return std::nullopt;
    }
    // Its last turns may not have been durable.
    if (turn.has_value() && logged_turn > *turn) return TurnChanged(logged_turn);
    ForgetLogged(TenantOf(tenant), name, logged_turn, std::move(done));
    return std::nullopt;
  }
  if (session->busy) return SessionBusy();
  if (turn.has_value() && *turn != session->past_turn) return TurnChanged(session->past_turn);
  Forget(session, /*remember=*/false, std::move(done));
  return std::nullopt;
}

SessionStore::Page SessionStore::List(int32_t tenant, const std::string& after, size_t count_max) {
  const Lock lock(*this);
  Expire();
  Page page;
  const int64_t now_us = options_.clock();
  const Tenant& own = TenantOf(tenant);
  for (auto it = own.sessions.upper_bound(after); it != own.sessions.end(); ++it) {
    if (Expired(*it->second, now_us)) continue;
    page.has_more = page.cards.size() == count_max;
    if (page.has_more) break;
    page.cards.push_back(CardOf(*it->second));
  }
  return page;
}

SessionCounts SessionStore::counts() {
  const Lock lock(*this);
  Expire();
  const auto count = [this](SessionState state) { return counts_[static_cast<size_t>(state)]; };
  return {count(SessionState::kBusy), count(SessionState::kParked), count(SessionState::kOnDisk),
          count(SessionState::kCold)};
}

}  // namespace hydrant
