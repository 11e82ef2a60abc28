// The distance to the end, held to what defines it: 0 exactly where the answer may end; elsewhere some byte makes it less by one, and
// none by more. Along random answers that is as good as a search for the shortest one from each place.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/model/grammar/grammar_checks.h"

namespace hydrant::grammar {
namespace {

// Wherever the work ends while shapes are measured, the next one who asks hears the same as the first would have.
TEST(JsonEnd, IsMeasuredAnewWhereTheWorkEnded) {
  LazyDfa dfa;
  Fuel enough;
  auto shapes = BuildShapes(
      R"({"type":"object","properties":{"a":{"type":"array","items":{"enum":["xy"]},"minItems":2},"b":{"type":"string","pattern":"^(?:ab+|c{4})x$"}},"required":["a","b"]})",
      {}, dfa, enough);
  ASSERT_EQ(shapes.index(), 0u);
  const auto plan = std::make_shared<const JsonPlan>(std::move(std::get<0>(shapes)));
  JsonMachine fresh(plan, dfa);
  const std::optional<int64_t> bytes = fresh.BytesToEnd(fresh.Begin(), enough);
  ASSERT_TRUE(bytes.has_value());
  for (int64_t units = 1; units < 400; ++units) {
    JsonMachine machine(plan, dfa);
    Fuel little{units};
    const std::optional<int64_t> first = machine.BytesToEnd(machine.Begin(), little);
    EXPECT_TRUE(!first.has_value() || first == bytes) << units;
    Fuel more;
    EXPECT_EQ(machine.BytesToEnd(machine.Begin(), more), bytes) << units;
  }
}

TEST(JsonEnd, IsOneByteNearerBehindTheBestByte) {
  const std::vector<const char*> schemas = {
      "{}",
      R"({"type":"string","minLength":3,"maxLength":9})",
      R"({"type":"string","pattern":"^(ab+|c{4})x$"})",
      R"({"type":["integer","null"],"minimum":120})",
      R"({"enum":["abc","ab",12345,true]})",
      R"({"type":"array","prefixItems":[{"type":"null"},{"const":"xy"}],"items":{"type":"integer"},"minItems":4})",
      R"({"type":"object","properties":{"bb":{"type":"null"},"a":{"type":"integer"},"c":{"enum":["long one"]},"dd":{"type":"boolean"}},"required":["a","dd"]})",
      R"({"type":"object","properties":{"long key":{"type":"null"},"k":{"enum":["a long value"]},"m":{"type":"integer"}},"minProperties":2,"additionalProperties":false})",
      R"({"anyOf":[{"type":"object","properties":{"a":{"type":"array","minItems":2}},"required":["a"]},{"type":"object","properties":{"b":{"const":1}},"required":["b"]}]})",
      R"({"$defs":{"t":{"type":"object","properties":{"l":{"anyOf":[{"$ref":"#/$defs/t"},{"const":"a leaf"}]}},"required":["l"]}},"$ref":"#/$defs/t"})",
      R"({"type":"object","patternProperties":{"^[xy]{3,}$":{"type":"integer","minimum":50}},"additionalProperties":false,"minProperties":1})",
  };
  const std::vector<const char*> tags = {
      R"({"triggers":["<a","<bb"],"structures":[{"begin":"<a","schema":{"type":"object","required":["k"]},"end":">"},{"begin":"<bb","schema":{"type":"null"},"end":""}]})",
      R"({"format":{"type":"sequence","elements":[{"type":"any_text"},{"type":"const_string","value":"abcab"},{"type":"json_schema","json_schema":{"type":["array","number"],"minItems":1}},{"type":"regex","pattern":"x{3}"}]}})",
      R"({"format":{"type":"tags_with_separator","separator":"::","at_least_one":true,"tags":[{"begin":"<","content":{"type":"any_text"},"end":["/12","//>"]},{"begin":"a","content":{"type":"json_schema","json_schema":{"type":"string","minLength":2}},"end":"}"}]}})",
  };
  std::mt19937 random(11);
  for (size_t i = 0; i < schemas.size() + tags.size(); ++i) {
    const bool is_schema = i < schemas.size();
    const char* schema = is_schema ? schemas[i] : tags[i - schemas.size()];
    const auto grammar = MustCompileKind(is_schema ? GrammarKind::kJsonSchema : GrammarKind::kStructuralTag, schema);
    int measured = 0;
    for (int answer = 0; answer < 4; ++answer) {
      GrammarState state = grammar->Begin();
      for (int step = 0; step < 40; ++step) {
        const std::optional<int64_t> here = grammar->BytesToEnd(state);
        if (!here) break;
        ++measured;
        ASSERT_EQ(*here == 0, grammar->Accepts(state)) << schema << " step " << step;
        std::vector<std::string> allowed;
        std::optional<int64_t> nearest;
        bool known = true;
        for (int byte = 0; byte < 256; ++byte) {
          const std::string next(1, static_cast<char>(byte));
          GrammarState copy = state;
          if (grammar->Advance(copy, next) != Grammar::Verdict::kAllowed) continue;
          allowed.push_back(next);
          const std::optional<int64_t> there = grammar->BytesToEnd(copy);
          known &= there.has_value();
          if (there && (!nearest || *there < *nearest)) nearest = there;
        }
        if (*here > 0) {
          ASSERT_TRUE(nearest.has_value()) << schema << " step " << step;
          ASSERT_EQ(*nearest, *here - 1) << schema << " step " << step;
        } else if (nearest && known) {
          ASSERT_GE(*nearest, 0);
        }
        if (allowed.empty()) break;
        // Mostly bytes that mean something to JSON.
        std::string pick = allowed[random() % allowed.size()];
        for (const char likely : std::string("\"}],:")) {
          for (const std::string& each : allowed) {
            if (each[0] == likely && random() % 3 == 0) pick = each;
          }
        }
        ASSERT_EQ(grammar->Advance(state, pick), Grammar::Verdict::kAllowed);
      }
    }
    EXPECT_GT(measured, 12) << schema;
  }
}

TEST(JsonEnd, IsTheLengthOfTheShortestAnswerAtTheBeginning) {
  const std::vector<std::pair<const char*, int64_t>> cases = {
      {"{}", 1},
      {R"({"type":"object"})", 2},
      {R"({"type":"string","minLength":5})", 7},
      {R"({"type":"object","required":["ab"]})", 8},
      {R"({"type":"array","minItems":3})", 7},
      {R"({"type":"string","minLength":1000000,"maxLength":2000000})", 1'000'002},
      {R"({"type":"null"})", 4}};
  for (const auto& [schema, bytes] : cases) {
    const auto grammar = MustCompile(schema);
    GrammarState state = grammar->Begin();
    EXPECT_EQ(grammar->BytesToEnd(state), bytes) << schema;
  }
}

TEST(JsonEnd, IsNotGuessed) {
  const auto grammar = MustCompile(R"({"type":"object","minProperties":2})");
  GrammarState state = grammar->Begin();
  EXPECT_EQ(grammar->BytesToEnd(state), std::nullopt);
}

}  // namespace
}  // namespace hydrant::grammar
