#include "api/request/request_context.h"

#include <gtest/gtest.h>

namespace hydrant {
namespace {

std::optional<ApiError> CheckContext(std::string_view body) {
  RequestContext context;
  context.model_names = {"smol", "smol-alias"};
  const ApiResult<JsonBody> document = JsonBody::Parse(body, context.limits);
  EXPECT_TRUE(document.ok());
  std::optional<ApiError> error;
  ObjectReader reader(document.value().root(), "", &error);
  CheckModelField(&reader, context);
  return error;
}

TEST(CheckModelFieldTest, KnownNamesAndAbsencePass) {
  for (const char* body : {"{}", R"({"model":null})", R"({"model":"smol"})", R"({"model":"smol-alias"})"}) {
    EXPECT_EQ(CheckContext(body), std::nullopt) << body;
  }
}

TEST(CheckModelFieldTest, UnknownNamesAre404WithoutEcho) {
  for (const std::string& name :
       {std::string("../../x"), std::string(""), std::string("smol "), std::string(1 << 20, 'a')}) {
    const std::optional<ApiError> error = CheckContext("{\"model\":\"" + name + "\"}");
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->status, 404);
    EXPECT_EQ(error->code, "model_not_found");
    EXPECT_EQ(error->type, ErrorType::kNotFound);
    EXPECT_LT(error->message.size(), 120u);
  }
}

TEST(CheckModelFieldTest, WrongTypesAndControlCharactersAre400) {
  for (const char* body : {R"({"model":{}})", R"({"model":1})", R"({"model":["smol"]})", R"({"model":"smol\u0000"})"}) {
    const std::optional<ApiError> error = CheckContext(body);
    ASSERT_TRUE(error.has_value()) << body;
    EXPECT_EQ(error->status, 400) << body;
    EXPECT_EQ(error->param, "model") << body;
  }
}

}  // namespace
}  // namespace hydrant
