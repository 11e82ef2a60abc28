#include "server/http/http_listener.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/wire/error_kinds.h"
#include "server/http/http_connection.h"
#include "server/process/clock.h"

namespace hydrant {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// The kernel caps it with net.core.somaxconn.
constexpr int kBacklog = 4096;
// After a failure to accept; 20 tries a second cost nothing.
constexpr auto kBackOff = std::chrono::milliseconds(50);
// Between two lines that say that it fails.
constexpr int64_t kComplainAfterUs = 10'000'000;

// What a connection over the cap is told. Sent without waiting: it fits an empty socket buffer.
constexpr std::string_view kFull =
    "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\nconnection: close\r\n"
    "content-length: 129\r\n\r\n"
    R"({"error":{"message":"The server has too many connections.","type":"overloaded_error","param":null,"code":"connections_exceeded"}})";
static_assert(kFull.size() - kFull.find('{') == 129);
static_assert(error_kinds::Find(503, "connections_exceeded")->type == ErrorType::kOverloaded);

void Configure(HttpSocket& socket, const Limits& limits) {
  error_code ignored;  // a socket that refuses an option (a Unix socket knows none of TCP's) still works
  socket.non_blocking(true, ignored);
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::send_buffer_size(limits.send_buffer_bytes), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  const int fd = socket.native_handle();
  const auto set = [fd](int option, int value) { (void)setsockopt(fd, IPPROTO_TCP, option, &value, sizeof(value)); };
  set(TCP_KEEPIDLE, limits.tcp_keepalive_idle_s);
  set(TCP_KEEPINTVL, limits.tcp_keepalive_interval_s);
  set(TCP_KEEPCNT, limits.tcp_keepalive_probes);
  set(TCP_USER_TIMEOUT, limits.tcp_user_timeout_ms);
}

}  // namespace

HttpListener::HttpListener(asio::io_context& io, ListenerContext& context)
    : io_(io), context_(context), acceptor_(asio::make_strand(io)) {}

HttpListener::~HttpListener() {
  if (!unix_path_.empty()) ::unlink(unix_path_.c_str());
  if (reserve_fd_ >= 0) ::close(reserve_fd_);
}

absl::Status HttpListener::Open(const std::string& host, uint16_t port) {
  error_code error;
  tcp::endpoint endpoint;
  const asio::ip::address address = asio::ip::make_address(host, error);
  if (!error) {
    endpoint = tcp::endpoint(address, port);
  } else {
    tcp::resolver resolver(io_);
    const auto results = resolver.resolve(host, "", tcp::resolver::passive, error);
    if (error || results.empty()) return absl::InvalidArgumentError(absl::StrCat("--host ", host, ": no such address"));
    endpoint = tcp::endpoint(results.begin()->endpoint().address(), port);
  }
  if (absl::Status status = Listen(endpoint, absl::StrCat(host, ":", port)); !status.ok()) return status;
  sockaddr_storage bound{};
  socklen_t bytes = sizeof(bound);
  if (getsockname(acceptor_.native_handle(), reinterpret_cast<sockaddr*>(&bound), &bytes) == 0) {
    port_ = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                              : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
  }
  return absl::OkStatus();
}

absl::Status HttpListener::Adopt(const InheritedSocket& socket) {
  const bool v6 = socket.host.find(':') != std::string::npos;
  error_code error;
  acceptor_.assign(asio::generic::stream_protocol(v6 ? AF_INET6 : AF_INET, IPPROTO_TCP), socket.fd, error);
  if (error) return absl::UnavailableError(absl::StrCat("the inherited socket: ", error.message()));
  port_ = socket.port;
  ReserveDescriptor();
  return absl::OkStatus();
}

InheritedSocket HttpListener::Share() {
  InheritedSocket socket;
  socket.fd = ::fcntl(acceptor_.native_handle(), F_DUPFD_CLOEXEC, 0);
  error_code ignored;
  const asio::generic::stream_protocol::endpoint bound = acceptor_.local_endpoint(ignored);
  socket.host = bound.protocol().family() == AF_INET6 ? "::" : "0.0.0.0";
  socket.port = port_;
  socket.outlives = false;
  return socket;
}

