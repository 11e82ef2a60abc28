#include "server/sessions/tools/http_client.h"

#include <sys/un.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <charconv>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "server/process/ascii_text.h"

namespace hydrant {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

// A body that is taken piece by piece: of Beast's "Body", what a reader needs.
struct PieceBody {
  using value_type = std::function<bool(std::string_view piece)>;
  class reader {
   public:
    template <bool kIsRequest, class Fields>
    reader(http::header<kIsRequest, Fields>& /*head*/, value_type& take) : take_(take) {}
    void init(const boost::optional<std::uint64_t>& /*bytes*/, error_code& error) { error = {}; }
    template <class Buffers>
    size_t put(const Buffers& buffers, error_code& error) {
      error = {};
      size_t bytes = 0;
      for (const auto buffer : beast::buffers_range_ref(buffers)) {
        if (!take_({static_cast<const char*>(buffer.data()), buffer.size()})) error = asio::error::operation_aborted;
        bytes += buffer.size();
      }
      return bytes;
    }
    void finish(error_code& error) { error = {}; }

   private:
    value_type& take_;
  };
};

constexpr std::string_view kHttp = "http://";
constexpr std::string_view kUnix = "unix:";

bool IsPort(std::string_view text) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() && port > 0;
}

}  // namespace

std::string HttpClient::Reply::Field(std::string_view name) const {
  for (const auto& [field, value] : fields) {
    if (field == name) return value;
  }
  return "";
}

absl::StatusOr<HttpClient> HttpClient::To(const std::string& url) {
  const auto wrong = [&url](const char* why) {
    return absl::InvalidArgumentError(absl::StrCat(url, ": ", why, "; say http://HOST:PORT, or unix:PATH"));
  };
  HttpClient client;
  client.url_ = url;
  const std::string_view text = url;
  if (text.starts_with(kUnix)) {
    client.path_ = text.substr(kUnix.size());
    client.host_ = "localhost";
    if (client.path_.empty() || client.path_.size() >= sizeof(sockaddr_un::sun_path))
      return wrong("is no path of a socket");
    return client;
  }
  if (text.starts_with("https://")) return wrong("TLS is not spoken here");
  if (!text.starts_with(kHttp)) return wrong("is no address of a server");
  std::string_view host = text.substr(kHttp.size());
  if (host.ends_with('/')) host.remove_suffix(1);
  client.host_ = host;
  if (host.empty() || host.find_first_of("/?#@ \r\n") != std::string_view::npos)
    return wrong("is no address of a server");
  const size_t colon = host.rfind(':');
  const bool has_port = colon != std::string_view::npos && host.find(']', colon) == std::string_view::npos;
  client.port_ = has_port ? host.substr(colon + 1) : "80";
  // The resolver takes any number, and of a large one its last 16 bits.
  if (!IsPort(client.port_)) return wrong("is no port from 1 to 65535");
  host = host.substr(0, has_port ? colon : host.size());
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  client.name_ = host;
  return client;
}

absl::Status HttpClient::Fail(const error_code& error) const {
  if (error == http::error::header_limit)
    return absl::UnavailableError(absl::StrCat(url_, ": the answer's head does not end"));
  if (error == http::error::body_limit) return absl::UnavailableError(absl::StrCat(url_, ": the answer is too long"));
  if (error == http::error::partial_message)
    return absl::UnavailableError(absl::StrCat(url_, ": the answer was cut off"));
  if (error == beast::error::timeout) return absl::UnavailableError(absl::StrCat(url_, ": no answer in time"));
  return absl::UnavailableError(absl::StrCat(url_, ": ", error.message()));
}

void HttpClient::Wait() {
  io_->restart();
  io_->run();
}

void HttpClient::Close() {
  stream_.reset();
  received_.clear();
}

error_code HttpClient::ConnectTo(const Stream::endpoint_type& endpoint) {
  stream_.emplace(*io_);
  error_code result;
  stream_->expires_after(std::chrono::seconds(kWaitS));
  stream_->async_connect(endpoint, [&result](const error_code& error) { result = error; });
  Wait();
  if (result) Close();
  return result;
}

