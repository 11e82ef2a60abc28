#include "server/tenants/tenant_account.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "server/process/clock.h"
#include "server/tenants/byte_budget.h"

namespace hydrant {
namespace {

// An honest answer to "when", however an estimate came out. A rate's answer is exact and may be anything up to a minute.
constexpr double kRetryAfterMaxS = 60;
// One request counts for this much of the average.
constexpr double kDurationWeight = 0.1;

Refusal Limited(RejectReason reason, std::string_view limit, std::string message, double wait_s) {
  ApiError error = RateLimited(std::move(message), "rate_limit_exceeded", RetryAfterS(wait_s));
  error.param = std::string(limit);
  return {std::move(error), reason};
}

// Tokens of the prompts, and of prompts and answers.
std::pair<int64_t, int64_t> TokensOf(const std::vector<RequestAccount::Sequence>& sequences) {
  int64_t prompts = 0, all = 0;
  for (const RequestAccount::Sequence& sequence : sequences) {
    prompts += sequence.prompt_tokens;
    all += sequence.prompt_tokens + sequence.max_tokens;
  }
  return {prompts, all};
}

}  // namespace

int32_t RetryAfterS(double wait_s) { return static_cast<int32_t>(std::clamp(std::ceil(wait_s), 1.0, kRetryAfterMaxS)); }

void AddRateFields(const char* what, int64_t limit, int64_t remaining, double reset_s, TenantAccount::Fields* fields) {
  fields->emplace_back(absl::StrCat("x-ratelimit-limit-", what), absl::StrCat(limit));
  fields->emplace_back(absl::StrCat("x-ratelimit-remaining-", what), absl::StrCat(std::max<int64_t>(0, remaining)));
  fields->emplace_back(absl::StrCat("x-ratelimit-reset-", what), absl::StrCat(std::ceil(reset_s), "s"));
}

void TenantAccount::SetLimits(const TenantLimits& limits, int64_t now_us) {
  const std::lock_guard<std::mutex> lock(mutex_);
  limits_ = limits;
  requests_.SetLimit(limits.rpm, now_us);
  tokens_.SetLimit(limits.tpm, now_us);
  if (requests_seen_.limited()) requests_seen_.SetLimit(limits.rpm, now_us);
  if (tokens_seen_.limited()) tokens_seen_.SetLimit(limits.tpm, now_us);
  requests_known_ = tokens_known_ = {};
}

int64_t TenantAccount::Remaining(const TokenBucket& own, const TokenBucket& seen, int64_t now_us) const {
  const int64_t remaining = own.remaining(now_us);
  return seen.limited() ? std::min(remaining, seen.remaining(now_us)) : remaining;
}

double TenantAccount::SecondsUntilFull(const TokenBucket& own, const TokenBucket& seen, int64_t now_us) const {
  return std::max(own.SecondsUntilFull(now_us), seen.SecondsUntilFull(now_us));
}

Refusal TenantAccount::Reached(const LimitDemand& demand, LimitVerdict verdict, double wait_s, int64_t left,
                               bool shared) {
  const bool requests = demand.kind == LimitKind::kRequests;
  const char* const end = shared ? ", on all servers together." : ".";
  Refusal refusal = {};
  if (verdict == LimitVerdict::kNoPlaces) {
    const char* const limit = requests ? "concurrency_max" : "sequences_max";
    refusal = Limited(RejectReason::kConcurrency, limit,
                      absl::StrCat("This tenant may have ", demand.places_max,
                                   requests ? " requests open at a time (" : " sequences at a time (", limit, ")", end),
                      wait_s);
  } else if (requests) {
    refusal =
        Limited(RejectReason::kRpm, "rpm",
                absl::StrCat("This tenant may send ", demand.per_minute, " requests per minute (rpm)", end), wait_s);
  } else {
    // How many it would come to is not known before its body is read.
    const std::string which =
        left == 0 ? std::string("none is left")
                  : absl::StrCat("this request may come to ", demand.amount, " and ", left, " are left");
    refusal = Limited(RejectReason::kTpm, "tpm",
                      absl::StrCat("This tenant may use ", demand.per_minute, " tokens per minute (tpm); ", which, end),
                      wait_s);
  }
  refusal.shared = shared;
  return refusal;
}

std::optional<Refusal> TenantAccount::TakeRequest(int64_t now_us) {
  if (requests_.TryTake(1, now_us)) return std::nullopt;
  return Reached({.kind = LimitKind::kRequests, .per_minute = limits_.rpm}, LimitVerdict::kNoRate,
                 requests_.SecondsUntil(1, now_us));
}

std::optional<Refusal> TenantAccount::Open(int64_t now_us, bool generates) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (limits_.concurrency_max > 0 && open_ >= limits_.concurrency_max) {
    // One of those that run ends, on average, after its share of a request's time.
    return Reached({.kind = LimitKind::kRequests, .places_max = limits_.concurrency_max}, LimitVerdict::kNoPlaces,
                   request_s_ / open_);
  }
  if (std::optional<Refusal> refusal = TakeRequest(now_us)) return refusal;
  ++open_;
  if (generates) ++generations_;
  return std::nullopt;
}

