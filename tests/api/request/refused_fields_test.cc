#include "api/request/refused_fields.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/request/chat_request.h"
#include "api/request/completion_request.h"
#include "api/request/embedding_request.h"
#include "api/request/messages_request.h"
#include "api/request/tokenize.h"
#include "tests/api/request/small_context.h"

namespace hydrant {
namespace {

std::optional<ApiError> Check(const std::string& member) {
  const ApiResult<JsonBody> document = JsonBody::Parse("{" + member + "}", RequestLimits());
  EXPECT_TRUE(document.ok()) << member;
  std::optional<ApiError> error;
  ObjectReader reader(document.value().root(), "", &error);
  RefuseGenerationFields(&reader);
  RefuseCompletionFields(&reader);
  return error;
}

TEST(RefusedFieldsTest, NeutralValuesPass) {
  for (const char* member : {R"("typical_p":1)", R"("length_penalty":1.0)", R"("use_beam_search":false)",
                             R"("tools":[])", R"("tools":null)", R"("tool_choice":"auto")", R"("tool_choice":"none")",
                             R"("suffix":"")", R"("suffix":null)", R"("truncation_side":"left")", R"("foo":1)"}) {
    SCOPED_TRACE(member);
    const std::optional<ApiError> error = Check(member);
    EXPECT_FALSE(error.has_value()) << error->message;
  }
}

TEST(RefusedFieldsTest, OtherValuesAreRefusedByName) {
  struct Case {
    const char* member;
    const char* param;
    const char* code;
  };
  const Case cases[] = {
      {R"("typical_p":0.5)", "typical_p", "unsupported"},
      {R"("typical_p":1.5)", "typical_p", "invalid_value"},
      {R"("use_beam_search":true)", "use_beam_search", "unsupported"},
      {R"("use_beam_search":1)", "use_beam_search", "invalid_type"},
      {R"("tools":[{"type":"function"}])", "tools", "unsupported"},
      {R"("tools":{})", "tools", "unsupported"},
      {R"("tool_choice":"required")", "tool_choice", "unsupported"},
      {R"("suffix":"x")", "suffix", "unsupported"},
      {R"("truncation_side":"right")", "truncation_side", "unsupported"},
      {R"("chat_template":"{{ x }}")", "chat_template", "unsupported"},
      {R"("chat_template_kwargs":{})", "chat_template_kwargs", "unsupported"},
      {R"("enable_thinking":false)", "enable_thinking", "unsupported"},
      {R"("prompt_embeds":"AAAA")", "prompt_embeds", "unsupported"},
      {R"("multi_modal_data":{})", "multi_modal_data", "unsupported"},
      {R"("image_url":"http://x")", "image_url", "unsupported"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.member);
    const std::optional<ApiError> error = Check(c.member);
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->status, 400);
    EXPECT_EQ(error->param, c.param);
    EXPECT_EQ(error->code, c.code);
    if (error->code == "unsupported") {
      EXPECT_NE(error->message.find("not supported yet"), std::string::npos);
    }
  }
}

// What another endpoint would have obeyed is not passed over: the answer to it would be one to another question.
TEST(RefusedFieldsTest, FieldsOfOtherEndpointsAreRefusedByName) {
  const std::vector<std::string> anywhere = {"conversation", "input", "instructions", "max_output_tokens",
                                             "previous_response_id"};
  const auto check = [&](std::string_view path, const std::string& own, std::vector<std::string> others,
                         const auto& parse) {
    others.insert(others.end(), anywhere.begin(), anywhere.end());
    for (const std::string& name : others) {
      SCOPED_TRACE(absl::StrCat(std::string(path), " ", name));
      const auto request = parse(absl::StrCat("{", own, ",\"", name, "\":\"x\"}"), SmallContext());
      ASSERT_FALSE(request.ok());
      EXPECT_EQ(request.error().status, 400);
      EXPECT_EQ(request.error().param, name);
      EXPECT_EQ(request.error().code, "unsupported");
      EXPECT_NE(request.error().message.find(absl::StrCat("of ", std::string(path), ": use '")), std::string::npos);
      const auto unsaid = parse(absl::StrCat("{", own, ",\"", name, "\":null}"), SmallContext());
      EXPECT_TRUE(unsaid.ok());
    }
  };
  const std::string messages = R"("messages":[{"role":"user","content":"hi"}])";
  check("/v1/completions", R"("prompt":"hi")", {"messages", "system"}, ParseCompletionRequest);
  check("/v1/chat/completions", messages, {"prompt", "system"}, ParseChatRequest);
  check("/v1/messages", R"("max_tokens":8,)" + messages, {"prompt"}, ParseMessagesRequest);
}

// What clients send by default asks for nothing that the endpoint does not do anyway.
TEST(RefusedFieldsTest, NeutralValuesOfOtherEndpointsPass) {
  const auto check = [](const std::string& own, std::initializer_list<const char*> pass,
                        std::initializer_list<const char*> fail, const auto& parse) {
    const auto asks = [&](const char* member) {
      return parse(absl::StrCat("{", own, ",", std::string(member), "}"), SmallContext());
    };
    for (const char* member : pass) EXPECT_TRUE(asks(member).ok()) << member << " beside " << own;
    for (const char* member : fail) {
      const auto request = asks(member);
      ASSERT_FALSE(request.ok()) << member << " beside " << own;
      EXPECT_EQ(request.error().status, 400) << member;
      const std::string& param = request.error().param;
      EXPECT_TRUE(std::string(member).starts_with("\"" + param.substr(0, param.find('.')) + "\"")) << member << param;
    }
  };
  const std::string chat = R"("messages":[{"role":"user","content":"hi"}])";
  check(chat,
        {R"("truncation":"disabled")", R"("truncation":null)", R"("include":[])", R"("parallel_tool_calls":true)",
         R"("context_management":{})", R"("output_config":{"format":null})", R"("return_token_strs":false)"},
        {R"("truncation":"auto")", R"("include":["x"])", R"("max_tool_calls":1)", R"("text":{"verbosity":"low"})",
         R"("output_config":{"effort":"low"})", R"("dimensions":8)"},
        ParseChatRequest);
  check(
      R"("prompt":"hi")",
      {R"("top_logprobs":0)", R"("top_logprobs":null)", R"("reasoning_effort":null)", R"("documents":[])",
       R"("continue_final_message":false)", R"("add_generation_prompt":true)", R"("include_reasoning":true)",
       R"("separate_reasoning":true)", R"("parallel_tool_calls":true)", R"("truncation":"disabled")",
       R"("include":[])"},
      {R"("top_logprobs":3)", R"("reasoning_effort":"low")", R"("documents":[{}])", R"("continue_final_message":true)",
       R"("add_generation_prompt":false)", R"("include_reasoning":false)", R"("separate_reasoning":false)",
       R"("parallel_tool_calls":false)", R"("truncation":"auto")", R"("include":["x"])"},
      ParseCompletionRequest);
  check(R"("max_tokens":8,)" + chat, {R"("truncation":"disabled")", R"("output_config":{"effort":"low"})"},
        {R"("truncation":"auto")", R"("text":{"verbosity":"low"})"}, ParseMessagesRequest);
  check(R"("input":"x")", {R"("truncation":"disabled")", R"("truncation":null)", R"("tools":[])"},
        {R"("truncation":"auto")", R"("instructions":"x")", R"("prompt":"x")"}, ParseEmbeddingRequest);
  check(R"("prompt":"x")", {R"("tools":[])", R"("add_generation_prompt":true)", R"("temperature":0.5)"},
        {R"("tools":[{}])", R"("add_generation_prompt":false)", R"("truncate_prompt_tokens":4)"}, ParseTokenizeRequest);
}

TEST(RefusedFieldsTest, BestOfHasToEqualN) {
  for (const char* best_of : {"2", "3", "1000000"}) {
    const auto request =
        ParseCompletionRequest(absl::StrCat(R"({"prompt":"hi","best_of":)", best_of, "}"), SmallContext());
    ASSERT_FALSE(request.ok());
    EXPECT_NE(request.error().message.find("equal to 'n'"), std::string::npos) << request.error().message;
  }
}

}  // namespace
}  // namespace hydrant
