// How values become text: str(), repr(), JSON and HTML escapes, each character keeping its origin. What is written around
// the strings of a list or dict (brackets, quotes, commas) counts as the client's, for the client decides how much of it
// there is.
//
// Thread: the one that renders.
#ifndef HYDRANT_MODEL_JINJA_CORE_PRINTING_H_
#define HYDRANT_MODEL_JINJA_CORE_PRINTING_H_

#include <string>
#include <string_view>

#include "model/jinja/core/text.h"
#include "model/jinja/core/value.h"

namespace hydrant::jinja {

// True if repr shows the character as it is, not as an escape.
bool IsPrintable(uint32_t code_point);

// str(value).
Text Str(Workspace& workspace, const Value& value);
// repr(value).
Text Repr(Workspace& workspace, const Value& value);

// json.dumps(value, …).
struct JsonStyle {
  bool ensure_ascii = false;
  bool indented = false;
  std::string indent;  // of one level, where indented
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};
Text ToJson(Workspace& workspace, const Value& value, const JsonStyle& style);

Text EscapeHtml(Workspace& workspace, const Text& text);

}  // namespace hydrant::jinja

#endif  // HYDRANT_MODEL_JINJA_CORE_PRINTING_H_