void TenantAccount::Close(int64_t opened_us, int64_t now_us, bool generates) {
  const std::lock_guard<std::mutex> lock(mutex_);
  assert(open_ > 0);
  --open_;
  if (generates) --generations_;
  requests_known_.places_until_us = 0;  // there is one
  request_s_ += kDurationWeight * (static_cast<double>(now_us - opened_us) * 1e-6 - request_s_);
}

TenantAccount::Fields TenantAccount::RateFields(int64_t now_us) const {
  Fields fields;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (requests_.limited()) {
    AddRateFields("requests", requests_.limit(), Remaining(requests_, requests_seen_, now_us),
                  SecondsUntilFull(requests_, requests_seen_, now_us), &fields);
  }
  if (tokens_.limited()) {
    AddRateFields("tokens", tokens_.limit(), Remaining(tokens_, tokens_seen_, now_us),
                  SecondsUntilFull(tokens_, tokens_seen_, now_us), &fields);
  }
  return fields;
}

TenantAccount::Fields TenantAccount::LimitFields(const Refusal& refusal) const {
  Fields fields;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!requests_.limited() && refusal.reason == RejectReason::kConcurrency) {
    const int64_t left = refusal.shared ? 0 : limits_.concurrency_max - open_;
    AddRateFields("requests", limits_.concurrency_max, left, refusal.error.retry_after_s, &fields);
  } else if (!requests_.limited() && refusal.reason == RejectReason::kQueue && limits_.queue_max > 0) {
    AddRateFields("requests", limits_.queue_max, limits_.queue_max - queued_, refusal.error.retry_after_s, &fields);
  }
  return fields;
}

TenantAccount::Snapshot TenantAccount::snapshot(int64_t now_us) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  Snapshot snapshot;
  snapshot.limits = limits_;
  snapshot.open = open_;
  snapshot.generations = generations_;
  snapshot.queued = queued_;
  if (tokens_.limited()) snapshot.tokens_remaining = Remaining(tokens_, tokens_seen_, now_us);
  if (requests_.limited()) snapshot.requests_remaining = Remaining(requests_, requests_seen_, now_us);
  return snapshot;
}

RequestAccount::RequestAccount(std::shared_ptr<TenantAccount> account, std::vector<Sequence> sequences)
    : account_(std::move(account)), sequences_(std::move(sequences)), states_(sequences_.size(), State::kEnded) {}

