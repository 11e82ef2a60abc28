#include "server/sessions/session_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <future>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace hydrant {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class SessionStoreTest : public testing::Test {
 protected:
  static constexpr SessionOwner kA = {.tenant = 0};
  static constexpr SessionOwner kB = {.tenant = 1};

  SessionStore Make(SessionStore::Options options = {}) {
    options.clock = [this] { return now_us_; };
    options.wall_clock = [this] { return now_s_; };
    if (!options.on_forget) options.on_forget = [this](uint64_t number) { removed_.push_back(number); };
    if (!options.on_settle) {
      options.on_settle = [this](const TurnId& turn, bool keep) { settled_.emplace_back(turn, keep); };
    }
    return SessionStore(std::move(options));
  }
  // A whole turn that leaves `tokens` tokens; returns the session's number.
  static uint64_t Turn(SessionStore& store, const SessionOwner& owner, const std::string& id, size_t tokens = 10) {
    ApiResult<SessionTurn> turn = store.Begin(owner, id, false);
    EXPECT_TRUE(turn.ok()) << (turn.ok() ? "" : turn.error().message);
    if (!turn.ok()) return 0;
    const uint64_t number = turn.value().session();
    turn.value().End(PastOf(tokens));
    return number;
  }
  static SessionPast PastOf(size_t tokens) {
    SessionPast past;
    past.tokens.assign(tokens, 5);
    past.computed = static_cast<int32_t>(tokens) - 1;
    return past;
  }
  static std::string CodeOf(const ApiResult<SessionTurn>& turn) { return turn.ok() ? "" : turn.error().code; }
  static std::vector<std::string> Ids(SessionStore& store, int32_t tenant) {
    std::vector<std::string> ids;
    for (const SessionCard& card : store.List(tenant, "", 1000).cards) ids.push_back(card.id);
    return ids;
  }

  int64_t now_us_ = 1'000'000;
  int64_t now_s_ = 1'700'000'000;
  std::vector<uint64_t> removed_;
  std::vector<std::pair<TurnId, bool>> settled_;
};

TEST_F(SessionStoreTest, ATurnFindsWhatTheOneBeforeHasLeft) {
  SessionStore store = Make();
  uint64_t number = 0;
  {
    ApiResult<SessionTurn> first = store.Begin(kA, "s", false);
    ASSERT_TRUE(first.ok());
    EXPECT_EQ(first.value().past(), nullptr);
    number = first.value().session();
    first.value().End(PastOf(7));
  }
  ApiResult<SessionTurn> second = store.Begin(kA, "s", true);
  ASSERT_TRUE(second.ok());
  ASSERT_NE(second.value().past(), nullptr);
  EXPECT_EQ(second.value().past()->tokens.size(), 7u);
  EXPECT_EQ(second.value().past()->turn, 1u);
  EXPECT_EQ(second.value().turn(), 2u);
  EXPECT_EQ(second.value().session(), number);
}

TEST_F(SessionStoreTest, OneTurnAtATime) {
  SessionStore store = Make();
  ApiResult<SessionTurn> first = store.Begin(kA, "s", false);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(CodeOf(store.Begin(kA, "s", false)), "session_busy");
  EXPECT_EQ(store.Begin(kA, "s", false).error().status, 409);
  EXPECT_EQ(store.Delete(0, "s")->code, "session_busy");
  EXPECT_TRUE(store.Begin(kA, "t", false).ok()) << "of one session";
  first.value().End(PastOf(3));
  EXPECT_TRUE(store.Begin(kA, "s", false).ok());
}

TEST_F(SessionStoreTest, ATurnThatDoesNotEndLeavesTheSessionAsItWas) {
  SessionStore store = Make();
  Turn(store, kA, "s", 7);
  { ASSERT_TRUE(store.Begin(kA, "s", false).ok()); }
  ApiResult<SessionTurn> turn = store.Begin(kA, "s", true);
  ASSERT_TRUE(turn.ok());
  EXPECT_EQ(turn.value().past()->tokens.size(), 7u);
  EXPECT_THAT(removed_, IsEmpty());

  uint64_t number = 0;
  {
    ApiResult<SessionTurn> only = store.Begin(kA, "new", false);
    ASSERT_TRUE(only.ok());
    number = only.value().session();
  }
  EXPECT_THAT(removed_, ElementsAre(number)) << "a session without a turn is none";
  EXPECT_EQ(CodeOf(store.Begin(kA, "new", true)), "session_not_found");
}

