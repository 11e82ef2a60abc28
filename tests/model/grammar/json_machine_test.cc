#include "model/grammar/json_machine.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/model/grammar/grammar_checks.h"

namespace hydrant::grammar {
namespace {

struct TextCase {
  const char* schema;
  std::vector<std::string> yes, no;
};

void ExpectAnswers(const std::vector<TextCase>& cases) {
  for (const TextCase& each : cases) {
    const auto grammar = MustCompile(each.schema);
    if (grammar == nullptr) continue;
    for (const std::string& text : each.yes) EXPECT_TRUE(IsAnswer(*grammar, text)) << each.schema << " " << text;
    for (const std::string& text : each.no) EXPECT_FALSE(IsAnswer(*grammar, text)) << each.schema << " " << text;
  }
}

TEST(JsonMachine, ObjectsHaveTheirPropertiesInOrder) {
  ExpectAnswers({
      {R"({"type":"object","properties":{"b":{"type":"null"},"a":{"type":"integer"}},"required":["a"],"additionalProperties":false})",
       {R"({"b":null,"a":1})", R"({ "a" : 1 })"},
       {R"({"a":1,"b":null})", R"({"b":null})", "{}", R"({"b":null,})", R"({"a":1,"c":1})",
        R"({"b":null,"b":null,"a":1})", R"({,"a":1})"}},
      {R"({"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"string"}})",
       {R"({"a":1,"x":"y"})", R"({"x":"y","ab":""})", "{}"},
       {R"({"a":"y"})", R"({"x":1})", R"({"x":"y","a":1})", R"({"x":"","x":""})", R"({"\u0061":1})"}},
      {R"({"type":"object","patternProperties":{"^x":{"type":"null"},"y$":{"type":["null","integer"]}},"additionalProperties":false})",
       {R"({"x":null,"y":1})", R"({"xy":null})"},
       {R"({"xy":1})", R"({"z":null})", R"({"x":1})"}},
      {R"({"type":"object","properties":{"x1":{"maximum":3}},"patternProperties":{"^x":{"type":"integer"}}})",
       {R"({"x1":3,"x2":9})", R"({"z":"any"})"},
       {R"({"x1":4})", R"({"x1":"a"})", R"({"x2":null})"}},
      {R"({"type":"object","propertyNames":{"pattern":"^[a-c]$"},"minProperties":2})",
       {R"({"a":1,"c":2})"},
       {R"({"a":1})", R"({"a":1,"d":2})", R"({"a":1,"a":2})"}},
      {R"({"type":"object","propertyNames":{"enum":["k","l"]},"additionalProperties":{"type":"null"}})",
       {R"({"k":null,"l":null})", "{}"},
       {R"({"m":null})", R"({"k":1})"}},
      {R"({"type":"object","properties":{"a":true,"b":true,"c":true},"additionalProperties":false,"minProperties":2,"maxProperties":2})",
       {R"({"a":1,"b":2})", R"({"a":1,"c":2})", R"({"b":1,"c":2})"},
       {R"({"a":1})", R"({"c":1})", R"({"a":1,"b":2,"c":3})"}},
      {R"({"type":"object","properties":{"a":true,"r":true},"required":["r"],"maxProperties":1})",
       {R"({"r":1})"},
       {R"({"a":1,"r":1})", R"({"r":1,"z":1})"}},
      {R"({"type":"object","dependentRequired":{"a":["b"]},"properties":{"a":true,"b":true}})",
       {R"({"a":1,"b":2})", R"({"b":1})", "{}"},
       {R"({"a":1})"}},
      {R"({"dependencies":{"a":{"required":["z"]}},"type":"object"})", {R"({"a":1,"z":2})", "{}"}, {R"({"a":1})"}},
  });
}

