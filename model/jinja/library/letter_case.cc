#include "model/jinja/library/letter_case.h"

#include <utf8proc.h>

#include <array>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "model/text/utf8.h"

namespace hydrant::jinja {
namespace {

// Letters whose upper case is more than one (Unicode's SpecialCasing, the ones that live languages write).
std::string_view LongUpper(uint32_t code_point) {
  static const absl::flat_hash_map<uint32_t, std::string_view> table = {
      {0xDF, "SS"},          {0x149, "\xCA\xBCN"},  {0x1F0, "J\xCC\x8C"},  {0x587, "\xD4\xB5\xD5\x92"},
      {0xFB00, "FF"},        {0xFB01, "FI"},        {0xFB02, "FL"},        {0xFB03, "FFI"},
      {0xFB04, "FFL"},       {0xFB05, "ST"},        {0xFB06, "ST"},        {0x1E96, "H\xCC\xB1"},
      {0x1E97, "T\xCC\x88"}, {0x1E98, "W\xCC\x8A"}, {0x1E99, "Y\xCC\x8A"}, {0x1E9A, "A\xCA\xBE"}};
  const auto found = table.find(code_point);
  return found == table.end() ? std::string_view() : found->second;
}

void AppendUpper(uint32_t c, Origin origin, Text& out, bool title = false) {
  if (std::string_view many = LongUpper(c); !many.empty()) {
    // A title takes only the first of them in upper case.
    out.Append(title && (c == 0xDF || c >= 0xFB00) ? std::string(1, many[0]) : std::string(many), origin);
    for (size_t i = 1; title && (c == 0xDF || c >= 0xFB00) && i < many.size(); ++i) {
      out.Append(std::string(1, static_cast<char>(many[i] | 0x20)), origin);
    }
    return;
  }
  const auto mapped =
      title ? utf8proc_totitle(static_cast<utf8proc_int32_t>(c)) : utf8proc_toupper(static_cast<utf8proc_int32_t>(c));
  std::string bytes;
  AppendUtf8(static_cast<uint32_t>(mapped), bytes);
  out.Append(bytes, origin);
}

// A sigma at the end of a word, after a letter and before none.
bool IsFinalSigma(std::string_view text, size_t at) {
  if (NextUtf8Unit(text.substr(at)).code_point != 0x3A3 || at == 0) return false;
  size_t before = at - 1;
  while (before > 0 && (static_cast<unsigned char>(text[before]) & 0xC0) == 0x80) --before;
  if (CaseOf(NextUtf8Unit(text.substr(before)).code_point) == LetterCase::kNone) return false;
  const size_t after = at + 2;
  return after >= text.size() || CaseOf(NextUtf8Unit(text.substr(after)).code_point) == LetterCase::kNone;
}

void AppendLower(const Text& text, size_t at, Text& out) {
  const uint32_t c = NextUtf8Unit(text.view().substr(at)).code_point;
  std::string bytes;
  if (c == 0x130) {
    bytes = "i\xCC\x87";
  } else if (IsFinalSigma(text.view(), at)) {
    bytes = "\xCF\x82";
  } else {
    AppendUtf8(static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), bytes);
  }
  out.Append(bytes, text.OriginAt(at));
}

// Calls with (offset, code point) of every character.
template <typename F>
void ForEachCharacter(const Text& text, F f) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Unit unit = NextUtf8Unit(text.view().substr(at));
    f(at, unit.code_point);
    at += unit.bytes;
  }
}

// The first character of every word in upper case, or in title case, the others in lower. `continues(c)`: the character
// after `c` is inside a word.
template <typename Continues>
Text TitleCase(const Text& text, bool title, Continues continues) {
  Text out;
  bool inside = false;
  ForEachCharacter(text, [&](size_t at, uint32_t c) {
    if (inside) {
      AppendLower(text, at, out);
    } else {
      AppendUpper(c, text.OriginAt(at), out, title);
    }
    inside = continues(c);
  });
  return out;
}

bool SeparatesWords(uint32_t c) { return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || IsSpace(c); }

}  // namespace

LetterCase CaseOf(uint32_t code_point) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code_point))) {
    case UTF8PROC_CATEGORY_LU:
      return LetterCase::kUpper;
    case UTF8PROC_CATEGORY_LL:
      return LetterCase::kLower;
    case UTF8PROC_CATEGORY_LT:
      return LetterCase::kTitle;
    default:
      return LetterCase::kNone;
  }
}

Text Lower(const Text& text) {
  Text out;
  ForEachCharacter(text, [&](size_t at, uint32_t) { AppendLower(text, at, out); });
  return out;
}

Text Upper(const Text& text) {
  Text out;
  ForEachCharacter(text, [&](size_t at, uint32_t c) { AppendUpper(c, text.OriginAt(at), out); });
  return out;
}

Text Capitalize(const Text& text) {
  Text out;
  ForEachCharacter(text, [&](size_t at, uint32_t c) {
    if (at == 0) {
      AppendUpper(c, text.OriginAt(at), out, true);
    } else {
      AppendLower(text, at, out);
    }
  });
  return out;
}

Text Title(const Text& text) {
  return TitleCase(text, true, [](uint32_t c) { return CaseOf(c) != LetterCase::kNone; });
}

Text TitleWords(const Text& text) {
  return TitleCase(text, false, [](uint32_t c) { return !SeparatesWords(c); });
}

Text SwapCase(const Text& text) {
  Text out;
  ForEachCharacter(text, [&](size_t at, uint32_t c) {
    if (CaseOf(c) == LetterCase::kLower) {
      AppendUpper(c, text.OriginAt(at), out);
    } else {
      AppendLower(text, at, out);
    }
  });
  return out;
}

}  // namespace hydrant::jinja
