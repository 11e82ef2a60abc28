#include "loadgen/client/json_scan.h"

#include <charconv>

namespace hydrant {
namespace {

// The position after the string that begins at `at`.
size_t SkipString(std::string_view text, size_t at) {
  for (size_t from = at + 1;;) {
    const size_t quote = text.find('"', from);
    if (quote == std::string_view::npos) return quote;
    size_t backslashes = 0;
    while (text[quote - 1 - backslashes] == '\\') ++backslashes;
    if (backslashes % 2 == 0) return quote + 1;
    from = quote + 1;
  }
}

}  // namespace

size_t SkipBlanks(std::string_view text, size_t at) {
  while (at < text.size() && (text[at] == ' ' || text[at] == '\n' || text[at] == '\r' || text[at] == '\t')) ++at;
  return at;
}

size_t SkipValue(std::string_view text, size_t at) {
  constexpr size_t kNone = std::string_view::npos;
  if (at >= text.size()) return kNone;
  if (text[at] == '"') return SkipString(text, at);
  if (text[at] != '{' && text[at] != '[') {
    const size_t end = text.find_first_of(",]} \n\r\t", at);
    return end == at ? kNone : (end == kNone ? text.size() : end);
  }
  // A counter instead of recursion: a hostile depth costs nothing.
  size_t depth = 0;
  while (at < text.size()) {
    switch (text[at]) {
      case '"':
        at = SkipString(text, at);
        if (at == kNone) return kNone;
        continue;
      case '{':
      case '[':
        ++depth;
        break;
      case '}':
      case ']':
        if (--depth == 0) return at + 1;
        break;
      default:
        break;
    }
    ++at;
  }
  return kNone;
}

std::optional<int64_t> ScanInteger(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace hydrant
