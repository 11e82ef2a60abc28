#include "model/grammar/regex/number_regex.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "model/text/str_cat.h"

namespace hydrant::grammar {
namespace {

// Expressions of numbers without sign, by their digits.
class Magnitudes {
 public:
  Magnitudes(RegexArena& arena, bool whole) : arena_(arena), whole_(whole) {
    digits_ = arena.Star(Digits('0', '9'));
    fraction_ = whole ? kEmptyText : arena.Repeat(Point(arena.Concat(Digits('0', '9'), digits_)), 0, 1);
  }

  RegexId All() {
    return arena_.Concat(arena_.Or({arena_.Byte('0'), arena_.Concat(Digits('1', '9'), digits_)}), fraction_);
  }
  RegexId AtLeast(const Decimal& bound, bool exclusive) {
    const auto count = static_cast<int32_t>(bound.whole.size());
    const RegexId longer =
        arena_.Concat(Digits('1', '9'), arena_.Concat(arena_.Repeat(Digits('0', '9'), count, kUnbounded), fraction_));
    RegexId rest = FractionAtLeast(bound.fraction, exclusive);
    for (size_t i = bound.whole.size(); i-- > 0;) {
      const char digit = bound.whole[i];
      rest = arena_.Or({arena_.Concat(arena_.Byte(static_cast<uint8_t>(digit)), rest),
                        arena_.Concat(Digits(static_cast<char>(digit + 1), '9'), Rest(bound, i))});
    }
    return arena_.Or({longer, rest});
  }
  RegexId AtMost(const Decimal& bound, bool exclusive) {
    const auto count = static_cast<int32_t>(bound.whole.size());
    RegexId shorter = kNothing;
    if (count > 1) {
      const RegexId begin = arena_.Concat(Digits('1', '9'), arena_.Repeat(Digits('0', '9'), 0, count - 2));
      shorter = arena_.Concat(arena_.Or({arena_.Byte('0'), begin}), fraction_);
    }
    RegexId rest = FractionAtMost(bound.fraction, exclusive);
    for (size_t i = bound.whole.size(); i-- > 0;) {
      const char digit = bound.whole[i], first = i == 0 && count > 1 ? '1' : '0';
      rest = arena_.Or({arena_.Concat(arena_.Byte(static_cast<uint8_t>(digit)), rest),
                        arena_.Concat(Digits(first, static_cast<char>(digit - 1)), Rest(bound, i))});
    }
    return arena_.Or({shorter, rest});
  }

 private:
  RegexId Digits(char first, char last) { return first > last ? kNothing : arena_.Bytes(ByteSet::Range(first, last)); }
  RegexId Point(RegexId behind) { return arena_.Concat(arena_.Byte('.'), behind); }
  // What stands behind digit i of a whole part where the digit has decided already.
  RegexId Rest(const Decimal& bound, size_t i) {
    const auto left = static_cast<int32_t>(bound.whole.size() - i - 1);
    return arena_.Concat(arena_.Repeat(Digits('0', '9'), left, left), fraction_);
  }
  RegexId SomeNotZero() { return arena_.Concat(digits_, arena_.Concat(Digits('1', '9'), digits_)); }

  RegexId FractionAtLeast(std::string_view bound, bool exclusive) {
    if (whole_) return exclusive || !bound.empty() ? kNothing : kEmptyText;
    if (bound.empty()) return exclusive ? Point(SomeNotZero()) : fraction_;
    RegexId rest = exclusive ? SomeNotZero() : digits_;
    for (size_t i = bound.size(); i-- > 0;) {
      rest = arena_.Or({arena_.Concat(arena_.Byte(static_cast<uint8_t>(bound[i])), rest),
                        arena_.Concat(Digits(static_cast<char>(bound[i] + 1), '9'), digits_)});
    }
    return Point(rest);
  }
  RegexId FractionAtMost(std::string_view bound, bool exclusive) {
    const RegexId zeros = arena_.Star(arena_.Byte('0'));
    if (bound.empty()) {
      if (exclusive) return kNothing;
      return whole_ ? kEmptyText : arena_.Repeat(Point(arena_.Concat(arena_.Byte('0'), zeros)), 0, 1);
    }
    if (whole_) return kEmptyText;  // less, whatever the digits behind the point are
    RegexId rest = exclusive ? kNothing : zeros;
    for (size_t i = bound.size(); i-- > 0;) {
      rest = arena_.Or({arena_.Concat(arena_.Byte(static_cast<uint8_t>(bound[i])), rest),
                        arena_.Concat(Digits('0', static_cast<char>(bound[i] - 1)), digits_)});
      if (i > 0) rest = arena_.Or({kEmptyText, rest});  // fewer digits are less: the bound has no zeros at its end
    }
    return arena_.Or({kEmptyText, Point(rest)});
  }

