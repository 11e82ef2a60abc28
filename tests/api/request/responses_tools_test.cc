#include "api/request/responses_tools.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "api/request/responses_request.h"
#include "tests/api/request/small_context.h"

namespace hydrant {
namespace {

using OrderedValue = nlohmann::ordered_json;

std::string ToolsBody(const std::string& input, const std::string& members = "") {
  return R"({"input":)" + input + members + "}";
}

ApiResult<ResponsesRequest> ParseTools(const std::string& body) { return ParseResponsesRequest(body, SmallContext()); }

TEST(ResponsesTools, AreReadAndThoseThatAreNotOfferedAreTold) {
  const ApiResult<ResponsesRequest> parsed = ParseTools(ToolsBody(
      R"("hi")",
      R"(,"tools":[{"type":"function","name":"f","description":"d","parameters":{"type":"object"},"strict":false},)"
      R"({"type":"web_search"},{"type":"custom","name":"g"},{"type":"local_shell"}])"));
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const ResponsesRequest& request = parsed.value();
  EXPECT_EQ(request.tools_not_offered, "web_search, local_shell");
  EXPECT_EQ(request.custom_tools, std::vector<std::string>{"g"});
  EXPECT_TRUE(request.parses_tool_calls);
  ASSERT_EQ(request.conversation.tools.size(), 2u);
  EXPECT_EQ(request.conversation.tools[0].dump(),
            R"({"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}})");
  EXPECT_EQ(request.conversation.tools[1]["function"]["parameters"]["required"].dump(), R"(["input"])");
  EXPECT_EQ(OrderedValue::parse("{" + request.head + "}")["tools"].dump(),
            R"([{"type":"function","name":"f","description":"d","parameters":{"type":"object"},"strict":false},)"
            R"({"type":"custom","name":"g","description":null,"format":{"type":"text"}}])");
  const ApiResult<ResponsesRequest> none =
      ParseTools(ToolsBody(R"("hi")", R"(,"tools":[{"type":"function","name":"f"}],"tool_choice":"none")"));
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none.value().conversation.tools.is_null());
}

// As a chat says it, whose tests are of what follows from it.
TEST(ResponsesTools, AChoiceHoldsAnswersAndIsRepeated) {
  RequestContext context = SmallContext();
  context.constraints = true;
  context.tool_format = "hermes";
  const std::string tools = R"(,"tools":[{"type":"function","name":"f","strict":true,"parameters":{"type":"object",)"
                            R"("properties":{},"required":[],"additionalProperties":false}},)"
                            R"({"type":"custom","name":"g"},{"type":"web_search"}])";
  const auto parse = [&](const std::string& choice) {
    return ParseResponsesRequest(ToolsBody(R"("hi")", tools + choice), context);
  };
  const struct {
    std::string choice, said;
    const char *choice_of_grammar, *last;  // tool of the grammar
  } held[] = {
      {"", R"("auto")", "auto", "g"},
      {R"(,"tool_choice":"required")", R"("required")", "required", "g"},
      {R"(,"tool_choice":{"type":"function","name":"f"})", R"({"type":"function","name":"f"})", "required", "f"},
      {R"(,"tool_choice":{"type":"custom","name":"g"})", R"({"type":"custom","name":"g"})", "required", "g"},
      {R"(,"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"f"},{"type":"web_search"}]})",
       R"({"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"f"},{"type":"web_search"}]})",
       "auto", "f"},
  };
  for (const auto& c : held) {
    const ApiResult<ResponsesRequest> parsed = parse(c.choice);
    ASSERT_TRUE(parsed.ok()) << c.choice << parsed.error().message;
    const ResponsesRequest& request = parsed.value();
    ASSERT_TRUE(request.constraint.has_value()) << c.choice;
    const OrderedValue spec = OrderedValue::parse(request.constraint->spec.text);
    EXPECT_EQ(spec["choice"], c.choice_of_grammar) << c.choice;
    EXPECT_EQ(spec["tools"].back()["name"], c.last) << c.choice;
    EXPECT_EQ(OrderedValue::parse("{" + request.echo + "}")["tool_choice"].dump(), c.said);
    EXPECT_EQ(OrderedValue::parse("{" + request.head + "}")["tools"][0]["strict"], true);
    EXPECT_EQ(request.head, parse("").value().head) << "a chain goes on from its tokens whatever may be called";
  }
  const ApiResult<ResponsesRequest> none = parse(R"(,"tool_choice":"none")");
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none.value().constraint.has_value());
  EXPECT_NE(none.value().head, parse("").value().head) << "its prompt has no tools";
  EXPECT_EQ(OrderedValue::parse("{" + none.value().head + "," + none.value().echo + "}")["tool_choice"], "none");
  EXPECT_FALSE(parse(R"(,"parallel_tool_calls":false,"tool_choice":"required")").value().parallel_tool_calls);
  std::string many = R"({"type":"function","name":"f"})";
  for (int i = 0; i < 128; ++i) many += R"(,{"type":"web_search"})";
  many = R"(,"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[)" + many + "]}";
  const struct {
    std::string choice;
    const char* code;
  } refused[] = {
      {R"(,"tool_choice":{"type":"web_search"})", "unsupported"},
      {R"(,"tool_choice":{"type":"function","name":"h"})", "invalid_value"},
      {R"(,"tool_choice":{"type":"function","function":{"name":"f"}})", "invalid_value"},
      {R"(,"tool_choice":{"type":"allowed_tools","mode":"any","tools":[{"type":"function","name":"f"}]})",
       "invalid_value"},
      {R"(,"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"web_search"}]})", "invalid_value"},
      {R"(,"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"f"},{"type":"custom"}]})",
       "invalid_value"},
      {many, "invalid_value"},
      {R"(,"tool_choice":7)", "invalid_value"}};
  for (const auto& c : refused) {
    const ApiResult<ResponsesRequest> parsed = parse(c.choice);
    ASSERT_FALSE(parsed.ok()) << c.choice;
    EXPECT_EQ(parsed.error().param, "tool_choice") << c.choice;
    EXPECT_EQ(parsed.error().code, c.code) << c.choice;
  }
  context.tool_format = "";
  EXPECT_EQ(parse("").error().code, "no_tool_call_format") << "strict is a promise";
}

}  // namespace
}  // namespace hydrant
