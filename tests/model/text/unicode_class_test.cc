#include "model/text/unicode_class.h"

#include <gtest/gtest.h>

namespace hydrant {
namespace {

TEST(UnicodeClass, SeesCharactersAsTheSplitPatternsDo) {
  for (const uint32_t c : {U'a', U'É', U'ǅ', U'ʰ', U'中'}) EXPECT_EQ(SplitClassOf(c), SplitClass::kLetter) << c;
  for (const uint32_t c : {U'0', U'Ⅷ', U'½', U'٣'}) EXPECT_EQ(SplitClassOf(c), SplitClass::kNumber) << c;
  for (const uint32_t c : {U' ', U'\t', U'\r', U'\u0085', U'\u00a0', U'\u2028', U'\u3000'}) {
    EXPECT_EQ(SplitClassOf(c), SplitClass::kSpace) << c;
    EXPECT_TRUE(IsWhiteSpace(c)) << c;
  }
  for (const uint32_t c : {U'!', U'\u0301', U'\u180e', U'\u200b', U'😀', U'\x1f'}) {
    EXPECT_EQ(SplitClassOf(c), SplitClass::kOther) << c;
    EXPECT_FALSE(IsWhiteSpace(c)) << c;
  }
}

TEST(UnicodeClass, AsciiSymbolsArePunctuationAndOthersAreNot) {
  for (uint32_t c = 0; c < 0x80; ++c) {
    const bool visible = c > 0x20 && c < 0x7F;
    const bool alphanumeric = SplitClassOf(c) == SplitClass::kLetter || IsNumber(c);
    EXPECT_EQ(IsPunctuation(c), visible && !alphanumeric) << c;
  }
  EXPECT_TRUE(IsPunctuation(U'¿'));
  EXPECT_FALSE(IsPunctuation(U'€'));
}

TEST(UnicodeClass, MarksAndConnectorsAreWordCharacters) {
  EXPECT_TRUE(IsMark(U'\u0301'));
  EXPECT_FALSE(IsMark(U'a'));
  for (const uint32_t c : {U'a', U'\u0301', U'7', U'_', U'Ⅷ'}) EXPECT_TRUE(IsWordCharacter(c)) << c;
  for (const uint32_t c : {U' ', U'-', U'½', U'€'}) EXPECT_FALSE(IsWordCharacter(c)) << c;
}

}  // namespace
}  // namespace hydrant
