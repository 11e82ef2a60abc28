#include "api/refused_fields.h"

#include <gtest/gtest.h>

namespace hydrant {
namespace {

std::optional<ApiError> Check(const std::string& member) {
  RequestContext context;
  context.vocab_size = 100;
  context.context = 2048;
  const ApiResult<JsonBody> document = JsonBody::Parse("{" + member + "}", context.limits);
  EXPECT_TRUE(document.ok()) << member;
  std::optional<ApiError> error;
  ObjectReader reader(document.value().root(), "", &error);
  RefuseGenerationFields(&reader, context);
  RefuseCompletionFields(&reader);
  return error;
}

TEST(RefusedFieldsTest, NeutralValuesPass) {
  for (const char* member : {R"("presence_penalty":0)",
                             R"("presence_penalty":0.0)",
                             R"("presence_penalty":null)",
                             R"("frequency_penalty":-0.0)",
                             R"("repetition_penalty":1)",
                             R"("repetition_penalty":1.0)",
                             R"("typical_p":1)",
                             R"("length_penalty":1.0)",
                             R"("use_beam_search":false)",
                             R"("spaces_between_special_tokens":true)",
                             R"("prompt_logprobs":null)",
                             R"("logit_bias":{})",
                             R"("logit_bias":{"5":0})",
                             R"("logit_bias":null)",
                             R"("allowed_token_ids":null)",
                             R"("bad_words":[])",
                             R"("bad_words":null)",
                             R"("response_format":{"type":"text"})",
                             R"("response_format":null)",
                             R"("tools":[])",
                             R"("tools":null)",
                             R"("tool_choice":"auto")",
                             R"("tool_choice":"none")",
                             R"("suffix":"")",
                             R"("suffix":null)",
                             R"("truncation_side":"left")",
                             R"("structured_outputs":null)",
                             R"("guided_json":null)",
                             R"("foo":1)"}) {
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
      {R"("presence_penalty":2)", "presence_penalty", "unsupported"},
      {R"("presence_penalty":2.1)", "presence_penalty", "invalid_value"},
      {R"("presence_penalty":"0")", "presence_penalty", "invalid_type"},
      {R"("frequency_penalty":-2.0)", "frequency_penalty", "unsupported"},
      {R"("frequency_penalty":-2.1)", "frequency_penalty", "invalid_value"},
      {R"("frequency_penalty":1e38)", "frequency_penalty", "invalid_value"},
      {R"("repetition_penalty":1.1)", "repetition_penalty", "unsupported"},
      {R"("repetition_penalty":1e-30)", "repetition_penalty", "unsupported"},
      {R"("repetition_penalty":0)", "repetition_penalty", "invalid_value"},
      {R"("repetition_penalty":-1)", "repetition_penalty", "invalid_value"},
      {R"("repetition_penalty":1e30)", "repetition_penalty", "invalid_value"},
      {R"("typical_p":0.5)", "typical_p", "unsupported"},
      {R"("typical_p":1.5)", "typical_p", "invalid_value"},
      {R"("use_beam_search":true)", "use_beam_search", "unsupported"},
      {R"("use_beam_search":1)", "use_beam_search", "invalid_type"},
      {R"("prompt_logprobs":1)", "prompt_logprobs", "unsupported"},
      {R"("prompt_logprobs":-1)", "prompt_logprobs", "invalid_value"},
      {R"("prompt_logprobs":21)", "prompt_logprobs", "invalid_value"},
      {R"("logit_bias":{"5":1})", "logit_bias", "unsupported"},
      {R"("logit_bias":{"5":-100})", "logit_bias", "unsupported"},
      {R"("logit_bias":{"5":101})", "logit_bias", "invalid_value"},
      {R"("logit_bias":{"5":-1e38})", "logit_bias", "invalid_value"},
      {R"("logit_bias":{"5":null})", "logit_bias", "invalid_value"},
      {R"("logit_bias":{"5":"1"})", "logit_bias", "invalid_value"},
      {R"("logit_bias":{"100":1})", "logit_bias", "token_id_out_of_range"},
      {R"("logit_bias":{"-1":1})", "logit_bias", "token_id_out_of_range"},
      {R"("logit_bias":{"x":1})", "logit_bias", "token_id_out_of_range"},
      {R"("logit_bias":{"":1})", "logit_bias", "token_id_out_of_range"},
      {R"("logit_bias":{"5 ":1})", "logit_bias", "token_id_out_of_range"},
      {R"("logit_bias":{"99999999999":1})", "logit_bias", "token_id_out_of_range"},
      {R"("logit_bias":[1])", "logit_bias", "invalid_type"},
      {R"("allowed_token_ids":[1])", "allowed_token_ids", "unsupported"},
      {R"("allowed_token_ids":[])", "allowed_token_ids", "invalid_value"},
      {R"("allowed_token_ids":[100])", "allowed_token_ids", "token_id_out_of_range"},
      {R"("bad_words":["x"])", "bad_words", "unsupported"},
      {R"("bad_words":[""])", "bad_words", "invalid_value"},
      {R"("response_format":{"type":"json_object"})", "response_format", "unsupported"},
      {R"("response_format":{"type":"json_schema","json_schema":{}})", "response_format", "unsupported"},
      {R"("response_format":{})", "response_format", "unsupported"},
      {R"("response_format":"text")", "response_format", "invalid_type"},
      {R"("structured_outputs":{"regex":"a"})", "structured_outputs", "unsupported"},
      {R"("guided_regex":"(")", "guided_regex", "unsupported"},
      {R"("tools":[{"type":"function"}])", "tools", "unsupported"},
      {R"("tools":{})", "tools", "unsupported"},
      {R"("tool_choice":"required")", "tool_choice", "unsupported"},
      {R"("suffix":"x")", "suffix", "unsupported"},
      {R"("truncation_side":"right")", "truncation_side", "unsupported"},
      {R"("chat_template":"{{ x }}")", "chat_template", "unsupported"},
      {R"("chat_template_kwargs":{})", "chat_template_kwargs", "unsupported"},
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

TEST(RefusedFieldsTest, LogitBiasEntriesAreBounded) {
  std::string bias = "\"logit_bias\":{";
  for (int i = 0; i <= 1024; ++i) bias += (i == 0 ? "\"" : ",\"") + std::to_string(i % 100) + "\":0";
  const std::optional<ApiError> error = Check(bias + "}");
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code, "invalid_value");
}

}  // namespace
}  // namespace hydrant
