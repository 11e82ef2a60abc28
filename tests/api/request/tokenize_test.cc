#include "api/request/tokenize.h"

#include <gtest/gtest.h>

#include "tests/api/request/small_context.h"

namespace hydrant {
namespace {

TEST(TokenizeTest, ReadsTheRequest) {
  const ApiResult<TokenizeRequest> plain = ParseTokenizeRequest(R"({"prompt":"hi"})", SmallContext(2048));
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain.value().prompt, "hi");
  EXPECT_TRUE(plain.value().add_special_tokens);
  EXPECT_FALSE(plain.value().return_token_strs);
  const ApiResult<TokenizeRequest> all = ParseTokenizeRequest(
      R"({"model":"smol","prompt":"","add_special_tokens":false,"return_token_strs":true})", SmallContext(2048));
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all.value().prompt, "");
  EXPECT_FALSE(all.value().add_special_tokens);
  EXPECT_TRUE(all.value().return_token_strs);
}

TEST(TokenizeTest, WrongRequestsNameTheirField) {
  struct Case {
    const char* body;
    int status;
    const char* param;
    const char* code;
  };
  const Case cases[] = {
      {"", 400, "", "invalid_json"},
      {"[]", 400, "", "invalid_json"},
      {"{}", 400, "prompt", "missing_field"},
      {R"({"prompt":null})", 400, "prompt", "missing_field"},
      {R"({"prompt":[1]})", 400, "prompt", "invalid_type"},
      {R"({"messages":[]})", 400, "messages", "invalid_value"},
      {R"({"messages":[{"role":"user","content":"x"}],"prompt":"x"})", 400, "messages", "invalid_value"},
      {R"({"prompt":"x","add_special_tokens":1})", 400, "add_special_tokens", "invalid_type"},
      {R"({"prompt":"x","model":"other"})", 404, "model", "model_not_found"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.body);
    const ApiResult<TokenizeRequest> request = ParseTokenizeRequest(c.body, SmallContext(2048));
    ASSERT_FALSE(request.ok());
    EXPECT_EQ(request.error().status, c.status);
    EXPECT_EQ(request.error().param, c.param);
    EXPECT_EQ(request.error().code, c.code);
  }
}

TEST(TokenizeTest, WritesTheAnswers) {
  EXPECT_EQ(TokenizeJson({1, 2}, std::nullopt, 8), R"({"count":2,"max_model_len":8,"tokens":[1,2],"token_strs":null})");
  EXPECT_EQ(TokenizeJson({}, std::vector<std::string>{}, 8),
            R"({"count":0,"max_model_len":8,"tokens":[],"token_strs":[]})");
  EXPECT_EQ(TokenizeJson({7, 8}, std::vector<std::string>{"\"", "\n"}, 8),
            R"({"count":2,"max_model_len":8,"tokens":[7,8],"token_strs":["\"","\n"]})");
  EXPECT_EQ(DetokenizeJson("a\"\xff"), "{\"prompt\":\"a\\\"\xef\xbf\xbd\"}");
}

TEST(DetokenizeTest, ReadsIdsInTheVocabulary) {
  const ApiResult<DetokenizeRequest> request = ParseDetokenizeRequest(R"({"tokens":[0,99]})", SmallContext(2048));
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request.value().tokens, (std::vector<int32_t>{0, 99}));
  EXPECT_TRUE(ParseDetokenizeRequest(R"({"tokens":[]})", SmallContext(2048)).ok());
  for (const char* body : {R"({"tokens":[100]})", R"({"tokens":[-1]})", R"({"tokens":["1"]})", R"({"tokens":[1.0]})",
                           R"({"tokens":"1"})", R"({})", R"({"tokens":null})"}) {
    SCOPED_TRACE(body);
    const ApiResult<DetokenizeRequest> wrong = ParseDetokenizeRequest(body, SmallContext(2048));
    ASSERT_FALSE(wrong.ok());
    EXPECT_EQ(wrong.error().param, "tokens");
  }
}

}  // namespace
}  // namespace hydrant