absl::Status HttpListener::OpenUnix(const std::string& path) {
  if (path.size() >= sizeof(sockaddr_un::sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": too long for a Unix socket"));
  }
  const asio::local::stream_protocol::endpoint endpoint(path);
  struct stat info {};
  if (lstat(path.c_str(), &info) == 0) {
    error_code refused;
    asio::local::stream_protocol::socket probe(io_);
    if (S_ISSOCK(info.st_mode)) probe.connect(endpoint, refused);
    if (refused != asio::error::connection_refused) return absl::UnavailableError(absl::StrCat(path, ": is in use"));
    ::unlink(path.c_str());  // left behind by a process that was killed
  }
  // Created closed to others: a chmod afterwards would leave a moment. Nothing else creates files meanwhile.
  const mode_t before = umask(0177);
  const absl::Status status = Listen(endpoint, path);
  umask(before);
  if (status.ok()) unix_path_ = path;
  return status;
}

absl::Status HttpListener::Listen(const asio::generic::stream_protocol::endpoint& endpoint, const std::string& name) {
  error_code error;
  acceptor_.open(endpoint.protocol(), error);
  if (!error && endpoint.protocol().family() != AF_UNIX) {
    acceptor_.set_option(asio::socket_base::reuse_address(true), error);
  }
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(kBacklog, error);
  if (error) return absl::UnavailableError(absl::StrCat(name, ": ", error.message()));
  ReserveDescriptor();
  return absl::OkStatus();
}

void HttpListener::ReserveDescriptor() { reserve_fd_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC); }

void HttpListener::Start() { asio::co_spawn(acceptor_.get_executor(), AcceptLoop(), asio::detached); }

void HttpListener::Stop() {
  asio::post(acceptor_.get_executor(), [this] {
    error_code ignored;
    acceptor_.close(ignored);
  });
}

HttpSocket HttpListener::AcceptWithReserve() {
  if (reserve_fd_ >= 0) ::close(std::exchange(reserve_fd_, -1));
  error_code error;
  acceptor_.non_blocking(true, error);
  HttpSocket socket(asio::make_strand(io_));
  acceptor_.accept(socket, error);
  ReserveDescriptor();
  if (reserve_fd_ < 0) {
    socket.close(error);
    ReserveDescriptor();
  }
  return socket;
}

void HttpListener::Complain(Complaint& complaint, LogLevel level, std::string_view line) noexcept {
  if (!LogEnabled(level)) return;
  ++complaint.unsaid;
  const int64_t now_us = MonotonicUs();
  if (now_us < complaint.due_us) return;
  const LogField times{"times", complaint.unsaid};
  Log(level, line, {&times, 1});
  complaint = {.due_us = now_us + kComplainAfterUs};
}

asio::awaitable<void> HttpListener::AcceptLoop() {
  asio::steady_timer pause(acceptor_.get_executor());
  bool back_off = false;
  while (acceptor_.is_open()) {
    try {
      error_code error;
      if (std::exchange(back_off, false)) {
        pause.expires_after(kBackOff);
        co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
      }
      if (reserve_fd_ < 0) ReserveDescriptor();  // another thread may have been quicker before
      // A strand of its own for each connection.
      HttpSocket socket =
          co_await acceptor_.async_accept(asio::make_strand(io_), asio::redirect_error(asio::use_awaitable, error));
      if (error == asio::error::operation_aborted || error == asio::error::bad_descriptor) break;
      if (error == asio::error::connection_aborted) continue;
      if (error) {
        if (error == asio::error::no_descriptors || error.value() == ENFILE) socket = AcceptWithReserve();
        if (!socket.is_open()) {
          Complain(refused_, LogLevel::kWarning, absl::StrCat("accept: ", error.message()));
          back_off = true;
          continue;
        }
      }
      Configure(socket, context_.limits);
      std::string peer = PeerAddress(socket);
      const bool proxy = context_.proxies.Trusts(peer);
      std::unique_ptr<ConnectionTable::Place> place = context_.connections.TryAdd(peer, context_.limits, proxy);
      if (place == nullptr) {
        Complain(crowded_, LogLevel::kWarning,
                 "too many connections (--max-connections, --max-connections-per-address)");
        place = context_.connections.TryAddSpare(peer, context_.limits, proxy);
      }
      if (place == nullptr) {
        if (context_.on_crowded) context_.on_crowded();
        socket.write_some(asio::buffer(kFull.data(), kFull.size()), error);
        socket.shutdown(HttpSocket::shutdown_both, error);
        continue;
      }
      HttpConnection::Start(std::move(socket), context_, std::move(peer), std::move(place));
    } catch (const std::exception&) {
      // Out of memory, most likely. It costs this connection, never the loop.
      Complain(not_started_, LogLevel::kError, "a connection could not be started");
      back_off = true;
    }
  }
}

}  // namespace hydrant
