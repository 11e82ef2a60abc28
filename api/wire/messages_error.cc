#include "api/wire/messages_error.h"

#include "api/wire/json_writer.h"

namespace hydrant {

int MessagesErrorStatus(const ApiError& error) { return error.status == 503 ? 529 : error.status; }

std::string_view MessagesErrorType(const ApiError& error) {
  switch (error.status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 408:
    case 504:
      return "timeout_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return error.status < 500 ? "invalid_request_error" : "api_error";
  }
}

std::string MessagesErrorJson(const ApiError& error, std::string_view request_id) {
  // By these words Claude Code knows that it has to shorten the conversation.
  constexpr std::string_view kTooLong = "prompt is too long: ";
  std::string out = "{\"type\":\"error\",\"error\":{\"type\":";
  AppendJsonString(&out, MessagesErrorType(error));
  out.append(",\"message\":\"");
  if (error.code == "context_length_exceeded") out.append(kTooLong);
  AppendJsonEscaped(&out, error.message);
  out.push_back('"');
  if (!error.param.empty()) {
    out.append(",\"param\":");
    AppendJsonString(&out, error.param);
  }
  if (!error.code.empty()) {
    out.append(",\"code\":");
    AppendJsonString(&out, error.code);
  }
  out.append("},\"request_id\":");
  AppendJsonString(&out, request_id);
  out.push_back('}');
  return out;
}

}  // namespace hydrant
