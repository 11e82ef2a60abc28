#include "server/completion_service.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/completion_response.h"
#include "api/sse.h"
#include "server/clock.h"
#include "server/completion_run.h"
#include "server/log.h"
#include "server/offload.h"
#include "server/session_prompt.h"

namespace hydrant {
namespace {

namespace asio = boost::asio;

// The bounds of a request as a whole: what every prompt may be by itself adds up.
struct Totals {
  int64_t tokens = 0;     // of prompts
  int64_t positions = 0;  // with log-probabilities that wait for the rest of the response

  std::optional<ApiError> Add(const CompletionRequest& request, int64_t length, const ServingContext& context) {
    tokens += request.n * length;
    if (tokens > context.request_tokens_max) {
      return InvalidField("prompt", absl::StrCat("'n' times the tokens of all prompts may be at most ",
                                                 context.request_tokens_max, "."));
    }
    if (request.logprobs < 0) return std::nullopt;
    // A stream sends those of generated tokens as they come, and those of the prompt with the first of them.
    positions += request.n * ((request.echo ? length : 0) + (request.stream ? 0 : request.max_tokens));
    const int64_t positions_max = context.logprobs_kept_max / (request.logprobs + 1);
    if (positions <= positions_max) return std::nullopt;
    return InvalidField("logprobs", absl::StrCat("'logprobs': ", request.logprobs, " is possible for at most ",
                                                 positions_max, " tokens of a request, all samples together."));
  }
};
RequestContext RequestContextOf(const ServingContext& context, const TenantRules& rules) {
  RequestContext request = context.request;
  if (rules.kv.has_value()) request.kv = *rules.kv;
  request.kv_budget_max = rules.kv_budget_max;
  request.priority_max = rules.priority_max;
  return request;
}

// A budget in tokens was held against the maximum when it was read; one that follows from lengths, and `full`, which
// keeps everything, only can be now.
std::optional<ApiError> CheckKept(const KvBudget& budget, int64_t tokens, const TenantRules& rules) {
  const int64_t kept = budget.limited() ? budget.keep : tokens;
  if (rules.kv_budget_max == 0 || kept <= rules.kv_budget_max) return std::nullopt;
  return InvalidField("kv.budget", absl::StrCat("This request would keep ", kept, " tokens; this tenant's maximum is ",
                                                rules.kv_budget_max, "."));
}

// `slots`: the most the sequence occupies at once.
std::optional<ApiError> CheckLength(int64_t prompt_tokens, int32_t max_tokens, int64_t slots, const KvResolution& kv,
                                    const ServingContext& context) {
  if (!kv.policy.rolling) return CheckPromptLength(prompt_tokens, max_tokens, context.request.context);
  if (max_tokens > context.rolling_tokens_max) {
    return InvalidField("max_tokens", absl::StrCat("'max_tokens' may be at most ", context.rolling_tokens_max,
                                                   " with rolling positions."));
  }
  return CheckRollingLength(prompt_tokens, slots, context.request.context);
}

TenantRules RulesOf(const TenantEntry& tenant) {
  return {tenant.config.kv,
          tenant.config.kv_budget_max,
          tenant.config.priority_max,
          tenant.blocks_max,
          {tenant.index(), tenant.config.weight, tenant.config.sessions_max}};
}

SessionHeaders SessionHeadersOf(const HttpHead& head) {
  const auto field = [&head](std::string_view name) {
    const std::string* value = head.Find(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(*value);
  };
  return {field("x-session-id"), field("x-session-affinity")};
}

RejectReason ReasonOf(const ApiError& error) {
  if (error.status == 429) return RejectReason::kSessions;
  return error.status == 503 ? RejectReason::kOverloaded : RejectReason::kInvalid;
}

void AddFields(HttpResponse* response, TenantAccount::Fields fields) {
  for (auto& field : fields) response->fields.push_back(std::move(field));
}

// A prompt by itself, or as the turn of a session.
ApiResult<PreparedPrompt> EncodePrompt(CompletionPrompt& from, const CompletionRequest& request,
                                       const SessionTurn* turn, const Tokenizer& tokenizer) {
  PreparedPrompt prompt;
  prompt.show_specials = !from.is_ids;
  ApiResult<TurnPrompt> made = turn != nullptr ? MakeTurnPrompt(request, turn->past(), tokenizer)
                                               : PromptAlone(from, request.add_special_tokens, tokenizer);
  if (!made.ok()) return made.error();
  prompt.ids = std::move(made.value().ids);
  prompt.hidden_specials = made.value().hidden_specials;
  prompt.text = std::move(made.value().text);
  prompt.goes_on = made.value().goes_on;
  from.text = {};
  from.ids = {};
  if (request.truncate_prompt_tokens.has_value()) {
    TruncatePrompt(&prompt.ids, *request.truncate_prompt_tokens, prompt.hidden_specials);
    prompt.text.reset();  // it may say more than the tokens
    prompt.goes_on = turn != nullptr && GoesOn(prompt.ids, turn->past());
  }
  return prompt;
}

// Which tokens its cache keeps. A session that goes on has one answer for its life, whatever lengths its turns have.
std::optional<ApiError> ResolveKvOf(const CompletionRequest& request, const SessionPast* past,
                                    const ServingContext& context, PreparedPrompt* prompt) {
  prompt->spec = past != nullptr && !request.has_kv ? past->spec : request.kv;
  if (prompt->goes_on && prompt->spec == past->spec) {
    prompt->kv = past->kv;
    return std::nullopt;
  }
  const ApiResult<KvResolution> kv =
      ResolveKvPolicy(prompt->spec, static_cast<int32_t>(prompt->ids.size()), request.max_tokens, context.kv);
  if (!kv.ok()) return kv.error();
  prompt->kv = kv.value();
  return std::nullopt;
}

// Whether the turn goes on from what its session has parked. Returns the most slots it will occupy at once.
int64_t ResumeFrom(const SessionTurn* turn, const CompletionRequest& request, PreparedPrompt* prompt) {
  const auto length = static_cast<int32_t>(prompt->ids.size());
  const ParkedTurn* parked = turn == nullptr ? nullptr : turn->parked();
  // Log-probabilities of a prompt take all of it.
  const bool scores_prompt = request.echo && request.logprobs >= 0;
  if (parked == nullptr || scores_prompt || !prompt->goes_on || prompt->spec != turn->past()->spec) {
    return PeakSlotsFrom(0, 0, length, request.max_tokens, prompt->kv.budget);
  }
  prompt->resumes = parked->turn;
  prompt->parked = parked->computed;
  return PeakSlotsResumed(parked->live, parked->computed, length, request.max_tokens, prompt->kv.budget);
}

}  // namespace

// A request's place among those its tenant has open.
class CompletionService::OpenRequest {
 public:
  explicit OpenRequest(std::shared_ptr<TenantAccount> account) : account_(std::move(account)) {}
  ~OpenRequest() { Close(); }
  OpenRequest(const OpenRequest&) = delete;
  OpenRequest& operator=(const OpenRequest&) = delete;

