#include "api/response/completion_writer.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "api/wire/json_writer.h"

namespace hydrant {
namespace {

using Json = nlohmann::json;

AnswerHead CompletionHead() { return {"cmpl-1", 1700000000, "smol", "hydrant-0.1.0"}; }

CompletionWriter Begun(const AnswerHead& head) {
  CompletionWriter writer;
  writer.Begin(head);
  return writer;
}

std::string BodyOf(const Answer& answer, const AnswerHead& head = CompletionHead()) { return Begun(head).Body(answer); }

Json EventJson(const std::string& event) {
  EXPECT_EQ(event.rfind("data: {", 0), 0u) << event;
  EXPECT_EQ(event.find('\n'), event.size() - 2) << event;  // one line, then the blank one
  EXPECT_EQ(event.substr(event.size() - 2), "\n\n");
  return Json::parse(event.substr(6));
}

TEST(CompletionBodyTest, HasExactlyTheDocumentedShape) {
  Answer response;
  AnswerChoice choice;
  choice.text = "hi";
  choice.finish_reason = FinishReason::kLength;
  response.choices.push_back(choice);
  response.usage = {3, 2, 1};
  EXPECT_EQ(BodyOf(response),
            R"({"id":"cmpl-1","object":"text_completion","created":1700000000,"model":"smol","choices":[{"index":0,)"
            R"("text":"hi","logprobs":null,"finish_reason":"length","stop_reason":null,"prompt_logprobs":null,)"
            R"("prompt_token_ids":null,"token_ids":null}],"usage":{"prompt_tokens":3,"completion_tokens":2,)"
            R"("total_tokens":5,"prompt_tokens_details":{"cached_tokens":1}},"system_fingerprint":"hydrant-0.1.0"})");
}

TEST(CompletionBodyTest, OptionalMembersAppearWhenGiven) {
  Answer response;
  AnswerHead head = CompletionHead();
  head.system_fingerprint = "";
  AnswerChoice first;
  first.stop_reason = std::string("\n\n");
  first.token_ids = std::vector<int32_t>{5, 6};
  first.prompt_token_ids = std::vector<int32_t>{1};
  AnswerChoice second;
  second.index = 1;
  second.stop_reason = 42;
  second.finish_reason = FinishReason::kAbort;
  response.choices = {first, second};
  response.kv = KvReport{257, 256, 900, 17, ""};
  const Json body = Json::parse(BodyOf(response, head));
  EXPECT_EQ(body["choices"][0]["stop_reason"], "\n\n");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(body["choices"][0]["token_ids"], Json::parse("[5,6]"));
  EXPECT_EQ(body["choices"][0]["prompt_token_ids"], Json::parse("[1]"));
  EXPECT_EQ(body["choices"][1]["stop_reason"], 42);
  EXPECT_EQ(body["choices"][1]["finish_reason"], "abort");
  EXPECT_EQ(body["kv"], Json::parse(R"({"live":257,"budget":256,"evicted":900,"blocks":17,"session":null})"));
  EXPECT_TRUE(body["system_fingerprint"].is_null());
}

TEST(CompletionBodyTest, KvWithoutABudgetSaysNull) {
  Answer response;
  response.kv = KvReport{10, 0, 0, 1, "s"};
  const Json body = Json::parse(BodyOf(response));
  EXPECT_TRUE(body["kv"]["budget"].is_null());
  EXPECT_EQ(body["kv"]["session"], "s");
  EXPECT_FALSE(body.contains("hydrant"));
  response.turn = TurnReport{7, Durability::kTokens, true};
  EXPECT_EQ(Json::parse(BodyOf(response))["hydrant"], Json::parse(R"({"turn":7,"durable":"tokens","resumed":true})"));
  response.turn = TurnReport{8, Durability::kNone};
  EXPECT_EQ(Json::parse(BodyOf(response))["hydrant"], Json::parse(R"({"turn":8,"durable":false,"resumed":false})"));
}

TEST(LogprobsTest, FourParallelListsAndANullForTheFirstEcho) {
  Answer response;
  AnswerChoice choice;
  PositionLogprobs echoed;
  echoed.id = 1;
  echoed.bytes = "Hi";
  PositionLogprobs next;
  next.id = 2;
  next.bytes = " there";
  next.logprob = -0.1f;
  next.text_offset = 2;
  next.top = {{2, -0.1f, " there"}, {3, -3.0f, "!"}};
  PositionLogprobs last;
  last.id = 4;
  last.bytes = "x";
  last.logprob = -std::numeric_limits<float>::infinity();
  last.text_offset = 8;
  last.top = {{5, -0.5f, "y"}};
  choice.logprobs = std::vector<PositionLogprobs>{echoed, next, last};
  response.choices.push_back(choice);
  const std::string body = BodyOf(response);
  EXPECT_NE(
      body.find(
          R"("logprobs":{"text_offset":[0,2,8],"token_logprobs":[null,-0.1,-9999.0],)"
          R"("tokens":["Hi"," there","x"],"top_logprobs":[null,{" there":-0.1,"!":-3.0},{"y":-0.5,"x":-9999.0}]})"),
      std::string::npos)
      << body;
}

TEST(LogprobsTest, TheTokensOwnNumberIsAmongTheTopOnes) {
  std::mt19937 random(11);
  for (int round = 0; round < 2000; ++round) {
    PositionLogprobs position;
    const int count = static_cast<int>(random() % 21);
    for (int i = 0; i < count; ++i) {
      // Few different texts, so that tokens share them.
      position.top.push_back(
          {i, -0.25f * static_cast<float>(i), std::string(1, static_cast<char>('a' + random() % 6))});
    }
    const int own = static_cast<int>(random() % 24);
    position.id = own;
    position.bytes = own < count ? position.top[own].bytes : "a";
    position.logprob = own < count ? position.top[own].logprob : -100.0f;
    CompletionWriter writer = Begun(CompletionHead());
    std::string event;
    const std::vector<PositionLogprobs> positions = {position};
    AnswerDelta delta;
    delta.logprobs = &positions;
    writer.AppendChunk(&event, delta);
    const Json logprobs = EventJson(event)["choices"][0]["logprobs"];
    const Json& top = logprobs["top_logprobs"][0];
    ASSERT_EQ(top.size(), static_cast<size_t>(own < count ? count : count + 1));
    ASSERT_EQ(top[position.bytes], logprobs["token_logprobs"][0]);
    float best = -1000.0f;
    for (const auto& [name, value] : top.items()) best = std::max(best, static_cast<float>(double(value)));
    ASSERT_EQ(best, count > 0 ? 0.0f : -100.0f);
  }
}

TEST(LogprobsTest, TokensMayBeShownAsIds) {
  AnswerChoice choice;
  PositionLogprobs position;
  position.id = 4;
  position.bytes = "x";
  position.logprob = -2.0f;
  position.top = {{5, -0.5f, "y"}, {6, -0.75f, "y"}};
  choice.logprobs = {{position}};
  Answer response;
  response.choices.push_back(choice);
  CompletionWriter writer(/*tokens_as_ids=*/true);
  writer.Begin(CompletionHead());
  const Json logprobs = Json::parse(writer.Body(response))["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"], Json::parse(R"(["token_id:4"])"));
  EXPECT_EQ(logprobs["top_logprobs"][0], Json::parse(R"({"token_id:5":-0.5,"token_id:6":-0.75,"token_id:4":-2.0})"));
}

TEST(LogprobsTest, ThoseOfThePromptAreByIdWithRanks) {
  AnswerChoice choice;
  PositionLogprobs first;
  first.id = 1;
  PositionLogprobs next;
  next.id = 4;
  next.bytes = "x";
  next.logprob = -2.0f;
  next.rank = 9;
  next.top = {{5, -0.5f, "y\""}, {6, -0.75f, "\xc3"}};
  PositionLogprobs last = next;
  last.id = 6;
  last.bytes = "\xc3";
  last.logprob = -0.75f;
  last.rank = 2;
  choice.prompt_logprobs = {{first, next, last}};
  Answer response;
  response.choices.push_back(choice);
  const Json got = Json::parse(BodyOf(response))["choices"][0]["prompt_logprobs"];
  EXPECT_EQ(got, Json::parse(R"([null,
    {"4":{"logprob":-2.0,"rank":9,"decoded_token":"x"},"5":{"logprob":-0.5,"rank":1,"decoded_token":"y\""},
     "6":{"logprob":-0.75,"rank":2,"decoded_token":"\ufffd"}},
    {"6":{"logprob":-0.75,"rank":2,"decoded_token":"\ufffd"},"5":{"logprob":-0.5,"rank":1,"decoded_token":"y\""}}])"));
}

TEST(CompletionWriterTest, APlainChunkIsByteForByteThis) {
  CompletionWriter writer = Begun(CompletionHead());
  std::string out;
  AnswerDelta delta;
  delta.index = 3;
  delta.text = "a\"b\n";
  writer.AppendChunk(&out, delta);
  EXPECT_EQ(
      out,
      "data: {\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"created\":1700000000,\"model\":\"smol\",\"choices\":"
      "[{\"index\":3,\"text\":\"a\\\"b\\n\",\"logprobs\":null,\"finish_reason\":null,\"stop_reason\":null,"
      "\"prompt_token_ids\":null,\"token_ids\":null}]}\n\n");
}

TEST(CompletionWriterTest, TheSlowPathWritesTheSameMembersAsTheFastOne) {
  CompletionWriter writer = Begun(CompletionHead());
  std::string fast;
  std::string slow;
  AnswerDelta delta;
  delta.text = "x";
  writer.AppendChunk(&fast, delta);
  const std::vector<int32_t> no_ids;
  delta.token_ids = &no_ids;
  writer.AppendChunk(&slow, delta);
  Json expected = EventJson(fast);
  expected["choices"][0]["token_ids"] = Json::array();
  EXPECT_EQ(EventJson(slow), expected);
}

TEST(CompletionWriterTest, TheLastChunkCarriesReasonFingerprintAndKv) {
  CompletionWriter writer = Begun(CompletionHead());
  std::string out;
  AnswerDelta delta;
  delta.finish_reason = FinishReason::kStop;
  const StopReason reason = std::string("END");
  delta.stop_reason = &reason;
  const KvReport kv{257, 256, 1, 17, ""};
  delta.kv = &kv;
  writer.AppendChunk(&out, delta);
  const Json chunk = EventJson(out);
  EXPECT_EQ(chunk["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(chunk["choices"][0]["stop_reason"], "END");
  EXPECT_EQ(chunk["system_fingerprint"], "hydrant-0.1.0");
  EXPECT_EQ(chunk["kv"]["blocks"], 17);
  EXPECT_FALSE(chunk.contains("usage"));
}

TEST(CompletionWriterTest, UsageIsInAChunkOnlyWhenHandedIn) {
  CompletionWriter writer = Begun(CompletionHead());
  std::string out;
  AnswerDelta delta;
  const Usage usage{5, 2, 0};
  delta.usage = &usage;
  writer.AppendChunk(&out, delta);
  EXPECT_EQ(
      EventJson(out)["usage"],
      Json::parse(
          R"({"prompt_tokens":5,"completion_tokens":2,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":0}})"));
  std::string last;
  writer.AppendUsage(&last, usage, nullptr);
  const Json chunk = EventJson(last);
  EXPECT_EQ(chunk["choices"], Json::array());
  EXPECT_EQ(chunk["usage"]["total_tokens"], 7);
  EXPECT_EQ(chunk["object"], "text_completion");
}

TEST(CompletionWriterTest, AnyBytesGiveOneValidEvent) {
  AnswerHead head = CompletionHead();
  head.model = "m\"\n\xff";
  CompletionWriter writer = Begun(head);
  std::mt19937 random(3);
  for (int round = 0; round < 5000; ++round) {
    std::string text(random() % 16, '\0');
    for (char& byte : text) byte = static_cast<char>(random());
    std::string out;
    AnswerDelta delta;
    delta.text = text;
    writer.AppendChunk(&out, delta);
    ASSERT_TRUE(IsValidUtf8(out));
    EventJson(out);
  }
}

TEST(CompletionWriterTest, ChunksAppendToOneBuffer) {
  CompletionWriter writer = Begun(CompletionHead());
  std::string both;
  AnswerDelta delta;
  delta.text = "a";
  writer.AppendChunk(&both, delta);
  const size_t first = both.size();
  delta.text = "b";
  writer.AppendChunk(&both, delta);
  EXPECT_EQ(EventJson(both.substr(0, first))["choices"][0]["text"], "a");
  EXPECT_EQ(EventJson(both.substr(first))["choices"][0]["text"], "b");
}

}  // namespace
}  // namespace hydrant
