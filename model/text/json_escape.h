// The characters that JSON writes in two: what it has for them behind a backslash.
//
// Thread: any (pure function).
#ifndef HYDRANT_MODEL_TEXT_JSON_ESCAPE_H_
#define HYDRANT_MODEL_TEXT_JSON_ESCAPE_H_

#include <cstdint>
#include <string_view>

namespace hydrant {

// "\\n" and the like; empty for a character that has none.
constexpr std::string_view ShortJsonEscape(uint32_t code_point) {
  switch (code_point) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return {};
  }
}

}  // namespace hydrant

#endif  // HYDRANT_MODEL_TEXT_JSON_ESCAPE_H_
