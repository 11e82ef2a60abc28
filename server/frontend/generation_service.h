// GenerationService answers the endpoints that generate: it prepares a request (generation_prepare.h), submits it, and turns
// the events that come back into a JSON body or a stream of events.
//
// Thread: any strand; everything a request owns lives in its coroutine.
//
// Invariants
//  1. Whatever ends a request (done, error, client gone, stop string), every sequence it submitted has ended or has
//     been cancelled before Serve returns.
//  2. The HTTP status is sent with the first output, so that every error before it has its own status.
//  3. What a tenant's limits count (open requests, tokens) is given back when the last 64 KiB of an answer are sent: the next
//     request of a client that waited for it finds it free, and an answer that nobody takes keeps its place.
#ifndef HYDRANT_SERVER_FRONTEND_GENERATION_SERVICE_H_
#define HYDRANT_SERVER_FRONTEND_GENERATION_SERVICE_H_

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <optional>

#include "server/engine/engine_port.h"
#include "server/frontend/admission_control.h"
#include "server/frontend/request_directory.h"
#include "server/generation/generation_prepare.h"
#include "server/http/http_exchange.h"
#include "server/http/worker_pool.h"
#include "server/metrics/metrics.h"
#include "server/tenants/tenant_account.h"
#include "server/tenants/tenant_registry.h"

namespace hydrant {

class GenerationRun;
class RequestDeadlines;

// The rules for requests of a tenant.
TenantRules TenantRulesOf(const TenantEntry& tenant, const ServingContext& context);

class GenerationService {
 public:
  // The arguments outlive the service.
  GenerationService(const ServingContext& context, EnginePort& engine, Metrics& metrics, AdmissionControl& admission,
                    WorkerPool& workers, WorkerPool& shape_workers, WorkerPool& disk_workers,
                    RequestDirectory& directory);

  // `prepare` is the endpoint's; `reads_past`: it may read, render and encode what a session has said, however short the body is.
  // REQUIRES: the exchange was admitted (AdmitGeneration).
  boost::asio::awaitable<void> Serve(HttpExchange& exchange, PrepareFunction prepare, bool reads_past = false);

  // Requests being prepared or generated.
  int64_t in_flight() const { return in_flight_.load(std::memory_order_relaxed); }

 private:
  boost::asio::awaitable<void> ServeCounted(HttpExchange& exchange, PrepareFunction prepare, bool reads_past);
  // On the workers, or, once it is known that the disk has to be waited for, on the threads that do that.
  boost::asio::awaitable<void> Prepare(HttpExchange& exchange, PrepareFunction prepare, bool reads_past,
                                       std::optional<ApiResult<PreparedGeneration>>* prepared);
  // Compiles what the run's answers are to be held to. Returns why that cannot be, if so.
  boost::asio::awaitable<std::optional<ApiError>> Shape(HttpExchange& exchange, GenerationRun& run);
  boost::asio::awaitable<void> Reject(HttpExchange& exchange, const Refusal& refusal);
  // Asks LimitStore about what the request may come to use. Returns why it may not go on, if so: also that its time was over before
  // there was an answer.
  boost::asio::awaitable<std::optional<Refusal>> AskStore(HttpExchange& exchange, RequestAccount& account,
                                                          RequestDeadlines& deadlines);
  boost::asio::awaitable<void> Generate(HttpExchange& exchange, GenerationRun& run);
  boost::asio::awaitable<void> Stream(HttpExchange& exchange, GenerationRun& run, const RequestDirectory::Entry& listed,
                                      RequestDeadlines& deadlines);
  boost::asio::awaitable<void> Collect(HttpExchange& exchange, GenerationRun& run,
                                       const RequestDirectory::Entry& listed, RequestDeadlines& deadlines);
  // An error that came before the answer began.
  HttpResponse AnswerError(const ApiError& error, const TenantEntry& tenant, const RequestDirectory::Entry& listed);
  static int64_t DueUs(const GenerationRun& run, const RequestDeadlines& deadlines);
  // Fails the run, counted, if it has missed a deadline and has not ended.
  void EndIfDue(const HttpExchange& exchange, GenerationRun& run, RequestDeadlines& deadlines);

  const ServingContext& context_;
  EnginePort& engine_;
  Metrics& metrics_;
  AdmissionControl& admission_;
  WorkerPool& workers_;
  WorkerPool& shape_workers_;
  WorkerPool& disk_workers_;
  RequestDirectory& directory_;
  std::atomic<int64_t> in_flight_ = 0;  // relaxed: a number, nothing is published through it
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_FRONTEND_GENERATION_SERVICE_H_
