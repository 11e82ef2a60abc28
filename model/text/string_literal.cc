#include "model/text/string_literal.h"

#include <charconv>
#include <cstdint>

#include "model/text/utf8.h"

namespace hydrant {
namespace {

std::optional<uint32_t> Digits(std::string_view digits, int base) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

// The character that a backslash and `c` stand for, '\0' where they stand for themselves or for more.
char Simple(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    case '\\':
    case '\'':
    case '"':
      return c;
    default:
      return '\0';
  }
}

bool IsOctal(char c) { return c >= '0' && c <= '7'; }

// The escape after a backslash at the front of `text`, appended decoded; the bytes read, 0 where it is broken.
size_t DecodeEscape(std::string_view text, std::string& out) {
  const char c = text.front();
  if (const char simple = Simple(c)) {
    out.push_back(simple);
    return 1;
  }
  if (c == '\n') return 1;  // an escaped newline is none
  if (IsOctal(c)) {
    size_t count = 1;
    while (count < 3 && count < text.size() && IsOctal(text[count])) ++count;
    AppendUtf8(*Digits(text.substr(0, count), 8), out);
    return count;
  }
  const size_t count = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
  if (count == 0) {
    out.push_back('\\');
    out.push_back(c);
    return 1;
  }
  if (text.size() < 1 + count) return 0;
  const auto code_point = Digits(text.substr(1, count), 16);
  // Half a surrogate pair is text that no UTF-8 can hold.
  if (!code_point || *code_point > 0x10FFFF || (*code_point >= 0xD800 && *code_point <= 0xDFFF)) return 0;
  AppendUtf8(*code_point, out);
  return 1 + count;
}

}  // namespace

std::optional<std::string> DecodeStringLiteral(std::string_view literal) {
  std::string out;
  out.reserve(literal.size());
  for (size_t i = 0; i < literal.size();) {
    if (literal[i] != '\\') {
      out.push_back(literal[i++]);
      continue;
    }
    if (++i == literal.size()) return std::nullopt;
    const size_t read = DecodeEscape(literal.substr(i), out);
    if (read == 0) return std::nullopt;
    i += read;
  }
  return out;
}

}  // namespace hydrant
