// The part of SessionStore that a journal makes: what it knows after a start, and how a turn becomes durable.
#include <algorithm>
#include <iterator>
#include <utility>

#include "server/sessions/past_codec.h"
#include "server/sessions/session_store.h"

namespace hydrant {
namespace {

// Records of a session after which all of it is written again, so that a past is read in so many pieces at most. A turn of 500 tokens
// is 4 KB and so a whole past of 64 turns 256 KB: twice the bytes of a log without this.
constexpr int32_t kRecordsMax = 64;

// Whether what was computed before is the beginning of what is there now, under a policy that changes nothing of it.
bool Grows(const SessionPast& before, const SessionPast& past) {
  const auto computed = static_cast<size_t>(before.computed);
  return !past.spec.evicts() && computed <= past.tokens.size() &&
         std::equal(before.tokens.begin(), before.tokens.begin() + before.computed, past.tokens.begin());
}

}  // namespace

int64_t SessionStore::StampS() const {
  const int64_t now_s = WallClock();
  if (options_.journal == nullptr) return now_s;
  return std::max(now_s, start_s_ + (options_.clock() - start_us_) / 1'000'000);
}

void SessionStore::LoadNames() {
  start_s_ = WallClock();
  start_us_ = options_.clock();
  options_.journal->ForEach([this](const SessionName& name, const LoggedSession& session) {
    start_s_ = std::max(start_s_, session.used_s);
    unclaimed_[session.facts.tenant].push_back({name, session});
  });
  if (options_.tenants > 0) TenantOf(options_.tenants - 1);
}

// REQUIRES: the lock, or that nobody else knows of this; the tenant has no session.
void SessionStore::Claim(int32_t index) {
  Tenant& tenant = tenants_[static_cast<size_t>(index)];
  tenant.name = options_.tenant_name(index);
  const auto found = unclaimed_.find(tenant.name);
  if (found == unclaimed_.end()) return;
  const int64_t now_us = options_.clock();
  by_number_.reserve(by_number_.size() + found->second.size());
  std::vector<Unclaimed*> oldest_first;
  for (Unclaimed& unclaimed : found->second) oldest_first.push_back(&unclaimed);
  std::sort(oldest_first.begin(), oldest_first.end(), [](const Unclaimed* a, const Unclaimed* b) {
    return a->session.used_s != b->session.used_s ? a->session.used_s < b->session.used_s : a->name < b->name;
  });
  for (Unclaimed* unclaimed : oldest_first) {
    LoggedSession& logged = unclaimed->session;
    auto session = std::make_unique<Session>();
    session->id = std::move(logged.facts.id);
    session->tenant = index;
    session->number = ++numbers_;
    session->name = unclaimed->name;
    session->past_turn = session->logged_turn = session->turns = logged.turn;
    session->tokens = logged.facts.tokens;
    session->budget = logged.facts.budget;
    session->preset = static_cast<KvPreset>(logged.facts.policy);
    session->logged_bytes = static_cast<int64_t>(logged.bytes);
    session->logged_records = static_cast<int32_t>(std::min<uint32_t>(logged.records, kRecordsMax));
    session->created_s = logged.facts.created_s;
    session->used_s = logged.used_s;
    session->used_us = now_us - AgeUs(logged.used_s);
    session->busy = false;
    session->stored = true;
    tenant.logged_bytes += session->logged_bytes;
    by_number_.emplace(session->number, session.get());
    if (options_.kv != nullptr) by_name_.emplace(session->name, session.get());
    tenant.sessions.emplace(session->id, session.get());
    Count(*session, 1);
    Sessions& stored = IdleOf(tenant, *session).stored;
    stored.push_back(std::move(session));
    stored.back()->place = std::prev(stored.end());
  }
  unclaimed_.erase(found);
}

std::shared_ptr<const SessionPast> SessionStore::ReadLogged(const SessionName& name, uint64_t turn) const {
  std::shared_ptr<const SessionPast> past = ReadLogged(name);
  return past != nullptr && past->turn == turn ? past : nullptr;
}

std::shared_ptr<const SessionPast> SessionStore::ReadLogged(const SessionName& name) const {
  const absl::StatusOr<LoggedPast> logged = options_.journal->Read(name);
  if (!logged.ok()) return nullptr;
  std::optional<SessionPast> past = DecodePast(logged->bodies, options_.model);
  if (!past.has_value()) return nullptr;
  past->turn = logged->session.turn;
  return std::make_shared<const SessionPast>(*std::move(past));
}

std::shared_ptr<const SessionPast> SessionStore::ReadDurable(int32_t tenant, const std::string& id) {
  if (options_.journal == nullptr) return nullptr;
  SessionName name{};
  {
    const Lock lock(*this);
    const Session* session = Find(tenant, id);
    name = options_.journal->NameOf(TenantOf(tenant).name, id);
    const uint64_t logged_turn = options_.journal->TurnOf(name);
    const bool is_same =
        session != nullptr && session->logged_turn == session->past_turn && session->past_turn == logged_turn;
    if (logged_turn == 0 || is_same) return nullptr;
  }
  return ReadLogged(name);
}

std::shared_ptr<const SessionPast> SessionStore::ReadStored(int32_t tenant, const std::string& id) {
  SessionName name{};
  uint64_t turn = 0;
  {
    const Lock lock(*this);
    const Session* session = Find(tenant, id);
    if (session == nullptr || session->past_turn == 0) return nullptr;
    if (session->past != nullptr) return session->past;
    name = session->name;
    turn = session->past_turn;
  }
  return ReadLogged(name, turn);
}

std::shared_ptr<const SessionPast> SessionStore::ReadPast(Session* session) {
  std::shared_ptr<const SessionPast> kept = ReadLogged(session->name, session->past_turn);
  if (kept == nullptr) return nullptr;
  const Lock lock(*this);
  session->past = kept;
  CountBytes(*session, BytesOf(kept));
  return kept;
}

void SessionStore::Commit(Session* session, uint64_t turn, const SessionPast* before,
                          std::shared_ptr<const SessionPast> past, std::function<void(Durability)> done,
                          std::optional<int64_t> used_s, bool removes) {
  if (options_.journal == nullptr) {
    End(session, turn, std::move(past), {.used_s = used_s});
    done(Durability::kNone);
    return;
  }
  LogRecord record;
  bool keeps_kv = false;
  {
    const Lock lock(*this);
    const bool goes_on = before != nullptr && session->logged_turn == before->turn &&
                         session->logged_turn == session->past_turn && session->logged_records < kRecordsMax;
    record.type = goes_on ? RecordType::kTurn : RecordType::kReplace;
    record.name = session->name;
    record.facts.tenant = TenantOf(session->tenant).name;
    record.facts.id = session->id;
    record.facts.created_s = session->created_s;
    keeps_kv = session->keeps_kv && !removes;
  }
  const bool whole = record.type == RecordType::kReplace;
  record.turn = turn;
  record.turn_before = whole ? 0 : before->turn;
  record.wall_s = used_s.value_or(StampS());
  record.facts.tokens = static_cast<int32_t>(past->tokens.size());
  record.facts.budget = past->kv.budget.keep;
  record.facts.policy = static_cast<uint8_t>(past->spec.preset);
  record.body = EncodePast(*past, whole ? nullptr : before, options_.model);
  const auto bytes = static_cast<int64_t>(record.body.size() + kRecordHeaderBytes);
  const int64_t past_bytes = BytesOf(past) + static_cast<int64_t>(sizeof(KvWish));
  std::optional<KvWish> wish;
  if (keeps_kv) wish = KvWish{{session->number, turn}, {.tenant = record.facts.tenant, .used_s = record.wall_s}, past};
  if (keeps_kv) wish->write.binding = BindingOf(session->name, *past);
  Logged as = {.whole = whole, .bytes = bytes, .used_s = used_s};
  as.grows = !removes && options_.kv != nullptr && before != nullptr && Grows(*before, *past);
  auto written = [this, session, turn, as, removes, past_bytes, past = std::move(past), wish = std::move(wish),
                  done = std::move(done)](bool durable) {
    Logged logged = as;
    logged.yes = durable;
    const auto end = [this, session, turn, past, logged, done](Durability promise) {
      End(session, turn, past, logged);
      done(promise);
    };
    if (!durable) return end(Durability::kNone);
    // While the session is this turn's, so that nothing of a later one goes.
    if (removes && options_.kv != nullptr) {
      return RemoveKv(session->name, [end](bool gone) { end(gone ? Durability::kTokens : Durability::kNone); });
    }
    const int32_t tenant = session->tenant;
    if (!wish.has_value() || !TakePromise(tenant, past_bytes)) return end(Durability::kTokens);
    WriteKv(*wish, {}, /*urgent=*/true, [this, tenant, past_bytes, end](bool kept) {
      end(kept ? Durability::kKv : Durability::kTokens);
      EndPromise(tenant, past_bytes);
    });
  };
  options_.journal->Commit(std::move(record), std::move(written), past_bytes);
}

}  // namespace hydrant
