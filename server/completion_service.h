// CompletionService answers POST /v1/completions: it prepares a request (parse, tokenise, resolve its KV policy, check
// that it can ever fit), submits it, and turns the events that come back into a JSON body or a stream of events.
//
// Thread: any strand; everything a request owns lives in its coroutine.
//
// Invariants
//  1. Whatever ends a request (done, error, client gone, stop string), every sequence it submitted has ended or has
//     been cancelled before Complete returns.
//  2. The HTTP status is sent with the first output, so that every error before it has its own status.
//  3. What a tenant's limits count (open requests, tokens) is given back before the last byte of an answer is sent: the
//     next request of a client that waited for it finds it free.
#ifndef HYDRANT_SERVER_COMPLETION_SERVICE_H_
#define HYDRANT_SERVER_COMPLETION_SERVICE_H_

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/completion_request.h"
#include "model/tokenizer.h"
#include "server/generation.h"
#include "server/http_exchange.h"
#include "server/kv_resolution.h"
#include "server/metrics.h"
#include "server/prefix_salts.h"
#include "server/request_directory.h"
#include "server/session_store.h"
#include "server/tenant_account.h"

namespace hydrant {

// What every request is checked against and answered with.
struct ServingContext {
  RequestContext request;
  KvModelFacts kv;
  std::shared_ptr<const Tokenizer> tokenizer;
  int32_t blocks = 0;  // of the pool
  bool prefix_caching = false;
  PrefixSalts prefix_salts;
  SessionStore* sessions = nullptr;  // never null in a server; outlives it
  // Limits of the same names.
  int64_t request_tokens_max = 1 << 20;
  int64_t request_sequences_max = 16384;
  int64_t logprobs_kept_max = 1 << 20;
  int32_t rolling_tokens_max = 1 << 20;
  int64_t stream_buffer_bytes_max = 256 << 10;
  std::string system_fingerprint;
};

// What holds for the requests of one tenant beyond that.
struct TenantRules {
  std::optional<KvSpec> kv;   // default of the field `kv`; nullopt: the server's
  int32_t kv_budget_max = 0;  // most slots a sequence may keep; 0: the context
  int32_t priority_max = 0;   // largest `priority`
  int64_t blocks_max = 0;     // most blocks a sequence can be given; 0: the pool
  SessionOwner sessions;
};

// A prompt as the engine will see it.
struct PreparedPrompt {
  std::vector<int32_t> ids;
  int32_t hidden_specials = 0;  // leading ids the server added
  bool show_specials = false;   // an echo shows special tokens: they were sent as text
  KvSpec spec;                  // what `kv` was made of
  KvResolution kv;
  // Of a session's turn.
  bool goes_on = false;             // TurnPrompt::goes_on
  uint64_t resumes = 0;             // GenerationSequence::resumes
  int32_t parked = 0;               // GenerationSequence::parked_tokens
  std::optional<std::string> text;  // TurnPrompt::text
};

struct PreparedCompletion {
  CompletionRequest request;
  std::vector<PreparedPrompt> prompts;
  std::optional<SessionTurn> turn;  // of a session; it has one prompt
};

// Linear in the body and a session's past; pure but for beginning the turn of a session, which ends with the result.
// Errors: those of ParseCompletionRequest, SessionStore::Begin, CheckPromptLength and ResolveKvPolicy;
// kv_capacity_exceeded; 400 for a request that is too large as a whole.
ApiResult<PreparedCompletion> PrepareCompletion(std::string_view body, const ServingContext& context,
                                                const TenantRules& rules = {}, const SessionHeaders& headers = {});

class CompletionRun;

class CompletionService {
 public:
  // The arguments outlive the service.
  CompletionService(const ServingContext& context, GenerationQueue& queue, Metrics& metrics,
                    boost::asio::thread_pool& workers, RequestDirectory& directory);

  boost::asio::awaitable<void> Complete(HttpExchange& exchange);

  // Answers a request that its tenant's limits turned away, and counts it. For other endpoints too.
  boost::asio::awaitable<void> Reject(HttpExchange& exchange, Refusal refusal);

  // From now on new requests get 503.
  void Drain() { draining_.store(true, std::memory_order_relaxed); }
  bool draining() const { return draining_.load(std::memory_order_relaxed); }
  // Requests being prepared or generated.
  int64_t in_flight() const { return in_flight_.load(std::memory_order_relaxed); }

 private:
  class OpenRequest;

  boost::asio::awaitable<void> Serve(HttpExchange& exchange);
  boost::asio::awaitable<void> Generate(HttpExchange& exchange, CompletionRun& run, OpenRequest& open);
  boost::asio::awaitable<void> Stream(HttpExchange& exchange, CompletionRun& run, OpenRequest& open);
  boost::asio::awaitable<void> Collect(HttpExchange& exchange, CompletionRun& run, OpenRequest& open);
  // The response that carries `error`, with the tenant's rates; beside a 503, what the queue holds and may hold.
  HttpResponse Answer(const ApiError& error, const TenantAccount& account) const;

  const ServingContext& context_;
  GenerationQueue& queue_;
  Metrics& metrics_;
  boost::asio::thread_pool& workers_;
  RequestDirectory& directory_;
  // Relaxed: flags and numbers, nothing is published through them.
  std::atomic<bool> draining_ = false;
  std::atomic<int64_t> in_flight_ = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_COMPLETION_SERVICE_H_
