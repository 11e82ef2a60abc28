#include "server/http/allow_list.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "server/process/ascii_text.h"

namespace hydrant {
namespace {

bool IsAddress(const std::string& text) {
  in6_addr address;
  return inet_pton(AF_INET, text.c_str(), &address) == 1 || inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

bool IsPort(std::string_view text) { return !text.empty() && std::all_of(text.begin(), text.end(), IsDigit); }

}  // namespace

bool IsAllowableHost(std::string_view text) {
  if (IsAddress(std::string(text))) return true;
  const bool bracketed = text.starts_with('[');
  const size_t name_end =
      bracketed ? std::min(text.find(']'), text.size() - 1) + 1 : std::min(text.find(':'), text.size());
  const std::string_view name = text.substr(0, name_end), rest = text.substr(name_end);
  if (!rest.empty() && !(rest.starts_with(':') && IsPort(rest.substr(1)))) return false;
  if (bracketed) return name.ends_with(']') && IsAddress(std::string(name.substr(1, name.size() - 2)));
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return IsLetter(c) || IsDigit(c) || c == '-' || c == '.' || c == '_';
  });
}

bool IsAllowableOrigin(std::string_view text) {
  const size_t scheme_end = text.find("://");
  if (scheme_end == std::string_view::npos) return text == "null";
  const std::string_view scheme = text.substr(0, scheme_end), host = text.substr(scheme_end + 3);
  const bool is_scheme =
      !scheme.empty() && IsLetter(scheme.front()) && std::all_of(scheme.begin(), scheme.end(), [](char c) {
        return IsLetter(c) || IsDigit(c) || c == '+' || c == '-' || c == '.';
      });
  return is_scheme && (IsAllowableHost(host) || (host.empty() && EqualsIgnoreCase(scheme, "file")));
}

}  // namespace hydrant
