// ParseTemplate reads a template into statements.
//
// Thread: any.
#ifndef HYDRANT_MODEL_JINJA_PARSE_PARSER_H_
#define HYDRANT_MODEL_JINJA_PARSE_PARSER_H_

#include <string_view>

#include "model/jinja/core/ast.h"

namespace hydrant::jinja {

// Throws a Fault of kind kSyntax. What reaches for other templates (import, include, extends, block) is refused by name.
Body ParseTemplate(std::string_view source);

}  // namespace hydrant::jinja

#endif  // HYDRANT_MODEL_JINJA_PARSE_PARSER_H_
