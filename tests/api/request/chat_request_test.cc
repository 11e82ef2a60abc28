#include "api/request/chat_request.h"

#include <gtest/gtest.h>

#include "tests/api/request/small_context.h"

namespace hydrant {
namespace {

ApiResult<ChatRequest> Parse(const std::string& members) {
  return ParseChatRequest(R"({"messages":[{"role":"user","content":"hi"}])" + members + "}", SmallContext());
}

TEST(ChatRequest, HasTheDocumentedDefaults) {
  const ApiResult<ChatRequest> parsed = Parse("");
  ASSERT_TRUE(parsed.ok());
  const ChatRequest& request = parsed.value();
  EXPECT_EQ(request.max_tokens, kRestOfContext);
  EXPECT_EQ(request.logprobs, -1);
  EXPECT_FALSE(request.add_special_tokens);
  EXPECT_TRUE(request.conversation.add_generation_prompt);
  EXPECT_FALSE(request.conversation.continue_final_message);
  EXPECT_TRUE(request.conversation.tools.is_null());
  EXPECT_FALSE(request.parses_tool_calls);
  EXPECT_EQ(request.conversation.messages.dump(), R"([{"role":"user","content":"hi"}])");
}

TEST(ChatRequest, MakesMessagesWhatTemplatesRead) {
  const std::string body =
      R"({"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],)"
      R"("name":"n","unknown":1},{"content":null,"role":"assistant","reasoning":"r","tool_calls":[)"
      R"({"id":"c1","type":"function","function":{"name":"f","arguments":"{\"x\": [1]}"}}]},)"
      R"({"role":"tool","content":"42","tool_call_id":"c1"}]})";
  const ApiResult<ChatRequest> parsed = ParseChatRequest(body, SmallContext());
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(
      parsed.value().conversation.messages.dump(),
      R"([{"role":"user","content":"a\nb","name":"n"},{"role":"assistant","content":null,"reasoning_content":"r",)"
      R"("tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":{"x":[1]}}}]},)"
      R"({"role":"tool","content":"42","tool_call_id":"c1"}])");
}

TEST(ChatRequest, ReadsARefusalAsWhatWasSaid) {
  const auto content = [](const std::string& members) -> std::string {
    const ApiResult<ChatRequest> parsed =
        ParseChatRequest(R"({"messages":[{"role":"assistant",)" + members + "}]}", SmallContext());
    if (!parsed.ok()) return parsed.error().param + " " + parsed.error().code;
    return parsed.value().conversation.messages[0]["content"].dump();
  };
  EXPECT_EQ(content(R"("content":[{"type":"text","text":"So"},{"type":"refusal","refusal":"no"}])"), R"("So\nno")");
  EXPECT_EQ(content(R"("content":null,"refusal":"no")"), R"("no")");
  EXPECT_EQ(content(R"("content":"So","refusal":"no")"), R"("So\nno")");
  EXPECT_EQ(content(R"("content":"So","refusal":null)"), R"("So")");
  EXPECT_EQ(content(R"("content":null,"refusal":"")"), "null");
  EXPECT_EQ(content(R"("content":null,"refusal":1)"), "messages[0].refusal invalid_type");
  EXPECT_EQ(content(R"("content":[{"type":"refusal","text":"no"}])"), "messages[0].content invalid_type");
  const ApiResult<ChatRequest> of_user = ParseChatRequest(
      R"({"messages":[{"role":"user","content":[{"type":"refusal","refusal":"no"}]}]})", SmallContext());
  ASSERT_FALSE(of_user.ok());
  EXPECT_EQ(of_user.error().code, "unsupported");
}

// A body of `count` messages, each with a call whose arguments are the text of an array of `values` numbers in an object.
std::string BodyOfCalls(int count, int values) {
  std::string arguments = R"({\"x\":[0)";
  for (int i = 1; i < values; ++i) arguments += ",0";
  arguments += "]}";
  std::string body = R"({"messages":[)";
  for (int i = 0; i < count; ++i) {
    body += i > 0 ? "," : "";
    body += R"({"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":")" + arguments + R"("}}]})";
  }
  return body + "]}";
}

