#include "model/grammar/token_masks.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "model/text/str_cat.h"
#include "tests/model/grammar/grammar_checks.h"
#include "tests/support/sanitizers.h"

namespace hydrant::grammar {
namespace {

// All bytes, and pieces that begin, end and cross what JSON is made of.
std::vector<std::string> Tokens() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (const char* piece : {"\"a\"",    "\",\"",        "\":",  "\": ",     "\": \"", "{\"",          "\"}",
                            "\"}]",     "},{",          "}, {", "[]",       "{}",     "null",         "true",
                            "tr",       "12",           "-1",   "1,",       "3]",     "1.5",          "e3",
                            "ab",       "abc",          "ba",   "kk",       "k\":1",  "k\":1,\"k",    "\\n",
                            "\\u00",    "e9",           "\\\"", "\xc3\xa9", "\xa9\"", "  ",           "\n\n",
                            "        ", ", ",           ",\n",  "x-1",      "-12\"",  "aaaaaaaaaaaa", "a\",\"id\":\"",
                            "[ARGS]",   "[TOOL_CALLS]", ""}) {
    tokens.emplace_back(piece);
  }
  return tokens;
}

const std::vector<const char*> kSchemas = {
    "{}",
    R"({"type":"object","properties":{"id":{"type":"string","pattern":"^[a-z]+(-\\d+)?$","maxLength":9},"k":{"type":"integer"}},"required":["id"]})",
    R"({"type":"object","additionalProperties":{"enum":[1,12,true,null,"ab","abc"]},"maxProperties":3})",
    R"({"type":"array","items":{"anyOf":[{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]},{"type":"object"},{"type":"string","minLength":3}]},"minItems":1})",
    R"({"type":["number","string"],"minimum":1.25,"maxLength":20})",
    R"({"type":"object","patternProperties":{"^k":{"type":"string","maxLength":14},"b$":{"type":"array"}},"additionalProperties":false})",
    R"({"type":"object","patternProperties":{"^(ab|ba|k|x)[a-c]{3}$":{"enum":[1]}},"additionalProperties":false})",
    R"({"type":"object","properties":{"ab":{"type":"null"}},"additionalProperties":{"enum":[1]}})",
    // Characters that are counted beside a pattern: read apart, unless little is left.
    R"({"type":"string","pattern":"[a-c]+-[0-9]{2}","minLength":6})",
    R"({"type":"array","items":{"type":"string","pattern":"^(ab|x|k{3})*$","minLength":4,"maxLength":7}})",
    R"({"type":"string","pattern":"^[a-z ,]*(1|é)$","minLength":3,"maxLength":18})",
    R"({"type":"string","pattern":"^([a-c]{2})*$","minLength":3})",
    R"({"type":"string","not":{"enum":["a","ab","","k","aaaaaaaaaaaa"]}})",
    R"({"type":"object","properties":{"a":{"type":"string","pattern":"^[a-c]+( [a-c]*){0,90}-?[12]$","maxLength":60}},"required":["a"]})",
    // Loops, and keys that few texts are left of.
    R"({"type":"array","items":{"type":"string","pattern":"^(a[a-c]*|k[^0-9]*|[0-9]+)$"}})",
    R"({"type":"object","patternProperties":{"^.*$":{"type":"integer"}}})",
    R"({"type":"object","patternProperties":{"^(a[a-c]{0,1}|k.*)$":{"enum":[1]}},"additionalProperties":false})",
    // Counts that no token brings to their end, and counts that some do; so many keys that one may run out of them.
    R"({"type":"array","items":{"type":"string","pattern":"^([a-c]{13,90}|(ab){7,9}x?|k{1,30}\\d+)-?$","maxLength":25}})",
    R"({"type":"array","items":{"type":"string","pattern":"^(a{0,90}|x)\\s\\S*$","minLength":1,"maxLength":14}})",
    // More that has to come behind a token than a token is long, beside a counter.
    R"({"type":"string","pattern":"^[a-z]*-[0-9]{40}$","maxLength":50})",
    R"({"type":"string","pattern":"^[a-z]*(-[0-9]{40}|[1-3]{0,90}kk?)$","maxLength":50})",
    R"({"type":"object","patternProperties":{"^a{0,78}$":{"enum":[1]}},"additionalProperties":false,"minProperties":70})",
};

const std::vector<const char*> kTags = {
    R"x({"triggers":["k\":1","ab"],"structures":[{"begin":"k\":1","schema":{"type":["array","integer"]},"end":",\"k"},{"begin":"abc","schema":{"type":"object"},"end":"\n"}]})x",
    R"x({"format":{"type":"sequence","elements":[{"type":"regex","pattern":"[a-c]*|\"[^\"\\\\]{0,20}\"x"},{"type":"json_schema","json_schema":{"type":["string","number","array"]}},{"type":"regex","pattern":"[1-3a]*"},{"type":"any_text","excludes":["true","x-1"]}]}})x",
    R"x({"format":{"type":"tags_with_separator","separator":", ","at_least_one":true,"tags":[{"begin":"a","content":{"type":"any_text"},"end":["kk","12"]},{"begin":"b","content":{"type":"triggered_tags","triggers":["a"],"tags":[{"begin":"aa","content":{"type":"json_schema","json_schema":{"type":"number"}},"end":"1"}]},"end":"}"}]}})x",
};

