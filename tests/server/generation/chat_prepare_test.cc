#include "server/generation/chat_prepare.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "server/generation/responses_prepare.h"
#include "tests/server/generation/byte_context.h"

namespace hydrant {
namespace {

ServingContext ChatContext(const std::string& source, const std::string& for_tools = "") {
  ServingContext context = ByteContext(200);
  std::vector<std::string> warnings;
  context.chat = MakeChatSetup({source, for_tools}, "<bos>", "<eos>", "auto", &warnings);
  return context;
}

constexpr std::string_view kHi = R"({"messages":[{"role":"user","content":"hi"}]})";

TEST(PrepareChat, RendersEncodesAndTakesTheRestOfTheContext) {
  const ServingContext context = ChatContext("{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}");
  const ApiResult<PreparedGeneration> prepared = PrepareChat(kHi, context);
  ASSERT_TRUE(prepared.ok()) << prepared.error().message;
  EXPECT_EQ(prepared.value().prompts[0].ids, ByteIds("[user]hi"));
  EXPECT_EQ(prepared.value().fields.max_tokens, 200 - 8);
  EXPECT_EQ(prepared.value().writer->id_prefix(), "chatcmpl-");
}

TEST(PrepareChat, TellsTheTemplatesFaultsFromTheClients) {
  const struct {
    std::string source;
    int status;
    std::string code, message;
  } cases[] = {
      {"", 400, "chat_template_missing", "--chat-template"},
      {"{% if %}", 500, "template_error", "log"},
      {"{{ raise_exception('roles must alternate') }}", 400, "template_error", "roles must alternate"},
      {"{{ messages[0].content.x.y }}", 400, "template_error", "does not fit"},
      {"{% for i in range(10**9) %}{% endfor %}", 500, "template_error", "stopped"},
      {"{{ '' }}", 400, "empty_prompt", ""},
  };
  for (const auto& c : cases) {
    const ApiResult<PreparedGeneration> prepared = PrepareChat(kHi, ChatContext(c.source));
    ASSERT_FALSE(prepared.ok()) << c.source;
    EXPECT_EQ(prepared.error().status, c.status) << c.source;
    EXPECT_EQ(prepared.error().code, c.code) << c.source;
    EXPECT_NE(prepared.error().message.find(c.message), std::string::npos) << prepared.error().message;
  }
}

// What a template needs grows with what it is given: its limits are no defect of the server then.
TEST(PrepareChat, AConversationTooLongForTheTemplateIsTheClients) {
  const ServingContext context =
      ChatContext("{% for m in messages %}{{ '[' + m.role + ']' + m.content + '[end]' }}{{ 'a' * 12000 }}{% endfor %}");
  std::string many;
  for (int i = 0; i < 1'500; ++i) many += R"({"role":"user","content":""},)";
  many.pop_back();
  for (const std::string& messages :
       {R"({"role":"user","content":")" + std::string(8'388'408, 'a') + R"("})", std::move(many)}) {
    const ApiResult<PreparedGeneration> prepared = PrepareChat(R"({"messages":[)" + messages + "]}", context);
    ASSERT_FALSE(prepared.ok());
    EXPECT_EQ(prepared.error().status, 400) << prepared.error().message;
    EXPECT_EQ(prepared.error().code, "context_length_exceeded");
    EXPECT_EQ(prepared.error().param, "messages");
  }
}

TEST(PrepareChat, TakesTheTemplateForToolsWhereThereAreAny) {
  const ServingContext context = ChatContext("{{ messages[0].content }}", "{{ tools[0].function.name }}");
  const std::string tools = R"(,"tools":[{"type":"function","function":{"name":"f"}}])";
  const auto body = [](const std::string& more) {
    return R"({"messages":[{"role":"user","content":"hi"}])" + more + "}";
  };
  EXPECT_EQ(PrepareChat(body(""), context).value().prompts[0].ids, ByteIds("hi"));
  EXPECT_EQ(PrepareChat(body(R"(,"tools":[])"), context).value().prompts[0].ids, ByteIds("hi"));
  EXPECT_EQ(PrepareChat(body(tools), context).value().prompts[0].ids, ByteIds("f"));
  EXPECT_EQ(PrepareChat(body(tools + R"(,"tool_choice":"none")"), context).value().prompts[0].ids, ByteIds("hi"));
  const ServingContext broken = ChatContext("{{ messages[0].content }}", "{% if %}");
  EXPECT_TRUE(PrepareChat(body(""), broken).ok());
  EXPECT_EQ(PrepareChat(body(tools), broken).error().status, 500);
}

TEST(PrepareChat, KeepsTheMarkerOfCallsWhereItIsASpecialToken) {
  const std::string body =
      R"({"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"f"}}]})";
  for (const std::string marker : {"[TOOL_CALLS]", "<tool_call>"}) {
    ServingContext context = ChatContext(marker + "{{ tools | tojson }}");
    EXPECT_TRUE(PrepareChat(body, context).value().fields.skip_special_tokens) << marker;
    const auto tokenizer = std::make_shared<ByteTokenizer>();
    tokenizer->bos_text = marker;
    context.tokenizer = tokenizer;
    EXPECT_TRUE(PrepareChat(kHi, context).value().fields.skip_special_tokens) << marker;
    EXPECT_FALSE(PrepareChat(body, context).value().fields.skip_special_tokens) << marker;
  }
}

