#include "server/tenants/auth_limiter.h"

#include <gtest/gtest.h>

#include <string>

namespace hydrant {
namespace {

constexpr int64_t kSecond = 1'000'000;

TEST(AuthLimiter, TwentyFailuresInTenSecondsAreTheLimitOfAnAddress) {
  AuthLimiter limiter;
  for (int i = 0; i < AuthLimiter::kFailuresMax; ++i) EXPECT_EQ(limiter.Fail("10.0.0.1", kSecond), 0) << i;
  EXPECT_EQ(limiter.Fail("10.0.0.1", kSecond), 10);
  EXPECT_EQ(limiter.Fail("10.0.0.1", 4 * kSecond), 7) << "when the window ends, not ten seconds from now";
  EXPECT_EQ(limiter.Fail("10.0.0.1", 11 * kSecond - 1), 1);
  EXPECT_EQ(limiter.Fail("10.0.0.2", kSecond), 0) << "another address";
  EXPECT_EQ(limiter.Fail("10.0.0.1", 11 * kSecond), 0) << "a new window";
}

TEST(AuthLimiter, ItsMemoryIsBoundedHoweverManyAddressesTry) {
  AuthLimiter limiter;
  for (int i = 0; i < 30'000; ++i) EXPECT_EQ(limiter.Fail(std::to_string(i), i), 0);
  for (int i = 0; i < AuthLimiter::kFailuresMax; ++i) limiter.Fail("last", kSecond);
  EXPECT_GT(limiter.Fail("last", kSecond), 0) << "it still counts";
}

}  // namespace
}  // namespace hydrant
