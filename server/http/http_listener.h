// HttpListener accepts connections until its io_context stops, whatever the operating system throws at it: a peer that is gone
// already, no file descriptors left, too many connections. It never spins and never stops by itself.
//
// Thread: Open and Start on any one thread, accepting on an io thread.
#ifndef HYDRANT_SERVER_HTTP_HTTP_LISTENER_H_
#define HYDRANT_SERVER_HTTP_HTTP_LISTENER_H_

#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/http/listener_context.h"
#include "server/http/peer_address.h"
#include "server/process/log.h"
#include "server/process/systemd_notifier.h"

namespace hydrant {

class HttpListener {
 public:
  // `context` outlives the listener and every connection.
  HttpListener(boost::asio::io_context& io, ListenerContext& context);
  ~HttpListener();
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

  // Binds and listens; port 0 picks one. `host` is an IP literal or a name. UNAVAILABLE: in use; INVALID_ARGUMENT: no
  // such address. Nothing is accepted before Start.
  absl::Status Open(const std::string& host, uint16_t port);
  // The same with a socket that listens already, which is the listener's from now on.
  absl::Status Adopt(const InheritedSocket& socket);
  // The same on a Unix socket that only this user may connect to. A socket nobody listens on any more is replaced;
  // UNAVAILABLE: somebody does, or the path is something else. Removed by the destructor.
  absl::Status OpenUnix(const std::string& path);
  // Another descriptor of its socket, which is the caller's, for a listener that goes on with it. REQUIRES: Open went well.
  InheritedSocket Share();
  void Start();
  // Accepts no more. Whoever else holds an adopted socket keeps it, and its backlog, alive. Any thread, any number of times.
  void Stop();

  uint16_t port() const { return port_; }

 private:
  absl::Status Listen(const boost::asio::generic::stream_protocol::endpoint& endpoint, const std::string& name);
  boost::asio::awaitable<void> AcceptLoop();
  void ReserveDescriptor();
  // Takes a connection that waits. Closed where it took the last descriptor; open where others came free since accepting
  // failed (the kernel fails for want of a descriptor whether somebody waits or not).
  HttpSocket AcceptWithReserve();
  // Logs a failure and how often it came: the first at once, those of the next ten seconds with the first one after them.
  struct Complaint {
    int64_t due_us = 0;
    int64_t unsaid = 0;
  };
  static void Complain(Complaint& complaint, LogLevel level, std::string_view line) noexcept;

  boost::asio::io_context& io_;
  ListenerContext& context_;
  boost::asio::basic_socket_acceptor<boost::asio::generic::stream_protocol> acceptor_;
  std::string unix_path_;  // empty: TCP
  uint16_t port_ = 0;
  // Given up for a moment when descriptors run out, so that a waiting connection can be accepted and closed instead of
  // staying in the backlog, where it would wake the loop for ever.
  int reserve_fd_ = -1;
  Complaint refused_, not_started_, crowded_;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_HTTP_HTTP_LISTENER_H_
