#include "tests/sim/sessions/store_episode.h"

#include <algorithm>
#include <limits>
#include <new>

namespace hydrant::sim {

StoreEpisode::Profile::Profile(Random& random) {
  const bool crowd = random.Chance(10);  // more sessions than a call may forget
  ttl_us = random.Chance(30) ? 0 : random.Between(1, 60) * int64_t{1'000'000};
  tenants = random.Between(1, 4);
  ids = crowd ? 400 : random.Between(1, 10);
  sessions_max = crowd || random.Chance(30) ? 1 << 16 : random.Between(1, 16);
  bytes_max = crowd || random.Chance(50) ? int64_t{256} << 20 : random.Between(200, 6000);
  turns_at_once = random.Between(1, 8);
  no_memory_percent = random.Chance(70) ? 0 : random.Between(1, 20);
  calls = crowd ? 1500 : random.Between(100, 400);
}

StoreEpisode::StoreEpisode(uint64_t seed, StoreBug bug)
    : bug_(bug),
      random_(Mix(seed)),
      profile_(random_),
      model_(profile_.ttl_us, profile_.sessions_max, profile_.bytes_max) {
  now_us_ = random_.Between(0, 1000) * int64_t{1000};
  now_s_ = 1'700'000'000;
  model_.SetTime(now_us_, now_s_);
  for (int32_t tenant = 0; tenant < profile_.tenants; ++tenant) owners_.push_back(DrawOwner(tenant));
  store_ = std::make_unique<BuggyStore>(bug_, Options());
}

SessionStore::Options StoreEpisode::Options() {
  SessionStore::Options options;
  options.ttl_us = profile_.ttl_us;
  options.sessions_max = profile_.sessions_max;
  options.bytes_max = profile_.bytes_max;
  options.clock = [this] { return now_us_; };
  options.wall_clock = [this] { return now_s_; };
  options.on_forget = [this](uint64_t number) { OnForget(number); };
  options.on_settle = [this](const TurnId& turn, bool keep) { OnSettle(turn, keep); };
  return options;
}

SessionOwner StoreEpisode::DrawOwner(int32_t tenant) {
  return {tenant, random_.Between(1, 8) / 2.0, random_.Chance(60) ? 0 : random_.Between(1, 6)};
}

StoreResult StoreEpisode::Run() {
  while (!failure_.any() && result_.calls < static_cast<uint64_t>(profile_.calls)) {
    ++result_.calls;
    Act();
    CheckForgotten();
    CheckParked();
  }
  if (!failure_.any()) CheckEnd();
  result_.failure = failure_.text();
  result_.expired = model_.expired();
  result_.gave_way = model_.gave_way();
  // What is still in progress ends with the store there.
  for (Turn& turn : turns_) turn.turn.reset();
  return result_;
}

void StoreEpisode::Act() {
  const int32_t what = random_.Below(100);
  if (what < 30) {
    Begin();
  } else if (what < 55) {
    EndOne(/*well=*/random_.Chance(75));
  } else if (what < 65) {
    Look();
  } else if (what < 70) {
    Delete();
  } else if (what < 75) {
    List();
  } else if (what < 79) {
    Count();
  } else if (what < 89) {
    Tell();
  } else if (what < 92) {
    LosesSome();
  } else if (what < 94) {
    const int32_t tenant = AnyTenant();
    owners_[static_cast<size_t>(tenant)] = DrawOwner(tenant);
  } else {
    PassTime();
  }
}

// The two clocks do not tick at the same moment.
void StoreEpisode::PassTime() {
  const int64_t leap = profile_.ttl_us > 0 && random_.Chance(20) ? profile_.ttl_us : random_.Between(0, 3'000'000);
  now_us_ += leap;
  now_s_ += leap / 1'000'000 + random_.Below(2);
  model_.SetTime(now_us_, now_s_);
}

void StoreEpisode::Expect(const char* call, const std::string& code, const std::string& due) {
  if (code != due) failure_.Set("call ", result_.calls, ": ", call, " says '", code, "', expected '", due, "'");
}

void StoreEpisode::Begin() {
  const SessionOwner& owner = owners_[static_cast<size_t>(AnyTenant())];
  // Often of a session in progress: a client that does not wait for its answer.
  const std::string id = turns_.empty() || !random_.Chance(20)
                             ? AnyId()
                             : turns_[static_cast<size_t>(random_.Below(std::ssize(turns_)))].session->id;
  const bool must_exist = random_.Chance(30);
  StoreModel::Session* begun = nullptr;
  const std::string due = model_.Begin(owner, id, must_exist, &begun);
  ApiResult<SessionTurn> turn = store_->Begin(owner, id, must_exist);
  Expect("Begin", turn.ok() ? "" : turn.error().code, due);
  if (failure_.any()) return;
  result_.busy += due == "session_busy" ? 1 : 0;
  result_.refused += due == "session_limit_exceeded" || due == "too_many_sessions" ? 1 : 0;
  if (begun == nullptr) return;
  SeeBegun(std::move(turn.value()), begun);
  if (std::ssize(turns_) > profile_.turns_at_once) EndOne(/*well=*/true);
}

void StoreEpisode::SeeBegun(SessionTurn turn, StoreModel::Session* begun) {
  ++result_.turns;
  if (begun->number == 0 && numbers_.insert(turn.session()).second) begun->number = turn.session();
  if (turn.session() != begun->number || turn.id() != begun->id || turn.turn() != begun->turns) {
    failure_.Set("turn ", turn.turn(), " of session ", turn.session(), " was begun, expected turn ", begun->turns,
                 " of ", begun->number);
  }
  const int64_t tokens = turn.past() == nullptr ? -1 : std::ssize(turn.past()->tokens);
  const uint64_t past_turn = turn.past() == nullptr ? 0 : turn.past()->turn;
  if (tokens != (begun->past.has_value() ? begun->past->tokens : -1) ||
      past_turn != (begun->past.has_value() ? begun->past->turn : 0)) {
    failure_.Set("session ", begun->number, " goes on from ", tokens, " tokens of turn ", past_turn);
  }
  const auto parked = begun->parked.find(past_turn);
  const bool is_parked = past_turn > 0 && parked != begun->parked.end();
  result_.resumed += is_parked ? 1 : 0;
  if (is_parked != (turn.parked() != nullptr) || (is_parked && (turn.parked()->live != parked->second.live ||
                                                                turn.parked()->computed != parked->second.computed))) {
    failure_.Set("session ", begun->number, " finds another past parked than the engine has told of");
  }
  turns_.push_back({std::make_unique<SessionTurn>(std::move(turn)), begun});
}

void StoreEpisode::EndOne(bool well) {
  if (turns_.empty()) return;
  const auto chosen = turns_.begin() + random_.Below(static_cast<int32_t>(turns_.size()));
  Turn turn = std::move(*chosen);
  turns_.erase(chosen);
  EndTurn(std::move(turn), well);
}

// The engine has parked most turns by then, those of clients that are gone, too.
void StoreEpisode::EndTurn(Turn turn, bool well) {
  StoreModel::Session& session = *turn.session;
  const TurnId id = {session.number, session.turns};
  if (random_.Chance(70)) {
    Step step;
    Park(id, &step);
    steps_.push_back(std::move(step));
  }
  std::optional<SessionPast> past;
  std::optional<StoreModel::Past> due;
  if (well) {
    past = MakePast(session);
    const size_t text = past->text.has_value() ? past->text->capacity() : 0;
    const size_t ranges = past->client_ranges.capacity() + past->answer_specials.capacity();
    const size_t bytes = past->tokens.capacity() * sizeof(int32_t) + text + ranges * sizeof(ByteRange);
    due = {std::ssize(past->tokens), static_cast<int64_t>(bytes), id.turn, past->kv.budget.keep};
  }
  result_.went_back += !well && session.past.has_value() ? 1 : 0;
  to_settle_ = {id, well};
  settling_fails_ = random_.Chance(profile_.no_memory_percent);
  store_->End(std::move(turn.turn), std::move(past));
  if (to_settle_.has_value()) failure_.Set("turn ", id.turn, " of session ", id.session, " was not settled");
  model_.End(session, due);
}

std::optional<SessionPast> StoreEpisode::MakePast(const StoreModel::Session& session) {
  SessionPast past;
  const int64_t before = session.past.has_value() ? session.past->tokens : 0;
  past.tokens.assign(static_cast<size_t>(before + random_.Between(1, 60)), 5);
  past.computed = static_cast<int32_t>(past.tokens.size()) - 1;
  if (random_.Chance(50)) past.text = std::string(static_cast<size_t>(random_.Between(0, 300)), 'x');
  past.client_ranges.resize(static_cast<size_t>(random_.Below(4)));
  past.answer_specials.resize(static_cast<size_t>(random_.Below(3)));
  past.kv.budget.keep = random_.Below(100);
  return past;
}

void StoreEpisode::Look() {
  const int32_t tenant = AnyTenant();
  const std::string id = AnyId();
  const StoreModel::Session* due = nullptr;
  const std::string code = model_.Get(tenant, id, &due);
  if (random_.Chance(50)) {
    const ApiResult<SessionCard> card = store_->Get(tenant, id);
    Expect("Get", card.ok() ? "" : card.error().code, code);
    if (due != nullptr && !failure_.any()) CheckCard(card.value(), model_.CardOf(*due));
    return;
  }
  const ApiResult<SessionStore::View> view = store_->Inspect(tenant, id);
  Expect("Inspect", view.ok() ? "" : view.error().code, code);
  if (due == nullptr || failure_.any()) return;
  CheckCard(view.value().card, model_.CardOf(*due));
  if (view.value().number != due->number || (view.value().past != nullptr) != due->past.has_value()) {
    failure_.Set("session ", due->number, " is shown as ", view.value().number, " or with another past");
  }
}

void StoreEpisode::Delete() {
  const int32_t tenant = AnyTenant();
  const std::string id = AnyId();
  const std::string due = model_.Delete(tenant, id);
  const std::optional<ApiError> error = store_->Delete(tenant, id);
  Expect("Delete", error.has_value() ? error->code : "", due);
  result_.busy += due == "session_busy" ? 1 : 0;
  result_.deleted += due.empty() ? 1 : 0;
}

void StoreEpisode::List() {
  const int32_t tenant = AnyTenant();
  const std::string after = random_.Chance(50) ? "" : AnyId();
  const auto count_max = static_cast<size_t>(random_.Between(0, 5));
  const SessionStore::Page due = model_.List(tenant, after, count_max);
  const SessionStore::Page page = store_->List(tenant, after, count_max);
  if (page.cards.size() != due.cards.size() || page.has_more != due.has_more) {
    failure_.Set("a page has ", page.cards.size(), " sessions, expected ", due.cards.size());
    return;
  }
  for (size_t i = 0; i < due.cards.size(); ++i) CheckCard(page.cards[i], due.cards[i]);
}

void StoreEpisode::Count() {
  const SessionCounts due = model_.Counts();
  const SessionCounts counts = store_->counts();
  if (counts.busy != due.busy || counts.parked != due.parked || counts.cold != due.cold) {
    failure_.Set(counts.busy, " sessions are busy, ", counts.parked, " parked, ", counts.cold, " cold, expected ",
                 due.busy, ", ", due.parked, ", ", due.cold);
  }
}

void StoreEpisode::CheckCard(const SessionCard& card, const SessionCard& due) {
  const bool same = card.id == due.id && card.state == due.state && card.tokens == due.tokens &&
                    card.live == due.live && card.budget == due.budget && card.policy == due.policy &&
                    card.created == due.created && card.last_used == due.last_used && card.expires == due.expires;
  if (same) return;
  failure_.Set("session ", card.id, " is shown ", std::string(SessionStateName(card.state)), " with ", card.tokens,
               " tokens, ", card.live, " slots, expires ", card.expires, "; expected ", due.id, " ",
               std::string(SessionStateName(due.state)), " with ", due.tokens, ", ", due.live, ", ", due.expires);
}

// As ParkedSessions has it: two turns of a session at most, the later ones.
void StoreEpisode::Park(const TurnId& turn, Step* step) {
  std::map<uint64_t, ParkedTurn>& parked = engine_[turn.session];
  if (parked.size() == 2) {
    step->dropped.push_back(parked.begin()->second.id);
    parked.erase(parked.begin());
  }
  const int32_t computed = random_.Between(1, 200);
  step->parked.push_back({turn, computed, random_.Between(1, computed)});
  parked[turn.turn] = step->parked.back();
}

void StoreEpisode::OnSettle(const TurnId& turn, bool keep) {
  if (!to_settle_.has_value() || to_settle_->first != turn || to_settle_->second != keep) {
    failure_.Set("turn ", turn.turn, " of session ", turn.session, " is settled ", keep ? "to stay" : "to go");
    return;
  }
  to_settle_.reset();
  // Nobody begins the next turn before the engine knows from which one it goes on.
  for (const StoreModel::Session& session : model_.sessions()) {
    if (session.number != turn.session || !random_.Chance(20)) continue;
    StoreModel::Session* begun = nullptr;
    const SessionOwner& owner = owners_[static_cast<size_t>(session.tenant)];
    const std::string due = model_.Begin(owner, session.id, /*must_exist=*/true, &begun);
    const ApiResult<SessionTurn> next = store_->Begin(owner, session.id, /*must_exist=*/true);
    Expect("Begin before the turn is settled", next.ok() ? "" : next.error().code, due);
    break;
  }
  if (settling_fails_) {
    ++result_.unsettled;
    throw std::bad_alloc();
  }
  std::map<uint64_t, ParkedTurn>& parked = engine_[turn.session];
  Step step;
  std::erase_if(parked, [&](const auto& entry) {
    const bool goes = keep ? entry.first < turn.turn : entry.first == turn.turn;
    if (goes) step.dropped.push_back(entry.second.id);
    return goes;
  });
  steps_.push_back(std::move(step));
}

void StoreEpisode::OnForget(uint64_t number) {
  forgotten_.push_back(number);
  Step step;
  for (const auto& [turn, parked] : engine_[number]) step.dropped.push_back(parked.id);
  engine_.erase(number);
  steps_.push_back(std::move(step));
}

// For want of room, of sessions that nobody asked for lately.
void StoreEpisode::LosesSome() {
  Step step;
  std::erase_if(engine_, [&](const auto& session) {
    if (!random_.Chance(30)) return false;
    for (const auto& [turn, parked] : session.second) step.dropped.push_back(parked.id);
    return true;
  });
  steps_.push_back(std::move(step));
}

void StoreEpisode::Tell() {
  for (const Step& step : std::exchange(steps_, {})) {
    store_->OnParked(step.dropped, step.parked);
    for (const TurnId& turn : step.dropped) model_.OnDropped(turn);
    for (const ParkedTurn& turn : step.parked) model_.OnParked(turn);
  }
}

void StoreEpisode::CheckForgotten() {
  std::vector<uint64_t> forgotten = std::exchange(forgotten_, {});
  std::sort(forgotten.begin(), forgotten.end());
  const std::vector<uint64_t> due = model_.TakeForgotten();
  if (forgotten == due) return;
  failure_.Set("call ", result_.calls, ": ", forgotten.size(), " sessions are forgotten, the first is ",
               forgotten.empty() ? 0 : forgotten.front(), "; expected ", due.size(), ", the first ",
               due.empty() ? 0 : due.front());
}

void StoreEpisode::CheckParked() {
  for (const auto& [number, parked] : engine_) {
    const bool known = std::any_of(model_.sessions().begin(), model_.sessions().end(),
                                   [number = number](const auto& session) { return session.number == number; });
    if (!known && !parked.empty()) failure_.Set("the engine keeps the KV of session ", number, ", which is gone");
  }
}

void StoreEpisode::CheckEnd() {
  while (!turns_.empty() && !failure_.any()) EndOne(random_.Chance(50));
  Tell();
  while (!model_.sessions().empty() && !failure_.any()) {
    const StoreModel::Session& session = model_.sessions().front();
    const int32_t tenant = session.tenant;
    const std::string id = session.id;
    const std::string due = model_.Delete(tenant, id);
    const std::optional<ApiError> error = store_->Delete(tenant, id);
    Expect("Delete", error.has_value() ? error->code : "", due);
  }
  CheckForgotten();
  Count();
  for (const auto& [number, parked] : engine_) {
    if (!parked.empty()) failure_.Set("the engine keeps the KV of session ", number, " when all are gone");
  }
}

}  // namespace hydrant::sim
