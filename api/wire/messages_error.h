// Errors as Anthropic's clients read them: {"type":"error","error":{"type":…,"message":…},"request_id":…}, with what is known
// beside the two, `param` and `code`.
//
// Thread: any (pure functions).
#ifndef HYDRANT_API_WIRE_MESSAGES_ERROR_H_
#define HYDRANT_API_WIRE_MESSAGES_ERROR_H_

#include <string>
#include <string_view>

#include "api/wire/api_error.h"

namespace hydrant {

// Its status there: an overloaded server is 529, not 503.
int MessagesErrorStatus(const ApiError& error);
// Their word for its type, by which their SDKs choose an exception.
std::string_view MessagesErrorType(const ApiError& error);
// The body, one line.
std::string MessagesErrorJson(const ApiError& error, std::string_view request_id);

}  // namespace hydrant

#endif  // HYDRANT_API_WIRE_MESSAGES_ERROR_H_
