#include "api/request/embedding_request.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/api/request/small_context.h"

namespace hydrant {
namespace {

constexpr int32_t kStateCols = kEmbeddingNumbersMax / 3;

RequestContext EmbeddingContext() {
  RequestContext context = SmallContext();
  context.state_cols = kStateCols;
  context.limits.prompts_max = 4;
  return context;
}

ApiResult<EmbeddingRequest> ParseEmbedding(const std::string& members) {
  return ParseEmbeddingRequest("{" + members + "}", EmbeddingContext());
}

TEST(EmbeddingRequest, AnInputIsATextTextsTokensOrListsOfThese) {
  for (const auto& [input, count, is_ids] : {std::tuple(R"("a")", 1u, false), std::tuple(R"(["a","bc"])", 2u, false),
                                             std::tuple("[3,4]", 1u, true), std::tuple("[[3],[4,5],[6]]", 3u, true)}) {
    const ApiResult<EmbeddingRequest> request = ParseEmbedding(R"("input":)" + std::string(input));
    ASSERT_TRUE(request.ok()) << input << request.error().message;
    EXPECT_EQ(request.value().prompts.size(), count);
    EXPECT_EQ(request.value().prompts[0].is_ids, is_ids);
  }
}

TEST(EmbeddingRequest, WantsStatesAndNoAnswer) {
  const EmbeddingRequest usual = ParseEmbedding(R"("input":"a")").value();
  EXPECT_EQ(usual.max_tokens, 0);
  EXPECT_EQ(usual.pooling, Pooling::kLast);
  EXPECT_FALSE(usual.as_base64);
  const EmbeddingRequest other =
      ParseEmbedding(
          R"("input":"a","pooling":"mean","encoding_format":"base64","dimensions":1398101,"user":"me",)"
          R"("truncate_prompt_tokens":-1,"normalize":true,"endianness":"native","model":"smol","max_tokens":5)")
          .value();
  EXPECT_EQ(other.pooling, Pooling::kMean);
  EXPECT_TRUE(other.as_base64);
  EXPECT_EQ(other.max_tokens, 0);
  EXPECT_EQ(other.truncate_prompt_tokens, kRestOfContext);
}

TEST(EmbeddingRequest, WhatIsWrongIsNamed) {
  struct Case {
    const char* members;
    const char* param;
    const char* code;
  };
  for (const auto& [members, param, code] :
       {Case{"", "input", "missing_field"},
        Case{R"("input":"")", "input", "empty_prompt"},
        Case{R"("input":[])", "input", "empty_prompt"},
        Case{R"("input":["a",""])", "input", "empty_prompt"},
        Case{R"("input":7)", "input", "invalid_type"},
        Case{R"("input":["a",[1]])", "input", "invalid_type"},
        Case{R"("input":[100])", "input", "token_id_out_of_range"},
        Case{R"("input":["a","b","c","d","e"])", "input", "invalid_value"},
        Case{R"("input":["a","b","c","d"])", "input", "invalid_value"},  // more numbers than a request may have
        Case{R"("input":"a","pooling":"cls")", "pooling", "invalid_value"},
        Case{R"("input":"a","encoding_format":"int8")", "encoding_format", "invalid_value"},
        Case{R"("input":"a","dimensions":4)", "dimensions", "unsupported"},
        Case{R"("input":"a","dimensions":0)", "dimensions", "invalid_value"},
        Case{R"("input":"a","normalize":false)", "normalize", "unsupported"},
        Case{R"("input":"a","embed_dtype":"float16")", "embed_dtype", "unsupported"},
        Case{R"("input":"a","embed_dtype":"native")", "embed_dtype", "unsupported"},
        Case{R"("input":"a","endianness":"big")", "endianness", "unsupported"},
        Case{R"("input":"a","kv":{"policy":"h2o"})", "kv", "unsupported"},
        Case{R"("input":"a","session_id":"s")", "session_id", "unsupported"},
        Case{R"("input":"a","stream":true)", "stream", "unsupported"},
        Case{R"("messages":[],"input":"a")", "messages", "unsupported"},
        Case{R"("input":"a","truncate_prompt_tokens":0)", "truncate_prompt_tokens", "invalid_value"},
        Case{R"("input":"a","model":"other")", "model", "model_not_found"}}) {
    const ApiResult<EmbeddingRequest> request = ParseEmbedding(members);
    ASSERT_FALSE(request.ok()) << members;
    EXPECT_EQ(request.error().param, param) << members;
    EXPECT_EQ(request.error().code, code) << members;
  }
}

}  // namespace
}  // namespace hydrant
