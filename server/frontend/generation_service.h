// GenerationService answers the endpoints that generate: it prepares a request (generation_prepare.h), submits it, and turns
// the events that come back into a JSON body or a stream of events.
//
// Thread: any strand; everything a request owns lives in its coroutine.
//
// Invariants
//  1. Whatever ends a request (done, error, client gone, stop string), every sequence it submitted has ended or has
//     been cancelled before Serve returns.
//  2. The HTTP status is sent with the first output, so that every error before it has its own status.
//  3. What a tenant's limits count (open requests, tokens) is given back before the last byte of an answer is sent: the
//     next request of a client that waited for it finds it free.
#ifndef HYDRANT_SERVER_FRONTEND_GENERATION_SERVICE_H_
#define HYDRANT_SERVER_FRONTEND_GENERATION_SERVICE_H_

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstdint>

#include "server/engine/engine_port.h"
#include "server/frontend/request_directory.h"
#include "server/generation/generation_prepare.h"
#include "server/http/http_exchange.h"
#include "server/metrics/metrics.h"
#include "server/tenants/tenant_account.h"

namespace hydrant {

class GenerationRun;

class GenerationService {
 public:
  // The arguments outlive the service.
  GenerationService(const ServingContext& context, EnginePort& engine, Metrics& metrics,
                    boost::asio::thread_pool& workers, RequestDirectory& directory);

  // `prepare` is the endpoint's.
  boost::asio::awaitable<void> Serve(HttpExchange& exchange, PrepareFunction prepare);

  // Answers a request that its tenant's limits turned away, and counts it. For other endpoints too.
  boost::asio::awaitable<void> Reject(HttpExchange& exchange, Refusal refusal);

  // From now on new requests get 503.
  void Refuse() { refusing_.store(true, std::memory_order_relaxed); }
  bool refusing() const { return refusing_.load(std::memory_order_relaxed); }
  // Requests being prepared or generated.
  int64_t in_flight() const { return in_flight_.load(std::memory_order_relaxed); }

 private:
  class OpenRequest;

  boost::asio::awaitable<void> ServeCounted(HttpExchange& exchange, PrepareFunction prepare);
  boost::asio::awaitable<void> Generate(HttpExchange& exchange, GenerationRun& run, OpenRequest& open);
  boost::asio::awaitable<void> Stream(HttpExchange& exchange, GenerationRun& run, OpenRequest& open);
  boost::asio::awaitable<void> Collect(HttpExchange& exchange, GenerationRun& run, OpenRequest& open);
  // The response that carries `error`, with the tenant's rates; beside a 503, what the queue holds and may hold.
  HttpResponse Answer(const ApiError& error, const TenantAccount& account) const;

  const ServingContext& context_;
  EnginePort& engine_;
  Metrics& metrics_;
  boost::asio::thread_pool& workers_;
  RequestDirectory& directory_;
  // Relaxed: flags and numbers, nothing is published through them.
  std::atomic<bool> refusing_ = false;
  std::atomic<int64_t> in_flight_ = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_FRONTEND_GENERATION_SERVICE_H_
