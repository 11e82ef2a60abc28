#include "api/request/chat_tools.h"

#include <gtest/gtest.h>

namespace hydrant {
namespace {

// What a body with these tools is answered.
std::optional<ApiError> Error(const std::string& tools) {
  const std::string body = "{\"tools\":" + tools + "}";
  const ApiResult<JsonBody> document = JsonBody::Parse(body, RequestLimits());
  std::optional<ApiError> error;
  ObjectReader reader(document.value().root(), "", &error);
  ReadTools(&reader);
  return error;
}

// The field that is at fault; empty: none.
std::string Fault(const std::string& tools) {
  const std::optional<ApiError> error = Error(tools);
  return error.has_value() ? error->param : "";
}

std::string Named(const std::string& name, const std::string& parameters = R"({"type":"object"})") {
  return R"([{"type":"function","function":{"name":")" + name + R"(","parameters":)" + parameters + "}}]";
}

TEST(ChatTools, AcceptsWhatClientsSend) {
  for (const std::string& tools :
       {std::string("[]"), std::string("null"), Named("get_weather"),
        Named("f", R"({"type":"object","properties":{"a":{"type":["string","null"]}}})"),
        Named("f", R"({"anyOf":[{"type":"string"},{"type":"integer"}],"items":{"type":"null"}})"),
        // Nothing here runs a pattern, however long that would take.
        Named("f", R"({"properties":{"a":{"type":"string","pattern":"(a+)+b"}}})"),
        std::string(R"([{"type":"function","function":{"name":"f","description":"d","strict":false}}])"),
        std::string(R"([{"type":"function","function":{"name":"f","strict":null}}])")}) {
    EXPECT_EQ(Fault(tools), "") << tools;
  }
}

TEST(ChatTools, StrictIsABoolean) {
  EXPECT_EQ(Fault(R"([{"type":"function","function":{"name":"g","strict":true}}])"), "");
  const std::optional<ApiError> odd = Error(R"([{"type":"function","function":{"name":"g","strict":"yes"}}])");
  ASSERT_TRUE(odd.has_value());
  EXPECT_EQ(odd->code, "invalid_type");
  EXPECT_EQ(odd->param, "tools[0].function.strict");
}

TEST(ChatTools, RefusesWhatIsNoTool) {
  std::string many = "[";
  for (int i = 0; i < 10'000; ++i)
    many += std::string(i > 0 ? "," : "") + R"({"type":"function","function":{"name":"f"}})";
  EXPECT_EQ(Fault(many + "]"), "tools");
  EXPECT_EQ(Fault("{}"), "tools");
  const std::string bad[] = {"[1]",
                             R"([{"type":"stsring","function":{"name":"f"}}])",
                             R"([{"function":{"name":"f"}}])",
                             R"([{"type":"function"}])",
                             Named(""),
                             Named("a b"),
                             Named(std::string(1'000'000, 'a')),
                             Named("f", R"({"type":"stsring"})"),
                             Named("f", "[]"),
                             Named("f", R"({"properties":{"a":{"items":{"type":"stsring"}}}})"),
                             Named("f", R"({"oneOf":[{"type":7}]})"),
                             Named("f", R"({"items":7})"),
                             Named("f", R"({"items":[{"type":"stsring"}]})"),
                             Named("f", R"({"prefixItems":[{"type":"stsring"}]})"),
                             Named("f", R"({"additionalProperties":{"type":"stsring"}})"),
                             Named("f", R"({"patternProperties":{"^a":{"type":"stsring"}}})"),
                             Named("f", R"({"patternProperties":{"(":{"type":"string"}}})"),
                             Named("f", R"({"properties":{"a":{"type":"string","pattern":"("}}})"),
                             Named("f", R"({"pattern":7})"),
                             Named("f", R"({"not":{"type":"stsring"}})"),
                             Named("f", R"({"if":{},"then":{"type":"stsring"}})")};
  EXPECT_EQ(Fault(Named("f", R"({"type":"integer","maximum":18446744073709551616})")), "tools");
  const std::string good = R"({"items":[{"type":"string"},true],"additionalProperties":false,"not":{},"then":null})";
  EXPECT_EQ(Fault(Named("f", good)), "");
  for (const std::string& tools : bad) EXPECT_EQ(Fault(tools), "tools[0]") << tools.substr(0, 90);
}

TEST(ChatTools, SaysWhatASchemaHasWrong) {
  EXPECT_EQ(Error(Named("f", R"({"items":{"pattern":"("}})"))->message,
            "A function's 'parameters' must be a JSON schema: a pattern has a ( without its ).");
  EXPECT_EQ(Error(Named("f", R"({"anyOf":[{"$defs":[]}]})"))->message,
            "A function's 'parameters' must be a JSON schema: '$defs' must be an object.");
}

}  // namespace
}  // namespace hydrant
