#include "server/http/http_route.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/process/ascii_text.h"

namespace hydrant {
namespace {

constexpr std::string_view kRest = "...";

// A route's path that begins with a name in braces loses it.
std::string_view TakeName(std::string_view* route) {
  const size_t end = route->find('}');
  const std::string_view name = route->substr(1, end - 1);
  route->remove_prefix(end + 1);
  return name;
}

std::string_view TextBeforeName(std::string_view route) { return route.substr(0, route.find('{')); }

// "/v1/models" is "/models", and so is what a client asks for whose base address has no /v1, or a second one, or a slash too
// many.
std::string_view BarePath(std::string_view path) {
  constexpr std::string_view kBase = "/v1";
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  while (path.starts_with("//")) path.remove_prefix(1);
  while (path.starts_with("/v1/")) path.remove_prefix(kBase.size());
  return path;
}

// Anthropic's clients always say which version of its API they speak.
Dialect DialectOfClient(const HttpHead& head) {
  return head.Find("anthropic-version") == nullptr ? Dialect::kOpenAi : Dialect::kAnthropic;
}

bool Accepts(const HttpRoute& route, std::string_view method) {
  return method == route.method || (method == "HEAD" && route.method == "GET");
}

}  // namespace

std::optional<std::vector<std::string>> MatchPath(std::string_view route, std::string_view path) {
  std::vector<std::string> values;
  while (true) {
    const std::string_view text = TextBeforeName(route);
    if (!path.starts_with(text)) return std::nullopt;
    route.remove_prefix(text.size());
    path.remove_prefix(text.size());
    if (route.empty()) break;
    const size_t end = TakeName(&route).ends_with(kRest) ? path.size() : std::min(path.find('/'), path.size());
    if (end == 0) return std::nullopt;
    values.push_back(PercentDecode(path.substr(0, end)));
    path.remove_prefix(end);
  }
  if (!path.empty()) return std::nullopt;
  return values;
}

std::vector<std::string> PathNames(std::string_view route) {
  std::vector<std::string> names;
  while (true) {
    route.remove_prefix(TextBeforeName(route).size());
    if (route.empty()) return names;
    std::string_view name = TakeName(&route);
    if (name.ends_with(kRest)) name.remove_suffix(kRest.size());
    names.emplace_back(name);
  }
}

FoundRoute FindRoute(const std::vector<HttpRoute>& routes, const HttpHead& head) {
  FoundRoute found;
  size_t longest = 0;  // text before a name, of what was found
  for (const HttpRoute& candidate : routes) {
    const size_t text = candidate.path.find('{');  // npos, the largest, where it has no name
    if (text < longest) continue;
    std::optional<std::vector<std::string>> values = MatchPath(candidate.path, head.path);
    if (!values.has_value()) continue;
    if (text > longest) found = {};
    longest = text;
    if (!candidate.open) found.open = false;
    if (Accepts(candidate, head.method)) {
      found.route = &candidate;
      found.path_values = *std::move(values);
    }
    absl::StrAppend(&found.allow, found.allow.empty() ? "" : ", ", candidate.method,
                    candidate.method == "GET" ? ", HEAD" : "");
  }
  const bool says = found.route != nullptr && found.route->dialect.has_value();
  found.dialect = says ? *found.route->dialect : DialectOf(routes, head.path, DialectOfClient(head));
  found.preflight = head.method == "OPTIONS" && head.Find("origin") != nullptr && !found.allow.empty() &&
                    head.Find("access-control-request-method") != nullptr;
  return found;
}

Dialect DialectOf(const std::vector<HttpRoute>& routes, std::string_view path, Dialect of_client) {
  path = BarePath(path);
  const HttpRoute* nearest = nullptr;
  size_t longest = 0;
  for (const HttpRoute& route : routes) {
    const std::string_view above = BarePath(TextBeforeName(route.path));
    const bool is_above = path.starts_with(above) && (path.size() == above.size() || path[above.size()] == '/');
    if (!is_above || above.size() <= longest) continue;
    nearest = &route;
    longest = above.size();
  }
  return nearest == nullptr ? of_client : nearest->dialect.value_or(of_client);
}

ApiError NoRoute(const std::vector<HttpRoute>& routes, std::string_view path) {
  ApiError error = RouteNotFound();
  for (const HttpRoute& route : routes) {
    if (BarePath(route.path) != BarePath(path)) continue;
    absl::StrAppend(&error.message, " Did you mean ", route.path, "?");
    break;
  }
  return error;
}

}  // namespace hydrant
