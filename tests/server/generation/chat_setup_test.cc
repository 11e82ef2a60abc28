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

// A template with words of Llama 3's format, whose calls stand between `open` and `close`.
std::string CallingTemplate(const std::string& open, const std::string& close) {
  return "{% for m in messages %}{% for c in m.tool_calls or [] %}" + open + "{{ c.function.arguments | tojson }}" +
         close + "{% endfor %}{{ m.content or '' }}<|python_tag|>{% endfor %}";
}

TEST(ChatSetup, GoesByTheCallThatTheTemplateShows) {
  std::vector<std::string> warnings;
  const auto calls = [&warnings](const std::string& source, std::string_view parser = "auto") {
    warnings.clear();
    return MakeChatSetup({"x", source}, "", "", parser, &warnings).tool_calls;
  };
  const std::string functionary = CallingTemplate("<function={{ c.function.name }}>", "</function>");
  EXPECT_EQ(calls(functionary), ToolCallFormat::kFunctionaryV31);
  EXPECT_TRUE(warnings.empty());
  const std::string unknown = CallingTemplate("<call={{ c.function.name }}>", "</call>");
  EXPECT_EQ(calls(unknown), ToolCallFormat::kNone);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(
      warnings[0],
      "chat template: its words suggest tool calls of the format llama3_json, which does not read the call that it "
      "renders; nor does any other (hermes, mistral, mistral_args, qwen3_coder, deepseek_v3, deepseek_v31, pythonic, "
      "harmony, glm45, functionary_v31, hunyuan_a13b), so that calls will stay text; --tool-call-parser names a format "
      "all the same");
  EXPECT_EQ(calls(unknown, "llama3_json"), ToolCallFormat::kLlama3Json);
  EXPECT_TRUE(warnings.empty()) << "what an operator names is not looked at";
  const std::string hermes = "{\"name\": \"{{ c.function.name }}\", \"arguments\": ";
  EXPECT_EQ(calls(CallingTemplate("{{ '<tool' ~ '_call>' }}" + hermes, "}</tool_call>")), ToolCallFormat::kHermes);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(
      warnings[0],
      "chat template: its words suggest tool calls of the format llama3_json, which does not read the call that it "
      "renders; hermes does, and is taken; --tool-call-parser names another");
  EXPECT_EQ(calls(CallingTemplate("<tool_call>" + hermes, "}</tool_call>")), ToolCallFormat::kHermes);
  EXPECT_EQ(calls("{{ raise_exception('no') }}<|python_tag|>"), ToolCallFormat::kLlama3Json);
  EXPECT_TRUE(warnings.empty());
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
