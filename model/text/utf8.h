// Utf8 walks text that may or may not be UTF-8, one character or one maximal invalid piece at a time (Unicode 15, table 3-7
// and "U+FFFD substitution of maximal subparts", the rule of WHATWG and of Rust's from_utf8_lossy).
//
// Thread: any.
#ifndef HYDRANT_MODEL_TEXT_UTF8_H_
#define HYDRANT_MODEL_TEXT_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hydrant {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

enum class Utf8Kind : uint8_t {
  kCharacter,   // a whole character
  kInvalid,     // bytes that no continuation makes valid; together they become one U+FFFD
  kIncomplete,  // the text ends inside a character that is valid so far
};

struct Utf8Unit {
  Utf8Kind kind = Utf8Kind::kInvalid;
  uint32_t code_point = 0;  // of a whole character
  size_t bytes = 0;         // 1 to 4
};

// The unit at the front of `text`. REQUIRES: text is not empty.
Utf8Unit NextUtf8Unit(std::string_view text);

// Bytes of the longest prefix that is valid UTF-8.
size_t ValidUtf8Prefix(std::string_view text);

// Characters of a text that is UTF-8: what text_offset counts.
int32_t CountCharacters(std::string_view text);

// Bytes of the longest prefix that is ASCII.
size_t AsciiPrefix(std::string_view text);

void AppendUtf8(uint32_t code_point, std::string& out);

// Appends `text` with every invalid piece, or with `each_byte` every byte of one, as U+FFFD. Returns the bytes of an
// incomplete character at the end, which are not appended.
size_t AppendUtf8Lossy(std::string_view text, std::string& out, bool each_byte = false);

}  // namespace hydrant

#endif  // HYDRANT_MODEL_TEXT_UTF8_H_
