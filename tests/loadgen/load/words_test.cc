#include "loadgen/load/words.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace hydrant {
namespace {

TEST(Words, AreAsManyAsAskedFor) {
  Random random(1);
  std::string text;
  AppendWords(&random, 50, &text);
  EXPECT_EQ(std::count(text.begin(), text.end(), ' '), 50);
  EXPECT_EQ(text.front(), ' ');
}

TEST(Words, VaryWithTheSeedAlone) {
  std::string first;
  std::string again;
  std::string other;
  Random a(1);
  Random b(1);
  Random c(2);
  AppendWords(&a, 20, &first);
  AppendWords(&b, 20, &again);
  AppendWords(&c, 20, &other);
  EXPECT_EQ(first, again);
  EXPECT_NE(first, other);
}

TEST(Words, TokensOfATextAreGuessed) {
  EXPECT_EQ(GuessTokens(std::string(400, 'x')), 100);
  EXPECT_EQ(GuessTokens(""), 1);
}

}  // namespace
}  // namespace hydrant
