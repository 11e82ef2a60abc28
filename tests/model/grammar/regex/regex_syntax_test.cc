#include "model/grammar/regex/regex_syntax.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

namespace hydrant::grammar {
namespace {

using testing::HasSubstr;

TEST(RegexSyntax, PartsStandBeforeTheirParents) {
  const auto read = ReadRegexSyntax("^(a|(b[c-d]{2,5})*)?$");
  const auto* nodes = std::get_if<0>(&read);
  ASSERT_NE(nodes, nullptr);
  for (size_t i = 0; i < nodes->size(); ++i) {
    for (const size_t part : (*nodes)[i].parts) EXPECT_LT(part, i);
  }
  EXPECT_TRUE(nodes->back().has_begin);
  EXPECT_TRUE(nodes->back().has_end);
  EXPECT_TRUE(nodes->back().nullable);
}

TEST(RegexSyntax, RefusalsNameColumnAndConstruct) {
  struct Case {
    std::string pattern;
    size_t column;
    std::string text;
  };
  const std::vector<Case> cases = {{"ab(?=c)", 3, "look-around"},
                                   {"(?!a)b", 1, "look-around"},
                                   {"(?<!a)b", 1, "look-around"},
                                   {"\xc3\xa9(?<=a)", 2, "look-around"},
                                   {"(a)\\1", 4, "back-reference"},
                                   {"a\\b", 2, "\\b"},
                                   {"\\p{L}", 1, "'\\p'"},
                                   {"(?i)a", 1, "(?"},
                                   {"(?P<x>a)", 1, "(?"},
                                   {"(a", 1, "')'"},
                                   {"a)", 2, "'('"},
                                   {"[a", 1, "']'"},
                                   {"[z-a]", 2, "range"},
                                   {"*a", 1, "'*'"},
                                   {"a**", 3, "repetition of a repetition"},
                                   {"a{3,2}", 1, "least"},
                                   {"a{1000000001}", 3, "count above"},
                                   {"\\", 1, "backslash"},
                                   {"\\u12", 1, "hexadecimal"},
                                   {"\\u{110000}", 1, "number"},
                                   {"^*", 2, "'*'"},
                                   // What Python, Rust or RE2 read in another way than ECMAScript, or not at all.
                                   {"a[^]]", 2, "write '\\]'"},
                                   {"[]a]", 1, "write '\\]'"},
                                   {"[^]*[a-z]", 1, "[\\s\\S]"},
                                   {"a{,3}", 2, "write '{0,3}'"},
                                   {"a{,}", 2, "write '*'"},
                                   {"x{2}{3}", 5, "repetition of a repetition"},
                                   {"b+{3,}", 3, "repetition of a repetition"},
                                   {"b+?{,3}", 4, "repetition of a repetition"},
                                   {"({3}a)", 2, "'{'"},
                                   {"a\xff", 2, "UTF-8"}};
  for (const Case& each : cases) {
    const auto read = ReadRegexSyntax(each.pattern);
    const auto* refusal = std::get_if<RegexRefusal>(&read);
    ASSERT_NE(refusal, nullptr) << each.pattern;
    EXPECT_EQ(refusal->column, each.column) << each.pattern;
    EXPECT_THAT(refusal->text, HasSubstr(each.text)) << each.pattern;
  }
}

TEST(RegexSyntax, HasLimits) {
  const std::string deep(kPatternDepthMax, '('), deeper(kPatternDepthMax + 1, '(');
  EXPECT_EQ(ReadRegexSyntax(deep + std::string(kPatternDepthMax, ')')).index(), 0u);
  const auto refused = ReadRegexSyntax(deeper + std::string(kPatternDepthMax + 1, ')'));
  EXPECT_THAT(std::get<RegexRefusal>(refused).text, HasSubstr("nested deeper"));
  EXPECT_THAT(std::get<RegexRefusal>(ReadRegexSyntax(std::string(kPatternBytesMax + 1, 'a'))).text, HasSubstr("bytes"));
}

}  // namespace
}  // namespace hydrant::grammar
