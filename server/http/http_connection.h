// HttpConnection reads requests off one socket and has them answered one after the other (http_exchange.h).
//
// Thread: the connection's strand.
//
// Invariants
//  1. A request gets exactly one response, or the connection ends.
//  2. A body is read only after the head has passed every check, the key first of all; nothing is allocated for bytes
//     that have not arrived.
//  3. A response that leaves bytes of its request unread ends the connection.
//  4. Every wait for the peer has a deadline.
//  5. An idle connection holds no buffer.
//  6. Nobody keeps an io thread: a peer that always has bytes to be read and room for answers, so that no wait for it ever
//     suspends, still lets the others go first after kTurnRequests requests or kTurnUs.
#ifndef HYDRANT_SERVER_HTTP_HTTP_CONNECTION_H_
#define HYDRANT_SERVER_HTTP_HTTP_CONNECTION_H_

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/wire/api_error.h"
#include "server/http/http_exchange.h"
#include "server/http/http_head.h"
#include "server/http/http_message.h"
#include "server/http/http_route.h"
#include "server/http/listener_context.h"
#include "server/http/peer_address.h"
#include "server/http/response_stream.h"

namespace hydrant {

class HttpConnection : public ResponseStream, public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(HttpSocket socket, ListenerContext& context, std::string peer,
                 std::unique_ptr<ConnectionTable::Place> place);
  ~HttpConnection() override;
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  // Spawns Run on the socket's strand. `peer` is the address as text, `place` the connection's in context.connections.
  static void Start(HttpSocket socket, ListenerContext& context, std::string peer,
                    std::unique_ptr<ConnectionTable::Place> place);

  boost::asio::awaitable<bool> WriteAll(std::string_view data) override;
  boost::asio::awaitable<BodyProgress> ReadBodyPiece(const HttpHead& head, std::string* piece) override;
  void CloseAfterResponse() override { keep_alive_ = false; }
  bool KeepsAlive() override;
  void WatchClient(HalfClosed means) override;
  bool client_gone() const override { return client_gone_; }
  boost::asio::awaitable<void> WaitForWake(int64_t until_us) override;
  std::function<void()> Waker() override;

 private:
  enum class ReadResult : uint8_t { kBytes, kClosed, kTimeout };

  boost::asio::awaitable<void> Run();
  // False: no further request comes, or it was refused (and answered).
  boost::asio::awaitable<bool> ReadHead(HttpHead* head);
  boost::asio::awaitable<void> Serve(HttpExchange& exchange, FoundRoute found);
  boost::asio::awaitable<void> ServeClient(HttpExchange& exchange);

  ApiError Crowded() const;
  // CheckHead says what is wrong with a request, from its head alone; it calls the other two. Authenticate sets the
  // caller.
  std::optional<ApiError> CheckHead(HttpExchange& exchange, const FoundRoute& found);
  std::optional<ApiError> Authenticate(HttpExchange& exchange, const HttpRoute* route);
  std::optional<ApiError> CheckOrigin(const HttpHead& head) const;
  // Whether the page that a browser asks for, if any, may use the server.
  bool AdmitsPage(const HttpHead& head) const;
  std::optional<ApiError> CheckBodyHead(const HttpHead& head, const HttpRoute& route) const;
  int64_t BodyBytesMax(const HttpRoute& route) const;

  // False: it did not come, or was refused (and answered). Not kept: its bytes are dropped as they come.
  boost::asio::awaitable<bool> ReadBody(HttpExchange& exchange, bool keep, int64_t bytes_max);
  boost::asio::awaitable<void> RefuseAtHead(HttpExchange& exchange, HttpResponse response);
  boost::asio::awaitable<bool> Refuse(ApiError error);
  boost::asio::awaitable<void> Linger();

  boost::asio::awaitable<ReadResult> ReadSome();
  // True when the connection has had its io thread for long enough. Whoever asks then awaits LetOthersGo.
  bool TurnIsOver() const;
  void BeginTurn();
  boost::asio::awaitable<void> LetOthersGo();
  void ArmDeadline(double seconds);
  void DisarmDeadline();
  void ArmWatch();
  void OnReadable();
  void LoseClient();
  void SetIdle(bool idle);
  void Wake();

  HttpSocket socket_;
  ListenerContext& context_;
  const std::string peer_;  // address as text
  std::string client_;      // that of who sends the request: peer_'s own, or of somebody behind it (TrustedProxies)
  const std::unique_ptr<ConnectionTable::Place> place_;
  std::string input_;  // received and not yet consumed
  bool keep_alive_ = true;
  bool first_request_ = true;
  bool idle_ = false;   // waits for a request of which nothing has come
  bool keyed_ = false;  // has shown a valid key, where one is asked for
  bool client_gone_ = false;
  size_t linger_bytes_;  // discarded at most after the last response

  // What came of the body that is read piece by piece.
  uint64_t body_received_ = 0;
  int64_t body_patience_us_ = 0;  // that may be waited for more of it

  // Since the connection last gave its io thread back.
  int64_t turn_began_us_ = 0;
  int32_t turn_requests_ = 0;

  boost::asio::steady_timer deadline_;
  uint64_t deadline_number_ = 0;  // of the armed deadline; an older one that fires late means nothing
  bool timed_out_ = false;

  bool watching_ = false;       // an exchange wants to know when the client goes
  bool watch_pending_ = false;  // a wait for readability is under way
  HalfClosed half_closed_means_ = HalfClosed::kLeft;
  int64_t leaves_us_ = kNever;  // when a client that has ended its side is taken to have left
  boost::asio::steady_timer wake_timer_;
  bool woken_ = false;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_HTTP_HTTP_CONNECTION_H_
