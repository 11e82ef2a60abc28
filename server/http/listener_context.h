// ListenerContext is what the connections of a listener share: limits, who may enter, the origin policy and the table of
// routes.
//
// Thread: any; immutable once the listener runs, the atomics aside.
#ifndef HYDRANT_SERVER_HTTP_LISTENER_CONTEXT_H_
#define HYDRANT_SERVER_HTTP_LISTENER_CONTEXT_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "server/http/caller.h"
#include "server/http/connection_table.h"
#include "server/http/http_route.h"
#include "server/http/origin_policy.h"
#include "server/http/request_log.h"
#include "server/http/trusted_proxies.h"
#include "server/process/limits.h"

namespace hydrant {

struct ListenerContext {
  Limits limits;
  Authenticate authenticate;
  OriginPolicy origins;
  TrustedProxies proxies;
  std::string replica_id;  // every answer says it in X-Hydrant-Replica; empty: none does
  std::vector<HttpRoute> routes;

  ConnectionTable connections;
  // A connection was refused for want of a place. Called on any thread; null: nobody counts.
  std::function<void()> on_crowded;
  RequestLog log;
  // Set once, when balancers should send new requests elsewhere: /ready says so, and every response ends its connection.
  // Relaxed: a response that misses it is answered as if it had come earlier.
  std::atomic<bool> unready = false;
  // Requests of which the head has come and not the end of the answer, to be waited for before the server ends. One that begins once
  // `ending` is set does not count: who always has another one would keep the server.
  std::atomic<int64_t> unanswered = 0;
  std::atomic<bool> ending = false;
  // Admission to the engine is paused: /ready says so, and nothing else changes. Relaxed, likewise.
  std::atomic<bool> paused = false;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_HTTP_LISTENER_CONTEXT_H_
