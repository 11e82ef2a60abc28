#include "server/frontend/loading_server.h"

#include <pthread.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <future>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/wire/api_error.h"
#include "server/http/http_exchange.h"
#include "server/http/http_message.h"
#include "server/process/clock.h"

namespace hydrant {
namespace {

namespace asio = boost::asio;

// Probes and their like: who wants more has to wait in any case.
constexpr int32_t kConnections = 256;
constexpr int32_t kRetryLoadingAfterS = 5;

HttpResponse Loading(const std::atomic<int32_t>& percent) {
  const int32_t known = percent.load(std::memory_order_relaxed);
  return ErrorResponse(
      Overloaded(known < 0 ? "The model is loading." : absl::StrCat("The model is loading: ", known, " %."), "loading",
                 kRetryLoadingAfterS));
}

// A request is refused by its head: nothing here reads a body.
HttpRoute Refusing(std::string method, std::string path, const std::atomic<int32_t>& percent) {
  HttpRoute route = {std::move(method), std::move(path), /*open=*/true,
                     [&percent](HttpExchange& exchange) -> asio::awaitable<void> {
                       HttpResponse response = Loading(percent);
                       co_await exchange.Respond(std::move(response));
                     },
                     /*body=*/false};
  route.dialect = route.path.starts_with("/v1/messages") ? std::optional(Dialect::kAnthropic) : std::nullopt;
  route.admit = [&percent](const HttpExchange&) { return Admitted{nullptr, Loading(percent)}; };
  return route;
}

// A scrape that found nothing would be one of a server that is down.
void AddMetricsRoute(std::vector<HttpRoute>* routes) {
  routes->push_back({"GET", "/metrics", /*open=*/true, [](HttpExchange& exchange) -> asio::awaitable<void> {
                       HttpResponse response;
                       response.content_type = kMetricsContentType;
                       response.body = absl::StrCat(
                           "# HELP hydrant_loading 1 while the model is loading.\n"
                           "# TYPE hydrant_loading gauge\n"
                           "hydrant_loading 1\n"
                           "# HELP process_start_time_seconds Start of the process, Unix time.\n"
                           "# TYPE process_start_time_seconds gauge\n"
                           "process_start_time_seconds ",
                           ProcessStartS(), "\n");
                       co_await exchange.Respond(std::move(response));
                     }});
}

std::vector<HttpRoute> Routes(const std::atomic<int32_t>& percent) {
  std::vector<HttpRoute> routes;
  for (const char* path :
       {"/", "/health", "/healthz", "/ping", "/ready", "/readyz", "/version", "/openapi.json", "/load", "/server_info",
        "/get_server_info", "/model_info", "/get_model_info", "/tokenizer_info", "/ui", "/ui/", "/ui/{rest...}"}) {
    routes.push_back(Refusing("GET", path, percent));
  }
  for (const char* path : {"/ping", "/tokenize", "/detokenize"}) {
    routes.push_back(Refusing("POST", path, percent));
  }
  for (const char* method : {"GET", "POST", "PUT", "DELETE"}) {
    for (const char* path : {"/v1/{rest...}", "/v1/messages", "/v1/messages/{rest...}"}) {
      routes.push_back(Refusing(method, path, percent));
    }
  }
  // Nothing is wrong with the process.
  for (const char* path : {"/live", "/livez"}) {
    routes.push_back({"GET", path, /*open=*/true, [](HttpExchange& exchange) -> asio::awaitable<void> {
                        HttpResponse response;
                        co_await exchange.Respond(std::move(response));
                      }});
  }
  AddMetricsRoute(&routes);
  return routes;
}

std::vector<HttpRoute> AdminRoutes(const std::atomic<int32_t>& percent) {
  std::vector<HttpRoute> routes;
  for (const char* method : {"GET", "POST", "PUT", "DELETE"}) {
    for (const char* path : {"/admin/{rest...}", "/v1/{rest...}"}) routes.push_back(Refusing(method, path, percent));
  }
  for (const char* path : {"/health", "/ping", "/openapi.json"}) routes.push_back(Refusing("GET", path, percent));
  for (const char* path : {"/abort_requests", "/pause", "/resume", "/reset_prefix_cache"}) {
    routes.push_back(Refusing("POST", path, percent));
  }
  AddMetricsRoute(&routes);
  return routes;
}

void SetUp(OriginPolicy origins, const std::string& replica_id, std::vector<HttpRoute> routes,
           ListenerContext* context) {
  context->limits.connections_max = kConnections;
  context->origins = std::move(origins);
  context->replica_id = replica_id;
  context->routes = std::move(routes);
  context->unready = true;  // no connection outlives its answer
}

}  // namespace

LoadingServer::LoadingServer(OriginPolicy origins, const std::string& replica_id)
    : listener_(io_, context_), admin_listener_(io_, admin_context_) {
  SetUp(std::move(origins), replica_id, Routes(percent_), &context_);
  SetUp({}, replica_id, AdminRoutes(percent_), &admin_context_);
}

LoadingServer::~LoadingServer() {
  io_.stop();
  if (thread_.joinable()) thread_.join();
}

absl::Status LoadingServer::Open(const std::string& host, uint16_t port) { return Open(listener_, host, port); }

absl::Status LoadingServer::OpenAdmin(const std::string& host, uint16_t port) {
  admin_context_.origins = context_.origins.WithoutPages(host);
  return Open(admin_listener_, host, port);
}

absl::Status LoadingServer::Open(HttpListener& listener, const std::string& host, uint16_t port) {
  if (absl::Status status = listener.Open(host, port); !status.ok()) return status;
  listener.Start();
  if (thread_.joinable()) return absl::OkStatus();
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "loading");
    while (true) {
      try {
        io_.run();  // until Release, and the end of the last connection
        return;
      } catch (const std::exception&) {
        // Out of memory, most likely: it costs the one whose handler it was.
      }
    }
  });
  return absl::OkStatus();
}

InheritedSocket LoadingServer::Release(HttpListener& listener) {
  InheritedSocket socket = listener.Share();
  // Not before it has stopped: nobody is to hear 503 from here once the other one serves.
  std::promise<void> stopped;
  const auto guard = asio::make_work_guard(io_);  // or its thread could end between the two
  listener.Stop();
  asio::post(io_, [&stopped] { stopped.set_value(); });
  stopped.get_future().wait();
  return socket;
}

}  // namespace hydrant
