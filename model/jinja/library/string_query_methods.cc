// The methods of str that look at a string.
#include <utf8proc.h>

#include <algorithm>
#include <cstdint>

#include "model/jinja/core/builtins.h"
#include "model/jinja/core/fault.h"
#include "model/jinja/core/printing.h"
#include "model/jinja/core/string_operations.h"
#include "model/jinja/core/workspace.h"
#include "model/jinja/library/letter_case.h"
#include "model/text/utf8.h"

namespace hydrant::jinja {
namespace {

bool IsLetter(uint32_t c) {
  const int category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool IsDecimal(uint32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_ND; }

// Decimals and the superscript, subscript and circled digits.
bool IsDigit(uint32_t c) {
  return IsDecimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
         (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468);
}

bool IsNumeric(uint32_t c) {
  const int category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_NO;
}

bool IsAlphanumeric(uint32_t c) { return IsLetter(c) || IsDigit(c) || IsNumeric(c); }

bool IsWordCharacter(uint32_t c) { return c == '_' || IsLetter(c) || IsDecimal(c); }

// Whether there is a character and all are such.
template <bool (*kIs)(uint32_t)>
Value All(const BuiltinCall& call) {
  const std::string_view text = call.subject.view();
  call.workspace.StepBytes(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Unit unit = NextUtf8Unit(text.substr(at));
    if (!kIs(unit.code_point)) return Value::Bool(false);
    at += unit.bytes;
  }
  return Value::Bool(!text.empty());
}

// Whether there is a cased letter and none has the other case.
template <LetterCase kOther>
Value AllInCase(const BuiltinCall& call) {
  const std::string_view text = call.subject.view();
  call.workspace.StepBytes(text.size());
  bool any = false;
  for (size_t at = 0; at < text.size();) {
    const Utf8Unit unit = NextUtf8Unit(text.substr(at));
    const LetterCase letter_case = CaseOf(unit.code_point);
    if (letter_case == kOther || letter_case == LetterCase::kTitle) return Value::Bool(false);
    any |= letter_case != LetterCase::kNone;
    at += unit.bytes;
  }
  return Value::Bool(any);
}

Value IsTitle(const BuiltinCall& call) {
  const std::string_view text = call.subject.view();
  call.workspace.StepBytes(text.size());
  bool any = false, inside = false;
  for (size_t at = 0; at < text.size();) {
    const Utf8Unit unit = NextUtf8Unit(text.substr(at));
    const LetterCase letter_case = CaseOf(unit.code_point);
    const bool starts = letter_case == LetterCase::kUpper || letter_case == LetterCase::kTitle;
    if ((starts && inside) || (letter_case == LetterCase::kLower && !inside)) return Value::Bool(false);
    inside = letter_case != LetterCase::kNone;
    any |= inside;
    at += unit.bytes;
  }
  return Value::Bool(any);
}

Value IsPrintableText(const BuiltinCall& call) {
  return Value::Bool(call.subject.text().empty() || All<IsPrintable>(call).Truth());
}

Value IsAscii(const BuiltinCall& call) {
  const std::string_view text = call.subject.view();
  call.workspace.StepBytes(text.size());
  return Value::Bool(std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; }));
}

Value IsIdentifier(const BuiltinCall& call) {
  const std::string_view text = call.subject.view();
  const auto first = NextUtf8Unit(text.empty() ? " " : text).code_point;
  const bool fits = All<IsWordCharacter>(call).Truth();
  return Value::Bool(fits && (first == '_' || IsLetter(first)));
}

// start and end of find, count and the like as bytes; nullopt where start is after the end.
std::optional<ByteRange> Window(const BuiltinCall& call, const Bound& bound) {
  const std::string_view text = call.subject.view();
  if (!bound.has(1) && !bound.has(2)) return ByteRange{0, text.size()};
  const auto count = static_cast<int64_t>(CharacterCount(call.workspace, text));
  const auto character = [&](size_t i, int64_t fallback) {
    int64_t index = bound.has(i) && !bound.at(i).is_none() ? bound.Int(i, 0) : fallback;
    if (index < 0) index = std::max<int64_t>(0, index + count);
    return index;
  };
  const int64_t begin = character(1, 0), end = std::min(character(2, count), count);
  if (begin > end) return std::nullopt;
  const auto offset = [&](int64_t index) { return CharacterOffset(call.workspace, text, static_cast<size_t>(index)); };
  return ByteRange{offset(begin), offset(end)};
}

template <bool kFromRight, bool kMustExist>
Value Find(const BuiltinCall& call) {
  const Bound bound("find", call.arguments, {"sub", "start", "end"}, 1);
  const Text& sought = bound.String(0);
  if (const auto window = Window(call, bound)) {
    const std::string_view inside = call.subject.view().substr(window->begin, window->end - window->begin);
    if (const auto at = Search(call.workspace, inside, sought.view(), kFromRight).Next()) {
      const std::string_view before = call.subject.view().substr(0, window->begin + *at);
      return Value::Int(static_cast<int64_t>(CharacterCount(call.workspace, before)));
    }
  }
  if (kMustExist) Fail("substring not found");
  return Value::Int(-1);
}

Value CountText(const BuiltinCall& call) {
  const Bound bound("count", call.arguments, {"sub", "start", "end"}, 1);
  const Text& sought = bound.String(0);
  const auto window = Window(call, bound);
  if (!window) return Value::Int(0);
  const std::string_view inside = call.subject.view().substr(window->begin, window->end - window->begin);
  if (sought.empty()) return Value::Int(static_cast<int64_t>(CharacterCount(call.workspace, inside)) + 1);
  Search search(call.workspace, inside, sought.view());
  int64_t count = 0;
  while (search.Next()) ++count;
  return Value::Int(count);
}

template <bool kAtEnd>
Value Affix(const BuiltinCall& call) {
  const Bound bound(kAtEnd ? "endswith" : "startswith", call.arguments, {"affix", "start", "end"}, 1);
  const auto window = Window(call, bound);
  if (!window) return Value::Bool(false);
  const std::string_view inside = call.subject.view().substr(window->begin, window->end - window->begin);
  const auto fits = [&](const Value& affix) {
    call.workspace.Step();
    if (!affix.is_string()) Fail("startswith first arg must be str or a tuple of str");
    call.workspace.StepBytes(affix.text().size());
    return kAtEnd ? inside.ends_with(affix.view()) : inside.starts_with(affix.view());
  };
  const Value& affix = bound.at(0);
  if (!affix.is_sequence() || !affix.sequence().is_tuple()) return Value::Bool(fits(affix));
  const Values& affixes = affix.sequence().items();
  return Value::Bool(std::any_of(affixes.begin(), affixes.end(), fits));
}

}  // namespace

const BuiltinTable& StringQueryMethods() {
  static const BuiltinTable table = {
      {"isalpha", All<IsLetter>},
      {"isdecimal", All<IsDecimal>},
      {"isdigit", All<IsDigit>},
      {"isnumeric", All<IsNumeric>},
      {"isalnum", All<IsAlphanumeric>},
      {"isspace", All<IsSpace>},
      {"islower", AllInCase<LetterCase::kUpper>},
      {"isupper", AllInCase<LetterCase::kLower>},
      {"istitle", IsTitle},
      {"isascii", IsAscii},
      {"isprintable", IsPrintableText},
      {"isidentifier", IsIdentifier},
      {"find", Find<false, false>},
      {"rfind", Find<true, false>},
      {"index", Find<false, true>},
      {"rindex", Find<true, true>},
      {"count", CountText},
      {"startswith", Affix<false>},
      {"endswith", Affix<true>},
  };
  return table;
}

}  // namespace hydrant::jinja
