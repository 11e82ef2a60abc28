#include "api/wire/version.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "tests/support/source_dir.h"

namespace hydrant {
namespace {

TEST(Version, IsTheProjects) {
  std::ifstream file(SourceDir() + "/CMakeLists.txt");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_THAT(text.str(), ::testing::HasSubstr("project(hydrant VERSION " + std::string(kVersion) + " "));
}

}  // namespace
}  // namespace hydrant
