#include "server/shared_limits/limit_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/process/clock.h"
#include "server/process/log.h"
#include "tests/server/shared_limits/fake_store.h"

namespace hydrant {
namespace {

using testing::Each;
using testing::ElementsAre;
using Command = FakeStore::Command;

class LimitStoreTest : public testing::Test {
 protected:
  LimitStore::Options Options(const FakeStore& store, int64_t patience_us = 10'000'000) {
    LimitStore::Options options;
    options.address = store.address();
    options.patience_us = patience_us;
    options.on_end = [this](AskEnd end, int64_t) {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++ends_[end];
      changed_.notify_all();
    };
    options.on_away = [this](bool away) {
      const std::lock_guard<std::mutex> lock(mutex_);
      away_ = away;
      changed_.notify_all();
    };
    return options;
  }
  template <typename Condition>
  bool Await(const Condition& condition) {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), condition);
  }
  bool AwaitAway(bool away) {
    return Await([&] { return away_ == away; });
  }
  int Ends(AskEnd end) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return ends_[end];
  }
  // Asks and waits until it has ended.
  std::shared_ptr<LimitAsk> Ask(LimitStore& store, LimitDemand demand) {
    std::shared_ptr<LimitAsk> ask = Begin(store, std::move(demand));
    if (ask == nullptr) return ask;
    EXPECT_TRUE(Await([&] { return ask->verdict() != LimitVerdict::kAsked; }));
    return ask;
  }
  // Asks until one is granted: on a slow machine an answer may come after a patience of milliseconds, and the store be
  // away for a while. Null: none is granted.
  std::shared_ptr<LimitAsk> AskUntilGranted(LimitStore& store, const LimitDemand& demand) {
    for (const int64_t end_us = MonotonicUs() + 30'000'000; MonotonicUs() < end_us && AwaitAway(false);) {
      std::shared_ptr<LimitAsk> ask = Ask(store, demand);
      if (ask == nullptr) continue;
      if (ask->verdict() == LimitVerdict::kGranted) return ask;
      store.GiveBack(ask, demand.amount);  // it may be granted later
    }
    return nullptr;
  }
  std::shared_ptr<LimitAsk> Begin(LimitStore& store, LimitDemand demand) {
    return store.Ask(std::move(demand), [this] {
      const std::lock_guard<std::mutex> lock(mutex_);
      changed_.notify_all();
    });
  }
  static LimitDemand Tokens(int64_t amount) { return {"t", LimitKind::kTokens, 100, amount, 8, 2}; }

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  bool away_ = false;
  std::map<AskEnd, int> ends_;
};

TEST_F(LimitStoreTest, AsksByOneScriptAndGivesBackByAnother) {
  FakeStore fake;
  LimitStore store(Options(fake));
  ASSERT_TRUE(AwaitAway(false));
  const auto ask = Ask(store, Tokens(30));
  ASSERT_NE(ask, nullptr);
  EXPECT_EQ(ask->verdict(), LimitVerdict::kGranted);
  EXPECT_EQ(ask->left(), 7);
  const Command take = fake.Await([](const Command& c) { return FakeStore::IsTake(c) && !FakeStore::IsProbe(c); });
  const std::string name = take[9];
  EXPECT_THAT(take, ElementsAre("EVALSHA", std::string(40, 'a'), "2", "hydrant:{t}:tpm", "hydrant:{t}:sequences", "100",
                                "30", "8", "2", name, "10000"));
  store.GiveBack(ask, 12);
  EXPECT_THAT(fake.Await(FakeStore::IsGive), ElementsAre("EVALSHA", std::string(40, 'b'), "2", "hydrant:{t}:tpm",
                                                         "hydrant:{t}:sequences", "100", "12", "2", name));
  EXPECT_EQ(Ends(AskEnd::kGranted), 1);
}

