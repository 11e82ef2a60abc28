#include "tests/sim/sessions/buggy_store.h"

#include <iterator>
#include <limits>
#include <utility>

namespace hydrant::sim {
namespace {

// In the order of StoreBug.
constexpr const char* kBuggyStoreNames[] = {
    "None",         "TwoTurnsAtOnce",     "FoundByAll",          "DeletedWhileBusy", "ExpiryIgnored",
    "ExpiresEarly", "TenantLimitIgnored", "SessionLimitIgnored", "BytesIgnored",     "WeightIgnored",
    "SettleLost",   "SettleTwice",        "SettleInverted",      "ForgetLost",       "ForgetTwice",
    "ParkedLost",   "DroppedLost",        "ParkedOfAnother",     "EndLost",          "PastCutOff",
    "CardOfBefore", "ListSkipsOne",       "CountsOfBefore",
};
static_assert(std::size(kBuggyStoreNames) == static_cast<size_t>(kLastStoreBug) + 1);

}  // namespace

const char* NameOf(StoreBug bug) { return kBuggyStoreNames[static_cast<size_t>(bug)]; }

BuggyStore::BuggyStore(StoreBug bug, SessionStore::Options options) : bug_(bug), store_(Spoilt(std::move(options))) {}

SessionStore::Options BuggyStore::Spoilt(SessionStore::Options options) const {
  if (bug_ == StoreBug::kExpiryIgnored) options.ttl_us = 0;
  if (bug_ == StoreBug::kExpiresEarly) options.ttl_us /= 2;
  if (bug_ == StoreBug::kSessionLimitIgnored) options.sessions_max = std::numeric_limits<int32_t>::max();
  if (bug_ == StoreBug::kBytesIgnored) options.bytes_max = std::numeric_limits<int64_t>::max();
  const auto settle = options.on_settle;
  options.on_settle = [bug = bug_, settle](const TurnId& turn, bool keep) {
    if (bug == StoreBug::kSettleLost) return;
    settle(turn, keep != (bug == StoreBug::kSettleInverted));
    if (bug == StoreBug::kSettleTwice) settle(turn, keep);
  };
  const auto forget = options.on_forget;
  options.on_forget = [bug = bug_, forget](uint64_t number) {
    if (bug == StoreBug::kForgetLost) return;
    forget(number);
    if (bug == StoreBug::kForgetTwice) forget(number);
  };
  return options;
}

ApiResult<SessionTurn> BuggyStore::Begin(SessionOwner owner, const std::string& id, bool must_exist) {
  if (bug_ == StoreBug::kTenantLimitIgnored) owner.sessions_max = 0;
  if (bug_ == StoreBug::kWeightIgnored) owner.weight = 1;
  ApiResult<SessionTurn> turn = store_.Begin(owner, id, must_exist);
  if (bug_ != StoreBug::kTwoTurnsAtOnce || turn.ok() || turn.error().code != "session_busy") return turn;
  return store_.Begin(owner, id + "-beside", /*must_exist=*/false);
}

void BuggyStore::End(std::unique_ptr<SessionTurn> turn, std::optional<SessionPast> past) {
  if (!past.has_value() || bug_ == StoreBug::kEndLost) return;
  if (bug_ == StoreBug::kPastCutOff && !past->tokens.empty()) past->tokens.pop_back();
  turn->End(*std::move(past));
}

void BuggyStore::OnParked(std::span<const TurnId> dropped, std::span<const ParkedTurn> parked) {
  std::vector<ParkedTurn> noted(parked.begin(), parked.end());
  for (ParkedTurn& turn : noted) {
    if (bug_ == StoreBug::kParkedOfAnother && turn.id.session > 1) --turn.id.session;
  }
  if (bug_ == StoreBug::kParkedLost) noted.clear();
  if (bug_ == StoreBug::kDroppedLost) dropped = {};
  store_.OnParked(dropped, noted);
}

ApiResult<SessionStore::View> BuggyStore::Inspect(int32_t tenant, const std::string& id) {
  return store_.Inspect(bug_ == StoreBug::kFoundByAll ? 0 : tenant, id);
}

ApiResult<SessionCard> BuggyStore::Get(int32_t tenant, const std::string& id) {
  ApiResult<SessionCard> card = store_.Get(bug_ == StoreBug::kFoundByAll ? 0 : tenant, id);
  if (!card.ok()) return card;
  const std::optional<SessionCard> before = std::exchange(card_before_, card.value());
  if (bug_ == StoreBug::kCardOfBefore && before.has_value() && before->id == id) return *before;
  return card;
}

std::optional<ApiError> BuggyStore::Delete(int32_t tenant, const std::string& id) {
  std::optional<ApiError> error = store_.Delete(tenant, id);
  if (bug_ == StoreBug::kDeletedWhileBusy && error.has_value() && error->code == "session_busy") return std::nullopt;
  return error;
}

SessionStore::Page BuggyStore::List(int32_t tenant, const std::string& after, size_t count_max) {
  SessionStore::Page page = store_.List(tenant, after, count_max);
  if (bug_ == StoreBug::kListSkipsOne && !page.cards.empty()) page.cards.erase(page.cards.begin());
  return page;
}

SessionCounts BuggyStore::counts() {
  const SessionCounts counts = store_.counts();
  const SessionCounts before = std::exchange(counts_before_, counts);
  return bug_ == StoreBug::kCountsOfBefore ? before : counts;
}

}  // namespace hydrant::sim
