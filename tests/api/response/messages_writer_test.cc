#include "api/response/messages_writer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace hydrant {
namespace {

using Json = nlohmann::json;

AnswerHead MessageHead() { return {"msg_1", 1700000000, "smol", "hydrant-0.1.0"}; }

// Every event is its name and one line of data, which has the name too.
std::vector<Json> MessageEvents(const std::string& text) {
  std::vector<Json> events;
  for (size_t at = 0; at < text.size();) {
    const size_t line = text.find('\n', at), end = text.find("\n\n", at);
    const std::string name = text.substr(at, line - at), data = text.substr(line + 1, end - line - 1);
    EXPECT_TRUE(name.starts_with("event: ") && data.starts_with("data: ")) << name << data;
    events.push_back(Json::parse(data.substr(6)));
    EXPECT_EQ(events.back()["type"], name.substr(7));
    at = end + 2;
  }
  return events;
}

std::string Names(const std::vector<Json>& events) {
  std::string names;
  for (const Json& event : events) names += (names.empty() ? "" : " ") + event["type"].get<std::string>();
  return names;
}

// The events of an answer that becomes visible in these pieces.
std::vector<Json> Stream(MessagesWriterOptions options, const std::vector<std::string>& pieces, FinishReason finish,
                         StopReason stop = {}) {
  MessagesWriter writer(std::move(options));
  writer.Begin(MessageHead());
  std::string out;
  Usage usage = {10, 1, 4};
  for (size_t i = 0; i < pieces.size(); ++i) {
    AnswerDelta delta;
    delta.first = i == 0;
    delta.text = pieces[i];
    delta.usage = &usage;
    if (i + 1 == pieces.size()) {
      delta.finish_reason = finish;
      delta.stop_reason = &stop;
    }
    writer.AppendChunk(&out, delta);
  }
  usage.completion_tokens = static_cast<int64_t>(pieces.size());
  writer.AppendUsage(&out, usage, nullptr);
  writer.AppendEnd(&out);
  return MessageEvents(out);
}

Json Body(MessagesWriterOptions options, const std::string& text, FinishReason finish = FinishReason::kStop,
          StopReason stop = {}) {
  MessagesWriter writer(std::move(options));
  writer.Begin(MessageHead());
  Answer answer;
  answer.choices.push_back({.text = text, .finish_reason = finish, .stop_reason = std::move(stop)});
  answer.usage = {10, 5, 4};
  return Json::parse(writer.Body(answer));
}

// The blocks that a client puts together from the events.
Json Blocks(const std::vector<Json>& events) {
  Json blocks = Json::array();
  bool open = false;
  for (const Json& event : events) {
    const std::string type = event["type"];
    if (type == "content_block_start") {
      EXPECT_FALSE(std::exchange(open, true));
      EXPECT_EQ(event["index"], blocks.size());
      blocks.push_back(event["content_block"]);
      if (blocks.back()["type"] == "tool_use") blocks.back()["input"] = "";
    } else if (type == "content_block_delta") {
      EXPECT_TRUE(open);
      EXPECT_EQ(event["index"], blocks.size() - 1);
      const Json& delta = event["delta"];
      Json& block = blocks.back();
      for (const char* part : {"thinking", "signature"}) {
        if (delta.contains(part)) block[part] = block[part].get<std::string>() + delta[part].get<std::string>();
      }
      if (delta["type"] == "text_delta")
        block["text"] = block["text"].get<std::string>() + delta["text"].get<std::string>();
      if (delta["type"] == "input_json_delta") {
        block["input"] = block["input"].get<std::string>() + delta["partial_json"].get<std::string>();
      }
    } else if (type == "content_block_stop") {
      EXPECT_TRUE(std::exchange(open, false));
      if (blocks.back()["type"] == "tool_use")
        blocks.back()["input"] = Json::parse(blocks.back()["input"].get<std::string>());
    }
  }
  EXPECT_FALSE(open);
  return blocks;
}

constexpr const char* kCall = R"(<tool_call>{"name": "f", "arguments": {"x": 1}}</tool_call>)";

TEST(MessagesWriter, WritesExactlyTheDocumentedBody) {
  EXPECT_EQ(
      Body({.asked_tokens = 100}, "hi").dump(),
      Json::parse(R"({"id":"msg_1","type":"message","role":"assistant","model":"smol",)"
                  R"("content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","stop_sequence":null,)"
                  R"("stop_details":null,"container":null,"usage":{"input_tokens":6,"cache_creation_input_tokens":0,)"
                  R"("cache_read_input_tokens":4,"output_tokens":5,"service_tier":"standard"}})")
          .dump());
}

TEST(MessagesWriter, HasABlockOfThinkingForWhoAskedForIt) {
  const Json thinking = {{"type", "thinking"}, {"thinking", "hm so"}, {"signature", "msg_1"}};
  const Json text = {{"type", "text"}, {"text", "\nhi"}};
  for (const bool asked : {true, false}) {
    for (const bool speaks : {true, false}) {
      MessagesWriter whole({.include_reasoning = asked}), streamed({.include_reasoning = asked});
      whole.Begin(MessageHead());
      Answer answer;
      answer.choices.push_back({.reasoning = "hm so", .text = speaks ? "\nhi" : ""});
      Json blocks = Json::array();
      if (asked) blocks.push_back(thinking);
      if (speaks) blocks.push_back(text);
      EXPECT_EQ(Json::parse(whole.Body(answer))["content"], blocks);

      streamed.Begin(MessageHead());
      std::string out;
      Usage usage;
      streamed.AppendChunk(&out, {.first = true, .reasoning = "hm", .usage = &usage});
      streamed.AppendChunk(&out, {.reasoning = " so", .text = speaks ? "\n" : ""});
      streamed.AppendChunk(&out, {.text = speaks ? "hi" : "", .finish_reason = FinishReason::kStop});
      EXPECT_EQ(Blocks(MessageEvents(out)), blocks);
    }
  }
}

TEST(MessagesWriter, ThinkingThatIsOmittedIsAnEmptyBlockWithItsSignatureAndIsCounted) {
  const MessagesWriterOptions options = {.include_reasoning = true, .omits_thinking = true};
  const Json thinking = {{"type", "thinking"}, {"thinking", ""}, {"signature", "msg_1"}};
  MessagesWriter whole(options), streamed(options);
  whole.Begin(MessageHead());
  Answer answer;
  answer.choices.push_back({.reasoning = "hm so", .text = "hi"});
  answer.usage.reasoning_tokens = 2;
  const Json body = Json::parse(whole.Body(answer));
  EXPECT_EQ(body["content"][0], thinking);
  EXPECT_EQ(body["usage"]["output_tokens_details"], Json({{"thinking_tokens", 2}}));

  streamed.Begin(MessageHead());
  std::string out;
  Usage usage;
  streamed.AppendChunk(&out, {.first = true, .reasoning = "hm", .usage = &usage});
  streamed.AppendChunk(&out, {.reasoning = " so"});
  streamed.AppendChunk(&out, {.text = "hi", .finish_reason = FinishReason::kStop});
  EXPECT_EQ(out.find("thinking_delta"), std::string::npos);
  EXPECT_EQ(Blocks(MessageEvents(out))[0], thinking);
}

TEST(MessagesWriter, StreamsEventsInTheirOrder) {
  const std::vector<Json> events = Stream({.asked_tokens = 100}, {"a", "b", ""}, FinishReason::kStop);
  EXPECT_EQ(Names(events),
            "message_start ping content_block_start content_block_delta content_block_delta content_block_stop "
            "message_delta message_stop");
  const Json& message = events[0]["message"];
  EXPECT_EQ(message["id"], "msg_1");
  EXPECT_EQ(message["content"], Json::array());
  EXPECT_EQ(message["stop_reason"], nullptr);
  EXPECT_EQ(message["usage"]["input_tokens"], 6);
  EXPECT_EQ(message["usage"]["cache_read_input_tokens"], 4);
  const Json& delta = events[events.size() - 2];
  EXPECT_EQ(delta["delta"]["stop_reason"], "end_turn");
  EXPECT_EQ(delta["usage"]["output_tokens"], 3);
}

TEST(MessagesWriter, SaysWhyItEnded) {
  const struct {
    FinishReason finish;
    StopReason stop;
    int32_t asked;
    std::string reason;
    Json sequence;
  } cases[] = {
      {FinishReason::kStop, {}, 100, "end_turn", nullptr},
      {FinishReason::kStop, int32_t{7}, 100, "end_turn", nullptr},
      {FinishReason::kText, std::string("END"), 100, "stop_sequence", "END"},
      {FinishReason::kLength, {}, 5, "max_tokens", nullptr},
      {FinishReason::kLength, {}, 100, "model_context_window_exceeded", nullptr},
  };
  for (const auto& c : cases) {
    const Json body = Body({.asked_tokens = c.asked}, "x", c.finish, c.stop);
    EXPECT_EQ(body["stop_reason"], c.reason);
    EXPECT_EQ(body["stop_sequence"], c.sequence);
    const std::vector<Json> events =
        Stream({.asked_tokens = c.asked}, {"x", "", "", "", ""}, c.finish, c.stop);  // as many tokens as the body's
    EXPECT_EQ(events[events.size() - 2]["delta"]["stop_reason"], c.reason);
    EXPECT_EQ(events[events.size() - 2]["delta"]["stop_sequence"], c.sequence);
  }
}

TEST(MessagesWriter, MakesToolUsesOfTextStreamedOrNot) {
  const MessagesWriterOptions options = {.tool_calls = ToolCallFormat::kHermes, .call_ids = "a", .asked_tokens = 100};
  const std::string text = std::string("Let me look.\n") + kCall + "\n" + kCall;
  const Json body = Body(options, text);
  EXPECT_EQ(body["stop_reason"], "tool_use");
  ASSERT_EQ(body["content"].size(), 3u);
  EXPECT_EQ(body["content"][0], (Json{{"type", "text"}, {"text", "Let me look.\n"}}));
  EXPECT_EQ(body["content"][1]["input"], (Json{{"x", 1}}));
  EXPECT_EQ(body["content"][1]["name"], "f");
  EXPECT_TRUE(body["content"][1]["id"].get<std::string>().starts_with("toolu_"));
  EXPECT_NE(body["content"][1]["id"], body["content"][2]["id"]);

  std::vector<std::string> letters;
  for (const char letter : text) letters.emplace_back(1, letter);
  for (const std::vector<std::string>& pieces : {letters, std::vector<std::string>{text}}) {
    const std::vector<Json> events = Stream(options, pieces, FinishReason::kStop);
    EXPECT_EQ(Blocks(events), body["content"]);
    EXPECT_EQ(events[events.size() - 2]["delta"]["stop_reason"], "tool_use");
  }
}

// What was closed for want of tokens has no sequence that stopped it; a call that was is whole, and its tool is to be run.
TEST(MessagesWriter, AnAnswerThatWasClosedCameToItsLimit) {
  for (const auto& [asked, reason] : {std::pair(5, "max_tokens"), std::pair(9, "model_context_window_exceeded")}) {
    const Json body = Body({.asked_tokens = asked}, "{}", FinishReason::kText, ClosedAtLimit());
    EXPECT_EQ(body["stop_reason"], reason);
    EXPECT_EQ(body["stop_sequence"], nullptr);
    const std::vector<Json> events =
        Stream({.asked_tokens = asked}, {"{", "}", "", "", ""}, FinishReason::kText, ClosedAtLimit());
    EXPECT_EQ(events[events.size() - 2]["delta"]["stop_reason"], reason);
    EXPECT_EQ(events[events.size() - 2]["delta"]["stop_sequence"], nullptr);
  }
  const MessagesWriterOptions options = {.tool_calls = ToolCallFormat::kHermes, .call_ids = "a", .asked_tokens = 5};
  EXPECT_EQ(Body(options, kCall, FinishReason::kText, ClosedAtLimit())["stop_reason"], "tool_use");
}

TEST(MessagesWriter, ACallThatIsCutOffHasTheMembersThatCame) {
  const MessagesWriterOptions options = {.tool_calls = ToolCallFormat::kHermes, .call_ids = "a", .asked_tokens = 100};
  const std::string begin = R"(<tool_call>{"name": "f", "arguments": {"x": [1, 2], "y": "a)";
  const Json body = Body(options, begin);
  EXPECT_EQ(body["stop_reason"], "end_turn");
  EXPECT_EQ(body["content"][0]["input"], (Json{{"x", {1, 2}}}));
  const std::vector<Json> events = Stream(options, {begin, ""}, FinishReason::kStop);
  std::string told;
  for (const Json& event : events) {
    if (event["type"] == "content_block_delta") told += event["delta"]["partial_json"].get<std::string>();
  }
  EXPECT_EQ(told, R"({"x": [1, 2], "y": "a)");
  EXPECT_EQ(events[events.size() - 3]["type"], "content_block_stop");
}

