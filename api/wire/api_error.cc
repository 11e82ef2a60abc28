#include "api/wire/api_error.h"

#include "absl/strings/str_cat.h"
#include "api/wire/json_writer.h"

namespace hydrant {
namespace {

template <int kStatus>
ApiError Make(ErrorCode<kStatus> code, std::string message, std::string_view param = "") {
  ApiError error;
  error.status = kStatus;
  error.type = code.kind().type;
  error.message = std::move(message);
  error.param = std::string(param);
  error.code = std::string(code.kind().code);
  return error;
}

}  // namespace

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

ApiError InvalidField(std::string_view param, std::string message, ErrorCode<400> code) {
  return Make(code, std::move(message), param);
}

ApiError UnsupportedField(std::string_view param, std::string_view what) {
  return InvalidField(param, absl::StrCat(std::string(what), " is not supported yet."), "unsupported");
}

ApiError EmptyPrompt() {
  return InvalidField("prompt", "'prompt' is empty, or has no tokens after tokenization.", "empty_prompt");
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

ApiError MalformedHttp(std::string message) { return Make<400>("malformed_http", std::move(message)); }

ApiError Unauthorized() {
  return Make<401>("invalid_api_key", "A valid API key is required: send it as 'Authorization: Bearer KEY'.");
}

ApiError Forbidden(std::string message, ErrorCode<403> code) { return Make(code, std::move(message)); }

ApiError ModelNotFound(std::string_view served_model_name) {
  return NotFound(
      absl::StrCat("The requested model does not exist. This server serves '", std::string(served_model_name), "'."),
      "model_not_found", "model");
}

ApiError RouteNotFound() { return Make<404>("route_not_found", "There is no endpoint at this path."); }

ApiError NotFound(std::string message, ErrorCode<404> code, std::string_view param) {
  return Make(code, std::move(message), param);
}

ApiError MethodNotAllowed(std::string allow) {
  ApiError error = Make<405>("method_not_allowed",
                             absl::StrCat("This endpoint does not support this method; it supports ", allow, "."));
  error.allow = std::move(allow);
  return error;
}

ApiError RequestTimeExceeded(double seconds_max, std::string_view limit) {
  return Make<504>("request_time_exceeded", absl::StrCat("This request took longer than it may: ", seconds_max,
                                                         " seconds (", std::string(limit), ")."));
}

ApiError QueueTimeExceeded(double seconds_max, int32_t retry_after_s) {
  assert(retry_after_s >= 1);
  ApiError error = Make<504>(
      "queue_time_exceeded",
      absl::StrCat("This request waited longer than requests may: ", seconds_max, " seconds (--queue-timeout-s)."));
  error.retry_after_s = retry_after_s;
  return error;
}

ApiError RequestTimeout() { return Make<408>("request_timeout", "The request did not arrive in time."); }

ApiError Conflict(std::string message, ErrorCode<409> code) { return Make(code, std::move(message)); }

ApiError LengthRequired() {
  return Make<411>("length_required", "A body with 'Content-Length' or chunked coding is required.");
}

ApiError PreconditionFailed(std::string message, ErrorCode<412> code, std::string_view param) {
  return Make(code, std::move(message), param);
}

ApiError TooLarge(std::string message, ErrorCode<413> code, std::string_view param) {
  return Make(code, std::move(message), param);
}

ApiError PayloadTooLarge(uint64_t body_bytes_max) {
  return Make<413>("payload_too_large",
                   absl::StrCat("The body is larger than the limit of ", body_bytes_max, " bytes."));
}

ApiError UriTooLong() { return Make<414>("uri_too_long", "The request target is too long."); }

ApiError UnsupportedMediaType(std::string message) { return Make<415>("unsupported_media_type", std::move(message)); }

ApiError ExpectationFailed() {
  return Make<417>("expectation_failed", "The only supported expectation is 'Expect: 100-continue'.");
}

ApiError RateLimited(std::string message, ErrorCode<429> code, int32_t retry_after_s) {
  assert(retry_after_s >= 1);
  ApiError error = Make(code, std::move(message));
  error.retry_after_s = retry_after_s;
  return error;
}

ApiError HeadersTooLarge() {
  return Make<431>("headers_too_large", "The header block is too large or has too many fields.");
}

ApiError ServerError(std::string message, ErrorCode<500> code) { return Make(code, std::move(message)); }

ApiError NotImplemented(std::string message) { return Make<501>("not_implemented", std::move(message)); }

ApiError Overloaded(std::string message, ErrorCode<503> code, int32_t retry_after_s) {
  assert(retry_after_s >= 1);
  ApiError error = Make(code, std::move(message));
  error.retry_after_s = retry_after_s;
  return error;
}

}  // namespace hydrant
