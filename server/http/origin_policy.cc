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

}  // namespace hydrant
