#include "server/frontend/session_routes.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/session/session.h"
#include "server/http/http_exchange.h"

namespace hydrant {
namespace {

namespace asio = boost::asio;

constexpr const char* kPath = "/v1/sessions";
constexpr const char* kAdminPath = "/admin/sessions";
// Sessions in one page: a quarter of a megabyte of JSON.
constexpr int32_t kPageMax = 1000;

// Whose sessions a request is about. Errors name the parameter.
using OwnerOf = std::function<ApiResult<Caller>(const HttpExchange& exchange)>;

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

// A route of one session, or of a part of it: `handle` gets whose it is, and its id.
HttpRoute RouteOfOne(std::string method, std::string path, OwnerOf owner_of,
                     std::function<asio::awaitable<void>(HttpExchange&, Caller, std::string)> handle) {
  return {
      std::move(method), std::move(path), /*open=*/false,
      [owner_of = std::move(owner_of), handle = std::move(handle)](HttpExchange& exchange) -> asio::awaitable<void> {
        std::string id = exchange.path_value(0);
        const ApiResult<Caller> owner = owner_of(exchange);
        std::optional<ApiError> error;
        if (!owner.ok()) error = owner.error();
        if (!IsSessionId(id)) error = InvalidSessionId("session_id");
        if (error.has_value()) {
          co_await exchange.RespondError(*std::move(error));
        } else {
          co_await handle(exchange, owner.value(), std::move(id));
        }
      }};
}

// What a PUT may be refused for before its body is read.
std::optional<ApiError> CheckPut(const HttpExchange& exchange, const OwnerOf& owner_of, const SessionTransfer& transfer,
                                 bool with_kv, Caller* owner) {
  const std::string id = exchange.path_value(0);
  if (!IsSessionId(id)) return InvalidSessionId("session_id");
  const ApiResult<Caller> found = owner_of(exchange);
  if (!found.ok()) return found.error();
  *owner = found.value();
  return transfer.CheckTake(exchange, **owner, id, with_kv);
}

// The last one is PUT's. `with_kv`: it takes a session's KV, too.
void AddRoutes(const std::string& path, const SessionRouteSources& sources, const OwnerOf& owner_of, bool with_kv,
               const std::function<Admitted(const HttpExchange&)>& admit_removal, std::vector<HttpRoute>* routes) {
  SessionStore& sessions = sources.sessions;
  const SessionTransfer& transfer = sources.transfer;
  const std::string one = absl::StrCat(path, "/{session_id}"), state = absl::StrCat(one, "/state");
  routes->push_back(
      {"GET", path, /*open=*/false, [&sessions, owner_of](HttpExchange& exchange) -> asio::awaitable<void> {
         const ApiResult<Caller> owner = owner_of(exchange);
         HttpResponse response =
             owner.ok() ? List(sessions, owner.value()->index(), exchange.head()) : ErrorResponse(owner.error());
         co_await exchange.Respond(std::move(response));
       }});
  routes->push_back(RouteOfOne(
      "GET", one, owner_of, [&sessions](HttpExchange& exchange, Caller owner, std::string id) -> asio::awaitable<void> {
        HttpResponse response = Get(sessions, owner->index(), id);
        co_await exchange.Respond(std::move(response));
      }));
  routes->push_back(
      RouteOfOne("DELETE", one, owner_of,
                 [&transfer](HttpExchange& exchange, Caller owner, std::string id) -> asio::awaitable<void> {
                   co_await transfer.Forget(exchange, std::move(owner), std::move(id));
                 }));
  routes->back().admit = admit_removal;
  routes->push_back(
      RouteOfOne("GET", state, owner_of,
                 [&transfer](HttpExchange& exchange, Caller owner, std::string id) -> asio::awaitable<void> {
                   co_await transfer.Give(exchange, std::move(owner), std::move(id));
                 }));
  routes->push_back(
      RouteOfOne("PUT", state, owner_of,
                 [&transfer, with_kv](HttpExchange& exchange, Caller owner, std::string id) -> asio::awaitable<void> {
                   co_await transfer.Take(exchange, std::move(owner), std::move(id), with_kv);
                 }));
  routes->back().content_type = kSessionFileType;
  routes->back().streams_body = true;
}

}  // namespace

void AddSessionRoutes(const SessionRouteSources& sources, AdmissionControl& admission, KvInspector& inspector,
                      std::vector<HttpRoute>* routes) {
  const OwnerOf owner_of = [](const HttpExchange& exchange) { return ApiResult<Caller>(exchange.caller()); };
  // A purge writes as much anew as others have said: whoever asks for many is bounded.
  const auto admit_removal = [&admission](const HttpExchange& exchange) { return admission.AdmitWork(exchange); };
  routes->push_back(
      RouteOfOne("GET", absl::StrCat(kPath, "/{session_id}/kv"), owner_of,
                 [&inspector](HttpExchange& exchange, const Caller&, std::string id) -> asio::awaitable<void> {
                   co_await inspector.Serve(exchange, std::move(id));
                 }));
  AddRoutes(kPath, sources, owner_of, /*with_kv=*/false, admit_removal, routes);
  routes->back().admit = [&admission, &transfer = sources.transfer,
                          owner_of](const HttpExchange& exchange) -> Admitted {
    Caller owner;
    if (const auto error = CheckPut(exchange, owner_of, transfer, /*with_kv=*/false, &owner)) {
      return {nullptr, admission.Answer(*error, *exchange.caller())};
    }
    return admission.AdmitWork(exchange, transfer.HeldBytes(exchange.head()));
  };
}

void AddAdminSessionRoutes(const SessionRouteSources& sources, AdmissionControl& admission, TenantRegistry& tenants,
                           std::vector<HttpRoute>* routes) {
  const OwnerOf owner_of = [&tenants](const HttpExchange& exchange) -> ApiResult<Caller> {
    const std::shared_ptr<const TenantTable> table = tenants.table();
    const std::optional<std::string> name = QueryValue(exchange.head().query, "tenant");
    if (!name.has_value() && table->entries().size() == 1) return Caller(table->entries().front());
    for (const auto& entry : table->entries()) {
      if (name.has_value() && entry->config.name == *name) return Caller(entry);
    }
    // What tenants that have left the configuration left behind; nobody would go on from what is put beside it.
    for (const auto& entry : table->gone()) {
      if (name.has_value() && entry->config.name == *name && exchange.head().method != "PUT") return Caller(entry);
    }
    if (!name.has_value())
      return InvalidField("tenant", "'tenant' is required where there are several.", "missing_field");
    return InvalidField("tenant", "There is no tenant of this name.");
  };
  const size_t before = routes->size();
  AddRoutes(kAdminPath, sources, owner_of, /*with_kv=*/true, /*admit_removal=*/nullptr, routes);
  for (size_t i = before; i < routes->size(); ++i) {
    HttpRoute& route = (*routes)[i];
    route.audited = route.method != "GET";
    if (route.method != "GET" || PathNames(route.path).empty()) continue;
    // A state may be long. What is wrong with the tenant's name is said where the request is answered.
    route.admit = [&admission, owner_of](const HttpExchange& exchange) -> Admitted {
      const ApiResult<Caller> owner = owner_of(exchange);
      return owner.ok() ? admission.AdmitAnswerOf(owner.value()) : Admitted();
    };
  }
  routes->back().admit = [&admission, &transfer = sources.transfer,
                          owner_of](const HttpExchange& exchange) -> Admitted {
    Caller owner;
    if (const auto error = CheckPut(exchange, owner_of, transfer, /*with_kv=*/true, &owner)) {
      return {nullptr, ErrorResponse(*error)};
    }
    return admission.AdmitBody(owner, transfer.HeldBytes(exchange.head()));
  };
}

}  // namespace hydrant
