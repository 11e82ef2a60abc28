#include "api/wire/api_error.h"

#include "absl/strings/str_cat.h"
#include "api/wire/json_writer.h"

namespace hydrant {
namespace {

ApiError Make(int status, ErrorType type, std::string message, std::string_view code = "",
              std::string_view param = "") {
  ApiError error;
  error.status = status;
  error.type = type;
  error.message = std::move(message);
  error.param = std::string(param);
  error.code = std::string(code);
  return error;
}

}  // namespace

std::string_view ErrorTypeName(ErrorType type) {
  switch (type) {
    case ErrorType::kInvalidRequest:
      return "invalid_request_error";
    case ErrorType::kNotFound:
      return "not_found_error";
    case ErrorType::kAuthentication:
      return "authentication_error";
    case ErrorType::kPermission:
      return "permission_error";
    case ErrorType::kConflict:
      return "conflict_error";
    case ErrorType::kRateLimit:
      return "rate_limit_error";
    case ErrorType::kOverloaded:
      return "overloaded_error";
    case ErrorType::kTimeout:
      return "timeout_error";
    case ErrorType::kServer:
      break;
  }
  return "server_error";
}

void AppendErrorObject(std::string* out, const ApiError& error) {
  out->append("\"error\":{\"message\":");
  AppendJsonString(out, error.message);
  out->append(",\"type\":");
  AppendJsonString(out, ErrorTypeName(error.type));
  out->append(",\"param\":");
  AppendJsonStringOrNull(out, error.param);
  out->append(",\"code\":");
  AppendJsonStringOrNull(out, error.code);
  out->push_back('}');
}

std::string ErrorJson(const ApiError& error) {
  std::string out = "{";
  AppendErrorObject(&out, error);
  out.push_back('}');
  return out;
}

ApiError InvalidField(std::string_view param, std::string message, std::string_view code) {
  return Make(400, ErrorType::kInvalidRequest, std::move(message), code, param);
}

ApiError UnsupportedField(std::string_view param, std::string_view what) {
  return InvalidField(param, absl::StrCat(std::string(what), " is not supported yet."), "unsupported");
}

ApiError EmptyPrompt() {
  return InvalidField("prompt", "'prompt' must be non-empty, also after it is encoded.", "empty_prompt");
}

ApiError ContextLengthExceeded(int64_t context, int64_t prompt_tokens, int64_t output_tokens) {
  return InvalidField(
      "prompt",
      absl::StrCat("This model's maximum context length is ", context, " tokens. However, you requested ",
                   output_tokens, " output tokens and your prompt contains ", prompt_tokens,
                   " input tokens, for a total of ", prompt_tokens + output_tokens,
                   " tokens. Please reduce the length of the input prompt or the number of requested output tokens."),
      "context_length_exceeded");
}

ApiError RollingContextExceeded(int64_t context, int64_t prompt_tokens, int64_t tokens_at_once) {
  return InvalidField(
      "prompt",
      absl::StrCat(
          "This model's maximum context length is ", context,
          " tokens. With rolling positions a text may be longer, but not what is held of it at once, which is ",
          tokens_at_once, " tokens here: the prompt (", prompt_tokens,
          " tokens) while it is computed, then 'kv.budget' and one more, or as many as a periodic 'kv.cadence' "
          "says. Shorten the prompt, set a smaller 'kv.budget', or set 'kv.prefill' to \"budgeted\"."),
      "context_length_exceeded");
}

ApiError KvCapacityExceeded(int64_t needed_blocks, int64_t pool_blocks) {
  return InvalidField(
      "prompt",
      absl::StrCat("This request needs ", needed_blocks, " KV blocks, but it can have only ", pool_blocks,
                   ". Shorten the prompt, ask for fewer tokens, or set a smaller 'kv.budget'."),
      "kv_capacity_exceeded");
}

ApiError MalformedHttp(std::string message) {
  return Make(400, ErrorType::kInvalidRequest, std::move(message), "malformed_http");
}

ApiError Unauthorized() {
  return Make(401, ErrorType::kAuthentication, "A valid API key is required: send it as 'Authorization: Bearer KEY'.",
              "invalid_api_key");
}

ApiError Forbidden(std::string message, std::string_view code) {
  return Make(403, ErrorType::kPermission, std::move(message), code);
}

ApiError ModelNotFound(std::string_view served_model_name) {
  return NotFound(
      absl::StrCat("The requested model does not exist. This server serves '", std::string(served_model_name), "'."),
      "model_not_found", "model");
}

ApiError RouteNotFound() {
  return Make(404, ErrorType::kInvalidRequest, "There is nothing at this path.", "route_not_found");
}

ApiError NotFound(std::string message, std::string_view code, std::string_view param) {
  return Make(404, ErrorType::kNotFound, std::move(message), code, param);
}

ApiError MethodNotAllowed(std::string allow) {
  ApiError error =
      Make(405, ErrorType::kInvalidRequest,
           absl::StrCat("This path does not answer this method; it answers ", allow, "."), "method_not_allowed");
  error.allow = std::move(allow);
  return error;
}

ApiError RequestTimeout() {
  return Make(408, ErrorType::kTimeout, "The request did not arrive in time.", "request_timeout");
}

ApiError Conflict(std::string message, std::string_view code) {
  return Make(409, ErrorType::kConflict, std::move(message), code);
}

ApiError LengthRequired() {
  return Make(411, ErrorType::kInvalidRequest, "A body with 'Content-Length' or chunked coding is required.",
              "length_required");
}

ApiError PayloadTooLarge(uint64_t body_bytes_max) {
  return Make(413, ErrorType::kInvalidRequest,
              absl::StrCat("The body is larger than the limit of ", body_bytes_max, " bytes."), "payload_too_large");
}

ApiError UriTooLong() {
  return Make(414, ErrorType::kInvalidRequest, "The request target is too long.", "uri_too_long");
}

ApiError UnsupportedMediaType(std::string message) {
  return Make(415, ErrorType::kInvalidRequest, std::move(message), "unsupported_media_type");
}

ApiError ExpectationFailed() {
  return Make(417, ErrorType::kInvalidRequest, "Only 'Expect: 100-continue' is understood.", "expectation_failed");
}

ApiError RateLimited(std::string message, std::string_view code, int32_t retry_after_s) {
  assert(retry_after_s >= 1);
  ApiError error = Make(429, ErrorType::kRateLimit, std::move(message), code);
  error.retry_after_s = retry_after_s;
  return error;
}

ApiError HeadersTooLarge() {
  return Make(431, ErrorType::kInvalidRequest, "The header block is too large or has too many fields.",
              "headers_too_large");
}

ApiError ServerError(std::string message, std::string_view code) {
  return Make(500, ErrorType::kServer, std::move(message), code);
}

ApiError NotImplemented(std::string message) {
  return Make(501, ErrorType::kInvalidRequest, std::move(message), "not_implemented");
}

ApiError Overloaded(std::string message, std::string_view code, int32_t retry_after_s) {
  assert(retry_after_s >= 1);
  ApiError error = Make(503, ErrorType::kOverloaded, std::move(message), code);
  error.retry_after_s = retry_after_s;
  return error;
}

}  // namespace hydrant
