#include "api/request/responses_request.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/api/request/small_context.h"

namespace hydrant {
namespace {

using OrderedValue = nlohmann::ordered_json;

RequestContext ResponsesContext() {
  RequestContext context = SmallContext();
  context.limits.messages_max = 8;
  return context;
}

std::string ResponsesBody(const std::string& input, const std::string& members = "") {
  return R"({"input":)" + input + members + "}";
}

ApiResult<ResponsesRequest> Parsed(const std::string& body) { return ParseResponsesRequest(body, ResponsesContext()); }

// The parameter and the code of the error.
std::string Refusal(const std::string& body) {
  const ApiResult<ResponsesRequest> parsed = Parsed(body);
  return parsed.ok() ? "accepted" : parsed.error().param + " " + parsed.error().code;
}

TEST(ResponsesRequest, HasTheDocumentedDefaultsAndRepeatsThem) {
  const ApiResult<ResponsesRequest> parsed = Parsed(ResponsesBody(R"("hi")"));
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const ResponsesRequest& request = parsed.value();
  EXPECT_EQ(request.max_tokens, kRestOfContext);
  EXPECT_FALSE(request.fits_context);
  EXPECT_EQ(request.logprobs, -1);
  EXPECT_EQ(request.store, std::nullopt);
  EXPECT_FALSE(request.truncates);
  EXPECT_TRUE(request.conversation.tools.is_null());
  EXPECT_EQ(request.head, R"("instructions":null,"tools":[])");
  EXPECT_EQ(
      request.echo,
      R"("tool_choice":"auto","truncation":"disabled","parallel_tool_calls":true,"text":{"format":{"type":"text"}},)"
      R"("top_p":1.0,"presence_penalty":0.0,"frequency_penalty":0.0,"top_logprobs":0,"temperature":1.0,)"
      R"("reasoning":{"effort":null,"summary":null},"user":null,"max_output_tokens":null,"max_tool_calls":null,)"
      R"("background":false,"service_tier":"default","metadata":{},"safety_identifier":null,"prompt_cache_key":null)");
}

TEST(ResponsesRequest, RepeatsWhatWasSaid) {
  const ApiResult<ResponsesRequest> parsed = Parsed(ResponsesBody(
      R"("hi")",
      R"(,"instructions":"Be \"brief\".","max_output_tokens":9,"temperature":0.7,"metadata":{"a":"b"},"user":"u",)"
      R"("prompt_cache_key":"k","reasoning":{"effort":"low"},"text":{"verbosity":"low"},"top_logprobs":2,"truncation":"auto",)"
      R"("previous_response_id":"resp_1","store":false)"));
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const ResponsesRequest& request = parsed.value();
  EXPECT_EQ(request.max_tokens, 9);
  EXPECT_TRUE(request.fits_context);
  EXPECT_EQ(request.logprobs, 2);
  EXPECT_TRUE(request.truncates);
  EXPECT_EQ(request.previous_response_id, "resp_1");
  EXPECT_EQ(request.store, false);
  EXPECT_EQ(request.conversation.reasoning_effort, "low");
  const OrderedValue echo = OrderedValue::parse("{" + request.head + "," + request.echo + "}");
  EXPECT_EQ(echo["instructions"], "Be \"brief\".");
  EXPECT_EQ(echo["temperature"], 0.7);
  EXPECT_EQ(echo["metadata"], (OrderedValue{{"a", "b"}}));
  EXPECT_EQ(echo["reasoning"]["effort"], "low");
  EXPECT_EQ(echo["text"]["verbosity"], "low");
  EXPECT_EQ(echo["max_output_tokens"], 9);
}

TEST(ResponsesRequest, TakesAnOlderNameOfSummary) {
  const ApiResult<ResponsesRequest> parsed = Parsed(
      ResponsesBody(R"("hi")", R"(,"reasoning":{"generate_summary":"auto","context":"auto","mode":"standard"})"));
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(OrderedValue::parse("{" + parsed.value().echo + "}")["reasoning"]["summary"], "auto");
}

TEST(ResponsesRequest, TellsTheTemplateWhatItIsTold) {
  const ApiResult<ResponsesRequest> parsed =
      Parsed(ResponsesBody(R"("x")", R"(,"chat_template_kwargs":{"enable_thinking":false,"depth":3})"));
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed.value().conversation.enable_thinking, false);
  EXPECT_EQ(parsed.value().conversation.template_arguments.at("depth"), 3);
  EXPECT_EQ(Parsed(ResponsesBody(R"("x")", R"(,"enable_thinking":true)")).value().conversation.enable_thinking, true);
}

