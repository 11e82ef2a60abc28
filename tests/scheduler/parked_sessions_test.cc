#include "scheduler/parked_sessions.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace hydrant {
namespace {

// By session.
std::vector<uint64_t> Dropped(const ParkedSessions& sessions) {
  std::vector<uint64_t> dropped;
  for (const TurnId& id : sessions.dropped()) dropped.push_back(id.session);
  return dropped;
}

double Equal(int32_t) { return 1; }

// What turn 1 of `session` left, or another turn.
ParkedCounts Kv(uint64_t session, int32_t computed, int32_t live, int32_t tenant = 0, uint64_t turn = 1) {
  return {.id = {session, turn}, .tenant = tenant, .computed = computed, .live = live};
}

TEST(ParkedSessions, RemembersHowMuchIsParkedForHowManyTokens) {
  ParkedSessions sessions(10);
  EXPECT_EQ(sessions.Newest(1), nullptr);
  ASSERT_TRUE(sessions.Put(Kv(1, 100, 33), Equal));
  ASSERT_NE(sessions.Newest(1), nullptr);
  EXPECT_EQ(sessions.Newest(1)->computed, 100);
  EXPECT_EQ(sessions.Newest(1)->live, 33);
  EXPECT_EQ(sessions.blocks(), 3);
  ASSERT_TRUE(sessions.Put(Kv(1, 120, 16, 0, /*turn=*/2), Equal));
  EXPECT_EQ(sessions.blocks(), 4) << "beside the turn before";
  EXPECT_EQ(sessions.size(), 1);
  EXPECT_TRUE(sessions.dropped().empty());
}

TEST(ParkedSessions, TheLeastRecentlyUsedMakesRoom) {
  ParkedSessions sessions(6);
  for (uint64_t session = 1; session <= 3; ++session) ASSERT_TRUE(sessions.Put(Kv(session, 50, 32), Equal));
  sessions.Use({1, 1});
  ASSERT_TRUE(sessions.Put(Kv(4, 50, 17), Equal));
  EXPECT_EQ(Dropped(sessions), std::vector<uint64_t>{2});
  EXPECT_EQ(sessions.lost(), 1u);
  ASSERT_TRUE(sessions.Put(Kv(4, 90, 96, 0, /*turn=*/2), Equal)) << "all of it for one";
  EXPECT_EQ(sessions.size(), 1);
  EXPECT_EQ(sessions.blocks(), 6);
  sessions.ClearDropped();
  EXPECT_TRUE(sessions.dropped().empty());
}

TEST(ParkedSessions, WhoHasTheMostForItsWeightGivesWay) {
  ParkedSessions sessions(10);
  for (uint64_t session = 1; session <= 3; ++session) ASSERT_TRUE(sessions.Put(Kv(session, 50, 16, 0), Equal));
  for (uint64_t session = 100; session < 200; ++session) {
    ASSERT_TRUE(sessions.Put(Kv(session, 50, 16, 1), Equal));
  }
  for (uint64_t session = 1; session <= 3; ++session) EXPECT_NE(sessions.Newest(session), nullptr) << session;
  EXPECT_EQ(sessions.size(), 10);
  EXPECT_EQ(sessions.Newest(192), nullptr);
  EXPECT_NE(sessions.Newest(193), nullptr);
  const auto weight_of = [](int32_t tenant) { return tenant == 0 ? 1.0 : 9.0; };
  ASSERT_TRUE(sessions.Put(Kv(200, 50, 16, 1), weight_of));
  EXPECT_EQ(sessions.Newest(1), nullptr) << "3 blocks of weight 1 are more than 8 of weight 9";
}

TEST(ParkedSessions, WhatComesBackIsParkedAsIfItHadNeverGone) {
  ParkedSessions sessions(4);
  ASSERT_TRUE(sessions.Put(Kv(1, 50, 32), Equal));
  ASSERT_TRUE(sessions.Put(Kv(2, 50, 48), Equal));
  EXPECT_EQ(Dropped(sessions), std::vector<uint64_t>{1});
  ASSERT_TRUE(sessions.Adopt(Kv(1, 50, 32), Equal));
  EXPECT_EQ(Dropped(sessions), std::vector<uint64_t>{2}) << "the executor must not forget what it was just given";
  ASSERT_TRUE(sessions.Adopt(Kv(1, 50, 32), Equal)) << "it is there";
  EXPECT_EQ(sessions.blocks(), 2);
  EXPECT_EQ(sessions.size(), 1);
  ASSERT_TRUE(sessions.Put(Kv(3, 50, 32, 0, /*turn=*/2), Equal));
  EXPECT_FALSE(sessions.Adopt(Kv(3, 50, 16), Equal)) << "the session has a newer turn";
  EXPECT_FALSE(sessions.Adopt(Kv(4, 100, 80), Equal)) << "more than there is room for";
  sessions.Pin({1, 1});
  sessions.Pin({3, 2});
  EXPECT_FALSE(sessions.Adopt(Kv(5, 50, 16), Equal)) << "what is pinned stays";
}

TEST(ParkedSessions, WhatIsPinnedStays) {
  ParkedSessions sessions(4);
  ASSERT_TRUE(sessions.Put(Kv(1, 50, 32), Equal));
  ASSERT_TRUE(sessions.Put(Kv(2, 50, 32), Equal));
  sessions.Pin({1, 1});
  sessions.Pin({1, 1});
  ASSERT_TRUE(sessions.Put(Kv(3, 50, 32), Equal));
  EXPECT_EQ(Dropped(sessions), std::vector<uint64_t>{2}) << "1 was used less recently";
  EXPECT_FALSE(sessions.Put(Kv(4, 50, 48), Equal)) << "there is not so much without a pin";
  EXPECT_NE(sessions.Newest(3), nullptr) << "and then nobody loses anything";
  sessions.Drop({1, 1});
  EXPECT_NE(sessions.Newest(1), nullptr);
  sessions.Unpin({1, 1});
  EXPECT_NE(sessions.Newest(1), nullptr);
  sessions.Use({1, 1});
  sessions.Unpin({1, 1});
  EXPECT_EQ(sessions.Newest(1), nullptr) << "dropped while it was pinned";
  EXPECT_EQ(sessions.blocks(), 2);
  EXPECT_TRUE(sessions.Put(Kv(4, 50, 32), Equal));
  EXPECT_EQ(sessions.size(), 2);
}

TEST(ParkedSessions, ATenantPinsWhatItMayOrOneSession) {
  ParkedSessions sessions(12);
  for (uint64_t session = 1; session <= 4; ++session) ASSERT_TRUE(sessions.Put(Kv(session, 50, 32, 0), Equal));
  ASSERT_TRUE(sessions.Put(Kv(5, 50, 64, 1), Equal));
  EXPECT_TRUE(sessions.CanPin({5, 1}, 3)) << "its first, of 4 blocks";
  sessions.Pin({5, 1});
  EXPECT_TRUE(sessions.CanPin({5, 1}, 3)) << "once more is no more";
  EXPECT_TRUE(sessions.CanPin({1, 1}, 4)) << "the other tenant has none yet";
  sessions.Pin({1, 1});
  EXPECT_TRUE(sessions.CanPin({2, 1}, 4));
  sessions.Pin({2, 1});
  EXPECT_FALSE(sessions.CanPin({3, 1}, 4));
  EXPECT_FALSE(sessions.CanPin({3, 1}, 5));
  EXPECT_TRUE(sessions.CanPin({3, 1}, 6));
  ASSERT_TRUE(sessions.Put(Kv(6, 50, 64, 2), Equal)) << "who queues turns for all it has parked leaves room for others";
  EXPECT_EQ(Dropped(sessions), (std::vector<uint64_t>{3, 4}));
  sessions.Unpin({1, 1});
  EXPECT_FALSE(sessions.CanPin({1, 1}, 3));
  sessions.Unpin({2, 1});
  EXPECT_TRUE(sessions.CanPin({1, 1}, 0));
}

TEST(ParkedSessions, OneLargeSessionTakesNothingFromThoseWithinTheirShare) {
  ParkedSessions sessions(100);
  for (uint64_t session = 1; session <= 4; ++session) ASSERT_TRUE(sessions.Put(Kv(session, 160, 160, 1), Equal));
  EXPECT_FALSE(sessions.Put(Kv(5, 1440, 1440, 0), Equal)) << "it would have the most, and has nothing to lose";
  EXPECT_EQ(sessions.blocks(), 40);
  ASSERT_TRUE(sessions.Put(Kv(5, 960, 960, 0), Equal)) << "there is room";
  EXPECT_FALSE(sessions.Put(Kv(5, 976, 976, 0, /*turn=*/2), Equal)) << "nor is the session's turn before enough";
  EXPECT_NE(sessions.Find({5, 1}), nullptr);
  ASSERT_TRUE(sessions.Put(Kv(6, 160, 160, 1), Equal));
  EXPECT_EQ(Dropped(sessions), std::vector<uint64_t>{5});
  ASSERT_TRUE(sessions.Put(Kv(7, 640, 640, 0), Equal)) << "the other one has more";
  EXPECT_EQ(Dropped(sessions), std::vector<uint64_t>{5});
}

// Whoever stays within a share loses nothing, whatever the order and however large what the others park is.
TEST(ParkedSessions, AFloodOfAnySizeTakesNothingFromThoseWithinTheirShare) {
  std::mt19937 random(3);
  ParkedSessions sessions(100);
  std::map<uint64_t, uint64_t> turns;  // of tenant 1, which has 5 sessions of 10 blocks at most, by session
  for (uint64_t turn = 1; turn <= 2000; ++turn) {
    const bool floods = random() % 2 == 0;
    const uint64_t session = floods ? 10 + random() % 5 : random() % 5;
    const auto blocks = static_cast<int32_t>(1 + random() % (floods ? 100 : 10));
    const bool parked = sessions.Put(Kv(session, 16 * blocks, 16 * blocks, floods ? 0 : 1, turn), Equal);
    sessions.Settle({session, turn}, /*keep=*/true);
    ASSERT_TRUE(parked || floods);
    if (!floods) turns[session] = turn;
    for (const auto& [own, newest] : turns) ASSERT_NE(sessions.Find({own, newest}), nullptr);
    ASSERT_LE(sessions.blocks(), 100);
  }
}

TEST(ParkedSessions, WhatATenantPinsBeyondItsShareLeavesRoomForOthers) {
  ParkedSessions sessions(100);
  ASSERT_TRUE(sessions.Put(Kv(1, 1440, 1440, 0), Equal));
  EXPECT_TRUE(sessions.CanPin({1, 1}, 50)) << "nobody else has anything";
  sessions.Pin({1, 1});
  ASSERT_TRUE(sessions.Put(Kv(2, 160, 160, 1), Equal));
  sessions.Unpin({1, 1});
  EXPECT_FALSE(sessions.CanPin({1, 1}, 50));
  ASSERT_TRUE(sessions.Put(Kv(3, 160, 160, 1), Equal));
  EXPECT_EQ(Dropped(sessions), std::vector<uint64_t>{1});
  ASSERT_TRUE(sessions.Put(Kv(4, 640, 640, 0), Equal));
  EXPECT_TRUE(sessions.CanPin({4, 1}, 33)) << "as much is left";
}

TEST(ParkedSessions, SaysWhetherPinsAloneAreInTheWay) {
  ParkedSessions sessions(4);
  ASSERT_TRUE(sessions.Put(Kv(1, 50, 32), Equal));
  EXPECT_FALSE(sessions.HasRoomOncePinsAreGone(48)) << "it has now: what is not pinned goes";
  sessions.Pin({1, 1});
  EXPECT_TRUE(sessions.HasRoomOncePinsAreGone(33));
  EXPECT_FALSE(sessions.HasRoomOncePinsAreGone(32));
  EXPECT_FALSE(sessions.HasRoomOncePinsAreGone(65)) << "it never will";
}

TEST(ParkedSessions, WhatCanNeverFitChangesNothing) {
  ParkedSessions sessions(2);
  ASSERT_TRUE(sessions.Put(Kv(1, 50, 32), Equal));
  EXPECT_FALSE(sessions.Put(Kv(1, 60, 33), Equal));
  EXPECT_FALSE(sessions.Put(Kv(2, 60, 33), Equal));
  ASSERT_NE(sessions.Newest(1), nullptr);
  EXPECT_EQ(sessions.Newest(1)->computed, 50);
  EXPECT_FALSE(ParkedSessions(0).Put(Kv(1, 5, 1), Equal));
}

TEST(ParkedSessions, ATurnIsBesideTheOneBeforeUntilItIsSettled) {
  for (const bool keep : {true, false}) {
    ParkedSessions sessions(10);
    ASSERT_TRUE(sessions.Put(Kv(1, 50, 32), Equal));
    ASSERT_TRUE(sessions.Put(Kv(2, 50, 32), Equal));
    ASSERT_TRUE(sessions.Put(Kv(1, 80, 48, 0, /*turn=*/2), Equal));
    EXPECT_EQ(sessions.blocks(), 7) << "both count";
    EXPECT_EQ(sessions.Find({1, 1})->computed, 50);
    EXPECT_EQ(sessions.Find({1, 2})->computed, 80);
    EXPECT_TRUE(sessions.dropped().empty());
    sessions.Settle({1, 2}, keep);
    EXPECT_EQ(sessions.Find({1, 1}) == nullptr, keep);
    EXPECT_EQ(sessions.Find({1, 2}) != nullptr, keep);
    EXPECT_EQ(sessions.blocks(), keep ? 5 : 4);
    EXPECT_EQ(sessions.size(), 2);
    ASSERT_EQ(sessions.dropped().size(), 1u);
    EXPECT_EQ(sessions.dropped()[0], (TurnId{1, keep ? 1u : 2u}));
    EXPECT_NE(sessions.Find({2, 1}), nullptr);
    EXPECT_EQ(sessions.lost(), 0u);
  }
}

TEST(ParkedSessions, ATurnThatIsNotParkedIsSettledAllTheSame) {
  ParkedSessions sessions(3);
  ASSERT_TRUE(sessions.Put(Kv(1, 50, 32), Equal));
  EXPECT_FALSE(sessions.Put(Kv(1, 80, 64, 0, /*turn=*/2), Equal));
  sessions.Settle({1, 2}, /*keep=*/false);
  EXPECT_NE(sessions.Find({1, 1}), nullptr) << "the session goes on from it";
  sessions.Settle({1, 3}, /*keep=*/true);
  EXPECT_EQ(sessions.Find({1, 1}), nullptr) << "nobody goes on from it";
  EXPECT_EQ(sessions.blocks(), 0);
  EXPECT_EQ(sessions.size(), 0);
}

TEST(ParkedSessions, WithoutRoomForBothTurnsTheOneBeforeGivesWayAndNobodyElse) {
  ParkedSessions sessions(6);
  ASSERT_TRUE(sessions.Put(Kv(2, 50, 32, 1), Equal));
  ASSERT_TRUE(sessions.Put(Kv(3, 50, 32), Equal));
  ASSERT_TRUE(sessions.Put(Kv(1, 50, 32), Equal));
  ASSERT_TRUE(sessions.Put(Kv(1, 60, 32, 0, /*turn=*/2), Equal));
  EXPECT_EQ(Dropped(sessions), std::vector<uint64_t>{1});
  EXPECT_EQ(sessions.Find({1, 1}), nullptr);
  EXPECT_EQ(sessions.lost(), 0u) << "the session has what it needs";
  ASSERT_TRUE(sessions.Put(Kv(1, 80, 48, 0, /*turn=*/3), Equal));
  EXPECT_EQ(Dropped(sessions), (std::vector<uint64_t>{1, 1, 3})) << "and one block more than it had";
  EXPECT_EQ(sessions.lost(), 1u);
  EXPECT_EQ(sessions.blocks(), 5);
}

TEST(ParkedSessions, ASessionThatIsNeverSettledHasTwoTurnsAtMost) {
  ParkedSessions sessions(100);
  for (uint64_t turn = 1; turn <= 9; ++turn) ASSERT_TRUE(sessions.Put(Kv(1, 50, 32, 0, turn), Equal));
  EXPECT_EQ(sessions.blocks(), 4);
  EXPECT_NE(sessions.Find({1, 8}), nullptr);
  EXPECT_EQ(sessions.Newest(1)->id.turn, 9u);
  sessions.Pin({1, 8});
  EXPECT_FALSE(sessions.Put(Kv(1, 50, 32, 0, 10), Equal)) << "somebody counts on the oldest";
  sessions.Settle({1, 9}, /*keep=*/true);
  EXPECT_NE(sessions.Find({1, 8}), nullptr);
  sessions.Unpin({1, 8});
  EXPECT_EQ(sessions.Find({1, 8}), nullptr);
  EXPECT_EQ(sessions.blocks(), 2);
}

TEST(ParkedSessions, ADroppedSessionLosesBothTurns) {
  ParkedSessions sessions(10);
  ASSERT_TRUE(sessions.Put(Kv(1, 50, 32), Equal));
  ASSERT_TRUE(sessions.Put(Kv(1, 80, 48, 0, /*turn=*/2), Equal));
  ASSERT_TRUE(sessions.Put(Kv(2, 80, 48), Equal));
  sessions.DropSession(1);
  EXPECT_EQ(sessions.dropped().size(), 2u);
  EXPECT_EQ(sessions.blocks(), 3);
  EXPECT_EQ(sessions.size(), 1);
  sessions.DropSession(3);
  EXPECT_EQ(sessions.dropped().size(), 2u);
}

TEST(ParkedSessions, ADropIsForTheExecutorToSee) {
  ParkedSessions sessions(5);
  ASSERT_TRUE(sessions.Put(Kv(1, 50, 32), Equal));
  sessions.Drop({2, 1});
  EXPECT_TRUE(sessions.dropped().empty());
  sessions.Drop({1, 1});
  EXPECT_EQ(Dropped(sessions), std::vector<uint64_t>{1});
  EXPECT_EQ(sessions.blocks(), 0);
  EXPECT_EQ(sessions.lost(), 0u) << "nobody had to make room";
}

}  // namespace
}  // namespace hydrant
