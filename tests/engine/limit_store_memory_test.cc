// A store of shared limits whose thread has no memory. In a program of its own, whose operator new is replaced.
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>

#include "server/shared_limits/limit_store.h"
#include "tests/engine/failing_new.h"
#include "tests/server/shared_limits/fake_store.h"

namespace hydrant {
namespace {

// One store, on whose thread `fails` allocations fail in a row once it has a connection and has made `before` more.
class Starved {
 public:
  Starved(const FakeStore& fake, int before, int fails) {
    LimitStore::Options options;
    options.address = fake.address();
    options.patience_us = 10'000'000;
    options.on_away = [this, before, fails, armed = false](bool away) mutable {
      if (!away && !armed) {
        armed = true;
        FailNewHere(before, fails);
      }
      const std::lock_guard<std::mutex> lock(mutex_);
      away_ = away;
      changed_.notify_all();
    };
    options.on_end = [this](AskEnd, int64_t) {
      const std::lock_guard<std::mutex> lock(mutex_);
      failed_ = failed_ || NewFailedHere() > 0;
    };
    store_.emplace(std::move(options));
  }
  bool AwaitThere() {
    return Await([this] { return !away_; });
  }
  // Asks until an ask was begun, and waits until it has ended.
  std::shared_ptr<LimitAsk> Ask() {
    std::shared_ptr<LimitAsk> ask;
    while (ask == nullptr && AwaitThere())
      ask = store_->Ask({"t", LimitKind::kTokens, 100, 3, 8, 2}, [this] { Wake(); });
    if (ask != nullptr) {
      EXPECT_TRUE(Await([&] { return ask->verdict() != LimitVerdict::kAsked; }));
    }
    return ask;
  }
  void GiveBack(const std::shared_ptr<LimitAsk>& ask) { store_->GiveBack(ask, 3); }
  // Whether an allocation has.
  bool failed() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return failed_;
  }

 private:
  template <typename Condition>
  bool Await(const Condition& condition) {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), condition);
  }
  void Wake() {
    const std::lock_guard<std::mutex> lock(mutex_);
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  bool away_ = true;
  bool failed_ = false;
  std::optional<LimitStore> store_;  // last: its thread uses the others
};

TEST(LimitStoreMemory, AThreadWithoutMemoryLosesItsConnectionAndNothingElse) {
  for (const int fails : {1, 4}) {
    int before = 0;
    // Several in a row cost pauses before the next connection, and any of them may be the first.
    for (bool failed = true; failed; before += fails) {
      SCOPED_TRACE(testing::Message() << fails << " failures after " << before);
      ASSERT_LT(before, 300);
      FakeStore fake;
      Starved store(fake, before, fails);
      ASSERT_TRUE(store.AwaitThere());
      // Whatever it came to it has ended, and what was granted comes back.
      for (int i = 0; i < 3; ++i) {
        const std::shared_ptr<LimitAsk> ask = store.Ask();
        ASSERT_NE(ask, nullptr);
        if (ask->verdict() == LimitVerdict::kGranted) store.GiveBack(ask);
      }
      failed = store.failed();
      int granted = 0;
      for (int i = 0; i < 100 && granted == 0; ++i) granted += store.Ask()->verdict() == LimitVerdict::kGranted ? 1 : 0;
      EXPECT_EQ(granted, 1) << "it goes on";
    }
    EXPECT_GT(before, 10);
  }
}

}  // namespace
}  // namespace hydrant
