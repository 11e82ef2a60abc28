#include "scheduler/parked_sessions.h"

#include <gtest/gtest.h>

#include <vector>

namespace hydrant {
namespace {

std::vector<uint64_t> Dropped(const ParkedSessions& sessions) {
  return {sessions.dropped().begin(), sessions.dropped().end()};
}

double Equal(int32_t) { return 1; }

// A turn of `session` by `tenant`.
ParkedCounts Kv(int32_t computed, int32_t live, int32_t tenant = 0) {
  return {.turn = 1, .tenant = tenant, .computed = computed, .live = live};
}

TEST(ParkedSessions, RemembersHowMuchIsParkedForHowManyTokens) {
  ParkedSessions sessions(10);
  EXPECT_EQ(sessions.Find(1), nullptr);
  ASSERT_TRUE(sessions.Put(1, Kv(100, 33), Equal));
  ASSERT_NE(sessions.Find(1), nullptr);
  EXPECT_EQ(sessions.Find(1)->computed, 100);
  EXPECT_EQ(sessions.Find(1)->live, 33);
  EXPECT_EQ(sessions.blocks(), 3);
  ASSERT_TRUE(sessions.Put(1, Kv(120, 16), Equal)) << "the next turn takes the place of the last";
  EXPECT_EQ(sessions.blocks(), 1);
  EXPECT_EQ(sessions.size(), 1);
  EXPECT_TRUE(sessions.dropped().empty());
}

TEST(ParkedSessions, TheLeastRecentlyUsedMakesRoom) {
  ParkedSessions sessions(6);
  for (uint64_t session = 1; session <= 3; ++session) ASSERT_TRUE(sessions.Put(session, Kv(50, 32), Equal));
  sessions.Use(1);
  ASSERT_TRUE(sessions.Put(4, Kv(50, 17), Equal));
  EXPECT_EQ(Dropped(sessions), std::vector<uint64_t>{2});
  EXPECT_EQ(sessions.lost(), 1u);
  ASSERT_TRUE(sessions.Put(4, Kv(90, 96), Equal)) << "all of it for one";
  EXPECT_EQ(sessions.size(), 1);
  EXPECT_EQ(sessions.blocks(), 6);
  sessions.ClearDropped();
  EXPECT_TRUE(sessions.dropped().empty());
}

TEST(ParkedSessions, WhoHasTheMostForItsWeightGivesWay) {
  ParkedSessions sessions(10);
  for (uint64_t session = 1; session <= 3; ++session) ASSERT_TRUE(sessions.Put(session, Kv(50, 16, 0), Equal));
  for (uint64_t session = 100; session < 200; ++session) {
    ASSERT_TRUE(sessions.Put(session, Kv(50, 16, 1), Equal));
  }
  for (uint64_t session = 1; session <= 3; ++session) EXPECT_NE(sessions.Find(session), nullptr) << session;
  EXPECT_EQ(sessions.size(), 10);
  EXPECT_EQ(sessions.Find(192), nullptr);
  EXPECT_NE(sessions.Find(193), nullptr);
  const auto weight_of = [](int32_t tenant) { return tenant == 0 ? 1.0 : 9.0; };
  ASSERT_TRUE(sessions.Put(200, Kv(50, 16, 1), weight_of));
  EXPECT_EQ(sessions.Find(1), nullptr) << "3 blocks of weight 1 are more than 8 of weight 9";
}

TEST(ParkedSessions, WhatIsPinnedStays) {
  ParkedSessions sessions(4);
  ASSERT_TRUE(sessions.Put(1, Kv(50, 32), Equal));
  ASSERT_TRUE(sessions.Put(2, Kv(50, 32), Equal));
  sessions.Pin(1);
  sessions.Pin(1);
  ASSERT_TRUE(sessions.Put(3, Kv(50, 32), Equal));
  EXPECT_EQ(Dropped(sessions), std::vector<uint64_t>{2}) << "1 was used less recently";
  EXPECT_FALSE(sessions.Put(4, Kv(50, 48), Equal)) << "there is not so much without a pin";
  EXPECT_NE(sessions.Find(3), nullptr) << "and then nobody loses anything";
  EXPECT_FALSE(sessions.Put(1, Kv(60, 16), Equal)) << "somebody counts on what is there";
  sessions.Drop(1);
  EXPECT_NE(sessions.Find(1), nullptr);
  sessions.Unpin(1);
  EXPECT_NE(sessions.Find(1), nullptr);
  sessions.Use(1);
  sessions.Unpin(1);
  EXPECT_EQ(sessions.Find(1), nullptr) << "dropped while it was pinned";
  EXPECT_EQ(sessions.blocks(), 2);
  EXPECT_TRUE(sessions.Put(4, Kv(50, 32), Equal));
  EXPECT_EQ(sessions.size(), 2);
}

TEST(ParkedSessions, ATenantPinsWhatItMayOrOneSession) {
  ParkedSessions sessions(12);
  for (uint64_t session = 1; session <= 4; ++session) ASSERT_TRUE(sessions.Put(session, Kv(50, 32, 0), Equal));
  ASSERT_TRUE(sessions.Put(5, Kv(50, 64, 1), Equal));
  EXPECT_TRUE(sessions.CanPin(5, 3)) << "its first, of 4 blocks";
  sessions.Pin(5);
  EXPECT_TRUE(sessions.CanPin(5, 3)) << "once more is no more";
  EXPECT_TRUE(sessions.CanPin(1, 4)) << "the other tenant has none yet";
  sessions.Pin(1);
  EXPECT_TRUE(sessions.CanPin(2, 4));
  sessions.Pin(2);
  EXPECT_FALSE(sessions.CanPin(3, 4));
  EXPECT_FALSE(sessions.CanPin(3, 5));
  EXPECT_TRUE(sessions.CanPin(3, 6));
  ASSERT_TRUE(sessions.Put(6, Kv(50, 64, 1), Equal)) << "who queues turns for all it has parked leaves room for others";
  EXPECT_EQ(Dropped(sessions), (std::vector<uint64_t>{3, 4}));
  sessions.Unpin(1);
  EXPECT_FALSE(sessions.CanPin(1, 3));
  sessions.Unpin(2);
  EXPECT_TRUE(sessions.CanPin(1, 0));
}

TEST(ParkedSessions, WhatCanNeverFitChangesNothing) {
  ParkedSessions sessions(2);
  ASSERT_TRUE(sessions.Put(1, Kv(50, 32), Equal));
  EXPECT_FALSE(sessions.Put(1, Kv(60, 33), Equal));
  EXPECT_FALSE(sessions.Put(2, Kv(60, 33), Equal));
  ASSERT_NE(sessions.Find(1), nullptr);
  EXPECT_EQ(sessions.Find(1)->computed, 50);
  EXPECT_FALSE(ParkedSessions(0).Put(1, Kv(5, 1), Equal));
}

TEST(ParkedSessions, ADropIsForTheExecutorToSee) {
  ParkedSessions sessions(5);
  ASSERT_TRUE(sessions.Put(1, Kv(50, 32), Equal));
  sessions.Drop(2);
  EXPECT_TRUE(sessions.dropped().empty());
  sessions.Drop(1);
  EXPECT_EQ(Dropped(sessions), std::vector<uint64_t>{1});
  EXPECT_EQ(sessions.blocks(), 0);
  EXPECT_EQ(sessions.lost(), 0u) << "nobody had to make room";
}

}  // namespace
}  // namespace hydrant