// As work that is counted: one of more keys than may be remembered beside them is hardly dearer than one of a few. Now and then all of
// them move to a new automaton.
TEST(JsonMachine, AnObjectOfManyKeysStaysCheap) {
  const auto grammar = MustCompile(R"({"type":"object","additionalProperties":{"type":"null"}})");
  grammar->set_states_max(400);
  GrammarState state = grammar->Begin();
  ASSERT_EQ(grammar->Advance(state, "{"), Grammar::Verdict::kAllowed);
  int64_t taken = 0;
  for (int i = 0; i < 3000; ++i) {
    Fuel fuel{Grammar::kAdvanceFuel};
    const std::string member = "\"key" + std::to_string(i) + "\":null,";
    ASSERT_EQ(grammar->Advance(state, member, fuel), Grammar::Verdict::kAllowed);
    if (i >= 2000) taken += Grammar::kAdvanceFuel - fuel.left;
  }
  EXPECT_LT(taken, 1000 * 250);
  EXPECT_EQ(grammar->Advance(state, R"("key0")"), Grammar::Verdict::kForbidden);
  Fuel little{3000};
  GrammarState other;
  EXPECT_EQ(Grammar::Alone(*grammar->source(), state, little).bytes() > 0 && little.empty(), true)
      << "to move it counts";
}