TEST_F(SessionStoreTest, WhatIsParkedIsTheEnginesToSay) {
  SessionStore store = Make();
  const uint64_t number = Turn(store, kA, "s", 10);
  EXPECT_EQ(store.Get(0, "s").value().state, SessionState::kCold);
  store.OnParked({}, std::vector<ParkedTurn>{{{number, 1}, 9, 8}});
  EXPECT_EQ(store.Get(0, "s").value().state, SessionState::kParked);
  EXPECT_EQ(store.Get(0, "s").value().live, 8);
  EXPECT_EQ(store.counts().parked, 1);
  {
    ApiResult<SessionTurn> turn = store.Begin(kA, "s", false);
    ASSERT_NE(turn.value().parked(), nullptr);
    EXPECT_EQ(turn.value().parked()->live, 8);
    EXPECT_EQ(store.counts().busy, 1);
    EXPECT_EQ(store.Get(0, "s").value().state, SessionState::kBusy);
  }
  store.OnParked({}, std::vector<ParkedTurn>{{{number, 2}, 20, 20}});
  EXPECT_EQ(store.Get(0, "s").value().live, 8) << "a turn that was cut off parked beside its past";
  store.OnParked(std::vector<TurnId>{{number, 2}, {77, 2}}, {});
  EXPECT_EQ(store.Get(0, "s").value().live, 8) << "and is forgotten again";
  {
    ApiResult<SessionTurn> turn = store.Begin(kA, "s", false);
    store.OnParked({}, std::vector<ParkedTurn>{{{number, 3}, 30, 30}});
    turn.value().End(PastOf(31));
  }
  EXPECT_EQ(store.Get(0, "s").value().live, 30);
  store.OnParked(std::vector<TurnId>{{number, 1}}, {});
  EXPECT_EQ(store.Get(0, "s").value().live, 30);
  store.OnParked(std::vector<TurnId>{{number, 3}}, {});
  EXPECT_EQ(store.Get(0, "s").value().state, SessionState::kCold);
  { EXPECT_EQ(store.Begin(kA, "s", false).value().parked(), nullptr); }
  EXPECT_EQ(store.counts().cold, 1);
  EXPECT_EQ(store.counts().parked, 0);
}

// What a turn may have left is settled once, before the session's next turn can begin.
TEST_F(SessionStoreTest, EveryTurnIsSettledWhileTheSessionIsBusy) {
  SessionStore* held = nullptr;
  std::vector<std::string> begins;
  SessionStore::Options options;
  options.on_settle = [&](const TurnId& turn, bool keep) {
    settled_.emplace_back(turn, keep);
    begins.push_back(CodeOf(held->Begin(kA, "s", false)));
  };
  SessionStore store = Make(std::move(options));
  held = &store;
  const uint64_t number = Turn(store, kA, "s");
  { EXPECT_TRUE(store.Begin(kA, "s", true).ok()); }
  Turn(store, kA, "s");
  using Settled = std::pair<TurnId, bool>;
  EXPECT_THAT(settled_,
              ElementsAre(Settled({number, 1}, true), Settled({number, 2}, false), Settled({number, 3}, true)));
  EXPECT_THAT(begins, ElementsAre("session_busy", "session_busy", "session_busy"));
}

TEST_F(SessionStoreTest, ATurnThatCannotBeSettledEndsAllTheSame) {
  SessionStore::Options options;
  options.on_settle = [](const TurnId&, bool) { throw std::bad_alloc(); };
  SessionStore store = Make(std::move(options));
  Turn(store, kA, "s", 10);
  { EXPECT_TRUE(store.Begin(kA, "s", true).ok()); }
  EXPECT_EQ(store.Get(0, "s").value().tokens, 10);
  EXPECT_EQ(store.counts().cold, 1);
}

TEST_F(SessionStoreTest, ASessionThatCannotBeForgottenIsDeletedAllTheSame) {
  SessionStore::Options options;
  options.on_forget = [](uint64_t) { throw std::bad_alloc(); };
  SessionStore store = Make(std::move(options));
  Turn(store, kA, "s", 10);
  EXPECT_FALSE(store.Delete(0, "s").has_value());
  EXPECT_EQ(store.Get(0, "s").error().code, "session_not_found");
}

