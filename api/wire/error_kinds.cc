#include "api/wire/error_kinds.h"

namespace hydrant {

std::span<const ErrorKind> ErrorKinds() { return error_kinds::kTable; }

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

}  // namespace hydrant
