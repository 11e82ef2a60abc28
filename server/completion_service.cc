#include "server/completion_service.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/completion_response.h"
#include "api/sse.h"
#include "server/clock.h"
#include "server/completion_run.h"
#include "server/log.h"
#include "server/offload.h"

namespace hydrant {
namespace {

namespace asio = boost::asio;

// An honest answer to "when", however the estimate came out.
constexpr int32_t kRetryAfterMaxS = 60;

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

}  // namespace

ApiResult<PreparedCompletion> PrepareCompletion(std::string_view body, const ServingContext& context) {
  ApiResult<CompletionRequest> parsed = ParseCompletionRequest(body, context.request);
  if (!parsed.ok()) return parsed.error();
  PreparedCompletion prepared;
  prepared.request = std::move(parsed.value());
  CompletionRequest& request = prepared.request;
  if (request.choices() > context.request_sequences_max) {
    return InvalidField(
        "prompt", absl::StrCat("'n' times the number of prompts may be at most ", context.request_sequences_max, "."));
  }
  Totals totals;
  prepared.prompts.reserve(request.prompts.size());
  for (CompletionPrompt& from : request.prompts) {
    PreparedPrompt& prompt = prepared.prompts.emplace_back();
    if (from.is_ids) {
      prompt.ids = std::move(from.ids);
    } else {
      Tokenizer::EncodeOptions options;
      options.add_special_tokens = request.add_special_tokens;
      prompt.ids = context.tokenizer->Encode(from.text, options);
      if (request.add_special_tokens) prompt.hidden_specials = context.tokenizer->leading_specials();
      prompt.show_specials = true;
      from.text = {};
    }
    if (request.truncate_prompt_tokens.has_value()) {
      TruncatePrompt(&prompt.ids, *request.truncate_prompt_tokens, prompt.hidden_specials);
    }
    const auto length = static_cast<int64_t>(prompt.ids.size());
    if (std::optional<ApiError> error = CheckPromptLength(length, request.max_tokens, context.request.context)) {
      return std::move(*error);
    }
    ApiResult<KvResolution> kv =
        ResolveKvPolicy(request.kv, static_cast<int32_t>(length), request.max_tokens, context.kv);
    if (!kv.ok()) return kv.error();
    prompt.kv = kv.value();
    const int64_t needed = PeakBlocks(static_cast<int32_t>(length), request.max_tokens, prompt.kv.budget);
    if (needed > context.blocks) return KvCapacityExceeded(needed, context.blocks);
    // Now and not at the end, so that a body of many prompts never costs more than what is allowed.
    if (std::optional<ApiError> error = totals.Add(request, length, context)) return std::move(*error);
  }
  return prepared;
}

CompletionService::CompletionService(const ServingContext& context, GenerationQueue& queue, Metrics& metrics,
                                     asio::thread_pool& workers)
    : context_(context), queue_(queue), metrics_(metrics), workers_(workers) {}

asio::awaitable<void> CompletionService::Complete(HttpExchange& exchange) {
  struct InFlight {
    explicit InFlight(std::atomic<int64_t>& count_in) : count(count_in) {
      count.fetch_add(1, std::memory_order_relaxed);
    }
    ~InFlight() { count.fetch_sub(1, std::memory_order_relaxed); }
    std::atomic<int64_t>& count;
  };
  const InFlight guard(in_flight_);
  metrics_.CountRequest();
  co_await Serve(exchange);
}

HttpResponse CompletionService::WithBacklog(const ApiError& error) const {
  HttpResponse response = ErrorResponse(error);
  if (error.status == 503) {
    const Backlog backlog = queue_.backlog();
    const auto add = [&response](const char* name, int64_t value) {
      response.fields.emplace_back(name, absl::StrCat(std::max<int64_t>(0, value)));
    };
    add("x-ratelimit-limit-requests", backlog.sequences_max);
    add("x-ratelimit-remaining-requests", backlog.sequences_max - backlog.sequences);
    add("x-ratelimit-limit-tokens", backlog.prompt_tokens_max);
    add("x-ratelimit-remaining-tokens", backlog.prompt_tokens_max - backlog.prompt_tokens);
    response.fields.emplace_back("x-ratelimit-reset-requests", absl::StrCat(error.retry_after_s, "s"));
    response.fields.emplace_back("x-ratelimit-reset-tokens", absl::StrCat(error.retry_after_s, "s"));
  }
  return response;
}

asio::awaitable<void> CompletionService::Reject(HttpExchange& exchange, ApiError error, RejectReason reason) {
  metrics_.CountReject(reason);
  HttpResponse response = WithBacklog(error);
  co_await exchange.Respond(std::move(response));
}

asio::awaitable<void> CompletionService::Serve(HttpExchange& exchange) {
  if (draining()) {
    ApiError error = Overloaded("The server is shutting down.", "draining", 5);
    co_await Reject(exchange, std::move(error), RejectReason::kDraining);
    co_return;
  }
  const std::string body = exchange.TakeBody();
  std::optional<ApiResult<PreparedCompletion>> prepared;
  const auto prepare = [&] { prepared.emplace(PrepareCompletion(body, context_)); };
  if (body.size() <= kInlineBytes) {
    prepare();
  } else {
    co_await Offload(workers_, prepare);
  }
  if (!prepared->ok()) {
    ApiError error = prepared->error();
    co_await Reject(exchange, std::move(error), RejectReason::kInvalid);
    co_return;
  }
  std::string id = prepared->value().request.request_id;
  if (id.empty()) id = exchange.request_id();
  CompletionRun run(std::move(prepared->value()), context_, queue_, metrics_, exchange.arrival_us(), "cmpl-" + id);
  prepared.reset();
  exchange.WatchClient();
  if (!run.Submit(exchange.Waker())) {
    const double wait_s = std::ceil(queue_.backlog().wait_s);
    const auto retry_after_s = static_cast<int32_t>(std::clamp(wait_s, 1.0, double{kRetryAfterMaxS}));
    ApiError error = Overloaded("The server has no room for another request.", "queue_full", retry_after_s);
    co_await Reject(exchange, std::move(error), RejectReason::kOverloaded);
    co_return;
  }
  if (run.request().stream) {
    co_await Stream(exchange, run);
  } else {
    co_await Collect(exchange, run);
  }
  if (LogEnabled(LogLevel::kInfo)) {
    Log(LogLevel::kInfo, absl::StrCat("completion ", exchange.request_id(), " status ", exchange.status(),
                                      exchange.client_gone() ? " gone" : "", " prompt_tokens ", run.prompt_tokens(),
                                      " generated_tokens ", run.generated_tokens(), " ms ",
                                      (MonotonicUs() - exchange.arrival_us()) / 1000));
  }
}

asio::awaitable<void> CompletionService::Collect(HttpExchange& exchange, CompletionRun& run) {
  while (!run.done() && !run.error().has_value()) {
    co_await exchange.WaitForWake();
    if (exchange.client_gone()) co_return;
    run.Absorb();
  }
  if (run.error().has_value()) {
    HttpResponse response = WithBacklog(*run.error());
    co_await exchange.Respond(std::move(response));
    co_return;
  }
  HttpResponse response;
  response.body = run.Body();
  co_await exchange.Respond(std::move(response));
}

asio::awaitable<void> CompletionService::Stream(HttpExchange& exchange, CompletionRun& run) {
  std::string out;
  bool begun = false;
  while (!run.done()) {
    co_await exchange.WaitForWake();
    if (exchange.client_gone()) co_return;
    run.Absorb();
    if (run.error().has_value()) break;
    out.clear();
    run.AppendEvents(&out);
    if (out.empty()) continue;
    if (!begun) {
      HttpResponse head;
      head.content_type = kSseContentType;
      head.fields.emplace_back("cache-control", "no-cache");
      exchange.BeginStream(std::move(head));
      begun = true;
    }
    const bool ok = co_await exchange.Write(out);
    if (!ok) co_return;
  }
  if (run.error().has_value()) {
    const ApiError& error = *run.error();
    if (!begun) {
      HttpResponse response = WithBacklog(error);
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
