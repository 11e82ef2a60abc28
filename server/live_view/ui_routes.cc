#include "server/live_view/ui_routes.h"

#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/http/http_exchange.h"
#include "server/process/sha256.h"

namespace hydrant {
namespace {

namespace asio = boost::asio;

// Half of the content's SHA-256, quoted.
std::string ETagOf(std::string_view content) {
  const Sha256Digest digest = Sha256(content);
  const std::string_view half(reinterpret_cast<const char*>(digest.data()), digest.size() / 2);
  return absl::StrCat("\"", absl::BytesToHexString({half.data(), half.size()}), "\"");
}

// Whether a field If-None-Match names `etag`, alone, in a list or as *.
bool Names(const std::string& field, const std::string& etag) {
  return field == "*" || field.find(etag) != std::string::npos;
}

HttpRoute RouteOf(const UiAsset& asset) {
  std::string path = asset.path.empty() ? "/ui" : absl::StrCat("/ui/", std::string(asset.path));
  return {"GET", std::move(path), /*open=*/true,
          [asset, etag = ETagOf(asset.content)](HttpExchange& exchange) -> asio::awaitable<void> {
            HttpResponse response;
            response.content_type = asset.content_type;
            response.fields = {{"etag", etag},
                               {"cache-control", "no-cache"},
                               {"content-security-policy", kUiSecurityPolicy},
                               {"cross-origin-opener-policy", "same-origin"},
                               {"referrer-policy", "no-referrer"},
                               {"x-content-type-options", "nosniff"}};
            const std::string* known = exchange.head().Find("if-none-match");
            if (known != nullptr && Names(*known, etag)) {
              response.status = 304;
              response.content_type.clear();
            } else {
              response.body = asset.content;
            }
            co_await exchange.Respond(std::move(response));
          }};
}

}  // namespace

void AddUiRoutes(std::vector<HttpRoute>* routes) {
  // The addresses that people type.
  for (const char* path : {"/", "/ui/"}) {
    routes->push_back({"GET", path, /*open=*/true, [](HttpExchange& exchange) -> asio::awaitable<void> {
                         HttpResponse response;
                         response.status = 302;
                         response.content_type.clear();
                         response.fields = {{"location", "/ui"}};
                         co_await exchange.Respond(std::move(response));
                       }});
  }
  for (const UiAsset& asset : UiAssets()) routes->push_back(RouteOf(asset));
}

}  // namespace hydrant
