#include "model/text/string_literal.h"

#include <gtest/gtest.h>

namespace hydrant {
namespace {

TEST(StringLiteral, EscapesAreThoseOfPython) {
  EXPECT_EQ(DecodeStringLiteral(R"(a\n\t\\\'\"\x41\u00e9\U0001F600\101)"), "a\n\t\\'\"Aé😀A");
  EXPECT_EQ(DecodeStringLiteral(R"(\d+)"), R"(\d+)") << "what is none keeps its backslash";
  EXPECT_EQ(DecodeStringLiteral("a\\\nb"), "ab") << "an escaped line end is none";
  for (const char* broken : {"\\", "\\x4", "\\u12", "\\ud83d", "\\U00110000"}) {
    EXPECT_EQ(DecodeStringLiteral(broken), std::nullopt) << broken;
  }
}

}  // namespace
}  // namespace hydrant
