#include "server/http/connection_table.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace hydrant {
namespace {

using Places = std::vector<std::unique_ptr<ConnectionTable::Place>>;

Limits Cap(int32_t connections, int32_t per_address = 0) {
  Limits limits;
  limits.connections_max = connections;
  limits.connections_per_address_max = per_address;
  return limits;
}

TEST(ConnectionTable, NobodyGetsInAboveTheCap) {
  ConnectionTable table;
  Places places;
  for (int i = 0; i < 3; ++i) places.push_back(table.TryAdd("127.0.0.1", Cap(3)));
  EXPECT_NE(places.back(), nullptr);
  EXPECT_EQ(table.TryAdd("127.0.0.1", Cap(3)), nullptr);
  places.pop_back();
  EXPECT_EQ(table.size(), 2);
  EXPECT_NE(table.TryAdd("127.0.0.1", Cap(3)), nullptr);
}

TEST(ConnectionTable, ThereAreSparePlacesAndAnAddressHasAnEighthOfThem) {
  ConnectionTable table;
  Places places, spare;
  places.push_back(table.TryAdd("10.0.0.1", Cap(1)));
  EXPECT_FALSE(places.back()->spare());
  constexpr int32_t kPart = ConnectionTable::kSpare / 8;
  for (int32_t host = 1; host <= 8; ++host) {
    const std::string address = "10.0.0." + std::to_string(host);
    for (int32_t i = 0; i < kPart; ++i) spare.push_back(table.TryAddSpare(address, Cap(1)));
    ASSERT_NE(spare.back(), nullptr) << host;
    EXPECT_TRUE(spare.back()->spare());
    EXPECT_EQ(table.TryAddSpare(address, Cap(1)), nullptr);
  }
  EXPECT_EQ(table.TryAddSpare("10.0.0.9", Cap(1)), nullptr) << "that was all of them";
  EXPECT_EQ(table.size(), 1);
  spare.clear();
  for (int32_t i = 0; i < 4 * kPart; ++i) spare.push_back(table.TryAddSpare("10.0.0.1", Cap(1), /*proxy=*/true));
  EXPECT_NE(spare.back(), nullptr) << "behind a proxy there are many";
  EXPECT_EQ(table.TryAddSpare("10.0.0.1", Cap(1), /*proxy=*/true), nullptr);
  EXPECT_NE(table.TryAddSpare("10.0.0.9", Cap(1)), nullptr);
}

TEST(ConnectionTable, AnotherHostHasAQuarterAndAnIpv6HostIsItsNetwork) {
  ConnectionTable table;
  Places places;
  for (const char* address : {"10.0.0.1", "2001:db8::1"}) {
    for (int i = 0; i < 2; ++i) places.push_back(table.TryAdd(address, Cap(8)));
    EXPECT_NE(places.back(), nullptr);
    EXPECT_EQ(table.TryAdd(address, Cap(8)), nullptr) << address;
  }
  EXPECT_EQ(table.TryAdd("2001:db8::2", Cap(8)), nullptr);
  EXPECT_NE(table.TryAdd("2001:db8:0:1::1", Cap(8)), nullptr);
  EXPECT_NE(table.TryAdd("10.0.0.2", Cap(8)), nullptr);
  for (int i = 0; i < 3; ++i) places.push_back(table.TryAdd("local", Cap(8)));
  EXPECT_NE(places.back(), nullptr) << "this host's own are bounded by the cap alone";
}

TEST(ConnectionTable, AProxyHasAllAndEachOfItsClientsAQuarter) {
  ConnectionTable table;
  Places places, clients;
  for (int i = 0; i < 6; ++i) places.push_back(table.TryAdd("10.0.0.1", Cap(8), /*proxy=*/true));
  EXPECT_NE(places.back(), nullptr);
  for (const char* client : {"203.0.113.1", "127.0.0.1"}) {
    for (int i = 0; i < 2; ++i) clients.push_back(table.TryAddClient(client, Cap(8)));
    EXPECT_NE(clients.back(), nullptr);
    EXPECT_EQ(table.TryAddClient(client, Cap(8)), nullptr) << client;
  }
  EXPECT_EQ(table.size(), 6) << "a client's request is no connection more";
  EXPECT_EQ(table.TryAdd("203.0.113.1", Cap(8)), nullptr) << "directly it is the same address";
  clients.clear();
  EXPECT_NE(table.TryAddClient("203.0.113.1", Cap(8)), nullptr);
  EXPECT_NE(table.TryAdd("203.0.113.1", Cap(8)), nullptr);
}

TEST(ConnectionTable, ABoundThatWasGivenHoldsForEverybody) {
  ConnectionTable table;
  const auto place = table.TryAdd("127.0.0.1", Cap(8, 1));
  EXPECT_EQ(table.TryAdd("127.0.0.1", Cap(8, 1)), nullptr);
}

TEST(ConnectionTable, WhenItIsCrowdedTheLongestIdleIsAskedToGo) {
  ConnectionTable table;
  std::vector<int> asked;
  Places places;
  for (int i = 0; i < 8; ++i) {
    places.push_back(table.TryAdd("127.0.0.1", Cap(10)));
    places.back()->OnCrowded([&asked, i] { asked.push_back(i); });
  }
  EXPECT_TRUE(asked.empty());
  for (const size_t i : {5, 2, 7}) places[i]->SetIdle(true);
  places[5]->SetIdle(false);
  places[5]->SetIdle(true);  // now it is the newest
  places.push_back(table.TryAdd("127.0.0.1", Cap(10)));
  EXPECT_EQ(asked, (std::vector<int>{2}));
  places[7].reset();  // gone by itself
  places.push_back(table.TryAdd("127.0.0.1", Cap(10)));
  EXPECT_EQ(asked, (std::vector<int>{2, 5}));
  places.push_back(table.TryAdd("127.0.0.1", Cap(10)));
  EXPECT_NE(places.back(), nullptr);
  EXPECT_EQ(table.TryAdd("127.0.0.1", Cap(10)), nullptr) << "who was asked has not gone, and nobody is idle";
  EXPECT_EQ(asked.size(), 2u);
}

}  // namespace
}  // namespace hydrant
