// TrustedProxies finds the address of a client that comes through proxies. What a request says of where it comes from is believed as
// far as trusted proxies wrote it, and no further: a client that is none cannot choose its address, whatever it sends.
//
// Thread: any (immutable).
#ifndef HYDRANT_SERVER_HTTP_TRUSTED_PROXIES_H_
#define HYDRANT_SERVER_HTTP_TRUSTED_PROXIES_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/http_head.h"

namespace hydrant {

class TrustedProxies {
 public:
  // Which field the proxies write. One of the two: the other is the client's own, for all that a proxy knows.
  enum class Field : uint8_t {
    kXForwardedFor,  // addresses, the nearest last
    kForwarded,      // RFC 7239: elements with for=
  };

  TrustedProxies() = default;  // trusts nobody
  // `list`: addresses and networks ("10.0.0.0/8", "2001:db8::/32"). nullopt, with the piece that is neither in *wrong.
  static std::optional<TrustedProxies> Parse(const std::vector<std::string>& list, Field field, std::string* wrong);

  // Whether `address`, text as inet_ntop writes it, is one of them.
  bool Trusts(std::string_view address) const;
  // The address that a request of `peer` comes from: the nearest that is no trusted proxy; where all of them are, the farthest. A
  // chain ends at what is no address: then it is the proxy's that wrote it. Of an untrusted peer, its own.
  std::string ClientOf(const std::string& peer, const HttpHead& head) const;

  bool empty() const { return networks_.empty(); }

 private:
  using Bits = std::array<uint8_t, 16>;  // of an IPv6 address, or of an IPv4 one mapped into it

  struct Network {
    Bits bits;
    int32_t length = 0;  // of the prefix, in bits
  };
  static std::optional<Bits> BitsOf(std::string_view address);
  static std::optional<Network> NetworkOf(std::string_view text);

  std::vector<Network> networks_;
  Field field_ = Field::kXForwardedFor;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_HTTP_TRUSTED_PROXIES_H_
