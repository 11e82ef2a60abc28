#include "scheduler/parked_sessions.h"

#include <gtest/gtest.h>

#include <vector>

namespace hydrant {
namespace {

std::vector<uint64_t> Dropped(const ParkedSessions& sessions) {
  return {sessions.dropped().begin(), sessions.dropped().end()};
}

TEST(ParkedSessions, RemembersHowMuchIsParkedForHowManyTokens) {
  ParkedSessions sessions(10);
  EXPECT_EQ(sessions.Find(1), nullptr);
  ASSERT_TRUE(sessions.Put(1, 100, 33));
  ASSERT_NE(sessions.Find(1), nullptr);
  EXPECT_EQ(sessions.Find(1)->computed, 100);
  EXPECT_EQ(sessions.Find(1)->live, 33);
  EXPECT_EQ(sessions.blocks(), 3);
  ASSERT_TRUE(sessions.Put(1, 120, 16)) << "the next turn takes the place of the last";
  EXPECT_EQ(sessions.blocks(), 1);
  EXPECT_EQ(sessions.size(), 1);
  EXPECT_TRUE(sessions.dropped().empty());
}

TEST(ParkedSessions, TheLeastRecentlyUsedMakesRoom) {
  ParkedSessions sessions(6);
  for (uint64_t session = 1; session <= 3; ++session) ASSERT_TRUE(sessions.Put(session, 50, 32));
  sessions.Use(1);
  ASSERT_TRUE(sessions.Put(4, 50, 17));
  EXPECT_EQ(Dropped(sessions), std::vector<uint64_t>{2});
  EXPECT_EQ(sessions.lost(), 1u);
  ASSERT_TRUE(sessions.Put(4, 90, 96)) << "all of it for one";
  EXPECT_EQ(sessions.size(), 1);
  EXPECT_EQ(sessions.blocks(), 6);
  sessions.ClearDropped();
  EXPECT_TRUE(sessions.dropped().empty());
}

TEST(ParkedSessions, WhatCanNeverFitChangesNothing) {
  ParkedSessions sessions(2);
  ASSERT_TRUE(sessions.Put(1, 50, 32));
  EXPECT_FALSE(sessions.Put(1, 60, 33));
  EXPECT_FALSE(sessions.Put(2, 60, 33));
  ASSERT_NE(sessions.Find(1), nullptr);
  EXPECT_EQ(sessions.Find(1)->computed, 50);
  EXPECT_FALSE(ParkedSessions(0).Put(1, 5, 1));
}

TEST(ParkedSessions, ADropIsForTheExecutorToSee) {
  ParkedSessions sessions(5);
  ASSERT_TRUE(sessions.Put(1, 50, 32));
  sessions.Drop(2);
  EXPECT_TRUE(sessions.dropped().empty());
  sessions.Drop(1);
  EXPECT_EQ(Dropped(sessions), std::vector<uint64_t>{1});
  EXPECT_EQ(sessions.blocks(), 0);
  EXPECT_EQ(sessions.lost(), 0u) << "nobody had to make room";
}

}  // namespace
}  // namespace hydrant
