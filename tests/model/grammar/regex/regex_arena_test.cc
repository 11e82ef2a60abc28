#include "model/grammar/regex/regex_arena.h"

#include <gtest/gtest.h>

#include <string>

#include "model/grammar/regex/char_class.h"

namespace hydrant::grammar {
namespace {

TEST(RegexArena, EqualExpressionsAreOne) {
  RegexArena arena;
  const RegexId a = arena.Byte('a'), b = arena.Byte('b');
  EXPECT_EQ(arena.Or({a, b}), arena.Bytes(ByteSet::Range('a', 'b')));
  EXPECT_EQ(arena.Or({b, a, b}), arena.Or({a, b}));
  EXPECT_EQ(arena.Concat(kEmptyText, a), a);
  EXPECT_EQ(arena.Concat(a, kNothing), kNothing);
  EXPECT_EQ(arena.Not(arena.Not(a)), a);
  EXPECT_EQ(arena.And({a, b}), kNothing);
  EXPECT_EQ(arena.And({a, arena.Not(a)}), kNothing);
  EXPECT_EQ(arena.And({a, kAnything}), a);
  EXPECT_EQ(arena.Or({a, kAnything}), kAnything);
  EXPECT_EQ(arena.Not(kNothing), kAnything);
  EXPECT_EQ(arena.Repeat(a, 1, 1), a);
  EXPECT_EQ(arena.Star(arena.Star(a)), arena.Star(a));
  EXPECT_EQ(arena.Concat(arena.Star(a), arena.Star(a)), arena.Star(a));
  EXPECT_EQ(arena.Strings({"x", "y", "x"}, 3), arena.Strings({"y", "x"}, 3));
}

TEST(RegexArena, NeighbouringCountsBecomeOne) {
  RegexArena arena;
  const RegexId a = arena.Byte('a'), b = arena.Byte('b');
  EXPECT_EQ(arena.Or({arena.Repeat(a, 1, 3), arena.Repeat(a, 4, 9)}), arena.Repeat(a, 1, 9));
  EXPECT_EQ(arena.Or({arena.Concat(arena.Repeat(a, 0, 3), b), arena.Concat(arena.Repeat(a, 0, 9), b)}),
            arena.Concat(arena.Repeat(a, 0, 9), b));
  EXPECT_NE(arena.Or({arena.Repeat(a, 2, 3), arena.Repeat(a, 5, 9)}), arena.Repeat(a, 2, 9));
}

TEST(RegexArena, AnyTextTakesInWholeCharacters) {
  RegexArena arena;
  const RegexId any = AnyText(arena, TextEncoding::kJsonString);
  const RegexId word =
      arena.Star(EncodedClass(arena, {{'a', 'z'}, {0xe9, 0xe9}, {'"', '"'}}, TextEncoding::kJsonString));
  EXPECT_EQ(arena.Or({word, any}), any);
  EXPECT_EQ(arena.And({word, any}), word);
  // Half a character is not part of it.
  const RegexId half = arena.Byte(0xc3);
  EXPECT_NE(arena.Or({half, any}), any);
}

// What is empty, or not, without a search.
TEST(RegexArena, IntersectionsOfWholeCharactersAreKnown) {
  RegexArena arena;
  const RegexId any = AnyText(arena, TextEncoding::kJsonString);
  const CharClass letters = {{'a', 'z'}, {0xe9, 0xe9}};
  const RegexId word = arena.Star(EncodedClass(arena, letters, TextEncoding::kJsonString));
  EXPECT_EQ(arena.And({word, arena.Byte('a'), arena.Not(any)}), kNothing);
  const RegexId half = arena.Byte(0xc3);
  EXPECT_NE(arena.And({half, arena.Not(any)}), kNothing);
  const RegexId many = arena.Repeat(arena.node(any).a, 9, kUnbounded), few = arena.Repeat(arena.node(any).a, 1, 9);
  EXPECT_TRUE(arena.node(arena.And({word, many})).plain);
  EXPECT_FALSE(arena.node(arena.And({word, few})).plain) << "some other node may be needed for that";
  EXPECT_FALSE(arena.node(arena.And({arena.Repeat(arena.Byte('a'), 0, 8), many})).plain);
  EXPECT_FALSE(arena.node(arena.And({arena.Star(half), many})).plain);
  EXPECT_EQ(arena.node(arena.Concat(arena.Repeat(arena.Byte('a'), 3, 5), arena.Or({half, arena.Literal("ab")}))).least,
            4);
}

TEST(RegexArena, BytesThatNothingTellsApartAreOneClass) {
  RegexArena arena;
  EXPECT_EQ(arena.classes(), 1);
  arena.Bytes(ByteSet::Range('a', 'f'));
  EXPECT_EQ(arena.classes(), 2);
  arena.Bytes(ByteSet::Range('e', 'z'));
  EXPECT_EQ(arena.classes(), 4);
  EXPECT_EQ(arena.class_of('a'), arena.class_of('d'));
  EXPECT_NE(arena.class_of('d'), arena.class_of('e'));
  EXPECT_EQ(arena.class_of(0), arena.class_of(255));
  for (int each = 0; each < arena.classes(); ++each) EXPECT_EQ(arena.class_of(arena.representative(each)), each);
}

TEST(RegexArena, KnowsWhatCanBeEmpty) {
  RegexArena arena;
  const RegexId a = arena.Byte('a');
  EXPECT_TRUE(arena.nullable(arena.Star(a)));
  EXPECT_FALSE(arena.nullable(arena.Repeat(a, 2, 3)));
  EXPECT_TRUE(arena.nullable(arena.Repeat(arena.Star(a), 2, 3)));
  EXPECT_TRUE(arena.nullable(arena.Not(a)));
  EXPECT_FALSE(arena.nullable(arena.And({arena.Not(a), a})));
  EXPECT_TRUE(arena.nullable(arena.Strings({"", "b"}, 3)));
  EXPECT_FALSE(arena.nullable(arena.Multiple(3, 0)));
}

}  // namespace
}  // namespace hydrant::grammar
