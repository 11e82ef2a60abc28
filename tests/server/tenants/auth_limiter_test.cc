#include "server/tenants/auth_limiter.h"

#include <gtest/gtest.h>

#include <string>

namespace hydrant {
namespace {

constexpr int64_t kAuthLimiterSecond = 1'000'000;

TEST(AuthLimiter, TwentyFailuresInTenSecondsAreTheLimitOfAnAddress) {
  AuthLimiter limiter;
  for (int i = 0; i < AuthLimiter::kFailuresMax; ++i) EXPECT_EQ(limiter.Fail("10.0.0.1", kAuthLimiterSecond), 0) << i;
  EXPECT_EQ(limiter.Fail("10.0.0.1", kAuthLimiterSecond), 10);
  EXPECT_EQ(limiter.Fail("10.0.0.1", 4 * kAuthLimiterSecond), 7) << "when the window ends, not ten seconds from now";
  EXPECT_EQ(limiter.Fail("10.0.0.1", 11 * kAuthLimiterSecond - 1), 1);
  EXPECT_EQ(limiter.Fail("10.0.0.2", kAuthLimiterSecond), 0) << "another address";
  EXPECT_EQ(limiter.Fail("10.0.0.1", 11 * kAuthLimiterSecond), 0) << "a new window";
}

TEST(AuthLimiter, ItsMemoryIsBoundedHoweverManyAddressesTry) {
  AuthLimiter limiter;
  for (int i = 0; i < 30'000; ++i) EXPECT_EQ(limiter.Fail(std::to_string(i), i), 0);
  for (int i = 0; i < AuthLimiter::kFailuresMax; ++i) limiter.Fail("last", kAuthLimiterSecond);
  EXPECT_GT(limiter.Fail("last", kAuthLimiterSecond), 0) << "it still counts";
}

}  // namespace
}  // namespace hydrant