TEST_F(SessionStoreTest, AForeignSessionIsOneThatIsNotThere) {
  SessionStore store = Make();
  Turn(store, kA, "s");
  EXPECT_EQ(store.Get(1, "s").error().message, store.Get(1, "never").error().message);
  EXPECT_EQ(store.Get(1, "s").error().code, "session_not_found");
  EXPECT_EQ(store.Delete(1, "s")->code, "session_not_found");
  EXPECT_EQ(CodeOf(store.Begin(kB, "s", true)), "session_not_found");
  EXPECT_THAT(Ids(store, 1), IsEmpty());
  EXPECT_TRUE(store.Begin(kB, "s", false).ok()) << "a name is free in every tenant";
  EXPECT_THAT(Ids(store, 0), ElementsAre("s"));
}

TEST_F(SessionStoreTest, ASessionExpiresSoLongAfterItsLastTurn) {
  SessionStore store = Make({.ttl_us = 100});
  const uint64_t number = Turn(store, kA, "s");
  now_us_ += 99;
  Turn(store, kA, "s");
  now_us_ += 99;
  EXPECT_TRUE(store.Get(0, "s").ok());
  now_us_ += 1;
  EXPECT_FALSE(store.Get(0, "s").ok());
  EXPECT_THAT(removed_, ElementsAre(number));
  EXPECT_EQ(CodeOf(store.Begin(kA, "s", true)), "session_expired");
  EXPECT_EQ(CodeOf(store.Begin(kB, "s", true)), "session_not_found") << "not its own";
  EXPECT_EQ(CodeOf(store.Begin(kA, "t", true)), "session_not_found");
  ApiResult<SessionTurn> running = store.Begin(kA, "long", false);
  now_us_ += 1000;
  EXPECT_TRUE(store.Get(0, "long").ok()) << "a turn may take longer than that";
}

TEST_F(SessionStoreTest, AThousandThatExpireTogetherAreForgottenAFewAtATimeAndFoundByNobody) {
  SessionStore store = Make({.ttl_us = 100});
  for (int32_t i = 0; i < 1000; ++i) Turn(store, i % 2 == 0 ? kA : kB, "s" + std::to_string(i));
  now_us_ += 100;
  const auto forgotten_by = [this](const auto& call) {
    removed_.clear();
    call();
    return static_cast<int32_t>(removed_.size());
  };
  EXPECT_EQ(forgotten_by([&] { EXPECT_THAT(Ids(store, 0), IsEmpty()); }), SessionStore::kExpiredPerCall);
  EXPECT_EQ(forgotten_by([&] { EXPECT_FALSE(store.Get(1, "s999").ok()); }), SessionStore::kExpiredPerCall + 1);
  EXPECT_EQ(CodeOf(store.Begin(kB, "s997", true)), "session_expired");
  Turn(store, kB, "s997", 3);
  EXPECT_EQ(store.Get(1, "s997").value().tokens, 3) << "a new one of that name";
  EXPECT_THAT(Ids(store, 1), ElementsAre("s997"));
  EXPECT_EQ(store.counts().cold, 1) << "all of the others are gone by now";
}

// Whatever is being done to the sessions meanwhile.
TEST_F(SessionStoreTest, TheEngineNeverWaits) {
  SessionStore* held = nullptr;
  bool said = false;
  // The clock is read with the lock held.
  SessionStore::Options options;
  options.on_forget = [](uint64_t) {};
  options.on_settle = [](const TurnId&, bool) {};
  bool speaks = false;
  options.clock = [&] {
    if (speaks) {
      speaks = false;
      const std::vector<ParkedTurn> parked = {{{1, 1}, 9, 8}};
      auto engine = std::async(std::launch::async, [&] { held->OnParked({}, parked); });
      said = engine.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
      if (!said) std::abort();  // it waits for a lock that this thread holds: nothing would ever end
    }
    return now_us_;
  };
  SessionStore store(std::move(options));
  held = &store;
  Turn(store, kA, "s", 10);
  speaks = true;
  EXPECT_EQ(store.Get(0, "s").value().state, SessionState::kCold)
      << "what is said after the lock was taken comes later";
  EXPECT_TRUE(said);
  EXPECT_EQ(store.Get(0, "s").value().state, SessionState::kParked);
}