TEST(MessagesWriter, OfCallsOneAtATimeIsTheFirst) {
  const MessagesWriterOptions options = {
      .tool_calls = ToolCallFormat::kHermes, .call_ids = "a", .parallel_tool_calls = false, .asked_tokens = 100};
  EXPECT_EQ(Body(options, std::string(kCall) + kCall)["content"].size(), 1u);
  EXPECT_EQ(Blocks(Stream(options, {kCall, kCall, ""}, FinishReason::kStop)).size(), 1u);
}

TEST(MessagesWriter, HasNoBlockOfWhiteSpace) {
  const MessagesWriterOptions options = {.tool_calls = ToolCallFormat::kHermes, .asked_tokens = 100};
  EXPECT_EQ(Body(options, " \n")["content"], Json::array());
  EXPECT_EQ(Blocks(Stream(options, {" ", "\n", ""}, FinishReason::kStop)), Json::array());
  EXPECT_EQ(Body(options, std::string("\n\n") + kCall)["content"].size(), 1u);
  EXPECT_EQ(Blocks(Stream(options, {"\n", "\n", kCall, ""}, FinishReason::kStop)).size(), 1u);
  // What has something after it stays.
  EXPECT_EQ(Body(options, "\n a ")["content"][0]["text"], "\n a ");
  EXPECT_EQ(Blocks(Stream(options, {"\n", " a", " ", ""}, FinishReason::kStop))[0]["text"], "\n a ");
}

TEST(MessagesWriter, TellsErrorsAndTurnsInTheStream) {
  MessagesWriter writer({.asked_tokens = 9});
  writer.Begin(MessageHead());
  std::string out;
  writer.AppendError(&out, Overloaded("full", "queue_full", 1));
  const std::vector<Json> events = MessageEvents(out);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0]["error"]["type"], "overloaded_error");
  EXPECT_EQ(events[0]["request_id"], "1");

  out.clear();
  const Usage usage = {1, 1, 0};
  const TurnReport turn = {7, Durability::kKv};
  AnswerDelta delta;
  delta.first = true;
  delta.text = "x";
  delta.usage = &usage;
  delta.finish_reason = FinishReason::kStop;
  delta.turn = &turn;
  writer.AppendChunk(&out, delta);
  writer.AppendUsage(&out, usage, nullptr);
  EXPECT_EQ(MessageEvents(out).back()["hydrant"], (Json{{"turn", 7}, {"durable", "kv"}, {"resumed", false}}));
}

}  // namespace
}  // namespace hydrant
