// Grammars of rules, held to what they mean: every text over a few letters, and every token's mask.
#include "model/grammar/gbnf_reader.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/model/grammar/grammar_checks.h"

namespace hydrant::grammar {
namespace {

void ExpectLanguage(const std::string& grammar_text, std::string_view letters, size_t length,
                    const std::function<bool(std::string_view)>& oracle, size_t answers_least) {
  const auto grammar = MustCompileKind(GrammarKind::kGbnf, grammar_text);
  ASSERT_NE(grammar, nullptr);
  std::vector<std::string> texts = {""};
  size_t answers = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].size() < length) {
      for (const char letter : letters) texts.push_back(texts[i] + letter);
    }
    const bool is_answer = IsAnswer(*grammar, texts[i]);
    ASSERT_EQ(is_answer, oracle(texts[i])) << grammar_text << " text '" << texts[i] << "'";
    answers += is_answer ? 1 : 0;
  }
  EXPECT_GE(answers, answers_least) << grammar_text;
}

bool IsPalindrome(std::string_view text) { return text == std::string(text.rbegin(), text.rend()); }

// Groups of brackets, each a list of a and groups with commas between.
bool IsList(std::string_view text) {
  std::string left(text);
  for (;;) {
    size_t at = left.npos;
    // A list without lists in it becomes an a.
    const size_t close = left.find(']');
    if (close == left.npos) return left == "a";
    at = left.rfind('[', close);
    if (at == left.npos) return false;
    const std::string inside = left.substr(at + 1, close - at - 1);
    for (size_t i = 0; i < inside.size(); ++i) {
      if (inside[i] != (i % 2 == 0 ? 'a' : ',')) return false;
    }
    if (inside.size() % 2 == 0 && !inside.empty()) return false;
    left.replace(at, close - at + 1, "a");
  }
}

TEST(GbnfReader, RulesMeanWhatTheySay) {
  ExpectLanguage("root ::= \"a\" root \"a\" | \"b\" root \"b\" | [ab]?", "ab", 10, IsPalindrome, 100);
  ExpectLanguage("root ::= item\nitem ::= \"a\" | \"[\" (item (\",\" item)*)? \"]\"", "a[],", 7, IsList, 10);
  // A call at the end of its rule, and one in front of a loop that may be empty.
  ExpectLanguage(
      "root ::= x\nx ::= \"ab\" x | (y)* \"c\"\ny ::= \"b\" y \"b\" | \"\"", "abc", 8,
      [](std::string_view text) {
        while (text.starts_with("ab")) text.remove_prefix(2);
        return text.ends_with('c') && text.find_first_not_of('b') == text.size() - 1 && text.size() % 2 == 1;
      },
      10);
  ExpectLanguage(
      "root ::= n{2,3}\nn ::= \"(\" n \")\" | \"a\"", "(a)", 8,
      [](std::string_view text) {
        int values = 0;
        for (; !text.empty(); ++values) {
          const size_t depth = text.find('a');
          if (depth == text.npos || text.find_first_not_of('(') != depth) return false;
          text.remove_prefix(depth + 1);
          if (!text.starts_with(std::string(depth, ')'))) return false;
          text.remove_prefix(depth);
        }
        return values == 2 || values == 3;
      },
      10);
  ExpectLanguage(
      "root ::= [^a] . \"c\" | \"\\x61\"{2} b\nb ::= \"b\"{1,2}", "abc", 5,
      [](std::string_view text) {
        return text == "aab" || text == "aabb" || (text.size() == 3 && text[0] != 'a' && text[2] == 'c');
      },
      8);
}

TEST(GbnfReader, JsonAsLlamaCppHasIt) {
  const auto json = MustCompileKind(GrammarKind::kGbnf, R"x(root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws ::= | " " | "\n" [ \t]{0,20}
)x");
  for (const char* text : {"{}", "{\"a\": [1, {\"b\":\"\\u00e9\xc3\xa9\"}, -0.5e+3 ], \"c\":null}"}) {
    EXPECT_TRUE(IsAnswer(*json, text)) << text;
  }
  for (const char* text : {"", "[]", "{\"a\"}", "{\"a\":01}", "{\"a\":\"\n\"}", "{} x", "{\"a\":1,}"}) {
    EXPECT_FALSE(IsAnswer(*json, text)) << text;
  }
  // Lists have no limit, nesting has one.
  std::string list = "{\"a\":[1", deep = "{\"a\":";
  for (int i = 0; i < 5000; ++i) list += ",1";
  EXPECT_TRUE(IsAnswer(*json, list + "]}"));
  GrammarState state = json->Begin();
  EXPECT_EQ(json->Advance(state, deep + std::string(400, '[')), Grammar::Verdict::kAllowed);
  EXPECT_EQ(json->BytesToEnd(state), 401);
  EXPECT_EQ(json->Advance(state, std::string(kCallsMax, '[')), Grammar::Verdict::kForbidden);
}

