// http://HOST[:PORT][/PATH] and https://…, taken apart.
//
// Thread: any (pure functions).
#ifndef HYDRANT_LOADGEN_CLIENT_URL_H_
#define HYDRANT_LOADGEN_CLIENT_URL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hydrant {

struct Url {
  bool tls = false;
  std::string host;  // an IPv6 address without its brackets
  uint16_t port = 80;
  std::string path;  // "" or "/…", never ending in a slash

  // host:port, as it goes into a Host header.
  std::string Authority() const;
  std::string ToString() const;
};

// nullopt: another scheme, no host, a port that is none, a user or a query.
std::optional<Url> ParseUrl(std::string_view text);

}  // namespace hydrant

#endif  // HYDRANT_LOADGEN_CLIENT_URL_H_
