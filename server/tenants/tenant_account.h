// TenantAccount is what a tenant has open, waiting and used up at the moment, held against its limits. It lives as long
// as the process, whatever configurations come and go. RequestAccount is the part of one request in it.
//
// Thread: any; a short lock. A request takes it four times in its life, not once per token.
//
// Invariants
//  1. What a request takes (a place among the open ones, places in the queue, tokens) it gives back exactly once,
//     however it ends.
//  2. No counter passes its limit, but by the tokens of a session whose parked KV was lost on the way.
//  3. Tokens are taken when a request is accepted, as many as it may come to use; what it did not compute or generate
//     comes back at its end. So a tenant is charged for exactly what was computed for it.
#ifndef HYDRANT_SERVER_TENANTS_TENANT_ACCOUNT_H_
#define HYDRANT_SERVER_TENANTS_TENANT_ACCOUNT_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/wire/api_error.h"
#include "server/engine/engine_port.h"
#include "server/metrics/metrics.h"
#include "server/process/token_bucket.h"
#include "server/shared_limits/limit_store.h"
#include "server/tenants/tenant_config.h"

namespace hydrant {

// A request that a limit turned away.
struct Refusal {
  ApiError error;
  RejectReason reason;
  bool shared = false;  // the limit is held by all servers together
};

class TenantAccount {
 public:
  TenantAccount(int32_t index, std::string name) : index_(index), name_(std::move(name)) {}
  TenantAccount(const TenantAccount&) = delete;
  TenantAccount& operator=(const TenantAccount&) = delete;

  int32_t index() const { return index_; }  // of the scheduler's tenant and of the metrics' series
  const std::string& name() const { return name_; }

  void SetLimits(const TenantLimits& limits, int64_t now_us);

  // A request arrived: concurrency_max and rpm. Every success is followed by one Close, or Withdraw, that says the same of it.
  std::optional<Refusal> Open(int64_t now_us, bool generates = false);
  void Close(int64_t opened_us, int64_t now_us, bool generates = false);

  // What LimitStore is to be asked beside Open; nullopt: none of these limits is set.
  std::optional<LimitDemand> SharedDemand() const;
  // In the place of Close, for a request that was opened and that the store refused: it counts for nothing.
  void Withdraw(int64_t now_us, bool generates = false);
  // Why a request may not go on after it was asked about; null `ask`: the store was away, `fails_open` what that means. What the
  // answer says of the rate is in x-ratelimit-* from now on.
  std::optional<Refusal> Judge(const LimitAsk* ask, bool fails_open, int64_t now_us);
  // What the store would answer, as far as it is known from what it refused a moment ago: a tenant that does not take no for an answer
  // costs a store that others need next to nothing.
  std::optional<Refusal> KnownRefusal(const LimitDemand& demand, int64_t now_us) const;
  // Why a request that will use tokens, at least one, may have none, by this server's count or by what is known of the store's.
  std::optional<Refusal> TokensRefusal(int64_t now_us) const;

  // x-ratelimit-* as they stand; empty for a tenant without such limits.
  using Fields = std::vector<std::pair<std::string, std::string>>;
  Fields RateFields(int64_t now_us) const;
  // Beside those, on a refusal: a limit that is no rate, in the place of a limit of requests where there is none.
  Fields LimitFields(const Refusal& refusal) const;

  struct Snapshot {
    TenantLimits limits;
    int32_t open = 0;
    int32_t generations = 0;  // of those
    int64_t queued = 0;
    int64_t tokens_remaining = -1;    // -1: no limit
    int64_t requests_remaining = -1;  // -1: no limit
  };
  Snapshot snapshot(int64_t now_us) const;

 private:
  friend class RequestAccount;

  // These REQUIRE mutex_ held.
  std::optional<Refusal> TakeRequest(int64_t now_us);
  int64_t Remaining(const TokenBucket& own, const TokenBucket& seen, int64_t now_us) const;
  double SecondsUntilFull(const TokenBucket& own, const TokenBucket& seen, int64_t now_us) const;
  // One of the limits that servers may share is reached: what of `demand` the verdict is of is set. `left`: of tpm.
  static Refusal Reached(const LimitDemand& demand, LimitVerdict verdict, double wait_s, int64_t left = 0,
                         bool shared = false);
  // `left` and `wait_us`: of kNoRate.
  Refusal Refused(const LimitDemand& demand, LimitVerdict verdict, int64_t left, int64_t wait_us) const;

