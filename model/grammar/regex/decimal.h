// Decimal is a number as JSON writes it, exactly: bounds of schemas are compared and added to by their digits.
//
// Thread: any.
#ifndef HYDRANT_MODEL_GRAMMAR_REGEX_DECIMAL_H_
#define HYDRANT_MODEL_GRAMMAR_REGEX_DECIMAL_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hydrant::grammar {

struct Decimal {
  bool negative = false;    // never for zero
  std::string whole = "0";  // digits without leading zeros, or "0"
  std::string fraction;     // digits without trailing zeros

  // REQUIRES: `text` is a JSON number. Nothing where it has more than kDigitsMax digits when it is written without an exponent.
  static std::optional<Decimal> Parse(std::string_view text);
  static constexpr int kDigitsMax = 400;

  bool is_whole() const { return fraction.empty(); }
  bool is_zero() const { return whole == "0" && fraction.empty(); }
  std::string Text() const;  // without an exponent; equal numbers have equal texts
  // The value if it is a whole number of at most 18 digits.
  std::optional<int64_t> Integer() const;
  Decimal Negated() const;
  // The largest whole number that is not above, and the smallest that is not below.
  Decimal Floor() const;
  Decimal Ceiling() const;

  std::strong_ordering operator<=>(const Decimal& other) const;
  bool operator==(const Decimal&) const = default;
};

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_REGEX_DECIMAL_H_
