#include "tests/loadgen/replay_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace hydrant {
namespace {

std::string Chunk(const std::string& data) {
  std::ostringstream text;
  text << std::hex << data.size() << "\r\n" << data << "\r\n";
  return text.str();
}

bool WriteAll(int fd, const std::string& bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t sent = send(fd, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    at += static_cast<size_t>(sent);
  }
  return true;
}

// Reads until `buffer` holds `bytes` of them.
bool ReadUntil(int fd, size_t bytes, std::string* buffer) {
  char piece[4096];
  while (buffer->size() < bytes) {
    const ssize_t got = recv(fd, piece, sizeof(piece), 0);
    if (got <= 0) return false;
    buffer->append(piece, static_cast<size_t>(got));
  }
  return true;
}

}  // namespace

Reply StreamReply(const std::vector<std::string>& events) {
  Reply reply;
  reply.pieces.push_back("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (const std::string& event : events) reply.pieces.push_back(Chunk("data: " + event + "\n\n"));
  reply.pieces.push_back("0\r\n\r\n");
  return reply;
}

Reply TokensReply(int tokens, bool chat) {
  const std::string token = chat ? R"({"choices":[{"delta":{"content":"w"})" : R"({"choices":[{"text":"w")";
  std::vector<std::string> events(static_cast<size_t>(tokens), token + "}]}");
  if (!events.empty()) events.back() = token + R"(,"finish_reason":"length"}]})";
  events.push_back(R"({"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":)" + std::to_string(tokens) + "}}");
  events.push_back("[DONE]");
  return StreamReply(events);
}

Reply PlainReply(int status, const std::string& body) {
  return {{"HTTP/1.1 " + std::to_string(status) + " X\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
           body}};
}

ReplayServer::ReplayServer(Handler handler) : handler_(std::move(handler)) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  if (bind(listener_, reinterpret_cast<sockaddr*>(&address), length) != 0 || listen(listener_, 1024) != 0) std::abort();
  getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
  port_ = ntohs(address.sin_port);
  accepting_ = std::thread([this] { Accept(); });
}

ReplayServer::~ReplayServer() {
  shutdown(listener_, SHUT_RDWR);
  accepting_.join();
  close(listener_);
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(mutex_);
    for (const int fd : open_) shutdown(fd, SHUT_RDWR);
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

std::string ReplayServer::url() const { return "http://127.0.0.1:" + std::to_string(port_); }

Peer ReplayServer::peer() const { return *ResolvePeer(*ParseUrl(url()), true, 10); }

void ReplayServer::Accept() {
  for (;;) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    ++connections_;
    const std::lock_guard lock(mutex_);
    open_.push_back(fd);
    threads_.emplace_back([this, fd] { Serve(fd); });
  }
}

void ReplayServer::Serve(int fd) {
  std::string buffer;
  for (bool more = true; more;) {
    size_t head_end = std::string::npos;
    while (more && (head_end = buffer.find("\r\n\r\n")) == std::string::npos)
      more = ReadUntil(fd, buffer.size() + 1, &buffer);
    if (!more) break;
    const std::string head = buffer.substr(0, head_end);
    const size_t field = head.find("Content-Length: ");
    const size_t length = field == std::string::npos ? 0 : std::strtoul(head.c_str() + field + 16, nullptr, 10);
    if (!ReadUntil(fd, head_end + 4 + length, &buffer)) break;
    const std::string body = buffer.substr(head_end + 4, length);
    buffer.erase(0, head_end + 4 + length);
    const Reply reply = handler_(head, body);
    for (const std::string& piece : reply.pieces) more = more && WriteAll(fd, piece);
    if (reply.hang) more = ReadUntil(fd, size_t{1} << 40, &buffer);
    more = more && !reply.close;
  }
  const std::lock_guard lock(mutex_);
  open_.erase(std::find(open_.begin(), open_.end(), fd));
  close(fd);
}

}  // namespace hydrant
