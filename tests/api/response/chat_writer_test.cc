#include "api/response/chat_writer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace hydrant {
namespace {

using Json = nlohmann::json;

AnswerHead Head() { return {"chatcmpl-1", 1700000000, "smol", "hydrant-0.1.0"}; }

std::vector<Json> Events(const std::string& text) {
  std::vector<Json> events;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find("\n\n", at);
    events.push_back(Json::parse(text.substr(at + 6, end - at - 6)));
    at = end + 2;
  }
  return events;
}

TEST(ChatWriter, WritesExactlyTheDocumentedBody) {
  ChatWriter writer({});
  writer.Begin(Head());
  Answer answer;
  answer.choices.push_back({.text = "hi", .finish_reason = FinishReason::kLength});
  answer.usage = {3, 2, 1};
  EXPECT_EQ(
      writer.Body(answer),
      R"({"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"smol","choices":[{"index":0,)"
      R"("message":{"role":"assistant","content":"hi","refusal":null},"logprobs":null,"finish_reason":"length",)"
      R"("stop_reason":null,"token_ids":null}],"prompt_logprobs":null,"prompt_token_ids":null,"usage":{"prompt_tokens":3,)"
      R"("completion_tokens":2,"total_tokens":5,"prompt_tokens_details":{"cached_tokens":1}},)"
      R"("system_fingerprint":"hydrant-0.1.0"})");
}

// vLLM's place for them: its choices have no prompt of their own.
TEST(ChatWriter, WritesWhatIsOfThePromptBesideTheChoices) {
  ChatWriter writer({});
  writer.Begin(Head());
  Answer answer;
  for (int32_t i = 0; i < 2; ++i) {
    AnswerChoice& choice = answer.choices.emplace_back();
    choice.index = i;
    choice.prompt_logprobs.emplace(1);
    choice.prompt_token_ids = {5};
    choice.token_ids = {6};
  }
  const Json body = Json::parse(writer.Body(answer));
  EXPECT_EQ(body.value("prompt_logprobs", Json()), Json::array({nullptr}));
  EXPECT_EQ(body.value("prompt_token_ids", Json()), Json::array({5}));
  for (const Json& choice : body["choices"]) {
    EXPECT_EQ(choice["token_ids"], Json::array({6}));
    EXPECT_FALSE(choice.contains("prompt_token_ids") || choice.contains("prompt_logprobs"));
  }
  const std::vector<int32_t> prompt = {5}, ids = {6};
  std::string out;
  writer.AppendChunk(&out, {.first = true, .text = "a", .token_ids = &ids, .prompt_token_ids = &prompt});
  writer.AppendChunk(&out, {.text = "b", .token_ids = &ids});
  const std::vector<Json> events = Events(out);
  ASSERT_EQ(events.size(), 3u);
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].value("prompt_token_ids", Json()), i == 0 ? Json::array({5}) : Json());
    EXPECT_FALSE(events[i]["choices"][0].contains("prompt_token_ids"));
  }
}

TEST(ChatWriter, StreamsTheRoleFirstAndTheFinishWithTheLastText) {
  ChatWriter writer({});
  writer.Begin(Head());
  std::string out;
  writer.AppendChunk(&out, {.first = true, .text = "a"});
  writer.AppendChunk(&out, {.text = "b", .finish_reason = FinishReason::kStop});
  const std::vector<Json> events = Events(out);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0]["object"], "chat.completion.chunk");
  EXPECT_EQ(events[0]["choices"][0]["delta"], (Json{{"role", "assistant"}, {"content", ""}}));
  EXPECT_EQ(events[1]["choices"][0]["delta"], (Json{{"content", "a"}}));
  EXPECT_EQ(events[1]["choices"][0]["finish_reason"], nullptr);
  EXPECT_EQ(events[2]["choices"][0]["delta"], (Json{{"content", "b"}}));
  EXPECT_EQ(events[2]["choices"][0]["finish_reason"], "stop");
}

