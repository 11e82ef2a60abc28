#include "model/text/utf8.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace hydrant {
namespace {

constexpr bool IsContinuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

}  // namespace

size_t AsciiPrefix(std::string_view text) {
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + i, 8);
    if (word & 0x8080808080808080ull) break;
  }
  while (i < text.size() && static_cast<unsigned char>(text[i]) < 0x80) ++i;
  return i;
}

Utf8Unit NextUtf8Unit(std::string_view text) {
  assert(!text.empty());
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {Utf8Kind::kCharacter, lead, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Utf8Kind::kInvalid, 0, 1};
  // The second byte's range shuts out overlong forms, surrogates and everything above U+10FFFF.
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  const unsigned char second_min = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char second_max = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (text.size() < 2) return {Utf8Kind::kIncomplete, 0, 1};
  if (byte(1) < second_min || byte(1) > second_max) return {Utf8Kind::kInvalid, 0, 1};
  uint32_t code_point = (lead & (0xFFu >> (length + 1))) << 6 | (byte(1) & 0x3Fu);
  for (size_t i = 2; i < length; ++i) {
    if (i == text.size()) return {Utf8Kind::kIncomplete, 0, i};
    if (!IsContinuation(byte(i))) return {Utf8Kind::kInvalid, 0, i};
    code_point = code_point << 6 | (byte(i) & 0x3Fu);
  }
  return {Utf8Kind::kCharacter, code_point, length};
}

size_t ValidUtf8Prefix(std::string_view text) {
  size_t i = 0;
  while (true) {
    i += AsciiPrefix(text.substr(i));
    if (i == text.size()) return i;
    const Utf8Unit unit = NextUtf8Unit(text.substr(i));
    if (unit.kind != Utf8Kind::kCharacter) return i;
    i += unit.bytes;
  }
}

void AppendUtf8(uint32_t code_point, std::string& out) {
  if (code_point < 0x80) {
    out += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    out += static_cast<char>(0xC0 | code_point >> 6);
    out += static_cast<char>(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    out += static_cast<char>(0xE0 | code_point >> 12);
    out += static_cast<char>(0x80 | (code_point >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (code_point & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | code_point >> 18);
    out += static_cast<char>(0x80 | (code_point >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (code_point >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (code_point & 0x3F));
  }
}

int32_t CountCharacters(std::string_view text) {
  return static_cast<int32_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

size_t AppendUtf8Lossy(std::string_view text, std::string& out, bool each_byte) {
  while (true) {
    const size_t valid = ValidUtf8Prefix(text);
    out.append(text.substr(0, valid));
    text.remove_prefix(valid);
    if (text.empty()) return 0;
    const Utf8Unit unit = NextUtf8Unit(text);
    if (unit.kind == Utf8Kind::kIncomplete) return unit.bytes;
    for (size_t i = 0; i < (each_byte ? unit.bytes : 1); ++i) out.append(kReplacementCharacter);
    text.remove_prefix(unit.bytes);
  }
}

}  // namespace hydrant
