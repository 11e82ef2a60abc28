// JsonStrings follows the text of JSON that may not be whole: where its strings are, and how far an object goes.
//
// Thread: one at a time; the functions are pure.
#ifndef HYDRANT_API_WIRE_JSON_STRINGS_H_
#define HYDRANT_API_WIRE_JSON_STRINGS_H_

#include <cstddef>
#include <string_view>

namespace hydrant {

// Byte by byte: whether it is within a string, and which bytes are structure.
class JsonStrings {
 public:
  // Whether `c` stands outside of every string; a string's quotes are part of it.
  bool Outside(char c) {
    ended_ = false;
    if (escaped_) {
      escaped_ = false;
    } else if (in_string_ && c == '\\') {
      escaped_ = true;
    } else if (c == '"') {
      ended_ = in_string_;
      in_string_ = !in_string_;
      return false;
    }
    return !in_string_;
  }
  // The last byte was a quote that ended a string.
  bool ended() const { return ended_; }

 private:
  bool in_string_ = false;
  bool escaped_ = false;
  bool ended_ = false;
};

// Bytes of the object or array at the front of `text`; 0 if none ends in it.
inline size_t BracketBytes(std::string_view text) {
  JsonStrings strings;
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (!strings.Outside(c)) continue;
    if (c == '{' || c == '[') ++depth;
    if ((c == '}' || c == ']') && --depth == 0) return i + 1;
  }
  return 0;
}

// Bytes of the string at the front of `text`, quotes included; 0 if none ends in it.
inline size_t StringBytes(std::string_view text) {
  JsonStrings strings;
  for (size_t i = 0; i < text.size(); ++i) {
    if (strings.Outside(text[i])) return 0;
    if (strings.ended()) return i + 1;
  }
  return 0;
}

}  // namespace hydrant

#endif  // HYDRANT_API_WIRE_JSON_STRINGS_H_