TEST_F(LimitStoreTest, ToldWhatIsRefusedAndForHowLong) {
  FakeStore fake;
  LimitStore store(Options(fake));
  ASSERT_TRUE(AwaitAway(false));
  fake.Handle([](const Command&) { return "*3\r\n:2\r\n:5\r\n:1500000\r\n"; });
  const auto rate = Ask(store, Tokens(30));
  EXPECT_EQ(rate->verdict(), LimitVerdict::kNoRate);
  EXPECT_EQ(rate->left(), 5);
  EXPECT_EQ(rate->wait_us(), 1'500'000);
  fake.Handle([](const Command&) { return "*3\r\n:3\r\n:0\r\n:0\r\n"; });
  EXPECT_EQ(Ask(store, Tokens(30))->verdict(), LimitVerdict::kNoPlaces);
  store.GiveBack(rate, 30);
  fake.Handle(FakeStore::Granting);
  EXPECT_EQ(Ask(store, Tokens(1))->verdict(), LimitVerdict::kGranted);
  EXPECT_EQ(fake.Count(FakeStore::IsGive), 0u) << "what was refused is not given back";
  EXPECT_EQ(Ends(AskEnd::kRefused), 2);
}

TEST_F(LimitStoreTest, AwayFromTheStartItCostsNobodyAnything) {
  FakeStore fake;
  LimitStore::Options options = Options(fake);
  fake.Stop();
  LimitStore store(std::move(options));
  EXPECT_EQ(Begin(store, Tokens(1)), nullptr);
  EXPECT_EQ(Ends(AskEnd::kAway), 1);
}

TEST_F(LimitStoreTest, AsksAgainOnceItIsBack) {
  FakeStore fake;
  LimitStore store(Options(fake));
  ASSERT_TRUE(AwaitAway(false));
  for (int i = 0; i < 3; ++i) {
    const auto held = Ask(store, Tokens(30));
    ASSERT_NE(held, nullptr);
    const size_t before = fake.count();
    fake.Drop();
    // The new connection is told of the places at once, and none of the tokens of the old one come back by it.
    EXPECT_EQ(fake.Await(FakeStore::IsRenew, before)[3], "hydrant:{t}:sequences");
    store.GiveBack(held, 30);
    EXPECT_EQ(fake.Await(FakeStore::IsGive, before)[6], "0");
  }
}

TEST_F(LimitStoreTest, AnAskOfALostConnectionFails) {
  for (const char* answer : {"", "*3\r\n:1\r\n:7\r\n"}) {  // none, or a part
    FakeStore fake;
    LimitStore store(Options(fake));
    ASSERT_TRUE(AwaitAway(false));
    const int errors = Ends(AskEnd::kError);
    fake.Handle([answer](const Command& c) {
      return FakeStore::IsTake(c) && !FakeStore::IsProbe(c) ? answer : FakeStore::Granting(c);
    });
    const auto ask = Begin(store, Tokens(1));
    (void)fake.Await([](const Command& c) { return FakeStore::IsTake(c) && !FakeStore::IsProbe(c); });
    EXPECT_EQ(ask->verdict(), LimitVerdict::kAsked);
    fake.Drop();
    ASSERT_TRUE(Await([&] { return ask->verdict() != LimitVerdict::kAsked; }));
    EXPECT_EQ(ask->verdict(), LimitVerdict::kFailed);
    EXPECT_EQ(Ends(AskEnd::kError), errors + 1);
    store.GiveBack(ask, 1);  // which nothing comes of
  }
}

