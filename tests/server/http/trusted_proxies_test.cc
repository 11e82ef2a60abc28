#include "server/http/trusted_proxies.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hydrant {
namespace {

using Field = TrustedProxies::Field;

TrustedProxies Of(const std::vector<std::string>& list, Field field = Field::kXForwardedFor) {
  std::string wrong;
  const std::optional<TrustedProxies> proxies = TrustedProxies::Parse(list, field, &wrong);
  EXPECT_TRUE(proxies.has_value()) << wrong;
  return proxies.value_or(TrustedProxies());
}

HttpHead Head(const std::vector<std::string>& values, const char* name = "x-forwarded-for") {
  HttpHead head;
  for (const std::string& value : values) head.fields.push_back({name, value});
  return head;
}

TEST(TrustedProxies, AddressesAndNetworksOfBothFamilies) {
  const TrustedProxies proxies = Of({"10.1.2.3", "192.168.0.0/20", "2001:db8::/33", "::1", "172.16.0.0/12"});
  for (const char* trusted :
       {"10.1.2.3", "::ffff:10.1.2.3", "192.168.15.255", "2001:db8:7fff::1", "::1", "172.31.0.1"}) {
    EXPECT_TRUE(proxies.Trusts(trusted)) << trusted;
  }
  for (const char* other :
       {"10.1.2.4", "192.168.16.0", "2001:db8:8000::1", "::2", "172.32.0.1", "local", "", "10.1.2.3 "}) {
    EXPECT_FALSE(proxies.Trusts(other)) << other;
  }
  EXPECT_FALSE(TrustedProxies().Trusts("127.0.0.1"));
  EXPECT_TRUE(Of({"0.0.0.0/0"}).Trusts("8.8.8.8"));
  EXPECT_FALSE(Of({"0.0.0.0/0"}).Trusts("2001:db8::1"));
  EXPECT_TRUE(Of({"::/0"}).Trusts("8.8.8.8"));
}

TEST(TrustedProxies, WhatIsNoAddressIsNamed) {
  for (const char* text :
       {"*", "proxy.example", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/", "10.0.0/8", "::1/129", "10.0.0.1/8x", "/8"}) {
    std::string wrong;
    EXPECT_FALSE(TrustedProxies::Parse({"10.0.0.1", text}, Field::kXForwardedFor, &wrong).has_value()) << text;
    EXPECT_EQ(wrong, text);
  }
}

TEST(TrustedProxies, TheNearestThatIsNotTrustedIsTheClient) {
  const TrustedProxies proxies = Of({"10.0.0.0/8"});
  const auto client = [&](const std::vector<std::string>& values) {
    return proxies.ClientOf("10.0.0.1", Head(values));
  };
  EXPECT_EQ(client({"203.0.113.7"}), "203.0.113.7");
  EXPECT_EQ(client({"1.1.1.1, 203.0.113.7"}), "203.0.113.7") << "what stands before it, the client wrote";
  EXPECT_EQ(client({"1.1.1.1", "203.0.113.7, 10.0.0.2"}), "203.0.113.7") << "two fields are one list";
  EXPECT_EQ(client({"127.0.0.1, 203.0.113.7,10.9.9.9 , 10.0.0.2"}), "203.0.113.7");
  EXPECT_EQ(client({"10.0.0.3, 10.0.0.2"}), "10.0.0.3") << "all trusted: the farthest";
  EXPECT_EQ(client({}), "10.0.0.1");
  EXPECT_EQ(client({"203.0.113.7:4711"}), "203.0.113.7");
  EXPECT_EQ(client({"[2001:DB8::7]:4711"}), "2001:db8::7");
  EXPECT_EQ(client({"2001:db8:0::7"}), "2001:db8::7") << "one text for an address";
  EXPECT_EQ(client({"::ffff:203.0.113.7"}), "203.0.113.7");
  EXPECT_EQ(client({"\", 203.0.113.7"}), "203.0.113.7") << "this field knows no quotations";
}

TEST(TrustedProxies, AChainEndsAtWhatIsNoAddress) {
  const TrustedProxies proxies = Of({"10.0.0.0/8"});
  for (const char* value :
       {"unknown", "", ",", "203.0.113.7, unknown", "1.2.3.4.5", "[::1", "203.0.113.7\"", "a:b:c"}) {
    EXPECT_EQ(proxies.ClientOf("10.0.0.1", Head({value})), "10.0.0.1") << value;
  }
  EXPECT_EQ(proxies.ClientOf("10.0.0.1", Head({"203.0.113.7, junk, 10.0.0.2"})), "10.0.0.2");
}

TEST(TrustedProxies, WhoIsNotTrustedCannotChooseItsAddress) {
  const HttpHead head = Head({"203.0.113.7"});
  EXPECT_EQ(TrustedProxies().ClientOf("127.0.0.1", head), "127.0.0.1");
  EXPECT_EQ(Of({"10.0.0.0/8"}).ClientOf("11.0.0.1", head), "11.0.0.1");
  EXPECT_EQ(Of({"10.0.0.0/8"}).ClientOf("local", head), "local");
}

TEST(TrustedProxies, ForwardedIsReadInThePlaceOfTheOtherFieldNeverBesideIt) {
  const TrustedProxies proxies = Of({"10.0.0.0/8"}, Field::kForwarded);
  const auto client = [&](const std::vector<std::string>& values) {
    return proxies.ClientOf("10.0.0.1", Head(values, "forwarded"));
  };
  EXPECT_EQ(client({"for=203.0.113.7;proto=https;by=10.0.0.1"}), "203.0.113.7");
  EXPECT_EQ(client({"for=1.1.1.1, For=\"203.0.113.7:80\", proto=http ; for=10.0.0.2"}), "203.0.113.7");
  EXPECT_EQ(client({"for=\"[2001:db8:cafe::17]:4711\""}), "2001:db8:cafe::17");
  EXPECT_EQ(client({"for=203.0.113.7;by=\"a,b;c\\\",for=9.9.9.9\""}), "203.0.113.7") << "quoted";
  for (const char* value :
       {"for=\", for=203.0.113.7", "for=\"\\\", for=\"203.0.113.7:80\"", "a=\"b;c, for=203.0.113.7"}) {
    EXPECT_EQ(client({value}), "203.0.113.7") << "a quotation without an end swallows nothing: " << value;
  }
  for (const char* value :
       {"for=_hidden", "for=unknown", "by=203.0.113.7", "for=1.1.1.1;for=2.2.2.2", "for", "203.0.113.7"}) {
    EXPECT_EQ(client({value}), "10.0.0.1") << value;
  }
  EXPECT_EQ(proxies.ClientOf("10.0.0.1", Head({"203.0.113.7"})), "10.0.0.1");
  EXPECT_EQ(Of({"10.0.0.0/8"}).ClientOf("10.0.0.1", Head({"for=203.0.113.7"}, "forwarded")), "10.0.0.1");
}

}  // namespace
}  // namespace hydrant
