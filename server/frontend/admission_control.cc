#include "server/frontend/admission_control.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/frontend/store_wait.h"
#include "server/process/clock.h"

namespace hydrant {
namespace {

// A body of unknown length is held in pieces.
constexpr int64_t kChunkedStep = 64 << 10;
// Bodies and answers move within seconds.
constexpr int32_t kRetryAfterS = 1;

}  // namespace

void AddFields(HttpResponse* response, TenantAccount::Fields fields) {
  for (auto& field : fields) response->fields.push_back(std::move(field));
}

// A request's place and bytes. Goes with its exchange, which the connection's coroutine owns.
class AdmissionControl::Place : public RequestPlace {
 public:
  // `generates`: it will use tokens.
  Place(AdmissionControl& control, Caller tenant, bool generates = false)
      : control_(control), tenant_(std::move(tenant)), generates_(generates) {}
  ~Place() override {
    Close();
    if (body_bytes_ + answer_bytes_ > 0) {
      control_.bytes_.GiveBack(tenant_->index(), body_bytes_ + answer_bytes_);
    }
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  std::optional<Refusal> Open() {
    std::optional<Refusal> refusal = tenant_->account->Open(opened_us_, generates_);
    open_ = !refusal.has_value();
    return refusal;
  }
  std::optional<Refusal> TryHold(int64_t bytes) {
    if (bytes <= body_bytes_) return std::nullopt;
    const std::optional<ByteBudget::Lack> lack =
        control_.bytes_.TryTake(tenant_->index(), tenant_->queue_share, bytes - body_bytes_, body_bytes_);
    if (!lack.has_value()) body_bytes_ = bytes;
    return RefusalFor(lack);
  }

  std::optional<HttpResponse> HoldBody(int64_t bytes) override {
    const int64_t in_steps = (bytes + kChunkedStep - 1) / kChunkedStep * kChunkedStep;
    if (const std::optional<Refusal> refusal = TryHold(in_steps)) return Reject(*refusal);
    return std::nullopt;
  }
  void ReleaseBody() override {
    if (body_bytes_ > 0) control_.bytes_.GiveBack(tenant_->index(), std::exchange(body_bytes_, 0));
  }
  void HoldAnswer(int64_t bytes) override {
    control_.bytes_.Take(tenant_->index(), bytes);
    answer_bytes_ += bytes;
  }
  void Close() override {
    if (open_) tenant_->account->Close(opened_us_, MonotonicUs(), generates_);
    open_ = false;
    if (ask_ != nullptr) control_.store_->GiveBack(std::exchange(ask_, nullptr), 0);
  }

  bool undecided() const override { return open_ && control_.store_ != nullptr; }
  boost::asio::awaitable<std::optional<HttpResponse>> Decide(HttpExchange& exchange) override {
    TenantAccount& account = *tenant_->account;
    std::optional<LimitDemand> demand = account.SharedDemand();
    if (!demand.has_value()) co_return std::nullopt;
    LimitStore& store = *control_.store_;
    // A place that is asked for, and given back because there are no tokens, costs the store two scripts.
    if (std::optional<Refusal> none = generates_ ? account.TokensRefusal(MonotonicUs()) : std::nullopt) {
      ReleaseBody();
      Close();  // it counts for rpm, as one whose tokens are refused when they are known
      co_return Reject(*none);
    }
    std::optional<Refusal> refusal = account.KnownRefusal(*demand, MonotonicUs());
    if (!refusal.has_value()) {
      ask_ = store.Ask(*std::move(demand), exchange.Waker());
      co_await WaitForStore(exchange, ask_.get());
      refusal = account.Judge(ask_.get(), store.fails_open(), MonotonicUs());
    }
    if (!refusal.has_value()) co_return std::nullopt;
    ReleaseBody();  // none of it is kept, however slowly it comes
    account.Withdraw(MonotonicUs(), generates_);
    open_ = false;
    // An answer that is still to come may have counted it.
    if (ask_ != nullptr) store.GiveBack(ask_, ask_->demand().amount);
    ask_ = nullptr;
    co_return Reject(*refusal);
  }

 private:
  HttpResponse Reject(const Refusal& refusal) const { return control_.Reject(*tenant_, refusal, generates_); }

  AdmissionControl& control_;
  const Caller tenant_;
  const bool generates_;
  const int64_t opened_us_ = MonotonicUs();
  bool open_ = false;
  std::shared_ptr<LimitAsk> ask_;  // what it holds at the store
  int64_t body_bytes_ = 0;
  int64_t answer_bytes_ = 0;
};

AdmissionControl::AdmissionControl(const Limits& limits, const EnginePort& engine, Metrics& metrics, LimitStore* store)
    : engine_(engine), metrics_(metrics), store_(store), bytes_(limits.held_bytes_max) {}

Refusal AdmissionControl::Draining() {
  return {Overloaded("The server is shutting down.", "draining", 5), RejectReason::kDraining};
}

Admitted AdmissionControl::AdmitGeneration(const HttpExchange& exchange) {
  const TenantEntry& tenant = *exchange.caller();
  metrics_.CountRequest(tenant.index());
  if (refusing()) return {nullptr, Reject(tenant, Draining())};
  return Admit(exchange, static_cast<int64_t>(exchange.head().content_length), /*generates=*/true);
}

Admitted AdmissionControl::AdmitWork(const HttpExchange& exchange) {
  return AdmitWork(exchange, static_cast<int64_t>(exchange.head().content_length));
}

Admitted AdmissionControl::AdmitWork(const HttpExchange& exchange, int64_t held_bytes) {
  return Admit(exchange, held_bytes, /*generates=*/false);
}

Admitted AdmissionControl::Admit(const HttpExchange& exchange, int64_t held_bytes, bool generates) {
  auto place = std::make_unique<Place>(*this, exchange.caller(), generates);
  std::optional<Refusal> refusal = place->Open();
  if (!refusal.has_value()) refusal = place->TryHold(held_bytes);
  if (refusal.has_value()) return {nullptr, Reject(*exchange.caller(), *refusal, generates)};
  return {std::move(place), std::nullopt};
}

Admitted AdmissionControl::AdmitAnswer(const HttpExchange& exchange) {
  const TenantEntry& tenant = *exchange.caller();
  const std::optional<Refusal> refusal = RefusalFor(bytes_.LackForAnswer(tenant.index(), tenant.queue_share));
  if (refusal.has_value()) return {nullptr, Reject(tenant, *refusal, /*generates=*/false)};
  return {std::make_unique<Place>(*this, exchange.caller()), std::nullopt};
}

Admitted AdmissionControl::AdmitAnswerOf(const Caller& tenant) {
  const std::optional<Refusal> refusal = RefusalFor(bytes_.LackForAnswer(tenant->index(), tenant->queue_share));
  if (refusal.has_value()) return {nullptr, ErrorResponse(refusal->error)};
  return {std::make_unique<Place>(*this, tenant), std::nullopt};
}

Admitted AdmissionControl::AdmitBody(const Caller& tenant, int64_t held_bytes) {
  auto place = std::make_unique<Place>(*this, tenant);
  const std::optional<Refusal> refusal = place->TryHold(held_bytes);
  if (refusal.has_value()) return {nullptr, ErrorResponse(refusal->error)};
  return {std::move(place), std::nullopt};
}

std::optional<Refusal> AdmissionControl::RefusalFor(std::optional<ByteBudget::Lack> lack) {
  if (!lack.has_value()) return std::nullopt;
  if (*lack == ByteBudget::Lack::kAll) {
    return Refusal{Overloaded("The server holds as many bytes of bodies and answers as it may.", "held_bytes_exceeded",
                              kRetryAfterS),
                   RejectReason::kOverloaded};
  }
  ApiError error = RateLimited("This tenant's part of the bytes of bodies and answers is full.", "rate_limit_exceeded",
                               kRetryAfterS);
  error.param = "held_bytes";
  return Refusal{std::move(error), RejectReason::kQueue};
}

HttpResponse AdmissionControl::Reject(const TenantEntry& tenant, const Refusal& refusal, bool generates) const {
  const TenantAccount& account = *tenant.account;
  metrics_.CountReject(account.index(), refusal.reason, generates);
  HttpResponse response = Answer(refusal.error, tenant);
  AddFields(&response, account.LimitFields(refusal));
  return response;
}

HttpResponse AdmissionControl::Answer(const ApiError& error, const TenantEntry& tenant) const {
  HttpResponse response = ErrorResponse(error);
  if (error.status == 503 && tenant.queue_share >= 1) {
    const Backlog backlog = engine_.backlog();
    AddRateFields("requests", backlog.sequences_max, backlog.sequences_max - backlog.sequences, error.retry_after_s,
                  &response.fields);
    AddRateFields("tokens", backlog.prompt_tokens_max, backlog.prompt_tokens_max - backlog.prompt_tokens,
                  error.retry_after_s, &response.fields);
  } else {
    AddFields(&response, tenant.account->RateFields(MonotonicUs()));
  }
  return response;
}

}  // namespace hydrant
