#include "api/request/response_items.h"

#include <gtest/gtest.h>

#include <string>

#include "api/request/responses_request.h"
#include "tests/api/request/small_context.h"
#include "tests/support/cpu_time.h"

namespace hydrant {
namespace {

using OrderedValue = nlohmann::ordered_json;

std::string ItemsBody(const std::string& input, const std::string& members = "") {
  return R"({"input":)" + input + members + "}";
}

// The messages that a template gets to see; else why not.
std::string MessagesOfItems(const std::string& body) {
  const ApiResult<ResponsesRequest> parsed = ParseResponsesRequest(body, SmallContext());
  if (!parsed.ok()) return parsed.error().param + ": " + parsed.error().message;
  ItemMessages messages(parsed.value().instructions);
  const std::optional<ApiError> error = messages.Add(parsed.value().items, "input");
  return error.has_value() ? error->param + ": " + error->message : OrderedValue(messages.messages()).dump();
}

TEST(ResponseItems, BecomeWhatTemplatesRead) {
  EXPECT_EQ(MessagesOfItems(ItemsBody(R"("hi")", R"(,"instructions":"s")")),
            R"([{"role":"system","content":"s"},{"role":"user","content":"hi"}])");
  EXPECT_EQ(MessagesOfItems(ItemsBody(
                R"([{"type":"message","role":"developer","content":"d"},)"
                R"({"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]}])",
                R"(,"instructions":"s")")),
            R"([{"role":"system","content":"s\n\nd"},{"role":"user","content":"a\nb"}])");
  const std::string called =
      R"([{"role":"user","content":"?"},)"
      R"({"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},)"
      R"({"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Let me.","annotations":[]}]},)"
      R"({"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{\"x\":1}"},)"
      R"({"type":"custom_tool_call","call_id":"c2","name":"g","input":"do"},)"
      R"({"type":"function_call_output","call_id":"c1","output":"one"},)"
      R"({"type":"custom_tool_call_output","call_id":"c2","output":[{"type":"input_text","text":"two"}]}])";
  EXPECT_EQ(
      MessagesOfItems(ItemsBody(called)),
      R"([{"role":"user","content":"?"},{"role":"assistant","content":"Let me.","reasoning_content":"hm","tool_calls":[)"
      R"({"id":"c1","type":"function","function":{"name":"f","arguments":{"x":1}}},)"
      R"({"id":"c2","type":"function","function":{"name":"g","arguments":{"input":"do"}}}]},)"
      R"({"role":"tool","tool_call_id":"c1","name":"f","content":"one"},)"
      R"({"role":"tool","tool_call_id":"c2","name":"g","content":"two"}])");
  // A call without words before it has a message of its own.
  EXPECT_EQ(MessagesOfItems(ItemsBody(
                R"([{"role":"user","content":"?"},{"type":"function_call","call_id":"c","name":"f","arguments":""}])")),
            R"([{"role":"user","content":"?"},{"role":"assistant","content":null,"tool_calls":[)"
            R"({"id":"c","type":"function","function":{"name":"f","arguments":{}}}]}])");
  // One that was cut off has the members that came whole.
  const std::string cut =
      R"([{"type":"function_call","call_id":"c","name":"f","status":"incomplete","arguments":"{\"x\": 1, \"y"}])";
  EXPECT_EQ(MessagesOfItems(ItemsBody(cut)),
            R"([{"role":"assistant","content":null,"tool_calls":[)"
            R"({"id":"c","type":"function","function":{"name":"f","arguments":{"x":1}}}]}])");
  EXPECT_EQ(MessagesOfItems(ItemsBody(
                R"([{"type":"function_call","status":"incomplete","call_id":"c","name":"f","arguments":"{\"x\":"}])")),
            R"([{"role":"assistant","content":null,"tool_calls":[)"
            R"({"id":"c","type":"function","function":{"name":"f","arguments":{}}}]}])");
  EXPECT_EQ(MessagesOfItems(ItemsBody(R"([{"type":"function_call_output","call_id":"c","output":""}])")),
            "input[0].call_id: There is no call of this id before it.");
}

