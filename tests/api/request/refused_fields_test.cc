#include "api/request/refused_fields.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace hydrant
