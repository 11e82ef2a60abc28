#include "server/shared_limits/circuit_breaker.h"

#include <gtest/gtest.h>

namespace hydrant {
namespace {

TEST(CircuitBreaker, IsOpenUntilThereIsAConnection) {
  CircuitBreaker breaker;
  EXPECT_TRUE(breaker.open());
  EXPECT_EQ(breaker.retry_us(), 0);
  breaker.Close(0);
  EXPECT_FALSE(breaker.open());
}

// Opens it by as many failures as it takes, each asked when the one before had failed, as LimitStore does.
bool FailUntilOpen(CircuitBreaker* breaker, int64_t now_us) {
  int failures = 0;
  while (!breaker->OnFailure(now_us, now_us + 1)) {
    ++now_us;
    if (++failures > CircuitBreaker::kFailuresMax) return false;
  }
  breaker->Open(now_us + 1);
  return true;
}

TEST(CircuitBreaker, OpensAfterSoManyFailuresInARow) {
  CircuitBreaker breaker;
  breaker.Close(0);
  for (int i = 1; i < CircuitBreaker::kFailuresMax; ++i) EXPECT_FALSE(breaker.OnFailure(1000, 1000));
  breaker.OnAnswer();
  for (int i = 1; i < CircuitBreaker::kFailuresMax; ++i) EXPECT_FALSE(breaker.OnFailure(1000, 1000));
  EXPECT_TRUE(breaker.OnFailure(1000, 1000));
  EXPECT_FALSE(breaker.open()) << "the connection is still there";
  breaker.Open(1000);
  EXPECT_TRUE(breaker.open());
  EXPECT_FALSE(breaker.OnFailure(1000, 1000)) << "it is open already";
}

TEST(CircuitBreaker, OnePauseOfTheStoreIsOneFailure) {
  CircuitBreaker breaker;
  breaker.Close(0);
  for (int64_t pause = 1; pause < CircuitBreaker::kFailuresMax; ++pause) {
    for (int i = 0; i < 100; ++i) EXPECT_FALSE(breaker.OnFailure(pause * 1000 + i, pause * 1000 + 500 + i)) << pause;
  }
  EXPECT_TRUE(breaker.OnFailure(9000, 9500));
}

TEST(CircuitBreaker, TheFirstAttemptAfterFailuresIsAtOnceAndTheNextAfterTheShortestPause) {
  CircuitBreaker breaker;
  breaker.Close(0);
  ASSERT_TRUE(FailUntilOpen(&breaker, 1000));
  EXPECT_LT(breaker.retry_us(), 1100);
  breaker.Close(2000);
  ASSERT_TRUE(FailUntilOpen(&breaker, 3000));
  EXPECT_LT(breaker.retry_us(), 3100 + CircuitBreaker::kPauseMinUs);
  EXPECT_GE(breaker.retry_us(), 3000 + CircuitBreaker::kPauseMinUs);
}

TEST(CircuitBreaker, AConnectionThatLastedLeavesNoPause) {
  CircuitBreaker breaker;
  int64_t now_us = 0;
  for (int i = 0; i < 10; ++i) {
    breaker.Close(now_us);
    now_us += 60'000'000;  // which an idle store closes then
    breaker.Open(now_us);
    EXPECT_EQ(breaker.retry_us(), now_us);
  }
  breaker.Open(now_us);
  EXPECT_EQ(breaker.retry_us(), now_us + CircuitBreaker::kPauseMinUs) << "it is not there";
}

TEST(CircuitBreaker, PausesGrowUntilARequestIsAnswered) {
  CircuitBreaker breaker;
  breaker.Close(0);
  breaker.OnAnswer();
  breaker.Open(1000);
  EXPECT_EQ(breaker.retry_us(), 1000) << "the first attempt is at once";
  int64_t pause_us = CircuitBreaker::kPauseMinUs;
  for (int i = 0; i < 20; ++i) {
    breaker.Close(0);  // a store that greets, and answers no request
    breaker.Open(1000);
    EXPECT_EQ(breaker.retry_us(), 1000 + pause_us);
    pause_us = std::min(2 * pause_us, CircuitBreaker::kPauseMaxUs);
  }
  breaker.Close(0);
  breaker.OnAnswer();
  breaker.Open(2000);
  EXPECT_EQ(breaker.retry_us(), 2000);
}

}  // namespace
}  // namespace hydrant
