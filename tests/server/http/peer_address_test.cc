#include "server/http/peer_address.h"

#include <gtest/gtest.h>

namespace hydrant {
namespace {

TEST(PeerAddress, AnIpv6HostIsItsNetwork) {
  EXPECT_EQ(PeerGroup("10.1.2.3"), "10.1.2.3");
  EXPECT_EQ(PeerGroup("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
  EXPECT_EQ(PeerGroup("2001:db8:1:2:ffff::1"), "2001:db8:1:2::/64");
  EXPECT_NE(PeerGroup("2001:db8:1:3::1"), PeerGroup("2001:db8:1:2::1"));
  EXPECT_EQ(PeerGroup("::ffff:10.0.0.1"), "::ffff:10.0.0.1");
  EXPECT_EQ(PeerGroup("local"), "local");
}

TEST(PeerAddress, ThisHostIsLoopbackAndUnixSockets) {
  for (const char* here : {"127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1", "local"}) {
    EXPECT_TRUE(IsLocalPeer(here)) << here;
  }
  for (const char* elsewhere : {"10.0.0.1", "2001:db8::1", "::2", "::ffff:10.0.0.1", ""}) {
    EXPECT_FALSE(IsLocalPeer(elsewhere)) << elsewhere;
  }
}

}  // namespace
}  // namespace hydrant
