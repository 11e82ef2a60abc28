// What the tools do to the directory of a server that is stopped.
#include "server/sessions/tools/directory_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "server/process/exit_codes.h"
#include "tests/server/sessions/tools/sessions_on_disk.h"

namespace hydrant {
namespace {

using testing::HasSubstr;
using testing::Not;

class DirectoryPlaceTools : public DirectoryTools {};

TEST_F(DirectoryPlaceTools, ADirectoryThatAServerUsesIsLeftAlone) {
  disk_.Open();
  for (const char* word : {"list", "verify"}) {
    const ToolRun run = Run(word);
    EXPECT_EQ(run.exit_code, kExitConfig);
    EXPECT_THAT(run.error, HasSubstr("is in use by process " + std::to_string(getpid()) + " on host "));
  }
}

TEST_F(DirectoryPlaceTools, AMistypedDirectoryIsNotMade) {
  const ToolRun run = On(temp_.File("none"), "list", {});
  EXPECT_EQ(run.exit_code, kExitConfig);
  EXPECT_THAT(run.error, HasSubstr("is no directory of sessions"));
  EXPECT_FALSE(std::filesystem::exists(temp_.File("none")));
}

TEST_F(DirectoryPlaceTools, WhatIsForgottenIsInNoFile) {
  ASSERT_THAT(BytesBelow(disk_.path()), HasSubstr(kCanary));
  const ToolRun run = Run("forget", {"a", "--tenant", "acme"});
  EXPECT_EQ(run.exit_code, kExitOk) << run.error;
  EXPECT_THAT(BytesBelow(disk_.path()), Not(HasSubstr(kCanary)));
  EXPECT_THAT(Run("list").out, Not(HasSubstr("acme    a ")));
  EXPECT_THAT(Run("verify").out, HasSubstr("2 sessions"));
  EXPECT_EQ(Run("forget", {"b", "nobody"}).exit_code, kExitIncomplete) << "all of them or none";
  EXPECT_THAT(Run("list").out, HasSubstr("acme    b "));
}

}  // namespace
}  // namespace hydrant
