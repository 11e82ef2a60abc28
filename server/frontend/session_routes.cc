#include "server/frontend/session_routes.h"

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/session/session.h"
#include "server/http/http_exchange.h"
#include "server/process/ascii_text.h"
#include "server/tenants/tenant_registry.h"

namespace hydrant {
namespace {

namespace asio = boost::asio;

constexpr std::string_view kPath = "/v1/sessions";
// Sessions in one page: a quarter of a megabyte of JSON.
constexpr int32_t kPageMax = 1000;
constexpr int32_t kAgainS = 10;  // Retry-After where the disk does not take anything

HttpResponse List(SessionStore& sessions, int32_t tenant, const HttpHead& head) {
  const std::string after = QueryValue(head.query, "after").value_or("");
  if (!after.empty() && !IsSessionId(after)) return ErrorResponse(InvalidSessionId("after"));
  int32_t limit = kPageMax;
  if (const std::optional<std::string> text = QueryValue(head.query, "limit")) {
    const ApiResult<int32_t> value = ReadQueryInteger("limit", *text, 1, kPageMax);
    if (!value.ok()) return ErrorResponse(value.error());
    limit = value.value();
  }
  const SessionStore::Page page = sessions.List(tenant, after, static_cast<size_t>(limit));
  return JsonResponse(SessionListJson(page.cards, page.has_more));
}

HttpResponse Get(SessionStore& sessions, int32_t tenant, const std::string& id) {
  const ApiResult<SessionCard> card = sessions.Get(tenant, id);
  return card.ok() ? JsonResponse(SessionJson(card.value())) : ErrorResponse(card.error());
}

// Answers when no start will find the session again.
asio::awaitable<void> Delete(SessionStore& sessions, HttpExchange& exchange, std::string id) {
  enum class End { kPending, kDurable, kNotDurable };
  // Released by whichever thread it became known on, acquired here.
  const auto end = std::make_shared<std::atomic<End>>(End::kPending);
  exchange.WatchClient();
  const std::optional<ApiError> error =
      sessions.Delete(exchange.caller()->index(), id, [end, wake = exchange.Waker()](bool durable) {
        end->store(durable ? End::kDurable : End::kNotDurable, std::memory_order_release);
        wake();
      });
  if (error.has_value()) {
    co_await exchange.RespondError(*error);
    co_return;
  }
  while (end->load(std::memory_order_acquire) == End::kPending) {
    co_await exchange.WaitForWake();
    if (exchange.client_gone()) co_return;
  }
  if (end->load(std::memory_order_acquire) == End::kNotDurable) {
    co_await exchange.RespondError(
        Overloaded("The session is gone, but a restart of the server may bring it back.", "not_durable", kAgainS));
    co_return;
  }
  HttpResponse response = JsonResponse(SessionDeletedJson(id));
  co_await exchange.Respond(std::move(response));
}

HttpRoute Route(std::string method, std::string path, std::function<HttpResponse(int32_t, const HttpHead&)> make) {
  return {std::move(method), std::move(path), /*open=*/false,
          [make = std::move(make)](HttpExchange& exchange) -> asio::awaitable<void> {
            HttpResponse response = make(exchange.caller()->index(), exchange.head());
            co_await exchange.Respond(std::move(response));
          }};
}

using OfOne = HttpResponse (*)(SessionStore&, int32_t tenant, const std::string& id);

// What follows kPath and a slash.
std::string IdIn(const HttpHead& head) { return PercentDecode(std::string_view(head.path).substr(kPath.size() + 1)); }

// A route below kPath: what follows is an id.
HttpRoute RouteOfOne(std::string method, SessionStore& sessions, OfOne make) {
  return Route(std::move(method), absl::StrCat(std::string(kPath), "/"),
               [&sessions, make](int32_t tenant, const HttpHead& head) {
                 const std::string id = IdIn(head);
                 if (!IsSessionId(id)) return ErrorResponse(InvalidSessionId("session_id"));
                 return make(sessions, tenant, id);
               });
}

}  // namespace

void AddSessionRoutes(SessionStore& sessions, KvInspector& inspector, std::vector<HttpRoute>* routes) {
  routes->push_back(Route("GET", std::string(kPath),
                          [&sessions](int32_t tenant, const HttpHead& head) { return List(sessions, tenant, head); }));
  HttpRoute get = RouteOfOne("GET", sessions, Get);
  get.handle = [&inspector, card = std::move(get.handle)](HttpExchange& exchange) -> asio::awaitable<void> {
    static constexpr std::string_view kMap = "/kv";
    std::string id = IdIn(exchange.head());
    if (!id.ends_with(kMap)) {
      co_await card(exchange);
      co_return;
    }
    id.resize(id.size() - kMap.size());
    if (IsSessionId(id)) {
      co_await inspector.Serve(exchange, std::move(id));
    } else {
      co_await exchange.RespondError(InvalidSessionId("session_id"));
    }
  };
  routes->push_back(std::move(get));
  routes->push_back({"DELETE", absl::StrCat(std::string(kPath), "/"), /*open=*/false,
                     [&sessions](HttpExchange& exchange) -> asio::awaitable<void> {
                       std::string id = IdIn(exchange.head());
                       if (IsSessionId(id)) {
                         co_await Delete(sessions, exchange, std::move(id));
                       } else {
                         co_await exchange.RespondError(InvalidSessionId("session_id"));
                       }
                     }});
}

}  // namespace hydrant
