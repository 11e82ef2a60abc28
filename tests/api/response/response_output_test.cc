#include "api/response/response_output.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "nlohmann/json.hpp"

namespace hydrant {
namespace {

using Json = nlohmann::json;

constexpr const char* kCalls =
    "Let me look.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>\n"
    "<tool_call>\n{\"name\": \"g\", \"arguments\": {\"input\": \"do\"}}\n</tool_call>";

Json OutputOf(const std::string& text) {
  ResponseOutputOptions options;
  options.tool_calls = ToolCallFormat::kHermes;
  options.ids = "x";
  options.custom_tools = {"g"};
  ResponseOutput output(options);
  output.Push(text, /*last=*/true, /*incomplete=*/false, nullptr, nullptr);
  return Json::parse("[" + output.items() + "]");
}

TEST(ResponseOutput, MakesItems) {
  const Json output = OutputOf(kCalls);
  ASSERT_EQ(output.size(), 3u);
  EXPECT_EQ(output[0], Json::parse(R"({"id":"msg_x_0","type":"message","status":"completed","role":"assistant",
      "content":[{"type":"output_text","text":"Let me look.\n","annotations":[],"logprobs":[]}]})"));
  EXPECT_EQ(output[1]["type"], "function_call");
  EXPECT_EQ(output[1]["id"], "fc_x_1");
  EXPECT_EQ(Json::parse(output[1]["arguments"].get<std::string>()), (Json{{"x", 1}}));
  EXPECT_EQ(output[2]["type"], "custom_tool_call");
  EXPECT_EQ(output[2]["input"], "do");
  EXPECT_NE(output[1]["call_id"], output[2]["call_id"]);
  // A call that was cut off says so.
  const Json cut = OutputOf(R"(<tool_call>{"name": "f", "arguments": {"x": )");
  ASSERT_EQ(cut.size(), 1u);
  EXPECT_EQ(cut[0]["status"], "incomplete");
  EXPECT_EQ(cut[0]["arguments"], R"({"x": )");
  // A custom tool's input has what came of it, to the last whole character.
  const std::pair<std::string, std::string> inputs[] = {
      {"{", ""},
      {"{\"input\": ", ""},
      {"{\"input\": \"", ""},
      {"{\"input\": \"a\\nb", "a\nb"},
      {"{\"input\": \"a\\", "a"},
      {"{\"input\": \"a\\ud83d\\ude0", "a"},
      {"{\"input\": \"a\"", "a"},
      {"{\"other\": \"a", "{\"other\": \"a"},
  };
  for (const auto& [arguments, input] : inputs) {
    EXPECT_EQ(OutputOf("<tool_call>{\"name\": \"g\", \"arguments\": " + arguments)[0]["input"], input) << arguments;
  }
  // Nothing at all is a message without a word: clients read the first item's text.
  EXPECT_EQ(OutputOf("")[0]["content"][0]["text"], "");
}

}  // namespace
}  // namespace hydrant
