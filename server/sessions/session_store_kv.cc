// The part of SessionStore that KV files make: whose KV is written when, and from which file a turn goes on.
#include <algorithm>
#include <chrono>
#include <future>
#include <new>
#include <utility>

#include "server/sessions/past_codec.h"
#include "server/sessions/session_store.h"

namespace hydrant {
namespace {

// Turns that wait to be left alone for long enough: those of some seconds. Of more than these the oldest are not written before they
// have to make room.
constexpr size_t kDueMax = 1 << 16;
// Sessions whose KV is asked of the engine at a time.
constexpr int32_t kKeptPerLook = 16;

// The past's own where somebody waits, who holds it and has it counted. Else a copy: the past itself may be much more, and would wait
// with the KV.
std::shared_ptr<const std::vector<int32_t>> ComputedTokens(const std::shared_ptr<const SessionPast>& past,
                                                           bool is_held) {
  if (is_held) return {past, &past->tokens};
  return std::make_shared<const std::vector<int32_t>>(past->tokens.begin(), past->tokens.begin() + past->computed);
}

}  // namespace

KvBinding SessionStore::BindingOf(const SessionName& name, const SessionPast& past) {
  KvBinding binding;
  binding.session = name;
  binding.turn = past.turn;
  binding.computed = past.computed;
  binding.tokens = DigestOfTokens(std::span(past.tokens).first(static_cast<size_t>(past.computed)));
  binding.policy = Sha256(EncodeKvPolicy(past));
  return binding;
}

bool SessionStore::ReadsDisk(const Session& session) const {
  if (session.past_turn == 0) return false;
  if (session.past == nullptr) return true;
  return ParkedPast(session) == nullptr && options_.kv != nullptr &&
         options_.kv->MayHave(session.name, session.past_turn);
}

// REQUIRES: the session is the turn's, which has its past and no parked KV.
void SessionStore::FindKv(SessionTurn* turn) {
  if (options_.kv == nullptr) return;
  const SessionName& name = turn->session_->name;
  const SessionPast& past = *turn->past_;
  if (options_.kv->MayHave(name, past.turn)) {
    turn->kv_file_ = options_.kv->Open(name, past.turn, [&] { return BindingOf(name, past); });
  }
  if (turn->kv_file_ == nullptr) return OnKvFile(name, 0);
  const KvFileHeader& header = turn->kv_header_.emplace(turn->kv_file_->header());
  turn->parked_ = ParkedTurn{{turn->session(), past.turn}, header.binding.computed, header.live};
}

void SessionStore::ReadKv(SessionTurn* turn, std::function<void(KvBytes)> done) {
  const auto told = [this, name = turn->session_->name, done = std::move(done)](KvBytes kv) {
    if (kv.empty()) OnKvFile(name, 0);
    done(std::move(kv));
  };
  options_.kv->Read(std::move(turn->kv_file_), told);
}

// `done` is told whether no file of the session's KV is left; where there is no memory to have that waited for, the next write removes
// it, or the next start.
void SessionStore::RemoveKv(const SessionName& name, std::function<void(bool)> done) {
  bool asked = false;
  try {
    std::function<void(bool)> told = done;
    options_.kv->Remove(name, std::move(told));
    asked = true;
  } catch (const std::bad_alloc&) {
    // Nothing happened.
  }
  if (!asked && done) done(false);
}

bool SessionStore::HasLeftKv(int32_t tenant, const std::string& id) {
  if (options_.kv == nullptr) return false;
  const Lock lock(*this);
  return options_.kv->HasLeft(options_.journal->NameOf(TenantOf(tenant).name, id));
}

void SessionStore::OnKvLoss(const TurnId& turn, KvBytes kv) {
  if (options_.kv == nullptr) return;
  const auto bytes = static_cast<int64_t>(kv.size);
  bool room = false;
  {
    const std::lock_guard<std::mutex> lock(park_events_mutex_);
    // One at least, however large it is.
    room = lost_kv_.empty() || lost_kv_bytes_ + bytes <= options_.kv_lost_bytes_max;
    if (room) {
      lost_kv_.push_back({turn, std::move(kv)});
      lost_kv_bytes_ += bytes;
    }
  }
  if (!room) return options_.kv->CountPassed();
  options_.kv->Wake();
}

void SessionStore::OnKvFile(const SessionName& name, uint64_t turn) {
  const Lock lock(*this);
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return;
  Session& session = *found->second;
  Count(session, -1);
  session.disk_turn = turn;
  Count(session, 1);
}

// REQUIRES: the lock. The session has a new past, which is in the journal.
void SessionStore::NoteDue(const Session& session, bool grows) {
  try {
    if (!grows) options_.kv->Supersede(session.name, session.past_turn);
    if (session.disk_turn == session.past_turn) return;
    if (due_.size() == kDueMax) due_.pop_front();
    due_.push_back({{session.number, session.past_turn}, options_.clock() + options_.kv_idle_us});
  } catch (const std::bad_alloc&) {
    // It is written when it has to make room, and a file of a turn before is removed by the next write, or the next start.
  }
}

// REQUIRES: the lock. Nullopt: there is nothing of it to be written.
std::optional<SessionStore::KvWish> SessionStore::WishOf(Session* session) {
  if (session->past_turn == 0 || session->logged_turn != session->past_turn) return std::nullopt;
  if (session->disk_turn == session->past_turn) return std::nullopt;
  KvWish wish;
  wish.turn = {session->number, session->past_turn};
  wish.write.binding.session = session->name;
  wish.write.tenant = TenantOf(session->tenant).name;
  wish.write.used_s = session->used_s;
  wish.past = session->past;
  return wish;
}

void SessionStore::KeepDue() {
  std::vector<KvWish> wishes;
  std::vector<std::pair<KvWish, KvBytes>> losses;
  {
    std::vector<LostKv> lost;
    const Lock lock(*this);
    {
      const std::lock_guard<std::mutex> events_lock(park_events_mutex_);
      lost.swap(lost_kv_);
      lost_kv_bytes_ = 0;
    }
    const auto wish_of = [this](Session* session, const TurnId& turn) {
      return session->past_turn == turn.turn ? WishOf(session) : std::nullopt;
    };
    for (LostKv& each : lost) {
      const auto found = by_number_.find(each.turn.session);
      if (found == by_number_.end()) continue;
      std::optional<KvWish> wish = wish_of(found->second, each.turn);
      if (wish.has_value()) losses.emplace_back(*std::move(wish), std::move(each.kv));
      if (found->second->disk_turn == each.turn.turn) options_.kv->CountMoved();
    }
    const int64_t now_us = options_.clock();
    while (!due_.empty() && due_.front().at_us <= now_us && std::ssize(wishes) < kKeptPerLook &&
           options_.kv->has_room()) {
      const auto found = by_number_.find(due_.front().turn.session);
      const bool parked = found != by_number_.end() && !found->second->busy && ParkedPast(*found->second) != nullptr;
      std::optional<KvWish> wish = parked ? wish_of(found->second, due_.front().turn) : std::nullopt;
      due_.pop_front();
      if (wish.has_value()) wishes.push_back(*std::move(wish));
    }
  }
  const auto count = [kv = options_.kv](bool durable) {
    if (durable) kv->CountMoved();
  };
  for (auto& [wish, kv] : losses) WriteKv(std::move(wish), std::move(kv), /*urgent=*/false, count);
  for (KvWish& wish : wishes) WriteKv(std::move(wish), {}, /*urgent=*/false, nullptr);
  if (std::ssize(wishes) == kKeptPerLook) options_.kv->Wake();  // there may be more
}

bool SessionStore::TakePromise(int32_t tenant, int64_t bytes) {
  const Lock lock(*this);
  Tenant& own = TenantOf(tenant);
  // As SessionJournal's: n tenants that want all of it have an (n + 1)th part each. One at least, however large it is.
  const bool room =
      promised_bytes_ == 0 || own.promised_bytes + bytes <= options_.kv_promised_bytes_max - promised_bytes_ - bytes;
  if (!room) {
    options_.kv->CountPassed();
    return false;
  }
  own.promised_bytes += bytes;
  promised_bytes_ += bytes;
  return true;
}

void SessionStore::EndPromise(int32_t tenant, int64_t bytes) {
  const Lock lock(*this);
  TenantOf(tenant).promised_bytes -= bytes;
  promised_bytes_ -= bytes;
}

void SessionStore::WriteKv(KvWish wish, KvBytes kv, bool urgent, std::function<void(bool)> done) {
  // It takes no memory where it is called: that may be on the engine's thread.
  const auto hand_over = [&kept = *options_.kv, urgent](KvWrite* to_write, KvBytes bytes,
                                                        std::function<void(bool)>* told) {
    if (bytes.computed == to_write->binding.computed) to_write->kv = std::move(bytes);
    kept.Write(std::move(*to_write), urgent, std::move(*told));
  };
  try {
    KvWrite& write = wish.write;
    if (write.binding.turn == 0) {  // it is not bound yet
      if (wish.past == nullptr) wish.past = ReadLogged(write.binding.session, wish.turn.turn);
      if (wish.past != nullptr) write.binding = BindingOf(write.binding.session, *wish.past);
    }
    const bool bound = write.binding.turn == wish.turn.turn;
    if (bound && wish.past != nullptr && !wish.past->spec.evicts()) write.tokens = ComputedTokens(wish.past, urgent);
    if (!bound || !kv.empty()) return hand_over(&write, bound ? std::move(kv) : KvBytes(), &done);
    options_.take_parked(wish.turn, [hand_over, write = std::move(write), done](KvBytes bytes) mutable {
      hand_over(&write, std::move(bytes), &done);
    });
  } catch (const std::bad_alloc&) {
    if (done) done(false);
  }
}

int32_t SessionStore::KeepAll(int64_t until_us, const std::function<KvBytes(const TurnId&)>& read) {
  const auto left_us = [&] { return until_us - options_.clock(); };
  const uint64_t before = options_.kv->counts().writes;
  // What has left the engine's memory is nowhere else: first what waits, which makes room for what had none.
  if (left_us() > 0) options_.kv->Flush(left_us());
  KeepDue();
  // Once for what is there, and once for what the writing thread was about to take from here, which comes behind the first.
  for (int i = 0; i < 2 && left_us() > 0; ++i) options_.kv->Flush(left_us());
  KeepParked(left_us, read);
  return static_cast<int32_t>(options_.kv->counts().writes - before);
}

void SessionStore::KeepParked(const std::function<int64_t()>& left_us,
                              const std::function<KvBytes(const TurnId&)>& read) {
  std::vector<KvWish> wishes;
  {
    const Lock lock(*this);
    for (const auto& [number, session] : by_number_) {
      const ParkedTurn* parked = session->busy ? nullptr : ParkedPast(*session);
      std::optional<KvWish> wish = parked != nullptr && parked->live > 0 ? WishOf(session) : std::nullopt;
      if (!wish.has_value()) continue;
      wish->value = static_cast<double>(parked->computed) / parked->live;
      wishes.push_back(*std::move(wish));
    }
  }
  std::sort(wishes.begin(), wishes.end(), [](const KvWish& a, const KvWish& b) {
    return a.value != b.value ? a.value > b.value : a.write.used_s > b.write.used_s;
  });
  for (KvWish& wish : wishes) {
    const int64_t patience_us = left_us();
    if (patience_us <= 0) return;
    KvBytes kv = read(wish.turn);
    if (kv.empty()) continue;
    const auto told = std::make_shared<std::promise<bool>>();
    std::future<bool> written = told->get_future();
    WriteKv(std::move(wish), std::move(kv), /*urgent=*/true, [told](bool durable) { told->set_value(durable); });
    if (written.wait_for(std::chrono::microseconds(patience_us)) != std::future_status::ready) return;
  }
}

int64_t SessionStore::KvBytesMaxOf(const std::string& name) {
  const Lock lock(*this);
  for (const Tenant& tenant : tenants_) {
    if (tenant.name != name || tenant.disk_bytes == 0) continue;
    return std::max<int64_t>(1, tenant.disk_bytes - tenant.logged_bytes);
  }
  return 0;
}

}  // namespace hydrant
