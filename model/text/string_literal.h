// DecodeStringLiteral undoes the escapes of a string in a template or a program, as Python's unicode-escape does.
#ifndef HYDRANT_MODEL_TEXT_STRING_LITERAL_H_
#define HYDRANT_MODEL_TEXT_STRING_LITERAL_H_

#include <optional>
#include <string>
#include <string_view>

namespace hydrant {

// What stands between the quotes, decoded; nullopt where an escape is broken.
std::optional<std::string> DecodeStringLiteral(std::string_view literal);

}  // namespace hydrant

#endif  // HYDRANT_MODEL_TEXT_STRING_LITERAL_H_
