#include "model/text/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace hydrant {
namespace {

TEST(Utf8, RoundTripsEveryCodePoint) {
  for (uint32_t point = 0; point <= 0x10FFFF; ++point) {
    if (point >= 0xD800 && point <= 0xDFFF) continue;
    std::string text;
    AppendUtf8(point, text);
    const Utf8Unit unit = NextUtf8Unit(text);
    ASSERT_EQ(unit.kind, Utf8Kind::kCharacter) << point;
    ASSERT_EQ(unit.code_point, point);
    ASSERT_EQ(unit.bytes, text.size());
    ASSERT_EQ(ValidUtf8Prefix(text), text.size());
  }
}

struct Invalid {
  const char* name;
  std::string bytes;
  Utf8Kind kind;
  size_t length;  // of the first unit
};

class Utf8Invalid : public testing::TestWithParam<Invalid> {};

TEST_P(Utf8Invalid, IsSeenAsTheMaximalSubpart) {
  const Utf8Unit unit = NextUtf8Unit(GetParam().bytes);
  EXPECT_EQ(unit.kind, GetParam().kind);
  EXPECT_EQ(unit.bytes, GetParam().length);
  EXPECT_EQ(ValidUtf8Prefix("ab" + GetParam().bytes), 2u);
}

INSTANTIATE_TEST_SUITE_P(, Utf8Invalid,
                         testing::Values(Invalid{"LoneContinuation", "\x80", Utf8Kind::kInvalid, 1},
                                         Invalid{"Overlong2", "\xC0\x80", Utf8Kind::kInvalid, 1},
                                         Invalid{"Overlong3", "\xE0\x80\x80", Utf8Kind::kInvalid, 1},
                                         Invalid{"Overlong4", "\xF0\x80\x80\x80", Utf8Kind::kInvalid, 1},
                                         Invalid{"Surrogate", "\xED\xA0\x80", Utf8Kind::kInvalid, 1},
                                         Invalid{"AboveTheLast", "\xF4\x90\x80\x80", Utf8Kind::kInvalid, 1},
                                         Invalid{"FiveByteLead", "\xF8\x88\x80\x80\x80", Utf8Kind::kInvalid, 1},
                                         Invalid{"ByteFF", "\xFF", Utf8Kind::kInvalid, 1},
                                         Invalid{"TwoOfThreeThenAscii", "\xE2\x82z", Utf8Kind::kInvalid, 2},
                                         Invalid{"ThreeOfFourThenLead", "\xF0\x9F\x98\xC3", Utf8Kind::kInvalid, 3},
                                         Invalid{"OneOfTwo", "\xC3", Utf8Kind::kIncomplete, 1},
                                         Invalid{"TwoOfThree", "\xE2\x82", Utf8Kind::kIncomplete, 2},
                                         Invalid{"ThreeOfFour", "\xF0\x9F\x98", Utf8Kind::kIncomplete, 3}),
                         [](const auto& test) { return test.param.name; });

TEST(Utf8, CountsCharactersOfAnyLength) {
  std::string all;
  for (uint32_t point = 0; point <= 0x10FFFF; ++point) {
    if (point < 0xD800 || point > 0xDFFF) AppendUtf8(point, all);
  }
  EXPECT_EQ(CountCharacters(all), 0x110000 - 0x800);
}

TEST(Utf8, ReplacesEachInvalidPieceOnceAndHoldsBackAnIncompleteEnd) {
  std::string out;
  EXPECT_EQ(AppendUtf8Lossy("a\xFF\xC3\xA9\xE2\x82z\xF0\x9F", out), 2u);
  EXPECT_EQ(out, "a\uFFFDé\uFFFDz");
}

}  // namespace
}  // namespace hydrant
