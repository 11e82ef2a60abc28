// HttpConnection reads requests off one socket and has them answered one after the other; HttpExchange is one request
// and its response as a handler sees it.
//
// Thread: the connection's strand (Waker's result aside: any).
//
// Invariants
//  1. A request gets exactly one response, or the connection ends.
//  2. A body is read only after the head has passed every check, the key first of all; nothing is allocated for bytes
//     that have not arrived.
//  3. A response that leaves bytes of its request unread ends the connection.
//  4. Every wait for the peer has a deadline.
//  5. An idle connection holds no buffer.
#ifndef HYDRANT_SERVER_HTTP_CONNECTION_H_
#define HYDRANT_SERVER_HTTP_CONNECTION_H_

#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "api/api_error.h"
#include "server/http_head.h"
#include "server/http_message.h"
#include "server/http_service.h"

namespace hydrant {

class HttpConnection;

// Of any stream: TCP or a Unix socket.
using HttpSocket = boost::asio::generic::stream_protocol::socket;

// The response that carries `error`.
HttpResponse ErrorResponse(const ApiError& error);

class HttpExchange {
 public:
  HttpExchange(HttpConnection& connection, HttpHead head);
  HttpExchange(const HttpExchange&) = delete;
  HttpExchange& operator=(const HttpExchange&) = delete;

  const HttpHead& head() const { return head_; }
  const std::string& body() const { return body_; }
  std::string TakeBody() { return std::move(body_); }
  // The client's X-Request-Id when it is usable, else one of our own.
  const std::string& request_id() const { return request_id_; }
  // Who asks; null on an open route, and for the operator.
  const Caller& caller() const { return caller_; }
  int64_t arrival_us() const { return arrival_us_; }  // monotonic; when the head was complete
  int status() const { return status_; }              // 0: no response yet

  // A whole response. REQUIRES: no response yet.
  boost::asio::awaitable<void> Respond(HttpResponse response);
  boost::asio::awaitable<void> RespondError(ApiError error);

  // A response in pieces: the head travels with the first piece. Each Write is one socket write when the reader keeps
  // up; it returns false, and so does every later one, when the client is gone or did not take the bytes within
  // stream_stall_s. REQUIRES: no response yet; EndStream last.
  void BeginStream(HttpResponse head);
  boost::asio::awaitable<bool> Write(std::string_view piece);
  boost::asio::awaitable<void> EndStream();

  // From here on notice a client that hangs up, also while nothing is written.
  void WatchClient();
  bool client_gone() const;
  // Returns once somebody has called the waker since the last return, or the client is gone.
  boost::asio::awaitable<void> WaitForWake();
  // A function for any thread, good for longer than the exchange.
  std::function<void()> Waker();

 private:
  friend class HttpConnection;

  HttpResponse WithCommonFields(HttpResponse response) const;

  HttpConnection& connection_;
  HttpHead head_;
  std::string body_;
  std::string request_id_;
  Caller caller_;
  int64_t arrival_us_ = 0;
  int status_ = 0;
  bool body_read_ = false;
  bool streaming_ = false;
  bool chunked_ = false;     // the stream's pieces travel as chunks
  std::string stream_head_;  // not sent yet
};

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(HttpSocket socket, HttpService& service);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  // Spawns Run on the socket's strand.
  static void Start(HttpSocket socket, HttpService& service);

 private:
  friend class HttpExchange;

  enum class ReadResult : uint8_t { kBytes, kClosed, kTimeout };

  boost::asio::awaitable<void> Run();
  // False: no further request comes, or it was refused (and answered).
  boost::asio::awaitable<bool> ReadHead(HttpHead* head);
  boost::asio::awaitable<void> Serve(HttpExchange& exchange);
  // What is wrong with the request, from its head alone; the route to take when nothing is. Finds out who asks.
  ApiError CheckHead(HttpExchange& exchange, const HttpRoute** route, HttpResponse* preflight) const;
  boost::asio::awaitable<bool> ReadBody(HttpExchange& exchange);
  boost::asio::awaitable<bool> Refuse(ApiError error);
  boost::asio::awaitable<void> Linger();

  boost::asio::awaitable<ReadResult> ReadSome();
  boost::asio::awaitable<bool> WriteAll(std::string_view data);
  void ArmDeadline(double seconds);
  void DisarmDeadline();
  void ArmWatch();
  void OnReadable();
  void LoseClient();
  void Wake();

  HttpSocket socket_;
  HttpService& service_;
  const std::string peer_;  // address as text
  std::string input_;       // received and not yet consumed
  bool keep_alive_ = true;
  bool first_request_ = true;
  bool client_gone_ = false;
  size_t linger_bytes_;  // discarded at most after the last response

  boost::asio::steady_timer deadline_;
  uint64_t deadline_number_ = 0;  // of the armed deadline; an older one that fires late means nothing
  bool timed_out_ = false;

  bool watching_ = false;       // an exchange wants to know when the client goes
  bool watch_pending_ = false;  // a wait for readability is under way
  boost::asio::steady_timer wake_timer_;
  bool woken_ = false;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_HTTP_CONNECTION_H_
