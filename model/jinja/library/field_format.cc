#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "model/jinja/core/fault.h"
#include "model/jinja/core/formatting.h"
#include "model/jinja/core/numbers.h"
#include "model/jinja/core/operators.h"
#include "model/jinja/core/printing.h"
#include "model/jinja/core/string_operations.h"
#include "model/jinja/core/workspace.h"
#include "model/text/str_cat.h"
#include "model/text/utf8.h"

namespace hydrant::jinja {
namespace {

std::string InBase(uint64_t value, int base, bool upper) {
  std::string digits;
  do {
    digits.push_back((upper ? "0123456789ABCDEF" : "0123456789abcdef")[value % base]);
    value /= base;
  } while (value > 0);
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::string WithThousands(const std::string& number) {
  const size_t whole = std::min(number.find_first_not_of("0123456789"), number.size());
  std::string result;
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % 3 == 0) result.push_back(',');
    result.push_back(number[i]);
  }
  return result + number.substr(whole);
}

// The digits of |value|.
std::string IntegerDigits(int64_t value, const FieldStyle& style, std::string& prefix) {
  const uint64_t magnitude = value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  switch (style.type) {
    case 'x':
    case 'X':
      if (style.alternate) prefix = style.type == 'x' ? "0x" : "0X";
      return InBase(magnitude, 16, style.type == 'X');
    case 'o':
      if (style.alternate) prefix = "0o";
      return InBase(magnitude, 8, false);
    case 'b':
      if (style.alternate) prefix = "0b";
      return InBase(magnitude, 2, false);
    default:
      return StrCat(magnitude);
  }
}

std::string FloatDigits(double value, const FieldStyle& style) {
  const double magnitude = std::fabs(value);
  const bool upper = absl::ascii_isupper(style.type);
  if (!std::isfinite(value)) return std::isnan(value) ? (upper ? "NAN" : "nan") : (upper ? "INF" : "inf");
  // More than a double has digits for; and the result stays small.
  const int precision = std::min(style.precision, 400);
  switch (style.type) {
    case 'f':
    case 'F':
      return absl::StrFormat("%.*f", precision < 0 ? 6 : precision, magnitude);
    case 'e':
      return absl::StrFormat("%.*e", precision < 0 ? 6 : precision, magnitude);
    case 'E':
      return absl::StrFormat("%.*E", precision < 0 ? 6 : precision, magnitude);
    case 'g':
      return absl::StrFormat("%.*g", precision < 0 ? 6 : precision, magnitude);
    case 'G':
      return absl::StrFormat("%.*G", precision < 0 ? 6 : precision, magnitude);
    case '%':
      return absl::StrFormat("%.*f%%", precision < 0 ? 6 : precision, magnitude * 100);
    default:
      return precision < 0 ? PrintFloat(magnitude) : absl::StrFormat("%.*g", std::max(precision, 1), magnitude);
  }
}

Text FormatNumber(Workspace& workspace, const Value& value, const FieldStyle& style) {
  const bool as_float = value.is_float() || std::string_view("fFeEgG%").find(style.type) != std::string_view::npos;
  if (value.is_float() && std::string_view("dxXobc").find(style.type) != std::string_view::npos && style.type != '\0') {
    Fail(StrCat("Unknown format code '", std::string(1, style.type), "' for object of type 'float'"));
  }
  if (style.type == 'c') {
    if (value.integer() < 0 || value.integer() > 0x10FFFF) Fail("%c arg not in range(0x110000)");
    std::string character;
    AppendUtf8(static_cast<uint32_t>(value.integer()), character);
    return Pad(workspace, Text(character, value.origin()), style.width, style.align == '\0' ? '<' : style.align,
               style.fill);
  }
  std::string prefix;
  std::string digits = as_float && style.type != '\0' ? FloatDigits(value.number(), style)
                       : value.is_float()             ? FloatDigits(value.number(), style)
                                                      : IntegerDigits(value.integer(), style, prefix);
  if (style.thousands) digits = WithThousands(digits);
  const bool negative =
      value.is_float() ? std::signbit(value.number()) && !std::isnan(value.number()) : value.integer() < 0;
  const std::string sign = negative ? "-" : style.sign == '-' ? "" : std::string(1, style.sign);
  const std::string lead = sign + prefix;
  if (style.align == '=') {
    Text result(lead, value.origin());
    const size_t rest = style.width > lead.size() ? style.width - lead.size() : 0;
    result.Append(Pad(workspace, Text(digits, value.origin()), rest, '>', style.fill));
    return result;
  }
  return Pad(workspace, Text(lead + digits, value.origin()), style.width, style.align == '\0' ? '>' : style.align,
             style.fill);
}

}  // namespace

Text Pad(Workspace& workspace, const Text& text, size_t width, char align, const Text& fill) {
  const size_t have = CharacterCount(workspace, text.view());
  if (width <= have) return text;
  const size_t missing = width - have;
  size_t bytes = 0;
  if (__builtin_mul_overflow(missing, fill.footprint_bytes(), &bytes)) bytes = SIZE_MAX;
  workspace.Reserve(bytes);
  workspace.StepBytes(bytes);
  // CPython's format and center put the odd blank on different sides; see Center.
  const size_t before = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  Text result;
  for (size_t i = 0; i < before; ++i) result.Append(fill);
  result.Append(text);
  for (size_t i = before; i < missing; ++i) result.Append(fill);
  return result;
}

Text FormatField(Workspace& workspace, const Value& value, const FieldStyle& style) {
  const bool plain =
      style.type == '\0' && style.width == 0 && style.precision < 0 && style.sign == '-' && !style.thousands;
  if (plain) return Str(workspace, value);
  if (value.is_number() && style.type != 's') return FormatNumber(workspace, value, style);
  if (!value.is_string()) {
    RequireDefined(value);
    Fail(StrCat("unsupported format string passed to ", TypeName(value), ".__format__"));
  }
  if (style.type != '\0' && style.type != 's') {
    Fail(StrCat("Unknown format code '", std::string(1, style.type), "' for object of type 'str'"));
  }
  Text text = value.text();
  if (style.precision >= 0) {
    text = text.Slice(0, CharacterOffset(workspace, text.view(), static_cast<size_t>(style.precision)));
  }
  return Pad(workspace, text, style.width, style.align == '\0' ? '<' : style.align, style.fill);
}

}  // namespace hydrant::jinja
