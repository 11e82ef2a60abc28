#include "server/frontend/request_deadlines.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/http/response_stream.h"

namespace hydrant {
namespace {

constexpr int64_t kSecond = 1'000'000;
constexpr int64_t kArrival = 100 * kSecond;

std::shared_ptr<RequestAccount> AccountOf(size_t sequences) {
  auto tenant = std::make_shared<TenantAccount>(0, "a");
  tenant->SetLimits({}, kArrival);
  std::optional<Refusal> refusal;
  return RequestAccount::TryOpen(std::move(tenant), std::vector<RequestAccount::Sequence>(sequences, {1, 1}), Backlog(),
                                 1, kArrival, &refusal);
}

TEST(RequestDeadlines, WithoutLimitsThereIsNone) {
  RequestDeadlines deadlines(kArrival, {}, 0, AccountOf(1));
  EXPECT_EQ(deadlines.next_us(), kNever);
  EXPECT_FALSE(deadlines.Missed(kArrival + 1000 * kSecond, 0).has_value());
}

TEST(RequestDeadlines, TheWholeRequestHasItsTimeAdmittedOrNot) {
  const std::shared_ptr<RequestAccount> account = AccountOf(1);
  RequestDeadlines deadlines(kArrival, {2.5, "timeout"}, 0, account);
  EXPECT_EQ(deadlines.next_us(), kArrival + 2'500'000);
  EXPECT_FALSE(deadlines.Missed(kArrival + 2'499'999, 0).has_value());
  account->OnAdmitted(0);
  const std::optional<Refusal> missed = deadlines.Missed(kArrival + 2'500'000, 0);
  ASSERT_TRUE(missed.has_value());
  EXPECT_EQ(missed->reason, RejectReason::kTimeout);
  EXPECT_EQ(missed->error.code, "request_time_exceeded");
  EXPECT_EQ(missed->error.message, "This request took longer than it may: 2.5 seconds (timeout).");
}

TEST(RequestDeadlines, AWaitEndsWithAnErrorThatSaysWhenToComeBack) {
  const std::shared_ptr<RequestAccount> account = AccountOf(2);
  RequestDeadlines deadlines(kArrival, {9, "timeout"}, 2, account);
  EXPECT_EQ(deadlines.next_us(), kArrival + 2 * kSecond);
  EXPECT_FALSE(deadlines.Missed(kArrival + 2 * kSecond - 1, 0).has_value());
  const std::optional<Refusal> missed = deadlines.Missed(kArrival + 2 * kSecond, 3.2);
  ASSERT_TRUE(missed.has_value());
  EXPECT_EQ(missed->reason, RejectReason::kQueueTimeout);
  EXPECT_EQ(missed->error.status, 504);
  EXPECT_EQ(missed->error.code, "queue_time_exceeded");
  EXPECT_EQ(missed->error.retry_after_s, 4);
}

TEST(RequestDeadlines, OneAdmittedSequenceEndsTheWaitForGood) {
  std::shared_ptr<RequestAccount> account = AccountOf(2);
  RequestDeadlines admitted(kArrival, {9, "timeout"}, 2, account);
  RequestDeadlines ended(kArrival, {}, 2, AccountOf(1));  // whose account is gone
  account->OnAdmitted(1);
  EXPECT_FALSE(admitted.Missed(kArrival + 2 * kSecond, 0).has_value());
  EXPECT_EQ(admitted.next_us(), kArrival + 9 * kSecond) << "nobody has to look again before";
  EXPECT_FALSE(ended.Missed(kArrival + 2 * kSecond, 0).has_value());
  EXPECT_EQ(ended.next_us(), kNever);
}

}  // namespace
}  // namespace hydrant
