#include "loadgen/client/url.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace hydrant {
namespace {

constexpr std::string_view kHttp = "http://";
constexpr std::string_view kHttps = "https://";

bool ParsePort(std::string_view text, uint16_t* port) {
  uint32_t value = 0;
  if (!absl::SimpleAtoi(std::string(text), &value) || value == 0 || value > 65535) return false;
  *port = static_cast<uint16_t>(value);
  return true;
}

}  // namespace

std::string Url::Authority() const {
  const bool v6 = host.find(':') != std::string::npos;
  return absl::StrCat(v6 ? "[" : "", host, v6 ? "]" : "", ":", port);
}

std::string Url::ToString() const { return absl::StrCat(tls ? "https://" : "http://", Authority(), path); }

std::optional<Url> ParseUrl(std::string_view text) {
  Url url;
  url.tls = text.substr(0, kHttps.size()) == kHttps;
  if (!url.tls && text.substr(0, kHttp.size()) != kHttp) return std::nullopt;
  text.remove_prefix(url.tls ? kHttps.size() : kHttp.size());
  url.port = url.tls ? 443 : 80;
  for (const char c : text) {
    if (c <= ' ' || c == 0x7f || c == '@' || c == '?' || c == '#') return std::nullopt;
  }
  const size_t slash = text.find('/');
  std::string_view authority = text.substr(0, slash);
  if (slash != std::string_view::npos) url.path = std::string(text.substr(slash));
  while (!url.path.empty() && url.path.back() == '/') url.path.pop_back();
  size_t host_end = authority.rfind(':');
  if (!authority.empty() && authority.front() == '[') {
    const size_t bracket = authority.find(']');
    if (bracket == std::string_view::npos) return std::nullopt;
    url.host = std::string(authority.substr(1, bracket - 1));
    host_end = bracket + 1;
    if (host_end < authority.size() && authority[host_end] != ':') return std::nullopt;
  } else {
    url.host = std::string(authority.substr(0, host_end));
    if (url.host.find(':') != std::string::npos) return std::nullopt;
  }
  if (host_end < authority.size() && !ParsePort(authority.substr(host_end + 1), &url.port)) return std::nullopt;
  if (url.host.empty()) return std::nullopt;
  return url;
}

}  // namespace hydrant