TEST(PrepareChat, NamesTheFieldThatAChatHas) {
  ServingContext context = ChatContext("{{ messages[0].content }}");
  const std::string long_text(300, 'x');
  const ApiResult<PreparedGeneration> prepared =
      PrepareChat(R"({"messages":[{"role":"user","content":")" + long_text + R"("}]})", context);
  ASSERT_FALSE(prepared.ok());
  EXPECT_EQ(prepared.error().code, "context_length_exceeded");
  EXPECT_EQ(prepared.error().param, "messages");
}

TEST(PrepareChat, TellsDevelopersFromSystemsWhereTheTemplateDoes) {
  const std::string source = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}";
  const std::string body = R"({"messages":[{"role":"developer","content":"a"},{"role":"user","content":"b"}]})";
  EXPECT_EQ(PrepareChat(body, ChatContext(source)).value().prompts[0].ids, ByteIds("[system]a[user]b"));
  const ServingContext knows = ChatContext("{% if messages[0].role == 'developer' %}{% endif %}" + source);
  EXPECT_EQ(PrepareChat(body, knows).value().prompts[0].ids, ByteIds("[developer]a[user]b"));
}

TEST(PrepareMessages, GivesAnAnswerWhatTheContextHasRoomFor) {
  const ServingContext context = ChatContext("{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}");
  for (const int asked : {20, 192, 32'000}) {
    const ApiResult<PreparedGeneration> prepared = PrepareMessages(
        R"({"max_tokens":)" + std::to_string(asked) + R"(,"messages":[{"role":"user","content":"hi"}]})", context);
    ASSERT_TRUE(prepared.ok()) << prepared.error().message;
    EXPECT_EQ(prepared.value().prompts[0].ids, ByteIds("[user]hi"));
    EXPECT_EQ(prepared.value().fields.max_tokens, std::min(asked, 200 - 8));
    EXPECT_EQ(prepared.value().writer->id_prefix(), "msg_");
  }
}

// Qwen3-Coder writes arguments as bare text: each endpoint reads them as the request's tools say.
TEST(PrepareChat, CallsAreReadAsTheToolsDeclareTheirArguments) {
  ServingContext context = ChatContext("{% for m in messages %}{{ m.content }}{% endfor %}{{ tools | length }}");
  context.chat.tool_calls = ToolCallFormat::kQwen3Coder;
  const std::string schema = R"({"type":"object","properties":{"text":{"type":"string"},"line":{"type":"integer"}}})";
  const std::string function = R"("name":"write","parameters":)" + schema;
  const std::string chat =
      R"({"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{)" + function + "}}]}";
  const std::string messages = R"({"max_tokens":20,"messages":[{"role":"user","content":"hi"}],)"
                               R"("tools":[{"name":"write","input_schema":)" +
                               schema + "}]}";
  const std::string response = R"({"input":"hi","store":false,"tools":[{"type":"function",)" + function + "}]}";
  for (const ApiResult<PreparedGeneration>& prepared :
       {PrepareChat(chat, context), PrepareMessages(messages, context), PrepareResponses(response, context, {}, {})}) {
    ASSERT_TRUE(prepared.ok()) << prepared.error().message;
    Answer answer;
    answer.choices.resize(1);
    answer.choices[0].text =
        "<tool_call>\n<function=write>\n<parameter=text>\n{\"a\": 1}\n</parameter>\n<parameter=line>\n7\n</parameter>\n"
        "</function>\n</tool_call>";
    prepared.value().writer->Begin({});
    auto body = nlohmann::json::parse(prepared.value().writer->Body(answer));
    const std::string arguments =
        body.contains("choices")
            ? body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"].get<std::string>()
        : body.contains("content") ? body["content"][0]["input"].dump()
                                   : body["output"][0]["arguments"].get<std::string>();
    EXPECT_EQ(nlohmann::json::parse(arguments), nlohmann::json({{"text", "{\"a\": 1}"}, {"line", 7}})) << body;
  }
}

