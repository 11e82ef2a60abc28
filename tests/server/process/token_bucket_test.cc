#include "server/process/token_bucket.h"

#include <gtest/gtest.h>

#include <cmath>

namespace hydrant {
namespace {

constexpr int64_t kTokenBucketSecond = 1'000'000;

TEST(TokenBucket, WithoutALimitEverythingIsGiven) {
  TokenBucket bucket;
  EXPECT_FALSE(bucket.limited());
  EXPECT_TRUE(bucket.TryTake(1'000'000'000, 0));
  EXPECT_EQ(bucket.SecondsUntil(1, 0), 0);
}

TEST(TokenBucket, HoldsAMinuteAndFillsEvenly) {
  TokenBucket bucket;
  bucket.SetLimit(60, 0);
  EXPECT_TRUE(bucket.TryTake(60, 0));
  EXPECT_FALSE(bucket.TryTake(1, 0));
  EXPECT_FALSE(bucket.TryTake(1, kTokenBucketSecond - 1));
  EXPECT_TRUE(bucket.TryTake(1, kTokenBucketSecond));
  EXPECT_FALSE(bucket.TryTake(1, kTokenBucketSecond));
  EXPECT_EQ(bucket.remaining(11 * kTokenBucketSecond), 10);
  EXPECT_EQ(bucket.remaining(1000 * kTokenBucketSecond), 60) << "never more than the limit";
}

TEST(TokenBucket, ABurstBoundsWhatIsThereAtOnceAndTheRateWhatComesBack) {
  TokenBucket bucket;
  bucket.SetLimit(/*per_minute=*/300, /*burst=*/20, 0);
  EXPECT_EQ(bucket.limit(), 20);
  EXPECT_TRUE(bucket.TryTake(20, 0));
  EXPECT_FALSE(bucket.TryTake(1, kTokenBucketSecond / 5 - 1));
  EXPECT_TRUE(bucket.TryTake(1, kTokenBucketSecond / 5)) << "five a second";
  EXPECT_DOUBLE_EQ(bucket.SecondsUntil(5, kTokenBucketSecond / 5), 1);
  EXPECT_DOUBLE_EQ(bucket.SecondsUntilFull(kTokenBucketSecond / 5), 4);
  EXPECT_TRUE(std::isinf(bucket.SecondsUntil(21, kTokenBucketSecond / 5)));
  EXPECT_EQ(bucket.remaining(100 * kTokenBucketSecond), 20);
}

TEST(TokenBucket, SaysWhenThereWillBeRoom) {
  TokenBucket bucket;
  bucket.SetLimit(120, 0);
  ASSERT_TRUE(bucket.TryTake(120, 0));
  EXPECT_DOUBLE_EQ(bucket.SecondsUntil(10, 0), 5);
  EXPECT_DOUBLE_EQ(bucket.SecondsUntil(10, 2 * kTokenBucketSecond), 3);
  EXPECT_FALSE(bucket.TryTake(10, 5 * kTokenBucketSecond - 1));
  EXPECT_TRUE(bucket.TryTake(10, 5 * kTokenBucketSecond));
  EXPECT_DOUBLE_EQ(bucket.SecondsUntilFull(5 * kTokenBucketSecond), 60);
  EXPECT_TRUE(std::isinf(bucket.SecondsUntil(121, 0)));
}

TEST(TokenBucket, WhatIsGivenBackCanBeTakenAgainButNeverAboveTheLimit) {
  TokenBucket bucket;
  bucket.SetLimit(100, 0);
  ASSERT_TRUE(bucket.TryTake(80, 0));
  bucket.GiveBack(30, 0);
  EXPECT_EQ(bucket.remaining(0), 50);
  bucket.GiveBack(500, 0);
  EXPECT_EQ(bucket.remaining(0), 100);
}

TEST(TokenBucket, WhatWasUsedBeyondWhatWasTakenIsMadeUpForFirst) {
  TokenBucket bucket;
  bucket.SetLimit(60, 0);
  ASSERT_TRUE(bucket.TryTake(60, 0));
  bucket.GiveBack(-5, 0);
  EXPECT_EQ(bucket.remaining(0), 0);
  EXPECT_DOUBLE_EQ(bucket.SecondsUntil(1, 0), 6);
  EXPECT_FALSE(bucket.TryTake(1, 5 * kTokenBucketSecond));
  EXPECT_TRUE(bucket.TryTake(1, 6 * kTokenBucketSecond));
}

TEST(TokenBucket, ANewLimitKeepsWhatWasUsed) {
  TokenBucket bucket;
  bucket.SetLimit(100, 0);
  ASSERT_TRUE(bucket.TryTake(40, 0));
  bucket.SetLimit(200, 0);
  EXPECT_EQ(bucket.remaining(0), 160);
  bucket.SetLimit(30, 0);
  EXPECT_EQ(bucket.remaining(0), 0) << "used up, but not in debt";
  EXPECT_DOUBLE_EQ(bucket.SecondsUntil(1, 0), 2);
  bucket.SetLimit(0, 0);
  EXPECT_TRUE(bucket.TryTake(1000, 0));
}

TEST(TokenBucket, ANewLimitForgivesNoDebt) {
  const struct {
    const char* name;
    int64_t limit;     // the new one
    double until_one;  // seconds until one token can be taken
  } cases[] = {{"lower", 30, 62}, {"the same", 60, 31}, {"higher", 120, 15.5}};
  for (const auto& test : cases) {
    TokenBucket bucket;
    bucket.SetLimit(60, 0);
    ASSERT_TRUE(bucket.TryTake(60, 0));
    bucket.GiveBack(-30, 0);
    bucket.SetLimit(test.limit, 0);
    EXPECT_NEAR(bucket.SecondsUntil(1, 0), test.until_one, 1e-9) << test.name;
    EXPECT_EQ(bucket.remaining(0), 0) << test.name;
  }
  TokenBucket bucket;
  bucket.SetLimit(60, 0);
  ASSERT_TRUE(bucket.TryTake(60, 0));
  bucket.GiveBack(-30, 0);
  for (int i = 0; i < 10; ++i) bucket.SetLimit(i % 2 == 0 ? 20 : 60, 0);
  EXPECT_DOUBLE_EQ(bucket.SecondsUntil(1, 0), 31) << "however often it is reloaded";
}

TEST(TokenBucket, GoesOnFromWhatSomebodyElseCounted) {
  TokenBucket bucket;
  bucket.SetLimit(60, 0);
  bucket.SetRemaining(10, 5'000'000);
  EXPECT_EQ(bucket.remaining(5'000'000), 10);
  EXPECT_EQ(bucket.remaining(7'000'000), 12);
  bucket.SetRemaining(1000, 7'000'000);
  EXPECT_EQ(bucket.remaining(7'000'000), 60) << "never above the limit";
}

TEST(TokenBucket, ManySmallTakesAddUp) {
  TokenBucket bucket;
  bucket.SetLimit(600, 0);
  int64_t taken = 0;
  for (int64_t now = 0; now <= 60 * kTokenBucketSecond; now += 1000) {
    while (bucket.TryTake(1, now)) ++taken;
  }
  EXPECT_EQ(taken, 1200) << "a full bucket and a minute";
}

}  // namespace
}  // namespace hydrant