std::shared_ptr<RequestAccount> RequestAccount::TryOpen(std::shared_ptr<TenantAccount> account,
                                                        std::vector<Sequence> sequences, const Backlog& backlog,
                                                        double queue_share, int64_t now_us,
                                                        std::optional<Refusal>* refusal) {
  const auto count = static_cast<int64_t>(sequences.size());
  const auto [prompt_tokens, tokens] = TokensOf(sequences);
  TenantAccount& tenant = *account;
  // Made first, so that nothing has to be given back where there is no memory for it.
  const auto opened = std::shared_ptr<RequestAccount>(new RequestAccount(std::move(account), std::move(sequences)));
  const std::lock_guard<std::mutex> lock(tenant.mutex_);
  const int64_t sequences_max = tenant.limits_.sequences_max;
  if (sequences_max > 0 && count > sequences_max) {
    *refusal = {InvalidField("n", absl::StrCat("This request has ", count, " sequences; this tenant may have ",
                                               sequences_max, " at a time (sequences_max).")),
                RejectReason::kInvalid};
    return nullptr;
  }
  if (sequences_max > 0 && tenant.sequences_ + count > sequences_max) {
    *refusal =
        TenantAccount::Reached({.kind = LimitKind::kTokens, .places_max = sequences_max}, LimitVerdict::kNoPlaces,
                               tenant.request_s_ * static_cast<double>(count) / static_cast<double>(sequences_max));
    return nullptr;
  }
  if (tenant.limits_.queue_max > 0 && tenant.queued_ + count > tenant.limits_.queue_max) {
    *refusal =
        Limited(RejectReason::kQueue, "queue_max",
                absl::StrCat("This tenant may have ", tenant.limits_.queue_max, " sequences waiting (queue_max)."),
                backlog.wait_s);
    return nullptr;
  }
  // More than half of the places is more than any of several tenants can ever have of them.
  const int64_t places = backlog.sequences_max / 2;
  if (queue_share < 1 && count > places) {
    *refusal = {InvalidField("prompt", absl::StrCat("This request has ", count,
                                                    " sequences; a tenant's part of the server's queue has ", places,
                                                    " places at most.")),
                RejectReason::kInvalid};
    return nullptr;
  }
  const auto fits = [queue_share](int64_t all, int64_t own, int64_t more, int64_t most) {
    return queue_share >= 1 || own + more <= 1 || FitsShare(all, own, more, most, queue_share);
  };
  // One request may have more tokens than its tenant's part: the largest there may be must find room somewhere. It leaves
  // others theirs, because the first one of each tenant finds room, whatever waits (first_of_tenant).
  const bool first_tokens = tenant.queued_tokens_ == 0;
  if (!fits(backlog.sequences, tenant.queued_, count, backlog.sequences_max) ||
      (!first_tokens &&
       !fits(backlog.prompt_tokens, tenant.queued_tokens_, prompt_tokens, backlog.prompt_tokens_max))) {
    *refusal =
        Limited(RejectReason::kQueue, "queue", "This tenant's part of the server's queue is full.", backlog.wait_s);
    return nullptr;
  }
  if (tenant.tokens_.limited() && tokens > tenant.tokens_.limit()) {
    *refusal = {InvalidField("max_tokens",
                             absl::StrCat("This request may come to ", tokens, " tokens; this tenant has ",
                                          tenant.limits_.tpm, " per minute (tpm)."),
                             "tpm_exceeded"),
                RejectReason::kInvalid};
    return nullptr;
  }
  if (!tenant.tokens_.TryTake(tokens, now_us)) {
    *refusal = TenantAccount::Reached({.kind = LimitKind::kTokens, .per_minute = tenant.limits_.tpm, .amount = tokens},
                                      LimitVerdict::kNoRate, tenant.tokens_.SecondsUntil(tokens, now_us),
                                      tenant.tokens_.remaining(now_us));
    return nullptr;
  }
  tenant.sequences_ += count;
  tenant.queued_ += count;
  tenant.queued_tokens_ += prompt_tokens;
  opened->first_of_tenant_ = first_tokens;
  opened->era_ = tenant.tokens_.era();
  std::fill(opened->states_.begin(), opened->states_.end(), State::kQueued);
  return opened;
}

RequestAccount::~RequestAccount() { Withdraw(); }

void RequestAccount::Withdraw() {
  for (size_t i = 0; i < sequences_.size(); ++i) OnEnded(static_cast<int32_t>(i), 0, 0);
}

void RequestAccount::LeaveQueue(size_t choice) {
  if (states_[choice] != State::kQueued) return;
  --account_->queued_;
  account_->queued_tokens_ -= sequences_[choice].prompt_tokens;
  states_[choice] = State::kAdmitted;
}

bool RequestAccount::waiting() const {
  const std::lock_guard<std::mutex> lock(account_->mutex_);
  return std::all_of(states_.begin(), states_.end(), [](State state) { return state == State::kQueued; });
}

void RequestAccount::OnAdmitted(int32_t choice) {
  const std::lock_guard<std::mutex> lock(account_->mutex_);
  LeaveQueue(static_cast<size_t>(choice));
}

void RequestAccount::OnEnded(int32_t choice, int32_t prompt_computed, int32_t generated) {
  const auto index = static_cast<size_t>(choice);
  const std::lock_guard<std::mutex> lock(account_->mutex_);
  if (states_[index] == State::kEnded) return;
  LeaveQueue(index);
  states_[index] = State::kEnded;
  --account_->sequences_;
  const Sequence& sequence = sequences_[index];
  // Negative when what a session had parked was gone, and more was computed than anybody could know.
  const int64_t unused = sequence.prompt_tokens + sequence.max_tokens - prompt_computed - generated;
  const int64_t now_us = MonotonicUs();
  if (era_ == account_->tokens_.era()) account_->tokens_.GiveBack(unused, now_us);
  unused_ += unused;
  if (++ended_ < sequences_.size() || ask_ == nullptr) return;
  if (ask_->verdict() == LimitVerdict::kGranted) {
    if (ask_->demand().per_minute > 0) account_->tokens_seen_.GiveBack(unused_, now_us);
    account_->tokens_known_ = {};  // there is more
  }
  store_->GiveBack(std::exchange(ask_, nullptr), unused_);
}

}  // namespace hydrant
