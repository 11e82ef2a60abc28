#include "loadgen/client/acknowledged_bytes.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <string>

namespace hydrant {
namespace {

using boost::asio::ip::tcp;

TEST(AcknowledgedBytes, AreThoseThatHaveCome) {
  boost::asio::io_context io;
  tcp::acceptor acceptor(io, tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0));
  tcp::socket client(io);
  client.connect(acceptor.local_endpoint());
  tcp::socket server = acceptor.accept();
  const uint64_t before = AcknowledgedBytes(client.native_handle());
  std::string bytes(100, 'a');
  boost::asio::write(client, boost::asio::buffer(bytes));
  boost::asio::read(server, boost::asio::buffer(bytes));
  server.close();  // which acknowledges them, at the latest
  boost::system::error_code error;
  char more = 0;
  EXPECT_EQ(client.read_some(boost::asio::buffer(&more, 1), error), 0u);
  EXPECT_EQ(AcknowledgedBytes(client.native_handle()), before + 100);
  boost::asio::write(client, boost::asio::buffer(bytes), error);
  EXPECT_EQ(AcknowledgedBytes(client.native_handle()), before + 100) << "nobody is there";
}

TEST(AcknowledgedBytes, OfNoConnectionAreNone) { EXPECT_EQ(AcknowledgedBytes(-1), 0u); }

}  // namespace
}  // namespace hydrant
