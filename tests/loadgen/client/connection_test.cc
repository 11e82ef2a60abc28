#include "loadgen/client/connection.h"

#include <gtest/gtest.h>
#include <netinet/tcp.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <string>

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

// A server that ends in the middle of a request resets the connection, too.
TEST(Connection, WhatWasAcknowledgedMayHaveBeenRead) {
  using boost::asio::ip::tcp;
  boost::asio::io_context io;
  tcp::acceptor acceptor(io, tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0));
  absl::StatusOr<Peer> peer =
      ResolvePeer(*ParseUrl("http://127.0.0.1:" + std::to_string(acceptor.local_endpoint().port())), true, 60);
  ASSERT_TRUE(peer.ok()) << peer.status();
  const std::string request(100, 'a');
  for (const bool reads : {true, false}) {
    Connection connection(io, &*peer);
    boost::system::error_code error;
    boost::asio::co_spawn(
        io,
        [&]() -> boost::asio::awaitable<void> {
          EXPECT_FALSE(co_await connection.Open());
          tcp::socket server = co_await acceptor.async_accept(boost::asio::use_awaitable);
          if (!reads) {
            server.close();
            EXPECT_TRUE(co_await connection.Read()) << "closed before anything came";
            error = co_await connection.Write(request);
          } else {
            EXPECT_FALSE(co_await connection.Write(request));
            std::string got(request.size(), ' ');
            co_await boost::asio::async_read(server, boost::asio::buffer(got), boost::asio::use_awaitable);
            // Now, as it would be in a while.
            server.set_option(boost::asio::detail::socket_option::boolean<IPPROTO_TCP, TCP_QUICKACK>(true));
            server.set_option(boost::asio::socket_base::linger(true, 0));
            server.close();
          }
          if (!error) error = co_await connection.Read();
        },
        boost::asio::detached);
    io.restart();
    io.run();
    EXPECT_TRUE(error);
    EXPECT_EQ(connection.Unread(), !reads) << error.message();
  }
}

TEST(Connection, ANameThatDoesNotExistIsUnavailable) {
  const absl::StatusOr<Peer> peer = ResolvePeer(*ParseUrl("http://no-such-host.invalid:1"), true, 60);
  EXPECT_EQ(peer.status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace hydrant
