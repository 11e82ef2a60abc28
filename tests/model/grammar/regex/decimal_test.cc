#include "model/grammar/regex/decimal.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace hydrant::grammar {
namespace {

TEST(Decimal, IsWrittenWithoutAnExponent) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"0", "0"},          {"-0.0", "0"},         {"1.50", "1.5"},     {"-12", "-12"},
      {"1e3", "1000"},     {"12.5e-3", "0.0125"}, {"1.25e1", "12.5"},  {"100e-2", "1"},
      {"0.001E+2", "0.1"}, {"10", "10"},          {"-0.50e0", "-0.5"}, {"0e999999", "0"}};
  for (const auto& [text, want] : cases) EXPECT_EQ(Decimal::Parse(text)->Text(), want) << text;
  EXPECT_FALSE(Decimal::Parse("1e401").has_value());
  EXPECT_FALSE(Decimal::Parse("1e-500").has_value());
  EXPECT_FALSE(Decimal::Parse("1e99999999999999999999").has_value());
}

TEST(Decimal, HasTheOrderOfNumbers) {
  const std::vector<const char*> ascending = {"-100", "-12",  "-1.5", "-1.25", "-0.01", "0",    "0.009", "0.01",
                                              "0.1",  "0.11", "1",    "9.5",   "10",    "10.5", "1e2"};
  for (size_t i = 0; i < ascending.size(); ++i) {
    for (size_t j = 0; j < ascending.size(); ++j) {
      EXPECT_EQ(*Decimal::Parse(ascending[i]) < *Decimal::Parse(ascending[j]), i < j)
          << ascending[i] << " " << ascending[j];
    }
  }
}

TEST(Decimal, RoundsToWholeNumbers) {
  const std::vector<std::vector<const char*>> cases = {{"1.5", "1", "2"},        {"-1.5", "-2", "-1"},
                                                       {"-0.5", "-1", "0"},      {"99.1", "99", "100"},
                                                       {"-99.1", "-100", "-99"}, {"7", "7", "7"}};
  for (const auto& each : cases) {
    EXPECT_EQ(Decimal::Parse(each[0])->Floor().Text(), each[1]);
    EXPECT_EQ(Decimal::Parse(each[0])->Ceiling().Text(), each[2]);
  }
  EXPECT_EQ(Decimal::Parse("-120")->Integer(), -120);
  EXPECT_FALSE(Decimal::Parse("1.5")->Integer().has_value());
  EXPECT_FALSE(Decimal::Parse("1e18")->Integer().has_value());
}

}  // namespace
}  // namespace hydrant::grammar
