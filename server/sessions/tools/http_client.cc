#include "server/sessions/tools/http_client.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "server/process/ascii_text.h"

namespace hydrant {
namespace {

constexpr std::string_view kHttp = "http://";
constexpr std::string_view kUnix = "unix:";

std::optional<size_t> ParseSize(std::string_view text, int base) {
  size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

// Every wait of the socket ends.
void SetWaits(int fd, int seconds) {
  timeval wait{};
  wait.tv_sec = seconds;
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
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
  host = host.substr(0, has_port ? colon : host.size());
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  client.name_ = host;
  return client;
}

HttpClient::HttpClient(HttpClient&& other) noexcept
    : url_(std::move(other.url_)),
      host_(std::move(other.host_)),
      name_(std::move(other.name_)),
      port_(std::move(other.port_)),
      path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      received_(std::move(other.received_)) {}

absl::Status HttpClient::Fail(std::string_view what) const {
  return absl::UnavailableError(absl::StrCat(url_, ": ", std::string(what)));
}

void HttpClient::Close() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
  received_.clear();
}

absl::Status HttpClient::Connect() {
  if (is_unix()) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd_ < 0) return Fail(std::strerror(errno));
    SetWaits(fd_, kWaitS);
    if (connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return absl::OkStatus();
    const int error = errno;
    Close();
    return Fail(std::strerror(error));
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(name_.c_str(), port_.c_str(), &hints, &found); error != 0) {
    return Fail(gai_strerror(error));
  }
  int last = 0;
  for (const addrinfo* at = found; at != nullptr && fd_ < 0; at = at->ai_next) {
    fd_ = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
    if (fd_ < 0) continue;
    SetWaits(fd_, kWaitS);
    if (connect(fd_, at->ai_addr, at->ai_addrlen) != 0) {
      last = errno;
      Close();
    }
  }
  freeaddrinfo(found);
  if (fd_ < 0) return Fail(std::strerror(last));
  const int on = 1;
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return absl::OkStatus();
}

absl::Status HttpClient::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return Fail(std::strerror(errno));
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> HttpClient::Receive() {
  std::array<char, 64 << 10> buffer;
  while (true) {
    const ssize_t got = recv(fd_, buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Fail(errno == EAGAIN ? "no answer in time" : std::strerror(errno));
    received_.append(buffer.data(), static_cast<size_t>(got));
    return got > 0;
  }
}

absl::StatusOr<std::string> HttpClient::ReadLine() {
  while (true) {
    const size_t end = received_.find("\r\n");
    if (end != std::string::npos) {
      std::string line = received_.substr(0, end);
      received_.erase(0, end + 2);
      return line;
    }
    if (received_.size() > kHeadBytesMax) return Fail("the answer's head does not end");
    const absl::StatusOr<bool> more = Receive();
    if (!more.ok()) return more.status();
    if (!*more) return Fail("the connection was closed");
  }
}

absl::Status HttpClient::ReadChunks(std::string* body) {
  while (true) {
    const absl::StatusOr<std::string> line = ReadLine();
    if (!line.ok()) return line.status();
    const std::optional<size_t> size = ParseSize(Trim(std::string_view(*line).substr(0, line->find(';'))), 16);
    if (!size.has_value() || *size > kBodyBytesMax - body->size()) return Fail("the answer's chunks make no sense");
    if (*size == 0) break;
    while (received_.size() < *size + 2) {
      const absl::StatusOr<bool> more = Receive();
      if (!more.ok()) return more.status();
      if (!*more) return Fail("the answer was cut off");
    }
    body->append(received_, 0, *size);
    received_.erase(0, *size + 2);
  }
  while (true) {
    const absl::StatusOr<std::string> trailer = ReadLine();
    if (!trailer.ok()) return trailer.status();
    if (trailer->empty()) return absl::OkStatus();
  }
}

absl::Status HttpClient::ReadBody(Reply* reply) {
  if (reply->Field("transfer-encoding") == "chunked") return ReadChunks(&reply->body);
  const std::string length = reply->Field("content-length");
  const std::optional<size_t> size = ParseSize(length, 10);
  if (!size.has_value() && !length.empty()) return Fail("the answer's length is no number");
  if (size.value_or(0) > kBodyBytesMax) return Fail("the answer is too long");
  while (!size.has_value() || received_.size() < *size) {
    const absl::StatusOr<bool> more = Receive();
    if (!more.ok()) return more.status();
    if (!*more && !size.has_value()) break;
    if (!*more) return Fail("the answer was cut off");
    if (received_.size() > kBodyBytesMax) return Fail("the answer is too long");
  }
  reply->body = received_.substr(0, size.value_or(received_.size()));
  received_.erase(0, reply->body.size());
  return absl::OkStatus();
}

absl::StatusOr<HttpClient::Reply> HttpClient::ReadReply(bool has_body) {
  Reply reply;
  absl::StatusOr<std::string> line = ReadLine();
  if (!line.ok()) return line.status();
  const std::optional<size_t> status = line->starts_with("HTTP/1.") && line->size() >= 12
                                           ? ParseSize(std::string_view(*line).substr(9, 3), 10)
                                           : std::nullopt;
  if (!status.has_value()) return Fail("what answers is no HTTP server");
  reply.status = static_cast<int>(*status);
  size_t bytes = 0;
  while (true) {
    line = ReadLine();
    if (!line.ok()) return line.status();
    if (line->empty()) break;
    bytes += line->size();
    if (bytes > kHeadBytesMax) return Fail("the answer's head does not end");
    const size_t colon = std::min(line->find(':'), line->size() - 1);
    reply.fields.emplace_back(LowerCase(line->substr(0, colon)),
                              std::string(Trim(std::string_view(*line).substr(colon + 1))));
  }
  if (has_body && reply.status != 204) {
    if (absl::Status read = ReadBody(&reply); !read.ok()) return read;
  }
  if (reply.Field("connection") == "close" ||
      (reply.Field("content-length").empty() && reply.Field("transfer-encoding").empty())) {
    Close();
  }
  return reply;
}

absl::StatusOr<HttpClient::Reply> HttpClient::Ask(std::string_view method, const std::string& target,
                                                  const std::string& fields, std::string_view body) {
  std::string head = absl::StrCat(std::string(method), " ", target, " HTTP/1.1\r\nHost: ", host_, "\r\n", fields);
  if (!body.empty()) absl::StrAppend(&head, "Content-Length: ", body.size(), "\r\n");
  head.append("\r\n");
  while (true) {
    const bool fresh = fd_ < 0;
    if (fresh) {
      if (absl::Status status = Connect(); !status.ok()) return status;
    }
    absl::Status sent = Send(head);
    if (sent.ok()) sent = Send(body);
    // A server that refuses a body by its head says so and closes: what it said is there to be read.
    absl::StatusOr<Reply> reply = ReadReply(method != "HEAD");
    if (reply.ok()) return reply;
    Close();
    if (fresh) return sent.ok() ? reply.status() : sent;
  }
}

}  // namespace hydrant