TEST(ChatWriter, MakesToolCallsOfTextStreamedOrNot) {
  const std::string call = R"(<tool_call>{"name": "f", "arguments": {"x": 1}}</tool_call>)";
  const ChatWriterOptions options = {.tool_calls = ToolCallFormat::kHermes};
  ChatWriter whole(options);
  whole.Begin(Head());
  Answer answer;
  answer.choices.push_back({.text = call + call});
  const Json choice = Json::parse(whole.Body(answer))["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["content"], nullptr);
  ASSERT_EQ(choice["message"]["tool_calls"].size(), 2u);
  EXPECT_EQ(choice["message"]["tool_calls"][0]["type"], "function");
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"], (Json{{"name", "f"}, {"arguments", R"({"x": 1})"}}));

  ChatWriter streamed(options);
  streamed.Begin(Head());
  std::string out;
  for (size_t i = 0; i < call.size(); ++i) {
    AnswerDelta delta{.first = i == 0, .text = std::string_view(call).substr(i, 1)};
    if (i + 1 == call.size()) delta.finish_reason = FinishReason::kStop;
    streamed.AppendChunk(&out, delta);
  }
  const std::vector<Json> events = Events(out);
  // The name with the first byte of the arguments, which then come as they are written.
  ASSERT_EQ(events.size(), 10u);
  const Json& first = events[1]["choices"][0]["delta"]["tool_calls"][0];
  EXPECT_EQ(first["index"], 0);
  EXPECT_EQ(first["type"], "function");
  EXPECT_EQ(first["function"], (Json{{"name", "f"}, {"arguments", "{"}}));
  EXPECT_EQ(first["id"].get<std::string>().size(), 29u);
  std::string arguments = "{";
  for (size_t i = 2; i + 1 < events.size(); ++i) {
    const Json& delta = events[i]["choices"][0]["delta"];
    EXPECT_EQ(delta.size(), 1u);
    EXPECT_EQ(delta["tool_calls"][0].size(), 2u) << "index and function";
    arguments += delta["tool_calls"][0]["function"]["arguments"].get<std::string>();
  }
  EXPECT_EQ(arguments, R"({"x": 1})");
  EXPECT_EQ(events.back()["choices"][0]["finish_reason"], "tool_calls");
}

TEST(ChatWriter, ACallThatIsCutOffIsThereAsFarAsItCame) {
  const std::string call = R"(<tool_call>{"name": "f", "arguments": {"x": 1)";
  for (const FinishReason finish : {FinishReason::kLength, FinishReason::kStop}) {
    ChatWriter writer({.tool_calls = ToolCallFormat::kHermes});
    writer.Begin(Head());
    Answer answer;
    answer.choices.push_back({.text = call, .finish_reason = finish});
    const Json choice = Json::parse(writer.Body(answer))["choices"][0];
    EXPECT_EQ(choice["finish_reason"], finish == FinishReason::kLength ? "length" : "stop");
    EXPECT_EQ(choice["message"]["content"], nullptr);
    EXPECT_EQ(choice["message"]["tool_calls"][0]["function"], (Json{{"name", "f"}, {"arguments", R"({"x": 1)"}}));
  }
}

TEST(ChatWriter, WritesReasoningUnderBothNamesUnlessItIsNotWanted) {
  for (const bool wanted : {true, false}) {
    ChatWriter writer({.tool_calls = ToolCallFormat::kHermes, .include_reasoning = wanted});
    writer.Begin(Head());
    Answer answer;
    answer.choices.push_back({.reasoning = "hm", .text = R"(<tool_call>{"name":"f"}</tool_call>)"});
    answer.usage = {3, 2, 1, 1};
    const Json body = Json::parse(writer.Body(answer));
    const Json& message = body["choices"][0]["message"];
    EXPECT_EQ(message.value("reasoning_content", "none"), wanted ? "hm" : "none");
    EXPECT_EQ(message.value("reasoning", "none"), wanted ? "hm" : "none");
    EXPECT_EQ(message["content"], nullptr);
    EXPECT_EQ(message["tool_calls"][0]["function"]["name"], "f");
    EXPECT_EQ(body["usage"]["completion_tokens_details"], (Json{{"reasoning_tokens", 1}}));

    std::string out;
    writer.AppendChunk(&out, {.first = true, .reasoning = "h"});
    writer.AppendChunk(&out, {.reasoning = "m", .text = "a"});
    writer.AppendChunk(&out, {.text = "b", .finish_reason = FinishReason::kStop});
    const std::vector<Json> events = Events(out);
    ASSERT_EQ(events.size(), wanted ? 4u : 3u);
    if (wanted) {
      EXPECT_EQ(events[1]["choices"][0]["delta"], (Json{{"reasoning_content", "h"}, {"reasoning", "h"}}));
    }
    Json both = {{"content", "a"}};
    if (wanted) both["reasoning_content"] = both["reasoning"] = "m";
    EXPECT_EQ(events[events.size() - 2]["choices"][0]["delta"], both);
    EXPECT_EQ(events.back()["choices"][0]["delta"], (Json{{"content", "b"}}));
  }
}

// Where it was cut off while it thought, it has said nothing.
TEST(ChatWriter, AnAnswerOfReasoningAloneHasEmptyContent) {
  ChatWriter writer({});
  writer.Begin(Head());
  Answer answer;
  answer.choices.push_back({.reasoning = "hm", .finish_reason = FinishReason::kLength});
  const Json choice = Json::parse(writer.Body(answer))["choices"][0];
  EXPECT_EQ(choice["message"]["content"], "");
  EXPECT_EQ(choice["finish_reason"], "length");
}

TEST(ChatWriter, KeepsTheFirstCallWhereCallsMayNotBeParallel) {
  ChatWriter writer({.tool_calls = ToolCallFormat::kHermes, .parallel_tool_calls = false});
  writer.Begin(Head());
  Answer answer;
  answer.choices.push_back({.text = R"(<tool_call>{"name":"f"}</tool_call><tool_call>{"name":"g"}</tool_call>)"});
  EXPECT_EQ(Json::parse(writer.Body(answer))["choices"][0]["message"]["tool_calls"].size(), 1u);
}

TEST(ChatWriter, ShowsLogprobsWithBytes) {
  ChatWriter writer({});
  writer.Begin(Head());
  Answer answer;
  PositionLogprobs position{.id = 7, .bytes = "\xC3\xA9", .logprob = -0.5f};
  position.top = {{7, -0.5f, "\xC3\xA9"}, {8, -1.25f, "\xC3"}};
  answer.choices.push_back({.text = "\xC3\xA9", .logprobs = std::vector<PositionLogprobs>{position}});
  const Json logprobs = Json::parse(writer.Body(answer))["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["refusal"], nullptr);
  EXPECT_EQ(logprobs["content"][0]["token"], "\xC3\xA9");
  EXPECT_EQ(logprobs["content"][0]["bytes"], (Json{195, 169}));
  EXPECT_EQ(logprobs["content"][0]["logprob"], -0.5);
  EXPECT_EQ(logprobs["content"][0]["top_logprobs"][1]["bytes"], Json::array({195}));
  EXPECT_EQ(logprobs["content"][0]["top_logprobs"][1]["token"], "bytes:\\xc3");
}

TEST(ChatWriter, BeginsWithTheMessageItContinues) {
  ChatWriter writer({.echoed = "once "});
  writer.Begin(Head());
  Answer answer;
  answer.choices.push_back({.text = "upon"});
  EXPECT_EQ(Json::parse(writer.Body(answer))["choices"][0]["message"]["content"], "once upon");
}

}  // namespace
}  // namespace hydrant
