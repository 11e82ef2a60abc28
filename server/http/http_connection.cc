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
// A turn: what a connection may do in one go while others wait for the io thread. A request of one of the small endpoints takes
// some 30 us, 16 KiB of a body 5 us.
constexpr int32_t kTurnRequests = 8;
constexpr int64_t kTurnUs = 1000;
// A piece of a long response: its own deadline. The same number as stream_buffer_bytes_max, for the same reason.
constexpr size_t kWriteBytes = 256 << 10;
// Body bytes of a request that was refused by its head: read over rather than answered with the end of the connection.
constexpr int64_t kReadOverBytes = 64 << 10;
// An idle connection gives back input buffers above this.
constexpr size_t kIdleBufferBytes = 512;
// A spare place is not kept from others for longer.
constexpr double kSpareHeaderSeconds = 2;
// How long, and for how many bytes, a refused client may go on sending before the socket is closed under it. Closing at
// once would reset the connection and could destroy the answer on its way. Who sends a body looks for the answer when
// all of it is out; who sends an endless header never does.
constexpr double kLingerSeconds = 2;
constexpr size_t kLingerBytes = 16 << 20;
constexpr size_t kLingerHeaderBytes = 32 << 10;

constexpr std::string_view kKnownMethods[] = {"GET",     "HEAD",  "POST",  "PUT",    "DELETE",
                                              "OPTIONS", "PATCH", "TRACE", "CONNECT"};

// "application/json; charset=utf-8" -> "application/json".
std::string MediaType(std::string_view value) { return LowerCase(Trim(value.substr(0, value.find(';')))); }

// A request among ListenerContext::unanswered, until this goes.
class Unanswered {
 public:
  // Counted first: whoever sets `ending` and then looks sees it, or this sees `ending`.
  explicit Unanswered(ListenerContext& context) : context_(context) {
    ++context_.unanswered;
    counts_ = !context_.ending;
    if (!counts_) --context_.unanswered;
  }
  ~Unanswered() {
    if (counts_) --context_.unanswered;
  }
  Unanswered(const Unanswered&) = delete;
  Unanswered& operator=(const Unanswered&) = delete;

 private:
  ListenerContext& context_;
  bool counts_;
};

}  // namespace

HttpConnection::HttpConnection(HttpSocket socket, ListenerContext& context, std::string peer,
                               std::unique_ptr<ConnectionTable::Place> place)
    : socket_(std::move(socket)),
      context_(context),
      peer_(std::move(peer)),
      place_(std::move(place)),
      linger_bytes_(kLingerBytes),
      deadline_(socket_.get_executor()),
      wake_timer_(socket_.get_executor()) {}

HttpConnection::~HttpConnection() = default;

