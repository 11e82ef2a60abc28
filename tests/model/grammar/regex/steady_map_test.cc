// Memory that runs out in the middle of a mask: what is remembered by then is whole, so that the same answers are allowed later.
#include "model/grammar/regex/steady_map.h"

#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/grammar/token_masks.h"
#include "tests/engine/failing_new.h"
#include "tests/model/grammar/grammar_checks.h"
#include "tests/support/sanitizers.h"

namespace hydrant::grammar {
namespace {

struct Case {
  GrammarKind kind;
  const char* text;
  const char* answer;
};
const std::vector<Case> kCases = {
    {GrammarKind::kJsonSchema,
     R"({"type":"object","properties":{"id":{"type":"string","pattern":"^[a-z]+(-\\d+)?$"},"k":{"type":"integer"}},"required":["id"]})",
     R"({"id":"ab-1","k":12,"x":[1,{"y":"z"}]})"},
    {GrammarKind::kJsonSchema,
     R"({"type":"object","patternProperties":{"^(a|b)[ab]$":{"enum":[1,[]]}},"additionalProperties":false})",
     R"({"aa":1,"ab":[],"ba":1})"},
    {GrammarKind::kStructuralTag,
     R"({"triggers":["<a"],"structures":[{"begin":"<ab","schema":{"type":["array","integer"]},"end":">"}]})",
     "x<<ab[1,[2]]>y<ab12>"},
    {GrammarKind::kGbnf, "root ::= \"(\" root \")\" | x*\nx ::= [a-c]{1,3} | \"[\" x? \"]\"", "((ab[c]a))"},
};

struct Place {
  std::vector<uint32_t> mask;
  std::optional<int64_t> to_end;
  bool operator==(const Place&) const = default;
};

// What may come before each byte of the answer, and how far the end is.
void Walk(Grammar& grammar, TokenMasks& masks, std::string_view answer, std::vector<Place>& places) {
  GrammarState state = grammar.Begin();
  for (size_t i = 0; i < places.size(); ++i) {
    masks.Mask(state, places[i].mask);
    places[i].to_end = grammar.BytesToEnd(state);
    if (i < answer.size()) grammar.Advance(state, answer.substr(i, 1));
  }
}

TEST(SteadyMap, GrammarsAreWholeWhereMemoryRanOut) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (const char* piece : {"\":", "{\"", "\",\"", "ab", "12", "]}", "<ab", "[1,", "((", "))", "aa\":1,\"b"}) {
    tokens.emplace_back(piece);
  }
  const auto trie = std::make_shared<const TokenTrie>(tokens);
  for (const Case& each : kCases) {
    const std::string_view answer = each.answer;
    const auto whole = MustCompileKind(each.kind, each.text);
    ASSERT_NE(whole, nullptr);
    const std::vector<Place> empty(answer.size() + 1, Place{std::vector<uint32_t>(trie->words()), std::nullopt});
    for (const size_t states_max : {Grammar::kStatesMax, size_t{12}}) {
      std::vector<Place> expected = empty;
      TokenMasks all(whole, trie);
      Walk(*whole, all, answer, expected);
      int failures = 0;
      for (int calls = 0;; calls += 1 + calls / (kSanitized ? 8 : 40)) {
        const auto grammar = std::make_shared<Grammar>(whole->source());
        grammar->set_states_max(states_max);
        TokenMasks masks(grammar, trie);
        std::vector<Place> places = empty;
        FailNewAfter(calls);
        try {
          const MemoryRunsOut runs_out;
          Walk(*grammar, masks, answer, places);
        } catch (const std::bad_alloc&) {
          ++failures;
        }
        if (!NewFailed()) break;
        places = empty;
        Walk(*grammar, masks, answer, places);
        for (size_t i = 0; i < places.size(); ++i) {
          ASSERT_EQ(places[i], expected[i]) << each.text << ": allocation " << calls << ", byte " << i;
        }
      }
      EXPECT_GT(failures, 30) << each.text;
    }
  }
}

// Wherever it is that memory runs out, a compile throws, and nothing is left of it.
TEST(SteadyMap, CompilesThrowWhereMemoryRunsOut) {
  std::vector<Case> cases = kCases;
  cases.push_back({GrammarKind::kJsonSchema,
                   R"({"$defs":{"a":{"$anchor":"x","enum":["b",2]}},"anyOf":[{"$ref":"#x"},{"if":{"type":"string"},)"
                   R"("then":{"format":"date"},"else":{"type":"array"}}]})",
                   ""});
  cases.push_back(
      {GrammarKind::kToolCalls, R"({"format":"hermes","choice":"auto","tools":[{"name":"ab"},{"name":"c"}]})", ""});
  for (const Case& each : cases) {
    int failures = 0;
    for (int calls = 0;; calls += 1 + calls / 40) {
      Compiled made = Refusal{RefusalKind::kInvalid, "", "", "not made"};
      FailNewAfter(calls);
      try {
        const MemoryRunsOut runs_out;
        made = CompileKind(each.kind, each.text);
      } catch (const std::bad_alloc&) {
        ++failures;
        ASSERT_EQ(made.index(), 1u);
      }
      if (NewFailed()) continue;
      EXPECT_EQ(made.index(), 0u) << each.text;
      break;
    }
    EXPECT_GT(failures, 30) << each.text;
  }
}

}  // namespace
}  // namespace hydrant::grammar
