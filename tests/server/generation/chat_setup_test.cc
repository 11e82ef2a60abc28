#include "server/generation/chat_setup.h"

#include <gtest/gtest.h>

#include "tests/support/byte_tokenizer.h"

namespace hydrant {
namespace {

TEST(ChatSetup, ServesWithoutChatsWhereTheTemplateDoesNotParse) {
  std::vector<std::string> warnings;
  const ChatSetup broken = MakeChatSetup({"{% if %}", ""}, "", "", "auto", &warnings);
  EXPECT_FALSE(broken.for_all.source.empty());
  EXPECT_EQ(broken.for_all.parsed, nullptr);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(warnings[0].starts_with("chat template: ")) << warnings[0];
  const ChatSetup none = MakeChatSetup({}, "", "", "auto", &warnings);
  EXPECT_TRUE(none.for_all.source.empty());
  EXPECT_EQ(none.for_all.parsed, nullptr);
  EXPECT_EQ(warnings.size(), 1u);
}

TEST(ChatSetup, GoesByTheTemplateUnlessToldHowCallsAreSpelled) {
  std::vector<std::string> warnings;
  EXPECT_EQ(MakeChatSetup({"<tool_call>", ""}, "", "", "auto", &warnings).tool_calls, ToolCallFormat::kHermes);
  EXPECT_EQ(MakeChatSetup({"<tool_call>", ""}, "", "", "none", &warnings).tool_calls, ToolCallFormat::kNone);
  EXPECT_EQ(MakeChatSetup({"x", ""}, "", "", "mistral", &warnings).tool_calls, ToolCallFormat::kMistral);
}

TEST(ChatSetup, HasATemplateForConversationsWithToolsWhereTheModelHas) {
  std::vector<std::string> warnings;
  const ChatSetup one = MakeChatSetup({"x", ""}, "", "", "auto", &warnings);
  EXPECT_EQ(&one.For(true), &one.for_all);
  const ChatSetup two = MakeChatSetup({"x", "<tool_call>"}, "", "", "auto", &warnings);
  EXPECT_EQ(&two.For(false), &two.for_all);
  EXPECT_EQ(&two.For(true), &two.for_tools);
  EXPECT_EQ(two.tool_calls, ToolCallFormat::kHermes);
  EXPECT_TRUE(warnings.empty());
  const ChatSetup broken = MakeChatSetup({"x", "{% if %}"}, "", "", "auto", &warnings);
  EXPECT_NE(broken.For(false).parsed, nullptr);
  EXPECT_EQ(broken.For(true).parsed, nullptr);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("; chats with tools will be refused"), std::string::npos) << warnings[0];
}

TEST(ChatSetup, KnowsHowEachTemplateMarksReasoning) {
  std::vector<std::string> warnings;
  const ChatSetup setup =
      MakeChatSetup({"x{% if add_generation_prompt %}<think>{% endif %}", "x"}, "", "", "auto", &warnings);
  EXPECT_EQ(setup.For(false).reasoning.close, "</think>");
  EXPECT_TRUE(setup.For(false).reasoning.open_in_prompt);
  EXPECT_FALSE(setup.For(true).reasoning.known());
}

// Spells the tag between messages as one token.
class TagTokenizer : public ByteTokenizer {
 public:
  std::vector<int32_t> Encode(std::string_view text, const EncodeOptions& options) const override {
    if (text.starts_with("<s>")) return {kEos};
    return ByteTokenizer::Encode(text, options);
  }
  std::string_view TokenBytes(int32_t id) const override { return id == kEos ? "<s>" : ByteTokenizer::TokenBytes(id); }
};

TEST(ChatSetup, AnswersAreMadeUpOfTheMarksOfCallsAndOfMessages) {
  std::vector<std::string> warnings;
  const ChatSetup setup = MakeChatSetup(
      {"{% for m in messages %}{% if m.role == 'assistant' %}<s>a<c>t<m>{{ m.thinking }}<e><s>a<c>say<m>{% endif %}{{ "
       "m.content }}{% endfor %}{% if add_generation_prompt %}<s>a{% endif %}",
       ""},
      "", "", "mistral_args", &warnings);
  ASSERT_TRUE(setup.for_all.reasoning.channels.known());
  EXPECT_EQ(AnswerMarkers(setup, TagTokenizer()),
            (std::vector<std::string_view>{"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "<s>"}))
      << "those of calls at their places; of the others what is a special token";
  EXPECT_TRUE(AnswerMarkers(ChatSetup(), ByteTokenizer()).empty());
  const auto tokenizer = std::make_shared<TagTokenizer>();
  RequestContext request;
  DescribeCalls(setup, ShapeVocabulary(tokenizer, 258, {}, AnswerMarkers(setup, *tokenizer)), &request);
  EXPECT_EQ(request.tool_format, "mistral_args");
  EXPECT_TRUE(request.tool_markers.empty()) << "what stands around messages is none of a call's";
}

TEST(ChatSetup, NamesATemplateFileThatCannotBeRead) {
  const auto text = ReadChatTemplateFile("no/such.jinja");
  EXPECT_EQ(text.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(text.status().message().find("no/such.jinja"), absl::string_view::npos);
}

}  // namespace
}  // namespace hydrant