TEST(ResponseItems, WhatComesFirstIsOneMessageOfTheFirstsRole) {
  EXPECT_EQ(
      MessagesOfItems(ItemsBody(R"([{"role":"developer","content":"d"},{"role":"system","content":"s"},)"
                                R"({"role":"user","content":"u"},{"role":"developer","content":"e"}])")),
      R"([{"role":"developer","content":"d\n\ns"},{"role":"user","content":"u"},{"role":"developer","content":"e"}])");
}

// Every one was put behind a copy of those before it.
TEST(ResponseItems, WhatComesFirstIsReadInTheTimeOfItsBytes) {
  constexpr size_t kBytes = 60;
  const OrderedValue part = {{"type", "input_text"}, {"text", std::string(kBytes, 'a')}};
  const OrderedValue item = {{"type", "message"}, {"role", "system"}, {"content", OrderedValue::array({part})}};
  const auto read = [&](size_t count) {
    ItemMessages messages("s");
    EXPECT_FALSE(messages.Add(OrderedValue::array_t(count, item), "input").has_value());
    EXPECT_EQ(messages.messages().size(), 1u);
    EXPECT_GT(OrderedValue(messages.messages()).dump().size(), count * kBytes);
  };
  EXPECT_LT(GrowthOfEightfold(3'000, read), kLinearGrowth);
}

TEST(ResponseItems, ReasoningComesBackAsItWasGiven) {
  const auto thought = [](const std::string& members) {
    return MessagesOfItems(ItemsBody(R"([{"type":"reasoning")" + members + R"(},{"role":"assistant","content":"a"}])"));
  };
  const std::string hm = R"([{"role":"assistant","content":"a","reasoning_content":"hm"}])";
  EXPECT_EQ(thought(R"(,"content":[{"type":"reasoning_text","text":"hm"}],"encrypted_content":"eA==")"), hm);
  EXPECT_EQ(thought(R"(,"content":null,"encrypted_content":"aG0=","summary":[])"), hm);
  EXPECT_EQ(thought(R"(,"encrypted_content":"of another server","summary":[{"type":"summary_text","text":"hm"}])"), hm);
  EXPECT_EQ(thought(""), R"([{"role":"assistant","content":"a"}])");
  EXPECT_EQ(thought(R"(,"content":7)"), "input[0].content: It must be an array.");
}

TEST(ResponseItems, WhatWasThoughtStaysInItsTurnAndIsAllThere) {
  const auto thought = [](const std::string& text) {
    return R"({"type":"reasoning","content":[{"type":"reasoning_text","text":")" + text + "\"}]}";
  };
  const std::string user = R"({"role":"user","content":"u"})", said = R"({"role":"assistant","content":"a"})",
                    call = R"({"type":"function_call","call_id":"c","name":"f","arguments":"{}"})",
                    output = R"({"type":"function_call_output","call_id":"c","output":"1"})";
  const auto read = [](const std::string& items) { return MessagesOfItems(ItemsBody("[" + items + "]")); };
  const std::string both = R"({"role":"assistant","content":"a","reasoning_content":"one\ntwo"})";
  EXPECT_EQ(read(thought("one") + "," + thought("two") + "," + said), "[" + both + "]");
  EXPECT_EQ(read(thought("one") + "," + thought("two") + "," + call),
            R"([{"role":"assistant","content":null,"reasoning_content":"one\ntwo","tool_calls":[{"id":"c",)"
            R"("type":"function","function":{"name":"f","arguments":{}}}]}])");
  // Nothing else came of a turn that ended there.
  const std::string alone = R"({"role":"assistant","content":"","reasoning_content":"one"})";
  EXPECT_EQ(read(user + "," + thought("one") + "," + user + "," + said),
            "[" + user + "," + alone + "," + user + "," + said + "]");
  EXPECT_EQ(read(call + "," + thought("one") + "," + output),
            R"([{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f",)"
            R"("arguments":{}}}],"reasoning_content":"one"},)"
            R"({"role":"tool","tool_call_id":"c","name":"f","content":"1"}])");
  EXPECT_EQ(read(user + "," + thought("one")), "[" + user + "," + alone + "]");
}

}  // namespace
}  // namespace hydrant
