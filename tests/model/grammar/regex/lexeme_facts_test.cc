#include "model/grammar/regex/lexeme_facts.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "model/grammar/regex/regex_parser.h"

namespace hydrant::grammar {
namespace {

uint64_t KindsOf(std::string_view firsts) {
  uint64_t kinds = 0;
  for (const char first : firsts) kinds |= uint64_t{1} << KindOfByte(static_cast<uint8_t>(first));
  return kinds;
}

// What is between the quotes of a string.
struct Strings {
  LazyDfa dfa;
  LexemeFacts facts{dfa};
  Fuel fuel;

  RegexId Of(std::string_view pattern) {
    const auto parsed = ParseRegex(pattern, dfa.arena(), TextEncoding::kJsonString, RegexExtent::kWhole, fuel);
    EXPECT_EQ(parsed.index(), 0u) << pattern;
    return std::get<RegexId>(parsed);
  }
};

TEST(LexemeFacts, LoopsAreKindsOfWhichEveryCharacterLeadsBack) {
  Strings strings;
  const auto loops = [&](std::string_view pattern) {
    return strings.facts.Loops(strings.Of(pattern), true, strings.fuel);
  };
  EXPECT_EQ(loops("[ab0-9]*"), KindsOf("ab0"));
  EXPECT_EQ(loops("[a-c0-8]*x"), KindsOf("abc"));
  EXPECT_EQ(loops("ab"), 0u);
  EXPECT_EQ(loops("[A-E\\u00e9]*"), 0u) << "not all of a kind";
  const uint64_t most = loops("[^x]*");
  EXPECT_EQ(most & KindsOf("xay\"\\\n"), KindsOf("ay")) << "as JSON writes it, quotes have a backslash";
  EXPECT_EQ(most & KindsOf("\xc3\xe2\xf0"), KindsOf("\xc3\xe2\xf0"));
  EXPECT_EQ(loops(".*") & KindsOf("\xc3\xe2"), KindsOf("\xc3")) << "U+2028 ends a line";
  EXPECT_EQ(KindOfByte(0x80), kNoKind);
}

// Every text of few bytes begins and ends the same in both.
TEST(LexemeFacts, WidenedLoopsTakeTheSameBytes) {
  constexpr int32_t kBytes = 3;
  Strings strings;
  struct Case {
    const char *pattern, *same;  // one that becomes the same, or itself where nothing is widened
  };
  for (const Case& c :
       {Case{"[ab]{0,9}c", "[ab]*c"}, Case{"[ab]{2,3}c", "[ab]{2,}c"}, Case{"[ab]{7,9}c", "[ab]{4,}c"},
        Case{"[ab]{0,2}c", "[ab]{0,2}c"}, Case{"(ab|ba){0,2}a", "(ab|ba)*a"}, Case{"(ab?){0,2}", "(ab?){0,2}"},
        Case{"(a{1,5}|ba{0,4})c", "(a+|ba*)c"}, Case{"(a?){0,5}", "(a?){0,5}"}}) {
    const RegexId whole = strings.Of(c.pattern);
    const RegexId widened = strings.facts.Widened(whole, kBytes, 0, strings.fuel);
    const auto states = [&](RegexId id, std::string_view text) {
      const RegexId left = strings.dfa.StepAll(id, text, strings.fuel);
      return std::pair(left != kNothing, strings.dfa.arena().nullable(left));
    };
    EXPECT_EQ(widened == whole, std::string_view(c.pattern) == c.same) << c.pattern;
    for (size_t number = 0; number < 27 + 9 + 3 + 1; ++number) {
      std::string text;
      for (size_t left = number; left > 0 && text.size() < kBytes; left = (left - 1) / 3) text += "abc"[(left - 1) % 3];
      EXPECT_EQ(states(whole, text), states(widened, text)) << c.pattern << " behind " << text;
      EXPECT_EQ(states(strings.Of(c.same), text), states(widened, text)) << c.pattern << " behind " << text;
    }
    EXPECT_EQ(strings.facts.Widened(whole, kBytes, 99, strings.fuel), whole) << "few texts may be left";
  }
  EXPECT_EQ(strings.facts.Longer(strings.Of("[ab]{7,9}c"), kBytes, strings.fuel), strings.Of("[ab]{7,}c"));
  EXPECT_EQ(strings.facts.CharactersCut(strings.Of("[ab]{7,9}(a|(bc){9})"), kBytes, strings.fuel), 3 + 6 * 2);
}

// What was asked with too little work is answered anew.
TEST(LexemeFacts, WhatAnEndOfFuelLeftUnknownIsNotRemembered) {
  for (int64_t little = 1; little < 8000; little += 1 + little / 3) {
    Strings strings;
    RegexArena& arena = strings.dfa.arena();
    const RegexId any = strings.Of("([^]|ab){9}"), ends = strings.Of("([ab]c?)*");
    const auto counted = [&](Fuel& fuel) {
      return strings.facts.HaveCommon({arena.Repeat(arena.node(strings.Of("[^]*")).a, 3, 9), ends}, fuel);
    };
    Fuel one{little}, two{little};
    strings.facts.PlainCharacters(any, one);
    counted(two);
    EXPECT_EQ(strings.facts.PlainCharacters(any, strings.fuel), 9) << little;
    EXPECT_TRUE(counted(strings.fuel)) << little;
  }
}

TEST(LexemeFacts, AnyKeyButSomeGoesOnWhateverComes) {
  Strings strings;
  RegexArena& arena = strings.dfa.arena();
  const RegexId any = strings.Of("[^]*");
  const auto plain = [&](RegexId left) { return strings.facts.PlainCharacters(left, strings.fuel); };
  EXPECT_EQ(plain(arena.And({any, arena.Not(arena.Strings({"id", "name"}, 3))})), kUnbounded);
  EXPECT_EQ(plain(arena.And({any, arena.Not(strings.Of("a.*"))})), 0);
  EXPECT_EQ(plain(arena.And({strings.Of("[a-z]*"), arena.Not(arena.Strings({"id", "name"}, 3))})), 0);
}

TEST(LexemeFacts, CountersAreReadApartWhereBothHaveATextForCertain) {
  Strings strings;
  RegexArena& arena = strings.dfa.arena();
  const RegexId any = arena.node(strings.Of("[^]*")).a;
  struct Case {
    const char* pattern;
    int32_t least, most;
    bool common;
  };
  for (const Case& c : {Case{"[a-c]+-", 5, kUnbounded, true}, Case{"[a-c]+-", 0, 2, true}, Case{"[a-c]+-", 0, 1, false},
                        Case{"[a-c]+-", 3, 3, true}, Case{"abc|de", 3, kUnbounded, false}, Case{"abc|de", 0, 2, true},
                        Case{"([a-c]{2})*", 3, 9, false}, Case{"\"*", 1, 9, false}}) {
    const RegexId string =
        arena.Concat(arena.And({strings.Of(c.pattern), arena.Repeat(any, c.least, c.most)}), arena.Byte('"'));
    const auto counted = strings.facts.Count(string);
    ASSERT_TRUE(counted.has_value()) << c.pattern;
    EXPECT_EQ(strings.facts.HaveCommon(*counted, strings.fuel), c.common) << c.pattern << c.least << ' ' << c.most;
  }
  EXPECT_FALSE(strings.facts.Count(strings.Of("a+")).has_value());
}

}  // namespace
}  // namespace hydrant::grammar
