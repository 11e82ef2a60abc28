#include "server/http/http_connection.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/process/ascii_text.h"
#include "server/process/clock.h"
#include "server/process/log.h"
#include "server/process/random_id.h"

namespace hydrant {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// One read. Larger ones would only help bodies of megabytes.
constexpr size_t kReadBytes = 16 << 10;
// A piece of a long response: its own deadline. The same number as stream_buffer_bytes_max, for the same reason.
constexpr size_t kWriteBytes = 256 << 10;
// An idle connection gives back input buffers above this.
constexpr size_t kIdleBufferBytes = 512;
// How long, and for how many bytes, a refused client may go on sending before the socket is closed under it. Closing at
// once would reset the connection and could destroy the answer on its way. Who sends a body looks for the answer when
// all of it is out; who sends an endless header never does.
constexpr double kLingerSeconds = 2;
constexpr size_t kLingerBytes = 16 << 20;
constexpr size_t kLingerHeaderBytes = 32 << 10;

constexpr std::string_view kKnownMethods[] = {"GET",     "HEAD",  "POST",  "PUT",    "DELETE",
                                              "OPTIONS", "PATCH", "TRACE", "CONNECT"};

bool Matches(const HttpRoute& route, std::string_view path) {
  return route.path.ends_with('/') && route.path.size() > 1
             ? path.starts_with(route.path) && path.size() > route.path.size()
             : path == route.path;
}

bool Accepts(const HttpRoute& route, std::string_view method) {
  return method == route.method || (method == "HEAD" && route.method == "GET");
}

HttpResponse PreflightResponse(const std::string& allow) {
  HttpResponse response;
  response.status = 204;
  response.content_type.clear();
  response.fields = {
      {"access-control-allow-methods", allow},
      {"access-control-allow-headers", "authorization, content-type, x-request-id, x-session-id, x-session-affinity"},
      {"access-control-max-age", "600"}};
  return response;
}

// "application/json; charset=utf-8" -> "application/json".
std::string MediaType(std::string_view value) { return LowerCase(Trim(value.substr(0, value.find(';')))); }

std::string PeerAddress(const HttpSocket& socket) {
  error_code error;
  const asio::generic::stream_protocol::endpoint peer = socket.remote_endpoint(error);
  const sockaddr* address = peer.data();
  char text[INET6_ADDRSTRLEN];
  const char* written = nullptr;
  if (!error && address->sa_family == AF_INET) {
    written = inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof(text));
  } else if (!error && address->sa_family == AF_INET6) {
    written = inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text, sizeof(text));
  }
  return written == nullptr ? "local" : written;
}

}  // namespace

HttpConnection::HttpConnection(HttpSocket socket, ListenerContext& context)
    : socket_(std::move(socket)),
      context_(context),
      peer_(PeerAddress(socket_)),
      linger_bytes_(kLingerBytes),
      deadline_(socket_.get_executor()),
      wake_timer_(socket_.get_executor()) {
  context_.connections.fetch_add(1, std::memory_order_relaxed);
}

HttpConnection::~HttpConnection() { context_.connections.fetch_sub(1, std::memory_order_relaxed); }

void HttpConnection::Start(HttpSocket socket, ListenerContext& context) {
  const auto connection = std::make_shared<HttpConnection>(std::move(socket), context);
  const auto executor = connection->socket_.get_executor();
  asio::co_spawn(
      executor, [connection]() -> asio::awaitable<void> { return connection->Run(); },
      [connection](const std::exception_ptr& error) {
        // Out of memory, or an operating system error nobody planned for: this connection ends, no other.
        if (error != nullptr) Log(LogLevel::kError, "a connection ended with an exception");
        error_code ignored;
        connection->socket_.close(ignored);
      });
}

asio::awaitable<void> HttpConnection::Run() {
  while (keep_alive_ && !client_gone_) {
    HttpHead head;
    const bool got = co_await ReadHead(&head);
    if (!got) break;
    keep_alive_ = head.keep_alive;
    HttpExchange exchange(*this, std::move(head));
    bool failed = false;
    bool out_of_memory = false;
    try {
      co_await Serve(exchange);
    } catch (const std::bad_alloc&) {
      failed = out_of_memory = true;
    } catch (const std::exception&) {
      failed = true;
    }
    watching_ = false;
    if (failed) {
      Log(LogLevel::kError, absl::StrCat("request ", exchange.request_id(), ": ",
                                         out_of_memory ? "out of memory" : "unexpected exception"));
      keep_alive_ = false;
      if (exchange.status() == 0) {
        ApiError error = out_of_memory ? Overloaded("The server is out of memory.", "out_of_memory", 1)
                                       : ServerError("The request could not be completed.", "internal_error");
        co_await exchange.RespondError(std::move(error));
      } else {
        client_gone_ = true;  // half a response: only the end of the connection can say so
      }
    }
    if (LogEnabled(LogLevel::kDebug)) {
      Log(LogLevel::kDebug, absl::StrCat("request ", exchange.request_id(), " status ", exchange.status(), " us ",
                                         MonotonicUs() - exchange.arrival_us()));
    }
    if (exchange.status() == 0) break;
    first_request_ = false;
  }
  co_await Linger();
  DisarmDeadline();
  error_code ignored;
  socket_.close(ignored);
}

