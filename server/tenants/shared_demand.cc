// What accounts ask of LimitStore, and what they make of its answers.
#include <algorithm>
#include <cassert>
#include <cmath>

#include "server/tenants/tenant_account.h"

namespace hydrant {
namespace {

constexpr int32_t kAwayAgainS = 1;  // a store that was restarted is found again within seconds
// How long a refusal is remembered. What other servers give back meanwhile is seen that much later: of a rate some of a minute's, of
// places one that may be free at any moment.
constexpr int64_t kRateKnownUs = 1'000'000;
constexpr int64_t kPlacesKnownUs = 50'000;
constexpr double kMinuteUs = 60e6;
constexpr double kRounding = 1e-6;  // the store's own

}  // namespace

std::optional<LimitDemand> TenantAccount::SharedDemand() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (limits_.rpm == 0 && limits_.concurrency_max == 0) return std::nullopt;
  return LimitDemand{name_,
                     LimitKind::kRequests,
                     limits_.rpm,
                     limits_.rpm > 0 ? 1 : 0,
                     limits_.concurrency_max,
                     limits_.concurrency_max > 0 ? 1 : 0};
}

void TenantAccount::Withdraw(int64_t now_us, bool generates) {
  const std::lock_guard<std::mutex> lock(mutex_);
  assert(open_ > 0);
  --open_;
  if (generates) --generations_;
  requests_.GiveBack(1, now_us);
}

Refusal TenantAccount::Refused(const LimitDemand& demand, LimitVerdict verdict, int64_t left, int64_t wait_us) const {
  const double wait_s = verdict == LimitVerdict::kNoRate ? static_cast<double>(wait_us) * 1e-6
                                                         : request_s_ / static_cast<double>(demand.places_max);
  return Reached(demand, verdict, wait_s, left, /*shared=*/true);
}

std::optional<Refusal> TenantAccount::Judge(const LimitAsk* ask, bool fails_open, int64_t now_us) {
  const LimitVerdict verdict = ask == nullptr ? LimitVerdict::kFailed : ask->verdict();
  if (verdict == LimitVerdict::kFailed || verdict == LimitVerdict::kAsked) {
    if (fails_open) return std::nullopt;
    return Refusal{Overloaded("The limits of this tenant cannot be looked up.", "limits_unavailable", kAwayAgainS),
                   RejectReason::kOverloaded};
  }
  const LimitDemand& demand = ask->demand();
  const std::lock_guard<std::mutex> lock(mutex_);
  if (verdict != LimitVerdict::kNoPlaces && demand.per_minute > 0) {
    const bool requests = demand.kind == LimitKind::kRequests;
    TokenBucket& seen = requests ? requests_seen_ : tokens_seen_;
    seen.SetLimit(requests ? limits_.rpm : limits_.tpm, now_us);
    seen.SetRemaining(ask->left(), now_us);
  }
  if (verdict == LimitVerdict::kGranted) return std::nullopt;
  Known& known = demand.kind == LimitKind::kRequests ? requests_known_ : tokens_known_;
  if (verdict == LimitVerdict::kNoRate) {
    known.rate_until_us = now_us + std::min(ask->wait_us(), kRateKnownUs);
    known.rate_us = now_us;
    known.level = static_cast<double>(demand.amount) -
                  static_cast<double>(ask->wait_us()) * static_cast<double>(demand.per_minute) / kMinuteUs;
  } else {
    known.places_until_us = now_us + kPlacesKnownUs;
    known.places = demand.places;
  }
  return Refused(demand, verdict, ask->left(), ask->wait_us());
}

std::optional<Refusal> TenantAccount::KnownRefusal(const LimitDemand& demand, int64_t now_us) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Known& known = demand.kind == LimitKind::kRequests ? requests_known_ : tokens_known_;
  if (now_us < known.places_until_us && demand.places >= known.places) {
    return Refused(demand, LimitVerdict::kNoPlaces, 0, 0);
  }
  if (now_us >= known.rate_until_us || demand.per_minute == 0) return std::nullopt;
  const double per_us = static_cast<double>(demand.per_minute) / kMinuteUs;
  const double level = known.level + static_cast<double>(now_us - known.rate_us) * per_us;
  const double missing = static_cast<double>(demand.amount) - level;
  if (missing <= kRounding) return std::nullopt;
  return Refused(demand, LimitVerdict::kNoRate, static_cast<int64_t>(std::max(0.0, level)),
                 static_cast<int64_t>(std::ceil(missing / per_us)));
}

std::optional<Refusal> TenantAccount::TokensRefusal(int64_t now_us) const {
  LimitDemand one = {name_, LimitKind::kTokens, 0, 1, 0, 0};
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!tokens_.limited()) return std::nullopt;
    one.per_minute = limits_.tpm;
    if (tokens_.remaining(now_us) < one.amount) {
      return Reached(one, LimitVerdict::kNoRate, tokens_.SecondsUntil(one.amount, now_us));
    }
  }
  return KnownRefusal(one, now_us);
}

std::optional<LimitDemand> RequestAccount::SharedDemand() const {
  int64_t tokens = 0;
  for (const Sequence& sequence : sequences_) tokens += sequence.prompt_tokens + sequence.max_tokens;
  const std::lock_guard<std::mutex> lock(account_->mutex_);
  const TenantLimits& limits = account_->limits_;
  if (limits.tpm == 0 && limits.sequences_max == 0) return std::nullopt;
  return LimitDemand{account_->name_,      LimitKind::kTokens,
                     limits.tpm,           limits.tpm > 0 ? tokens : 0,
                     limits.sequences_max, limits.sequences_max > 0 ? std::ssize(sequences_) : 0};
}

void RequestAccount::Hold(LimitStore* store, std::shared_ptr<LimitAsk> ask) {
  const std::lock_guard<std::mutex> lock(account_->mutex_);
  store_ = store;
  ask_ = std::move(ask);
}

}  // namespace hydrant
