// A request waits for what LimitStore says of it, on nobody's thread.
//
// Thread: the connection's strand.
#ifndef HYDRANT_SERVER_FRONTEND_STORE_WAIT_H_
#define HYDRANT_SERVER_FRONTEND_STORE_WAIT_H_

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <cstdint>

#include "server/http/http_exchange.h"
#include "server/process/clock.h"
#include "server/shared_limits/limit_store.h"

namespace hydrant {

// Returns once `ask` has ended, at the latest when it is due, or, while it is kAsked, when the client is gone or at `until_us`. Null: at
// once.
inline boost::asio::awaitable<void> WaitForStore(HttpExchange& exchange, LimitAsk* ask, int64_t until_us = kNever) {
  while (ask != nullptr && ask->verdict() == LimitVerdict::kAsked && !exchange.client_gone()) {
    const int64_t now_us = MonotonicUs();
    if (now_us >= ask->due_us()) ask->GiveUp();
    if (now_us >= std::min(ask->due_us(), until_us)) break;
    co_await exchange.WaitForWake(std::min(ask->due_us(), until_us));
  }
}

}  // namespace hydrant

#endif  // HYDRANT_SERVER_FRONTEND_STORE_WAIT_H_
