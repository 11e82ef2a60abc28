#include "server/process/secrecy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <cstdlib>
#include <string>
#include <vector>

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

TEST(Secrecy, AKeyIsGoneFromTheCommandLineAndNothingElseIs) {
  const char* const flags[] = {"--api-key", "--admin-api-key"};
  std::string words[] = {"hydrantd",   "--api-key", "sesame",         "--admin_api_key=sesame",
                         "--port",     "80",        "--api-key-file", "f",
                         "--host=a=b", "--api-key"};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  ForgetArguments(arguments, flags);
  EXPECT_THAT(words, testing::ElementsAre("hydrantd", "--api-key", "******", "--admin_api_key=******", "--port", "80",
                                          "--api-key-file", "f", "--host=a=b", "--api-key"));
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
