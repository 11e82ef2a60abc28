#include "server/frontend/frontend.h"

#include <pthread.h>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <csignal>
#include <ctime>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/frontend/admin_routes.h"
#include "server/frontend/routes.h"
#include "server/process/call_with_memory.h"
#include "server/process/clock.h"
#include "server/process/exit_codes.h"
#include "server/process/log.h"
#include "server/process/stuck_guard.h"
#include "server/tenants/authentication.h"

namespace hydrant {
namespace {

namespace asio = boost::asio;

// Connections cost little; a second thread keeps one long piece of work (rendering /metrics, a large body) from holding
// up every stream.
constexpr int kIoThreads = 2;
constexpr int kWorkerThreads = 2;
// A schema takes at most a tenth of a second, and most take less than a millisecond.
constexpr int kShapeThreads = 2;
// They wait for the disk: for sessions that come and go, and for what is not in memory of one that goes on.
constexpr int kDiskThreads = 2;
// How often a draining server looks whether it is done: the most a shutdown is late.
constexpr auto kDrainPoll = std::chrono::milliseconds(10);
// Connections of operators and their tools.
constexpr int32_t kAdminConnections = 64;
// A burst of SIGHUP becomes one reload, this long after the first: as late as a reload by signal can be.
constexpr auto kHangupPause = std::chrono::milliseconds(50);
// Sessions that expire go this late where nobody asks for anything.
constexpr auto kExpiryPause = std::chrono::seconds(1);
// After everything was cancelled: for last events to get out.
constexpr int64_t kFlushUs = 1'000'000;

}  // namespace

Frontend::Frontend(FrontendOptions options, Metrics& metrics, TenantRegistry& tenants)
    : options_(std::move(options)),
      metrics_(metrics),
      tenants_(tenants),
      io_(kIoThreads),
      control_io_(/*concurrency_hint=*/1),
      workers_(kWorkerThreads),
      shape_workers_(kShapeThreads),
      disk_workers_(kDiskThreads),
      adapter_workers_(options_.context.adapters == nullptr ? 0 : 1),
      listener_(io_, context_),
      admin_listener_(control_io_, admin_context_),
      admin_socket_(control_io_, admin_context_),
      signals_(control_io_),
      drain_timer_(control_io_),
      refuse_timer_(control_io_),
      reload_timer_(control_io_),
      watchdog_timer_(control_io_),
      expiry_timer_(control_io_) {
  const auto on_failure = [this] { metrics_.CountAuthFailure(); };
  context_.on_crowded = [this] { metrics_.CountRefusedConnection(); };
  context_.limits = options_.limits;
  context_.authenticate = TenantAuthentication(tenants_, auth_limiter_, on_failure);
  context_.origins = options_.origins;
  context_.proxies = options_.proxies;
  context_.replica_id = options_.replica_id;
  admin_context_.proxies = options_.proxies;
  const auto name = [](const TenantEntry& tenant) { return tenant.account->name(); };
  context_.log.SetTenantName(name);
  admin_context_.log.SetTenantName(name);
  admin_context_.limits = options_.limits;
  admin_context_.limits.connections_max = kAdminConnections;
  admin_context_.authenticate = OperatorAuthentication(options_.admin.keys, tenants_, auth_limiter_, on_failure);
  admin_context_.origins = options_.origins.WithoutPages(options_.admin.host);
}

Frontend::~Frontend() {
  std::optional<StuckGuard> guard;
  try {
    guard.emplace("work beside the engine", options_.limits.engine_stall_s);
  } catch (const std::exception&) {
    // Without a thread that watches them they are waited for.
  }
  workers_.Join();
  shape_workers_.Join();
  disk_workers_.Join();
  adapter_workers_.Join();
  io_.stop();
  control_io_.stop();
  if (options_.limit_store != nullptr) options_.limit_store->Stop();  // whom it would wake goes with io_
}

EventRouter::FanOut Frontend::fan_out() {
  return [this](EventRouter::MailboxList mailboxes) {
    asio::post(io_, [mailboxes = std::move(mailboxes)] {
      // Who is not woken now sleeps for good: the mailbox counts as signalled.
      for (const auto& mailbox : mailboxes) CallWhenThereIsMemory([&] { mailbox->Wake(); });
    });
  };
}

absl::Status Frontend::Open(EnginePort& engine) {
  engine_ = &engine;
  metrics_.ReadShapes(options_.context.shapes);
  metrics_.ReadAudit(options_.context.audit);
  metrics_.ReadAdapters(options_.context.adapters);
  admission_ = std::make_unique<AdmissionControl>(options_.limits, engine, metrics_, options_.limit_store);
  generations_ = std::make_unique<GenerationService>(options_.context, engine, metrics_, *admission_, workers_,
                                                     shape_workers_, disk_workers_, directory_);
  inspector_ = std::make_unique<KvInspector>(engine, options_.kv_shape, *options_.context.sessions,
                                             *options_.context.tokenizer, workers_, disk_workers_);
  transfer_ =
      std::make_unique<SessionTransfer>(options_.context, *admission_, disk_workers_, options_.limits.body_bytes_max);
  ModelCard card;
  card.id = options_.context.request.model_names.front();
  card.created = static_cast<int64_t>(std::time(nullptr));
  card.root = options_.model_root;
  card.max_model_len = options_.context.request.context;
  card.kv_block_bytes = options_.kv_block_bytes;
  card.kv_policies = options_.kv_policies;
  card.kv_recalls = options_.context.request.kv.recall;
  Authenticate metrics_reader;
  if (options_.metrics_keys->size() > 0) {
    metrics_reader =
        OperatorAuthentication(options_.metrics_keys, tenants_, auth_limiter_, [this] { metrics_.CountAuthFailure(); });
  }
  context_.routes = MakeRoutes({options_.context, *generations_, *inspector_, *transfer_, *admission_, workers_,
                                disk_workers_, tenants_.shared(), std::move(card), options_.version, engine, context_,
                                metrics_, options_.ui, std::move(metrics_reader)});
  const absl::Status opened =
      options_.socket.has_value() ? listener_.Adopt(*options_.socket) : listener_.Open(options_.host, options_.port);
  if (!opened.ok()) return opened;
  if (absl::Status status = OpenAdmin(); !status.ok()) return status;
  if (options_.handle_signals) {
    // A peer or a reader of stderr that goes away is an error code, not a signal. SIGUSR1 and SIGUSR2 mean nothing here;
    // what they do by default is to end the process.
    for (const int number : {SIGPIPE, SIGUSR1, SIGUSR2}) std::signal(number, SIG_IGN);
    for (const int number : {SIGTERM, SIGINT, SIGHUP}) signals_.add(number);
    OnSignal();
  }
  WarnOfTenants();
  listener_.Start();
  Tell("READY=1\nSTATUS=Serving");
  if (options_.watchdog_us > 0) AskIoThreads();
  if (options_.context.sessions != nullptr) ForgetExpired();
  return absl::OkStatus();
}

void Frontend::Tell(std::string_view lines) const {
  if (options_.notify) options_.notify(lines);
}

void Frontend::WarnOfTenants() const {
  const std::string_view warning = tenants_.table()->warning();
  if (!warning.empty()) Log(LogLevel::kWarning, std::string(warning));
}

void Frontend::FeedWatchdog() {
  // Twice per period, as sd_watchdog_enabled(3) advises. That this came by way of io_ shows that its threads run.
  if (!engine_->stalled()) Tell("WATCHDOG=1");
  watchdog_timer_.expires_after(std::chrono::microseconds(options_.watchdog_us / 2));
  watchdog_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) AskIoThreads();
  });
}

