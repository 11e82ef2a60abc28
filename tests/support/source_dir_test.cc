#include "tests/support/source_dir.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace hydrant {
namespace {

TEST(SourceDir, IsWhereTheTestWasBuiltUnlessTheEnvironmentNamesAnother) {
  unsetenv("HYDRANT_SOURCES");
  EXPECT_TRUE(std::filesystem::exists(SourceDir() + "/tests/support/source_dir_test.cc")) << SourceDir();
  const std::string built = SourceDir();
  setenv("HYDRANT_SOURCES", "elsewhere", 1);
  EXPECT_EQ(SourceDir(), "elsewhere");
  setenv("HYDRANT_SOURCES", "", 1);
  EXPECT_EQ(SourceDir(), built);
}

}  // namespace
}  // namespace hydrant