asio::awaitable<bool> HttpConnection::ReadHead(HttpHead* head) {
  HttpHeadReader reader(context_.limits);
  bool started = !input_.empty();
  if (!started && input_.capacity() > kIdleBufferBytes) std::string().swap(input_);
  ArmDeadline(first_request_ || started ? context_.limits.header_timeout_s : context_.limits.keepalive_timeout_s);
  while (true) {
    if (!input_.empty()) {
      if (!started && !first_request_) ArmDeadline(context_.limits.header_timeout_s);
      started = true;
      const HttpProgress progress = reader.Read(input_);
      if (progress == HttpProgress::kRejected) {
        DisarmDeadline();
        co_await Refuse(reader.reject());
        co_return false;
      }
      if (progress == HttpProgress::kDone) break;
    }
    const ReadResult result = co_await ReadSome();
    if (result == ReadResult::kClosed) {
      client_gone_ = true;
      co_return false;
    }
    if (result == ReadResult::kTimeout) {
      DisarmDeadline();
      if (started) {
        co_await Refuse(RequestTimeout());
      } else {
        client_gone_ = true;  // nobody is waiting for an answer
      }
      co_return false;
    }
  }
  DisarmDeadline();
  input_.erase(0, reader.consumed());
  *head = std::move(reader.head());
  co_return true;
}

HttpConnection::Found HttpConnection::FindRoute(const HttpHead& head) const {
  Found found;
  for (const HttpRoute& candidate : context_.routes) {
    if (!Matches(candidate, head.path)) continue;
    if (!candidate.open) found.open = false;
    if (Accepts(candidate, head.method)) found.route = &candidate;
    absl::StrAppend(&found.allow, found.allow.empty() ? "" : ", ", candidate.method,
                    candidate.method == "GET" ? ", HEAD" : "");
  }
  found.preflight = head.method == "OPTIONS" && head.Find("origin") != nullptr && !found.allow.empty() &&
                    head.Find("access-control-request-method") != nullptr;
  return found;
}

std::optional<ApiError> HttpConnection::CheckHead(HttpExchange& exchange, const Found& found) const {
  const HttpHead& head = exchange.head();
  // A preflight carries no key by its nature.
  if (!found.open && !found.preflight) {
    if (std::optional<ApiError> error = Authenticate(exchange)) return error;
  }
  if (std::optional<ApiError> error = CheckOrigin(head)) return error;
  if (found.preflight) return std::nullopt;
  // Neither asks for a resource of ours, so the question of whether there is one does not arise.
  if (head.path == "*" || head.method == "CONNECT") return MethodNotAllowed("GET, HEAD, POST, DELETE");
  if (found.allow.empty()) return RouteNotFound();
  if (found.route == nullptr) return MethodNotAllowed(found.allow);
  if (head.Find("expect") != nullptr && !head.expects_continue) return ExpectationFailed();
  return found.route->method == "POST" ? CheckBodyHead(head, *found.route) : std::nullopt;
}

std::optional<ApiError> HttpConnection::Authenticate(HttpExchange& exchange) const {
  ApiResult<Caller> caller = context_.authenticate(exchange.head().Find("authorization"), peer_);
  if (!caller.ok()) return caller.error();
  exchange.SetCaller(std::move(caller.value()));
  return std::nullopt;
}

std::optional<ApiError> HttpConnection::CheckOrigin(const HttpHead& head) const {
  const std::string* host = head.Find("host");
  if (host != nullptr && !context_.origins.AdmitsHost(*host)) {
    return Forbidden("This Host is not served here. Start the server with --allowed-hosts to add it.",
                     "host_not_allowed");
  }
  const std::string* origin = head.Find("origin");
  if (origin != nullptr && !context_.origins.AdmitsOrigin(*origin, host == nullptr ? std::string_view() : *host)) {
    return Forbidden("This Origin may not use the server. Start it with --allowed-origins to add it.",
                     "origin_not_allowed");
  }
  return std::nullopt;
}

