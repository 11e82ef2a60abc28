#include "api/request/schema_pattern.h"

#include <gtest/gtest.h>

#include <string>

namespace hydrant {
namespace {

TEST(SchemaPattern, TakesWhatSomeDialectTakes) {
  for (const char* pattern : {"", "^[a-z]+$", "(a+)+b", R"(^\d{3}-\d{4}$)", R"(\(\[\\)", "[(*)|+?]", R"([\]])", "[[]",
                              "a]", "a{", "{2}", "a|", "()", "a*?b+?c??d{1,}?", "a++",
                              "(?:a)(?=b)(?!c)(?<=d)(?<!e)(?<name>f)(?P<old>g)(?i)h", R"(\p{L}\u00e9é)"}) {
    EXPECT_EQ(PatternFault(pattern), "") << pattern;
  }
}

TEST(SchemaPattern, SaysWhatIsWrong) {
  for (const char* pattern : {"(", "a(b", "((a)", "(?:", R"((\))"}) {
    EXPECT_EQ(PatternFault(pattern), "has a ( without its )") << pattern;
  }
  for (const char* pattern : {")", "(a))", "[(])"}) {
    EXPECT_EQ(PatternFault(pattern), "has a ) without its (") << pattern;
  }
  for (const char* pattern : {"[", "a[^b", R"([\])", R"([\)"}) {
    EXPECT_EQ(PatternFault(pattern), "has a [ without its ]") << pattern;
  }
  for (const char* pattern : {"*", "+a", "a|*", "(*a)", "(a|+)", "?"}) {
    EXPECT_EQ(PatternFault(pattern), "repeats nothing") << pattern;
  }
  for (const char* pattern : {R"(\)", R"(a\\\)"}) {
    EXPECT_EQ(PatternFault(pattern), R"(ends in a single \)") << pattern;
  }
  // Nothing but a count grows with the depth.
  EXPECT_EQ(PatternFault(std::string(1'000'000, '(')), "has a ( without its )");
}

}  // namespace
}  // namespace hydrant
