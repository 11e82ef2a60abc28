#include "api/wire/messages_error.h"

#include <gtest/gtest.h>

namespace hydrant {
namespace {

TEST(MessagesError, HasTheirShapeAndOurFieldAndCode) {
  EXPECT_EQ(MessagesErrorJson(InvalidField("max_tokens", "say \"how\" many", "missing_field"), "req1"),
            R"({"type":"error","error":{"type":"invalid_request_error","message":"say \"how\" many",)"
            R"("param":"max_tokens","code":"missing_field"},"request_id":"req1"})");
}

TEST(MessagesError, HasTheirWordForEachStatus) {
  const struct {
    ApiError error;
    int status;
    std::string_view type;
  } cases[] = {
      {Unauthorized(), 401, "authentication_error"},
      {Forbidden("", "host_not_allowed"), 403, "permission_error"},
      {ModelNotFound("m"), 404, "not_found_error"},
      {RouteNotFound(), 404, "not_found_error"},
      {RequestTimeout(), 408, "timeout_error"},
      {Conflict("", "session_busy"), 409, "invalid_request_error"},
      {PayloadTooLarge(1), 413, "request_too_large"},
      {RateLimited("", "rate_limit_exceeded", 1), 429, "rate_limit_error"},
      {ServerError("", "internal_error"), 500, "api_error"},
      {Overloaded("", "queue_full", 1), 529, "overloaded_error"},
      {QueueTimeExceeded(1, 1), 504, "timeout_error"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(MessagesErrorStatus(c.error), c.status);
    EXPECT_EQ(MessagesErrorType(c.error), c.type) << c.status;
  }
}

TEST(MessagesError, SaysThatAPromptIsTooLongInWordsThatClientsLookFor) {
  const std::string json = MessagesErrorJson(ContextLengthExceeded(8, 9, 1), "r");
  EXPECT_NE(json.find(R"("message":"prompt is too long: )"), std::string::npos) << json;
}

}  // namespace
}  // namespace hydrant