void Frontend::AskIoThreads() {
  asio::post(io_, [this] { asio::post(control_io_, [this] { FeedWatchdog(); }); });
}

// A server that nobody asks for anything keeps nothing for longer.
void Frontend::ForgetExpired() {
  options_.context.sessions->ForgetExpired();
  expiry_timer_.expires_after(kExpiryPause);
  expiry_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) ForgetExpired();
  });
}

absl::Status Frontend::OpenAdmin() {
  const AdminOptions& admin = options_.admin;
  if (!admin.port.has_value() && admin.socket_path.empty()) return absl::OkStatus();
  admin_context_.routes =
      MakeAdminRoutes({tenants_, directory_, *engine_, metrics_, *options_.context.sessions, *transfer_, *admission_,
                       context_, adapter_workers_, options_.context.adapters, [this] { return Reload("admin"); },
                       [this] { return Drain(); }, options_.admin.config, options_.context.request, options_.version});
  if (admin.port.has_value()) {
    const absl::Status opened =
        admin.socket.has_value() ? admin_listener_.Adopt(*admin.socket) : admin_listener_.Open(admin.host, *admin.port);
    if (!opened.ok()) return opened;
    admin_listener_.Start();
  }
  if (!admin.socket_path.empty()) {
    if (absl::Status status = admin_socket_.OpenUnix(admin.socket_path); !status.ok()) return status;
    admin_socket_.Start();
  }
  return absl::OkStatus();
}

bool Frontend::CanReload() const {
  return tenants_.has_file() || options_.admin.keys->has_file() || options_.metrics_keys->has_file();
}

absl::Status Frontend::Reload(std::string_view by) {
  if (!CanReload()) return tenants_.Reload();  // which says so
  // What can fail comes first, the tenants last of it: they are in force when it has not.
  const absl::StatusOr<std::vector<KeyDigest>> admin_keys = options_.admin.keys->Read();
  const absl::StatusOr<std::vector<KeyDigest>> metrics_keys = options_.metrics_keys->Read();
  absl::Status status = admin_keys.ok() ? metrics_keys.status() : admin_keys.status();
  if (status.ok() && tenants_.has_file()) status = tenants_.Reload();
  metrics_.CountReload(status.ok());
  if (!status.ok()) {
    const LogField fields[] = {{"by", by}};
    Log(LogLevel::kError, absl::StrCat("not reloaded, what was in force stays so: ", std::string(status.message())),
        fields);
    return status;
  }
  options_.admin.keys->Put(*admin_keys);
  options_.metrics_keys->Put(*metrics_keys);
  const std::shared_ptr<const TenantTable> table = tenants_.table();
  const LogField fields[] = {{"by", by},
                             {"keys", static_cast<int64_t>(table->keys())},
                             {"admin_keys", static_cast<int64_t>(options_.admin.keys->size())},
                             {"metrics_keys", static_cast<int64_t>(options_.metrics_keys->size())}};
  Log(LogLevel::kInfo, absl::StrCat("reloaded: ", table->entries().size(), " tenants"), fields);
  WarnOfTenants();
  return status;
}

