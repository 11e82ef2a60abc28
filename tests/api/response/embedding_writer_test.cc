#include "api/response/embedding_writer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace hydrant {
namespace {

std::string EmbeddingBody(bool as_base64) {
  EmbeddingWriter writer(as_base64);
  writer.Begin({"embd-1", 7, "smol", "x"});
  Answer answer;
  answer.choices.resize(2);
  answer.choices[0].embedding = {0.6f, -0.8f};
  answer.choices[1].index = 1;
  answer.choices[1].embedding = {1.0f, 0.0f};
  answer.usage.prompt_tokens = 5;
  return writer.Body(answer);
}

TEST(EmbeddingWriter, WritesOpenAisShape) {
  EXPECT_EQ(
      EmbeddingBody(false),
      R"({"id":"embd-1","object":"list","created":7,"model":"smol","data":[)"
      R"({"object":"embedding","index":0,"embedding":[0.6,-0.8]},{"object":"embedding","index":1,"embedding":[1.0,0.0]}],)"
      R"("usage":{"prompt_tokens":5,"completion_tokens":0,"total_tokens":5,"prompt_tokens_details":{"cached_tokens":0}}})");
}

TEST(EmbeddingWriter, Base64IsLittleEndianFloats) {
  const auto body = nlohmann::json::parse(EmbeddingBody(true));
  EXPECT_EQ(body["data"][1]["embedding"], "AACAPwAAAAA=");
  EXPECT_EQ(body["data"][0]["embedding"], "mpkZP83MTL8=");
}

}  // namespace
}  // namespace hydrant
