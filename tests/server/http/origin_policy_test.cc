#include "server/http/origin_policy.h"

#include <gtest/gtest.h>

namespace hydrant {
namespace {

TEST(OriginPolicy, AHostIsOursOrALoopbackNameOrAllowed) {
  const OriginPolicy local("127.0.0.1", {"gateway.example"}, {});
  const OriginPolicy named("model.example", {}, {});
  const OriginPolicy everywhere("0.0.0.0", {}, {});
  const OriginPolicy open("127.0.0.1", {"*"}, {});
  const struct {
    const char* host;
    bool local, named, everywhere;
  } cases[] = {
      {"", true, true, true},  // HTTP/1.0
      {"127.0.0.1", true, true, true},
      {"127.0.0.1:8000", true, true, true},
      {"127.8.9.10:8000", true, true, true},
      {"localhost:1", true, true, true},
      {"LOCALHOST", true, true, true},
      {"[::1]:8000", true, true, true},
      {"::1", true, true, true},
      {"model.example:80", false, true, false},
      {"Model.Example", false, true, false},
      {"gateway.example:99", true, false, false},
      {"10.0.0.7:8000", false, false, true},  // an address cannot be rebound
      {"[fe80::1]:8000", false, false, true},
      {"evil.example", false, false, false},
      {"127.0.0.1.evil.example", false, false, false},
      {"localhost.evil.example:8000", false, false, false},
      {"a/v1?x", false, false, false},
      {"[::1", true, true, true},
  };
  for (const auto& test : cases) {
    EXPECT_EQ(local.AdmitsHost(test.host), test.local) << test.host;
    EXPECT_EQ(named.AdmitsHost(test.host), test.named) << test.host;
    EXPECT_EQ(everywhere.AdmitsHost(test.host), test.everywhere) << test.host;
    EXPECT_TRUE(open.AdmitsHost(test.host)) << test.host;
  }
}

TEST(OriginPolicy, AnOriginIsTheHostItTalksToOrAllowed) {
  const OriginPolicy policy("127.0.0.1", {}, {"https://ui.example"});
  const OriginPolicy open("127.0.0.1", {}, {"*"});
  const struct {
    const char* origin;
    const char* host;
    bool admitted;
  } cases[] = {
      {"http://127.0.0.1:8000", "127.0.0.1:8000", true},
      {"http://LocalHost:8000", "localhost:8000", true},
      {"https://ui.example", "127.0.0.1:8000", true},
      {"http://ui.example", "127.0.0.1:8000", false},
      {"http://127.0.0.1:9000", "127.0.0.1:8000", false},
      {"http://127.0.0.1", "127.0.0.1:8000", false},
      {"http://evil.example", "127.0.0.1:8000", false},
      {"null", "127.0.0.1:8000", false},
      {"null", "null", false},
      {"", "", false},
  };
  for (const auto& test : cases) {
    EXPECT_EQ(policy.AdmitsOrigin(test.origin, test.host), test.admitted) << test.origin << " at " << test.host;
    EXPECT_TRUE(open.AdmitsOrigin(test.origin, test.host));
  }
}

TEST(OriginPolicy, LoopbackIsThatNetworkOnly) {
  for (const char* host : {"127.0.0.1", "127.255.255.254", "localhost", "::1", "[::1]"}) {
    EXPECT_TRUE(OriginPolicy::IsLoopback(host)) << host;
  }
  for (const char* host : {"0.0.0.0", "::", "128.0.0.1", "10.0.0.1", "example", "127.0.0.1.example", ""}) {
    EXPECT_FALSE(OriginPolicy::IsLoopback(host)) << host;
  }
}

TEST(OriginPolicy, WhatFollowsABracketIsAPortOrTheWholeIsNoAddress) {
  const OriginPolicy policy("127.0.0.1", {}, {});
  EXPECT_TRUE(policy.AdmitsHost("[::1]"));
  EXPECT_TRUE(policy.AdmitsHost("[::1]:8000"));
  for (const char* host : {"[::1].evil.example", "[::1]x", "[::1]:8000x", "[::1]]"}) {
    EXPECT_FALSE(policy.AdmitsHost(host)) << host;
  }
}

}  // namespace
}  // namespace hydrant