TEST(ChatRequest, CostsWhatOneBodyMayHoweverManyTextsItIsCutInto) {
  RequestContext context = SmallContext();
  context.limits.json_nodes_max = 1000;
  // A message takes 7 values of the body, and its arguments 2 and the numbers.
  EXPECT_TRUE(ParseChatRequest(BodyOfCalls(1, 900), context).ok());
  EXPECT_TRUE(ParseChatRequest(BodyOfCalls(9, 100), context).ok());
  const ApiResult<ChatRequest> parsed = ParseChatRequest(BodyOfCalls(13, 100), context);
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().code, "json_too_many_nodes");
  EXPECT_EQ(parsed.error().param, "messages[8].tool_calls") << "13 * 7 of the body, then 102 a message";
}

TEST(ChatRequest, RefusesMessagesThatAreNone) {
  const struct {
    std::string messages, param, code;
  } cases[] = {
      {"null", "messages", "missing_field"},
      {"[]", "messages", "invalid_value"},
      {"{}", "messages", "invalid_type"},
      {"[null]", "messages[0]", "invalid_type"},
      {"[1]", "messages[0]", "invalid_type"},
      {R"([{"content":"x"}])", "messages[0].role", "missing_field"},
      {R"([{"role":"root","content":"x"}])", "messages[0].role", "invalid_value"},
      {R"([{"role":1,"content":"x"}])", "messages[0].role", "invalid_value"},
      {R"([{"role":"user"}])", "messages[0].content", "missing_field"},
      {R"([{"role":"user","content":7}])", "messages[0].content", "invalid_type"},
      {R"([{"role":"user","content":[["x"]]}])", "messages[0].content", "invalid_type"},
      {R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://x/"}}]}])", "messages[0].content",
       "unsupported"},
      {R"([{"role":"user","content":[{"type":"input_audio"}]}])", "messages[0].content", "unsupported"},
      {R"([{"role":"user","content":[{"type":"text","text":null}]}])", "messages[0].content", "invalid_type"},
      {R"([{"role":"user","content":"x","name":{}}])", "messages[0].name", "invalid_type"},
      {R"([{"role":"assistant","tool_calls":{}}])", "messages[0].tool_calls", "invalid_type"},
      {R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"[1]"}}]}])", "messages[0].tool_calls",
       "invalid_type"},
  };
  for (const auto& c : cases) {
    for (const std::string more : {"", ",\"echo\":true,\"add_generation_prompt\":false"}) {
      const ApiResult<ChatRequest> parsed =
          ParseChatRequest("{\"messages\":" + c.messages + more + "}", SmallContext());
      ASSERT_FALSE(parsed.ok()) << c.messages;
      EXPECT_EQ(parsed.error().status, 400) << c.messages;
      EXPECT_EQ(parsed.error().param, c.param) << c.messages;
      EXPECT_EQ(parsed.error().code, c.code) << c.messages;
    }
  }
}

