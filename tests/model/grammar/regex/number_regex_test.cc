#include "model/grammar/regex/number_regex.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "model/grammar/regex/lazy_dfa.h"

namespace hydrant::grammar {
namespace {

// Every number of up to two digits before and two behind the point, by its hundredths, in each spelling.
std::vector<std::pair<int, std::string>> Spellings() {
  std::vector<std::pair<int, std::string>> all;
  for (int hundredths = -1250; hundredths <= 1250; ++hundredths) {
    const int size = hundredths < 0 ? -hundredths : hundredths;
    const std::string sign = hundredths < 0 ? "-" : "", whole = sign + std::to_string(size / 100);
    const std::string two = std::string(size % 100 < 10 ? "0" : "") + std::to_string(size % 100);
    all.emplace_back(hundredths, whole + "." + two);
    if (size % 10 == 0) all.emplace_back(hundredths, whole + "." + two.substr(0, 1));
    if (size % 100 == 0) all.emplace_back(hundredths, whole);
  }
  return all;
}

TEST(NumberRegex, AgreesWithArithmeticOnBoundsAndDivisors) {
  struct Case {
    const char *least, *most, *divisor;  // or null
    bool least_exclusive = false, most_exclusive = false, whole = false;
  };
  const std::vector<Case> cases = {{"-3", "5", nullptr},
                                   {"0", nullptr, nullptr},
                                   {nullptr, "0", nullptr},
                                   {"0", "10", nullptr, true, true},
                                   {"0.25", "1.5", nullptr, true, false},
                                   {"-1.25", "-0.5", nullptr, false, true},
                                   {"9.99", "10.01", nullptr},
                                   {"-10", "11", nullptr, false, false, true},
                                   {"-9.5", "9.5", nullptr, true, true, true},
                                   {"3", "3", nullptr},
                                   {"3", "3", nullptr, true, false},
                                   {"5", "3", nullptr},
                                   {"1", "12", "5"},
                                   {nullptr, nullptr, "3"},
                                   {nullptr, nullptr, "0.25"},
                                   {"0.5", "7", "0.75"},
                                   {nullptr, "-2", "0.5", false, true},
                                   {"-7", "-7", "7", false, false, true}};
  const auto hundredths = [](const Decimal& value) {
    return std::stoi((value.negative ? "-" : "") + value.whole + (value.fraction + "00").substr(0, 2));
  };
  for (const Case& each : cases) {
    NumberSet numbers;
    numbers.whole = each.whole;
    if (each.least) numbers.AtLeast({*Decimal::Parse(each.least), each.least_exclusive});
    if (each.most) numbers.AtMost({*Decimal::Parse(each.most), each.most_exclusive});
    if (each.divisor) numbers.divisors = {*Decimal::Parse(each.divisor)};
    LazyDfa dfa;
    Fuel fuel;
    const RegexId id = NumberRegex(dfa.arena(), numbers);
    for (const auto& [value, text] : Spellings()) {
      bool fits = true;
      if (each.least)
        fits &=
            each.least_exclusive ? value > hundredths(numbers.least->value) : value >= hundredths(numbers.least->value);
      if (each.most)
        fits &=
            each.most_exclusive ? value < hundredths(numbers.most->value) : value <= hundredths(numbers.most->value);
      if (each.divisor) fits &= value % hundredths(numbers.divisors[0]) == 0;
      // A whole number has no point; a multiple no more digits behind it than its divisor. Those are other spellings.
      const size_t point = text.find('.'), digits = point == std::string::npos ? 0 : text.size() - point - 1;
      if (each.whole) fits &= digits == 0;
      if (each.divisor) fits &= digits <= numbers.divisors[0].fraction.size();
      if (text == "-0") continue;
      ASSERT_EQ(dfa.Matches(id, text, fuel), fits)
          << (each.least ? each.least : "") << ".." << (each.most ? each.most : "") << " " << text;
    }
    EXPECT_FALSE(dfa.Matches(id, "007", fuel));
    EXPECT_FALSE(dfa.Matches(id, "1.", fuel));
    EXPECT_FALSE(dfa.Matches(id, "-", fuel));
    EXPECT_FALSE(dfa.Matches(id, "-0", fuel));
    EXPECT_FALSE(dfa.Matches(id, "1e0", fuel));
  }
}

TEST(NumberRegex, WithoutBoundsIsJson) {
  LazyDfa dfa;
  Fuel fuel;
  const RegexId any = NumberRegex(dfa.arena(), {}), whole = NumberRegex(dfa.arena(), {true});
  for (const char* yes : {"0", "-1", "12.5", "1e3", "-0.5E-12", "1e+299"})
    EXPECT_TRUE(dfa.Matches(any, yes, fuel)) << yes;
  for (const char* no : {"01", "+1", ".5", "1.", "1e", "1e999", "", "0x1"})
    EXPECT_FALSE(dfa.Matches(any, no, fuel)) << no;
  for (const char* yes : {"0", "-1", "120"}) EXPECT_TRUE(dfa.Matches(whole, yes, fuel)) << yes;
  for (const char* no : {"-0", "1.0", "1e3", "01"}) EXPECT_FALSE(dfa.Matches(whole, no, fuel)) << no;
}

TEST(NumberRegex, EveryPrefixOfAMultipleInBoundsLeadsToOne) {
  NumberSet numbers;
  numbers.whole = true;
  numbers.AtLeast({*Decimal::Parse("1000"), false});
  numbers.AtMost({*Decimal::Parse("250000"), false});
  numbers.divisors = {*Decimal::Parse("99991")};
  LazyDfa dfa;
  Fuel fuel;
  const RegexId id = NumberRegex(dfa.arena(), numbers);
  EXPECT_EQ(dfa.AllTexts(id, 9, fuel), (std::vector<std::string>{"99991", "199982"}));
  EXPECT_EQ(dfa.Step(id, '3', fuel), kNothing);
}

}  // namespace
}  // namespace hydrant::grammar
