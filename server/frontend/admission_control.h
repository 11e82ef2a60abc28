// AdmissionControl decides from a request's head alone whether it may go on, before a byte of its body is read: whether the server
// takes new work, whether its tenant may open another request (concurrency_max, rpm), and whether there is room for its body.
//
// Thread: any.
//
// Invariants
//  1. A body is never read into memory without a place of its tenant and room in the budget of bytes.
//  2. The store of shared limits is asked about no request that was refused here. A refused request has given back everything before
//     its body is read over: one that was refused here all but the one that its tenant's rpm counted, one that the store refused that,
//     too.
//  3. Whatever a tenant asks for, the bytes of a long answer count among its own for as long as it leaves them here.
#ifndef HYDRANT_SERVER_FRONTEND_ADMISSION_CONTROL_H_
#define HYDRANT_SERVER_FRONTEND_ADMISSION_CONTROL_H_

#include <atomic>
#include <cstdint>
#include <optional>

#include "server/engine/engine_port.h"
#include "server/http/http_exchange.h"
#include "server/http/request_place.h"
#include "server/metrics/metrics.h"
#include "server/process/limits.h"
#include "server/shared_limits/limit_store.h"
#include "server/tenants/byte_budget.h"
#include "server/tenants/tenant_account.h"
#include "server/tenants/tenant_registry.h"

namespace hydrant {

// Adds header fields to a response.
void AddFields(HttpResponse* response, TenantAccount::Fields fields);

class AdmissionControl {
 public:
  // The arguments outlive it. `store`: of limits that hold for several servers together; null: there is none.
  AdmissionControl(const Limits& limits, const EnginePort& engine, Metrics& metrics, LimitStore* store = nullptr);

  LimitStore* store() const { return store_; }

  // A request that will generate, or one that will not but costs processor time by its body.
  Admitted AdmitGeneration(const HttpExchange& exchange);
  Admitted AdmitWork(const HttpExchange& exchange);
  // The same of a body of which at most so many bytes are in memory.
  Admitted AdmitWork(const HttpExchange& exchange, int64_t held_bytes);
  // A request that costs next to nothing, whose answer may be long all the same: it takes no place among the open ones.
  Admitted AdmitAnswer(const HttpExchange& exchange);

  // The same of the operator's, about a tenant's sessions.
  Admitted AdmitAnswerOf(const Caller& tenant);

  // A request of the operator about a tenant's sessions: its body counts among the tenant's bytes, and it takes no place.
  Admitted AdmitBody(const Caller& tenant, int64_t held_bytes);

  // The response to a request that was turned away, which is counted. `generates`: it was admitted by AdmitGeneration.
  HttpResponse Reject(const TenantEntry& tenant, const Refusal& refusal, bool generates = true) const;
  // The response that carries `error`, with the tenant's rates; beside a 503 to a tenant that is alone, what the queue holds and may
  // hold. Where there are others, that would be theirs to tell.
  HttpResponse Answer(const ApiError& error, const TenantEntry& tenant) const;

  // From now on new generations get 503.
  void Refuse() { refusing_.store(true, std::memory_order_relaxed); }
  bool refusing() const { return refusing_.load(std::memory_order_relaxed); }
  // The refusal that requests get from then on.
  static Refusal Draining();

  int64_t bytes_held() const { return bytes_.used(); }

 private:
  class Place;

  Admitted Admit(const HttpExchange& exchange, int64_t held_bytes, bool generates);
  static std::optional<Refusal> RefusalFor(std::optional<ByteBudget::Lack> lack);

  const EnginePort& engine_;
  Metrics& metrics_;
  LimitStore* const store_;
  ByteBudget bytes_;
  std::atomic<bool> refusing_ = false;  // relaxed: nothing is published through it
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_FRONTEND_ADMISSION_CONTROL_H_