// A key or an item is begun only where it can be ended and so can all that must follow.
TEST(JsonMachine, NothingIsBegunThatCannotBeEnded) {
  const auto grammar = MustCompile(
      R"({"type":"object","properties":{"a":true,"b":true,"c":true},"additionalProperties":false,"minProperties":3,"required":["c"]})");
  GrammarState state = grammar->Begin();
  EXPECT_EQ(grammar->Advance(state, R"({"b)"), Grammar::Verdict::kForbidden);
  EXPECT_EQ(grammar->Advance(state, R"({"a":1,"b":2,"c":3)"), Grammar::Verdict::kAllowed);
  EXPECT_EQ(grammar->Advance(state, ","), Grammar::Verdict::kForbidden);
  // A key that can only become one that was there.
  const auto keys = MustCompile(
      R"({"type":"object","patternProperties":{"^[a-e]{3}$":{"type":"null"}},"additionalProperties":false})");
  state = keys->Begin();
  EXPECT_EQ(keys->Advance(state, R"({"abc":null,"ab)"), Grammar::Verdict::kAllowed);
  EXPECT_EQ(keys->Advance(state, "c"), Grammar::Verdict::kForbidden);
  EXPECT_EQ(keys->Advance(state, R"(d":null})"), Grammar::Verdict::kAllowed);
  const auto array = MustCompile(R"({"type":"array","prefixItems":[true,false],"items":true})");
  state = array->Begin();
  EXPECT_EQ(array->Advance(state, "[1,"), Grammar::Verdict::kForbidden);
  EXPECT_EQ(array->Advance(state, "[1"), Grammar::Verdict::kAllowed);
}

TEST(JsonMachine, ArraysCountTheirItems) {
  ExpectAnswers({
      {R"({"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":3})",
       {"[1]", "[ 1,2 ,3]"},
       {"[]", "[1,2,3,4]", "[1,]", "[,1]", "[\"a\"]"}},
      {R"({"type":"array","prefixItems":[{"type":"null"},{"type":"integer"}],"items":{"type":"string"}})",
       {"[]", "[null]", R"([null,1,"a","b"])"},
       {"[1]", "[null,null]", "[null,1,2]"}},
      {R"({"type":"array","items":[{"type":"null"}],"additionalItems":false})",
       {"[]", "[null]"},
       {"[null,null]", "[1]"}},
      {R"({"type":"array","minItems":3,"items":{"const":0}})", {"[0,0,0]", "[0,0,0,0]"}, {"[0,0]"}},
      {R"({"type":"array","maxItems":1,"uniqueItems":true})", {"[1]", "[]"}, {"[1,2]"}},
  });
}

TEST(JsonMachine, WhiteSpaceIsLimited) {
  const std::string eight(8, ' '), nine(9, ' '), thirteen(13, '\n');
  ExpectAnswers({{"{}",
                  {"{" + eight + "}", "[1" + eight + "," + eight + "2]", "[[[" + thirteen + "]]]",
                   "{\"a\"" + eight + ":" + eight + "1}"},
                  {"{" + nine + "}", " 1", "1 ", "{} ", "[[[" + thirteen + "\n]]]", "[\f]"}}});
  GrammarSpec spec;
  spec.white_space_max = 0;
  Fuel fuel;
  const auto none = std::get<0>(Grammar::Compile(spec, fuel));
  EXPECT_TRUE(IsAnswer(*none, R"({"a":[1,2]})"));
  EXPECT_FALSE(IsAnswer(*none, R"({"a": [1,2]})"));
}

TEST(JsonMachine, AlternativesAreReadAtOnce) {
  ExpectAnswers({
      {R"({"anyOf":[{"type":"object","properties":{"k":{"const":"a"},"v":{"type":"integer"}},"required":["k","v"],"additionalProperties":false},)"
       R"({"type":"object","properties":{"k":{"const":"b"},"v":{"type":"string"}},"required":["k"],"additionalProperties":false}]})",
       {R"({"k":"a","v":1})", R"({"k":"b","v":""})", R"({"k":"b"})"},
       {R"({"k":"a","v":""})", R"({"k":"b","v":1})", R"({"k":"a"})"}},
      {R"({"$defs":{"tree":{"type":"array","items":{"anyOf":[{"$ref":"#/$defs/tree"},{"type":"integer"}]}}},"$ref":"#/$defs/tree"})",
       {"[[[1],2],[]]"},
       {"[null]", "[[\"\"]]", "1"}},
      {R"({"enum":[{"a":[1,{}]},[null],"x"]})",
       {R"({"a":[1,{}]})", "[null]", R"("x")"},
       {R"({"a":[1,{"b":1}]})", "[]", R"({"a":[1]})"}},
      {R"({"type":["integer","object","array"],"not":{"required":["a"]},"minimum":1})",
       {"{}", R"({"b":1})"},
       {"1", "[]", R"({"a":1})"}},
  });
}

TEST(JsonMachine, NestingAndAmbiguityHaveLimits) {
  const auto any = MustCompile("{}");
  const auto nested = [](int depth) {
    return std::string(static_cast<size_t>(depth), '[') + std::string(static_cast<size_t>(depth), ']');
  };
  EXPECT_TRUE(IsAnswer(*any, nested(kNestingMax)));
  EXPECT_FALSE(IsAnswer(*any, nested(kNestingMax + 1)));
  const auto objects = [](int count) {
    std::string branches;
    for (int i = 0; i < count; ++i) {
      branches += std::string(i == 0 ? "" : ",") + R"({"type":"object","properties":{"a":true,"k)" + std::to_string(i) +
                  R"(":{"type":"null"}}})";
    }
    return "{\"anyOf\":[" + branches + "]}";
  };
  EXPECT_EQ(MustRefuse(R"({"items":)" + objects(65) + "}").pointer, "/items");
  EXPECT_NE(MustCompile(objects(64)), nullptr);
  // Two kinds of arrays, each of 33 kinds of objects.
  const auto ambiguous = MustCompile(R"({"anyOf":[{"type":"array","items":)" + objects(33) +
                                     R"(},{"type":"array","maxItems":9,"items":)" + objects(33) + "}]}");
  GrammarState state = ambiguous->Begin();
  EXPECT_EQ(ambiguous->Advance(state, "["), Grammar::Verdict::kAllowed);
  EXPECT_EQ(ambiguous->Advance(state, "{"), Grammar::Verdict::kLimit);
  EXPECT_EQ(ambiguous->Advance(state, "3"), Grammar::Verdict::kForbidden);
}

}  // namespace
}  // namespace hydrant::grammar
