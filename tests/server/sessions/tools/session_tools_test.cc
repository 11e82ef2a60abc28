// The command line of `hydrantd sessions`.
#include "server/sessions/tools/session_tools.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/process/exit_codes.h"
#include "tests/server/sessions/tools/sessions_on_disk.h"

namespace hydrant {
namespace {

using testing::HasSubstr;

class SessionToolsLine : public DirectoryTools {};

TEST_F(SessionToolsLine, WhatIsMissingOrMistypedIsNamed) {
  struct Case {
    std::vector<std::string> arguments;
    const char* says;
  };
  const Case cases[] = {
      {{}, "say what to do"},
      {{"lits"}, "lits"},
      {{"list"}, "--session-dir DIRECTORY"},
      {{"list", "--session-dir", disk_.path(), "--url", "http://host"}, "or else --url"},
      {{"list", "--url", "https://host"}, "TLS is not spoken here"},
      {{"handover", "--from", disk_.path()}, "--from WHERE --to WHERE"},
      {{"list", "--session-dri", disk_.path()}, "--session-dri: did you mean --session-dir?"},
      {{"list", "--sesame"}, "--sesame: there is no such flag; hydrantd sessions list --help lists them"},
      {{"export", "--session-dir", disk_.path(), "a"}, "--output"},
      {{"export", "--session-dir", disk_.path(), "--output", temp_.File("o")}, "name sessions, or else say --all"},
      {{"export", "--session-dir", disk_.path(), "a", "--output", temp_.File("o")}, "several tenants have a session a"},
      {{"export", "--session-dir", disk_.path(), "--all", "--output", "-"}, "takes one session"},
      {{"import", "--session-dir", disk_.path()}, "name the files"},
      {{"forget", "--session-dir", disk_.path()}, "name the sessions"},
      {{"verify", "--session-dir", disk_.path(), "--tenant", "acme"}, "verified as a whole"},
  };
  for (const Case& row : cases) {
    const ToolRun run = RunTool(row.arguments);
    EXPECT_EQ(run.exit_code, kExitUsage) << row.says;
    EXPECT_THAT(run.error, HasSubstr(row.says));
    EXPECT_EQ(run.out, "");
  }
  EXPECT_THAT(RunTool({"--help"}).out, HasSubstr("verify"));
  EXPECT_EQ(BytesBelow(disk_.path()).find(kCanary) == std::string::npos, false) << "nothing was done";
}

}  // namespace
}  // namespace hydrant