int64_t Frontend::Drain() {
  if (!context_.unready.exchange(true, std::memory_order_relaxed)) {
    Log(LogLevel::kInfo,
        absl::StrCat("draining: /ready answers 503; ", generations_->in_flight(), " requests in flight"));
    if (options_.shutdown_delay_s > 0) {
      asio::post(control_io_, [this] { RefuseLater(); });
    } else {
      admission_->Refuse();
    }
  }
  return generations_->in_flight();
}

void Frontend::RefuseLater() {
  refuse_timer_.expires_after(std::chrono::microseconds(static_cast<int64_t>(options_.shutdown_delay_s * 1e6)));
  refuse_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) admission_->Refuse();
  });
}

void Frontend::OnHangup() {
  if (!CanReload() || reload_due_) return;
  reload_due_ = true;
  reload_timer_.expires_after(kHangupPause);
  reload_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    reload_due_ = false;
    Tell(absl::StrCat("RELOADING=1\nMONOTONIC_USEC=", MonotonicUs()));
    (void)Reload("SIGHUP");  // the result is logged
    Tell("READY=1");
  });
}

void Frontend::OnSignal() {
  signals_.async_wait([this](const boost::system::error_code& error, int number) {
    if (error) return;
    if (number == SIGHUP) {
      OnHangup();
    } else if (!stopping_) {
      Log(LogLevel::kInfo, "stop signal: draining, then exiting");
      BeginDrain();
    } else {
      Log(LogLevel::kInfo, "second stop signal: ending running requests now");
      stop_until_us_ = 0;
      CancelRunning();
    }
    OnSignal();
  });
}

int Frontend::Run() {
  std::vector<std::thread> threads;
  for (int i = 0; i < kIoThreads; ++i) {
    threads.emplace_back([this] {
      pthread_setname_np(pthread_self(), "http");
      RunIo(io_);
    });
  }
  RunIo(control_io_);
  for (std::thread& thread : threads) thread.join();
  return exit_code_;
}

void Frontend::RunIo(asio::io_context& io) {
  const auto guard = asio::make_work_guard(io);
  while (true) {
    try {
      io.run();
      return;
    } catch (const std::exception&) {
      // Handlers catch what they can expect; whatever else there is must not take the other connections along.
      Log(LogLevel::kError, "an io handler ended with an exception");
    }
  }
}

void Frontend::Shutdown() {
  asio::post(control_io_, [this] { BeginDrain(); });
}

void Frontend::Fail(int exit_code) {
  asio::post(control_io_, [this, exit_code] {
    exit_code_ = exit_code;
    BeginDrain();
    CancelRunning();
  });
}

void Frontend::BeginDrain() {
  if (stopping_) return;
  stopping_ = true;
  Tell("STOPPING=1\nSTATUS=Draining");
  Drain();
  const double patience_s = options_.shutdown_delay_s + options_.shutdown_timeout_s;
  stop_until_us_ = deadline_us_ = MonotonicUs() + static_cast<int64_t>(patience_s * 1e6);
  PollDrain();
}

void Frontend::PollDrain() {
  if (admission_->refusing()) context_.ending = true;
  if ((context_.ending && context_.unanswered == 0) || (cancelled_ && MonotonicUs() > deadline_us_)) {
    if (!cancelled_) CancelRunning();  // the engine has nothing left; this ends its thread
    io_.stop();
    control_io_.stop();
    return;
  }
  if (MonotonicUs() > deadline_us_) {
    Log(LogLevel::kWarning, absl::StrCat("ending ", context_.unanswered.load(), " requests at the shutdown deadline"));
    CancelRunning();
  }
  // Whoever comes now waits in the backlog for the process that gets the socket next, instead of being refused by this one.
  if (options_.socket.has_value() && options_.socket->outlives && admission_->refusing()) listener_.Stop();
  drain_timer_.expires_after(kDrainPoll);
  drain_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) PollDrain();
  });
}

void Frontend::CancelRunning() {
  if (cancelled_) return;
  cancelled_ = true;
  admission_->Refuse();
  deadline_us_ = MonotonicUs() + kFlushUs;
  // Ends within one step. The io threads go on meanwhile.
  const StuckGuard guard("the engine's step", options_.limits.engine_stall_s);
  engine_->Stop();
}

}  // namespace hydrant
