#include "server/process/stuck_guard.h"

#include <gtest/gtest.h>

namespace hydrant {
namespace {

TEST(StuckGuard, WhatEndsInTimeGoesOn) { const StuckGuard guard("the test", 3600); }

TEST(StuckGuardDeathTest, WhatDoesNotEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const StuckGuard guard("the test", 0.001);
        while (true) std::this_thread::yield();
      },
      testing::ExitedWithCode(kExitInternal), "");
}

}  // namespace
}  // namespace hydrant
