#include "api/wire/json_text.h"

#include <gtest/gtest.h>

#include "api/wire/limits.h"

namespace hydrant {
namespace {

std::optional<std::string> TextOf(std::string_view json) {
  const ApiResult<JsonBody> body = JsonBody::Parse(json, RequestLimits());
  EXPECT_TRUE(body.ok()) << json;
  return body.ok() ? JsonText(body.value().root()) : std::nullopt;
}

TEST(JsonTextTest, SaysTheSameInOneWay) {
  EXPECT_EQ(TextOf(R"( { "b" : [ 1 , -2.50, 0.010, 1E3, {} , [] ], "a\u0062" : "\u00e9\n", "n" : null, "t": true } )"),
            "{\"b\":[1,-2.5,0.01,1000,{},[]],\"ab\":\"\xc3\xa9\\n\",\"n\":null,\"t\":true}");
  EXPECT_EQ(TextOf("[18446744073709551615,-9223372036854775808,9.12,0.1]"),
            "[18446744073709551615,-9223372036854775808,9.12,0.1]");
  EXPECT_EQ(TextOf(R"({"a":1,"a":2})"), R"({"a":1,"a":2})");
}

TEST(JsonTextTest, NoIntegerIsRounded) { EXPECT_EQ(TextOf("[18446744073709551616]"), std::nullopt); }

}  // namespace
}  // namespace hydrant
