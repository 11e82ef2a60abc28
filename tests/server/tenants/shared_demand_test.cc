#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "server/tenants/tenant_account.h"
#include "tests/server/shared_limits/fake_store.h"
#include "tests/server/tenants/account_fixture.h"

namespace hydrant {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Pair;

class SharedDemandTest : public AccountFixture {};

TEST_F(SharedDemandTest, ATenantWithoutLimitsAsksNothing) {
  const auto account = With({.queue_max = 3});
  EXPECT_FALSE(account->SharedDemand().has_value());
  EXPECT_FALSE(Take(account, 10, 5, 1)->SharedDemand().has_value());
}

TEST_F(SharedDemandTest, AsksForWhatIsLimited) {
  const auto requests = With({.rpm = 60})->SharedDemand();
  ASSERT_TRUE(requests.has_value());
  EXPECT_EQ(requests->tenant, "a");
  EXPECT_EQ(requests->per_minute, 60);
  EXPECT_EQ(requests->amount, 1);
  EXPECT_EQ(requests->places, 0);
  const auto open = With({.concurrency_max = 3})->SharedDemand();
  EXPECT_EQ(open->per_minute, 0);
  EXPECT_EQ(open->amount, 0);
  EXPECT_EQ(open->places_max, 3);
  EXPECT_EQ(open->places, 1);
  const auto tokens = Take(With({.tpm = 1000, .sequences_max = 4}), 10, 5, 3)->SharedDemand();
  EXPECT_EQ(tokens->kind, LimitKind::kTokens);
  EXPECT_EQ(tokens->per_minute, 1000);
  EXPECT_EQ(tokens->amount, 45);
  EXPECT_EQ(tokens->places_max, 4);
  EXPECT_EQ(tokens->places, 3);
}

TEST_F(SharedDemandTest, WithoutAnAnswerTheFlagDecides) {
  const auto account = With({.rpm = 60});
  EXPECT_FALSE(account->Judge(nullptr, /*fails_open=*/true, now_us_).has_value());
  const auto refusal = account->Judge(nullptr, /*fails_open=*/false, now_us_);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->error.status, 503);
  EXPECT_EQ(refusal->error.code, "limits_unavailable");
  EXPECT_EQ(refusal->error.retry_after_s, 1);
  LimitAsk ask(*account->SharedDemand(), 0);
  ask.GiveUp();
  EXPECT_FALSE(account->Judge(&ask, true, now_us_).has_value());
  EXPECT_TRUE(account->Judge(&ask, false, now_us_).has_value());
}

// What a store that answers so says of `demand`.
std::shared_ptr<LimitAsk> Answered(const LimitDemand& demand, const std::string& answer) {
  FakeStore fake([&](const FakeStore::Command& c) {
    return FakeStore::IsTake(c) && !FakeStore::IsProbe(c) ? answer : FakeStore::Granting(c);
  });
  LimitStore::Options options;
  options.address = fake.address();
  options.patience_us = 10'000'000;
  LimitStore store(std::move(options));
  std::shared_ptr<LimitAsk> ask;
  while ((ask = store.Ask(demand, [] {})) == nullptr) std::this_thread::yield();
  while (ask->verdict() == LimitVerdict::kAsked) std::this_thread::yield();
  return ask;
}