const std::vector<const char*> kGbnf = {
    "root ::= value\nvalue ::= \"[\" (value (\",\" value)*)? \"]\" | text | [0-9]{1,3}\ntext ::= \"\\\"\" "
    "[^\\\"\\\\]{0,9} \"\\\"\"",
    "root ::= (\"a\" x | [b-c] )* \"1\"\nx ::= \"b\" x \"c\" | \"a\"?",
};

// Texts that are no JSON: they begin with brackets, are empty, count, or end anywhere.
const std::vector<const char*> kRegexes = {R"re(\{("id": \d{1,3}, )?"[a-c]*"\}|\[(-1|12)?\]|)re",
                                           "([a-c]{2})*1?",
                                           "[a-z ]{5,200}",
                                           ".{3,40}",
                                           "(ab|x-1){3}k{0,9}",
                                           ""};

struct TokenMasksCase {
  GrammarKind kind;
  const char* text;
};
std::vector<TokenMasksCase> Cases() {
  std::vector<TokenMasksCase> cases;
  for (const char* schema : kSchemas) cases.push_back({GrammarKind::kJsonSchema, schema});
  for (const char* tag : kTags) cases.push_back({GrammarKind::kStructuralTag, tag});
  for (const char* text : kGbnf) cases.push_back({GrammarKind::kGbnf, text});
  for (const char* text : kRegexes) cases.push_back({GrammarKind::kRegex, text});
  cases.push_back({GrammarKind::kToolCalls,
                   R"({"format":"hermes","choice":"auto","tools":[{"name":"ab"},{"name":"abc","parameters":{}}]})"});
  cases.push_back(
      {GrammarKind::kToolCalls,
       R"({"format":"mistral_args","markers":["[TOOL_CALLS]","[ARGS]"],"choice":"auto","tools":[{"name":"ab"},{"name":"abc","parameters":{}}]})"});
  cases.push_back({GrammarKind::kToolCalls,
                   R"({"format":"mistral_args","markers":["[ARGS]"],"choice":"required","tools":[{"name":"ab"}]})"});
  return cases;
}