  const int32_t index_;
  const std::string name_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  TenantLimits limits_;
  TokenBucket requests_;
  TokenBucket tokens_;
  // As the store of shared limits last told; no limit until it has. For x-ratelimit-* alone: others give back what is not seen here.
  TokenBucket requests_seen_;
  TokenBucket tokens_seen_;
  // What the store refused last of one LimitKind.
  struct Known {
    int64_t rate_until_us = 0;  // until then nobody asks for more of the rate than there would be if nothing came back
    int64_t rate_us = 0;        // when there was `level` of it
    double level = 0;
    int64_t places_until_us = 0;  // until then nobody asks for `places` or more
    int64_t places = 0;
  };
  Known requests_known_;
  Known tokens_known_;
  int32_t open_ = 0;
  int32_t generations_ = 0;    // of those
  int64_t sequences_ = 0;      // accepted and not yet ended
  int64_t queued_ = 0;         // of those, not yet admitted
  int64_t queued_tokens_ = 0;  // of their prompts
  double request_s_ = 1;       // how long a request takes: a moving average
};

// The Retry-After of an estimated wait: whole seconds, 1 to a minute.
int32_t RetryAfterS(double wait_s);

// Appends x-ratelimit-{limit,remaining,reset}-`what`.
void AddRateFields(const char* what, int64_t limit, int64_t remaining, double reset_s, TenantAccount::Fields* fields);

// RequestAccount holds the tokens that the sequences of a request may come to use. The engine settles it as they end.
class RequestAccount : public SequenceLedger {
 public:
  struct Sequence {
    int64_t prompt_tokens = 0;
    int64_t max_tokens = 0;
  };

  // Takes what `sequences` need from the account: sequences_max, queue_max and tpm, and the tenant's part of the whole queue (FitsShare), from the
  // first request on. Null, with the reason in *refusal, when
  // something is not there; nothing is taken then.
  static std::shared_ptr<RequestAccount> TryOpen(std::shared_ptr<TenantAccount> account,
                                                 std::vector<Sequence> sequences, const Backlog& backlog,
                                                 double queue_share, int64_t now_us, std::optional<Refusal>* refusal);
  // Gives back what was not settled: the engine never saw those.
  ~RequestAccount() override;

  // What LimitStore is to be asked beside TryOpen; nullopt: none of these limits is set.
  std::optional<LimitDemand> SharedDemand() const;
  // What `ask` was granted comes back to `store`, which outlives this, with the end of the last sequence. Before the engine has them.
  void Hold(LimitStore* store, std::shared_ptr<LimitAsk> ask);

  // Gives back what was not settled: the engine will never see those.
  void Withdraw();

  // None of its sequences has left the queue, as far as the engine has told.
  bool waiting() const;

  void OnAdmitted(int32_t choice) override;
  void OnEnded(int32_t choice, int32_t prompt_computed, int32_t generated) override;
  bool first_of_tenant() const override { return first_of_tenant_; }

 private:
  enum class State : uint8_t { kQueued, kAdmitted, kEnded };

  RequestAccount(std::shared_ptr<TenantAccount> account, std::vector<Sequence> sequences);
  void LeaveQueue(size_t choice);  // REQUIRES: account_->mutex_ held

  const std::shared_ptr<TenantAccount> account_;
  const std::vector<Sequence> sequences_;
  std::vector<State> states_;  // guarded by account_->mutex_
  bool first_of_tenant_ = false;
  int64_t era_ = 0;  // of the bucket that its tokens were taken from; guarded by account_->mutex_
  // Guarded by account_->mutex_.
  LimitStore* store_ = nullptr;
  std::shared_ptr<LimitAsk> ask_;
  size_t ended_ = 0;
  int64_t unused_ = 0;  // tokens of those
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_TENANTS_TENANT_ACCOUNT_H_
