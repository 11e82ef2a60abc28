#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/process/clock.h"
#include "server/sessions/session_store.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

// A store over a journal that is closed and opened again as by a restart.
class SessionStoreJournal : public testing::Test {
 protected:
  static constexpr SessionOwner kOwner = {.tenant = 0};

  void Open() {
    SessionJournal::Options journal_options;
    journal_options.clock = MonotonicUs;
    journal_options.wall_clock = [this] { return now_s_; };
    journal_options.any_file_system = true;  // tests may run in a container's own layer
    auto journal = SessionJournal::Open(temp_.File("d"), std::move(journal_options));
    ASSERT_TRUE(journal.ok()) << journal.status();
    journal_ = *std::move(journal);
    SessionStore::Options options = options_;
    options.clock = [this] { return now_us_; };
    options.wall_clock = [this] { return now_s_; };
    options.on_forget = [](uint64_t) {};
    options.on_settle = [](const TurnId&, bool) {};
    options.journal = journal_.get();
    options.tenants = 1;
    options.tenant_name = [this](int32_t tenant) { return tenants_[static_cast<size_t>(tenant)]; };
    store_ = std::make_unique<SessionStore>(std::move(options));
  }
  void Close() {
    if (journal_ != nullptr) journal_->Stop();
    store_.reset();
    journal_.reset();
  }
  void Restart() {
    Close();
    Open();
  }
  void SetUp() override { Open(); }
  void TearDown() override { Close(); }

  static SessionPast PastOf(size_t tokens) {
    SessionPast past;
    past.tokens.assign(tokens, 5);
    past.computed = static_cast<int32_t>(tokens) - 1;
    past.text = std::string(tokens, 'x');
    past.prompt_bytes = tokens;
    return past;
  }
  // Whether the turn was durable.
  bool Turn(const std::string& id, size_t tokens, const SessionOwner& owner = kOwner) {
    ApiResult<SessionTurn> turn = store_->Begin(owner, id, false);
    EXPECT_TRUE(turn.ok()) << (turn.ok() ? "" : turn.error().message);
    if (!turn.ok()) return false;
    std::promise<bool> durable;
    turn.value().Commit(PastOf(tokens), [&](Durability is) { durable.set_value(is == Durability::kTokens); });
    return durable.get_future().get();
  }
  size_t TokensOf(const std::string& id, const SessionOwner& owner = kOwner) {
    ApiResult<SessionTurn> turn = store_->Begin(owner, id, true);
    return turn.ok() && turn.value().past() != nullptr ? turn.value().past()->tokens.size() : 0;
  }
  std::vector<std::string> Ids() {
    std::vector<std::string> ids;
    for (const SessionCard& card : store_->List(0, "", 1000).cards) ids.push_back(card.id);
    return ids;
  }

  const TempDir temp_;
  std::vector<std::string> tenants_ = {"a", "b"};
  SessionStore::Options options_;
  int64_t now_us_ = 1'000'000;
  int64_t now_s_ = 1'700'000'000;
  std::unique_ptr<SessionJournal> journal_;
  std::unique_ptr<SessionStore> store_;
};

TEST_F(SessionStoreJournal, WhatWasAnsweredIsThereAfterARestart) {
  for (size_t turn = 1; turn <= 100; ++turn) EXPECT_TRUE(Turn("s", turn * 10));  // beyond one chain of records
  EXPECT_TRUE(Turn("t", 7));
  { ASSERT_TRUE(store_->Begin(kOwner, "s", true).ok()); }  // a turn that does not end
  Restart();
  const SessionCard card = store_->Get(0, "s").value();
  EXPECT_EQ(card.state, SessionState::kCold);
  EXPECT_EQ(card.tokens, 1000);
  EXPECT_EQ(card.created, now_s_);
  EXPECT_THAT(Ids(), testing::ElementsAre("s", "t"));
  ApiResult<SessionTurn> next = store_->Begin(kOwner, "s", true);
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(next.value().past()->tokens.size(), 1000u);
  EXPECT_EQ(next.value().past()->turn, 100u);
  EXPECT_EQ(next.value().turn(), 101u);
}

TEST_F(SessionStoreJournal, ATurnIsInForceWhenItIsDurableAndNotBefore) {
  ApiResult<SessionTurn> turn = store_->Begin(kOwner, "s", false);
  ASSERT_TRUE(turn.ok());
  std::promise<std::string> seen;
  turn.value().Commit(PastOf(9), [&](Durability) {
    const ApiResult<SessionTurn> next = store_->Begin(kOwner, "s", true, 1);
    seen.set_value(next.ok() ? "" : std::string(next.error().code));
  });
  EXPECT_EQ(seen.get_future().get(), "");
  EXPECT_EQ(journal_->counts().records, 1u);
}

TEST_F(SessionStoreJournal, SessionsAreKnownBeforeAnybodyAsks) {
  EXPECT_TRUE(Turn("s", 5));
  Restart();
  EXPECT_EQ(store_->counts().cold, 1);
}

TEST_F(SessionStoreJournal, WhatIsDeletedStaysAway) {
  EXPECT_TRUE(Turn("s", 5));
  std::promise<bool> durable;
  EXPECT_FALSE(store_->Delete(0, "s", [&](bool is) { durable.set_value(is); }).has_value());
  EXPECT_TRUE(durable.get_future().get());
  EXPECT_TRUE(Turn("u", 5));
  Restart();
  EXPECT_THAT(Ids(), testing::ElementsAre("u"));
  EXPECT_EQ(store_->Begin(kOwner, "s", true).error().code, "session_not_found");
}

