// Sessions written into files, and read back.
#include "server/sessions/tools/state_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

#include "server/process/exit_codes.h"
#include "tests/server/sessions/tools/sessions_on_disk.h"

namespace hydrant {
namespace {

using testing::HasSubstr;

class StateFilesTools : public DirectoryTools {};

TEST_F(StateFilesTools, WhatIsExportedIsImportedElsewhereAndAgain) {
  ASSERT_EQ(Run("export", {"--all", "--output", temp_.File("out")}).exit_code, kExitOk);
  struct stat status {};
  ASSERT_EQ(stat(temp_.File("out/acme.a.session").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  SessionsOnDisk target(temp_.File("t"));
  target.Stop();
  const ToolRun first = On(target.path(), "import", {temp_.File("out")});
  EXPECT_EQ(first.exit_code, kExitOk) << first.error;
  EXPECT_THAT(first.error, HasSubstr("imported 3 of 3 sessions; 0 were there already"));
  EXPECT_THAT(On(target.path(), "list", {}).out, HasSubstr("acme    a   3     49 "));
  EXPECT_THAT(On(target.path(), "import", {temp_.File("out")}).error, HasSubstr("imported 0 of 3 sessions; 3 were"));
  const ToolRun one = On(target.path(), "export", {"b", "--output", "-"});
  EXPECT_EQ(one.exit_code, kExitOk) << one.error;
  EXPECT_THAT(one.out, HasSubstr("Good day."));
  EXPECT_THAT(On(target.path(), "verify", {}).out, HasSubstr("3 sessions in 3 records"));
}

TEST_F(StateFilesTools, ASessionThatIsAnotherOneStays) {
  ASSERT_EQ(Run("export", {"a", "--tenant", "other", "--output", temp_.File("other.session")}).exit_code, kExitOk);
  const ToolRun run = Run("import", {"--tenant", "acme", temp_.File("other.session")});
  EXPECT_EQ(run.exit_code, kExitIncomplete);
  EXPECT_THAT(run.error, HasSubstr("tenant acme has a session a already"));
  EXPECT_THAT(Run("list").out, HasSubstr("acme    a   3     49 "));
}

}  // namespace
}  // namespace hydrant