// Mask, PlainMask and Advance, token by token, say the same along random answers.
TEST(TokenMasks, AreWhatAdvanceAllows) {
  const std::vector<std::string> tokens = Tokens();
  const auto trie = std::make_shared<const TokenTrie>(tokens);
  std::mt19937 random(7);
  for (const auto& [kind, schema] : Cases()) {
    const auto grammar = MustCompileKind(kind, schema);
    TokenMasks masks(grammar, trie);
    std::vector<uint32_t> mask(trie->words()), plain(trie->words());
    constexpr int kAnswers = kSanitized ? 2 : 6;
    for (int answer = 0; answer < kAnswers; ++answer) {
      GrammarState state = grammar->Begin();
      const bool forgets = answer == kAnswers - 1;  // and finds out again, which is nearly all of this test's time
      if (forgets) grammar->set_states_max(50);
      for (int step = 0; step < (forgets && kSanitized ? 5 : 24); ++step) {
        ASSERT_EQ(masks.Mask(state, mask), Grammar::Verdict::kAllowed);
        ASSERT_EQ(masks.PlainMask(state, plain), Grammar::Verdict::kAllowed);
        ASSERT_EQ(mask, plain) << schema << " step " << step;
        std::vector<size_t> allowed;
        for (size_t id = 0; id < tokens.size(); ++id) {
          GrammarState copy = state;
          const bool may = !tokens[id].empty() && grammar->Advance(copy, tokens[id]) == Grammar::Verdict::kAllowed;
          ASSERT_EQ((mask[id / 32] >> (id % 32) & 1) != 0, may) << schema << " token '" << tokens[id] << "'";
          if (may) allowed.push_back(id);
        }
        if (allowed.empty()) {
          ASSERT_TRUE(grammar->Accepts(state)) << schema;
          break;
        }
        // Longer tokens more often: they cross more.
        const size_t one = allowed[random() % allowed.size()], two = allowed[random() % allowed.size()];
        const size_t id = tokens[one].size() > tokens[two].size() ? one : two;
        ASSERT_EQ(grammar->Advance(state, tokens[id]), Grammar::Verdict::kAllowed);
      }
    }
  }
}

// To walk through what is remembered is work, too: with many ways to read what is there as much as to find it out.
TEST(TokenMasks, RememberedStepsCostFuel) {
  const size_t ways = 50;
  std::string schema;
  for (size_t i = 0; i < ways; ++i) {
    schema += StrCat(i == 0 ? "" : ",", R"({"type":"array","items":{"type":"string","maxLength":)", i + 1, "}}");
  }
  const auto grammar = MustCompile(R"({"anyOf":[)" + schema + "]}");
  const auto trie = std::make_shared<const TokenTrie>(Tokens());
  std::vector<uint32_t> mask(trie->words());
  struct TokenPlace {
    const char* text;
    size_t units;  // of each way, at least
  };
  for (const TokenPlace& place : {TokenPlace{"[", 200}, TokenPlace{"[\"", 1}}) {
    GrammarState state = grammar->Begin();
    ASSERT_EQ(grammar->Advance(state, place.text), Grammar::Verdict::kAllowed);
    int64_t spent = 0;
    for (int i = 0; i < 2; ++i) {
      Fuel fuel;
      ASSERT_EQ(TokenMasks(grammar, trie).Mask(state, mask, fuel), Grammar::Verdict::kAllowed);
      spent = Fuel::kCompile - fuel.left;
    }
    EXPECT_GE(spent, static_cast<int64_t>(ways * place.units)) << place.text;
    Fuel less{spent / 2};
    EXPECT_EQ(TokenMasks(grammar, trie).Mask(state, mask, less), Grammar::Verdict::kLimit) << place.text;
  }
}

TEST(TokenMasks, KnowKeysThatWereThere) {
  const std::vector<std::string> tokens = {"k\":1,\"k\":", "k\":1,\"kk\":", "k\":", "kk\":", "z\":"};
  const auto grammar = MustCompile(R"({"type":"object","minProperties":2})");
  TokenMasks masks(grammar, std::make_shared<const TokenTrie>(tokens));
  GrammarState state = grammar->Begin();
  ASSERT_EQ(grammar->Advance(state, "{\"kk\":0,\""), Grammar::Verdict::kAllowed);
  std::vector<uint32_t> mask(1);
  ASSERT_EQ(masks.Mask(state, mask), Grammar::Verdict::kAllowed);
  EXPECT_EQ(mask[0], 0b10100u);
}

