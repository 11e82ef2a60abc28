#include "server/process/stuck_guard.h"

#include <gtest/gtest.h>

namespace hydrant {
namespace {

TEST(StuckGuard, WhatEndsInTimeGoesOn) { const StuckGuard guard("the test", 3600); }

TEST(StuckGuardDeathTest, WhatDoesNotEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const int exit_code : {kExitInternal, kExitOk}) {
    EXPECT_EXIT(
        {
          const StuckGuard guard("the test", 0.001, exit_code);
          while (true) std::this_thread::yield();
        },
        testing::ExitedWithCode(exit_code), "");
  }
}

}  // namespace
}  // namespace hydrant
