#include "server/chat_setup.h"

#include <gtest/gtest.h>

namespace hydrant {
namespace {

TEST(ChatSetup, ServesWithoutChatsWhereTheTemplateDoesNotParse) {
  std::vector<std::string> warnings;
  const ChatSetup broken = MakeChatSetup("{% if %}", "", "", "auto", &warnings);
  EXPECT_TRUE(broken.has_broken_template);
  EXPECT_EQ(broken.chat_template, nullptr);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(warnings[0].starts_with("chat template: ")) << warnings[0];
  const ChatSetup none = MakeChatSetup("", "", "", "auto", &warnings);
  EXPECT_FALSE(none.has_broken_template);
  EXPECT_EQ(none.chat_template, nullptr);
  EXPECT_EQ(warnings.size(), 1u);
}

TEST(ChatSetup, GoesByTheTemplateUnlessToldHowCallsAreSpelled) {
  std::vector<std::string> warnings;
  EXPECT_EQ(MakeChatSetup("<tool_call>", "", "", "auto", &warnings).tool_calls, ToolCallFormat::kHermes);
  EXPECT_EQ(MakeChatSetup("<tool_call>", "", "", "none", &warnings).tool_calls, ToolCallFormat::kNone);
  EXPECT_EQ(MakeChatSetup("x", "", "", "mistral", &warnings).tool_calls, ToolCallFormat::kMistral);
}

TEST(ChatSetup, NamesATemplateFileThatCannotBeRead) {
  const auto text = ReadChatTemplateFile("no/such.jinja");
  EXPECT_EQ(text.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(text.status().message().find("no/such.jinja"), absl::string_view::npos);
}

}  // namespace
}  // namespace hydrant
