// One connection to a server, plain or TLS, and the bytes read from it that nobody took yet.
//
// Thread: the io_context's only one.
#ifndef HYDRANT_LOADGEN_CLIENT_CONNECTION_H_
#define HYDRANT_LOADGEN_CLIENT_CONNECTION_H_

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "loadgen/client/name_lookup.h"
#include "loadgen/client/url.h"

namespace hydrant {

// A server as connections need it: resolved once, so that no name server is part of a measurement.
struct Peer {
  Url url;
  Endpoints endpoints;
  std::optional<boost::asio::ssl::context> tls;
};
// `verify`: the certificate must be one this machine trusts, for that host. Errors: UNAVAILABLE, DEADLINE_EXCEEDED; one line.
absl::StatusOr<Peer> ResolvePeer(const Url& url, bool verify, double timeout_s,
                                 const NameLookup& lookup = SystemLookup);

class Connection {
 public:
  // `peer` outlives this.
  Connection(boost::asio::io_context& io, Peer* peer) : peer_(peer), socket_(io) {}

  boost::asio::awaitable<boost::system::error_code> Open();
  boost::asio::awaitable<boost::system::error_code> Write(std::string_view bytes);
  // Whether the peer cannot have read all of what was written last, once a read has failed. False: it may have.
  bool Unread();
  // Reads what there is, at least one byte, after what is unread.
  boost::asio::awaitable<boost::system::error_code> Read();
  // Bytes read and not taken; valid until Read.
  std::string_view unread() const { return {buffer_.data() + begin_, end_ - begin_}; }
  void Take(size_t bytes) { begin_ += bytes; }

  // Ends what is waited for, with an error. May be called more than once.
  void Close();

 private:
  boost::asio::ip::tcp::socket& socket() { return tls_ ? tls_->next_layer() : socket_; }

  Peer* const peer_;
  boost::asio::ip::tcp::socket socket_;
  std::unique_ptr<boost::asio::ssl::stream<boost::asio::ip::tcp::socket>> tls_;
  uint64_t acknowledged_ = 0;  // before what was written last
  std::vector<char> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_LOADGEN_CLIENT_CONNECTION_H_
