// LoadingServer answers on the server's port until the model is loaded. The port is bound first, so that one that is taken is
// reported before minutes of loading, and probes hear 503 `loading` rather than nothing; scrapes hear that it is loading. Whoever
// serves then goes on with the same sockets.
//
// Thread: construction, Open, OpenAdmin and destruction on one thread, the others on any one; it answers on a thread of its own.
#ifndef HYDRANT_SERVER_FRONTEND_LOADING_SERVER_H_
#define HYDRANT_SERVER_FRONTEND_LOADING_SERVER_H_

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "server/http/http_listener.h"
#include "server/http/listener_context.h"
#include "server/http/origin_policy.h"
#include "server/process/systemd_notifier.h"

namespace hydrant {

class LoadingServer {
 public:
  explicit LoadingServer(OriginPolicy origins, const std::string& replica_id = {});
  // Connections whose request is not answered by then are cut off.
  ~LoadingServer();
  LoadingServer(const LoadingServer&) = delete;
  LoadingServer& operator=(const LoadingServer&) = delete;

  // Binds and answers from now on. At most once. Errors: HttpListener::Open's.
  absl::Status Open(const std::string& host, uint16_t port);
  // The same with the operator's port.
  absl::Status OpenAdmin(const std::string& host, uint16_t port);

  uint16_t port() const { return listener_.port(); }
  uint16_t admin_port() const { return admin_listener_.port(); }

  // How much of the model is loaded, which the answers say from now on.
  void SetPercent(int32_t percent) { percent_.store(percent, std::memory_order_relaxed); }  // a number on its own

  // Accepts no more; what was accepted is still answered. Returns the socket, of which the caller owns the descriptor: whoever
  // connects meanwhile waits in its backlog. REQUIRES: Open or OpenAdmin went well.
  InheritedSocket Release() { return Release(listener_); }
  InheritedSocket ReleaseAdmin() { return Release(admin_listener_); }

 private:
  absl::Status Open(HttpListener& listener, const std::string& host, uint16_t port);
  InheritedSocket Release(HttpListener& listener);

  std::atomic<int32_t> percent_{-1};  // -1: nobody has said
  ListenerContext context_;
  ListenerContext admin_context_;
  boost::asio::io_context io_{/*concurrency_hint=*/1};
  HttpListener listener_;
  HttpListener admin_listener_;
  std::thread thread_;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_FRONTEND_LOADING_SERVER_H_
