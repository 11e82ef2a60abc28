#include "server/tenants/tenant_account.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>

#include "tests/server/tenants/account_fixture.h"

namespace hydrant {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

constexpr int64_t kTenantAccountSecond = 1'000'000;

class TenantAccountTest : public AccountFixture {};

TEST_F(TenantAccountTest, WithoutLimitsEverythingIsLetIn) {
  const auto account = With({});
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(account->Open(now_us_).has_value());
  EXPECT_NE(Take(account, 1 << 20, 1 << 20, 100), nullptr);
  EXPECT_THAT(account->RateFields(now_us_), IsEmpty());
}

TEST_F(TenantAccountTest, ConcurrencyCountsOpenRequests) {
  const auto account = With({.concurrency_max = 2});
  EXPECT_FALSE(account->Open(now_us_).has_value());
  EXPECT_FALSE(account->Open(now_us_).has_value());
  const std::optional<Refusal> refusal = account->Open(now_us_);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->reason, RejectReason::kConcurrency);
  EXPECT_EQ(refusal->error.status, 429);
  EXPECT_EQ(refusal->error.code, "rate_limit_exceeded");
  EXPECT_EQ(refusal->error.param, "concurrency_max");
  EXPECT_THAT(refusal->error.message, HasSubstr("concurrency_max"));
  EXPECT_THAT(account->LimitFields(*refusal),
              ElementsAre(Pair("x-ratelimit-limit-requests", "2"), Pair("x-ratelimit-remaining-requests", "0"),
                          Pair("x-ratelimit-reset-requests", "1s")));
  account->Close(now_us_, now_us_);
  EXPECT_FALSE(account->Open(now_us_).has_value());
}

TEST_F(TenantAccountTest, WhenAPlaceIsLikelyToGetFreeFollowsFromHowLongRequestsTake) {
  const auto account = With({.concurrency_max = 1});
  for (int i = 0; i < 100; ++i) {
    ASSERT_FALSE(account->Open(now_us_).has_value());
    account->Close(now_us_, now_us_ + 20 * kTenantAccountSecond);
  }
  ASSERT_FALSE(account->Open(now_us_).has_value());
  EXPECT_NEAR(account->Open(now_us_)->error.retry_after_s, 20, 1);
}

TEST_F(TenantAccountTest, RequestsPerMinuteSayWhenTheNextOneMayCome) {
  const auto account = With({.rpm = 30});
  for (int i = 0; i < 30; ++i) EXPECT_FALSE(account->Open(now_us_).has_value()) << i;
  const std::optional<Refusal> refusal = account->Open(now_us_);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->reason, RejectReason::kRpm);
  EXPECT_EQ(refusal->error.param, "rpm");
  EXPECT_EQ(refusal->error.retry_after_s, 2);
  EXPECT_TRUE(account->Open(now_us_ + 2 * kTenantAccountSecond - 1).has_value());
  EXPECT_FALSE(account->Open(now_us_ + 2 * kTenantAccountSecond).has_value());
  EXPECT_THAT(account->RateFields(now_us_ + 2 * kTenantAccountSecond),
              ElementsAre(Pair("x-ratelimit-limit-requests", "30"), Pair("x-ratelimit-remaining-requests", "0"),
                          Pair("x-ratelimit-reset-requests", "60s")));
  EXPECT_THAT(account->LimitFields(*refusal), IsEmpty()) << "no field comes twice";
}

TEST_F(TenantAccountTest, ARefusedRequestTakesNothing) {
  const auto account = With({.concurrency_max = 1, .rpm = 10});
  ASSERT_FALSE(account->Open(now_us_).has_value());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(account->Open(now_us_)->reason, RejectReason::kConcurrency);
  EXPECT_EQ(account->snapshot(now_us_).requests_remaining, 9);
}

TEST_F(TenantAccountTest, TokensAreTakenForTheWholeRequestAndWhatWasNotUsedComesBack) {
  const auto account = With({.tpm = 1000});
  const auto request = Take(account, 100, 200, 2);
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(account->snapshot(now_us_).tokens_remaining, 400);
  EXPECT_EQ(Take(account, 400, 1), nullptr);
  EXPECT_EQ(refusal_->reason, RejectReason::kTpm);
  EXPECT_EQ(refusal_->error.status, 429);
  EXPECT_EQ(refusal_->error.param, "tpm");
  EXPECT_EQ(refusal_->error.retry_after_s, 1) << "1 missing of 16.7 a second";
  request->OnEnded(0, 100, 50);
  EXPECT_EQ(account->snapshot(now_us_).tokens_remaining, 550);
  request->OnEnded(1, 64, 0);  // cancelled inside its prompt
  EXPECT_EQ(account->snapshot(now_us_).tokens_remaining, 1000 - 150 - 64);
  request->OnEnded(1, 0, 0);
  EXPECT_EQ(account->snapshot(now_us_).tokens_remaining, 1000 - 150 - 64) << "an end counts once";
}

