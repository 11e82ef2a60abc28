#include "api/wire/ordered_json.h"

#include <gtest/gtest.h>

namespace hydrant {
namespace {

std::string RoundTrip(std::string_view text) {
  return OrderedJson(JsonBody::Parse(text, RequestLimits()).value().root()).value().dump();
}

TEST(OrderedJson, KeepsValuesAndTheOrderOfMembers) {
  for (const char* text :
       {"null", "true", "-7", "9223372036854775807", "9223372036854775808", "18446744073709551615",
        "-9223372036854775808", "1.5", R"("a\u00e9\n")", "[]", "{}", R"({"z":1,"a":[{"y":null,"b":2.5}],"m":"x"})"}) {
    EXPECT_EQ(RoundTrip(text), nlohmann::ordered_json::parse(text).dump());
  }
}

TEST(OrderedJson, HandsOnNoIntegerThatIsAnotherOne) {
  for (const char* text :
       {"18446744073709551616", "-9223372036854775809", R"({"a":[1,{"b":100000000000000000000}]})"}) {
    const ApiResult<JsonBody> body = JsonBody::Parse(text, RequestLimits());
    EXPECT_FALSE(OrderedJson(body.value().root()).has_value()) << text;
    std::optional<ApiError> error;
    ObjectReader request(JsonBody::Parse("{}", RequestLimits()).value().root(), "", &error);
    EXPECT_TRUE(ReadOrderedJson(&request, "documents", body.value().root()).is_null());
    EXPECT_EQ(error->param, "documents");
  }
}

TEST(OrderedJson, TakesALargeObjectInLinearTime) {
  std::string text = "{";
  for (int i = 0; i < 60'000; ++i) text += (i > 0 ? ",\"k" : "\"k") + std::to_string(i) + "\":1";
  EXPECT_EQ(OrderedJson(JsonBody::Parse(text + "}", RequestLimits()).value().root())->size(), 60'000u);
}

}  // namespace
}  // namespace hydrant
