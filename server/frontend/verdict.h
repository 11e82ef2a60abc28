// What some other thread will say, once: whether the disk took something. Nobody's thread waits for it.
//
// Thread: the connection's strand; what Sayer returns is called on any, also when the exchange is gone.
#ifndef HYDRANT_SERVER_FRONTEND_VERDICT_H_
#define HYDRANT_SERVER_FRONTEND_VERDICT_H_

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "api/wire/api_error.h"
#include "server/http/http_exchange.h"

namespace hydrant {

inline constexpr int32_t kDiskAgainS = 10;  // Retry-After where the disk does not take anything

// 503: something is gone, and a start may find it again, or the disk has its KV.
inline ApiError NotDurable(std::string message) { return Overloaded(std::move(message), "not_durable", kDiskAgainS); }

class Verdict {
 public:
  explicit Verdict(HttpExchange& exchange) : exchange_(exchange), wake_(exchange.Waker()) {
    exchange.WatchClient(HalfClosed::kListens);
  }

  std::function<void(bool)> Sayer() {
    return [said = said_, wake = wake_](bool yes) {
      said->store(yes ? Said::kYes : Said::kNo, std::memory_order_release);
      wake();
    };
  }
  // False: the client is gone.
  boost::asio::awaitable<bool> Wait() {
    while (said_->load(std::memory_order_acquire) == Said::kNothing) {
      co_await exchange_.WaitForWake();
      if (exchange_.client_gone()) co_return false;
    }
    co_return true;
  }
  bool yes() const { return said_->load(std::memory_order_acquire) == Said::kYes; }

 private:
  enum class Said { kNothing, kYes, kNo };
  HttpExchange& exchange_;
  std::function<void()> wake_;
  // Released by whichever thread it became known on, acquired here.
  std::shared_ptr<std::atomic<Said>> said_ = std::make_shared<std::atomic<Said>>(Said::kNothing);
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_FRONTEND_VERDICT_H_