absl::Status HttpClient::Connect() {
  error_code error;
  if (is_unix()) {
    error = ConnectTo(asio::local::stream_protocol::endpoint(path_));
    return error ? Fail(error) : absl::OkStatus();
  }
  asio::ip::tcp::resolver resolver(*io_);
  const auto found = resolver.resolve(name_, port_, error);
  if (error) return Fail(error);
  for (const auto& entry : found) {
    error = ConnectTo(entry.endpoint());
    if (error) continue;
    stream_->socket().set_option(asio::ip::tcp::no_delay(true), error);
    return absl::OkStatus();
  }
  return Fail(error);
}

absl::Status HttpClient::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    error_code result;
    size_t sent = 0;
    stream_->expires_after(std::chrono::seconds(kWaitS));
    stream_->async_write_some(asio::buffer(bytes), [&](const error_code& error, size_t count) {
      result = error;
      sent = count;
    });
    Wait();
    if (result) return Fail(result);
    bytes.remove_prefix(sent);
  }
  return absl::OkStatus();
}

absl::StatusOr<HttpClient::Reply> HttpClient::ReadReply(bool has_body, const Sink* sink) {
  http::response_parser<PieceBody> parser;
  Reply reply;
  absl::Status refused;
  bool sinks = false;
  parser.get().body() = [&](std::string_view piece) {
    if (sinks) {
      refused = sink->take(piece);
      return refused.ok();
    }
    reply.body.append(piece);
    return reply.body.size() <= kBodyBytesMax;
  };
  parser.header_limit(kHeadBytesMax);
  parser.body_limit(boost::none);
  parser.skip(!has_body);
  bool begun = false;
  while (!parser.is_done()) {
    error_code result;
    stream_->expires_after(std::chrono::seconds(kWaitS));
    const auto done = [&result](const error_code& error, size_t) { result = error; };
    if (begun) {
      http::async_read_some(*stream_, received_, parser, done);
    } else {
      http::async_read_header(*stream_, received_, parser, done);
    }
    Wait();
    if (!refused.ok()) return refused;
    if (result) return Fail(result);
    if (begun) continue;
    begun = true;
    const auto bytes = parser.content_length();
    sinks = sink != nullptr && parser.get().result() == http::status::ok && bytes.has_value();
    if (sinks) sink->begin(*bytes);
  }
  reply.status = parser.get().result_int();
  for (const auto& field : parser.get()) {
    reply.fields.emplace_back(LowerCase(std::string_view(field.name_string())), std::string(field.value()));
  }
  if (!parser.keep_alive()) Close();
  return reply;
}

absl::StatusOr<HttpClient::Reply> HttpClient::Ask(std::string_view method, const std::string& target,
                                                  const std::string& fields, const Body& body, const Sink* sink) {
  std::string head = absl::StrCat(std::string(method), " ", target, " HTTP/1.1\r\nHost: ", host_, "\r\n", fields);
  const uint64_t rest = body.rest == nullptr ? 0 : static_cast<uint64_t>(body.rest->bytes());
  if (body.begin.size() + rest > 0) absl::StrAppend(&head, "Content-Length: ", body.begin.size() + rest, "\r\n");
  head.append("\r\n");
  while (true) {
    const bool fresh = !stream_.has_value();
    if (fresh) {
      if (absl::Status status = Connect(); !status.ok()) return status;
    }
    absl::Status sent = Send(head);
    if (sent.ok()) sent = Send(body.begin);
    if (sent.ok() && rest > 0) sent = body.rest->Read([this](std::string_view piece) { return Send(piece); });
    // A server that refuses a body by its head says so and closes: what it said is there to be read.
    absl::StatusOr<Reply> reply = ReadReply(method != "HEAD", sink);
    if (reply.ok()) return reply;
    Close();
    if (fresh) return sent.ok() ? reply.status() : sent;
  }
}

}  // namespace hydrant
