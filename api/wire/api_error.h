// ApiError is the only way an error leaves the server: an HTTP status and the members of
// {"error": {"message", "type", "param", "code"}}. ApiResult<T> is a value or an ApiError.
//
// Thread: any (plain data, pure functions).
//
// Invariants:
//  1. `message` never holds text of the request: no prompt, no key, no parser internals. It may hold field names,
//     numbers, byte offsets, names the operator chose, and which place of a client's schema is wrong (a JSON Pointer).
//  2. Status, `type` and `code` are those of a row of error_kinds.h; clients branch on them.
//  3. 429, 503 and queue_time_exceeded always carry retry_after_s >= 1; 405 always carries `allow`.
#ifndef HYDRANT_API_WIRE_API_ERROR_H_
#define HYDRANT_API_WIRE_API_ERROR_H_

#include <cassert>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "api/wire/error_kinds.h"

namespace hydrant {

struct ApiError {
  int status = 500;
  ErrorType type = ErrorType::kServer;
  std::string message;
  std::string param;          // empty: null
  std::string code;           // empty: null
  int32_t retry_after_s = 0;  // > 0: send Retry-After
  std::string allow;          // not empty: send Allow
};

// The response body, one line, valid UTF-8: {"error":{"message":…,"type":…,"param":…,"code":…}}.
std::string ErrorJson(const ApiError& error);
// The same without the braces around "error", for a place where other members follow.
void AppendErrorObject(std::string* out, const ApiError& error);

// 400: the rule of one field. `param` is the field's path ("kv.budget"), empty for the body as a whole.
ApiError InvalidField(std::string_view param, std::string message, ErrorCode<400> code = kInvalidValue);
// 400 code "unsupported": known, but this server cannot do it. Says so instead of ignoring it.
ApiError UnsupportedField(std::string_view param, std::string_view what);
ApiError EmptyPrompt();                                                                         // 400 empty_prompt
ApiError ContextLengthExceeded(int64_t context, int64_t prompt_tokens, int64_t output_tokens);  // 400
// The same with rolling positions: what is held at once is above the context.
ApiError RollingContextExceeded(int64_t context, int64_t prompt_tokens, int64_t tokens_at_once);
ApiError KvCapacityExceeded(int64_t needed_blocks, int64_t pool_blocks);  // 400
ApiError MalformedHttp(std::string message);                              // 400 bad framing
ApiError Unauthorized();                                       // 401 invalid_api_key; send WWW-Authenticate: Bearer
ApiError Forbidden(std::string message, ErrorCode<403> code);  // 403
ApiError ModelNotFound(std::string_view served_model_name);    // 404 model_not_found, not_found_error
ApiError RouteNotFound();                                      // 404
ApiError NotFound(std::string message, ErrorCode<404> code, std::string_view param);  // 404 not_found_error
ApiError MethodNotAllowed(std::string allow);                                         // 405
// 504, both: the request took longer than `limit` lets it; it waited longer than that for the first of its sequences to be admitted.
ApiError RequestTimeExceeded(double seconds_max, std::string_view limit);
ApiError QueueTimeExceeded(double seconds_max, int32_t retry_after_s);
ApiError RequestTimeout();                                    // 408: the client did not send its request in time
ApiError Conflict(std::string message, ErrorCode<409> code);  // 409
ApiError LengthRequired();                                    // 411
ApiError PreconditionFailed(std::string message, ErrorCode<412> code, std::string_view param);  // 412
ApiError PayloadTooLarge(uint64_t body_bytes_max);                                              // 413
ApiError TooLarge(std::string message, ErrorCode<413> code, std::string_view param);            // 413
ApiError UriTooLong();                                                                          // 414
ApiError UnsupportedMediaType(std::string message);                                             // 415
ApiError ExpectationFailed();                                                                   // 417
ApiError RateLimited(std::string message, ErrorCode<429> code, int32_t retry_after_s);  // 429: this tenant's limit
ApiError HeadersTooLarge();                                                             // 431
ApiError ServerError(std::string message, ErrorCode<500> code);                         // 500
ApiError NotImplemented(std::string message);  // 501: unknown method or transfer coding
ApiError Overloaded(std::string message, ErrorCode<503> code, int32_t retry_after_s);  // 503: the whole server

template <typename T>
class [[nodiscard]] ApiResult {
 public:
  ApiResult(T value) : state_(std::in_place_index<0>, std::move(value)) {}         // NOLINT: implicit like StatusOr
  ApiResult(ApiError error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

  bool ok() const { return state_.index() == 0; }
  // REQUIRES: ok().
  T& value() {
    assert(ok());
    return *std::get_if<0>(&state_);
  }
  const T& value() const {
    assert(ok());
    return *std::get_if<0>(&state_);
  }
  // REQUIRES: !ok().
  const ApiError& error() const {
    assert(!ok());
    return *std::get_if<1>(&state_);
  }

 private:
  std::variant<T, ApiError> state_;
};

}  // namespace hydrant

#endif  // HYDRANT_API_WIRE_API_ERROR_H_
