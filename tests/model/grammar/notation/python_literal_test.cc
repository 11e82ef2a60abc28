#include "model/grammar/notation/python_literal.h"

#include <gtest/gtest.h>

#include <string>

namespace hydrant::grammar {
namespace {

std::string JsonOf(std::string_view text) {
  PythonReader reader(text);
  const auto value = reader.Value();
  return value.has_value() && reader.AtEnd() ? *value : "none";
}

TEST(PythonReader, MakesJsonOfValues) {
  EXPECT_EQ(JsonOf(" 'a' "), R"("a")");
  EXPECT_EQ(JsonOf(R"('it\'s "x"')"), R"("it's \"x\"")");
  EXPECT_EQ(JsonOf(R"('\d+ C:\dir')"), R"("\\d+ C:\\dir")") << "what is no escape keeps its backslash";
  EXPECT_EQ(JsonOf(R"('caf\u00e9\x21\n')"), R"("café!\n")");
  EXPECT_EQ(JsonOf(R"("a\/b\ud83d")"), R"("a\/b\ud83d")") << "JSON stays as it is";
  EXPECT_EQ(JsonOf(R"("\d")"), R"("\\d")");
  EXPECT_EQ(JsonOf("[True, False,None ,true,null]"), "[true, false, null, true, null]");
  EXPECT_EQ(JsonOf("{'k': {'a': [1, -2.5e3,]}, \"b\": ()}"), R"({"k": {"a": [1, -2.5e3]}, "b": []})");
  EXPECT_EQ(JsonOf("(1, 'x')"), R"([1, "x"])");
  for (const char* wrong :
       {"", "a", "'a", "[1", "[1 2]", "{1: 2}", "{'a' 1}", "1.", "01", "0x1", "[,]", "'\\u12'", "1 2"}) {
    EXPECT_EQ(JsonOf(wrong), "none") << wrong;
  }
  EXPECT_EQ(JsonOf(std::string(100'000, '[')), "none");
}

TEST(IsJson, GoesByItsSignsAlone) {
  for (const char* text :
       {R"({"a":1,"a":[true,{}]})", " [ ] ", "1e400", R"("\ud83d")", "{}", "null", "-0.5", R"([1,"b\n"])"}) {
    EXPECT_TRUE(IsJson(text)) << text;
  }
  for (const char* text : {"", " ", "[1,]", "{\"a\"}", "{a:1}", "'a'", "True", "01", "[1", "1]", "[}", "{\"a\":}",
                           "{\"a\":1,}", "\"a", "\"\n\"", "\"\\x\"", "1 2", "[,1]"}) {
    EXPECT_FALSE(IsJson(text)) << text;
  }
  EXPECT_TRUE(IsJson(std::string(100'000, '[') + std::string(100'000, ']')));
}

}  // namespace
}  // namespace hydrant::grammar
