#include "server/sessions/kv/kv_catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

namespace hydrant {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

SessionName NameOf(uint8_t number) {
  SessionName name{};
  name[0] = number;
  return name;
}

double Even(const std::string&) { return 1; }

// Who would go, by number; {255}: nobody makes enough room.
std::vector<int> LosersOf(const KvCatalogue& catalogue, const KvCatalogue::Newcomer& file, int64_t bytes_max,
                          int64_t tenant_bytes_max = 0, KvCatalogue::WeightOf weight_of = Even) {
  std::vector<SessionName> losers;
  if (!catalogue.MakeRoom(file, bytes_max, tenant_bytes_max, weight_of, &losers)) return {255};
  std::vector<int> numbers;
  for (const SessionName& name : losers) numbers.push_back(name[0]);
  return numbers;
}
std::vector<int> LosersOf(const KvCatalogue& catalogue, int64_t bytes, const std::string& tenant, int64_t bytes_max,
                          int64_t tenant_bytes_max = 0, KvCatalogue::WeightOf weight_of = Even) {
  return LosersOf(catalogue, {bytes, tenant, NameOf(254), /*goes_on=*/false}, bytes_max, tenant_bytes_max, weight_of);
}

TEST(KvCatalogue, TheOneUsedLeastRecentlyGoesFirst) {
  KvCatalogue catalogue;
  catalogue.Put(NameOf(1), {7, 10, 300, "a"});
  catalogue.Put(NameOf(2), {7, 10, 100, "a"});
  catalogue.Put(NameOf(3), {7, 10, 200, "a"});
  EXPECT_EQ(catalogue.bytes(), 30);
  EXPECT_THAT(LosersOf(catalogue, 10, "a", 40), IsEmpty());
  EXPECT_THAT(LosersOf(catalogue, 11, "a", 40), ElementsAre(2));
  EXPECT_THAT(LosersOf(catalogue, 25, "a", 40), ElementsAre(2, 3));
  EXPECT_THAT(LosersOf(catalogue, 41, "a", 40), ElementsAre(255));
  catalogue.Put(NameOf(2), {8, 5, 400, "a"});  // it was used again
  EXPECT_EQ(catalogue.bytes(), 25);
  EXPECT_EQ(catalogue.Find(NameOf(2))->turn, 8u);
  EXPECT_THAT(LosersOf(catalogue, 16, "a", 40), ElementsAre(3));
  catalogue.Remove(NameOf(3));
  catalogue.Remove(NameOf(3));
  EXPECT_EQ(catalogue.Find(NameOf(3)), nullptr);
  EXPECT_EQ(catalogue.bytes(), 15);
  EXPECT_EQ(catalogue.size(), 2);
}

TEST(KvCatalogue, ATenantWithALimitOfItsOwnPushesOutNobodyElse) {
  KvCatalogue catalogue;
  catalogue.Put(NameOf(1), {1, 10, 100, "b"});  // the oldest of all
  catalogue.Put(NameOf(2), {1, 10, 200, "a"});
  catalogue.Put(NameOf(3), {1, 10, 300, "a"});
  EXPECT_THAT(LosersOf(catalogue, 10, "a", 1000, 25), ElementsAre(2));
  EXPECT_THAT(LosersOf(catalogue, 26, "a", 1000, 25), ElementsAre(255)) << "more than it may ever have";
  EXPECT_THAT(LosersOf(catalogue, 25, "a", 1000, 25), ElementsAre(2, 3));
  EXPECT_THAT(LosersOf(catalogue, 10, "c", 1000, 25), IsEmpty()) << "its first";
}

TEST(KvCatalogue, WhoeverHasTheMostForTheWeightGivesWay) {
  KvCatalogue catalogue;
  // B has been there for long and keeps to its share; A floods.
  for (uint8_t i = 0; i < 4; ++i) catalogue.Put(NameOf(i), {1, 10, i, "b"});
  for (uint8_t i = 10; i < 16; ++i) catalogue.Put(NameOf(i), {1, 10, 100 + i, "a"});
  EXPECT_THAT(LosersOf(catalogue, 10, "a", 100), ElementsAre(10));
  EXPECT_THAT(LosersOf(catalogue, 10, "b", 100), ElementsAre(10)) << "B has 50 of 100 then";
  const auto weight_of = [](const std::string& tenant) { return tenant == "a" ? 4.0 : 1.0; };
  EXPECT_THAT(LosersOf(catalogue, 10, "a", 100, 0, weight_of), ElementsAre(0)) << "A may have four parts of five";
}

TEST(KvCatalogue, FilesThatAreGoneOnFromAreTheLastOfTheirTenantToGoAndThoseThatAreReplacedTheFirst) {
  KvCatalogue catalogue;
  catalogue.Put(NameOf(1), {7, 10, 100, "a"});
  catalogue.Put(NameOf(2), {7, 10, 200, "a"});
  catalogue.Put(NameOf(3), {7, 10, 300, "b"});
  catalogue.Put(NameOf(4), {7, 10, 400, "b"});
  const auto losers = [&](uint8_t session, bool goes_on, int64_t bytes, int64_t bytes_max, int64_t tenant_max = 0) {
    return LosersOf(catalogue, {bytes, session < 3 ? "a" : "b", NameOf(session), goes_on}, bytes_max, tenant_max);
  };
  EXPECT_THAT(losers(1, true, 5, 40), ElementsAre(2)) << "1 was used longest ago, by its last turn";
  EXPECT_THAT(losers(1, true, 5, 100, 24), ElementsAre(2));
  EXPECT_THAT(losers(1, true, 5, 100, 8), ElementsAre(2, 1)) << "there is no other way";
  EXPECT_THAT(losers(1, true, 15, 40), ElementsAre(2, 1)) << "nobody within a share gives way for it";
  EXPECT_THAT(losers(1, true, 5, 100), IsEmpty());
  EXPECT_THAT(losers(2, false, 10, 40), ElementsAre(2)) << "what is replaced does not count twice";
  EXPECT_THAT(losers(2, false, 10, 100, 20), ElementsAre(2));
  EXPECT_THAT(losers(4, false, 15, 40), ElementsAre(4, 3));
  EXPECT_THAT(losers(4, false, 10, 100), IsEmpty());
}

TEST(KvCatalogue, OneLargeFileTakesNothingFromThoseWithinTheirShare) {
  KvCatalogue catalogue;
  for (uint8_t i = 0; i < 4; ++i) catalogue.Put(NameOf(i), {1, 10, i, "b"});
  EXPECT_THAT(LosersOf(catalogue, 90, "a", 100), ElementsAre(255)) << "A has nothing to lose";
  std::vector<SessionName> losers;
  catalogue.Put(NameOf(10), {1, 20, 10, "a"});
  EXPECT_FALSE(catalogue.MakeRoom({90, "a", NameOf(10), /*goes_on=*/false}, 100, 0, Even, &losers));
  EXPECT_THAT(losers, IsEmpty()) << "nor does it lose what it has for nothing";
  EXPECT_THAT(LosersOf(catalogue, 60, "a", 100), ElementsAre(10)) << "its own are enough";
  EXPECT_THAT(LosersOf(catalogue, 45, "c", 70), ElementsAre(255));
  EXPECT_THAT(LosersOf(catalogue, 25, "c", 80), ElementsAre(0)) << "B has more";
}

// A flood of ten times the room: whoever stays within a share loses nothing, whatever the order.
TEST(KvCatalogue, AFloodTakesNothingFromThoseWithinTheirShare) {
  std::mt19937 random(3);
  KvCatalogue catalogue;
  constexpr int64_t kRoom = 1000;
  std::map<int, bool> b_has;
  int b_lost = 0;
  for (int i = 0; i < 2000; ++i) {
    const bool floods = random() % 10 != 0;
    const auto bytes = static_cast<int64_t>(1 + random() % 20);
    const std::string tenant = floods ? "a" : "b";
    // B has 20 sessions that take 400 at most.
    SessionName name = NameOf(static_cast<uint8_t>(floods ? 100 : random() % 20));
    if (floods) name[1] = static_cast<uint8_t>(random()), name[2] = static_cast<uint8_t>(random());
    std::vector<SessionName> losers;
    ASSERT_TRUE(catalogue.MakeRoom({bytes, tenant, name, /*goes_on=*/false}, kRoom, 0, Even, &losers));
    for (const SessionName& loser : losers) {
      b_lost += loser != name && catalogue.Find(loser)->tenant == "b" ? 1 : 0;  // else it is replaced
      catalogue.Remove(loser);
    }
    catalogue.Put(name, {static_cast<uint64_t>(i + 1), bytes, i, tenant});
    ASSERT_LE(catalogue.bytes(), kRoom);
  }
  EXPECT_EQ(b_lost, 0);
}

}  // namespace
}  // namespace hydrant