TEST(ResponsesRequest, RefusesByName) {
  const struct {
    std::string input, members, refusal;
  } cases[] = {
      {"null", "", "input missing_field"},
      {"7", "", "input invalid_type"},
      {R"([7])", "", "input[0] invalid_type"},
      {R"([{"content":"x"}])", "", "input[0].type missing_field"},
      {R"([{"role":"robot","content":"x"}])", "", "input[0].role invalid_value"},
      {R"([{"role":"user"}])", "", "input[0].content missing_field"},
      {R"([{"role":"user","content":[{"type":"input_image","image_url":"x"}]}])", "",
       "input[0].content[0].type unsupported_item"},
      {R"(["a",{}])", "", "input[0] invalid_type"},
      {R"([{"type":"web_search_call","id":"x"}])", "", "input[0].type unsupported_item"},
      {R"([{"type":"function_call","call_id":"c","name":"f","arguments":"[1]"}])", "",
       "input[0].arguments invalid_type"},
      {R"([{"type":"function_call","call_id":"c","name":"f g","arguments":"{}"}])", "", "input[0].name invalid_value"},
      {R"([{"type":"function_call","name":"f","arguments":"{}"}])", "", "input[0].call_id missing_field"},
      {R"([{"role":"user","content":""},{"role":"user","content":""},{"role":"user","content":""},{"role":"user","content":""},
          {"role":"user","content":""},{"role":"user","content":""},{"role":"user","content":""},{"role":"user","content":""},
          {"role":"user","content":""}])",
       "", "input invalid_value"},
      {R"("x")", R"(,"max_tokens":3)", "max_tokens unsupported"},
      {R"("x")", R"(,"max_output_tokens":0)", "max_output_tokens invalid_value"},
      {R"("x")", R"(,"background":true)", "background unsupported"},
      {R"("x")", R"(,"prompt":{"id":"p"})", "prompt unsupported"},
      {R"("x")", R"(,"include":["all"])", "include invalid_value"},
      {R"("x")", R"(,"text":{"format":{"type":"json_object"}})", "text.format unsupported"},
      {R"("x")", R"(,"truncation":"some")", "truncation invalid_value"},
      {R"("x")", R"(,"reasoning":{"effort":"low","budget":9})", "reasoning.budget unknown_field"},
      {R"("x")", R"(,"reasoning":{"context":"all_turns"})", "reasoning.context unsupported"},
      {R"("x")", R"(,"reasoning":{"mode":"pro"})", "reasoning.mode unsupported"},
      {R"("x")", R"(,"text":{"formats":{}})", "text.formats unknown_field"},
      {R"("x")", R"(,"include_reasoning":false)", "include_reasoning unsupported"},
      {R"("x")", R"(,"separate_reasoning":false)", "separate_reasoning unsupported"},
      {R"("x")", R"(,"enable_thinking":"no")", "enable_thinking invalid_type"},
      {R"("x")", R"(,"enable_thinking":true,"chat_template_kwargs":{"enable_thinking":false})",
       "chat_template_kwargs.enable_thinking invalid_value"},
      {R"("x")", R"(,"conversation":"c","previous_response_id":"r")", "conversation invalid_value"},
      {R"("x")", R"(,"conversation":"c","store":false)", "store unsupported"},
      {R"("x")", R"(,"conversation":{})", "conversation.id missing_field"},
      {R"("x")", R"(,"metadata":{"a":1})", "metadata invalid_value"},
      {R"("x")", R"(,"metadata":{")" + std::string(65, 'a') + R"(":"b"})", "metadata invalid_value"},
      {R"("x")", R"(,"metadata":{"a":")" + std::string(513, 'b') + R"("})", "metadata invalid_value"},
      {R"("x")", R"(,"tools":[{"type":"custom","name":"g","format":{"type":"grammar","syntax":"lark"}}])",
       "tools[0].format unsupported"},
      {R"("x")", R"(,"tools":[{"type":"Web Search"}])", "tools[0].type invalid_value"},
      {R"("x")", R"(,"tools":[{"type":"function"}])", "tools[0] invalid_value"},
  };
  for (const auto& c : cases) EXPECT_EQ(Refusal(ResponsesBody(c.input, c.members)), c.refusal) << c.input << c.members;
}

}  // namespace
}  // namespace hydrant
