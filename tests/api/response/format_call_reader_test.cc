#include "api/response/format_call_reader.h"

#include <gtest/gtest.h>

#include <string>

#include "model/grammar/notation/tool_format.h"

namespace hydrant {
namespace {

TEST(FormatCallReader, LosesNoByte) {
  const std::string answers[] = {
      "a<tool_call>{\"name\": \"f\", \"arguments\": {\"x\": 1}}</tool_call> b <tool_call> c",
      "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>\n",
      "[f(a=1), g()] no",
      "[f(a=1), g()]",
      "x[TOOL_CALLS]f[ARGS]{}[TOOL_CALLS]g[ARGS] {\"a\":",
      "<｜tool▁calls▁begin｜>x"};
  for (const grammar::ToolFormat& format : grammar::ToolFormats()) {
    for (const std::string& answer : answers) {
      FormatCallReader reader(format.name);
      std::string text;
      const auto add = [&](const FormatCallReader::Output& output) {
        for (const FormatCallReader::Part& part : output) text += part.text;
      };
      for (const char& byte : answer) add(reader.Push({&byte, 1}));
      add(reader.Finish());
      EXPECT_EQ(text, answer) << format.name;
    }
  }
}

}  // namespace
}  // namespace hydrant
