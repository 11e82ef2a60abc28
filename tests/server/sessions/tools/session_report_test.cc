// What the tools say of sessions.
#include "server/sessions/tools/session_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/process/exit_codes.h"
#include "tests/server/sessions/tools/sessions_on_disk.h"

namespace hydrant {
namespace {

using testing::HasSubstr;
using testing::Not;

class SessionReport : public DirectoryTools {};

TEST_F(SessionReport, ListTellsEverySession) {
  const ToolRun table = Run("list");
  EXPECT_EQ(table.exit_code, kExitOk) << table.error;
  EXPECT_THAT(table.out, HasSubstr("TENANT  ID  TURN  TOKENS  BYTES"));
  EXPECT_THAT(table.out, HasSubstr("acme    a   3     49 "));
  EXPECT_THAT(table.out, HasSubstr("2023-11-14T22:13:22Z\n")) << "last used";
  const ToolRun json = Run("list", {"--json", "--tenant", "other"});
  EXPECT_THAT(json.out, HasSubstr(R"({"tenant":"other","id":"a","turn":1,"tokens":4,"bytes":)"));
  EXPECT_THAT(json.out, Not(HasSubstr("acme")));
}

}  // namespace
}  // namespace hydrant
