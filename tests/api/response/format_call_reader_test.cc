#include "api/response/format_call_reader.h"

#include <gtest/gtest.h>

#include <string>

#include "model/grammar/notation/tool_format.h"

namespace hydrant {
namespace {

TEST(FormatCallReader, LosesNoByteOfText) {
  const std::string answers[] = {
      "a<tool_call>{\"name\": 1} b <tool_call> c",
      "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter\n</function>\n</tool_call>\n",
      "[f(a, g()] no",
      "[f(a=1",
      "a <to\xff\xff<tool_call>\xfe [TOOL_CA\xf5",
      "x[TOOL_CALLS]f[ARGS][TOOL_CALLS]g[ARGS] x{\"a\":",
      "<｜tool▁calls▁begin｜>x"};
  for (const grammar::ToolFormat& format : grammar::ToolFormats()) {
    for (const std::string& answer : answers) {
      FormatCallReader reader(format.name);
      AnswerPieces pieces;
      for (const char& byte : answer) EXPECT_EQ(reader.Push({&byte, 1}, &pieces), 1u);
      EXPECT_FALSE(reader.Finish(&pieces));
      EXPECT_EQ(pieces, (AnswerPieces{{AnswerPiece::Kind::kText, answer, 0, ""}})) << format.name;
    }
  }
}

TEST(FormatCallReader, HandsOverWhatBeginsLikeACall) {
  FormatCallReader reader("hermes", /*hands_over=*/true);
  AnswerPieces pieces;
  EXPECT_EQ(reader.Push("a <tool_call>{\"name\": \"f\"}</tool_call>", &pieces), 25u);
  EXPECT_EQ(reader.TakeHeld(), "<tool_call>{\"name\": \"f\"");
  EXPECT_EQ(reader.Push(" b<tool_call>", &pieces), 13u);
  EXPECT_EQ(pieces, (AnswerPieces{{AnswerPiece::Kind::kText, "a  b", 0, ""}}));
  EXPECT_TRUE(reader.Finish(&pieces));
  EXPECT_EQ(reader.TakeHeld(), "<tool_call>");
}

}  // namespace
}  // namespace hydrant
