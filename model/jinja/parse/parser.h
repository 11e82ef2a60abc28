// ParseTemplate reads a template into statements, and finds the names that it reads.
//
// Thread: any.
#ifndef HYDRANT_MODEL_JINJA_PARSE_PARSER_H_
#define HYDRANT_MODEL_JINJA_PARSE_PARSER_H_

#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "model/jinja/core/ast.h"

namespace hydrant::jinja {

struct ParsedTemplate {
  Body body;
  // Which its expressions read: variables, functions, and what it sets itself.
  std::set<std::string, std::less<>> names;
};

// Throws a Fault of kind kSyntax. What reaches for other templates (import, include, extends, block) is refused by name.
ParsedTemplate ParseTemplate(std::string_view source);

}  // namespace hydrant::jinja

#endif  // HYDRANT_MODEL_JINJA_PARSE_PARSER_H_