// What a part that is nothing is repeated for takes no node, so that only work bounds it.
TEST(GbnfReader, RepetitionsOfNothingEnd) {
  for (const char* text :
       {R"(root ::= "a" root{0}{100000}{100000}{100000})", R"(root ::= "a" root{0}{0,100000}{0,100000}{0,100000})",
        R"(root ::= "a" (root{0} root{0}){100000}{5,100000}{100000})", R"(root ::= "a" (root{0})*{100000}{100000})"}) {
    const Compiled made = CompileKind(GrammarKind::kGbnf, text);
    if (const auto* refusal = std::get_if<Refusal>(&made)) {
      EXPECT_TRUE(refusal->kind == RefusalKind::kTooLarge || refusal->kind == RefusalKind::kTooComplex) << text;
      continue;
    }
    EXPECT_TRUE(IsAnswer(*std::get<0>(made), "a")) << text;
    EXPECT_FALSE(IsAnswer(*std::get<0>(made), "aa")) << text;
  }
}

TEST(GbnfReader, LongSequencesAreReadInTheirOrder) {
  std::string rule = "root ::= ", answer;
  for (int i = 0; i < 12'000; ++i) {
    rule += i % 2 == 0 ? "[a] " : "[b] ";
    answer += i % 2 == 0 ? 'a' : 'b';
  }
  const auto grammar = MustCompileKind(GrammarKind::kGbnf, rule + "root?");
  ASSERT_NE(grammar, nullptr);
  EXPECT_TRUE(IsAnswer(*grammar, answer.substr(0, 12'000)));
  EXPECT_FALSE(IsAnswer(*grammar, "b" + answer.substr(1)));
}

TEST(GbnfReader, WhatCannotBeReadIsRefused) {
  const auto expect = [](const std::string& text, RefusalKind kind, const std::string& why) {
    const Refusal refusal = MustRefuseKind(GrammarKind::kGbnf, text);
    EXPECT_EQ(refusal.kind, kind) << text;
    EXPECT_NE(refusal.text.find(why), std::string::npos) << text << ": " << refusal.text;
  };
  expect("root ::= root \"a\" | \"b\"", RefusalKind::kInvalidGrammar,
         "line 1, column 10: the rule 'root' begins with itself");
  expect("root ::= \"x\" a\na ::= b? c\nb ::= \"b\" a\nc ::= (\"d\"* a)+ \"e\"", RefusalKind::kInvalidGrammar,
         "line 4, column 13: the rule 'a' begins with itself");
  expect("root ::= \"a\" root", RefusalKind::kUnsatisfiable, "no text");
  expect("root ::= [^\\x00-\\U0010ffff]", RefusalKind::kUnsatisfiable, "no text");
  expect("root ::= a{30000}\na ::= \"(\" a \")\" | \"\"", RefusalKind::kTooLarge, "too many rules");
  expect("root ::= \"" + std::string(300'000, 'a') + "\"", RefusalKind::kTooLarge, "more than");
  expect("root", RefusalKind::kInvalidGrammar, "'::='");
  // Rules that double each other stay small.
  std::string doubled = "root ::= a0\n";
  for (int i = 0; i < 40; ++i)
    doubled += "a" + std::to_string(i) + " ::= a" + std::to_string(i + 1) + " a" + std::to_string(i + 1) + "\n";
  const auto grammar = MustCompileKind(GrammarKind::kGbnf, doubled + "a40 ::= \"x\"");
  ASSERT_NE(grammar, nullptr);
  GrammarState state = grammar->Begin();
  EXPECT_EQ(grammar->Advance(state, "xxx"), Grammar::Verdict::kAllowed);
}

}  // namespace
}  // namespace hydrant::grammar