TEST(PrepareChat, GivesTheTemplateTheArgumentsThatItReads) {
  const auto ask = [&](const std::string& source, const std::string& members) {
    const ApiResult<PreparedGeneration> prepared =
        PrepareChat(R"({"messages":[{"role":"user","content":"hi"}])" + members + "}", ChatContext(source));
    if (!prepared.ok()) return prepared.error().code + " " + prepared.error().param;
    const std::vector<int32_t>& ids = prepared.value().prompts[0].ids.vector();
    return std::string(ids.begin(), ids.end());
  };
  const struct {
    std::string source, members, answer;
  } cases[] = {
      {"{{ style }}!", R"(,"chat_template_kwargs":{"style":"terse"})", "terse!"},
      {"{{ style }}!", R"(,"chat_template_kwargs":{"stile":"terse"})", "unsupported chat_template_kwargs.stile"},
      {"{{ messages }}", R"(,"chat_template_kwargs":{"messages":"x"})", "unsupported chat_template_kwargs.messages"},
      {"{{ range(1) }}", R"(,"chat_template_kwargs":{"range":1})", "unsupported chat_template_kwargs.range"},
      {"{{ enable_thinking }}", R"(,"enable_thinking":false)", "False"},
      {"{{ enable_thinking }}", R"(,"chat_template_kwargs":{"enable_thinking":false})", "False"},
      {"{{ enable_thinking }}", R"(,"reasoning_effort":"none")", "False"},
      {"{{ reasoning_effort }}", R"(,"reasoning_effort":"none")", "none"},
      {"{{ thinking }}", R"(,"enable_thinking":true)", "True"},
      {"{{ thinking }}", R"(,"enable_thinking":true,"chat_template_kwargs":{"thinking":"x"})", "x"},
      {"a", R"(,"enable_thinking":true)", "a"},
  };
  for (const auto& c : cases) EXPECT_EQ(ask(c.source, c.members), c.answer) << c.source << c.members;
}

// What is said after the prompt by an answer of this text.
std::string Reasoned(const ApiResult<PreparedGeneration>& prepared, const std::string& text) {
  if (!prepared.ok()) return prepared.error().message;
  ReasoningSplitter splitter = prepared.value().reasoning;
  const ReasoningSplitter::Output output = splitter.Push(text);
  return output.reasoning + "|" + output.text + (prepared.value().fields.skip_special_tokens ? "" : "|specials");
}

