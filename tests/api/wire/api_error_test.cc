#include "api/wire/api_error.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace hydrant {
namespace {

using Json = nlohmann::json;

TEST(ApiErrorTest, BodyHasTheFourMembersAndNullsForEmptyOnes) {
  EXPECT_EQ(ErrorJson(InvalidField("n", "bad n")),
            R"({"error":{"message":"bad n","type":"invalid_request_error","param":"n","code":"invalid_value"}})");
  ApiError broken = ServerError("broken", "internal_error");
  broken.code.clear();
  EXPECT_EQ(ErrorJson(broken), R"({"error":{"message":"broken","type":"server_error","param":null,"code":null}})");
}

TEST(ApiErrorTest, EveryHelperHasTheStatusAndTypeOfTheContract) {
  struct Case {
    const char* name;
    ApiError error;
    int status;
    const char* type;
    const char* code;
  };
  const Case cases[] = {
      {"invalid", InvalidField("x", "m"), 400, "invalid_request_error", "invalid_value"},
      {"unsupported", UnsupportedField("x", "'x'"), 400, "invalid_request_error", "unsupported"},
      {"empty prompt", EmptyPrompt(), 400, "invalid_request_error", "empty_prompt"},
      {"context", ContextLengthExceeded(8, 7, 2), 400, "invalid_request_error", "context_length_exceeded"},
      {"kv capacity", KvCapacityExceeded(9, 8), 400, "invalid_request_error", "kv_capacity_exceeded"},
      {"malformed", MalformedHttp("m"), 400, "invalid_request_error", "malformed_http"},
      {"unauthorized", Unauthorized(), 401, "authentication_error", "invalid_api_key"},
      {"forbidden", Forbidden("m", "host_not_allowed"), 403, "permission_error", "host_not_allowed"},
      {"model", ModelNotFound("m"), 404, "not_found_error", "model_not_found"},
      {"route", RouteNotFound(), 404, "invalid_request_error", "route_not_found"},
      {"method", MethodNotAllowed("GET"), 405, "invalid_request_error", "method_not_allowed"},
      {"request timeout", RequestTimeout(), 408, "timeout_error", "request_timeout"},
      {"conflict", Conflict("m", "session_busy"), 409, "conflict_error", "session_busy"},
      {"length", LengthRequired(), 411, "invalid_request_error", "length_required"},
      {"payload", PayloadTooLarge(1), 413, "invalid_request_error", "payload_too_large"},
      {"uri", UriTooLong(), 414, "invalid_request_error", "uri_too_long"},
      {"media", UnsupportedMediaType("m"), 415, "invalid_request_error", "unsupported_media_type"},
      {"expectation", ExpectationFailed(), 417, "invalid_request_error", "expectation_failed"},
      {"rate", RateLimited("m", "rate_limit_exceeded", 3), 429, "rate_limit_error", "rate_limit_exceeded"},
      {"headers", HeadersTooLarge(), 431, "invalid_request_error", "headers_too_large"},
      {"server", ServerError("m", "engine_failed"), 500, "server_error", "engine_failed"},
      {"not implemented", NotImplemented("m"), 501, "invalid_request_error", "not_implemented"},
      {"overloaded", Overloaded("m", "queue_full", 1), 503, "overloaded_error", "queue_full"},
      {"request time", RequestTimeExceeded(1.5, "timeout"), 504, "timeout_error", "request_time_exceeded"},
      {"queue time", QueueTimeExceeded(1.5, 3), 504, "timeout_error", "queue_time_exceeded"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    EXPECT_EQ(c.error.status, c.status);
    EXPECT_FALSE(c.error.message.empty());
    const Json body = Json::parse(ErrorJson(c.error));
    EXPECT_EQ(body["error"]["type"], c.type);
    EXPECT_EQ(body["error"]["code"], c.code);
    EXPECT_EQ(body["error"].size(), 4u);
    EXPECT_EQ(c.error.retry_after_s > 0, c.status == 429 || c.status == 503 || c.error.code == "queue_time_exceeded");
    EXPECT_EQ(!c.error.allow.empty(), c.status == 405);
  }
}

TEST(ApiErrorTest, ContextOverflowSaysTheThreeNumbersAsVllmDoes) {
  const ApiError error = ContextLengthExceeded(2048, 2000, 100);
  EXPECT_EQ(
      error.message,
      "This model's maximum context length is 2048 tokens. However, you requested 100 output tokens and your prompt "
      "contains 2000 input tokens, for a total of 2100 tokens. Please reduce the length of the input prompt or the "
      "number of requested output tokens.");
}

TEST(ApiResultTest, HoldsAValueOrAnError) {
  const ApiResult<int> value = 7;
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(value.value(), 7);
  const ApiResult<int> error = EmptyPrompt();
  ASSERT_FALSE(error.ok());
  EXPECT_EQ(error.error().code, "empty_prompt");
}

}  // namespace
}  // namespace hydrant
