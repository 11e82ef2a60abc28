#include "api/request/responses_tools.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "api/request/responses_request.h"
#include "tests/api/request/small_context.h"

namespace hydrant {
namespace {

using Json = nlohmann::ordered_json;

std::string BodyOf(const std::string& input, const std::string& members = "") {
  return R"({"input":)" + input + members + "}";
}

ApiResult<ResponsesRequest> Parse(const std::string& body) { return ParseResponsesRequest(body, SmallContext()); }

TEST(ResponsesTools, AreReadAndThoseThatAreNotOfferedAreTold) {
  const ApiResult<ResponsesRequest> parsed = Parse(BodyOf(
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
  EXPECT_EQ(Json::parse("{" + request.head + "}")["tools"].dump(),
            R"([{"type":"function","name":"f","description":"d","parameters":{"type":"object"},"strict":false},)"
            R"({"type":"custom","name":"g","description":null,"format":{"type":"text"}}])");
  const ApiResult<ResponsesRequest> none =
      Parse(BodyOf(R"("hi")", R"(,"tools":[{"type":"function","name":"f"}],"tool_choice":"none")"));
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none.value().conversation.tools.is_null());
}

}  // namespace
}  // namespace hydrant
