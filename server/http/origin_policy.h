// OriginPolicy keeps web pages away from a server that trusts its network: a page on some other site can make a browser
// send requests to 127.0.0.1 (Origin), or point its own name at it (DNS rebinding, Host).
//
// Thread: any (immutable).
//
// A Host is accepted when it is a loopback name, the bound address, in the allow-list, or, for a listener on all
// addresses, any IP literal (rebinding needs a name). An Origin is accepted when it is absent, has the same host and
// port as Host, or is in the allow-list. "*" in a list accepts everything.
#ifndef HYDRANT_SERVER_HTTP_ORIGIN_POLICY_H_
#define HYDRANT_SERVER_HTTP_ORIGIN_POLICY_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/http/http_message.h"

namespace hydrant {

class OriginPolicy {
 public:
  OriginPolicy() = default;
  OriginPolicy(std::string bound_host, std::vector<std::string> allowed_hosts,
               std::vector<std::string> allowed_origins);

  // The policy of another listener: the same names besides its own address, and no pages of other origins.
  OriginPolicy WithoutPages(std::string bound_host) const { return {std::move(bound_host), allowed_hosts_, {}}; }

  // `host` is the Host field, with or without a port. An empty one (HTTP/1.0) is accepted: no browser sends it.
  bool AdmitsHost(std::string_view host) const;
  // `origin` is not empty.
  bool AdmitsOrigin(std::string_view origin, std::string_view host) const;

  // "127.0.0.1", "::1" and "localhost", and anything in 127.0.0.0/8.
  static bool IsLoopback(std::string_view host);

 private:
  std::string bound_host_;
  std::vector<std::string> allowed_hosts_;
  std::vector<std::string> allowed_origins_;
};

// The answer to a preflight of a page that may ask; `allow`: the methods that there are. An SDK sends fields of its own making
// (x-stainless-os), and no list has the next one's. A page that may ask at all may send any: none means more here than from a
// client that is no page.
HttpResponse PreflightResponse(const HttpHead& head, const std::string& allow);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_HTTP_ORIGIN_POLICY_H_
