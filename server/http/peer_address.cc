#include "server/http/peer_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>

namespace hydrant {
namespace {

constexpr const char* kLocal = "local";

}  // namespace

std::string PeerAddress(const HttpSocket& socket) {
  boost::system::error_code error;
  const boost::asio::generic::stream_protocol::endpoint peer = socket.remote_endpoint(error);
  const sockaddr* address = peer.data();
  char text[INET6_ADDRSTRLEN];
  const char* written = nullptr;
  if (!error && address->sa_family == AF_INET) {
    written = inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof(text));
  } else if (!error && address->sa_family == AF_INET6) {
    written = inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text, sizeof(text));
  }
  return written == nullptr ? kLocal : written;
}

std::string PeerGroup(std::string_view address) {
  in6_addr bits{};
  if (inet_pton(AF_INET6, std::string(address).c_str(), &bits) != 1) return std::string(address);
  if (IN6_IS_ADDR_V4MAPPED(&bits)) return std::string(address);
  std::memset(bits.s6_addr + 8, 0, 8);
  char text[INET6_ADDRSTRLEN];
  return inet_ntop(AF_INET6, &bits, text, sizeof(text)) == nullptr ? std::string(address) : std::string(text) + "/64";
}

bool IsLocalPeer(std::string_view address) {
  return address == kLocal || address == "::1" || address.starts_with("127.") || address.starts_with("::ffff:127.");
}

}  // namespace hydrant
