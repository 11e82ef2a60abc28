#include "tests/sim/sessions/store_model.h"

#include <algorithm>
#include <utility>

namespace hydrant::sim {
namespace {

constexpr size_t kGoneMax = 256;

}  // namespace

const ParkedTurn* StoreModel::ParkedPast(const Session& session) {
  if (!session.past.has_value()) return nullptr;
  const auto found = session.parked.find(session.past->turn);
  return found == session.parked.end() ? nullptr : &found->second;
}

bool StoreModel::IsExpired(const Session& session) const {
  return ttl_us_ > 0 && !session.busy && now_us_ - session.used_us >= ttl_us_;
}

// A call forgets so many of them at most, tenant by tenant and the least recent first.
void StoreModel::ExpireSome() {
  int32_t left = SessionStore::kExpiredPerCall;
  for (const auto& [tenant, own] : tenants_) {
    for (Session* oldest = LeastRecent(tenant, nullptr); oldest != nullptr && IsExpired(*oldest);
         oldest = LeastRecent(tenant, nullptr)) {
      if (left-- == 0) return;
      ++expired_;
      Forget(oldest, /*remember=*/true);
    }
  }
}

StoreModel::Session* StoreModel::Find(int32_t tenant, const std::string& id) {
  for (Session& session : sessions_) {
    if (session.tenant != tenant || session.id != id) continue;
    if (!IsExpired(session)) return &session;
    ++expired_;
    Forget(&session, /*remember=*/true);
    return nullptr;
  }
  return nullptr;
}

std::string StoreModel::Begin(const SessionOwner& owner, const std::string& id, bool must_exist, Session** begun) {
  ExpireSome();
  Tenant& tenant = tenants_[owner.tenant];
  tenant.weight = owner.weight;
  tenant.sessions_max = owner.sessions_max;
  Session* session = Find(owner.tenant, id);
  if (session != nullptr && session->busy) return "session_busy";
  if (session == nullptr) {
    const bool known = std::find(tenant.gone.begin(), tenant.gone.end(), id) != tenant.gone.end();
    if (must_exist) return known ? "session_expired" : "session_not_found";
    int64_t busy_own = 0, busy_all = 0;
    for (const Session& each : sessions_) {
      busy_all += each.busy ? 1 : 0;
      busy_own += each.busy && each.tenant == owner.tenant ? 1 : 0;
    }
    if (owner.sessions_max > 0 && busy_own >= owner.sessions_max) return "session_limit_exceeded";
    if (busy_all >= sessions_max_) return "too_many_sessions";
    session = &sessions_.emplace_back();
    session->tenant = owner.tenant;
    session->id = id;
    session->used_us = now_us_;
    session->created_s = session->used_s = now_s_;
  }
  session->busy = true;
  ++session->turns;
  *begun = session;
  return "";
}

std::string StoreModel::Get(int32_t tenant, const std::string& id, const Session** found) {
  ExpireSome();
  *found = Find(tenant, id);
  return *found == nullptr ? "session_not_found" : "";
}

std::string StoreModel::Delete(int32_t tenant, const std::string& id) {
  ExpireSome();
  Session* session = Find(tenant, id);
  if (session == nullptr) return "session_not_found";
  if (session->busy) return "session_busy";
  Forget(session, /*remember=*/false);
  return "";
}

void StoreModel::End(Session& session, const std::optional<Past>& past) {
  if (past.has_value()) session.past = past;
  session.busy = false;
  session.use = ++uses_;
  session.used_us = now_us_;
  session.used_s = now_s_;
  if (session.past.has_value()) {
    MakeRoom(session);
  } else {
    Forget(&session, /*remember=*/false);
  }
}

int64_t StoreModel::Held(int32_t tenant, By by) const {
  int64_t held = 0;
  for (const Session& session : sessions_) {
    if (session.tenant != tenant) continue;
    held += by == By::kSessions ? 1 : session.past.has_value() ? session.past->bytes : 0;
  }
  return held;
}

int64_t StoreModel::HeldByAll(By by) const {
  int64_t held = 0;
  for (const auto& [tenant, own] : tenants_) held += Held(tenant, by);
  return held;
}

// The idle session of the tenant that was used least recently, other than `newest`; null: there is none.
StoreModel::Session* StoreModel::LeastRecent(int32_t tenant, const Session* newest) {
  Session* least = nullptr;
  for (Session& session : sessions_) {
    if (session.tenant != tenant || session.busy || &session == newest) continue;
    if (least == nullptr || session.use < least->use) least = &session;
  }
  return least;
}

bool StoreModel::GivesOne(int32_t tenant, const Session& newest) {
  Session* least = LeastRecent(tenant, &newest);
  if (least == nullptr) return false;
  ++gave_way_;
  Forget(least, /*remember=*/true);
  return true;
}

// The tenant with the most for its weight gives one, of those who have one to give; of equals the first. Of bytes nobody gives one for
// a tenant that has more by its newest session alone.
bool StoreModel::GivesMostOverShare(By by, const Session& newest) {
  const auto share_of = [&](int32_t tenant) { return static_cast<double>(Held(tenant, by)) / tenants_[tenant].weight; };
  std::optional<std::pair<double, int32_t>> most;
  for (const auto& [tenant, own] : tenants_) {
    if (LeastRecent(tenant, &newest) == nullptr) continue;
    if (!most.has_value() || share_of(tenant) > most->first) most = {share_of(tenant), tenant};
  }
  const bool is_newest_alone = by == By::kBytes && LeastRecent(newest.tenant, &newest) == nullptr;
  if (is_newest_alone && most.has_value() && share_of(newest.tenant) > most->first) return false;
  return most.has_value() && GivesOne(most->second, newest);
}

void StoreModel::MakeRoom(const Session& newest) {
  const int32_t tenant = newest.tenant, own_max = tenants_[tenant].sessions_max;
  while (own_max > 0 && Held(tenant, By::kSessions) > own_max && GivesOne(tenant, newest)) {
  }
  while (HeldByAll(By::kSessions) > sessions_max_ && GivesMostOverShare(By::kSessions, newest)) {
  }
  while (HeldByAll(By::kBytes) > bytes_max_ && GivesMostOverShare(By::kBytes, newest)) {
  }
}

void StoreModel::Forget(Session* session, bool remember) {
  std::vector<std::string>& gone = tenants_[session->tenant].gone;
  if (remember) {
    gone.push_back(session->id);
    if (gone.size() > kGoneMax) gone.erase(gone.begin());
  } else {
    std::erase(gone, session->id);
  }
  forgotten_.push_back(session->number);
  sessions_.remove_if([session](const Session& each) { return &each == session; });
}

std::vector<uint64_t> StoreModel::TakeForgotten() {
  std::vector<uint64_t> forgotten = std::exchange(forgotten_, {});
  std::sort(forgotten.begin(), forgotten.end());
  return forgotten;
}

void StoreModel::OnParked(const ParkedTurn& turn) {
  for (Session& session : sessions_) {
    if (session.number == turn.id.session) session.parked[turn.id.turn] = turn;
  }
}

void StoreModel::OnDropped(const TurnId& turn) {
  for (Session& session : sessions_) {
    if (session.number == turn.session) session.parked.erase(turn.turn);
  }
}

SessionCard StoreModel::CardOf(const Session& session) const {
  const ParkedTurn* parked = ParkedPast(session);
  SessionCard card;
  card.id = session.id;
  card.state = session.busy ? SessionState::kBusy : parked != nullptr ? SessionState::kParked : SessionState::kCold;
  card.created = session.created_s;
  card.last_used = session.used_s;
  if (ttl_us_ > 0 && !session.busy) card.expires = session.used_s + ttl_us_ / 1'000'000;
  if (session.past.has_value()) {
    card.tokens = session.past->tokens;
    card.budget = session.past->budget;
    card.policy = "full";
    card.live = parked == nullptr ? 0 : parked->live;
  }
  return card;
}

SessionStore::Page StoreModel::List(int32_t tenant, const std::string& after, size_t count_max) {
  ExpireSome();
  std::vector<const Session*> found;
  for (const Session& session : sessions_) {
    if (session.tenant == tenant && session.id > after && !IsExpired(session)) found.push_back(&session);
  }
  std::sort(found.begin(), found.end(), [](const Session* a, const Session* b) { return a->id < b->id; });
  SessionStore::Page page;
  page.has_more = found.size() > count_max;
  found.resize(std::min(found.size(), count_max));
  for (const Session* session : found) page.cards.push_back(CardOf(*session));
  return page;
}

SessionCounts StoreModel::Counts() {
  ExpireSome();
  SessionCounts counts;
  for (const Session& session : sessions_) {
    const SessionState state = CardOf(session).state;
    counts.busy += state == SessionState::kBusy ? 1 : 0;
    counts.parked += state == SessionState::kParked ? 1 : 0;
    counts.cold += state == SessionState::kCold ? 1 : 0;
  }
  return counts;
}

}  // namespace hydrant::sim
