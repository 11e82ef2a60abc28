#include "api/request/messages_request.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/api/request/small_context.h"
#include "tests/support/cpu_time.h"

namespace hydrant {
namespace {

RequestContext Context() {
  RequestContext context = SmallContext();
  context.limits.messages_max = 8;
  return context;
}

// A body with these messages and members.
std::string BodyOf(const std::string& messages, const std::string& members = "") {
  return R"({"max_tokens":9,"messages":[)" + messages + "]" + members + "}";
}

constexpr const char* kHi = R"({"role":"user","content":"hi"})";

// The messages that a template gets to see; else why not.
std::string Messages(const std::string& body) {
  const ApiResult<MessagesRequest> parsed = ParseMessagesRequest(body, Context());
  return parsed.ok() ? parsed.value().conversation.messages.dump()
                     : parsed.error().param + ": " + parsed.error().message;
}

TEST(MessagesRequest, HasTheDocumentedDefaults) {
  const ApiResult<MessagesRequest> parsed = ParseMessagesRequest(BodyOf(kHi), Context());
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const MessagesRequest& request = parsed.value();
  EXPECT_EQ(request.max_tokens, 9);
  EXPECT_EQ(request.asked_tokens, 9);
  EXPECT_TRUE(request.fits_context);
  EXPECT_FALSE(request.stream);
  EXPECT_FALSE(request.add_special_tokens);
  EXPECT_TRUE(request.conversation.add_generation_prompt);
  EXPECT_FALSE(request.conversation.continue_final_message);
  EXPECT_TRUE(request.conversation.tools.is_null());
  EXPECT_EQ(request.conversation.enable_thinking, std::nullopt);
  EXPECT_FALSE(request.include_reasoning) << "it was not asked for";
  EXPECT_EQ(request.conversation.messages.dump(), R"([{"role":"user","content":"hi"}])");
}

TEST(MessagesRequest, PutsTheSystemFirstWithoutWhatIsForBilling) {
  EXPECT_EQ(Messages(BodyOf(kHi, R"(,"system":"s")")),
            R"([{"role":"system","content":"s"},{"role":"user","content":"hi"}])");
  EXPECT_EQ(Messages(BodyOf(
                kHi, R"(,"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=1; cch=ab"},)"
                     R"({"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"type":"text","text":"b"}])")),
            R"([{"role":"system","content":"a\n\nb"},{"role":"user","content":"hi"}])");
  EXPECT_EQ(Messages(BodyOf(kHi, R"(,"system":[])")), R"([{"role":"user","content":"hi"}])");
}

// Only the system is where the line comes from; a tool may read it out of a file, and a user ask about it.
TEST(MessagesRequest, KeepsWhatIsForBillingWhereItIsSomebodysText) {
  const std::string line = R"({"type":"text","text":"x-anthropic-billing-header: a"})";
  EXPECT_EQ(Messages(BodyOf(R"({"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]},)"
                            R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[)" +
                            line + "]}," + line + "]}")),
            R"([{"role":"assistant","content":null,"tool_calls":[{"id":"t","type":"function","function":)"
            R"({"name":"f","arguments":{}}}]},{"role":"tool","tool_call_id":"t","name":"f",)"
            R"("content":"x-anthropic-billing-header: a"},{"role":"user","content":"x-anthropic-billing-header: a"}])");
}

TEST(MessagesRequest, MakesToolUsesAndResultsWhatTemplatesRead) {
  const std::string body = BodyOf(
      R"({"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},)"
      R"({"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"x"},{"type":"redacted_thinking",)"
      R"("data":"y"},{"type":"text","text":"c"},{"type":"tool_use","id":"t1","name":"f","input":{"x":1}}]},)"
      R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"42"}]},)"
      R"({"type":"text","text":"go on"}]})");
  EXPECT_EQ(
      Messages(body),
      R"([{"role":"user","content":"a\nb"},{"role":"assistant","content":"c","reasoning_content":"hm","tool_calls":)"
      R"([{"id":"t1","type":"function","function":{"name":"f","arguments":{"x":1}}}]},)"
      R"({"role":"tool","tool_call_id":"t1","name":"f","content":"42"},{"role":"user","content":"go on"}])");
}

TEST(MessagesRequest, JoinsNeighboursOfOneRoleAndGoesOnWithAnAnswer) {
  const ApiResult<MessagesRequest> parsed = ParseMessagesRequest(
      BodyOf(R"({"role":"user","content":"a"},{"role":"user","content":"b"},{"role":"assistant","content":"It"},)"
             R"({"role":"assistant","content":" is"})"),
      Context());
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed.value().conversation.messages.dump(),
            R"([{"role":"user","content":"a\nb"},{"role":"assistant","content":"It is"}])");
  EXPECT_TRUE(parsed.value().conversation.continue_final_message);
  EXPECT_FALSE(parsed.value().conversation.add_generation_prompt);
}

