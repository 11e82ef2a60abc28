// The address of a socket's peer, as text.
//
// Thread: any (pure).
#ifndef HYDRANT_SERVER_HTTP_PEER_ADDRESS_H_
#define HYDRANT_SERVER_HTTP_PEER_ADDRESS_H_

#include <boost/asio/generic/stream_protocol.hpp>
#include <string>
#include <string_view>

namespace hydrant {

// A socket of any stream protocol: TCP or Unix.
using HttpSocket = boost::asio::generic::stream_protocol::socket;

// As inet_ntop writes it, without the port; "local" for a Unix socket.
std::string PeerAddress(const HttpSocket& socket);

// What is counted together for a peer: an IPv4 address, or the /64 that an IPv6 host has to itself. `address` is text as
// inet_ntop writes it; anything else (a Unix socket's peer) stands for itself.
std::string PeerGroup(std::string_view address);

// Whether the peer is on this machine: a local client, or a proxy that many clients come through.
bool IsLocalPeer(std::string_view address);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_HTTP_PEER_ADDRESS_H_
