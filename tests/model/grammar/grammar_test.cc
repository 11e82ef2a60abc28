#include "model/grammar/grammar.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/model/grammar/grammar_checks.h"

namespace hydrant::grammar {
namespace {

std::shared_ptr<Grammar> GrammarOf(const GrammarSpec& spec) {
  Fuel fuel;
  auto made = Grammar::Compile(spec, fuel);
  EXPECT_EQ(made.index(), 0u);
  return std::get<0>(made);
}

TEST(Grammar, AnswersMayBeOtherThanJson) {
  const auto regex = GrammarOf({GrammarKind::kRegex, "(yes|no)[.!]?"});
  EXPECT_TRUE(IsAnswer(*regex, "yes"));
  EXPECT_TRUE(IsAnswer(*regex, "no!"));
  EXPECT_FALSE(IsAnswer(*regex, "yes "));
  const auto choice = GrammarOf({GrammarKind::kChoice, "", {"a", "ab", "\xff"}});
  for (const char* yes : {"a", "ab", "\xff"}) EXPECT_TRUE(IsAnswer(*choice, yes));
  for (const char* no : {"", "b", "abc"}) EXPECT_FALSE(IsAnswer(*choice, no));
  const auto object = GrammarOf({});
  EXPECT_TRUE(IsAnswer(*object, R"({"a":[1,{"b":null}],"c":"\u00e9"})"));
  EXPECT_FALSE(IsAnswer(*object, "[]"));
  EXPECT_FALSE(IsAnswer(*object, R"({"a":1,"a":2})"));
}

// Texts of an expression, or those to choose from, are no JSON: brackets are characters like others, and no text at all is one.
TEST(Grammar, AnswersMayBeginWithBracketsOrBeEmpty) {
  struct Case {
    GrammarSpec spec;
    std::vector<std::string> answers, others;
    int64_t shortest;
  };
  const std::vector<Case> cases = {
      {{GrammarKind::kRegex, R"(\{\d\}|\[a\])"}, {"{1}", "[a]"}, {"", "{", "{}", "[]"}, 3},
      {{GrammarKind::kChoice, "", {"[a]", "{bb}", "c"}}, {"[a]", "{bb}", "c"}, {"", "[", "{}"}, 1},
      {{GrammarKind::kChoice, "", {"", "{"}}, {"", "{"}, {"["}, 0},
      {{GrammarKind::kRegex, "(yes)?"}, {"", "yes"}, {"y", "{"}, 0},
      {{GrammarKind::kRegex, ""}, {""}, {"y"}, 0},
  };
  for (const Case& each : cases) {
    const auto grammar = GrammarOf(each.spec);
    for (const std::string& yes : each.answers) EXPECT_TRUE(IsAnswer(*grammar, yes)) << each.spec.text << " " << yes;
    for (const std::string& no : each.others) EXPECT_FALSE(IsAnswer(*grammar, no)) << each.spec.text << " " << no;
    GrammarState state = grammar->Begin();
    EXPECT_EQ(grammar->BytesToEnd(state), each.shortest) << each.spec.text;
  }
}

TEST(Grammar, WhatHasNoAnswerIsRefused) {
  Fuel fuel;
  for (const GrammarSpec& spec : std::vector<GrammarSpec>{
           {GrammarKind::kRegex, "[]"}, {GrammarKind::kChoice}, {GrammarKind::kJsonSchema, "false"}}) {
    const auto made = Grammar::Compile(spec, fuel);
    ASSERT_EQ(made.index(), 1u);
    EXPECT_EQ(std::get<Refusal>(made).kind, RefusalKind::kUnsatisfiable);
  }
  const auto regex = Grammar::Compile({GrammarKind::kRegex, "a(?!b)"}, fuel);
  EXPECT_EQ(std::get<Refusal>(regex).text, "column 2: look-around is not supported");
}

// Whoever built too much is not told to begin in fewer ways.
TEST(Grammar, WhatTookTheWorkIsSaid) {
  const GrammarSpec spec{GrammarKind::kGbnf, R"(root ::= "a" [b-d]{2,9} | [ef] root)"};
  Fuel much;
  ASSERT_EQ(Grammar::Compile(spec, much).index(), 0u);
  const int64_t taken = Fuel::kCompile - much.left;
  for (int64_t fuel = 1; fuel <= taken; ++fuel) {
    Fuel little{fuel};
    const auto made = Grammar::Compile(spec, little);
    ASSERT_EQ(made.index(), 1u) << fuel << " of " << taken;
    EXPECT_EQ(std::get<Refusal>(made).text, "takes too much work");
  }
}

TEST(Grammar, AStateIsAValue) {
  const auto grammar = MustCompile(R"({"type":"array","items":{"enum":["a","b"]}})");
  GrammarState state = grammar->Begin();
  ASSERT_EQ(grammar->Advance(state, R"(["a)"), Grammar::Verdict::kAllowed);
  GrammarState draft = state;
  ASSERT_EQ(grammar->Advance(draft, R"(","b"])"), Grammar::Verdict::kAllowed);
  EXPECT_TRUE(grammar->Accepts(draft));
  EXPECT_FALSE(grammar->Accepts(state));
  // What is forbidden leaves it where it was, even behind bytes that were allowed.
  EXPECT_EQ(grammar->Advance(state, R"(",3)"), Grammar::Verdict::kForbidden);
  ASSERT_EQ(grammar->Advance(state, R"("])"), Grammar::Verdict::kAllowed);
  EXPECT_TRUE(grammar->Accepts(state));
}

// Two answers side by side, byte by byte, with everything dropped every few states, agree with one that remembers.
TEST(Grammar, ForgettingChangesNoAnswer) {
  const char* schema =
      R"({"type":"object","properties":{"id":{"type":"string","pattern":"^[a-z]{3,900}(-\\d+)*$","maxLength":1000},)"
      R"("tags":{"type":"array","items":{"anyOf":[{"type":"object","additionalProperties":{"type":"integer"}},{"type":"string","maxLength":40}]}}}})";
  const std::vector<std::string> texts = {
      R"({"id":"abcdef-12-3","tags":[{"x":1,"yy":22},"some text",{"k":3,"x":1}],"more":[1,{"z":null}]})",
      R"({"id":"zzz","tags":["a","b",{"k":1,"k":2}]})"};
  const auto keeps = MustCompile(schema), forgets = MustCompile(schema);
  GrammarState other = forgets->Begin();
  for (size_t i = 0; i < 2 * texts.size(); ++i) {
    const std::string& text = texts[i / 2];
    forgets->set_states_max(i % 2 == 0 ? 7 : Grammar::kStatesMax);
    forgets->set_bytes_max(i % 2 == 0 ? Grammar::kBytesMax : 500);
    GrammarState one = keeps->Begin(), two = forgets->Begin();
    for (const char byte : text) {
      const std::string next(1, byte);
      const auto verdict = keeps->Advance(one, next);
      ASSERT_EQ(forgets->Advance(two, next), verdict) << text << " at " << next;
      // Somebody else is in the middle of theirs.
      if (forgets->Advance(other, "[[") != Grammar::Verdict::kAllowed) other = forgets->Begin();
      if (verdict != Grammar::Verdict::kAllowed) break;
    }
    EXPECT_EQ(keeps->Accepts(one), forgets->Accepts(two));
  }
}

// States that come from elsewhere bring what they need along; that is bounded by what it takes, however few things it is.
TEST(Grammar, WhatIsRememberedIsBoundedInBytes) {
  const auto grammar = MustCompile(R"({"type":"string","pattern":"(a|b)*a(a|b){14}$"})");
  constexpr size_t kMost = 10'000;
  grammar->set_bytes_max(kMost);
  const size_t begun = grammar->bytes();
  std::mt19937 random(5);
  size_t most = 0;
  for (int i = 0; i < 250; ++i) {
    Grammar other(grammar->source());
    GrammarState state = other.Begin();
    std::string text = "\"";
    for (int j = 0; j < 40; ++j) text += "ab"[random() % 2];
    ASSERT_EQ(other.Advance(state, text), Grammar::Verdict::kAllowed);
    ASSERT_EQ(grammar->Advance(state, "ab"), Grammar::Verdict::kAllowed);
    most = std::max(most, grammar->bytes() - begun);
  }
  EXPECT_GT(most, kMost) << "nothing was ever dropped for it";
  EXPECT_LT(most, 10 * kMost);
}

TEST(Grammar, TwoAnswersOfWhichOneHasManyKeysDoNotBeginAnewForEachOther) {
  const auto grammar = GrammarOf({});
  grammar->set_states_max(40);
  GrammarState many = grammar->Begin(), few = grammar->Begin();
  ASSERT_EQ(grammar->Advance(few, "{\"a\":[1"), Grammar::Verdict::kAllowed);
  ASSERT_EQ(grammar->Advance(many, "{\"a\":1"), Grammar::Verdict::kAllowed);
  for (int i = 0; i < 300; ++i) {
    ASSERT_EQ(grammar->Advance(many, ",\"k" + std::to_string(i) + "\":0"), Grammar::Verdict::kAllowed);
  }
  constexpr int kTurns = 20;
  Fuel fuel;
  for (int i = 0; i < kTurns; ++i) {
    for (GrammarState* each : {&few, &many}) ASSERT_EQ(grammar->Advance(*each, " ", fuel), Grammar::Verdict::kAllowed);
    for (GrammarState* each : {&few, &many}) ASSERT_EQ(grammar->Advance(*each, "", fuel), Grammar::Verdict::kAllowed);
    if (i % 8 == 7) {
      // No more white space in a row.
      ASSERT_EQ(grammar->Advance(few, ",1", fuel), Grammar::Verdict::kAllowed);
      ASSERT_EQ(grammar->Advance(many, ",\"" + std::to_string(i) + "\":1", fuel), Grammar::Verdict::kAllowed);
    }
  }
  const int64_t move = 300 * JsonMachine::kImportFuel;
  EXPECT_LT(Fuel::kCompile - fuel.left, 3 * move) << "the keys were moved more than a few times";
}

TEST(Grammar, AnAnswerOfMoreKeysThanOneCallMovesComesFurtherWithEachTry) {
  const auto grammar = GrammarOf({});
  GrammarState many = grammar->Begin();
  ASSERT_EQ(grammar->Advance(many, "{\"a\":1"), Grammar::Verdict::kAllowed);
  for (int i = 0; i < 500; ++i) {
    ASSERT_EQ(grammar->Advance(many, ",\"k" + std::to_string(i) + "\":0"), Grammar::Verdict::kAllowed);
  }
  Grammar other(grammar->source());
  other.set_states_max(100);
  int tries = 1;
  for (; tries < 9; ++tries) {
    Fuel fuel{3000};  // half of what they cost
    if (other.Advance(many, ",\"k", fuel) == Grammar::Verdict::kAllowed) break;
  }
  EXPECT_EQ(tries, 4);
  EXPECT_EQ(other.Advance(many, "499\":"), Grammar::Verdict::kForbidden) << "it knows its keys";
  EXPECT_EQ(other.Advance(many, "500\":"), Grammar::Verdict::kAllowed);
}

TEST(Grammar, ToBeginIsWorkOnce) {
  const GrammarSpec spec{GrammarKind::kGbnf, "root ::= (\"a\" | \"b\") root | [ef] (root | \"g\")"};
  const auto grammar = GrammarOf(spec);
  Fuel fuel;
  grammar->Begin(fuel);
  EXPECT_EQ(fuel.left, Fuel::kCompile) << "the compile has paid for it";
  const auto alone = std::make_shared<Grammar>(grammar->source());
  alone->Begin(fuel);
  const int64_t behind_first = fuel.left;
  EXPECT_LT(behind_first, Fuel::kCompile);
  alone->Begin(fuel);
  EXPECT_EQ(fuel.left, behind_first);
}

TEST(Grammar, TextsOfWhichAKeyIsOneCountAsMemoryAndAsWork) {
  const auto grammar =
      GrammarOf({GrammarKind::kJsonSchema, R"({"patternProperties":{"^[ab]{7}$":{}},"additionalProperties":false})"});
  GrammarState state = grammar->Begin();
  ASSERT_EQ(grammar->Advance(state, R"({"aaaaaaa":1,")"), Grammar::Verdict::kAllowed);
  const size_t before = grammar->bytes();
  GrammarState other = state;
  Fuel fuel;
  ASSERT_EQ(grammar->Advance(other, "b", fuel), Grammar::Verdict::kAllowed);
  EXPECT_GT(grammar->bytes(), before + 64 * sizeof(std::string));
  EXPECT_LT(fuel.left, Fuel::kCompile - 2 * 64 * 40) << "64 texts of six letters";
}

TEST(Grammar, HostileSchemasAreTakenOrRefusedForLittle) {
  std::string optional, names, all;
  for (int i = 0; i < 2000; ++i)
    optional += std::string(i == 0 ? "" : ",") + "\"property" + std::to_string(i) + "\":{\"type\":\"integer\"}";
  for (int i = 0; i < 8000; ++i) names += std::string(i == 0 ? "" : ",") + "\"name " + std::to_string(i * 7919) + "\"";
  for (int i = 0; i < 300; ++i) all += std::string(i == 0 ? "" : ",") + "\"k" + std::to_string(i) + "\":true";
  std::string nested = R"({"type":"null"})";
  for (int i = 0; i < 12; ++i) nested = R"({"oneOf":[)" + nested + R"(,{"type":"array","items":)" + nested + "}]}";
  std::string doubled = R"("d0":{"type":"null"})";
  for (int i = 1; i <= 20; ++i) {
    const std::string below = "{\"$ref\":\"#/$defs/d" + std::to_string(i - 1) + "\"}";
    doubled += ",\"d" + std::to_string(i) + "\":{\"prefixItems\":[" + below + "," + below + "]}";
  }
  const std::vector<std::string> schemas = {
      R"({"type":"string","maxLength":1000000})",
      R"({"type":"string","minLength":1000000})",
      R"({"type":"string","pattern":"^([a-zA-Z0-9_-]{1,1000}\\.){1,200}$"})",
      R"({"type":"string","pattern":"(a|b)*a(a|b){24}$"})",
      R"({"type":"string","pattern":"(a|b)*a(a|b){24}$","maxLength":100000})",
      R"({"multipleOf":99991,"minimum":0,"maximum":1e15,"type":"integer"})",
      "{\"type\":\"object\",\"properties\":{" + optional + "}}",
      "{\"enum\":[" + names + "]}",
      "{\"type\":\"object\",\"minProperties\":150,\"properties\":{" + all + "}}",
      nested.size() < (size_t{256} << 10) ? nested : "{}",
      "{\"$defs\":{" + doubled + "},\"$ref\":\"#/$defs/d20\"}",
  };
  for (const std::string& schema : schemas) {
    GrammarSpec spec{GrammarKind::kJsonSchema, schema};
    Fuel fuel;
    const auto made = Grammar::Compile(spec, fuel);
    // Whatever is refused is refused because it is too much, or not to be proven.
    if (const auto* refusal = std::get_if<Refusal>(&made)) {
      EXPECT_TRUE(refusal->kind == RefusalKind::kTooComplex || refusal->kind == RefusalKind::kUnprovableOneOf)
          << schema.substr(0, 80) << refusal->text;
    } else {
      GrammarState state = std::get<0>(made)->Begin();
      EXPECT_NE(std::get<0>(made)->Advance(state, "\"a"), Grammar::Verdict::kLimit) << schema.substr(0, 80);
    }
  }
}

}  // namespace
}  // namespace hydrant::grammar
