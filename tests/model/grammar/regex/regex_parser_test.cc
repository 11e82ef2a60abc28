#include "model/grammar/regex/regex_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "model/grammar/regex/char_class.h"
#include "model/grammar/regex/lazy_dfa.h"
#include "tests/support/source_dir.h"

namespace hydrant::grammar {
namespace {

struct PatternCase {
  std::string pattern;
  std::vector<std::string> yes, no;
};

void ExpectMatches(const PatternCase& each, TextEncoding encoding, RegexExtent extent = RegexExtent::kSearch) {
  LazyDfa dfa;
  Fuel fuel;
  const auto parsed = ParseRegex(each.pattern, dfa.arena(), encoding, extent, fuel);
  ASSERT_EQ(parsed.index(), 0u) << each.pattern << ": " << std::get<RegexRefusal>(parsed).text;
  const RegexId id = std::get<RegexId>(parsed);
  for (const std::string& text : each.yes) {
    EXPECT_TRUE(dfa.Matches(id, EncodedText(text, encoding), fuel))
        << each.pattern.substr(0, 80) << " on '" << text.substr(0, 80) << "'";
  }
  for (const std::string& text : each.no) {
    EXPECT_FALSE(dfa.Matches(id, EncodedText(text, encoding), fuel))
        << each.pattern.substr(0, 80) << " on '" << text.substr(0, 80) << "'";
  }
  EXPECT_FALSE(fuel.empty()) << each.pattern;
}

TEST(RegexParser, FindsWhatPythonFinds) {
  std::ifstream file(SourceDir() + "/tests/model/grammar/regex/regex_goldens.json");
  const nlohmann::json table = nlohmann::json::parse(file);
  ASSERT_GE(table.size(), 200u);
  for (const auto& row : table) {
    const PatternCase each = {row[0], row[1], row[2]};
    ExpectMatches(each, TextEncoding::kUtf8);
    ExpectMatches(each, TextEncoding::kJsonString);
  }
}

TEST(RegexParser, AnchorsMeanTheirPlace) {
  const std::vector<PatternCase> cases = {
      {"", {"", "x"}, {}},
      {"^$", {""}, {"a"}},
      {"^", {"", "a"}, {}},
      {"$", {"", "a"}, {}},
      {"^^a$$", {"a"}, {"ab", "ba"}},
      {"^dev|alpha|stable$", {"dev1", "an alpha one", "unstable"}, {"a dev", "stables"}},
      {"(^a|b$)", {"ax", "xb"}, {"xa", "bx"}},
      {"(^a)?b", {"ab", "b", "xb", "xab"}, {"a", ""}},
      {"x(^a)?", {"x", "xa", "ax"}, {"", "a"}},
      {"a^b", {}, {"ab", "a", "b", ""}},
      {"a$b", {}, {"ab", "a", "b", ""}},
      {"^(a|^b)$", {"a", "b"}, {"ab", ""}},
      {"^a|^a{2}-b?", {"a", "ax"}, {"", "xa"}},
      {"a\n", {"a\n", "xa\nb"}, {"a"}},
  };
  for (const PatternCase& each : cases) {
    ExpectMatches(each, TextEncoding::kUtf8);
    ExpectMatches(each, TextEncoding::kJsonString);
  }
}

TEST(RegexParser, ReadsTheSyntaxOfEcma) {
  const std::vector<PatternCase> cases = {
      {"^.$", {"a", "\xc3\xa9", "\xf0\x9f\x98\x80", "\"", "\\"}, {"\n", "\r", "\xe2\x80\xa8", "ab", ""}},
      {"^[^]$", {"a", "\n"}, {"", "ab"}},
      {"^[]$", {}, {"a", ""}},
      {"^\\s$", {" ", "\t", "\xc2\xa0", "\xe3\x80\x80"}, {"a", ""}},
      {"^\\S$", {"a", "\xc3\xa9"}, {" ", ""}},
      {"^\\d\\D$",
       {"1a"},
       {"11", "a1",
        "\xd9\xa1"
        "a"}},
      {"^[\\w.-]+$", {"a-b.c_9"}, {"a b", ""}},
      {"^[+-\\d]+$", {"+1", "-"}, {"a"}},
      {"^[a\\]\\-b]+$", {"a]-b"}, {"\\"}},
      {"^\\x41\\u0042\\u{43}\\cA\\0$", {std::string("ABC\x01", 4) + std::string(1, '\0')}, {"ABC"}},
      {"^\\ud83d\\ude00$", {"\xf0\x9f\x98\x80"}, {}},
      {"^a{,x}\\{,2}$", {"a{,x}{,2}"}, {"a", "aa"}},
      {"^a{x}$", {"a{x}"}, {"a"}},
      {"^{}]$", {"{}]"}, {}},
      {"^(?<year>\\d{4})-(?:\\d\\d)$", {"2026-11"}, {"26-11"}},
      {"^\\/\\.\\-\\_\\@$", {"/.-_@"}, {}},
      {"^a{2}b{1,}c{0,1}?$", {"aabc", "aabbb"}, {"abc", "aacc"}},
      {"^[\\\"]$", {"\""}, {"\\"}},
      {"^()$", {""}, {"a"}},
      {"^(|a)b$", {"b", "ab"}, {"a"}},
  };
  for (const PatternCase& each : cases) {
    ExpectMatches(each, TextEncoding::kUtf8);
    ExpectMatches(each, TextEncoding::kJsonString);
  }
}

TEST(RegexParser, MayMatchAsAWhole) {
  ExpectMatches({"a|b+", {"a", "bb"}, {"xa", "ab", ""}}, TextEncoding::kUtf8, RegexExtent::kWhole);
  ExpectMatches({"^(a|b)$", {"a", "b"}, {"ab"}}, TextEncoding::kUtf8, RegexExtent::kWhole);
}

TEST(RegexParser, RefusesAnchorsThatWouldNeedTwoReadings) {
  for (const auto& [pattern, column] : std::vector<std::pair<std::string, size_t>>{
           {"a?^b", 3}, {"(^a)*", 1}, {"b$c?", 2}, {"(a$)+x", 1}, {"(a?)(b|^c)", 5}}) {
    LazyDfa dfa;
    Fuel fuel;
    const auto parsed = ParseRegex(pattern, dfa.arena(), TextEncoding::kUtf8, RegexExtent::kSearch, fuel);
    ASSERT_EQ(parsed.index(), 1u) << pattern;
    EXPECT_EQ(std::get<RegexRefusal>(parsed).column, column) << pattern;
  }
}

TEST(RegexParser, HostilePatternsCostLittle) {
  const std::vector<PatternCase> cases = {
      {"^([a-zA-Z0-9_-]{1,1000}\\.){1,200}$", {"a.b.c."}, {"a", "a.."}},
      {"(a|b)*a(a|b){24}$", {std::string("a") + std::string(24, 'b')}, {std::string(60, 'b')}},
      {"^(((a*)*)*)*$", {"aaaa", ""}, {"aab"}},
      {"^(a?){500}a{500}$", {std::string(600, 'a')}, {std::string(499, 'a'), std::string(1001, 'a')}},
      {"^(a|a|a|aa)*b$", {std::string(200, 'a') + "b"}, {std::string(200, 'a')}},
      {"^" + std::string(20'000, 'a'), {std::string(20'000, 'a')}, {"a"}},
      {std::string(250, '(') + "a" + std::string(250, ')') + "+", {"a"}, {""}},
  };
  for (const PatternCase& each : cases) ExpectMatches(each, TextEncoding::kUtf8);
}

}  // namespace
}  // namespace hydrant::grammar
