#include "model/tokenizer/known_split.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "model/text/unicode_class.h"
#include "model/text/utf8.h"
#include "model/tokenizer/tokenizer_spec.h"

namespace hydrant {
namespace {

constexpr std::array<SplitClass, 128> MakeAsciiClasses() {
  std::array<SplitClass, 128> classes{};
  for (size_t c = 0; c < classes.size(); ++c) {
    const size_t small = c | 0x20;
    classes[c] = small >= 'a' && small <= 'z'           ? SplitClass::kLetter
                 : c >= '0' && c <= '9'                 ? SplitClass::kNumber
                 : c == ' ' || (c >= '\t' && c <= '\r') ? SplitClass::kSpace
                                                        : SplitClass::kOther;
  }
  return classes;
}
constexpr auto kAsciiClasses = MakeAsciiClasses();

struct Unit {
  SplitClass what;
  size_t bytes;
};

// REQUIRES: at < text.size().
Unit UnitAt(std::string_view text, size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x80) return {kAsciiClasses[byte], 1};
  const Utf8Unit unit = NextUtf8Unit(text.substr(at));
  return {SplitClassOf(unit.code_point), unit.bytes};
}

bool IsAt(std::string_view text, size_t at, SplitClass what) {
  return at < text.size() && UnitAt(text, at).what == what;
}

// The end of the run of `what` that begins at `at`.
size_t RunEnd(std::string_view text, size_t at, SplitClass what) {
  while (at < text.size()) {
    const Unit unit = UnitAt(text, at);
    if (unit.what != what) break;
    at += unit.bytes;
  }
  return at;
}

// \s+(?!\S)|\s+ : the run, less its last character when something else follows and anything is left.
size_t SpacesEnd(std::string_view text) {
  size_t at = 0, last = 0;
  while (at < text.size()) {
    const Unit unit = UnitAt(text, at);
    if (unit.what != SplitClass::kSpace) return last > 0 ? last : at;
    last = at;
    at += unit.bytes;
  }
  return at;
}

// The bytes of 's|'t|'re|'ve|'m|'ll|'d at the front, or 0. Without regard to case U+017F is an s too.
size_t ContractionEnd(std::string_view text, bool any_case) {
  if (text.size() < 2 || text[0] != '\'') return 0;
  const auto letter = [&](size_t at) {
    if (at >= text.size()) return '\0';
    const char c = text[at];
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
  };
  switch (letter(1)) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return 2;
    case 'r':
    case 'v':
      return letter(2) == 'e' ? 3 : 0;
    case 'l':
      return letter(2) == 'l' ? 3 : 0;
    default:
      return any_case && text.substr(1).starts_with("\u017f") ? 3 : 0;
  }
}

size_t Gpt2WordEnd(std::string_view text) {
  if (const size_t end = ContractionEnd(text, false)) return end;
  const size_t begin = text[0] == ' ' ? 1 : 0;
  if (begin == text.size()) return begin;
  const Unit first = UnitAt(text, begin);
  if (first.what == SplitClass::kSpace) return SpacesEnd(text);
  return RunEnd(text, begin + first.bytes, first.what);
}

bool IsLineEnd(char c) { return c == '\r' || c == '\n'; }

// One pattern but for `digits_max`, the most in a word.
size_t Llama3WordEnd(std::string_view text, int digits_max) {
  if (const size_t end = ContractionEnd(text, true)) return end;
  const Unit first = UnitAt(text, 0);
  if (first.what == SplitClass::kLetter) return RunEnd(text, first.bytes, SplitClass::kLetter);
  if (first.what == SplitClass::kNumber) {
    size_t end = first.bytes;
    for (int digits = 1; digits < digits_max && IsAt(text, end, SplitClass::kNumber); ++digits)
      end += UnitAt(text, end).bytes;
    return end;
  }
  // [^\r\n\p{L}\p{N}]?\p{L}+
  if (!IsLineEnd(text[0]) && IsAt(text, first.bytes, SplitClass::kLetter))
    return RunEnd(text, first.bytes, SplitClass::kLetter);
  //  ?[^\s\p{L}\p{N}]+[\r\n]*
  const size_t begin = text[0] == ' ' ? 1 : 0;
  if (IsAt(text, begin, SplitClass::kOther)) {
    size_t end = RunEnd(text, begin, SplitClass::kOther);
    while (end < text.size() && IsLineEnd(text[end])) ++end;
    return end;
  }
  // \s*[\r\n]+ : up to the last line end of the run.
  const std::string_view spaces = text.substr(0, RunEnd(text, 0, SplitClass::kSpace));
  const size_t line_end = spaces.find_last_of("\r\n");
  return line_end != spaces.npos ? line_end + 1 : SpacesEnd(text);
}

}  // namespace

KnownSplit FindKnownSplit(std::string_view pattern) {
  if (pattern == kGpt2Split) return KnownSplit::kGpt2;
  if (pattern == kLlama3Split) return KnownSplit::kLlama3;
  if (pattern == kQwen2Split) return KnownSplit::kQwen2;
  return KnownSplit::kNone;
}

size_t FirstWordEnd(KnownSplit split, std::string_view text) {
  assert(split != KnownSplit::kNone && !text.empty());
  switch (split) {
    case KnownSplit::kLlama3:
      return Llama3WordEnd(text, 3);
    case KnownSplit::kQwen2:
      return Llama3WordEnd(text, 1);
    default:
      return Gpt2WordEnd(text);
  }
}

}  // namespace hydrant