TEST_F(SessionStoreJournal, ASecondSendingOfATurnIsTold) {
  const auto begin = [this](const std::string& id, uint64_t before) {
    const ApiResult<SessionTurn> turn = store_->Begin(kOwner, id, false, before);
    return turn.ok() ? std::string() : std::string(turn.error().code) + ": " + turn.error().message;
  };
  EXPECT_EQ(begin("s", 0), "");
  EXPECT_THAT(begin("s", 3), testing::StartsWith("turn_conflict"));
  EXPECT_TRUE(Turn("s", 5));
  Restart();
  const std::string said = begin("s", 0);
  EXPECT_THAT(said, testing::StartsWith("turn_conflict"));
  EXPECT_THAT(said, testing::HasSubstr("is 1."));
  EXPECT_EQ(begin("s", 1), "");
}

TEST_F(SessionStoreJournal, TimeGoesOnWhileTheServerIsDownAndNeverBack) {
  options_.ttl_us = 3600 * int64_t{1'000'000};
  Restart();
  EXPECT_TRUE(Turn("s", 5));
  Close();
  now_s_ += 1800;
  now_us_ = 0;  // another machine start
  Open();
  EXPECT_THAT(Ids(), testing::ElementsAre("s"));
  now_us_ += 1801 * int64_t{1'000'000};
  EXPECT_THAT(Ids(), testing::IsEmpty());
  EXPECT_TRUE(Turn("t", 5));
  Close();
  now_s_ -=
      86400;  // the clock is put back: no session is from the future, and none lives longer than its time from now on
  Open();
  EXPECT_THAT(Ids(), testing::ElementsAre("t"));
  now_us_ += 3601 * int64_t{1'000'000};
  EXPECT_THAT(Ids(), testing::IsEmpty());
}

// A machine whose clock is set only after it has started: what was said meanwhile is not taken for a day old.
TEST_F(SessionStoreJournal, AClockThatWasBehindForAWhileEndsNoSession) {
  options_.ttl_us = 3600 * int64_t{1'000'000};
  Restart();
  EXPECT_TRUE(Turn("before", 5));
  now_s_ -= 86400;
  Restart();
  now_us_ += 60 * int64_t{1'000'000};
  EXPECT_TRUE(Turn("s", 5));
  now_s_ += 86400 + 60;
  Restart();
  EXPECT_THAT(Ids(), testing::ElementsAre("before", "s"));
  EXPECT_EQ(store_->Get(0, "s").value().last_used, now_s_);
}

TEST_F(SessionStoreJournal, ATenantFindsItsOwnWhateverItsPlace) {
  EXPECT_TRUE(Turn("s", 5, {.tenant = 0}));
  EXPECT_TRUE(Turn("s", 6, {.tenant = 1}));
  tenants_ = {"b", "c", "a"};
  Restart();
  EXPECT_EQ(TokensOf("s", {.tenant = 0}), 6u);
  EXPECT_EQ(TokensOf("s", {.tenant = 1}), 0u);
  EXPECT_EQ(TokensOf("s", {.tenant = 2}), 5u);
}

TEST_F(SessionStoreJournal, WhatMemoryHasNoRoomForIsReadAgain) {
  options_.bytes_max = 20'000;
  Restart();
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(Turn("s" + std::to_string(i), 1000));
  EXPECT_EQ(store_->counts().cold, 20);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(TokensOf("s" + std::to_string(i)), 1000u) << i;
}

TEST_F(SessionStoreJournal, ATenantsShareOfTheDiskIsItsOldestSessionsToLose) {
  const SessionOwner owner = {.tenant = 0, .disk_bytes = 30'000};
  EXPECT_TRUE(Turn("other", 1000, {.tenant = 1}));
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(Turn("s" + std::to_string(i), 5000, owner));
  EXPECT_LT(Ids().size(), 6u);
  EXPECT_EQ(TokensOf("s19"), 5000u);
  EXPECT_EQ(TokensOf("other", {.tenant = 1}), 1000u);
  Restart();
  EXPECT_LT(Ids().size(), 6u);
}

TEST_F(SessionStoreJournal, DamageAndAnotherModelBeginAnew) {
  EXPECT_TRUE(Turn("s", 50));
  options_.model.fill(9);
  Restart();
  EXPECT_EQ(store_->Begin(kOwner, "s", true).error().code, "session_damaged");
  {
    ApiResult<SessionTurn> anew = store_->Begin(kOwner, "s", false);
    ASSERT_TRUE(anew.ok());
    EXPECT_EQ(anew.value().past(), nullptr);
  }
  options_.model.fill(0);
  Restart();
  EXPECT_EQ(TokensOf("s"), 50u) << "the model it is of finds it again";
  options_.model.fill(9);
  Restart();
  EXPECT_TRUE(Turn("s", 8));
  Restart();
  EXPECT_EQ(TokensOf("s"), 8u);
}

TEST_F(SessionStoreJournal, ATurnThatIsNotDurableIsInForceAndTheNextOneSaysAll) {
  EXPECT_TRUE(Turn("s", 10));
  EXPECT_EQ(store_->ReadDurable(0, "s"), nullptr) << "it is what the session is: nobody reads it";
  journal_->Stop();  // nothing is durable from now on
  EXPECT_FALSE(Turn("s", 20));
  ASSERT_NE(store_->ReadDurable(0, "s"), nullptr);
  EXPECT_EQ(store_->ReadDurable(0, "s")->tokens.size(), 10u);
  EXPECT_EQ(TokensOf("s"), 20u);
  Restart();
  EXPECT_EQ(TokensOf("s"), 10u) << "that was promised";
}

}  // namespace
}  // namespace hydrant