TEST(MessagesRequest, JoinsNeighboursOfTheAssistantWhateverBlocksTheyHave) {
  const auto use = [](const std::string& id) {
    return R"({"type":"tool_use","id":")" + id + R"(","name":"f","input":{}})";
  };
  const auto called = [](const std::string& id) {
    return R"({"id":")" + id + R"(","type":"function","function":{"name":"f","arguments":{}}})";
  };
  const std::string results =
      R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"a"},{"type":"tool_result","tool_use_id":"b"}]})";
  EXPECT_EQ(Messages(BodyOf(
                R"({"role":"assistant","content":[{"type":"thinking","thinking":"h"}]},)"
                R"({"role":"assistant","content":[{"type":"thinking","thinking":"m"},{"type":"text","text":"It"},)" +
                use("a") + R"(]},{"role":"assistant","content":" is"},{"role":"assistant","content":[)" + use("b") +
                "]}," + results)),
            R"([{"role":"assistant","content":"It is","reasoning_content":"hm","tool_calls":[)" + called("a") + "," +
                called("b") + R"(]},{"role":"tool","tool_call_id":"a","name":"f","content":""},)" +
                R"({"role":"tool","tool_call_id":"b","name":"f","content":""}])");
}

// Every block was put behind a copy of those before it.
TEST(MessagesRequest, ReadsManyBlocksInTheTimeOfTheirBytes) {
  constexpr size_t kBytes = 60;
  const auto read = [](size_t count) {
    std::string blocks;
    for (size_t i = 0; i < count; ++i) {
      blocks +=
          (i > 0 ? R"(,{"type":"text","text":")" : R"({"type":"text","text":")") + std::string(kBytes, 'a') + "\"}";
    }
    EXPECT_GT(Messages(BodyOf(R"({"role":"user","content":[)" + blocks + "]}")).size(), count * kBytes);
  };
  EXPECT_LT(GrowthOfEightfold(3'000, read), kLinearGrowth);
}

TEST(MessagesRequest, ReadsToolsAndWhetherTheyMayBeCalled) {
  const std::string tools =
      R"(,"tools":[{"name":"f","description":"d","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}},)"
      R"({"type":"custom","name":"g","input_schema":{}}])";
  const ApiResult<MessagesRequest> both = ParseMessagesRequest(BodyOf(kHi, tools), Context());
  ASSERT_TRUE(both.ok()) << both.error().message;
  EXPECT_TRUE(both.value().parses_tool_calls);
  EXPECT_TRUE(both.value().parallel_tool_calls);
  EXPECT_EQ(both.value().conversation.tools.dump(),
            R"([{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}},)"
            R"({"type":"function","function":{"name":"g","parameters":{}}}])");
  const ApiResult<MessagesRequest> one = ParseMessagesRequest(
      BodyOf(kHi, tools + R"(,"tool_choice":{"type":"auto","disable_parallel_tool_use":true})"), Context());
  EXPECT_FALSE(one.value().parallel_tool_calls);
  const ApiResult<MessagesRequest> none =
      ParseMessagesRequest(BodyOf(kHi, tools + R"(,"tool_choice":{"type":"none"})"), Context());
  EXPECT_TRUE(none.value().conversation.tools.is_null());
  EXPECT_FALSE(none.value().parses_tool_calls);
}

TEST(MessagesRequest, ReadsWhatIsSaidOtherwiseElsewhere) {
  const ApiResult<MessagesRequest> parsed = ParseMessagesRequest(
      BodyOf(
          kHi,
          R"(,"stop_sequences":["END"],"thinking":{"type":"disabled"},"output_config":{"effort":"low"},)"
          R"("metadata":{"user_id":"u"},"service_tier":"auto","top_k":5,"temperature":1,"stream":true,)"
          R"("context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]},"mcp_servers":[],"speed":"standard")"),
      Context());
  ASSERT_TRUE(parsed.ok()) << parsed.error().param << parsed.error().message;
  EXPECT_EQ(parsed.value().stop, std::vector<std::string>{"END"});
  EXPECT_EQ(parsed.value().conversation.enable_thinking, false);
  EXPECT_EQ(parsed.value().conversation.reasoning_effort, "low");
  EXPECT_EQ(parsed.value().top_k, 5);
  EXPECT_TRUE(parsed.value().stream);
}

