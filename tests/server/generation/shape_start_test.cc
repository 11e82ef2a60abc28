#include "server/generation/shape_start.h"

#include <gtest/gtest.h>

#include <string>

#include "server/generation/chat_prepare.h"
#include "tests/server/generation/byte_context.h"

namespace hydrant {
namespace {

constexpr const char* kShapeTemplate =
    "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}{% if add_generation_prompt %}assistant:{% endif "
    "%}";
// Its prompts end within thinking.
constexpr const char* kThinkingTemplate =
    "{% for m in messages %}{{ m.role }}:{% if m.role == 'assistant' and m.reasoning_content %}<t>{{ "
    "m.reasoning_content "
    "}}</t>{% endif %}{{ m.content }};{% endfor %}{% if add_generation_prompt %}assistant:<t>{% endif %}";

ApiResult<PreparedGeneration> PreparedChat(const char* source, const std::string& messages, const std::string& more) {
  ServingContext context = ByteContext(4096);
  std::vector<std::string> warnings;
  context.chat = MakeChatSetup({source, ""}, "", "", "auto", &warnings);
  return PrepareChat(R"({"max_tokens":8,"messages":[)" + messages + "]" + more + "}", context);
}

constexpr const char* kAskedChat = R"({"role":"user","content":"hi"})";
constexpr const char* kAskedRegex = R"(,"structured_outputs":{"regex":"a+"})";

TEST(ShapeStart, AnAnswerBeginsAtItsFirstToken) {
  const auto made = PreparedChat(kShapeTemplate, kAskedChat, kAskedRegex);
  ASSERT_TRUE(made.ok()) << made.error().message;
  const AnswerStart& start = made.value().shape_start;
  EXPECT_EQ(start.prefix, "");
  EXPECT_FALSE(start.thinks);
  EXPECT_EQ(start.thinks_behind, -1);
}

TEST(ShapeStart, OrGoesOnFromWhatIsThere) {
  const std::string messages = std::string(kAskedChat) + R"(,{"role":"assistant","content":" aa"})";
  const auto made =
      PreparedChat(kShapeTemplate, messages, std::string(kAskedRegex) + R"(,"continue_final_message":true)");
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made.value().shape_start.prefix, " aa");
}

TEST(ShapeStart, OrBehindThinking) {
  const auto made = PreparedChat(kThinkingTemplate, kAskedChat, kAskedRegex);
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_TRUE(made.value().shape_start.thinks);
  EXPECT_EQ(made.value().shape_start.thinking_closes, "</t>");
  const auto from_first =
      PreparedChat(kThinkingTemplate, kAskedChat, R"(,"structured_outputs":{"regex":"a+","in_reasoning":true})");
  ASSERT_TRUE(from_first.ok()) << from_first.error().message;
  EXPECT_FALSE(from_first.value().shape_start.thinks);
}

TEST(ShapeStart, ToolsAreRefusedBesideIt) {
  const std::string tools = R"(,"tools":[{"type":"function","function":{"name":"f"}}])";
  const auto refused = PreparedChat(kShapeTemplate, kAskedChat, kAskedRegex + tools);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, "unsupported");
  EXPECT_EQ(refused.error().param, "structured_outputs.regex");
  EXPECT_TRUE(PreparedChat(kShapeTemplate, kAskedChat, kAskedRegex + tools + R"(,"tool_choice":"none")").ok());
}

}  // namespace
}  // namespace hydrant
