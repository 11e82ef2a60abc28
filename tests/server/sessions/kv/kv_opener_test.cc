#include "server/sessions/kv/kv_opener.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <vector>

#include "server/process/clock.h"

namespace hydrant {
namespace {

TEST(KvOpener, ADiskThatHangsHoldsNobodyLongerThanItMay) {
  // Far above what a busy machine takes from a thread: a disk that answers is never too late.
  constexpr int64_t kPatienceUs = 300'000;
  std::promise<void> answers;
  std::shared_future<void> answered = answers.get_future().share();
  std::atomic<int> opened = 0;
  std::atomic<bool> hangs = false;
  KvOpener opener(
      [&](const SessionName&, uint64_t turn) {
        ++opened;
        if (hangs) answered.wait();
        return KvOpener::Opened{nullptr, turn == 9 ? KvReject::kShort : KvReject::kNone};
      },
      MonotonicUs, kPatienceUs);
  EXPECT_EQ(opener.Open({}, 9).reject, KvReject::kShort) << "before its thread is there";
  opener.Start();
  EXPECT_EQ(opener.Open({}, 9).reject, KvReject::kShort);
  EXPECT_EQ(opener.Open({}, 1).reject, KvReject::kNone);
  hangs = true;
  const int64_t begin_us = MonotonicUs();
  EXPECT_EQ(opener.Open({}, 2).reject, KvReject::kTimeout);
  const int64_t first_us = MonotonicUs() - begin_us;
  EXPECT_GE(first_us, kPatienceUs);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(opener.Open({}, 3).reject, KvReject::kTimeout);
  EXPECT_LT(MonotonicUs() - begin_us - first_us, 50 * kPatienceUs) << "nobody waits behind it";
  EXPECT_EQ(opened, 4) << "nor is it asked meanwhile";
  hangs = false;
  answers.set_value();
  while (opener.Open({}, 9).reject == KvReject::kTimeout) {
  }
  EXPECT_EQ(opener.Open({}, 9).reject, KvReject::kShort) << "it answers again";
}

}  // namespace
}  // namespace hydrant