  std::optional<Refusal> Open() {
    std::optional<Refusal> refusal = account_->Open(opened_us_);
    open_ = !refusal.has_value();
    return refusal;
  }
  void Close() {
    if (open_) account_->Close(opened_us_, MonotonicUs());
    open_ = false;
  }

 private:
  const std::shared_ptr<TenantAccount> account_;
  const int64_t opened_us_ = MonotonicUs();
  bool open_ = false;
};

ApiResult<PreparedCompletion> PrepareCompletion(std::string_view body, const ServingContext& context,
                                                const TenantRules& rules, const SessionHeaders& headers) {
  RequestContext request_context = RequestContextOf(context, rules);
  request_context.session = headers;
  ApiResult<CompletionRequest> parsed = ParseCompletionRequest(body, request_context);
  if (!parsed.ok()) return parsed.error();
  PreparedCompletion prepared;
  prepared.request = std::move(parsed.value());
  CompletionRequest& request = prepared.request;
  if (request.choices() > context.request_sequences_max) {
    return InvalidField(
        "prompt", absl::StrCat("'n' times the number of prompts may be at most ", context.request_sequences_max, "."));
  }
  if (!request.session_id.empty()) {
    ApiResult<SessionTurn> turn = context.sessions->Begin(rules.sessions, request.session_id, request.session_append);
    if (!turn.ok()) return turn.error();
    prepared.turn.emplace(std::move(turn.value()));
  }
  const SessionTurn* turn = prepared.turn.has_value() ? &*prepared.turn : nullptr;
  Totals totals;
  prepared.prompts.reserve(request.prompts.size());
  for (CompletionPrompt& from : request.prompts) {
    ApiResult<PreparedPrompt> encoded = EncodePrompt(from, request, turn, *context.tokenizer);
    if (!encoded.ok()) return encoded.error();
    PreparedPrompt& prompt = prepared.prompts.emplace_back(std::move(encoded.value()));
    const auto length = static_cast<int64_t>(prompt.ids.size());
    const SessionPast* past = turn == nullptr ? nullptr : turn->past();
    if (std::optional<ApiError> error = ResolveKvOf(request, past, context, &prompt)) return std::move(*error);
    const int64_t slots = ResumeFrom(turn, request, &prompt);
    if (std::optional<ApiError> error = CheckLength(length, request.max_tokens, slots, prompt.kv, context)) {
      return std::move(*error);
    }
    if (std::optional<ApiError> error = CheckKept(prompt.kv.budget, length + request.max_tokens, rules)) {
      return std::move(*error);
    }
    const int64_t blocks = rules.blocks_max > 0 ? std::min<int64_t>(rules.blocks_max, context.blocks) : context.blocks;
    const int64_t needed = BlocksForSlots(slots);
    if (needed > blocks) return KvCapacityExceeded(needed, blocks);
    // Now and not at the end, so that a body of many prompts never costs more than what is allowed.
    if (std::optional<ApiError> error = totals.Add(request, length, context)) return std::move(*error);
  }
  return prepared;
}

CompletionService::CompletionService(const ServingContext& context, GenerationQueue& queue, Metrics& metrics,
                                     asio::thread_pool& workers, RequestDirectory& directory)
    : context_(context), queue_(queue), metrics_(metrics), workers_(workers), directory_(directory) {}

asio::awaitable<void> CompletionService::Complete(HttpExchange& exchange) {
  struct InFlight {
    explicit InFlight(std::atomic<int64_t>& count_in) : count(count_in) {
      count.fetch_add(1, std::memory_order_relaxed);
    }
    ~InFlight() { count.fetch_sub(1, std::memory_order_relaxed); }
    std::atomic<int64_t>& count;
  };
  const InFlight guard(in_flight_);
  metrics_.CountRequest(exchange.caller()->index());
  co_await Serve(exchange);
}

HttpResponse CompletionService::Answer(const ApiError& error, const TenantAccount& account) const {
  HttpResponse response = ErrorResponse(error);
  if (error.status == 503) {
    const Backlog backlog = queue_.backlog();
    AddRateFields("requests", backlog.sequences_max, backlog.sequences_max - backlog.sequences, error.retry_after_s,
                  &response.fields);
    AddRateFields("tokens", backlog.prompt_tokens_max, backlog.prompt_tokens_max - backlog.prompt_tokens,
                  error.retry_after_s, &response.fields);
  } else {
    AddFields(&response, account.RateFields(MonotonicUs()));
  }
  return response;
}

asio::awaitable<void> CompletionService::Reject(HttpExchange& exchange, Refusal refusal) {
  const TenantAccount& account = *exchange.caller()->account;
  metrics_.CountReject(account.index(), refusal.reason);
  HttpResponse response = Answer(refusal.error, account);
  AddFields(&response, account.LimitFields(refusal));
  co_await exchange.Respond(std::move(response));
}

asio::awaitable<void> CompletionService::Serve(HttpExchange& exchange) {
  if (draining()) {
    Refusal refusal = {Overloaded("The server is shutting down.", "draining", 5), RejectReason::kDraining};
    co_await Reject(exchange, std::move(refusal));
    co_return;
  }
  const TenantEntry& tenant = *exchange.caller();
  OpenRequest open(tenant.account);
  if (std::optional<Refusal> refusal = open.Open()) {
    co_await Reject(exchange, std::move(*refusal));
    co_return;
  }
  const std::string body = exchange.TakeBody();
  std::optional<ApiResult<PreparedCompletion>> prepared;
  const SessionHeaders headers = SessionHeadersOf(exchange.head());
  // By the body alone, also where a session's past is longer: nothing of that is encoded. It is copied and compared, in 0.1 ms
  // for a context of 8,192 tokens, and in 2 ms for a rolling chat of 131,072.
  const auto prepare = [&] { prepared.emplace(PrepareCompletion(body, context_, RulesOf(tenant), headers)); };
  if (body.size() <= kInlineBytes) {
    prepare();
  } else {
    co_await Offload(workers_, prepare);
  }
  if (!prepared->ok()) {
    open.Close();
    Refusal refusal = {prepared->error(), ReasonOf(prepared->error())};
    co_await Reject(exchange, std::move(refusal));
    co_return;
  }
  std::string id = prepared->value().request.request_id;
  if (id.empty()) id = exchange.request_id();
  CompletionRun run(std::move(prepared->value()), context_, queue_, metrics_, exchange.arrival_us(), "cmpl-" + id,
                    tenant.index());
  prepared.reset();
  co_await Generate(exchange, run, open);
}

asio::awaitable<void> CompletionService::Generate(HttpExchange& exchange, CompletionRun& run, OpenRequest& open) {
  const TenantEntry& tenant = *exchange.caller();
  std::optional<Refusal> refusal;
  std::shared_ptr<SequenceLedger> ledger = RequestAccount::TryOpen(tenant.account, run.accounts(), queue_.backlog(),
                                                                   tenant.queue_share, MonotonicUs(), &refusal);
  if (ledger != nullptr) {
    exchange.WatchClient();
    if (!run.Submit(exchange.Waker(), std::move(ledger))) {
      const int32_t retry_after_s = RetryAfterS(queue_.backlog().wait_s);
      refusal = {Overloaded("The server has no room for another request.", "queue_full", retry_after_s),
                 RejectReason::kOverloaded};
    }
  }
  if (refusal.has_value()) {
    open.Close();
    run.LeaveTurn();
    co_await Reject(exchange, std::move(*refusal));
    co_return;
  }
  const RequestDirectory::Entry listed(directory_, run.id(), tenant.index(), run.first_id(), run.sequences());
  if (run.request().stream) {
    co_await Stream(exchange, run, open);
  } else {
    co_await Collect(exchange, run, open);
  }
  if (LogEnabled(LogLevel::kInfo)) {
    Log(LogLevel::kInfo, absl::StrCat("completion ", exchange.request_id(), " tenant ", tenant.account->name(),
                                      " status ", exchange.status(), exchange.client_gone() ? " gone" : "",
                                      " prompt_tokens ", run.prompt_tokens(), " generated_tokens ",
                                      run.generated_tokens(), " ms ", (MonotonicUs() - exchange.arrival_us()) / 1000));
  }
}

asio::awaitable<void> CompletionService::Collect(HttpExchange& exchange, CompletionRun& run, OpenRequest& open) {
  while (!run.done() && !run.error().has_value()) {
    co_await exchange.WaitForWake();
    if (exchange.client_gone()) co_return;
    run.Absorb();
  }
  open.Close();
  const TenantAccount& account = *exchange.caller()->account;
  if (run.error().has_value()) {
    HttpResponse response = Answer(*run.error(), account);
    co_await exchange.Respond(std::move(response));
    co_return;
  }
  HttpResponse response;
  response.body = run.Body();
  AddFields(&response, account.RateFields(MonotonicUs()));
  co_await exchange.Respond(std::move(response));
}

asio::awaitable<void> CompletionService::Stream(HttpExchange& exchange, CompletionRun& run, OpenRequest& open) {
  std::string out;
  bool begun = false;
  while (!run.done()) {
    co_await exchange.WaitForWake();
    if (exchange.client_gone()) co_return;
    run.Absorb();
    if (run.error().has_value()) break;
    if (run.done()) open.Close();
    out.clear();
    run.AppendEvents(&out);
    if (out.empty()) continue;
    if (!begun) {
      HttpResponse head;
      head.content_type = kSseContentType;
      head.fields.emplace_back("cache-control", "no-cache");
      AddFields(&head, exchange.caller()->account->RateFields(MonotonicUs()));
      exchange.BeginStream(std::move(head));
      begun = true;
    }
    const bool ok = co_await exchange.Write(out);
    if (!ok) co_return;
  }
  if (run.error().has_value()) {
    open.Close();
    const ApiError& error = *run.error();
    if (!begun) {
      HttpResponse response = Answer(error, *exchange.caller()->account);
      co_await exchange.Respond(std::move(response));
      co_return;
    }
    out.clear();
    AppendSseError(&out, error);
    out.append(kSseDone);
    const bool ok = co_await exchange.Write(out);
    if (!ok) co_return;
  }
  co_await exchange.EndStream();
}

}  // namespace hydrant