  RegexArena& arena_;
  bool whole_;
  RegexId digits_ = kNothing, fraction_ = kNothing;
};

// Multiples of a whole number between two others, if they are few: to search among digits for the few there are takes longer.
std::optional<std::vector<std::string>> FewMultiples(const NumberSet& numbers) {
  constexpr int64_t kMost = 1000;
  if (numbers.divisors.size() != 1 || !numbers.least || !numbers.most) return std::nullopt;
  const auto divisor = numbers.divisors[0].Integer();
  const auto least = numbers.least->value.Ceiling().Integer(), most = numbers.most->value.Floor().Integer();
  if (!divisor || !least || !most) return std::nullopt;
  std::vector<std::string> texts;
  int64_t each = *least / *divisor * *divisor;
  if (each < *least) each += *divisor;
  if (*most >= each && (*most - each) / *divisor >= kMost) return std::nullopt;
  for (; each <= *most; each += *divisor) {
    const Decimal value = *Decimal::Parse(StrCat(each));
    if (numbers.least->exclusive && value == numbers.least->value) continue;
    if (numbers.most->exclusive && value == numbers.most->value) continue;
    texts.push_back(value.Text());
  }
  return texts;
}

}  // namespace

void NumberSet::AtLeast(const Bound& bound) {
  if (!least || bound.value > least->value || (bound.value == least->value && bound.exclusive)) least = bound;
}
void NumberSet::AtMost(const Bound& bound) {
  if (!most || bound.value < most->value || (bound.value == most->value && bound.exclusive)) most = bound;
}

bool DivisorIsSupported(const Decimal& divisor) {
  return !divisor.negative && !divisor.is_zero() && divisor.whole.size() + divisor.fraction.size() <= 9;
}

RegexId NumberRegex(RegexArena& arena, const NumberSet& numbers) {
  if (auto few = FewMultiples(numbers)) return arena.Strings(std::move(*few), 3);
  Magnitudes magnitudes(arena, numbers.whole);
  const RegexId minus = arena.Byte('-');
  const bool bounded = numbers.least || numbers.most || !numbers.divisors.empty();
  if (!bounded) {
    if (numbers.whole) {
      return arena.Or({magnitudes.All(), arena.Concat(minus, magnitudes.AtLeast(Decimal{}, true))});
    }
    // Exponents of two digits, or of three from 1 to 2: what is larger is no double.
    const RegexId digit = arena.Bytes(ByteSet::Range('0', '9'));
    const RegexId count = arena.Or(
        {arena.Repeat(digit, 1, 2), arena.Concat(arena.Bytes(ByteSet::Range('1', '2')), arena.Repeat(digit, 2, 2))});
    const RegexId sign = arena.Repeat(arena.Or({arena.Byte('+'), minus}), 0, 1);
    const RegexId exponent = arena.Concat(arena.Or({arena.Byte('e'), arena.Byte('E')}), arena.Concat(sign, count));
    return arena.Concat(arena.Repeat(minus, 0, 1), arena.Concat(magnitudes.All(), arena.Repeat(exponent, 0, 1)));
  }
  std::vector<RegexId> positive, negative;
  for (const Decimal& divisor : numbers.divisors) {
    const auto of = Decimal::Parse(divisor.whole + divisor.fraction)->Integer();
    const RegexId multiple = arena.Multiple(static_cast<int32_t>(*of), static_cast<int32_t>(divisor.fraction.size()));
    positive.push_back(multiple);
    negative.push_back(multiple);
  }
  if (numbers.divisors.empty() || numbers.whole) positive.push_back(magnitudes.All());
  const auto& [least, most] = std::pair(numbers.least, numbers.most);
  // Zero has no sign.
  const bool above_zero = !most || !most->value.negative || most->value.is_zero();
  negative.push_back(above_zero ? magnitudes.AtLeast(Decimal{}, true)
                                : magnitudes.AtLeast(most->value.Negated(), most->exclusive));
  if (!above_zero) positive.push_back(kNothing);
  if (most && above_zero) positive.push_back(magnitudes.AtMost(most->value, most->exclusive));
  if (least && least->value.negative) {
    negative.push_back(magnitudes.AtMost(least->value.Negated(), least->exclusive));
  } else if (least) {
    positive.push_back(magnitudes.AtLeast(least->value, least->exclusive));
    negative.push_back(kNothing);
  }
  return arena.Or({arena.And(std::move(positive)), arena.Concat(minus, arena.And(std::move(negative)))});
}

}  // namespace hydrant::grammar
