// Walks JSON text in place: the members of an object and the elements of an array as views of their text. It finds where
// values end; it does not check that they are JSON inside (a number may be 1.2.3), which is for who reads them.
//
// Thread: any (pure functions).
#ifndef HYDRANT_LOADGEN_CLIENT_JSON_SCAN_H_
#define HYDRANT_LOADGEN_CLIENT_JSON_SCAN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace hydrant {

// The position after blanks.
size_t SkipBlanks(std::string_view text, size_t at);
// The position after the value at `at`, or npos where none ends. REQUIRES: `at` is not a blank.
size_t SkipValue(std::string_view text, size_t at);
// A whole integer literal in int64's range.
std::optional<int64_t> ScanInteger(std::string_view text);

// Calls member(key, value) for each member of the object that `text` is, the key without its quotes and not unescaped.
// False where `text` is not one object with blanks around it; members before the fault have been called by then.
template <typename Member>
bool ScanMembers(std::string_view text, Member&& member) {
  size_t at = SkipBlanks(text, 0);
  if (at >= text.size() || text[at] != '{') return false;
  at = SkipBlanks(text, at + 1);
  if (at < text.size() && text[at] == '}') return SkipBlanks(text, at + 1) == text.size();
  while (at < text.size() && text[at] == '"') {
    const size_t key_end = SkipValue(text, at);
    if (key_end == std::string_view::npos) return false;
    const std::string_view key = text.substr(at + 1, key_end - at - 2);
    at = SkipBlanks(text, key_end);
    if (at >= text.size() || text[at] != ':') return false;
    at = SkipBlanks(text, at + 1);
    const size_t end = SkipValue(text, at);
    if (end == std::string_view::npos) return false;
    member(key, text.substr(at, end - at));
    at = SkipBlanks(text, end);
    if (at >= text.size()) return false;
    if (text[at] == '}') return SkipBlanks(text, at + 1) == text.size();
    if (text[at] != ',') return false;
    at = SkipBlanks(text, at + 1);
  }
  return false;
}

// The same of an array.
template <typename Element>
bool ScanElements(std::string_view text, Element&& element) {
  size_t at = SkipBlanks(text, 0);
  if (at >= text.size() || text[at] != '[') return false;
  at = SkipBlanks(text, at + 1);
  if (at < text.size() && text[at] == ']') return SkipBlanks(text, at + 1) == text.size();
  while (at < text.size()) {
    const size_t end = SkipValue(text, at);
    if (end == std::string_view::npos) return false;
    element(text.substr(at, end - at));
    at = SkipBlanks(text, end);
    if (at >= text.size()) return false;
    if (text[at] == ']') return SkipBlanks(text, at + 1) == text.size();
    if (text[at] != ',') return false;
    at = SkipBlanks(text, at + 1);
  }
  return false;
}

}  // namespace hydrant

#endif  // HYDRANT_LOADGEN_CLIENT_JSON_SCAN_H_