TEST_F(SharedDemandTest, WhatTheStoreRefusedIsKnownForAMoment) {
  const auto account = With({.concurrency_max = 4, .rpm = 60});
  const LimitDemand demand = *account->SharedDemand();
  EXPECT_FALSE(account->KnownRefusal(demand, now_us_).has_value());
  const auto rate = Answered(demand, "*3\r\n:2\r\n:0\r\n:400000\r\n");
  ASSERT_TRUE(account->Judge(rate.get(), true, now_us_).has_value());
  const auto known = account->KnownRefusal(demand, now_us_ + 399'000);
  ASSERT_TRUE(known.has_value());
  EXPECT_EQ(known->error.param, "rpm");
  EXPECT_TRUE(known->shared);
  EXPECT_FALSE(account->KnownRefusal(demand, now_us_ + 400'001).has_value());
  // However long the wait is, the store is looked at again, since others may give back.
  const auto later = Answered(demand, "*3\r\n:2\r\n:0\r\n:30000000\r\n");
  ASSERT_TRUE(account->Judge(later.get(), true, now_us_).has_value());
  const auto long_wait = account->KnownRefusal(demand, now_us_ + 999'000);
  ASSERT_TRUE(long_wait.has_value());
  EXPECT_EQ(long_wait->error.retry_after_s, 30);
  EXPECT_FALSE(account->KnownRefusal(demand, now_us_ + 1'000'000).has_value());
  // A reload forgets it.
  ASSERT_TRUE(account->Judge(later.get(), true, now_us_).has_value());
  account->SetLimits({.concurrency_max = 4, .rpm = 600}, now_us_);
  EXPECT_FALSE(account->KnownRefusal(demand, now_us_).has_value());
}

TEST_F(SharedDemandTest, APlaceThatWasNotThereIsAskedForAgainSoonerAndAtOnceWhenOneIsFree) {
  const auto account = With({.concurrency_max = 4});
  const LimitDemand demand = *account->SharedDemand();
  const auto places = Answered(demand, "*3\r\n:3\r\n:0\r\n:0\r\n");
  ASSERT_TRUE(account->Judge(places.get(), true, now_us_).has_value());
  const auto known = account->KnownRefusal(demand, now_us_ + 49'000);
  ASSERT_TRUE(known.has_value());
  EXPECT_EQ(known->error.param, "concurrency_max");
  EXPECT_FALSE(account->KnownRefusal(demand, now_us_ + 50'000).has_value());
  ASSERT_FALSE(account->Open(now_us_).has_value());
  account->Close(now_us_, now_us_);
  EXPECT_FALSE(account->KnownRefusal(demand, now_us_ + 1).has_value());
}

TEST_F(SharedDemandTest, FewerTokensThanWereRefusedAreAskedForWhereThereAreSoMany) {
  const auto account = With({.tpm = 6000});
  const LimitDemand demand = *Take(account, 100, 100, 1)->SharedDemand();
  const auto rate = Answered(demand, "*3\r\n:2\r\n:150\r\n:500000\r\n");  // 50 more, by 100 a second
  ASSERT_TRUE(account->Judge(rate.get(), true, now_us_).has_value());
  const auto known = [&](int64_t amount, int64_t after_us) {
    LimitDemand less = demand;
    less.amount = amount;
    return account->KnownRefusal(less, now_us_ + after_us).has_value();
  };
  EXPECT_TRUE(known(200, 499'000));
  EXPECT_TRUE(known(160, 99'000));
  EXPECT_FALSE(known(160, 101'000));
  EXPECT_FALSE(known(150, 0));
}

TEST_F(SharedDemandTest, PlacesAloneBringNoTokensBack) {
  const auto account = With({.sequences_max = 4});
  const auto before = Take(account, 10, 990);
  FakeStore fake(FakeStore::Granting);
  LimitStore::Options options;
  options.address = fake.address();
  LimitStore store(std::move(options));
  before->Hold(&store, Answered(*before->SharedDemand(), "*3\r\n:1\r\n:0\r\n:0\r\n"));
  account->SetLimits({.tpm = 1000, .sequences_max = 4}, now_us_);
  const auto after = Answered(*Take(account, 10, 990)->SharedDemand(), "*3\r\n:1\r\n:0\r\n:0\r\n");
  ASSERT_FALSE(account->Judge(after.get(), true, now_us_).has_value());
  before->OnEnded(0, 0, 0);
  EXPECT_THAT(account->RateFields(now_us_), Contains(Pair("x-ratelimit-remaining-tokens", "0")));
}

TEST_F(SharedDemandTest, ARequestThatIsWithdrawnCountsForNothing) {
  const auto account = With({.concurrency_max = 1, .rpm = 1});
  ASSERT_FALSE(account->Open(now_us_).has_value());
  account->Withdraw(now_us_);
  EXPECT_EQ(account->snapshot(now_us_).open, 0);
  EXPECT_EQ(account->snapshot(now_us_).requests_remaining, 1);
  EXPECT_FALSE(account->Open(now_us_).has_value());
}

}  // namespace
}  // namespace hydrant