std::vector<std::string> NeedTokens() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (const char* piece : {"\"a\"",
                            "\",\"",
                            "\":",
                            "\": \"",
                            "{\"",
                            "\"}",
                            "},{",
                            "[]",
                            "{}",
                            "null",
                            "12",
                            "1,",
                            "abc",
                            "kk",
                            "k\":1",
                            "k\":1,\"k",
                            "\\n",
                            "\xc3\xa9",
                            "\xf0\x9f",
                            "  ",
                            "[[",
                            "[[[[",
                            "\",\"long\":\"",
                            "some plain text"}) {
    tokens.emplace_back(piece);
  }
  return tokens;
}

const std::vector<const char*> kNeedSchemas = {
    "{}",
    R"({"type":"object","properties":{"k":{"type":"integer"},"long":{"type":"string","minLength":30}},"required":["k"],"additionalProperties":false})",
    R"({"type":"array","items":{"anyOf":[{"const":"ab"},{"type":"string","minLength":20}]},"minItems":1})",
    R"({"type":"object","additionalProperties":{"type":"array","minItems":3},"minProperties":1})",
    R"({"type":"string","pattern":"^(a|b[a-z ]{25})*$"})",
    R"({"type":"string","pattern":"^[a-z]*-[12]{22}$","maxLength":48})",
    R"({"$defs":{"t":{"type":"object","properties":{"abc":{"anyOf":[{"$ref":"#/$defs/t"},{"type":"null"}]}},"required":["abc"],"additionalProperties":false}},"$ref":"#/$defs/t"})",
    R"({"type":"object","properties":{"k":{"type":"string"}},"anyOf":[{"required":["k","abc"]},{"required":["k"],"maxProperties":1},{"required":["k","kk"]}]})",
    R"({"anyOf":[{"items":{"type":"number"},"type":"array","minItems":3},{"items":{"type":"number"},"type":"array","maxItems":1}]})",
};

TEST(TokenMasks, ThatEndInTimeAreWhatBytesToEndSays) {
  const std::vector<std::string> tokens = NeedTokens();
  const auto trie = std::make_shared<const TokenTrie>(tokens);
  std::mt19937 random(3);
  std::vector<TokenMasksCase> cases;
  for (const char* schema : kNeedSchemas) cases.push_back({GrammarKind::kJsonSchema, schema});
  for (const char* text : kRegexes) cases.push_back({GrammarKind::kRegex, text});
  for (const auto& [kind, schema] : cases) {
    const auto grammar = MustCompileKind(kind, schema);
    TokenMasks masks(grammar, trie);
    std::vector<uint32_t> mask(trie->words()), within(trie->words());
    for (int answer = 0; answer < 4; ++answer) {
      GrammarState state = grammar->Begin();
      for (int step = 0; step < 12; ++step) {
        ASSERT_EQ(masks.Mask(state, mask), Grammar::Verdict::kAllowed);
        const int64_t here = grammar->BytesToEnd(state).value_or(40);
        for (const int64_t bytes : {int64_t{0}, here - 1, here, here + 2, here + 3, here + 20, int64_t{500}}) {
          if (bytes < 0) continue;
          ASSERT_EQ(masks.MaskWithin(state, bytes, within), Grammar::Verdict::kAllowed);
          for (size_t id = 0; id < tokens.size(); ++id) {
            GrammarState copy = state;
            bool may = (mask[id / 32] >> (id % 32) & 1) != 0;
            if (may) {
              ASSERT_EQ(grammar->Advance(copy, tokens[id]), Grammar::Verdict::kAllowed);
              const std::optional<int64_t> left = grammar->BytesToEnd(copy);
              may = left.has_value() && *left <= bytes;
            }
            ASSERT_EQ((within[id / 32] >> (id % 32) & 1) != 0, may)
                << schema << " step " << step << " within " << bytes << " token '" << tokens[id] << "'";
          }
        }
        std::vector<size_t> allowed;
        for (size_t id = 0; id < tokens.size(); ++id) {
          if ((mask[id / 32] >> (id % 32) & 1) != 0) allowed.push_back(id);
        }
        if (allowed.empty()) break;
        ASSERT_EQ(grammar->Advance(state, tokens[allowed[random() % allowed.size()]]), Grammar::Verdict::kAllowed);
      }
    }
  }
}

