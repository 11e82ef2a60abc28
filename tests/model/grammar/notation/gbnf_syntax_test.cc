#include "model/grammar/notation/gbnf_syntax.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>

namespace hydrant::grammar {
namespace {

TEST(GbnfSyntax, RulesGoOverLinesWhereTheyAreNotEnded) {
  const auto read = ReadGbnfSyntax(
      "# a list\nroot ::= item (\",\" # more\n  item)*\r\nitem ::=\n  \"a\\x62\\u00e9\\n\\\"\" |\n  [^a-c\\]-] | .{2,} "
      "| x-1.y_z?\nx-1.y_z ::= \"\"\n");
  ASSERT_EQ(read.index(), 0u) << std::get<std::string>(read);
  const GbnfSyntax& syntax = std::get<GbnfSyntax>(read);
  ASSERT_EQ(syntax.rules.size(), 3u);
  EXPECT_EQ(syntax.rules[2].name, "x-1.y_z");
  const GbnfNode& item = syntax.nodes[syntax.rules[1].root];
  ASSERT_EQ(item.parts.size(), 4u);
  EXPECT_EQ(syntax.nodes[item.parts[0]].text, "ab\xc3\xa9\n\"");
  EXPECT_EQ(syntax.nodes[item.parts[1]].characters.ranges().front(), (CharClass::Range{0, 44}));
  EXPECT_EQ(syntax.nodes[item.parts[2]].least, 2);
  EXPECT_EQ(syntax.nodes[item.parts[2]].most, kUnbounded);
  for (size_t i = 0; i < syntax.nodes.size(); ++i) {
    for (const size_t part : syntax.nodes[i].parts) EXPECT_LT(part, i);
  }
}

TEST(GbnfSyntax, WhatIsWrongHasAPlace) {
  const auto expect = [](const std::string& text, const std::string& error) {
    const auto read = ReadGbnfSyntax(text);
    ASSERT_EQ(read.index(), 1u) << text;
    EXPECT_NE(std::get<std::string>(read).find(error), std::string::npos)
        << text << ": " << std::get<std::string>(read);
  };
  expect("", "there is no rule 'root'");
  expect("root ::= a\n\n  b ::= \"x\"", "line 1, column 10: there is no rule 'a'");
  expect("root ::= \"\xc3\xa9\" ?? x y)", "line 1, column 20: ')' closes nothing");
  expect("root ::= (\"a\"\n", "line 1, column 10: '(' is not closed");
  expect("root ::= \"a\n", "line 1, column 10: the text is not closed");
  expect("root ::= [a\n", "line 1, column 10: the class is not closed");
  expect("root ::= [b-a]", "column 11: the range");
  expect("root ::= \"\\q\"", "column 11: no escape");
  expect("root ::= \"\\x1\"", "needs 2 digits");
  expect("root ::= \"\\ud800\"", "no character");
  expect("root ::= \"a\"{3,2}", "first count");
  expect("root ::= \"a\"{,", "'}' is expected");
  expect("root ::= \"a\"{}", "a number is expected");
  expect("root ::= \"a\"{100001}", "above 100000");
  expect("root ::= \"a\"*********", "more than 8 repetitions");
  expect("root ::= *", "'*' means nothing here");
  expect("root ::= <[12]>", "tokens");
  expect("root ::= (=\"a\") \"a\"", "look-ahead");
  expect("root = \"a\"", "column 6: '::=' is expected");
  expect("root ::= \"a\"\nroot ::= \"b\"", "line 2, column 1: the rule 'root' is there twice");
  expect("root ::= \"a\" ::= \"b\"", "means nothing here");
  expect("root ::= \"\xff\"", "not UTF-8");
  expect("root ::= " + std::string(300, '(') + "\"a\"", "more than 200 groups");
}

}  // namespace
}  // namespace hydrant::grammar
