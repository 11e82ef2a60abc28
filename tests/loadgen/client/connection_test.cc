#include "loadgen/client/connection.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "tests/loadgen/replay_server.h"

namespace hydrant {
namespace {

TEST(Connection, WritesAndReads) {
  ReplayServer server([](const std::string& head, const std::string&) { return PlainReply(200, head); });
  Peer peer = server.peer();
  boost::asio::io_context io;
  Connection connection(io, &peer);
  std::string got;
  boost::asio::co_spawn(
      io,
      [&]() -> boost::asio::awaitable<void> {
        EXPECT_FALSE(co_await connection.Open());
        EXPECT_FALSE(co_await connection.Write("GET / HTTP/1.1\r\n\r\n"));
        EXPECT_FALSE(co_await connection.Read());
        connection.Take(9);
        got = std::string(connection.unread().substr(0, 3));
      },
      boost::asio::detached);
  io.run();
  EXPECT_EQ(got, "200");
}

TEST(Connection, ClosingEndsWhatWaits) {
  ReplayServer server([](const std::string&, const std::string&) { return Reply{{}, false, true}; });
  Peer peer = server.peer();
  boost::asio::io_context io;
  Connection connection(io, &peer);
  boost::system::error_code error;
  boost::asio::co_spawn(
      io,
      [&]() -> boost::asio::awaitable<void> {
        EXPECT_FALSE(co_await connection.Open());
        boost::asio::post(io, [&] { connection.Close(); });
        error = co_await connection.Read();
      },
      boost::asio::detached);
  io.run();
  EXPECT_TRUE(error);
}

TEST(Connection, ANameThatDoesNotExistIsUnavailable) {
  const absl::StatusOr<Peer> peer = ResolvePeer(*ParseUrl("http://no-such-host.invalid:1"), true, 60);
  EXPECT_EQ(peer.status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace hydrant
