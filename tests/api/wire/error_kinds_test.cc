#include "api/wire/error_kinds.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/markdown_table.h"

namespace hydrant {
namespace {

std::string Row(const ErrorKind& kind) {
  return absl::StrCat("| ", kind.status, " | `", std::string(kind.code), "` | `", std::string(ErrorTypeName(kind.type)),
                      "` | ", std::string(kind.cause), " | ", std::string(kind.remedy), " |");
}

TEST(ErrorKindsTest, TheApiPageHasEveryErrorAsItIsInTheTable) {
  std::vector<std::string> expected;
  for (const ErrorKind& kind : ErrorKinds()) expected.push_back(Row(kind));
  EXPECT_EQ(RowsOfPage("docs/api.md", "| status | code |"), expected);
}

TEST(ErrorKindsTest, RowsAreUniqueCompleteAndInOrder) {
  std::pair<int, std::string_view> last;
  for (const ErrorKind& kind : ErrorKinds()) {
    SCOPED_TRACE(kind.code);
    EXPECT_LT(last, std::pair(kind.status, kind.code));
    last = {kind.status, kind.code};
    EXPECT_FALSE(kind.cause.empty());
    EXPECT_FALSE(kind.remedy.empty());
    EXPECT_EQ(kind.cause.find_first_of("|\n"), std::string_view::npos);
    EXPECT_EQ(kind.remedy.find_first_of("|\n"), std::string_view::npos);
  }
}

TEST(ErrorKindsTest, ACodeNamesTheRowOfItsStatus) {
  constexpr ErrorCode<400> refused = "template_error";
  constexpr ErrorCode<500> stopped = "template_error";
  EXPECT_EQ(refused.kind().type, ErrorType::kInvalidRequest);
  EXPECT_EQ(stopped.kind().type, ErrorType::kServer);
}

}  // namespace
}  // namespace hydrant
