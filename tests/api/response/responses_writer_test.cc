#include "api/response/responses_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace hydrant {
namespace {

using Json = nlohmann::json;

ResponsesWriterOptions Options() {
  ResponsesWriterOptions options;
  options.tool_calls = ToolCallFormat::kHermes;
  options.ids = "x";
  options.custom_tools = {"g"};
  options.head = R"("instructions":null,"tools":[])";
  options.echo = R"("temperature":1.0)";
  options.chain = R"("store":false)";
  return options;
}

// The answer in pieces of `size` bytes, as events.
std::vector<Json> Events(const std::string& text, size_t size, FinishReason finish = FinishReason::kStop,
                         const std::vector<PositionLogprobs>* logprobs = nullptr) {
  ResponsesWriter writer(Options());
  writer.Begin({"resp_1", 7, "smol", ""});
  std::string out;
  for (size_t i = 0; i == 0 || i < text.size(); i += size) {
    AnswerDelta delta;
    delta.first = i == 0;
    const std::string piece = text.substr(i, size);
    delta.text = piece;
    delta.logprobs = i == 0 ? logprobs : nullptr;
    if (i + size >= text.size()) delta.finish_reason = finish;
    writer.AppendChunk(&out, delta);
  }
  writer.AppendUsage(&out, {10, 4, 6}, nullptr);
  writer.AppendEnd(&out);
  std::vector<Json> events;
  for (size_t at = 0; at < out.size();) {
    const size_t end = out.find("\n\n", at), line = out.find("\ndata: ", at);
    const std::string name = out.substr(at, line - at);
    events.push_back(Json::parse(out.substr(line + 7, end - line - 7)));
    EXPECT_EQ(name, "event: " + events.back()["type"].get<std::string>());
    EXPECT_EQ(events.back()["sequence_number"], events.size() - 1);
    at = end + 2;
  }
  return events;
}

Json WrittenBody(const std::string& text, FinishReason finish = FinishReason::kStop) {
  ResponsesWriter writer(Options());
  writer.Begin({"resp_1", 7, "smol", ""});
  Answer answer;
  answer.choices.emplace_back();
  answer.choices[0].text = text;
  answer.choices[0].finish_reason = finish;
  answer.usage = {10, 4, 6};
  return Json::parse(writer.Body(answer));
}

// What clients put together of events: they refuse a stream that does it otherwise.
Json Assembled(const std::vector<Json>& events) {
  Json items = Json::array();
  std::string text, arguments;
  for (const Json& event : events) {
    const std::string type = event["type"];
    if (type == "response.output_item.added") {
      EXPECT_EQ(event["output_index"], items.size());
      items.push_back(event["item"]);
      EXPECT_EQ(items.back()["status"], "in_progress");
      text = arguments = "";
    } else if (type == "response.content_part.added") {
      EXPECT_EQ(items.back()["content"], Json::array());
      items.back()["content"].push_back(event["part"]);
    } else if (type == "response.output_text.delta") {
      EXPECT_EQ(event["item_id"], items.back()["id"]);
      text += event["delta"];
    } else if (type == "response.output_text.done") {
      EXPECT_EQ(event["text"], text);
    } else if (type.ends_with(".delta")) {
      arguments += event["delta"];
    } else if (type == "response.function_call_arguments.done") {
      EXPECT_EQ(event["arguments"], arguments);
    } else if (type == "response.output_item.done") {
      EXPECT_EQ(event["item"]["id"], items.back()["id"]);
      items.back() = event["item"];
      if (items.back()["type"] == "message") {
        EXPECT_EQ(items.back()["content"][0]["text"], text);
      }
    }
  }
  return items;
}

constexpr const char* kWrittenCalls =
    "Let me look.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>\n"
    "<tool_call>\n{\"name\": \"g\", \"arguments\": {\"input\": \"do\"}}\n</tool_call>";

TEST(ResponsesWriter, AStreamSaysWhatTheBodySaysHoweverItIsCut) {
  for (const std::string& text :
       {std::string("Hello there."), std::string(kWrittenCalls), std::string(), std::string(" \n")}) {
    const Json output = WrittenBody(text)["output"];
    for (const size_t size : {1, 3, 1000}) {
      const std::vector<Json> events = Events(text, size);
      ASSERT_GE(events.size(), 4u);
      EXPECT_EQ(events[0]["type"], "response.created");
      EXPECT_EQ(events[1]["type"], "response.in_progress");
      EXPECT_EQ(events.back()["type"], "response.completed");
      EXPECT_EQ(events.back()["response"]["output"], output) << text;
      EXPECT_EQ(Assembled(events), output) << text;
    }
  }
}

TEST(ResponsesWriter, EveryMemberIsAlwaysThere) {
  std::set<std::string> names;
  const Json body = WrittenBody("Hi");
  for (const auto& member : body.items()) names.insert(member.key());
  for (const char* name : {"id", "object", "created_at", "completed_at", "status", "incomplete_details", "model",
                           "output", "error", "instructions", "tools", "temperature", "store", "usage"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  for (const Json& event : Events("Hi", 1)) {
    if (!event.contains("response")) continue;
    std::set<std::string> own;
    for (const auto& member : event["response"].items()) own.insert(member.key());
    EXPECT_EQ(own, names) << event["type"];
    EXPECT_EQ(event["response"]["id"], "resp_1");
  }
  EXPECT_EQ(body["usage"],
            Json::parse(R"({"input_tokens":10,"input_tokens_details":{"cached_tokens":6,"cache_write_tokens":0},
      "output_tokens":4,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":14})"));
}

TEST(ResponsesWriter, SaysWhatIsIncompleteAndWhatFailed) {
  const Json body = WrittenBody("Hel", FinishReason::kLength);
  EXPECT_EQ(body["status"], "incomplete");
  EXPECT_EQ(body["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(body["output"][0]["status"], "incomplete");
  EXPECT_EQ(body["completed_at"], nullptr);
  EXPECT_EQ(Events("Hel", 1, FinishReason::kLength).back()["type"], "response.incomplete");
  ResponsesWriter writer(Options());
  writer.Begin({"resp_1", 7, "smol", ""});
  std::string out;
  AnswerDelta delta;
  delta.first = true;
  delta.text = "Hel";
  writer.AppendChunk(&out, delta);
  out.clear();
  writer.AppendError(&out, Overloaded("The server is out of memory.", "out_of_memory", 1));
  const Json failed = Json::parse(out.substr(out.find("data: ") + 6));
  EXPECT_EQ(failed["type"], "response.failed");
  EXPECT_EQ(failed["response"]["error"]["code"], "server_error");
  EXPECT_EQ(failed["response"]["status"], "failed");
}

TEST(ResponsesWriter, ReasoningIsAnItemBeforeTheOthers) {
  ResponsesWriterOptions options = Options();
  options.encrypts_reasoning = true;
  ResponsesWriter whole(options), streamed(options);
  whole.Begin({"resp_1", 7, "smol", ""});
  streamed.Begin({"resp_1", 7, "smol", ""});
  Answer answer;
  answer.choices.emplace_back();
  answer.choices[0].reasoning = "hm";
  answer.choices[0].text = "Hi";
  const Json output = Json::parse(whole.Body(answer))["output"];
  EXPECT_EQ(output[0], Json::parse(R"({"id":"rs_x_0","type":"reasoning","status":"completed","summary":[],
      "content":[{"type":"reasoning_text","text":"hm"}],"encrypted_content":"aG0="})"));
  EXPECT_EQ(output[1]["id"], "msg_x_1");
  std::string out;
  for (const char* piece : {"h", "m"}) {
    AnswerDelta delta;
    delta.first = *piece == 'h';
    delta.reasoning = piece;
    streamed.AppendChunk(&out, delta);
  }
  AnswerDelta last;
  last.text = "Hi";
  last.finish_reason = FinishReason::kStop;
  streamed.AppendChunk(&out, last);
  const size_t delta = out.find("event: response.reasoning_text.delta"),
               done = out.find("event: response.reasoning_text.done");
  const size_t text = out.find("event: response.output_text.delta");
  EXPECT_LT(delta, done);
  EXPECT_LT(done, text);
  out.clear();
  streamed.AppendUsage(&out, {}, nullptr);
  EXPECT_EQ(Json::parse(out.substr(out.find("data: ") + 6))["response"]["output"], output);
}

TEST(ResponsesWriter, LogprobsGoWithTheText) {
  std::vector<PositionLogprobs> logprobs(1);
  logprobs[0].id = 5;
  logprobs[0].bytes = "He";
  logprobs[0].end = 2;
  logprobs[0].logprob = -0.5f;
  logprobs[0].top = {{5, -0.5f, "He"}, {6, -1.5f, "Ho"}};
  const std::vector<Json> events = Events("He", 9, FinishReason::kStop, &logprobs);
  const Json written = Json::parse(R"([{"token":"He","logprob":-0.5,"bytes":[72,101],"top_logprobs":[
      {"token":"He","logprob":-0.5,"bytes":[72,101]},{"token":"Ho","logprob":-1.5,"bytes":[72,111]}]}])");
  for (const Json& event : events) {
    if (event["type"] == "response.output_text.delta") {
      EXPECT_EQ(event["logprobs"], written);
    }
  }
  EXPECT_EQ(events.back()["response"]["output"][0]["content"][0]["logprobs"], written);
}

// The tokens of an answer, `size` bytes each, and the one that ends it.
std::vector<PositionLogprobs> TokensOf(const std::string& answer, size_t size) {
  std::vector<PositionLogprobs> tokens;
  for (size_t at = 0; at < answer.size(); at += size) {
    PositionLogprobs& token = tokens.emplace_back();
    token.bytes = answer.substr(at, size);
    token.logprob = -1.0f;
    token.begin = static_cast<int64_t>(at);
    token.end = static_cast<int64_t>(std::min(at + size, answer.size()));
  }
  PositionLogprobs& end = tokens.emplace_back();
  end.bytes = "<eos>";
  end.begin = end.end = static_cast<int64_t>(answer.size());
  return tokens;
}

// The tokens that a message's text has, however the answer is cut: none of the reasoning, of calls, and of the end.
TEST(ResponsesWriter, AMessageHasTheLogprobsOfItsText) {
  const std::string call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"tail\"}}\n</tool_call>";
  const std::string reasoning = "<think>hi</think>\n\n";
  const struct {
    std::string thought, text;
    std::vector<std::string> said;  // of the messages
  } cases[] = {{"", "Hello there.", {"Hello there."}},
               {reasoning, "hi", {"hi"}},
               {"", "Sure.\n" + call, {"Sure.\n"}},
               {"", "\n" + call + "\n", {}},
               {reasoning, "A" + call + " tail \n", {"A", " tail"}},
               {"", "A" + call + "\n<tool_no" + call + "\n \xc3\xa9<", {"A", "\n<tool_no", "\n \xc3\xa9<"}},
               {"", " \n", {" \n"}}};
  for (const auto& c : cases) {
    for (const size_t size : {1, 3, 7}) {
      const std::string all = c.thought + c.text;
      const std::vector<PositionLogprobs> tokens = TokensOf(all, size);
      ResponsesWriter whole(Options());
      whole.Begin({"resp_1", 7, "smol", ""});
      Answer answer;
      AnswerChoice& choice = answer.choices.emplace_back();
      choice.text = c.text;
      choice.text_begin = static_cast<int64_t>(c.thought.size());
      choice.logprobs = tokens;
      const Json output = Json::parse(whole.Body(answer))["output"];
      size_t messages = 0;
      for (const Json& item : output) {
        if (item["type"] != "message") continue;
        const std::string text = item["content"][0]["text"];
        ASSERT_LT(messages, c.said.size()) << c.text;
        EXPECT_EQ(text, c.said[messages++]);
        std::string spelled;
        for (const Json& token : item["content"][0]["logprobs"]) {
          for (const Json& byte : token["bytes"]) spelled.push_back(static_cast<char>(byte.get<int>()));
        }
        const size_t at = spelled.find(text);
        ASSERT_NE(at, spelled.npos) << text << "|" << spelled;
        EXPECT_LT(std::max(at, spelled.size() - at - text.size()), size) << "only tokens that have some of it";
      }
      EXPECT_EQ(messages, c.said.size()) << c.text;
      for (const size_t chunk : {1, 4, 1000}) {
        ResponsesWriter writer(Options());
        writer.Begin({"resp_1", 7, "smol", ""});
        std::string out;
        for (size_t at = 0, token = 0; at <= all.size(); at += chunk) {
          const size_t end = std::min(at + chunk, all.size());
          std::vector<PositionLogprobs> came;
          for (; token < tokens.size() && tokens[token].begin <= static_cast<int64_t>(end); ++token) {
            came.push_back(tokens[token]);
          }
          const size_t from = std::max(at, c.thought.size());
          const std::string more = from < end ? all.substr(from, end - from) : "";
          AnswerDelta delta;
          delta.first = at == 0;
          delta.text = more;
          delta.text_begin = end > c.thought.size() ? static_cast<int64_t>(c.thought.size()) : 0;
          delta.logprobs = &came;
          if (at + chunk > all.size()) delta.finish_reason = FinishReason::kStop;
          writer.AppendChunk(&out, delta);
        }
        out.clear();
        writer.AppendUsage(&out, {10, 6, 0}, nullptr);
        EXPECT_EQ(Json::parse(out.substr(out.find("data: ") + 6))["response"]["output"], output) << c.text;
      }
    }
  }
}

}  // namespace
}  // namespace hydrant