std::optional<ApiError> HttpConnection::CheckBodyHead(const HttpHead& head, const HttpRoute& route) const {
  // Before everything that not every POST needs: whatever is let through here has its body read into memory.
  if (head.framing == BodyFraming::kLength &&
      head.content_length > static_cast<uint64_t>(context_.limits.body_bytes_max)) {
    return PayloadTooLarge(static_cast<uint64_t>(context_.limits.body_bytes_max));
  }
  if (!route.body) return std::nullopt;
  if (head.framing == BodyFraming::kNone && head.Find("content-length") == nullptr) return LengthRequired();
  const std::string* encoding = head.Find("content-encoding");
  if (encoding != nullptr && !EqualsIgnoreCase(*encoding, "identity")) {
    return UnsupportedMediaType("Request bodies must not be compressed (Content-Encoding).");
  }
  const std::string* type = head.Find("content-type");
  if (type != nullptr && MediaType(*type) != "application/json") {
    return UnsupportedMediaType("The Content-Type of a request must be application/json.");
  }
  return std::nullopt;
}

asio::awaitable<void> HttpConnection::Serve(HttpExchange& exchange) {
  const HttpHead& head = exchange.head();
  if (std::find(std::begin(kKnownMethods), std::end(kKnownMethods), head.method) == std::end(kKnownMethods)) {
    // It may have any framing: its body counts as not read.
    co_await exchange.RespondError(NotImplemented("The method is not known here."));
    co_return;
  }
  exchange.SetBodyRead(head.framing == BodyFraming::kNone);
  const Found found = FindRoute(head);
  if (std::optional<ApiError> error = CheckHead(exchange, found)) {
    co_await exchange.RespondError(std::move(*error));
    co_return;
  }
  if (found.preflight) {
    HttpResponse response = PreflightResponse(found.allow);
    co_await exchange.Respond(std::move(response));
    co_return;
  }
  // A body that comes with a GET is not read; the response ends the connection.
  if (!exchange.body_read() && found.route->method == "POST") {
    const bool got = co_await ReadBody(exchange);
    if (!got) co_return;
  }
  co_await found.route->handle(exchange);
}

asio::awaitable<bool> HttpConnection::ReadBody(HttpExchange& exchange) {
  const HttpHead& head = exchange.head();
  ArmDeadline(context_.limits.body_timeout_s);
  if (head.expects_continue && head.version_minor >= 1 && input_.empty()) {
    const bool ok = co_await WriteAll("HTTP/1.1 100 Continue\r\n\r\n");
    if (!ok) co_return false;
    ArmDeadline(context_.limits.body_timeout_s);  // WriteAll has one of its own
  }
  ChunkedDecoder decoder(context_.limits);
  std::string& body = exchange.body_so_far();
  while (true) {
    HttpProgress progress = HttpProgress::kNeedMore;
    size_t used = 0;
    if (head.framing == BodyFraming::kChunked) {
      progress = decoder.Feed(input_, &used, &body);
      if (progress == HttpProgress::kRejected) {
        DisarmDeadline();
        co_await exchange.RespondError(decoder.reject());
        co_return false;
      }
    } else {
      used = std::min<uint64_t>(head.content_length - body.size(), input_.size());
      body.append(input_, 0, used);
      if (body.size() == head.content_length) progress = HttpProgress::kDone;
    }
    input_.erase(0, used);
    if (progress == HttpProgress::kDone) break;
    const ReadResult result = co_await ReadSome();
    if (result == ReadResult::kBytes) continue;
    DisarmDeadline();
    if (result == ReadResult::kClosed) {
      client_gone_ = true;
    } else {
      co_await exchange.RespondError(RequestTimeout());
    }
    co_return false;
  }
  DisarmDeadline();
  exchange.SetBodyRead(true);
  co_return true;
}

asio::awaitable<bool> HttpConnection::Refuse(ApiError error) {
  keep_alive_ = false;
  linger_bytes_ = kLingerHeaderBytes;
  HttpResponse response;
  response.status = error.status;
  response.body = ErrorJson(error);
  std::string out;
  AppendHead(response, 1, false, static_cast<int64_t>(response.body.size()), RandomId(), &out);
  out.append(response.body);
  const bool ok = co_await WriteAll(out);
  co_return ok;
}

asio::awaitable<void> HttpConnection::Linger() {
  if (client_gone_) co_return;
  error_code error;
  socket_.shutdown(HttpSocket::shutdown_send, error);
  if (error) co_return;
  ArmDeadline(kLingerSeconds);
  size_t discarded = input_.size();
  while (discarded < linger_bytes_) {
    input_.clear();
    const ReadResult result = co_await ReadSome();
    if (result != ReadResult::kBytes) break;
    discarded += input_.size();
  }
}

