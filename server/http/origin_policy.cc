#include "server/http/origin_policy.h"

#include <arpa/inet.h>

#include <algorithm>
#include <utility>

#include "server/process/ascii_text.h"

namespace hydrant {
namespace {

// "Host:8000" -> "host", "[::1]:8000" -> "::1". What is neither stays as it is, and is no address.
std::string HostName(std::string_view host) {
  if (host.starts_with('[')) {
    const size_t close = host.find(']');
    if (close == std::string_view::npos) return LowerCase(host.substr(1));
    const std::string_view rest = host.substr(close + 1);
    const bool is_port = rest.starts_with(':') && std::all_of(rest.begin() + 1, rest.end(), IsDigit);
    return LowerCase(rest.empty() || is_port ? host.substr(1, close - 1) : host);
  }
  if (std::count(host.begin(), host.end(), ':') == 1) host = host.substr(0, host.find(':'));
  return LowerCase(host);
}

bool IsIpLiteral(const std::string& name) {
  in6_addr address;
  return inet_pton(AF_INET, name.c_str(), &address) == 1 || inet_pton(AF_INET6, name.c_str(), &address) == 1;
}

bool Contains(const std::vector<std::string>& list, std::string_view item) {
  return std::any_of(list.begin(), list.end(),
                     [&](const std::string& entry) { return entry == "*" || EqualsIgnoreCase(entry, item); });
}

// What a page may send when its preflight does not say what it will.
constexpr std::string_view kUsualFields =
    "authorization, content-type, x-api-key, anthropic-version, anthropic-beta, x-request-id, x-session-id, "
    "x-session-affinity";

// Whether a value is a list of field names (RFC 9110, 5.6.2), so that repeating it says nothing else.
bool IsNameList(std::string_view value) {
  return std::all_of(value.begin(), value.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("!#$%&'*+-.^_`|~, ").find(c) != std::string_view::npos;
  });
}

}  // namespace

OriginPolicy::OriginPolicy(std::string bound_host, std::vector<std::string> allowed_hosts,
                           std::vector<std::string> allowed_origins)
    : bound_host_(HostName(bound_host)),
      allowed_hosts_(std::move(allowed_hosts)),
      allowed_origins_(std::move(allowed_origins)) {}

bool OriginPolicy::IsLoopback(std::string_view host) {
  const std::string name = HostName(host);
  if (name == "localhost" || name == "::1") return true;
  in_addr address;
  return inet_pton(AF_INET, name.c_str(), &address) == 1 && (ntohl(address.s_addr) >> 24) == 127;
}

bool OriginPolicy::AdmitsHost(std::string_view host) const {
  if (host.empty()) return true;
  const std::string name = HostName(host);
  if (IsLoopback(name) || name == bound_host_) return true;
  if ((bound_host_ == "0.0.0.0" || bound_host_ == "::") && IsIpLiteral(name)) return true;
  return Contains(allowed_hosts_, name) || Contains(allowed_hosts_, host);
}

bool OriginPolicy::AdmitsOrigin(std::string_view origin, std::string_view host) const {
  if (Contains(allowed_origins_, origin)) return true;
  const size_t scheme_end = origin.find("://");
  if (scheme_end == std::string_view::npos) return false;  // "null": a sandboxed page or a local file
  return EqualsIgnoreCase(origin.substr(scheme_end + 3), host);
}

HttpResponse PreflightResponse(const HttpHead& head, const std::string& allow) {
  const std::string* asked = head.Find("access-control-request-headers");
  HttpResponse response;
  response.status = 204;
  response.content_type.clear();
  response.fields = {
      {"access-control-allow-methods", allow},
      {"access-control-allow-headers", asked != nullptr && IsNameList(*asked) ? *asked : std::string(kUsualFields)},
      {"access-control-max-age", "600"}};
  return response;
}

}  // namespace hydrant
