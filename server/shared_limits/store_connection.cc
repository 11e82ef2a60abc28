#include "server/shared_limits/store_connection.h"

#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/process/clock.h"

namespace hydrant {
namespace {

constexpr size_t kReadBytes = 16 << 10;

absl::Status Lost(std::string_view what) { return absl::UnavailableError(std::string(what)); }
absl::Status LostBy(int error) { return Lost(std::strerror(error)); }

// OK once the descriptor is ready for one of `events`, or broken, which using it will tell.
absl::Status WaitFor(int fd, short events, int64_t until_us, int stop_fd) {
  while (true) {
    const int64_t left_us = until_us - MonotonicUs();
    if (left_us <= 0) return absl::DeadlineExceededError("no answer in time");
    pollfd watched[] = {{fd, events, 0}, {stop_fd, POLLIN, 0}};
    const int ready = poll(watched, 2, static_cast<int>(std::min<int64_t>(left_us / 1000 + 1, 60'000)));
    if (ready > 0) return watched[1].revents == 0 ? absl::OkStatus() : absl::CancelledError("it is to stop");
    if (ready < 0 && errno != EINTR) return LostBy(errno);
  }
}

// What makes an array of an answer: the library's own function is given no more items than there may be, because it takes memory for
// as many as the store says, no arrays of arrays, which grow without an end in sight, and no texts in arrays, which are long together.
using Functions = redisReplyObjectFunctions;
Functions* original_functions = nullptr;

template <typename Count>  // int or size_t, by the library's version
void* MakeArray(const redisReadTask* task, Count items) {
  if (task->parent != nullptr || static_cast<size_t>(items) > StoreConnection::kAnswerItemsMax) return nullptr;
  return original_functions->createArray(task, items);
}

void* MakeString(const redisReadTask* task, char* text, size_t bytes) {
  return task->parent != nullptr ? nullptr : original_functions->createString(task, text, bytes);
}

Functions* BoundedFunctions(const redisReader& reader) {
  static Functions functions = [&reader] {
    original_functions = reader.fn;
    Functions bounded = *reader.fn;
    bounded.createArray = &MakeArray;
    bounded.createString = &MakeString;
    return bounded;
  }();
  return &functions;
}

StoreReply ReplyOf(const redisReply& from) {
  StoreReply reply;
  if (from.type == REDIS_REPLY_INTEGER) {
    reply.kind = StoreReply::Kind::kIntegers;
    reply.integers.push_back(from.integer);
  } else if (from.type == REDIS_REPLY_STRING || from.type == REDIS_REPLY_STATUS || from.type == REDIS_REPLY_ERROR) {
    reply.kind = from.type == REDIS_REPLY_ERROR ? StoreReply::Kind::kError : StoreReply::Kind::kText;
    reply.text.assign(from.str, static_cast<size_t>(from.len));
  } else if (from.type == REDIS_REPLY_ARRAY) {
    reply.kind = StoreReply::Kind::kIntegers;
    for (size_t i = 0; i < from.elements; ++i) {
      if (from.element[i] == nullptr || from.element[i]->type != REDIS_REPLY_INTEGER) return {};
      reply.integers.push_back(from.element[i]->integer);
    }
  }
  return reply;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StoreConnection>> StoreConnection::Connect(const StoreAddress& address, int64_t until_us,
                                                                          int stop_fd) {
  redisContext* const context = address.host.empty() ? redisConnectUnixNonBlock(address.path.c_str())
                                                     : redisConnectNonBlock(address.host.c_str(), address.port);
  if (context == nullptr) throw std::bad_alloc();
  std::unique_ptr<redisContext, decltype(&redisFree)> owner(context, redisFree);  // until there is memory for one
  std::unique_ptr<StoreConnection> connection(new StoreConnection(context, stop_fd));
  (void)owner.release();
  if (context->err != 0) return Lost(context->errstr);
  if (absl::Status status = WaitFor(context->fd, POLLOUT, until_us, stop_fd); !status.ok()) return status;
  int error = 0;
  socklen_t size = sizeof error;
  if (getsockopt(context->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error != 0) return LostBy(error);
  if (!address.host.empty()) {
    // Best effort: an answer that waits for more to send is late, and a store that is gone is noticed by the next request, too.
    const int one = 1;
    (void)setsockopt(context->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    (void)redisEnableKeepAlive(context);
  }
  if (context->reader == nullptr) throw std::bad_alloc();
  context->reader->fn = BoundedFunctions(*context->reader);
  return connection;
}

StoreConnection::StoreConnection(redisContext* context, int stop_fd)
    : context_(context), fd_(context->fd), stop_fd_(stop_fd) {}

StoreConnection::~StoreConnection() { redisFree(context_); }

void StoreConnection::Append(const std::vector<std::string_view>& command) {
  std::vector<const char*> words;
  std::vector<size_t> sizes;
  for (const std::string_view word : command) {
    words.push_back(word.data());
    sizes.push_back(word.size());
  }
  char* text = nullptr;
  const int bytes = redisFormatCommandArgv(&text, static_cast<int>(words.size()), words.data(), sizes.data());
  if (bytes < 0) throw std::bad_alloc();
  const std::unique_ptr<char, decltype(&redisFreeCommand)> owner(text, redisFreeCommand);
  if (sent_ == out_.size()) {
    out_.clear();
    sent_ = 0;
  }
  out_.append(text, static_cast<size_t>(bytes));
}

absl::Status StoreConnection::Write() {
  while (wants_write()) {
    const ssize_t written = send(fd_, out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (written > 0) {
      sent_ += static_cast<size_t>(written);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR) {
      return LostBy(errno);
    }
  }
  return absl::OkStatus();
}

absl::Status StoreConnection::Read() {
  std::array<char, kReadBytes> buffer;
  const ssize_t got = recv(fd_, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got == 0) return Lost("the store has closed the connection");
  if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? absl::OkStatus() : LostBy(errno);
  redisReader& reader = *context_->reader;
  if (redisReaderFeed(&reader, buffer.data(), static_cast<size_t>(got)) != REDIS_OK) return Lost(reader.errstr);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<StoreReply>> StoreConnection::Next() {
  redisReader& reader = *context_->reader;
  void* found = nullptr;
  if (redisReaderGetReply(&reader, &found) != REDIS_OK) {
    return Lost(absl::StrCat("what the store sends is no answer: ", reader.errstr));
  }
  if (found == nullptr) {
    // All that is left is part of one answer.
    if (reader.len - reader.pos > kAnswerBytesMax) return Lost("what the store sends is no answer: it has no end");
    return std::optional<StoreReply>();
  }
  const std::unique_ptr<void, decltype(&freeReplyObject)> owner(found, freeReplyObject);
  return std::optional(ReplyOf(*static_cast<const redisReply*>(found)));
}

absl::StatusOr<StoreReply> StoreConnection::Call(const std::vector<std::string_view>& command, int64_t until_us) {
  Append(command);
  while (true) {
    if (absl::Status status = Write(); !status.ok()) return status;
    const auto events = static_cast<short>(POLLIN | (wants_write() ? POLLOUT : 0));
    if (absl::Status status = WaitFor(fd_, events, until_us, stop_fd_); !status.ok()) return status;
    if (absl::Status status = Read(); !status.ok()) return status;
    absl::StatusOr<std::optional<StoreReply>> reply = Next();
    if (!reply.ok()) return reply.status();
    if (reply->has_value()) return **std::move(reply);
  }
}

}  // namespace hydrant
