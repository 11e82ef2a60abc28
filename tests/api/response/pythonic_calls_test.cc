#include "api/response/pythonic_calls.h"

#include <gtest/gtest.h>

#include <string>

#include "api/response/tool_call_parser.h"

namespace hydrant {
namespace {

std::string CallsOf(std::string_view answer) {
  const std::optional<AnswerPieces> read = ReadPythonicCalls(answer);
  if (!read.has_value()) return "none";
  std::string shown;
  for (const ToolCall& call : Joined(*read).calls) shown += call.name + call.arguments;
  return shown;
}

TEST(PythonicCalls, AreReadAsAProgramWritesThem) {
  EXPECT_EQ(CallsOf("[f(a=1, b='x', c=None), g()]"), R"(f{"a": 1, "b": "x", "c": null}g{})");
  EXPECT_EQ(CallsOf("\n[ f( i = 1,s='y', a=['Paris', True], d={'k': {'l': 1.5}}, ), ]"), "none")
      << "no call behind the comma";
  EXPECT_EQ(CallsOf("\n[ f( i = 1,\n s='y', a=['Paris', True], d={'k': {'l': 1.5}}, ) ]"),
            R"(f{"i": 1, "s": "y", "a": ["Paris", true], "d": {"k": {"l": 1.5}}})");
  EXPECT_EQ(CallsOf("<|python_start|>[f(a=\"b\")]<|python_end|>"), R"(f{"a": "b"})");
  for (const char* text :
       {"", "[]", "[1, 2]", "[f(a=1)", "[f(1)]", "[f(a=1)] and", "f(a=1)", "[f(a=g())]", "[f g()]"}) {
    EXPECT_EQ(CallsOf(text), "none") << text;
  }
}

TEST(PythonicCalls, WhatBeginsOtherwiseIsKnownAtOnce) {
  for (const char* begin :
       {"", "[", "[ ", "[get_we", "[f(", "[f(a='", "<|pyt", "<|python_start|>", "<|python_start|>[f"}) {
    EXPECT_TRUE(MayBePythonicCalls(begin)) << begin;
  }
  for (const char* begin : {"a", "[1, 2]", "[[", "[f]", "[f a", "<|python_x", "[\"a\"", "{"}) {
    EXPECT_FALSE(MayBePythonicCalls(begin)) << begin;
  }
  EXPECT_FALSE(MayBePythonicCalls("[" + std::string(1000, ' ')));
}

}  // namespace
}  // namespace hydrant
