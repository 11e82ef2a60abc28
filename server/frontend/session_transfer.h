// SessionTransfer has a session leave for another server as a file (session_file.h), come from one, and be forgotten: the endpoints
// below /v1/sessions, and the operator's below /admin/sessions.
//
// Thread: the connection's strand; what may take long, or waits for the disk, runs on workers of its own: a disk that hangs keeps no
// prompt waiting.
#ifndef HYDRANT_SERVER_FRONTEND_SESSION_TRANSFER_H_
#define HYDRANT_SERVER_FRONTEND_SESSION_TRANSFER_H_

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "server/frontend/admission_control.h"
#include "server/generation/generation_prepare.h"
#include "server/http/http_exchange.h"
#include "server/http/worker_pool.h"
#include "server/process/random_id.h"
#include "server/sessions/session_store.h"
#include "server/sessions/transfer/session_file.h"

namespace hydrant {

class SessionTransfer {
 public:
  // The arguments outlive it. `workers` wait for the disk. `past_bytes_max`: of what a session says, in a file that is taken.
  SessionTransfer(const ServingContext& context, const AdmissionControl& admission, WorkerPool& workers,
                  int64_t past_bytes_max)
      : context_(context), admission_(admission), workers_(workers), past_bytes_max_(past_bytes_max) {}

  // GET …/state of a session of `tenant`: 200 with its file, whose tag is its last turn, and who gives it. With `kv=1` its KV comes along where it is on
  // the disk, or parked, and then is written first; it counts as an answer of 2 MiB.
  boost::asio::awaitable<void> Give(HttpExchange& exchange, Caller tenant, std::string id) const;
  // PUT …/state, in two steps: what is wrong with the request's head, before a byte of its body is read; then 201 once the session is
  // durable, or cannot be made so. Of KV no more than two pieces are in memory, and a block; nothing is imported before all is checked.
  // `with_kv`: whoever sends it may bring KV, which nobody can tell from what the tokens give; else KV is passed over.
  std::optional<ApiError> CheckTake(const HttpExchange& exchange, const TenantEntry& tenant, const std::string& id,
                                    bool with_kv) const;
  // What of a body may come to be in memory.
  int64_t HeldBytes(const HttpHead& head) const;
  boost::asio::awaitable<void> Take(HttpExchange& exchange, Caller tenant, std::string id, bool with_kv) const;
  // DELETE: answers when no start will find the session again, and with `purge=now` when no file has what it said.
  boost::asio::awaitable<void> Forget(HttpExchange& exchange, Caller tenant, std::string id) const;

 private:
  SessionFile FileOf(const SessionStore::Kept& kept, const TenantEntry& tenant, const std::string& id) const;
  boost::asio::awaitable<void> GiveKv(HttpExchange& exchange, WorkOwner owner, HttpResponse response,
                                      KvOutgoing& kv) const;

  const ServingContext& context_;
  const AdmissionControl& admission_;
  WorkerPool& workers_;
  const int64_t past_bytes_max_;
  const std::string instance_ = RandomId();
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_FRONTEND_SESSION_TRANSFER_H_