TEST(MessagesRequest, RefusesByName) {
  const struct {
    std::string messages, members, param, code;
  } cases[] = {
      {"", "", "messages", "invalid_value"},
      {"1", "", "messages[0]", "invalid_type"},
      {R"({"content":"a"})", "", "messages[0].role", "missing_field"},
      {R"({"role":"system","content":"a"})", "", "messages[0].role", "invalid_value"},
      {R"({"role":"user"})", "", "messages[0].content", "missing_field"},
      {R"({"role":"user","content":7})", "", "messages[0].content", "invalid_type"},
      {R"({"role":"user","content":[7]})", "", "messages[0].content[0]", "invalid_type"},
      {R"({"role":"user","content":[{"type":"text"}]})", "", "messages[0].content[0]", "missing_field"},
      {R"({"role":"user","content":[{"type":"image","source":{}}]})", "", "messages[0].content[0].type", "unsupported"},
      {R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]})", "",
       "messages[0].content[0].tool_use_id", "invalid_value"},
      {R"({"role":"assistant","content":[{"type":"server_tool_use"}]})", "", "messages[0].content[0].type",
       "unsupported"},
      {R"({"role":"assistant","content":[{"type":"tool_use","id":"t","name":"a b","input":{}}]})", "",
       "messages[0].content[0].name", "invalid_value"},
      {R"({"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":"{}"}]})", "",
       "messages[0].content[0].input", "invalid_type"},
      {R"({"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]})", "", "messages",
       "invalid_value"},
      {kHi, R"(,"system":[{"type":"image"}])", "system[0].type", "unsupported"},
      {kHi, R"(,"tools":[{"name":"f"}])", "tools[0]", "invalid_value"},
      {kHi, R"(,"tools":[{"type":"web_search_20250305","name":"web_search"}])", "tools[0].type", "unsupported"},
      {kHi, R"(,"tools":[{"name":"f","input_schema":{},"strict":true}])", "tools", "unsupported"},
      {kHi, R"(,"tool_choice":{"type":"any"})", "tool_choice.type", "invalid_value"},
      {kHi, R"(,"tool_choice":{"type":"tool","name":"f"})", "tool_choice.name", "invalid_value"},
      {kHi, R"(,"tool_choice":{"type":"x"})", "tool_choice.type", "invalid_value"},
      {kHi, R"(,"thinking":{"type":"adaptive","display":"full"})", "thinking.display", "invalid_value"},
      {kHi, R"(,"thinking":{"type":"enabled"})", "thinking.budget_tokens", "missing_field"},
      {kHi, R"(,"thinking":{"type":"enabled","budget_tokens":2048})", "thinking.budget_tokens", "invalid_value"},
      {kHi, R"(,"output_config":{"format":{"type":"json_schema"}})", "output_config.format.schema", "missing_field"},
      {kHi, R"(,"output_config":{"task_budget":{"type":"tokens","total":9}})", "output_config.task_budget",
       "unknown_field"},
      {kHi, R"(,"output_config":{"format":{"type":"json_schema","schema":{}}})", "output_config.format.schema",
       "unsupported"},
      {kHi, R"(,"context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]})", "context_management.edits",
       "unsupported"},
      {kHi, R"(,"mcp_servers":[{}])", "mcp_servers", "unsupported"},
      {kHi, R"(,"container":"c")", "container", "unsupported"},
      {kHi, R"(,"speed":"fast")", "speed", "unsupported"},
      {kHi, R"(,"diagnostics":{})", "diagnostics", "unsupported"},
      {kHi, R"(,"temperature":1.5)", "temperature", "invalid_value"},
      {kHi, R"(,"stop":"x")", "stop", "unsupported"},
      {kHi, R"(,"n":2)", "n", "unsupported"},
      {kHi, R"(,"max_tokens":0)", "max_tokens", "invalid_value"},
      {kHi, R"(,"max_tokens":null)", "max_tokens", "missing_field"},
      {kHi, R"(,"guided_json":{})", "guided_json", "unsupported"},
  };
  for (const auto& c : cases) {
    const ApiResult<MessagesRequest> parsed = ParseMessagesRequest(BodyOf(c.messages, c.members), Context());
    ASSERT_FALSE(parsed.ok()) << c.messages << c.members;
    EXPECT_EQ(parsed.error().status, 400);
    EXPECT_EQ(parsed.error().param, c.param) << c.messages << c.members << parsed.error().message;
    EXPECT_EQ(parsed.error().code, c.code) << c.messages << c.members;
  }
  RequestContext holds = Context();
  holds.constraints = true;
  holds.tool_format = "hermes";
  const ApiResult<MessagesRequest> stops = ParseMessagesRequest(
      BodyOf(kHi, R"(,"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"any"},"stop_sequences":["x"])"),
      holds);
  ASSERT_FALSE(stops.ok());
  EXPECT_EQ(stops.error().param, "stop_sequences") << stops.error().message;
}

// Each result becomes a message of its own: so few messages cannot make many.
TEST(MessagesRequest, BoundsWhatMessagesBecome) {
  std::string results;
  for (int i = 0; i < 8; ++i) results += std::string(i > 0 ? "," : "") + R"({"type":"tool_result","tool_use_id":"t"})";
  const std::string call = R"({"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]},)";
  const std::string said = Messages(BodyOf(call + R"({"role":"user","content":[)" + results + "]}"));
  EXPECT_TRUE(said.starts_with("messages: ")) << said;
}

TEST(CountTokensRequest, NeedsNoMaxTokensAndIsCheckedAlike) {
  const std::string body = std::string(R"({"messages":[)") + kHi + R"(],"tools":[{"name":"f","input_schema":{}}]})";
  const ApiResult<Conversation> counted = ParseCountTokensRequest(body, Context());
  ASSERT_TRUE(counted.ok()) << counted.error().message;
  EXPECT_EQ(counted.value().tools.size(), 1u);
  EXPECT_FALSE(ParseCountTokensRequest(R"({"messages":[]})", Context()).ok());
}

}  // namespace
}  // namespace hydrant
