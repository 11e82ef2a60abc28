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

// Its answers are messages.
constexpr const char* kChannelTemplate =
    "{% for m in messages %}{% if m.role == 'assistant' %}{% if m.thinking %}<s>a<c>t<m>{{ m.thinking }}<e>{% endif "
    "%}<s>a<c>say<m>{{ m.content }}{% else %}<s>u<m>{{ m.content }}<e>{% endif %}{% endfor %}{% if "
    "add_generation_prompt %}<s>a{% endif %}";

// Where the answer begins, what is around it, and its prefix.
std::string Messages(const std::string& more, const std::string& messages = kAskedChat) {
  const auto made = PreparedChat(kChannelTemplate, messages, more);
  if (!made.ok()) return made.error().code;
  const PreparedGeneration& prepared = made.value();
  const std::optional<grammar::MessageMarks>& marks = prepared.shape_start.messages;
  if (!marks.has_value() || prepared.shape_start.thinks || prepared.shape_start.thinks_behind >= 0)
    return "no messages";
  constexpr std::string_view kBegins[] = {"start", "head", "thought", "text"};
  return std::string(kBegins[static_cast<size_t>(marks->begin)]) + " " + marks->start + marks->channel +
         marks->thought + marks->message + marks->end + marks->answer + prepared.shape_start.prefix;
}

TEST(ShapeStart, AnswersThatAreMessagesBeginWithAHead) {
  const std::string regex = kAskedRegex;
  EXPECT_EQ(Messages(regex), "head <s>a<c>t<m><e>say");
  EXPECT_EQ(Messages(R"(,"structured_outputs":{"regex":"a+","in_reasoning":true})"), "head <s>a<c><m><e>say")
      << "and with no thinking";
  EXPECT_EQ(Messages(regex + R"(,"enable_thinking":false)"), "head <s>a<c><m><e>say");
  EXPECT_EQ(Messages(regex + R"(,"add_generation_prompt":false)"), "start <s>a<c>t<m><e>say");
  const std::string begun = std::string(kAskedChat) + R"(,{"role":"assistant","content":"a<s>a"})";
  EXPECT_EQ(Messages(regex + R"(,"add_generation_prompt":false,"continue_final_message":true)", begun),
            "text <s>a<c>t<m><e>saya<s>a");
}

// Two tags are special tokens, of which the vocabulary of shapes knows none.
class OtherTags : public ByteTokenizer {
 public:
  std::vector<int32_t> Encode(std::string_view text, const EncodeOptions& options) const override {
    if (text == "<e>") return {kEos};
    return text == "<c>" ? std::vector<int32_t>{kBos} : ByteTokenizer::Encode(text, options);
  }
};

TEST(ShapeStart, MessagesThatCannotBeWrittenAreRefused) {
  ServingContext context = ByteContext(4096);
  std::vector<std::string> warnings;
  context.chat = MakeChatSetup({kChannelTemplate, ""}, "", "", "auto", &warnings);
  context.tokenizer = std::make_shared<OtherTags>();
  context.shapes = std::make_shared<ShapeCache>(std::make_shared<const ShapeVocabulary>(
      context.tokenizer, ByteTokenizer::kVocab, std::vector<int32_t>{ByteTokenizer::kEos}));
  const auto refused =
      PrepareChat(R"({"max_tokens":8,"messages":[)" + std::string(kAskedChat) + "]" + kAskedRegex + "}", context);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, "unsupported");
  EXPECT_EQ(refused.error().param, "structured_outputs.regex");
}

// What becomes of the calls of a chat for which nothing is promised: whether they are held, and where.
std::string HeldCalls(const char* source, const std::string& more = "", const std::string& messages = kAskedChat) {
  ServingContext context = ByteContext(4096);
  std::vector<std::string> warnings;
  context.chat = MakeChatSetup({source, ""}, "", "", "hermes", &warnings);
  context.request.tool_format = "hermes";
  context.request.call_mark = CallMark::kToken;
  const auto made = PrepareChat(R"({"max_tokens":8,"messages":[)" + messages +
                                    R"(],"tools":[{"type":"function","function":{"name":"f"}}])" + more + "}",
                                context);
  if (!made.ok()) return made.error().message;
  if (!made.value().fields.constraint.has_value()) return "none";
  const AnswerStart& start = made.value().shape_start;
  return std::string(start.calls_only ? "calls" : "all") + (start.thinks ? ", thinks" : "") + start.prefix;
}

TEST(ShapeStart, CallsAreHeldWhereTheAnswerIsKnownToBegin) {
  EXPECT_EQ(HeldCalls(kShapeTemplate), "calls");
  EXPECT_EQ(HeldCalls(kThinkingTemplate), "calls, thinks");
  EXPECT_EQ(HeldCalls(kShapeTemplate, R"(,"continue_final_message":true)",
                      std::string(kAskedChat) + R"(,{"role":"assistant","content":"<tool_call>x"})"),
            "calls")
      << "what a client wrote is no call of the model's";
  const char* announces =
      "{% for m in messages %}{% if m.reasoning_content %}<t>{{ m.reasoning_content }}</t><a>{% endif %}{{ m.content "
      "}};{% endfor %}<t>";
  EXPECT_EQ(HeldCalls(announces), "none");
  const char* opens_itself =
      "{% for m in messages %}{% if m.reasoning_content %}<t>{{ m.reasoning_content }}</t>{% endif %}{{ m.content "
      "}};{% endfor %}";
  EXPECT_EQ(HeldCalls(opens_itself), "none") << "where thinking opens is not seen by a token";
  EXPECT_EQ(HeldCalls(opens_itself, R"(,"enable_thinking":false)"), "none") << "nothing keeps it from thinking";
}

}  // namespace
}  // namespace hydrant