void HttpConnection::Start(HttpSocket socket, ListenerContext& context, std::string peer,
                           std::unique_ptr<ConnectionTable::Place> place) {
  const auto connection =
      std::make_shared<HttpConnection>(std::move(socket), context, std::move(peer), std::move(place));
  const auto executor = connection->socket_.get_executor();
  connection->place_->OnCrowded([weak = std::weak_ptr<HttpConnection>(connection), executor] {
    asio::post(executor, [weak] {
      const std::shared_ptr<HttpConnection> idle = weak.lock();
      if (idle != nullptr && idle->idle_) idle->LoseClient();  // nobody is waiting for an answer
    });
  });
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
  BeginTurn();
  while (keep_alive_ && !client_gone_) {
    HttpHead head;
    const bool got = co_await ReadHead(&head);
    if (!got) break;
    const Unanswered unanswered(context_);
    keep_alive_ = head.keep_alive && !place_->spare();
    client_ = context_.proxies.ClientOf(peer_, head);
    HttpExchange exchange(*this, std::move(head), client_);
    exchange.SetReplica(context_.replica_id);
    body_received_ = 0;
    body_patience_us_ = static_cast<int64_t>(context_.limits.body_grace_s * 1e6);
    bool failed = false;
    bool out_of_memory = false;
    try {
      co_await ServeClient(exchange);
    } catch (const std::bad_alloc&) {
      failed = out_of_memory = true;
    } catch (const std::exception&) {
      failed = true;
    }
    watching_ = false;
    leaves_us_ = kNever;
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
    context_.log.Write(exchange, client_, client_gone_);
    if (exchange.status() == 0) break;
    first_request_ = false;
    ++turn_requests_;
    if (TurnIsOver()) co_await LetOthersGo();
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
  const Limits& limits = context_.limits;
  const double keepalive_s =
      keyed_ ? limits.keepalive_timeout_s : std::min(limits.keepalive_timeout_s, limits.unkeyed_keepalive_timeout_s);
  const double header_s = place_->spare() ? kSpareHeaderSeconds : limits.header_timeout_s;
  ArmDeadline(first_request_ || started ? header_s : keepalive_s);
  SetIdle(!started);
  while (true) {
    if (!input_.empty()) {
      SetIdle(false);
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
      if (started || place_->spare()) {
        ApiError error = place_->spare() ? Crowded() : RequestTimeout();  // gcc 12 destroys one in the argument twice
        co_await Refuse(std::move(error));
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

ApiError HttpConnection::Crowded() const {
  if (context_.on_crowded) context_.on_crowded();
  return Overloaded("The server has too many connections.", "connections_exceeded", /*retry_after_s=*/1);
}

std::optional<ApiError> HttpConnection::CheckHead(HttpExchange& exchange, const FoundRoute& found) {
  const HttpHead& head = exchange.head();
  // A preflight carries no key by its nature.
  if (!found.open && !found.preflight) {
    if (std::optional<ApiError> error = Authenticate(exchange, found.route)) return error;
  }
  if (std::optional<ApiError> error = CheckOrigin(head)) return error;
  if (found.preflight) return std::nullopt;
  // Neither asks for a resource of ours, so the question of whether there is one does not arise.
  if (head.path == "*" || head.method == "CONNECT") return MethodNotAllowed("GET, HEAD, POST, PUT, DELETE");
  if (found.allow.empty()) return NoRoute(context_.routes, head.path);
  if (found.route == nullptr) return MethodNotAllowed(found.allow);
  if (head.Find("expect") != nullptr && !head.expects_continue) return ExpectationFailed();
  return found.route->takes_body() ? CheckBodyHead(head, *found.route) : std::nullopt;
}

std::optional<ApiError> HttpConnection::Authenticate(HttpExchange& exchange, const HttpRoute* route) {
  const auto& ask = route != nullptr && route->authenticate != nullptr ? route->authenticate : context_.authenticate;
  const std::string* authorization = exchange.head().Find("authorization");
  // Anthropic's clients send the bare key.
  const std::string* key = exchange.head().Find("x-api-key");
  const std::string bearer = key == nullptr ? std::string() : "Bearer " + *key;
  if (authorization == nullptr && key != nullptr) authorization = &bearer;
  ApiResult<Caller> caller = ask(authorization, client_);
  if (!caller.ok()) return caller.error();
  exchange.SetCaller(std::move(caller.value()));
  keyed_ = true;
  return std::nullopt;
}

std::optional<ApiError> HttpConnection::CheckOrigin(const HttpHead& head) const {
  const std::string* host = head.Find("host");
  if (host != nullptr && !context_.origins.AdmitsHost(*host)) {
    return Forbidden(
        "This server does not serve the host in the 'Host' header. The operator can add it with --allowed-hosts.",
        "host_not_allowed");
  }
  if (!AdmitsPage(head)) {
    return Forbidden("Web pages of this origin may not use the server. The operator can add it with --allowed-origins.",
                     "origin_not_allowed");
  }
  return std::nullopt;
}

bool HttpConnection::AdmitsPage(const HttpHead& head) const {
  const std::string* host = head.Find("host");
  if (const std::string* origin = head.Find("origin"); origin != nullptr) {
    return context_.origins.AdmitsOrigin(*origin, host == nullptr ? std::string_view() : *host);
  }
  // A page may have a browser ask without saying for whom. A link that somebody follows is not the page's request.
  const std::string* site = head.Find("sec-fetch-site");
  const std::string* mode = head.Find("sec-fetch-mode");
  return site == nullptr || *site != "cross-site" || (mode != nullptr && *mode == "navigate");
}

std::optional<ApiError> HttpConnection::CheckBodyHead(const HttpHead& head, const HttpRoute& route) const {
  // Before everything that not every one of them needs: whatever is let through here has its body read into memory.
  const auto bytes_max = static_cast<uint64_t>(BodyBytesMax(route));
  const bool is_long = head.framing == BodyFraming::kLength && head.content_length > bytes_max;
  if (is_long && !route.streams_body) return PayloadTooLarge(bytes_max);
  if (!route.body) return std::nullopt;
  if (head.framing == BodyFraming::kNone && head.Find("content-length") == nullptr) return LengthRequired();
  const std::string* encoding = head.Find("content-encoding");
  if (encoding != nullptr && !EqualsIgnoreCase(*encoding, "identity")) {
    return UnsupportedMediaType("Request bodies must not be compressed (Content-Encoding).");
  }
  const std::string* type = head.Find("content-type");
  if (type != nullptr && MediaType(*type) != route.content_type) {
    return UnsupportedMediaType(absl::StrCat("The Content-Type must be ", std::string(route.content_type), "."));
  }
  return std::nullopt;
}

int64_t HttpConnection::BodyBytesMax(const HttpRoute& route) const {
  const int64_t all = context_.limits.body_bytes_max;
  return route.body_bytes_max > 0 ? std::min(route.body_bytes_max, all) : all;
}

asio::awaitable<void> HttpConnection::ServeClient(HttpExchange& exchange) {
  FoundRoute found = FindRoute(context_.routes, exchange.head());
  exchange.SetDialect(found.dialect);
  // Whoever comes through a proxy shares its connections, but not their number.
  std::unique_ptr<ConnectionTable::Place> place;
  if (client_ != peer_) {
    place = context_.connections.TryAddClient(client_, context_.limits);
    if (place == nullptr) {
      exchange.SetBodyRead(exchange.head().framing == BodyFraming::kNone);
      co_await exchange.RespondError(
          Overloaded("This address has too many requests open.", "connections_exceeded", /*retry_after_s=*/1));
      co_return;
    }
  }
  co_await Serve(exchange, std::move(found));
}

asio::awaitable<void> HttpConnection::Serve(HttpExchange& exchange, FoundRoute found) {
  const HttpHead& head = exchange.head();
  if (AdmitsPage(head)) exchange.SetOriginAdmitted();
  if (std::find(std::begin(kKnownMethods), std::end(kKnownMethods), head.method) == std::end(kKnownMethods)) {
    // It may have any framing: its body counts as not read.
    co_await exchange.RespondError(NotImplemented("This HTTP method is not supported."));
    co_return;
  }
  exchange.SetBodyRead(head.framing == BodyFraming::kNone);
  exchange.SetPathValues(std::move(found.path_values));
  if (place_->spare() && (found.route == nullptr || !found.route->probe)) {
    co_await exchange.RespondError(Crowded());
    co_return;
  }
  if (std::optional<ApiError> error = CheckHead(exchange, found)) {
    co_await exchange.RespondError(std::move(*error));
    co_return;
  }
  if (found.preflight) {
    HttpResponse response = PreflightResponse(head, found.allow);
    co_await exchange.Respond(std::move(response));
    co_return;
  }
  exchange.notes().audited = found.route->audited;
  if (found.route->admit) {
    Admitted admitted = found.route->admit(exchange);
    if (admitted.refusal.has_value()) {
      co_await RefuseAtHead(exchange, std::move(*admitted.refusal));
      co_return;
    }
    exchange.SetPlace(std::move(admitted.place));
    if (exchange.place() != nullptr && exchange.place()->undecided()) {
      // A place that was refused holds nothing any more, while the body is read over.
      std::optional<HttpResponse> refusal = co_await exchange.place()->Decide(exchange);
      if (refusal.has_value()) {
        co_await RefuseAtHead(exchange, std::move(*refusal));
        co_return;
      }
    }
  }
  // A body that comes with a GET is not read; the response ends the connection.
  if (!exchange.body_read() && found.route->takes_body() && !found.route->streams_body) {
    const bool got = co_await ReadBody(exchange, /*keep=*/found.route->body, BodyBytesMax(*found.route));
    if (!got) co_return;
  }
  co_await found.route->handle(exchange);
}

asio::awaitable<void> HttpConnection::RefuseAtHead(HttpExchange& exchange, HttpResponse response) {
  // A small body is read over, so that a client that was told to come later keeps its connection.
  const HttpHead& head = exchange.head();
  if (head.framing == BodyFraming::kLength && head.content_length <= uint64_t{kReadOverBytes} &&
      !head.expects_continue) {
    const bool got = co_await ReadBody(exchange, /*keep=*/false, kReadOverBytes);
    if (!got) co_return;
  }
  co_await exchange.Respond(std::move(response));
}

asio::awaitable<bool> HttpConnection::Refuse(ApiError error) {
  keep_alive_ = false;
  linger_bytes_ = kLingerHeaderBytes;
  const std::string id = RandomId();
  context_.log.WriteRefusal(error, id, peer_);
  HttpResponse response = ErrorResponse(error);
  SpeakIn(DialectOf(context_.routes, RequestedPath(input_)), id, &response);
  if (!context_.replica_id.empty()) response.fields.emplace_back("x-hydrant-replica", context_.replica_id);
  std::string out;
  AppendHead(response, 1, false, static_cast<int64_t>(response.body.size()), id, &out);
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
  if (TurnIsOver()) co_await LetOthersGo();
  while (true) {
    if (timed_out_) co_return ReadResult::kTimeout;
    if (client_gone_) co_return ReadResult::kClosed;
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
    BeginTurn();
    if (timed_out_) co_return ReadResult::kTimeout;
    if (error || client_gone_) co_return ReadResult::kClosed;
  }
}

void HttpConnection::BeginTurn() {
  turn_began_us_ = MonotonicUs();
  turn_requests_ = 0;
}

bool HttpConnection::TurnIsOver() const {
  return turn_requests_ >= kTurnRequests || MonotonicUs() - turn_began_us_ >= kTurnUs;
}

asio::awaitable<void> HttpConnection::LetOthersGo() {
  // Not dispatch, which would go on at once: what is ready on the io thread, the poll for new events among it, comes first.
  co_await asio::post(socket_.get_executor(), asio::use_awaitable);
  BeginTurn();
}

asio::awaitable<bool> HttpConnection::WriteAll(std::string_view data) {
  // Each piece has to make way, and all of them together have to come to a rate.
  const Limits& limits = context_.limits;
  const int64_t began_us = MonotonicUs();
  const double all_s = limits.stream_stall_s + static_cast<double>(data.size()) / limits.answer_bytes_per_s_min;
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
        const double left_s = all_s - static_cast<double>(MonotonicUs() - began_us) * 1e-6;
        ArmDeadline(std::clamp(left_s, 0.0, limits.stream_stall_s));
        armed = true;
      }
      co_await socket_.async_wait(HttpSocket::wait_write, asio::redirect_error(asio::use_awaitable, error));
      BeginTurn();
      if (error || timed_out_) client_gone_ = true;
    }
    if (armed) DisarmDeadline();
    if (!data.empty() && TurnIsOver()) co_await LetOthersGo();
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
    if (error == asio::error::eof && half_closed_means_ == HalfClosed::kListens) {
      // Nothing more will be readable. What is written will tell whether it listens.
      leaves_us_ = MonotonicUs() + static_cast<int64_t>(context_.limits.half_closed_s * 1e6);
      return Wake();
    }
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

void HttpConnection::WatchClient(HalfClosed means) {
  watching_ = true;
  half_closed_means_ = means;
  if (leaves_us_ == kNever) ArmWatch();
}

void HttpConnection::SetIdle(bool idle) {
  if (idle != idle_) place_->SetIdle(idle);
  idle_ = idle;
}

asio::awaitable<void> HttpConnection::WaitForWake(int64_t until_us) {
  if (!woken_ && !client_gone_) {
    error_code ignored;
    using Time = asio::steady_timer::time_point;
    until_us = std::min(until_us, leaves_us_);
    wake_timer_.expires_at(until_us == kNever ? Time::max() : Time(std::chrono::microseconds(until_us)));
    co_await wake_timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    BeginTurn();
    if (!woken_ && MonotonicUs() >= leaves_us_) LoseClient();
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
