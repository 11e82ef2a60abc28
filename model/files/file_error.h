// FileError is the one form of every refusal of a model file: "model.safetensors: tensor 'x': what is wrong", one line.
//
// Thread: any.
#ifndef HYDRANT_MODEL_FILES_FILE_ERROR_H_
#define HYDRANT_MODEL_FILES_FILE_ERROR_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "model/text/str_cat.h"

namespace hydrant {

// Text from a file, fit for a message: quoted, control and non-ASCII bytes escaped, at most 80 bytes of it.
std::string Quoted(std::string_view text);

// "file: field: message". `field` may be empty.
template <typename... Parts>
absl::Status FileError(std::string_view file, std::string_view field, const Parts&... message) {
  return absl::InvalidArgumentError(StrCat(file, ": ", field, field.empty() ? "" : ": ", message...));
}

}  // namespace hydrant

// Returns the error of a Status expression, or goes on.
#define HYDRANT_RETURN_IF_ERROR(expression)                                 \
  do {                                                                      \
    if (absl::Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)

#define HYDRANT_CONCAT_INNER(a, b) a##b
#define HYDRANT_CONCAT(a, b) HYDRANT_CONCAT_INNER(a, b)
#define HYDRANT_ASSIGN_OR_RETURN_INNER(name, target, expression) \
  auto name = (expression);                                      \
  if (!name.ok()) return name.status();                          \
  target = *std::move(name)
// Assigns the value of a StatusOr expression, or returns its error.
#define HYDRANT_ASSIGN_OR_RETURN(target, expression) \
  HYDRANT_ASSIGN_OR_RETURN_INNER(HYDRANT_CONCAT(status_or_, __LINE__), target, expression)

#endif  // HYDRANT_MODEL_FILES_FILE_ERROR_H_
