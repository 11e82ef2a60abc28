#include "model/grammar/regex/decimal.h"

#include <algorithm>
#include <cstddef>

namespace hydrant::grammar {
namespace {

// Adds one to a string of digits.
std::string OneMore(std::string digits) {
  size_t i = digits.size();
  while (i > 0 && digits[i - 1] == '9') digits[--i] = '0';
  if (i == 0) return "1" + digits;
  ++digits[i - 1];
  return digits;
}

std::strong_ordering CompareMagnitudes(const Decimal& a, const Decimal& b) {
  if (const auto order = a.whole.size() <=> b.whole.size(); order != 0) return order;
  if (const auto order = a.whole <=> b.whole; order != 0) return order;
  return a.fraction <=> b.fraction;  // digits behind the point compare as text
}

}  // namespace

std::optional<Decimal> Decimal::Parse(std::string_view text) {
  Decimal number;
  size_t at = 0;
  number.negative = text.starts_with('-');
  if (number.negative) ++at;
  std::string digits;
  int64_t point = -1, exponent = 0;
  for (; at < text.size() && text[at] != 'e' && text[at] != 'E'; ++at) {
    if (text[at] == '.') {
      point = static_cast<int64_t>(digits.size());
    } else {
      digits += text[at];
    }
  }
  if (point < 0) point = static_cast<int64_t>(digits.size());
  if (at < text.size()) {
    const bool down = at + 1 < text.size() && text[at + 1] == '-';
    for (const char digit : text.substr(at + 1)) {
      if (digit >= '0' && digit <= '9') exponent = std::min<int64_t>(exponent * 10 + (digit - '0'), 1'000'000);
    }
    if (down) exponent = -exponent;
  }
  const size_t first = digits.find_first_not_of('0');
  if (first == std::string::npos) return Decimal{};
  point += exponent - static_cast<int64_t>(first);
  digits.erase(0, first);
  digits.erase(digits.find_last_not_of('0') + 1);
  const auto count = static_cast<int64_t>(digits.size());
  if (count > kDigitsMax || point > kDigitsMax || point < -kDigitsMax) return std::nullopt;
  if (point <= 0) {
    number.fraction = std::string(static_cast<size_t>(-point), '0') + digits;
  } else if (point >= count) {
    number.whole = digits + std::string(static_cast<size_t>(point - count), '0');
  } else {
    number.whole = digits.substr(0, static_cast<size_t>(point));
    number.fraction = digits.substr(static_cast<size_t>(point));
  }
  return number;
}

std::string Decimal::Text() const { return (negative ? "-" : "") + whole + (fraction.empty() ? "" : "." + fraction); }

std::optional<int64_t> Decimal::Integer() const {
  if (!is_whole() || whole.size() > 18) return std::nullopt;
  int64_t value = 0;
  for (const char digit : whole) value = value * 10 + (digit - '0');
  return negative ? -value : value;
}

Decimal Decimal::Negated() const {
  Decimal other = *this;
  other.negative = !negative && !is_zero();
  return other;
}

Decimal Decimal::Floor() const {
  Decimal result{negative, whole, ""};
  if (negative && !fraction.empty()) result.whole = OneMore(whole);
  result.negative = negative && !result.is_zero();
  return result;
}

Decimal Decimal::Ceiling() const { return Negated().Floor().Negated(); }

std::strong_ordering Decimal::operator<=>(const Decimal& other) const {
  if (negative != other.negative) return negative ? std::strong_ordering::less : std::strong_ordering::greater;
  return negative ? CompareMagnitudes(other, *this) : CompareMagnitudes(*this, other);
}

}  // namespace hydrant::grammar
