#include "model/grammar/regex/char_class.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/grammar/regex/lazy_dfa.h"
#include "model/text/utf8.h"

namespace hydrant::grammar {
namespace {

// Every character is in the encoded class exactly when it is in the class: at all borders of UTF-8, of JSON and of the class.
TEST(CharClass, IsEncodedCharacterByCharacter) {
  const std::vector<CharClass> classes = {CharClass::All(),
                                          {{'a', 'z'}, {0x7f, 0x81}},
                                          {{0x7ff, 0x800}},
                                          {{0x800, 0xfffd}},
                                          {{0xffff, 0x10000}, {0x10fffe, 0x10ffff}},
                                          {{0x1234, 0x5678}, {0x12345, 0x6789a}},
                                          {{0, 0x1f}, {'"', '"'}, {'\\', '\\'}},
                                          CharClass{{'"', '"'}, {0xe9, 0xe9}}.Complement()};
  std::vector<uint32_t> probes;
  for (const uint32_t border :
       {0u,    8u,    9u,     10u,     12u,     13u,     0x20u,   0x22u,   0x5cu,    0x61u,    0x7bu,    0x80u,
        0x82u, 0xe9u, 0x800u, 0x1234u, 0x5679u, 0xd800u, 0xe000u, 0xffffu, 0x10001u, 0x12345u, 0x6789bu, 0x110000u}) {
    for (uint32_t probe = border < 2 ? 0 : border - 2; probe < border + 2 && probe <= kLastCodePoint; ++probe)
      probes.push_back(probe);
  }
  for (const TextEncoding encoding : {TextEncoding::kUtf8, TextEncoding::kJsonString}) {
    for (const CharClass& each : classes) {
      LazyDfa dfa;
      Fuel fuel;
      const RegexId id = EncodedClass(dfa.arena(), each, encoding);
      for (const uint32_t probe : probes) {
        if (probe >= 0xd800 && probe < 0xe000) continue;
        bool inside = false;
        for (const auto& [first, last] : each.ranges()) inside |= first <= probe && probe <= last;
        std::string text;
        AppendUtf8(probe, text);
        ASSERT_EQ(dfa.Matches(id, EncodedText(text, encoding), fuel), inside) << probe;
      }
    }
  }
}

TEST(CharClass, HasNoSurrogates) {
  LazyDfa dfa;
  Fuel fuel;
  const RegexId any = AnyText(dfa.arena(), TextEncoding::kUtf8);
  EXPECT_FALSE(dfa.Matches(any, "\xed\xa0\x80", fuel));
  EXPECT_FALSE(dfa.Matches(any, "\xc0\x80", fuel));
  EXPECT_FALSE(dfa.Matches(any, "\xf4\x90\x80\x80", fuel));
  EXPECT_TRUE(dfa.Matches(any, "\xed\x9f\xbf\xee\x80\x80", fuel));
}

TEST(CharClass, JsonHasOneSpellingOfEachCharacter) {
  EXPECT_EQ(EncodedText("a\"\\/\n\x1f\x7f\xc3\xa9", TextEncoding::kJsonString), "a\\\"\\\\/\\n\\u001f\x7f\xc3\xa9");
  LazyDfa dfa;
  Fuel fuel;
  const RegexId any = AnyText(dfa.arena(), TextEncoding::kJsonString);
  for (const char* no : {"\"", "\\", "\n", "\\/", "\\u0041", "\\u001F", "\\u000a"})
    EXPECT_FALSE(dfa.Matches(any, no, fuel)) << no;
  for (const char* yes : {"", "\\\"", "\\\\", "\\n", "\\u001f", "/"}) EXPECT_TRUE(dfa.Matches(any, yes, fuel)) << yes;
}

}  // namespace
}  // namespace hydrant::grammar
