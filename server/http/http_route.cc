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
  found.preflight = head.method == "OPTIONS" && head.Find("origin") != nullptr && !found.allow.empty() &&
                    head.Find("access-control-request-method") != nullptr;
  return found;
}

ApiError NoRoute(const std::vector<HttpRoute>& routes, std::string_view path) {
  static constexpr std::string_view kBase = "/v1";
  ApiError error = RouteNotFound();
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  while (path.starts_with("//")) path.remove_prefix(1);
  while (path.starts_with("/v1/")) path.remove_prefix(kBase.size());
  for (const HttpRoute& route : routes) {
    const std::string_view known = route.path;
    if (known != path && !(known.starts_with(kBase) && known.substr(kBase.size()) == path)) continue;
    absl::StrAppend(&error.message, " Did you mean ", route.path, "?");
    break;
  }
  return error;
}

}  // namespace hydrant
