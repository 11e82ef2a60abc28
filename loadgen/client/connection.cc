#include "loadgen/client/connection.h"

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "loadgen/client/acknowledged_bytes.h"

namespace hydrant {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// A read takes at most this much; ten thousand streams need 160 MB. Response headers have to fit.
constexpr size_t kBufferBytes = 16 << 10;

}  // namespace

absl::StatusOr<Peer> ResolvePeer(const Url& url, bool verify, double timeout_s, const NameLookup& lookup) {
  absl::StatusOr<Endpoints> found = LookupWithin(lookup, url.host, url.port, timeout_s);
  if (!found.ok()) {
    return absl::Status(found.status().code(),
                        absl::StrCat(url.ToString(), ": ", std::string(found.status().message())));
  }
  Peer peer;
  peer.url = url;
  peer.endpoints = *std::move(found);
  if (url.tls) {
    error_code error;
    peer.tls.emplace(asio::ssl::context::tls_client);
    if (verify) {
      peer.tls->set_default_verify_paths(error);
      peer.tls->set_verify_mode(asio::ssl::verify_peer);
    }
  }
  return peer;
}

asio::awaitable<error_code> Connection::Open() {
  buffer_.resize(kBufferBytes);
  error_code error;
  if (peer_->tls.has_value()) {
    tls_ = std::make_unique<asio::ssl::stream<tcp::socket>>(std::move(socket_), *peer_->tls);
  }
  co_await asio::async_connect(socket(), peer_->endpoints, asio::redirect_error(asio::use_awaitable, error));
  if (error) co_return error;
  error_code ignored;
  socket().set_option(tcp::no_delay(true), ignored);
  if (tls_ != nullptr) {
    SSL_set_tlsext_host_name(tls_->native_handle(), peer_->url.host.c_str());
    tls_->set_verify_callback(asio::ssl::host_name_verification(peer_->url.host), ignored);
    co_await tls_->async_handshake(asio::ssl::stream_base::client, asio::redirect_error(asio::use_awaitable, error));
  }
  co_return error;
}

asio::awaitable<error_code> Connection::Write(std::string_view bytes) {
  error_code error;
  acknowledged_ = AcknowledgedBytes(socket().native_handle());
  const asio::const_buffer buffer(bytes.data(), bytes.size());
  if (tls_ != nullptr) {
    co_await asio::async_write(*tls_, buffer, asio::redirect_error(asio::use_awaitable, error));
  } else {
    co_await asio::async_write(socket_, buffer, asio::redirect_error(asio::use_awaitable, error));
  }
  co_return error;
}

asio::awaitable<error_code> Connection::Read() {
  // What is unread moves to the front: between two reads that is an unfinished chunk header, a few bytes.
  if (begin_ > 0) std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  if (end_ == buffer_.size()) co_return asio::error::no_buffer_space;
  error_code error;
  const asio::mutable_buffer buffer(buffer_.data() + end_, buffer_.size() - end_);
  if (tls_ != nullptr) {
    end_ += co_await tls_->async_read_some(buffer, asio::redirect_error(asio::use_awaitable, error));
  } else {
    end_ += co_await socket_.async_read_some(buffer, asio::redirect_error(asio::use_awaitable, error));
  }
  co_return error;
}

bool Connection::Unread() {
  // How the connection ended says nothing: a process that is killed with a request in its hands resets it, too.
  return AcknowledgedBytes(socket().native_handle()) == acknowledged_;
}

void Connection::Close() {
  error_code ignored;
  socket().close(ignored);
}

}  // namespace hydrant