TEST_F(LimitStoreTest, ASlowStoreIsAwayAfterAFewRequests) {
  FakeStore fake;
  LimitStore store(Options(fake, /*patience_us=*/20'000));
  ASSERT_TRUE(AwaitAway(false));
  fake.Handle([](const Command& c) { return FakeStore::IsScript(c) ? "" : FakeStore::Granting(c); });
  for (int i = 0; i < CircuitBreaker::kFailuresMax; ++i) {
    const int64_t began_us = MonotonicUs();
    const auto ask = Ask(store, Tokens(1));
    ASSERT_NE(ask, nullptr);
    EXPECT_EQ(ask->verdict(), LimitVerdict::kFailed);
    EXPECT_GE(MonotonicUs() - began_us, 20'000);
  }
  ASSERT_TRUE(AwaitAway(true));
  EXPECT_EQ(Ends(AskEnd::kTimeout), CircuitBreaker::kFailuresMax);
  EXPECT_EQ(Begin(store, Tokens(1)), nullptr);
  // It is probed, and is away for as long as the probe is slow.
  const size_t before = fake.count();
  EXPECT_FALSE(fake.Await(FakeStore::IsProbe, before).empty());
  EXPECT_EQ(Begin(store, Tokens(1)), nullptr);
  fake.Handle(FakeStore::Granting);
  EXPECT_NE(AskUntilGranted(store, Tokens(1)), nullptr);
}

TEST_F(LimitStoreTest, OnePauseOfTheStoreIsOneFailureHoweverManyWait) {
  FakeStore fake;
  LimitStore store(Options(fake, /*patience_us=*/50'000));
  ASSERT_TRUE(AwaitAway(false));
  fake.Handle([](const Command& c) { return FakeStore::IsScript(c) ? "" : FakeStore::Granting(c); });
  std::vector<std::shared_ptr<LimitAsk>> asks;
  for (int i = 0; i < 3 * CircuitBreaker::kFailuresMax; ++i) asks.push_back(Begin(store, Tokens(1)));
  for (const auto& ask : asks) {
    ASSERT_NE(ask, nullptr);
    ASSERT_TRUE(Await([&] { return ask->verdict() != LimitVerdict::kAsked; }));
  }
  EXPECT_NE(Ask(store, Tokens(1)), nullptr) << "one late answer is a hiccup";
  const std::lock_guard<std::mutex> lock(mutex_);
  EXPECT_FALSE(away_);
}

TEST_F(LimitStoreTest, NobodyIsWokenOnceItHasStopped) {
  FakeStore fake;
  auto store = std::make_unique<LimitStore>(Options(fake));
  ASSERT_TRUE(AwaitAway(false));
  fake.Handle([](const Command& c) { return FakeStore::IsScript(c) ? "" : FakeStore::Granting(c); });
  // What is woken is gone with its owner, as the executor of a request is.
  auto woken = std::make_shared<std::atomic<int>>(0);
  const auto wake = [woken] { ++*woken; };
  const auto ask = store->Ask(Tokens(1), wake);
  ASSERT_NE(ask, nullptr);
  store->Stop();
  EXPECT_EQ(ask->verdict(), LimitVerdict::kFailed);
  EXPECT_EQ(*woken, 1);
  EXPECT_EQ(store->Ask(Tokens(1), wake), nullptr);
  EXPECT_EQ(woken.use_count(), 2) << "the test's own, and `wake`: none is left in an ask";
  store->GiveBack(ask, 1);  // a connection that goes after it
  store->Stop();
  store.reset();
  EXPECT_EQ(*woken, 1);
}

TEST_F(LimitStoreTest, StopsWithoutWaitingForAStoreThatHangs) {
  for (const char* command : {"SCRIPT", "EVALSHA"}) {
    FakeStore fake([command](const Command& c) { return c[0] == command ? "" : FakeStore::Granting(c); });
    LimitStore store(Options(fake, /*patience_us=*/30'000'000));
    EXPECT_FALSE(fake.Await([command](const Command& c) { return c[0] == command; }).empty());
    const int64_t began_us = MonotonicUs();
    store.Stop();
    EXPECT_LT(MonotonicUs() - began_us, 20'000'000) << command;
  }
}

TEST_F(LimitStoreTest, AStoreThatIsSilentAboutWhatNobodyWaitsForIsAway) {
  FakeStore fake;
  LimitStore store(Options(fake, /*patience_us=*/20'000));
  const auto ask = AskUntilGranted(store, Tokens(30));
  ASSERT_NE(ask, nullptr);
  fake.Handle([](const Command& c) { return FakeStore::IsScript(c) ? "" : FakeStore::Granting(c); });
  store.GiveBack(ask, 30);
  EXPECT_TRUE(AwaitAway(true));
}

TEST_F(LimitStoreTest, WhatComesBackIsThereForWhoAsksNext) {
  std::atomic<bool> queued = false;  // the fake's thread reads it to the fake's end
  FakeStore fake;
  LimitStore store(Options(fake));
  ASSERT_TRUE(AwaitAway(false));
  const auto ask = Ask(store, Tokens(30));
  fake.Handle([&](const Command& c) {
    while (FakeStore::IsTake(c) && !queued) std::this_thread::yield();
    return FakeStore::Granting(c);
  });
  const auto other = Begin(store, Tokens(1));
  store.GiveBack(ask, 30);
  const auto next = Begin(store, Tokens(2));
  queued = true;
  ASSERT_TRUE(Await([&] { return next->verdict() != LimitVerdict::kAsked; }));
  const std::vector<Command> heard = fake.commands();
  const auto give = std::find_if(heard.begin(), heard.end(), FakeStore::IsGive);
  const auto last =
      std::find_if(heard.begin(), heard.end(), [](const Command& c) { return c.size() > 6 && c[6] == "2"; });
  EXPECT_LT(give, last);
}

TEST_F(LimitStoreTest, WhatIsGrantedTooLateIsGivenBack) {
  FakeStore fake;
  LimitStore store(Options(fake, /*patience_us=*/20'000));
  ASSERT_TRUE(AwaitAway(false));
  fake.Handle([](const Command& c) { return FakeStore::IsTake(c) ? "" : FakeStore::Granting(c); });
  const auto ask = Ask(store, Tokens(30));
  ASSERT_EQ(ask->verdict(), LimitVerdict::kFailed);
  store.GiveBack(ask, 30);
  fake.Say("*3\r\n:1\r\n:7\r\n:0\r\n");
  EXPECT_EQ(fake.Await(FakeStore::IsGive)[6], "30");
}

// Two answers come at once, and the first one's owner is woken for so long that the second is read after it was due.
TEST_F(LimitStoreTest, AnAnswerThatIsReadTooLateIsNoAnswerInTime) {
  FakeStore fake;
  LimitStore store(Options(fake, /*patience_us=*/2'000'000));
  ASSERT_TRUE(AwaitAway(false));
  const std::string error = "-BUSY running a script\r\n";
  fake.Handle([error](const Command& c) { return FakeStore::IsTake(c) ? error : FakeStore::Granting(c); });
  for (int i = 0; i + 2 < CircuitBreaker::kFailuresMax; ++i) {
    const auto failed = Ask(store, Tokens(1));
    ASSERT_NE(failed, nullptr);
    ASSERT_EQ(failed->verdict(), LimitVerdict::kFailed);
  }
  fake.Handle([](const Command& c) { return FakeStore::IsTake(c) ? "" : FakeStore::Granting(c); });
  const size_t heard = fake.count();
  std::atomic<int64_t> due_us = std::numeric_limits<int64_t>::max();
  const auto first = store.Ask(Tokens(1), [&due_us] {
    while (MonotonicUs() < due_us.load()) std::this_thread::yield();
  });
  const auto second = Begin(store, Tokens(1));
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  due_us = second->due_us();
  ASSERT_FALSE(fake.Await(FakeStore::IsTake, heard + 1).empty());
  fake.Say(error + "*3\r\n:1\r\n:7\r\n:0\r\n");
  ASSERT_TRUE(Await([&] { return second->verdict() != LimitVerdict::kAsked; }));
  // The fourth failure in a row was the first's; the second's answer has not made them none, so the next is the fifth.
  fake.Handle([error](const Command& c) { return FakeStore::IsTake(c) ? error : FakeStore::Granting(c); });
  ASSERT_NE(Ask(store, Tokens(1)), nullptr);
  EXPECT_TRUE(AwaitAway(true));
}

TEST_F(LimitStoreTest, OneThatIsDueFailsWhateverTheThreadDoes) {
  LimitAsk ask({}, 0);
  ask.GiveUp();
  EXPECT_EQ(ask.verdict(), LimitVerdict::kFailed);
}

TEST_F(LimitStoreTest, AStoreThatHasForgottenTheScriptsIsToldThemAgain) {
  FakeStore fake;
  LimitStore store(Options(fake));
  ASSERT_TRUE(AwaitAway(false));
  fake.Handle([](const Command& c) {
    return c[0] == "EVALSHA" ? "-NOSCRIPT No matching script. Please use EVAL.\r\n" : FakeStore::Granting(c);
  });
  const auto ask = Ask(store, Tokens(30));
  EXPECT_EQ(ask->verdict(), LimitVerdict::kGranted);
  store.GiveBack(ask, 12);
  EXPECT_EQ(fake.Await([](const Command& c) { return c[0] == "EVAL" && FakeStore::IsGive(c); })[6], "12");
  // One that forgets them at once has no answer.
  fake.Handle([](const Command&) { return "-NOSCRIPT No matching script.\r\n"; });
  EXPECT_EQ(Ask(store, Tokens(30))->verdict(), LimitVerdict::kFailed);
}

TEST_F(LimitStoreTest, ErrorsMakeItAway) {
  for (const char* error : {"-OOM command not allowed when used memory > 'maxmemory'.\r\n", "-READONLY a replica\r\n",
                            "-LOADING the dataset\r\n", "-MOVED 1 127.0.0.1:1\r\n", "-WRONGTYPE a list\r\n"}) {
    FakeStore fake;
    LimitStore store(Options(fake));
    ASSERT_TRUE(AwaitAway(false));
    fake.Handle([error](const Command& c) { return FakeStore::IsTake(c) ? error : FakeStore::Granting(c); });
    const int before = Ends(AskEnd::kError);
    for (int i = 0; i < CircuitBreaker::kFailuresMax; ++i) {
      const auto ask = Ask(store, Tokens(1));
      ASSERT_NE(ask, nullptr);
      EXPECT_EQ(ask->verdict(), LimitVerdict::kFailed);
    }
    EXPECT_TRUE(AwaitAway(true)) << error;
    EXPECT_EQ(Ends(AskEnd::kError) - before, CircuitBreaker::kFailuresMax);
    const size_t heard = fake.count();
    EXPECT_FALSE(fake.Await(FakeStore::IsProbe, heard).empty());
    EXPECT_EQ(Begin(store, Tokens(1)), nullptr) << "the probe fails the same way";
  }
}

TEST_F(LimitStoreTest, AnswersThatNoScriptGivesEndTheConnection) {
  for (const char* answer : {"*3\r\n:4\r\n:0\r\n:0\r\n", "*3\r\n:0\r\n:0\r\n:0\r\n", "*3\r\n:1\r\n:-1\r\n:0\r\n",
                             "*3\r\n:2\r\n:0\r\n:9223372036854775807\r\n", "*2\r\n:1\r\n:1\r\n", ":1\r\n", "+OK\r\n",
                             "$-1\r\n", "*1000000000\r\n", "what\r\n"}) {
    FakeStore fake;
    LimitStore store(Options(fake));
    ASSERT_TRUE(AwaitAway(false));
    fake.Handle([answer](const Command& c) {
      return FakeStore::IsTake(c) && !FakeStore::IsProbe(c) ? answer : FakeStore::Granting(c);
    });
    const size_t before = fake.count();
    EXPECT_EQ(Ask(store, Tokens(1))->verdict(), LimitVerdict::kFailed) << answer;
    EXPECT_FALSE(fake.Await(FakeStore::IsProbe, before).empty()) << answer;
  }
}

TEST_F(LimitStoreTest, NobodyIsToldOfALimitThatThereIsNot) {
  const std::pair<LimitDemand, const char*> cases[] = {
      {{"t", LimitKind::kRequests, 60, 1, 0, 0}, "*3\r\n:3\r\n:0\r\n:0\r\n"},
      {{"t", LimitKind::kRequests, 0, 0, 8, 1}, "*3\r\n:2\r\n:0\r\n:1000\r\n"}};
  for (const auto& [demand, answer] : cases) {
    FakeStore fake;
    LimitStore store(Options(fake));
    ASSERT_TRUE(AwaitAway(false));
    fake.Handle([said = answer](const Command& c) {
      return FakeStore::IsTake(c) && !FakeStore::IsProbe(c) ? said : FakeStore::Granting(c);
    });
    EXPECT_EQ(Ask(store, demand)->verdict(), LimitVerdict::kFailed) << answer;
  }
}

TEST_F(LimitStoreTest, ThePasswordIsNotInTheLogWhateverTheStoreSaysOfIt) {
  const std::string path = testing::TempDir() + "/store_password_of_a_proxy";
  std::ofstream(path) << "the-secret\n";
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  for (const std::string& said : std::vector<std::string>{"ERR wrong: AUTH ", "", "\"AUTH\" "}) {
    FakeStore fake([said](const Command& c) { return c[0] == "AUTH" ? "-" + said + c[1] + "\r\n" : "+OK\r\n"; });
    LimitStore::Options options = Options(fake);
    options.password_path = path;
    testing::internal::CaptureStderr();
    StartLog(LogLevel::kInfo);
    LimitStore store(std::move(options));
    (void)fake.Await([](const Command& c) { return c[0] == "AUTH"; });
    (void)fake.Await([](const Command& c) { return c[0] == "AUTH"; }, fake.count());  // it has said why by then
    store.Stop();
    StopLog();
    const std::string text = testing::internal::GetCapturedStderr();
    EXPECT_THAT(text, testing::HasSubstr(said.starts_with("ERR") ? "AUTH: ERR" : "AUTH: "));
    EXPECT_THAT(text, testing::Not(testing::HasSubstr("the-secret")));
  }
}

TEST_F(LimitStoreTest, AnAnswerThatNobodyAskedForEndsTheConnection) {
  FakeStore fake;
  LimitStore store(Options(fake));
  ASSERT_TRUE(AwaitAway(false));
  const size_t before = fake.count();
  fake.Say("*3\r\n:1\r\n:7\r\n:0\r\n");
  EXPECT_FALSE(fake.Await(FakeStore::IsProbe, before).empty());
}

TEST_F(LimitStoreTest, GreetsWithThePasswordInTheFile) {
  const std::string path = testing::TempDir() + "/store_password";
  std::ofstream(path) << "a secret\nignored\n";
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  FakeStore fake;
  LimitStore::Options options = Options(fake);
  options.password_path = path;
  options.address.user = "hydrant";
  options.address.database = 3;
  LimitStore store(std::move(options));
  ASSERT_TRUE(AwaitAway(false));
  EXPECT_THAT(fake.Await([](const Command& c) { return c[0] == "AUTH"; }), ElementsAre("AUTH", "hydrant", "a secret"));
  EXPECT_THAT(fake.Await([](const Command& c) { return c[0] == "SELECT"; }), ElementsAre("SELECT", "3"));
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  EXPECT_FALSE(LimitStore::ReadPassword(path).ok());
  std::ofstream(path) << "\n";
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  EXPECT_FALSE(LimitStore::ReadPassword(path).ok());
}

TEST_F(LimitStoreTest, AGreetingThatIsRefusedIsNoConnection) {
  for (const char* command : {"SELECT", "SCRIPT", "EVALSHA"}) {
    FakeStore fake([command](const Command& c) { return c[0] == command ? "-NOAUTH\r\n" : FakeStore::Granting(c); });
    LimitStore::Options options = Options(fake);
    options.address.database = 1;
    LimitStore store(std::move(options));
    EXPECT_FALSE(fake.Await([command](const Command& c) { return c[0] == command; }).empty());
    EXPECT_EQ(Begin(store, Tokens(1)), nullptr);
  }
}

TEST_F(LimitStoreTest, WhatIsGivenBackLastIsSaidBeforeItEnds) {
  FakeStore fake;
  {
    LimitStore store(Options(fake));
    ASSERT_TRUE(AwaitAway(false));
    std::vector<std::shared_ptr<LimitAsk>> asks;
    for (int i = 0; i < 100; ++i) asks.push_back(Ask(store, Tokens(1)));
    for (const auto& ask : asks) store.GiveBack(ask, 1);
  }
  EXPECT_EQ(fake.Count(FakeStore::IsGive), 100u);
}

TEST_F(LimitStoreTest, ManyThreadsAskAtOnce) {
  FakeStore fake;
  LimitStore store(Options(fake));
  ASSERT_TRUE(AwaitAway(false));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 50; ++j) {
        const auto ask = Ask(store, Tokens(1));
        EXPECT_EQ(ask->verdict(), LimitVerdict::kGranted);
        store.GiveBack(ask, 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Ends(AskEnd::kGranted), 200);
}

}  // namespace
}  // namespace hydrant