// Whatever the limit is from the shortest answer on, an answer drawn from these masks is whole.
TEST(TokenMasks, AnAnswerOfAnyLengthEnds) {
  const std::vector<std::string> tokens = NeedTokens();
  const auto trie = std::make_shared<const TokenTrie>(tokens);
  std::mt19937 random(4);
  for (const char* schema : kNeedSchemas) {
    const auto grammar = MustCompile(schema);
    TokenMasks masks(grammar, trie);
    std::vector<uint32_t> mask(trie->words());
    GrammarState begin = grammar->Begin();
    const std::optional<int64_t> least = grammar->BytesToEnd(begin);
    ASSERT_TRUE(least.has_value()) << schema;
    for (int64_t most = *least; most < *least + 60; ++most) {
      GrammarState state = grammar->Begin();
      std::string text;
      int64_t left = most;
      for (; left > 0; --left) {
        ASSERT_EQ(masks.MaskWithin(state, left - 1, mask), Grammar::Verdict::kAllowed);
        std::vector<size_t> allowed;
        for (size_t id = 0; id < tokens.size(); ++id) {
          if ((mask[id / 32] >> (id % 32) & 1) != 0) allowed.push_back(id);
        }
        if (allowed.empty()) break;  // only the end can follow
        const size_t id = allowed[random() % allowed.size()];
        text += tokens[id];
        ASSERT_EQ(grammar->Advance(state, tokens[id]), Grammar::Verdict::kAllowed);
      }
      ASSERT_TRUE(grammar->Accepts(state)) << schema << ": " << text << " of " << most;
    }
  }
}

// Ways that differ in what is around a string or a key are read as one while it lasts.
TEST(TokenMasks, AStringCostsWhatItDoesInOneWay) {
  std::vector<std::string> tokens = NeedTokens();
  for (int i = 0; i < 20 * 20 * 20; ++i) {
    tokens.push_back(
        {static_cast<char>('a' + i / 400), static_cast<char>('a' + i / 20 % 20), static_cast<char>('a' + i % 20)});
  }
  const auto trie = std::make_shared<const TokenTrie>(tokens);
  const auto fuel_of = [&](int ways, bool in_key) {
    std::string schema = R"({"type":"object","properties":{"k":{"type":"string"}},"anyOf":[)";
    for (int i = 0; i < ways; ++i) {
      const std::string number = std::to_string(i);
      schema += (i > 0 ? "," : "") +
                (in_key ? "{\"maxProperties\":1" + number + "}" : R"({"required":["k","r)" + number + "\"]}");
    }
    const auto grammar = MustCompile(schema + "]}");
    TokenMasks masks(grammar, trie);
    std::vector<uint32_t> mask(trie->words());
    GrammarState state = grammar->Begin();
    EXPECT_EQ(grammar->Advance(state, in_key ? R"({"zz)" : R"({"k":"ab)"), Grammar::Verdict::kAllowed);
    const int64_t here = grammar->BytesToEnd(state).value_or(-1);
    EXPECT_GT(here, 0);
    Fuel first, second;
    EXPECT_EQ(masks.Mask(state, mask, first), Grammar::Verdict::kAllowed);
    EXPECT_EQ(masks.MaskWithin(state, here + 1, mask, second), Grammar::Verdict::kAllowed);
    return Fuel{}.left - second.left;
  };
  // Each by itself they would be 30 times as much.
  for (const bool in_key : {false, true}) EXPECT_LT(fuel_of(30, in_key), 12 * fuel_of(1, in_key)) << in_key;
}

}  // namespace
}  // namespace hydrant::grammar