asio::awaitable<HttpConnection::ReadResult> HttpConnection::ReadSome() {
  while (true) {
    if (timed_out_) co_return ReadResult::kTimeout;
    {
      // Never alive across a wait, so that an idle connection holds none.
      std::array<char, kReadBytes> buffer;
      error_code error;
      const size_t got = socket_.read_some(asio::buffer(buffer), error);
      if (!error) {
        input_.append(buffer.data(), got);
        co_return ReadResult::kBytes;
      }
      if (error != asio::error::would_block && error != asio::error::try_again) co_return ReadResult::kClosed;
    }
    error_code error;
    co_await socket_.async_wait(HttpSocket::wait_read, asio::redirect_error(asio::use_awaitable, error));
    if (timed_out_) co_return ReadResult::kTimeout;
    if (error || client_gone_) co_return ReadResult::kClosed;
  }
}

asio::awaitable<bool> HttpConnection::WriteAll(std::string_view data) {
  while (!data.empty() && !client_gone_) {
    std::string_view piece = data.substr(0, kWriteBytes);
    data.remove_prefix(piece.size());
    bool armed = false;
    while (!piece.empty() && !client_gone_) {
      error_code error;
      const size_t sent = socket_.write_some(asio::buffer(piece.data(), piece.size()), error);
      piece.remove_prefix(sent);
      if (!error) continue;
      if (error != asio::error::would_block && error != asio::error::try_again) {
        client_gone_ = true;
        break;
      }
      if (!armed) {
        ArmDeadline(context_.limits.stream_stall_s);
        armed = true;
      }
      co_await socket_.async_wait(HttpSocket::wait_write, asio::redirect_error(asio::use_awaitable, error));
      if (error || timed_out_) client_gone_ = true;
    }
    if (armed) DisarmDeadline();
  }
  co_return !client_gone_;
}

void HttpConnection::ArmDeadline(double seconds) {
  timed_out_ = false;
  const uint64_t number = ++deadline_number_;
  deadline_.expires_after(std::chrono::microseconds(static_cast<int64_t>(seconds * 1e6)));
  deadline_.async_wait([weak = weak_from_this(), number](const error_code& error) {
    const std::shared_ptr<HttpConnection> self = weak.lock();
    if (error || self == nullptr || number != self->deadline_number_) return;
    self->timed_out_ = true;
    error_code ignored;
    self->socket_.cancel(ignored);
  });
}

void HttpConnection::DisarmDeadline() {
  ++deadline_number_;
  timed_out_ = false;
  deadline_.cancel();
}

void HttpConnection::ArmWatch() {
  if (watch_pending_ || client_gone_) return;
  watch_pending_ = true;
  socket_.async_wait(HttpSocket::wait_read, [self = shared_from_this()](const error_code& error) {
    self->watch_pending_ = false;
    if (!error && self->watching_) self->OnReadable();
  });
}

void HttpConnection::OnReadable() {
  while (true) {
    std::array<char, kReadBytes> buffer;
    error_code error;
    const size_t got = socket_.read_some(asio::buffer(buffer), error);
    if (error == asio::error::would_block || error == asio::error::try_again) break;
    if (error) return LoseClient();
    input_.append(buffer.data(), got);
    if (input_.size() > static_cast<size_t>(context_.limits.pipelined_bytes_max)) return LoseClient();
  }
  ArmWatch();
}

void HttpConnection::LoseClient() {
  client_gone_ = true;
  error_code ignored;
  socket_.cancel(ignored);  // a write that waits for room
  Wake();
}

bool HttpConnection::KeepsAlive() {
  if (context_.unready.load(std::memory_order_relaxed)) keep_alive_ = false;
  return keep_alive_;
}

void HttpConnection::WatchClient() {
  watching_ = true;
  ArmWatch();
}

asio::awaitable<void> HttpConnection::WaitForWake() {
  if (!woken_ && !client_gone_) {
    error_code ignored;
    wake_timer_.expires_at(asio::steady_timer::time_point::max());
    co_await wake_timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  woken_ = false;
}

std::function<void()> HttpConnection::Waker() {
  return [weak = weak_from_this(), executor = socket_.get_executor()] {
    asio::post(executor, [weak] {
      if (const std::shared_ptr<HttpConnection> connection = weak.lock()) connection->Wake();
    });
  };
}

void HttpConnection::Wake() {
  woken_ = true;
  wake_timer_.cancel();
}

}  // namespace hydrant
