// DecodeStringLiteral undoes the escapes of a string in a template, as Python's unicode-escape does.
#ifndef HYDRANT_MODEL_JINJA_PARSE_STRING_LITERAL_H_
#define HYDRANT_MODEL_JINJA_PARSE_STRING_LITERAL_H_

#include <optional>
#include <string>
#include <string_view>

namespace hydrant::jinja {

// What stands between the quotes, decoded; nullopt where an escape is broken.
std::optional<std::string> DecodeStringLiteral(std::string_view literal);

}  // namespace hydrant::jinja

#endif  // HYDRANT_MODEL_JINJA_PARSE_STRING_LITERAL_H_
