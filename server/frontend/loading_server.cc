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
  route.admit = [&percent](const HttpExchange&) { return Admitted{nullptr, Loading(percent)}; };
  return route;
}

std::vector<HttpRoute> Routes(const std::atomic<int32_t>& percent) {
  std::vector<HttpRoute> routes;
  for (const char* path : {"/health", "/healthz", "/ping", "/ready", "/readyz", "/v1/"}) {
    routes.push_back(Refusing("GET", path, percent));
  }
  for (const char* path : {"/ping", "/v1/", "/tokenize", "/detokenize"}) {
    routes.push_back(Refusing("POST", path, percent));
  }
  routes.push_back(Refusing("DELETE", "/v1/", percent));
  // Nothing is wrong with the process.
  routes.push_back({"GET", "/livez", /*open=*/true, [](HttpExchange& exchange) -> asio::awaitable<void> {
                      HttpResponse response;
                      co_await exchange.Respond(std::move(response));
                    }});
  return routes;
}

}  // namespace

LoadingServer::LoadingServer(OriginPolicy origins, std::string replica_id)
    : listener_(io_, context_), admin_listener_(io_, context_) {
  context_.limits.connections_max = kConnections;
  context_.origins = std::move(origins);
  context_.replica_id = std::move(replica_id);
  context_.routes = Routes(percent_);
  context_.unready = true;  // no connection outlives its answer
}

LoadingServer::~LoadingServer() {
  io_.stop();
  if (thread_.joinable()) thread_.join();
}

absl::Status LoadingServer::Open(const std::string& host, uint16_t port) {
  if (absl::Status status = listener_.Open(host, port); !status.ok()) return status;
  listener_.Start();
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

InheritedSocket LoadingServer::Release() {
  InheritedSocket socket = listener_.Share();
  // Not before it has stopped: nobody is to hear 503 from here once the other one serves.
  std::promise<void> stopped;
  const auto guard = asio::make_work_guard(io_);  // or its thread could end between the two
  listener_.Stop();
  asio::post(io_, [&stopped] { stopped.set_value(); });
  stopped.get_future().wait();
  return socket;
}

}  // namespace hydrant
