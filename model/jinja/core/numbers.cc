#include "model/jinja/core/numbers.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>

#include "absl/strings/ascii.h"
#include "model/jinja/core/text.h"
#include "model/text/str_cat.h"

namespace hydrant::jinja {
namespace {

std::string_view Trimmed(std::string_view text) {
  const ByteRange kept = TrimSpace(text, true, true);
  return text.substr(kept.begin, kept.end - kept.begin);
}

// `text` without the single underscores that Python allows between digits; nullopt where one stands elsewhere.
std::optional<std::string> WithoutUnderscores(std::string_view text) {
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      digits.push_back(text[i]);
      continue;
    }
    const bool between =
        i > 0 && i + 1 < text.size() && absl::ascii_isalnum(text[i - 1]) && absl::ascii_isalnum(text[i + 1]);
    if (!between) return std::nullopt;
  }
  return digits;
}

bool ConsumeSign(std::string_view& digits, char sign) {
  if (!digits.starts_with(sign)) return false;
  digits.remove_prefix(1);
  return true;
}

int PrefixBase(std::string_view digits) {
  if (digits.size() < 2 || digits[0] != '0') return 10;
  switch (absl::ascii_tolower(digits[1])) {
    case 'x':
      return 16;
    case 'o':
      return 8;
    case 'b':
      return 2;
    default:
      return 10;
  }
}

}  // namespace

std::optional<Value> ParseInt(std::string_view text, int base) {
  const auto plain = WithoutUnderscores(Trimmed(text));
  if (!plain) return std::nullopt;
  std::string_view digits = *plain;
  const bool negative = ConsumeSign(digits, '-');
  if (!negative) ConsumeSign(digits, '+');
  const int prefix_base = PrefixBase(digits);
  if (prefix_base != 10 && (base == 0 || base == prefix_base)) {
    digits.remove_prefix(2);
    base = prefix_base;
  }
  if (base == 0) base = 10;
  if (base < 2 || base > 36 || digits.empty() || !absl::ascii_isalnum(digits.front())) return std::nullopt;
  const std::string number = StrCat(negative ? "-" : "", digits);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value, base);
  if (error != std::errc() || end != number.data() + number.size()) return std::nullopt;
  return Value::Int(value);
}

std::optional<Value> ParseFloat(std::string_view text) {
  const auto plain = WithoutUnderscores(Trimmed(text));
  if (!plain) return std::nullopt;
  std::string_view digits = *plain;
  const bool negative = ConsumeSign(digits, '-');
  if (!negative) ConsumeSign(digits, '+');
  double value = 0;
  if (absl::AsciiStrToLower(std::string(digits)) == "inf" || absl::AsciiStrToLower(std::string(digits)) == "infinity") {
    value = std::numeric_limits<double>::infinity();
  } else if (absl::AsciiStrToLower(std::string(digits)) == "nan") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else {
    if (digits.empty() || !(absl::ascii_isdigit(digits.front()) || digits.front() == '.')) return std::nullopt;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (end != digits.data() + digits.size()) return std::nullopt;
    // from_chars leaves the value alone where it does not fit; Python rounds to 0 or infinity.
    if (error == std::errc::result_out_of_range) value = std::strtod(std::string(digits).c_str(), nullptr);
    if (error == std::errc::invalid_argument) return std::nullopt;
  }
  return Value::Float(negative ? -value : value);
}

std::string PrintFloat(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  // Sign, 17 digits, point, e-324.
  std::array<char, 32> buffer = {};
  const auto scientific =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific);
  std::string_view text(buffer.data(), scientific.ptr - buffer.data());
  const size_t e = text.find('e');
  // from_chars takes no plus.
  const size_t digits_begin = e + (text[e + 1] == '+' ? 2 : 1);
  int exponent = 0;
  std::from_chars(text.data() + digits_begin, text.data() + text.size(), exponent);
  const std::string_view sign = value < 0 || std::signbit(value) ? "-" : "";
  std::string digits;
  for (const char c : text.substr(0, e)) {
    if (absl::ascii_isdigit(c)) digits.push_back(c);
  }
  // The switch to exponents is that of Python's repr.
  if (exponent < -4 || exponent >= 16) {
    std::string result = StrCat(sign, digits.substr(0, 1), digits.size() > 1 ? "." : "", digits.substr(1), "e",
                                exponent < 0 ? "-" : "+");
    const int magnitude = std::abs(exponent);
    result += StrCat(magnitude < 10 ? "0" : "", magnitude);
    return result;
  }
  if (exponent < 0) return StrCat(sign, "0.", std::string(-exponent - 1, '0'), digits);
  const size_t whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return StrCat(sign, digits, std::string(whole - digits.size(), '0'), ".0");
  return StrCat(sign, digits.substr(0, whole), ".", digits.substr(whole));
}

}  // namespace hydrant::jinja