// A session's turn takes tokens for what is new; when what it had parked was lost meanwhile, all of it is computed.
TEST_F(TenantAccountTest, TokensComputedBeyondWhatCouldBeKnownArePaidForAfterwards) {
  const auto account = With({.tpm = 600});
  const auto turn = Take(account, 100, 400);
  ASSERT_NE(turn, nullptr);
  turn->OnEnded(0, 700, 400);
  const int64_t now_us = MonotonicUs();
  EXPECT_EQ(account->snapshot(now_us).tokens_remaining, 0) << "600 - 1100";
  EXPECT_EQ(Take(account, 1, 0), nullptr);
  EXPECT_EQ(refusal_->reason, RejectReason::kTpm);
  EXPECT_NEAR(refusal_->error.retry_after_s, 51, 1) << "501 missing of 10 a second";
  EXPECT_EQ(account->snapshot(now_us + 49 * kTenantAccountSecond).tokens_remaining, 0);
  EXPECT_GT(account->snapshot(now_us + 52 * kTenantAccountSecond).tokens_remaining, 0);
  account->SetLimits({.tpm = 300}, now_us);
  EXPECT_EQ(account->snapshot(now_us + 98 * kTenantAccountSecond).tokens_remaining, 0) << "a reload forgives nothing";
  EXPECT_GT(account->snapshot(now_us + 102 * kTenantAccountSecond).tokens_remaining, 0);
}

TEST_F(TenantAccountTest, WhatTheEngineNeverSawIsFree) {
  const auto account = With({.tpm = 1000, .queue_max = 4});
  { const auto request = Take(account, 100, 200, 3); }
  EXPECT_EQ(account->snapshot(now_us_).tokens_remaining, 1000);
  EXPECT_EQ(account->snapshot(now_us_).queued, 0);
}

TEST_F(TenantAccountTest, ARequestAboveAMinutesTokensCanNeverComeIn) {
  const auto account = With({.tpm = 1000});
  EXPECT_EQ(Take(account, 500, 501), nullptr);
  EXPECT_EQ(refusal_->error.status, 400) << "a retry would change nothing";
  EXPECT_EQ(refusal_->error.param, "max_tokens");
  EXPECT_EQ(refusal_->reason, RejectReason::kInvalid);
  EXPECT_NE(Take(account, 500, 500), nullptr);
}

TEST_F(TenantAccountTest, TheQueueIsLeftAtAdmissionOrAtTheEnd) {
  const auto account = With({.queue_max = 3});
  const auto first = Take(account, 1, 1, 2);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(Take(account, 1, 1, 2), nullptr);
  EXPECT_EQ(refusal_->reason, RejectReason::kQueue);
  EXPECT_EQ(refusal_->error.param, "queue_max");
  EXPECT_EQ(refusal_->error.retry_after_s, 3) << "the estimate of the whole queue";
  first->OnAdmitted(0);
  const auto second = Take(account, 1, 1, 2);
  ASSERT_NE(second, nullptr);
  second->OnEnded(1, 0, 0);  // cancelled while it waited
  first->OnAdmitted(1);
  first->OnEnded(1, 1, 1);
  EXPECT_EQ(account->snapshot(now_us_).queued, 1);
}

TEST_F(TenantAccountTest, SequencesThatWaitOrRunAreBounded) {
  const auto account = With({.sequences_max = 3});
  EXPECT_EQ(Take(account, 1, 1, 4), nullptr);
  EXPECT_EQ(refusal_->error.status, 400) << "a retry would change nothing";
  EXPECT_EQ(refusal_->error.param, "n");
  const auto first = Take(account, 1, 1, 2);
  ASSERT_NE(first, nullptr);
  first->OnAdmitted(0);
  EXPECT_EQ(Take(account, 1, 1, 2), nullptr);
  EXPECT_EQ(refusal_->error.status, 429);
  EXPECT_EQ(refusal_->error.param, "sequences_max");
  EXPECT_EQ(refusal_->reason, RejectReason::kConcurrency);
  first->OnEnded(0, 1, 1);
  EXPECT_NE(Take(account, 1, 1, 2), nullptr);
}