TEST_F(SessionStoreTest, MomentsStayTheSameWhenTheyAreReadAgain) {
  SessionStore store = Make({.ttl_us = 60'000'000});
  now_us_ = 1'900'000;
  Turn(store, kA, "s");
  const SessionCard first = store.Get(0, "s").value();
  EXPECT_EQ(first.created, now_s_);
  EXPECT_EQ(first.last_used, now_s_);
  EXPECT_EQ(first.expires, now_s_ + 60);
  // The two clocks do not tick at the same moment.
  for (const int64_t wall : {0, 1, 0}) {
    now_us_ += 150'000;
    now_s_ += wall;
    const SessionCard again = store.Get(0, "s").value();
    EXPECT_EQ(again.created, first.created);
    EXPECT_EQ(again.last_used, first.last_used);
    EXPECT_EQ(again.expires, first.expires);
  }
  Turn(store, kA, "s");
  EXPECT_EQ(store.Get(0, "s").value().created, first.created);
  EXPECT_EQ(store.Get(0, "s").value().last_used, first.last_used + 1);
}

TEST_F(SessionStoreTest, ADeletedSessionIsGone) {
  SessionStore store = Make();
  const uint64_t number = Turn(store, kA, "s");
  EXPECT_FALSE(store.Delete(0, "s").has_value());
  EXPECT_THAT(removed_, ElementsAre(number));
  EXPECT_EQ(store.Delete(0, "s")->code, "session_not_found");
  EXPECT_EQ(CodeOf(store.Begin(kA, "s", true)), "session_not_found") << "its owner knows why";
}

TEST_F(SessionStoreTest, ATenantBeyondItsOwnLimitLosesTheOneItUsedLeastRecently) {
  SessionStore store = Make();
  const SessionOwner two = {.tenant = 0, .sessions_max = 2};
  Turn(store, kB, "other");
  Turn(store, two, "a");
  Turn(store, two, "b");
  Turn(store, two, "a");
  Turn(store, two, "c");
  EXPECT_THAT(Ids(store, 0), ElementsAre("a", "c"));
  EXPECT_EQ(CodeOf(store.Begin(two, "b", true)), "session_expired");
  ApiResult<SessionTurn> a = store.Begin(two, "a", false);
  ApiResult<SessionTurn> c = store.Begin(two, "c", false);
  const ApiResult<SessionTurn> refused = store.Begin(two, "d", false);
  EXPECT_EQ(CodeOf(refused), "session_limit_exceeded");
  EXPECT_EQ(refused.error().status, 429);
  EXPECT_THAT(Ids(store, 1), ElementsAre("other"));
}

// What nobody asked to keep costs nobody what was asked for: lines go first, also the one whose turn has just ended.
TEST_F(SessionStoreTest, NoSessionThatAClientNamedGoesForAChatsLine) {
  SessionStore store = Make();
  const SessionOwner three = {.tenant = 0, .sessions_max = 3};
  Turn(store, three, "a");
  Turn(store, three, "auto_x_0");
  Turn(store, three, "auto_y_0");
  Turn(store, three, "auto_x_0");
  Turn(store, three, "auto_z_0");
  EXPECT_THAT(Ids(store, 0), ElementsAre("a", "auto_x_0", "auto_z_0"));
  Turn(store, three, "b");
  EXPECT_THAT(Ids(store, 0), ElementsAre("a", "auto_z_0", "b"));
  Turn(store, three, "c");
  EXPECT_THAT(Ids(store, 0), ElementsAre("a", "b", "c"));
  Turn(store, three, "auto_x_0");
  EXPECT_THAT(Ids(store, 0), ElementsAre("a", "b", "c")) << "it has taken nobody's place";
  Turn(store, {.tenant = 0, .sessions_max = 2}, "auto_x_0");
  EXPECT_THAT(Ids(store, 0), ElementsAre("b", "c"));
}

TEST_F(SessionStoreTest, LinesMakeRoomForWhatNamedSessionsSaid) {
  SessionStore store = Make({.bytes_max = 400});
  Turn(store, kA, "a", 50);
  Turn(store, kA, "auto_x_0", 30);
  Turn(store, kA, "auto_y_0", 30);
  EXPECT_THAT(Ids(store, 0), ElementsAre("a", "auto_y_0"));
  Turn(store, kA, "b", 50);
  EXPECT_THAT(Ids(store, 0), ElementsAre("a", "b"));
  Turn(store, kA, "auto_x_0", 30);
  EXPECT_THAT(Ids(store, 0), ElementsAre("a", "b"));
  Turn(store, kA, "b", 80);
  EXPECT_THAT(Ids(store, 0), ElementsAre("b"));
}