TEST(ChatRequest, RefusesWhatItCannotHonour) {
  const struct {
    std::string members, param;
  } cases[] = {
      {R"(,"max_tokens":3,"max_completion_tokens":4)", "max_completion_tokens"},
      {R"(,"max_tokens":0)", "max_tokens"},
      {R"(,"top_logprobs":3)", "top_logprobs"},
      {R"(,"logprobs":true,"top_logprobs":21)", "top_logprobs"},
      {R"(,"logprobs":5)", "logprobs"},
      {R"(,"chat_template":"x")", "chat_template"},
      {R"(,"web_search_options":{})", "web_search_options"},
      {R"(,"chat_template_kwargs":[])", "chat_template_kwargs"},
      {R"(,"chat_template_kwargs":{"a b":1})", "chat_template_kwargs"},
      {R"(,"chat_template_kwargs":{"a":{}})", "chat_template_kwargs.a"},
      {R"(,"chat_template_kwargs":{"a":[1]})", "chat_template_kwargs.a"},
      {R"(,"chat_template_kwargs":{"a":")" + std::string(1025, 'x') + "\"}", "chat_template_kwargs.a"},
      {R"(,"chat_template_kwargs":{"enable_thinking":"no"})", "chat_template_kwargs.enable_thinking"},
      {R"(,"enable_thinking":true,"chat_template_kwargs":{"enable_thinking":false})",
       "chat_template_kwargs.enable_thinking"},
      {R"(,"reasoning_effort":"low","chat_template_kwargs":{"reasoning_effort":"high"})",
       "chat_template_kwargs.reasoning_effort"},
      {R"(,"enable_thinking":1)", "enable_thinking"},
      {R"(,"functions":[])", "functions"},
      {R"(,"modalities":["text","audio"])", "modalities"},
      {R"(,"tool_choice":"required")", "tool_choice"},
      {R"(,"tool_choice":{"type":"function","function":{"name":"f"}})", "tool_choice"},
      {R"(,"response_format":{"type":"json_object"})", "response_format"},
      {R"(,"continue_final_message":true,"add_generation_prompt":true)", "continue_final_message"},
      {R"(,"documents":["x"])", "documents"},
      {R"(,"session_id":"s","session_append":true)", "session_append"},
      {R"(,"n":17)", "n"},
  };
  for (const auto& c : cases) {
    const ApiResult<ChatRequest> parsed = Parse(c.members);
    ASSERT_FALSE(parsed.ok()) << c.members;
    EXPECT_EQ(parsed.error().status, 400) << c.members;
    EXPECT_EQ(parsed.error().param, c.param) << c.members;
  }
}

TEST(ChatRequest, ReadsArgumentsOfTheTemplate) {
  const Conversation said =
      Parse(R"(,"chat_template_kwargs":{"enable_thinking":false,"reasoning_effort":"low","a":"x",)"
            R"("b":2,"c":0.5,"d":true,"e":null})")
          .value()
          .conversation;
  EXPECT_EQ(said.enable_thinking, false);
  EXPECT_EQ(said.reasoning_effort, "low");
  EXPECT_EQ(said.template_arguments.dump(), R"({"a":"x","b":2,"c":0.5,"d":true})");
  EXPECT_EQ(Parse(R"(,"enable_thinking":true,"chat_template_kwargs":{"enable_thinking":true})")
                .value()
                .conversation.enable_thinking,
            true);
  EXPECT_TRUE(Parse(R"(,"chat_template_kwargs":{})").value().conversation.template_arguments.is_null());
  EXPECT_EQ(Parse("").value().conversation.enable_thinking, std::nullopt);
}

TEST(ChatRequest, ReadsWhatItHonours) {
  const std::string tool = R"([{"type":"function","function":{"name":"f"}}])";
  EXPECT_EQ(Parse(R"(,"max_completion_tokens":7)").value().max_tokens, 7);
  EXPECT_EQ(Parse(R"(,"max_completion_tokens":7,"max_tokens":7)").value().max_tokens, 7);
  EXPECT_EQ(Parse(R"(,"logprobs":true)").value().logprobs, 0);
  EXPECT_EQ(Parse(R"(,"logprobs":true,"top_logprobs":4)").value().logprobs, 4);
  EXPECT_TRUE(Parse(R"(,"tools":)" + tool).value().parses_tool_calls);
  EXPECT_FALSE(Parse(R"(,"tools":[])").value().parses_tool_calls);
  const ApiResult<ChatRequest> none = Parse(R"(,"tool_choice":"none","tools":)" + tool);
  EXPECT_FALSE(none.value().parses_tool_calls);
  EXPECT_TRUE(none.value().conversation.tools.is_null());
  EXPECT_FALSE(Parse(R"(,"continue_final_message":true)").value().conversation.add_generation_prompt);
  EXPECT_EQ(Parse(R"(,"reasoning_effort":"low")").value().conversation.reasoning_effort, "low");
  EXPECT_FALSE(Parse(R"(,"echo":true)").value().echoes_final_message) << "a user's message is no answer";
  const ApiResult<ChatRequest> echo =
      ParseChatRequest(R"({"messages":[{"role":"assistant","content":"So"}],"echo":true})", SmallContext());
  EXPECT_TRUE(echo.value().echoes_final_message);
}

}  // namespace
}  // namespace hydrant
