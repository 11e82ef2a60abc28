#include "server/shared_limits/store_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "server/process/clock.h"
#include "tests/server/shared_limits/fake_store.h"

namespace hydrant {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kStoreConnectionPatienceUs = 10'000'000;

// The answer to one command when the store sends `bytes`.
absl::StatusOr<StoreReply> ReplyTo(const std::string& bytes, int64_t patience_us = kStoreConnectionPatienceUs) {
  FakeStore store([bytes](const FakeStore::Command&) { return bytes; });
  absl::StatusOr<std::unique_ptr<StoreConnection>> connection =
      StoreConnection::Connect(store.address(), MonotonicUs() + kStoreConnectionPatienceUs);
  if (!connection.ok()) return connection.status();
  return (*connection)->Call({"PING", std::string_view("a\0b", 3)}, MonotonicUs() + patience_us);
}

TEST(StoreConnection, ReadsWhatAStoreAnswers) {
  EXPECT_EQ(ReplyTo("+PONG\r\n")->text, "PONG");
  EXPECT_EQ(ReplyTo("$3\r\na\nb\r\n")->text, "a\nb");
  EXPECT_EQ(ReplyTo("$-1\r\n")->kind, StoreReply::Kind::kOther);
  EXPECT_THAT(ReplyTo(":-5\r\n")->integers, ElementsAre(-5));
  EXPECT_THAT(ReplyTo("*3\r\n:1\r\n:2\r\n:3\r\n")->integers, ElementsAre(1, 2, 3));
  const absl::StatusOr<StoreReply> error = ReplyTo("-OOM command not allowed\r\n");
  EXPECT_EQ(error->kind, StoreReply::Kind::kError);
  EXPECT_EQ(error->text, "OOM command not allowed");
  EXPECT_EQ(ReplyTo("*1\r\n$-1\r\n")->kind, StoreReply::Kind::kOther);
  EXPECT_EQ(ReplyTo("*-1\r\n")->kind, StoreReply::Kind::kOther);
}

TEST(StoreConnection, EndsWithAStoreThatIsNone) {
  for (const std::string& bytes :
       {std::string("HTTP/1.1 400 Bad Request\r\n\r\n"), std::string("*1000000000\r\n"), std::string("*17\r\n"),
        std::string("*1\r\n*1\r\n:1\r\n"), std::string("*2\r\n:1\r\n$1\r\na\r\n"), std::string("*1\r\n+a\r\n"),
        "$100000\r\n" + std::string(90'000, 'a'), "+" + std::string(90'000, 'a'),
        std::string("$99999999999999999999\r\n"), std::string("*99999999999999999999\r\n"), std::string("\0", 1)}) {
    const absl::StatusOr<StoreReply> reply = ReplyTo(bytes);
    EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnavailable) << bytes.substr(0, 30) << reply.status();
  }
}

TEST(StoreConnection, WaitsNoLongerThanItIsToldTo) {
  EXPECT_EQ(ReplyTo("", 1000).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(ReplyTo("$10\r\nabc", 1000).status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(StoreConnection, WaitsNoLongerOnceItIsToStop) {
  FakeStore store([](const FakeStore::Command&) { return ""; });
  const int stop = eventfd(1, EFD_CLOEXEC);
  ASSERT_GE(stop, 0);
  const int64_t until_us = MonotonicUs() + kStoreConnectionPatienceUs;
  EXPECT_EQ(StoreConnection::Connect(store.address(), until_us, stop).status().code(), absl::StatusCode::kCancelled);
  uint64_t signals = 0;
  ASSERT_EQ(read(stop, &signals, sizeof signals), static_cast<ssize_t>(sizeof signals));
  auto connection = StoreConnection::Connect(store.address(), until_us, stop);
  ASSERT_TRUE(connection.ok());
  ASSERT_EQ(write(stop, &signals, sizeof signals), static_cast<ssize_t>(sizeof signals));
  EXPECT_EQ((*connection)->Call({"PING"}, until_us).status().code(), absl::StatusCode::kCancelled);
  close(stop);
}

TEST(StoreConnection, SaysWhyThereIsNone) {
  FakeStore store;
  const StoreAddress address = store.address();
  store.Stop();
  const auto refused = StoreConnection::Connect(address, MonotonicUs() + kStoreConnectionPatienceUs);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("refused"));
  StoreAddress socket;
  socket.path = "/nonexistent/redis.sock";
  const auto missing = StoreConnection::Connect(socket, MonotonicUs() + kStoreConnectionPatienceUs);
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kUnavailable);
}

TEST(StoreConnection, SendsWordsAsTheyAre) {
  FakeStore store;
  auto connection = StoreConnection::Connect(store.address(), MonotonicUs() + kStoreConnectionPatienceUs);
  ASSERT_TRUE(connection.ok());
  const std::string large(1 << 20, 'x');
  ASSERT_TRUE((*connection)->Call({"SET", "a b\r\n", large}, MonotonicUs() + kStoreConnectionPatienceUs).ok());
  EXPECT_THAT(store.Await([](const auto&) { return true; }), ElementsAre("SET", "a b\r\n", large));
}

}  // namespace
}  // namespace hydrant
