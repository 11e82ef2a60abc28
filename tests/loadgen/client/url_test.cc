#include "loadgen/client/url.h"

#include <gtest/gtest.h>

namespace hydrant {
namespace {

TEST(Url, IsTakenApart) {
  const Url url = *ParseUrl("http://example:8080/a/b/");
  EXPECT_FALSE(url.tls);
  EXPECT_EQ(url.host, "example");
  EXPECT_EQ(url.port, 8080);
  EXPECT_EQ(url.path, "/a/b");
  EXPECT_EQ(url.Authority(), "example:8080");
  EXPECT_EQ(url.ToString(), "http://example:8080/a/b");
}

TEST(Url, HasDefaults) {
  EXPECT_EQ(ParseUrl("http://h")->port, 80);
  EXPECT_EQ(ParseUrl("https://h/")->port, 443);
  EXPECT_EQ(ParseUrl("https://h/")->path, "");
}

TEST(Url, KnowsIpv6) {
  const Url url = *ParseUrl("https://[::1]:9/x");
  EXPECT_EQ(url.host, "::1");
  EXPECT_EQ(url.port, 9);
  EXPECT_EQ(url.Authority(), "[::1]:9");
}

TEST(Url, RefusesOthers) {
  for (const char* text : {"", "h:80", "ftp://h", "http://", "http://:80", "http://h:0", "http://h:70000", "http://h:x",
                           "http://u@h", "http://h?x", "http://h x", "http://[::1", "http://::1", "http://[::1]x"}) {
    EXPECT_FALSE(ParseUrl(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace hydrant