TEST_F(SessionStoreTest, ALowerLimitHoldsForWhoGoesOnWithASessionToo) {
  SessionStore store = Make();
  for (const char* id : {"a", "b", "c"}) Turn(store, {.tenant = 0, .sessions_max = 3}, id);
  Turn(store, {.tenant = 0, .sessions_max = 1}, "b");
  EXPECT_THAT(Ids(store, 0), ElementsAre("b"));
}

TEST_F(SessionStoreTest, AFloodOfSessionsPushesOutItsOwn) {
  SessionStore store = Make({.sessions_max = 10});
  for (const char* id : {"a", "b", "c"}) Turn(store, kA, id);
  for (int32_t i = 0; i < 100; ++i) Turn(store, kB, "flood" + std::to_string(i));
  EXPECT_THAT(Ids(store, 0), ElementsAre("a", "b", "c"));
  EXPECT_EQ(Ids(store, 1).size(), 7u);
  const SessionOwner heavy = {.tenant = 2, .weight = 100};
  for (int32_t i = 0; i < 4; ++i) Turn(store, heavy, "h" + std::to_string(i));
  EXPECT_EQ(Ids(store, 1).size(), 3u);
  EXPECT_EQ(Ids(store, 2).size(), 4u);
}

TEST_F(SessionStoreTest, ASessionThatNeverHadATurnTakesNobodysPlace) {
  SessionStore store = Make();
  const SessionOwner two = {.tenant = 0, .sessions_max = 2};
  Turn(store, two, "a");
  Turn(store, two, "b");
  { ASSERT_TRUE(store.Begin(two, "c", false).ok()); }
  EXPECT_THAT(Ids(store, 0), ElementsAre("a", "b"));
}

TEST_F(SessionStoreTest, WhatTheySaidIsBoundedToo) {
  SessionStore store = Make({.bytes_max = 400});
  Turn(store, kA, "mine", 30);
  for (int32_t i = 0; i < 9; ++i) Turn(store, kB, "s" + std::to_string(i), 20);
  EXPECT_THAT(Ids(store, 0), ElementsAre("mine"));
  EXPECT_THAT(Ids(store, 1), ElementsAre("s6", "s7", "s8"));
  Turn(store, kB, "s8", 35);
  EXPECT_THAT(Ids(store, 1), ElementsAre("s7", "s8"));
}

// The one whose session has grown has no other to give: nobody else's goes for that. Who has less than others has theirs make room.
TEST_F(SessionStoreTest, NoTenantsSessionsGoForOneThatIsMostOverItsShareByItsNewest) {
  SessionStore store = Make({.bytes_max = 400});
  Turn(store, kB, "theirs", 30);
  Turn(store, kB, "later", 10);
  Turn(store, kA, "mine", 50);
  Turn(store, kA, "mine", 80);
  Turn(store, kA, "mine", 300);
  EXPECT_THAT(Ids(store, 0), ElementsAre("mine"));
  EXPECT_THAT(Ids(store, 1), ElementsAre("later", "theirs"));
  Turn(store, kB, "later", 10);
  EXPECT_THAT(Ids(store, 0), IsEmpty()) << "another's turn has it go";
  EXPECT_THAT(Ids(store, 1), ElementsAre("later", "theirs"));
  Turn(store, kA, "mine", 20);
  EXPECT_THAT(Ids(store, 0), ElementsAre("mine"));
}

TEST_F(SessionStoreTest, PagesFollowEachOther) {
  SessionStore store = Make();
  for (const char* id : {"b", "a", "c"}) Turn(store, kA, id);
  SessionStore::Page page = store.List(0, "", 2);
  ASSERT_EQ(page.cards.size(), 2u);
  EXPECT_EQ(page.cards[1].id, "b");
  EXPECT_TRUE(page.has_more);
  page = store.List(0, "b", 2);
  ASSERT_EQ(page.cards.size(), 1u);
  EXPECT_EQ(page.cards[0].id, "c");
  EXPECT_FALSE(page.has_more);
  EXPECT_FALSE(store.List(0, "", 3).has_more);
}

}  // namespace
}  // namespace hydrant
