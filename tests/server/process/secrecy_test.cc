#include "server/process/secrecy.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <cstdlib>
#include <string>

namespace hydrant {
namespace {

TEST(Secrecy, AVariableIsGoneFromTheEnvironmentAndFromMemory) {
  setenv("HYDRANT_SECRECY_TEST", "sesame", 1);
  const char* value = std::getenv("HYDRANT_SECRECY_TEST");
  ASSERT_STREQ(value, "sesame");
  ForgetVariable("HYDRANT_SECRECY_TEST");
  EXPECT_EQ(std::getenv("HYDRANT_SECRECY_TEST"), nullptr);
  EXPECT_EQ(std::string(value, 6), std::string(6, '\0'));
  ForgetVariable("HYDRANT_SECRECY_TEST");  // there is none: nothing happens
}

TEST(SecrecyDeathTest, ACrashLeavesNoCore) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto forbid = [] {
    ForbidCoreDumps();
    rlimit core{};
    getrlimit(RLIMIT_CORE, &core);
    std::_Exit(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0 && core.rlim_cur == 0 && core.rlim_max == 0 ? 7 : 1);
  };
  EXPECT_EXIT(forbid(), testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace hydrant
