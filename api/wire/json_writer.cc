#include "api/wire/json_writer.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstring>

namespace hydrant {
namespace {

// What a byte means to the writer: copy it, escape it, or look at the whole character.
enum class ByteClass : uint8_t { kPlain, kEscape, kMultibyte };

constexpr std::array<ByteClass, 256> MakeByteClasses() {
  std::array<ByteClass, 256> classes{};
  for (int byte = 0; byte < 256; ++byte) {
    if (byte >= 0x80) {
      classes[byte] = ByteClass::kMultibyte;
    } else if (byte < 0x20 || byte == '"' || byte == '\\' || byte == 0x7f) {
      classes[byte] = ByteClass::kEscape;
    } else {
      classes[byte] = ByteClass::kPlain;
    }
  }
  return classes;
}

constexpr std::array<ByteClass, 256> kByteClasses = MakeByteClasses();

struct Utf8Piece {
  size_t bytes = 1;  // of a valid character, or of the longest invalid piece that one U+FFFD stands for
  bool valid = false;
};

// The character that starts at `at` (Unicode 15, table 3-7). REQUIRES: at < text.size().
Utf8Piece ReadCharacter(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(at);
  if (lead < 0x80) return {1, true};
  size_t length = 0;
  uint8_t second_min = 0x80;
  uint8_t second_max = 0xbf;
  if (lead >= 0xc2 && lead <= 0xdf) {
    length = 2;
  } else if (lead >= 0xe0 && lead <= 0xef) {
    length = 3;
    if (lead == 0xe0) second_min = 0xa0;  // no overlong form
    if (lead == 0xed) second_max = 0x9f;  // no surrogate
  } else if (lead >= 0xf0 && lead <= 0xf4) {
    length = 4;
    if (lead == 0xf0) second_min = 0x90;  // no overlong form
    if (lead == 0xf4) second_max = 0x8f;  // at most U+10FFFF
  } else {
    return {1, false};
  }
  for (size_t i = 1; i < length; ++i) {
    if (at + i >= text.size()) return {i, false};
    const uint8_t min = i == 1 ? second_min : 0x80;
    const uint8_t max = i == 1 ? second_max : 0xbf;
    if (byte(at + i) < min || byte(at + i) > max) return {i, false};
  }
  return {length, true};
}

void AppendEscapedByte(std::string* out, uint8_t byte) {
  switch (byte) {
    case '"':
      out->append("\\\"");
      return;
    case '\\':
      out->append("\\\\");
      return;
    case '\n':
      out->append("\\n");
      return;
    case '\r':
      out->append("\\r");
      return;
    case '\t':
      out->append("\\t");
      return;
    default: {
      constexpr char kHex[] = "0123456789abcdef";
      out->append("\\u00");
      out->push_back(kHex[byte >> 4]);
      out->push_back(kHex[byte & 15]);
    }
  }
}

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

// Line ends to str.splitlines() of Python and to JavaScript before 2019, though not to SSE.
std::string_view EscapeOfLineEnd(std::string_view character) {
  if (character == "\xc2\x85") return "\\u0085";
  if (character == "\xe2\x80\xa8") return "\\u2028";
  if (character == "\xe2\x80\xa9") return "\\u2029";
  return {};
}

}  // namespace

void AppendJsonEscaped(std::string* out, std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t begin = at;
    while (at < text.size() && kByteClasses[static_cast<uint8_t>(text[at])] == ByteClass::kPlain) ++at;
    out->append(text.substr(begin, at - begin));
    if (at == text.size()) return;
    const auto byte = static_cast<uint8_t>(text[at]);
    if (kByteClasses[byte] == ByteClass::kEscape) {
      AppendEscapedByte(out, byte);
      ++at;
      continue;
    }
    const Utf8Piece piece = ReadCharacter(text, at);
    if (!piece.valid) {
      out->append(kReplacement);
    } else {
      const std::string_view character = text.substr(at, piece.bytes);
      const std::string_view escape = EscapeOfLineEnd(character);
      out->append(escape.empty() ? character : escape);
    }
    at += piece.bytes;
  }
}

void AppendJsonString(std::string* out, std::string_view text) {
  out->push_back('"');
  AppendJsonEscaped(out, text);
  out->push_back('"');
}

void AppendJsonStringOrNull(std::string* out, std::string_view text) {
  if (text.empty()) {
    out->append("null");
  } else {
    AppendJsonString(out, text);
  }
}

void AppendJsonInteger(std::string* out, int64_t value) {
  char buffer[20];  // the longest int64 is -9223372036854775808
  const std::to_chars_result end = std::to_chars(buffer, buffer + sizeof(buffer), value);
  out->append(buffer, end.ptr);
}

void AppendJsonIntegerOrNull(std::string* out, int64_t value) {
  if (value > 0) {
    AppendJsonInteger(out, value);
  } else {
    out->append("null");
  }
}

void AppendJsonFloat(std::string* out, float value) {
  if (!std::isfinite(value)) {
    out->append("-9999.0");
    return;
  }
  char buffer[32];  // the longest shortest form of a float has 15 characters
  const std::to_chars_result end = std::to_chars(buffer, buffer + sizeof(buffer), value);
  const std::string_view digits(buffer, end.ptr - buffer);
  out->append(digits);
  // Without this -1.0f is written as -1, which Python reads as an int.
  if (digits.find_first_of(".e") == std::string_view::npos) out->append(".0");
}

void AppendJsonBool(std::string* out, bool value) { out->append(value ? "true" : "false"); }

void AppendJsonIntegers(std::string* out, std::span<const int32_t> values) {
  out->push_back('[');
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out->push_back(',');
    AppendJsonInteger(out, values[i]);
  }
  out->push_back(']');
}

std::string ToValidUtf8(std::string_view text, size_t bytes_max) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const Utf8Piece piece = ReadCharacter(text, at);
    const std::string_view character = piece.valid ? text.substr(at, piece.bytes) : kReplacement;
    if (out.size() + character.size() > bytes_max) break;
    out.append(character);
    at += piece.bytes;
  }
  return out;
}

bool IsValidUtf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Utf8Piece piece = ReadCharacter(text, at);
    if (!piece.valid) return false;
    at += piece.bytes;
  }
  return true;
}

}  // namespace hydrant
