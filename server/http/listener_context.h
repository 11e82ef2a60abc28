// ListenerContext is what the connections of a listener share: limits, who may enter, the origin policy and the table of
// routes.
//
// Thread: any; immutable once the listener runs, the atomics aside.
#ifndef HYDRANT_SERVER_HTTP_LISTENER_CONTEXT_H_
#define HYDRANT_SERVER_HTTP_LISTENER_CONTEXT_H_

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/caller.h"
#include "server/http/connection_table.h"
#include "server/http/origin_policy.h"
#include "server/http/request_log.h"
#include "server/http/request_place.h"
#include "server/http/trusted_proxies.h"
#include "server/process/limits.h"

namespace hydrant {

class HttpExchange;

struct HttpRoute {
  std::string method;  // GET, POST, PUT or DELETE; a GET route answers HEAD too
  std::string path;    // exact; one that ends with '/' matches every path below it
  bool open = false;   // needs no key
  // Answers the exchange. Runs on the connection's strand.
  std::function<boost::asio::awaitable<void>(HttpExchange&)> handle;
  bool body = true;  // a POST or PUT that must have one; else it may come without, and what comes is not kept
  // Asked once the head has passed every check, before a byte of the body is read. Null: everything is admitted.
  std::function<Admitted(const HttpExchange&)> admit;
  // It reads its body by itself, piece by piece, and says how long that may be: HttpExchange::ReadBodyPiece. REQUIRES: `admit` refuses
  // one whose length is not known.
  bool streams_body = false;
  int64_t body_bytes_max = 0;  // of its own, where Limits::body_bytes_max is too much; 0: none
  Dialect dialect = Dialect::kOpenAi;
  bool audited = false;                                // its requests change the server: each is logged
  Authenticate authenticate = nullptr;                 // in the place of the listener's; null: the listener's
  std::string_view content_type = "application/json";  // of the body, where its head says one

  bool exact = false;  // its path is that alone, also where it ends with '/'
  bool probe = false;  // it says how the server is: answered on a spare place, too (connection_table.h)

  bool takes_body() const { return method == "POST" || method == "PUT"; }
};

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