TEST_F(TenantAccountTest, HalfOfTheQueueIsSharedOutByWeight) {
  struct Case {
    const char* name;
    int64_t sequences, tokens;  // in the whole queue
    int own;                    // sequences this tenant has in it, of 100 prompt tokens each
    double share;
    bool accepted;
  };
  for (const Case& test : std::vector<Case>{
           {"the common half has room", 400, 4000, 30, 0.1, true},
           {"it has none, the own part has", 600, 3000, 10, 0.1, true},
           {"neither has: sequences", 600, 3000, 51, 0.1, false},
           {"neither has: tokens", 400, 6000, 10, 0.1, false},
           {"twice the share", 400, 6000, 9, 0.2, true},
           {"nothing waits of its own", 990, 9990, 0, 0.001, true},
           {"alone, the server's own bound decides", 990, 9990, 100, 1, true},
       }) {
    const auto account = With({});
    std::shared_ptr<RequestAccount> before;
    backlog_ = {0, 1000, 0, 10'000, 3};
    if (test.own > 0) before = Take(account, 100, 1, test.own);
    backlog_.sequences = test.sequences;
    backlog_.prompt_tokens = test.tokens;
    EXPECT_EQ(Take(account, 100, 1, 1, test.share) != nullptr, test.accepted) << test.name;
    if (!test.accepted) {
      EXPECT_EQ(refusal_->reason, RejectReason::kQueue) << test.name;
    }
  }
}

TEST_F(TenantAccountTest, TheFirstPromptThatWaitsIsOneWhileItWaits) {
  const auto account = With({});
  const auto first = Take(account, 100, 1);
  EXPECT_TRUE(first->first_of_tenant());
  EXPECT_FALSE(Take(account, 100, 1)->first_of_tenant());
  first->OnAdmitted(0);
  EXPECT_TRUE(Take(account, 100, 1)->first_of_tenant());
}

TEST_F(TenantAccountTest, TheFirstRequestKeepsToItsPartOfTheQueueToo) {
  const auto account = With({});
  backlog_ = {0, 1000, 0, 1 << 20, 3};
  EXPECT_EQ(Take(account, 1, 1, 501, 0.5), nullptr) << "more than half of the queue";
  EXPECT_EQ(refusal_->error.status, 400) << "a retry would change nothing";
  EXPECT_EQ(refusal_->reason, RejectReason::kInvalid);
  EXPECT_NE(Take(account, 1, 1, 501, 1), nullptr) << "who is alone may have all of it";
  backlog_.sequences = 500;
  EXPECT_EQ(Take(account, 1, 1, 251, 0.5), nullptr) << "the common half is taken";
  EXPECT_EQ(refusal_->error.status, 429);
  EXPECT_NE(Take(account, 1, 1, 250, 0.5), nullptr);
}

TEST_F(TenantAccountTest, NewLimitsHoldAtOnce) {
  const auto account = With({});
  for (int i = 0; i < 5; ++i) ASSERT_FALSE(account->Open(now_us_).has_value());
  account->SetLimits({.concurrency_max = 5, .rpm = 1}, now_us_);
  EXPECT_EQ(account->Open(now_us_)->reason, RejectReason::kConcurrency);
  account->Close(now_us_, now_us_);
  EXPECT_FALSE(account->Open(now_us_).has_value());
  account->Close(now_us_, now_us_);
  EXPECT_EQ(account->Open(now_us_)->reason, RejectReason::kRpm);
}

TEST_F(TenantAccountTest, WhatWasTakenOfNoLimitComesBackToNone) {
  const auto account = With({});
  const auto unlimited = Take(account, 10, 990);
  account->SetLimits({.tpm = 1000}, now_us_);
  const auto first = Take(account, 10, 990);
  ASSERT_NE(first, nullptr);
  unlimited->OnEnded(0, 0, 0);
  EXPECT_LT(account->snapshot(now_us_).tokens_remaining, 900);
  account->SetLimits({}, now_us_);
  account->SetLimits({.tpm = 1000}, now_us_);
  const auto second = Take(account, 10, 990);
  ASSERT_NE(second, nullptr) << "another limit, full";
  first->OnEnded(0, 0, 0);
  EXPECT_LT(account->snapshot(now_us_).tokens_remaining, 900);
  second->OnEnded(0, 0, 0);
  EXPECT_EQ(account->snapshot(now_us_).tokens_remaining, 1000);
}

}  // namespace
}  // namespace hydrant