TEST(PrepareChat, PartsReasoningAsItsPromptBeganIt) {
  ServingContext context = ChatContext(
      "{% for m in messages %}[{{ m.role }}]{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% "
      "endif "
      "%}{{ m.content }}{% endfor %}{% if add_generation_prompt %}[assistant]{% if messages[0].content == 'hi' "
      "%}<think>{% endif %}{% endif %}");
  const auto chat = [&](const std::string& content, const std::string& more = "") {
    return PrepareChat(R"({"messages":[{"role":"user","content":")" + content + "\"}" + more + "}", context);
  };
  const std::string answer = "a</think>b", whole = "<think>a</think>b";
  EXPECT_EQ(Reasoned(chat("hi", "]"), answer), "a|b");
  EXPECT_EQ(Reasoned(chat("yes", "]"), answer), "|a</think>b");
  EXPECT_EQ(Reasoned(chat("yes", "]"), whole), "a|b");
  EXPECT_EQ(Reasoned(chat("yes <think>", "]"), answer), "|a</think>b") << "a client's marker opens nothing";
  EXPECT_EQ(Reasoned(chat("hi", R"(],"separate_reasoning":false)"), whole), "|" + whole);
  const std::string begun = R"(,{"role":"assistant","content":"<think>so"}],"continue_final_message":true)";
  EXPECT_EQ(Reasoned(chat("yes", begun), answer), "a|b");
  EXPECT_EQ(chat("hi", R"(],"separate_reasoning":false,"include_reasoning":false)").error().param,
            "separate_reasoning");
  const auto tokenizer = std::make_shared<ByteTokenizer>();
  tokenizer->bos_text = "</think>";
  context.tokenizer = tokenizer;
  EXPECT_EQ(Reasoned(chat("hi", "]"), answer), "a|b|specials");
}

TEST(PrepareMessages, TellsTheTemplateWhetherToThink) {
  const ServingContext context = ChatContext("{{ enable_thinking if enable_thinking is defined else 'unsaid' }}");
  const auto rendered = [&](const std::string& members) {
    const ApiResult<PreparedGeneration> prepared =
        PrepareMessages(R"({"max_tokens":9999,"messages":[{"role":"user","content":"hi"}])" + members + "}", context);
    EXPECT_TRUE(prepared.ok());
    return prepared.ok() ? prepared.value().prompts[0].ids.vector() : std::vector<int32_t>();
  };
  EXPECT_EQ(rendered(""), ByteIds("unsaid"));
  EXPECT_EQ(rendered(R"(,"thinking":{"type":"adaptive"})"), ByteIds("unsaid"));
  EXPECT_EQ(rendered(R"(,"thinking":{"type":"disabled"})"), ByteIds("False"));
  EXPECT_EQ(rendered(R"(,"thinking":{"type":"enabled","budget_tokens":1024})"), ByteIds("True"));
}

TEST(PrepareChat, ReadsTheChannelsOfMessages) {
  const ServingContext context = ChatContext(
      "{% for m in messages %}<s>{{ m.role }}{% if m.thinking %}<c>analysis<m>{{ m.thinking }}<e><s>assistant{% endif "
      "%}"
      "<c>final<m>{{ m.content }}<e>{% endfor %}{% if add_generation_prompt %}<s>assistant{% endif %}");
  const auto said = [&](const std::string& more, const std::string& text) {
    return Reasoned(PrepareChat(R"({"messages":[{"role":"user","content":"hi"})" + more + "}", context), text);
  };
  EXPECT_EQ(
      said("]",
           "<c>analysis<m>a<e><s>assistant<c>commentary<m>b<e><s>assistant<c>analysis<m>c<e><s>assistant<c>final<m>d"),
      "a\nc|b\n\nd");
  EXPECT_EQ(said("]", " to=functions.f<c>commentary<m>{}"), "|<c>commentary to=functions.f<m>{}");
  EXPECT_EQ(said(R"(,{"role":"assistant","content":"It is"}],"continue_final_message":true)", " so"), "| so");
  EXPECT_EQ(said(R"(],"separate_reasoning":false)", "<c>analysis<m>a"), "|<c>analysis<m>a");
  EXPECT_EQ(said(R"(],"tools":[{"type":"function","function":{"name":"f"}}],"separate_reasoning":false)",
                 "<c>analysis<m>a<e><s>assistant to=functions.f<c>commentary<m>{}"),
            "|a<c>commentary to=functions.f<m>{}");
}

}  // namespace
}  // namespace hydrant
