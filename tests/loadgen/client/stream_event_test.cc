#include "loadgen/client/stream_event.h"

#include <gtest/gtest.h>

namespace hydrant {
namespace {

using Kind = StreamEvent::Kind;

TEST(StreamEvent, ReadsACompletionsChunk) {
  const StreamEvent event = ReadStreamEvent(
      R"({"id":"cmpl-1","object":"text_completion","choices":[{"index":0,"text":" a \"b\"","logprobs":null,"finish_reason":"length"}],"usage":null})");
  EXPECT_EQ(event.kind, Kind::kOutput);
  EXPECT_EQ(event.text, R"( a \"b\")");
  EXPECT_EQ(event.finish_reason, "length");
  EXPECT_FALSE(event.completion_tokens.has_value());
}

TEST(StreamEvent, ReadsAChatsChunk) {
  const StreamEvent event = ReadStreamEvent(
      R"({"choices": [ {"delta": {"role":"assistant", "content": "Hi"}, "finish_reason": null} ], "object": "chat.completion.chunk"})");
  EXPECT_EQ(event.kind, Kind::kOutput);
  EXPECT_EQ(event.text, "Hi");
}

TEST(StreamEvent, ARoleAloneIsNotAToken) {
  EXPECT_EQ(ReadStreamEvent(R"({"choices":[{"delta":{"role":"assistant","content":""}}]})").kind, Kind::kRole);
  EXPECT_EQ(ReadStreamEvent(R"({"choices":[{"delta":{"role":"assistant","content":null,"tool_calls":[]}}]})").kind,
            Kind::kRole);
}

TEST(StreamEvent, TokensWithoutTextAreTokens) {
  for (const char* chunk : {
           R"({"choices":[{"delta":{"content":""}}]})",
           R"({"choices":[{"delta":{"reasoning_content":"hm"}}]})",
           R"({"choices":[{"delta":{"role":"assistant","reasoning_content":"hm"}}]})",
           R"({"choices":[{"delta":{"role":"assistant","tool_calls":[{"index":0}]}}]})",
           R"({"choices":[{"delta":{},"finish_reason":"stop"}]})",
           R"({"choices":[{"delta":{"role":"assistant"},"finish_reason":"stop"}]})",
           R"({"choices":[{"text":""}]})",
       }) {
    EXPECT_EQ(ReadStreamEvent(chunk).kind, Kind::kOutput) << chunk;
  }
}

TEST(StreamEvent, ReadsUsage) {
  const StreamEvent event = ReadStreamEvent(
      R"({"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":34,"total_tokens":46,"prompt_tokens_details":{"cached_tokens":5}}})");
  EXPECT_EQ(event.kind, Kind::kNoChoices);
  EXPECT_EQ(event.prompt_tokens, 12);
  EXPECT_EQ(event.completion_tokens, 34);
  EXPECT_EQ(event.cached_tokens, 5);
}

TEST(StreamEvent, ReadsErrors) {
  const StreamEvent event = ReadStreamEvent(R"({"error":{"message":"too \"much\"","type":"x"}})");
  EXPECT_EQ(event.kind, Kind::kError);
  EXPECT_EQ(event.error, R"(too \"much\")");
  EXPECT_EQ(ReadStreamEvent(R"({"error":"short"})").error, "short");
  EXPECT_EQ(ReadStreamEvent(R"({"choices":[{"text":"a"}],"error":null})").kind, Kind::kOutput);
}

TEST(StreamEvent, KnowsTheEndAndNonsense) {
  EXPECT_EQ(ReadStreamEvent("[DONE]").kind, Kind::kDone);
  for (const char* data : {"", "x", "[]", "{\"choices\":[{\"text\":\"a\"}]", "{\"choices\":[{\"text\":\"a}]}"}) {
    EXPECT_EQ(ReadStreamEvent(data).kind, Kind::kMalformed) << data;
    EXPECT_TRUE(ReadStreamEvent(data).text.empty()) << data;
  }
}

}  // namespace
}  // namespace hydrant
