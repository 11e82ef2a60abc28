// Frontend is the whole HTTP side over any EnginePort: routes, listener, io threads, workers, drain. Tests run
// it over engines of their own.
//
// Thread: construction, Open, Run and destruction on one thread; the rest any.
#ifndef HYDRANT_SERVER_FRONTEND_FRONTEND_H_
#define HYDRANT_SERVER_FRONTEND_FRONTEND_H_

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/engine/engine_port.h"
#include "server/engine/event_router.h"
#include "server/frontend/admission_control.h"
#include "server/frontend/generation_service.h"
#include "server/frontend/request_directory.h"
#include "server/frontend/session_transfer.h"
#include "server/http/http_listener.h"
#include "server/http/listener_context.h"
#include "server/http/worker_pool.h"
#include "server/live_view/kv_inspector.h"
#include "server/metrics/metrics.h"
#include "server/process/systemd_notifier.h"
#include "server/tenants/auth_limiter.h"
#include "server/tenants/rotating_keys.h"
#include "server/tenants/tenant_registry.h"

namespace hydrant {

// The operator's listener: on a TCP port, a Unix socket, both or neither.
struct AdminOptions {
  std::optional<uint16_t> port;  // 0 picks one
  std::string host = "127.0.0.1";
  std::string socket_path;  // empty: none
  // None: the socket's permissions are what protects it. REQUIRED with a port.
  std::shared_ptr<RotatingKeys> keys = RotatingKeys::Of({});
  std::optional<InheritedSocket> socket;  // that is bound to the port already
  std::function<std::string()> config;    // the answer of GET /admin/config; null: there is none
};

struct FrontendOptions {
  Limits limits;
  AdminOptions admin;
  std::shared_ptr<RotatingKeys> metrics_keys = RotatingKeys::Of({});  // of /metrics on the clients' port
  OriginPolicy origins;
  TrustedProxies proxies;
  std::string replica_id;  // ListenerContext::replica_id, of the clients' port
  std::string host = "127.0.0.1";
  uint16_t port = 0;
  std::optional<InheritedSocket> socket;  // in place of host and port
  double shutdown_delay_s = 0;            // after a drain begins: new requests are served for this long
  double shutdown_timeout_s = 30;         // after that delay: running requests are ended
  LimitStore* limit_store = nullptr;      // AdmissionControl's; outlives the frontend
  ServingContext context;
  KvShape kv_shape;                           // of the model
  int64_t kv_block_bytes = 0;                 // of the pool, for /v1/models
  std::vector<std::string> kv_policies = {};  // the same: that requests may name
  std::string model_root;                     // what was loaded, for /v1/models
  std::string version;
  bool ui = true;
  bool handle_signals = false;
  // Takes lines of sd_notify(3), any number of times. May be null.
  std::function<void(std::string_view lines)> notify;
  int64_t watchdog_us = 0;  // SystemdNotifier::watchdog_us
};

class Frontend {
 public:
  // `metrics`, `tenants`, and the engine that Open is given, outlive the frontend.
  Frontend(FrontendOptions options, Metrics& metrics, TenantRegistry& tenants);
  ~Frontend();
  Frontend(const Frontend&) = delete;
  Frontend& operator=(const Frontend&) = delete;

  // How the engine's events reach the connections; may be used until Run has returned.
  EventRouter::FanOut fan_out();

  // Binds the ports and accepts from now on. Errors: HttpListener::Open's.
  absl::Status Open(EnginePort& engine);
  uint16_t port() const { return listener_.port(); }
  uint16_t admin_port() const { return admin_listener_.port(); }  // 0: none
  const Limits& limits() const { return options_.limits; }

  // Runs the io threads until the server has shut down. Returns the exit code.
  int Run();
  // After Run: until when the process may take to end, by the monotonic clock; 0: it is to end at once.
  int64_t stop_until_us() const { return stop_until_us_; }

  // /ready says 503 from now on, so that balancers look elsewhere. Requests that still come are served until
  // shutdown_delay_s is over, and refused then. Running requests continue, and the process stays. Returns the number of
  // requests in flight. Any thread.
  int64_t Drain();
  // Any thread. Shutdown does what SIGTERM does; Fail ends running requests at once and Run returns `exit_code`.
  void Shutdown();
  void Fail(int exit_code);

 private:
  absl::Status OpenAdmin();
  bool CanReload() const;
  // Everything that is in a file, as a whole or not at all. `by`: who asked, for the log.
  absl::Status Reload(std::string_view by);
  void WarnOfTenants() const;
  void OnSignal();
  void OnHangup();
  void Tell(std::string_view lines) const;
  void FeedWatchdog();
  void AskIoThreads();
  void ForgetExpired();
  void BeginDrain();
  void RefuseLater();
  void PollDrain();
  void CancelRunning();
  void RunIo(boost::asio::io_context& io);

  const FrontendOptions options_;
  Metrics& metrics_;
  TenantRegistry& tenants_;
  EnginePort* engine_ = nullptr;  // Open's
  AuthLimiter auth_limiter_;
  RequestDirectory directory_;
  ListenerContext context_;
  ListenerContext admin_context_;
  std::unique_ptr<AdmissionControl> admission_;
  std::unique_ptr<GenerationService> generations_;
  std::unique_ptr<KvInspector> inspector_;
  std::unique_ptr<SessionTransfer> transfer_;

  // Connections that a shutdown cuts off end when these are destroyed: their coroutines use what is declared above. The
  // admin listener, signals and the watchdog have an io context of their own, so they work whatever clients do to the
  // other one.
  boost::asio::io_context io_;
  boost::asio::io_context control_io_;
  WorkerPool workers_;
  WorkerPool shape_workers_;    // of their own, so that no prompt waits for a schema
  WorkerPool disk_workers_;     // the same of what is on the disk
  WorkerPool adapter_workers_;  // and of adapters, which are read one after the other
  HttpListener listener_;
  HttpListener admin_listener_;
  HttpListener admin_socket_;
  // Used on control_io_'s thread alone, so that the members below need no lock.
  boost::asio::signal_set signals_;
  boost::asio::steady_timer drain_timer_;
  boost::asio::steady_timer refuse_timer_;
  boost::asio::steady_timer reload_timer_;
  boost::asio::steady_timer watchdog_timer_;
  boost::asio::steady_timer expiry_timer_;
  bool reload_due_ = false;  // the timer runs
  bool stopping_ = false;
  bool cancelled_ = false;
  int64_t deadline_us_ = 0;
  int64_t stop_until_us_ = 0;  // stop_until_us()
  int exit_code_ = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_FRONTEND_FRONTEND_H_
