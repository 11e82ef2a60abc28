// Sessions that leave for another server and come from one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/sessions/session_store.h"

namespace hydrant {
namespace {

class SessionStoreTransfer : public testing::Test {
 protected:
  static constexpr SessionOwner kOwner = {.tenant = 0};

  SessionStore& Store() {
    if (store_ != nullptr) return *store_;
    SessionStore::Options options = options_;
    options.clock = [this] { return now_us_; };
    options.wall_clock = [this] { return now_s_ + now_us_ / 1'000'000; };
    options.on_forget = [](uint64_t) {};
    options.on_settle = [](const TurnId&, bool) {};
    store_ = std::make_unique<SessionStore>(std::move(options));
    return *store_;
  }
  // As another server had it, last used so many seconds ago.
  SessionStore::Kept Kept(uint64_t turn, int64_t age_s, size_t tokens = 5) {
    auto past = std::make_shared<SessionPast>();
    past->tokens.assign(tokens, 5);
    past->computed = static_cast<int32_t>(tokens) - 1;
    past->turn = turn;
    const int64_t now_s = now_s_ + now_us_ / 1'000'000;
    return {std::move(past), now_s - age_s - 100, now_s - age_s};
  }
  // The code of the error, or whether `done` was called.
  std::string Import(const std::string& id, const SessionStore::Kept& kept, const SessionOwner& owner = kOwner) {
    std::string said = "nothing";
    const auto error = Store().Import(owner, id, kept, [&](bool durable) { said = durable ? "durable" : "done"; });
    return error.has_value() ? error->code : said;
  }
  std::vector<std::string> Ids() {
    std::vector<std::string> ids;
    for (const SessionCard& card : Store().List(0, "", 1000).cards) ids.push_back(card.id);
    return ids;
  }

  SessionStore::Options options_;
  int64_t now_us_ = 1'000'000'000;
  int64_t now_s_ = 1'700'000'000;
  std::unique_ptr<SessionStore> store_;
};

TEST_F(SessionStoreTransfer, AnImportedSessionGoesOnFromItsTurn) {
  EXPECT_EQ(Import("s", Kept(7, 60)), "done");
  const SessionCard card = Store().Get(0, "s").value();
  EXPECT_EQ(card.turn, 7u);
  EXPECT_EQ(card.last_used, now_s_ + 1000 - 60);
  EXPECT_EQ(card.created, now_s_ + 1000 - 160);
  EXPECT_EQ(card.state, SessionState::kCold);
  ApiResult<SessionTurn> next = Store().Begin(kOwner, "s", true, 7);
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(next.value().turn(), 8u);
  EXPECT_EQ(next.value().past()->tokens.size(), 5u);
  EXPECT_EQ(Store().Export(0, "s").error().code, "session_busy");
}

TEST_F(SessionStoreTransfer, AnExportedOneIsTheLastTurn) {
  ASSERT_EQ(Import("s", Kept(7, 60)), "done");
  const ApiResult<SessionStore::Kept> kept = Store().Export(0, "s");
  ASSERT_TRUE(kept.ok());
  EXPECT_EQ(kept.value().past->turn, 7u);
  EXPECT_EQ(kept.value().used_s, now_s_ + 1000 - 60);
  EXPECT_EQ(Store().Export(1, "s").error().code, "session_not_found") << "of another tenant";
}

TEST_F(SessionStoreTransfer, NobodysPlaceIsTaken) {
  options_.sessions_max = 3;
  options_.bytes_max = 100;
  const SessionOwner two = {.tenant = 0, .weight = 1, .sessions_max = 2};
  EXPECT_EQ(Import("a", Kept(1, 0), two), "done");
  EXPECT_EQ(Import("a", Kept(1, 0), two), "session_exists");
  EXPECT_EQ(Import("b", Kept(1, 0), two), "done");
  EXPECT_EQ(Import("c", Kept(1, 0), two), "session_limit_exceeded");
  const SessionOwner other = {.tenant = 1};
  EXPECT_EQ(Import("big", Kept(1, 0, 100), other), "too_many_sessions");
  EXPECT_EQ(Import("c", Kept(1, 0), other), "done");
  EXPECT_EQ(Import("d", Kept(1, 0), other), "too_many_sessions");
  EXPECT_THAT(Ids(), testing::ElementsAre("a", "b"));
}

TEST_F(SessionStoreTransfer, AgeIsKeptAndSoIsTheOrderInWhichTheyExpire) {
  options_.ttl_us = 1000 * int64_t{1'000'000};
  EXPECT_EQ(Import("old", Kept(1, 1000)), "invalid_value") << "expired";
  for (const auto& [id, age_s] : {std::pair("c", 500), {"a", 900}, {"d", 10}, {"b", 700}, {"e", -5}}) {
    EXPECT_EQ(Import(id, Kept(1, age_s)), "done");
  }
  now_us_ += 150 * int64_t{1'000'000};
  EXPECT_EQ(Store().counts().cold, 4) << "a has expired, though it was not the first to come";
  now_us_ += 400 * int64_t{1'000'000};
  EXPECT_EQ(Store().counts().cold, 2);
  EXPECT_THAT(Ids(), testing::ElementsAre("d", "e"));
}

TEST_F(SessionStoreTransfer, ATurnThatHasGoneOnIsNotDeleted) {
  ASSERT_EQ(Import("s", Kept(7, 0)), "done");
  EXPECT_EQ(Store().Delete(0, "s", nullptr, 6)->code, "turn_changed");
  EXPECT_FALSE(Store().Delete(0, "s", nullptr, 7).has_value());
}

}  // namespace
}  // namespace hydrant
