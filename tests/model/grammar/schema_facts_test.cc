#include "model/grammar/schema_facts.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/model/grammar/grammar_checks.h"

namespace hydrant::grammar {
namespace {

TEST(SchemaFacts, ScalarsAreWhatAllKeywordsAllow) {
  struct Case {
    const char* schema;
    std::vector<std::string> yes, no;
  };
  const std::vector<Case> cases = {
      {R"({"type":["null","boolean"]})", {"null", "true", "false"}, {"0", "\"\"", "nul", "[]"}},
      {R"({"type":"string"})",
       {R"("")", R"("\u0041\/\ud83d\uDE00é")"},
       {R"("\ud83d")", R"("\udE00")", R"("\x")", "\"\n\"", "\"\xff\""}},
      {R"({"type":"string","minLength":2,"maxLength":3})",
       {R"("éé")", R"("a\n\"")"},
       {R"("a")", R"("abcd")", R"("\u0041b")"}},
      {R"({"type":"string","pattern":"^a","minLength":2,"allOf":[{"pattern":"b$"}]})",
       {R"("ab")", R"("a b")"},
       {R"("a")", R"("ba")", R"("bab")"}},
      {R"({"type":"string","format":"date","pattern":"^2026"})", {R"("2026-01-31")"}, {R"("2025-01-31")", R"("2026")"}},
      {R"({"type":"string","not":{"pattern":"^a"}})", {R"("")", R"("ba")"}, {R"("a")", "null"}},
      {R"({"type":"string","not":{"enum":["x"]}})", {R"("xx")", R"("")"}, {R"("x")", R"("\u0078")"}},
      {R"({"type":"integer","minimum":-1,"exclusiveMaximum":3})", {"-1", "0", "2"}, {"-2", "3", "1.0", "1.5"}},
      {R"({"type":"number","minimum":1,"exclusiveMinimum":true})", {"1.5", "2"}, {"1", "1.0", "0"}},
      {R"({"type":"number","not":{"type":"integer"}})", {"1.5", "-0.25"}, {"1", "1.0", "0.0", "\"\""}},
      {R"({"type":"integer","not":{"multipleOf":3}})", {"1", "-2", "10"}, {"3", "0", "-9"}},
      {R"({"type":"number","not":{"const":2}})", {"1", "2.5", "20"}, {"2", "2.0", "20e-1"}},
      {R"({"type":"integer","format":"int32"})", {"2147483647", "-2147483648"}, {"2147483648"}},
      {R"({"enum":["a",1.0,null,true,"b"],"not":{"enum":["b",true]}})",
       {R"("a")", "1", "null"},
       {R"("b")", "true", "1.0"}},
      {R"({"enum":["a","bb",3],"minLength":2})", {R"("bb")", "3"}, {R"("a")"}},
      {R"({"enum":[1,2,3],"maximum":2,"allOf":[{"enum":[2,3,"x"]}]})", {"2"}, {"1", "3"}},
      {R"({"const":"a\"\\é"})", {R"("a\"\\é")"}, {R"("a")"}},
      {R"({"type":"string","maxLength":1000000})", {R"("abc")"}, {"3"}},
  };
  for (const Case& each : cases) {
    const auto grammar = MustCompile(each.schema);
    if (grammar == nullptr) continue;
    for (const std::string& text : each.yes) EXPECT_TRUE(IsAnswer(*grammar, text)) << each.schema << " " << text;
    for (const std::string& text : each.no) EXPECT_FALSE(IsAnswer(*grammar, text)) << each.schema << " " << text;
  }
}

TEST(SchemaFacts, RefusalsNamePlaceAndKeyword) {
  struct Case {
    const char *schema, *pointer, *keyword;
    RefusalKind kind;
  };
  const std::vector<Case> cases = {
      {R"({"properties":{"a":{"format":"color"}}})", "/properties/a", "format", RefusalKind::kUnsupportedKeyword},
      {R"({"not":{"format":"int32"}})", "/not/format", "format", RefusalKind::kUnsupportedKeyword},
      {R"({"not":{"format":"double"}})", "/not/format", "format", RefusalKind::kUnsupportedKeyword},
      {R"_({"items":{"pattern":"(?=a)"}})_", "/items", "pattern", RefusalKind::kInvalidRegex},
      {R"({"patternProperties":{"(":{}}})", "/patternProperties", "patternProperties", RefusalKind::kInvalidRegex},
      {R"({"pattern":3})", "", "pattern", RefusalKind::kInvalid},
      {R"({"minLength":-1})", "", "minLength", RefusalKind::kInvalid},
      {R"({"minItems":1.5})", "", "minItems", RefusalKind::kInvalid},
      {R"({"minimum":"3"})", "", "minimum", RefusalKind::kInvalid},
      {R"({"multipleOf":0})", "", "multipleOf", RefusalKind::kUnsupportedKeyword},
      {R"({"multipleOf":1e-12})", "", "multipleOf", RefusalKind::kUnsupportedKeyword},
      {R"({"not":{"const":{"a":1}}})", "/not/const", "enum", RefusalKind::kUnsupportedKeyword},
      {R"({"type":"object","required":["a"],"properties":{"a":{"minimum":5,"maximum":3,"type":"number"}}})",
       "/properties/a", "", RefusalKind::kUnsatisfiable},
  };
  for (const Case& each : cases) {
    const Refusal refusal = MustRefuse(each.schema);
    EXPECT_EQ(refusal.pointer, each.pointer) << each.schema;
    EXPECT_EQ(refusal.keyword, each.keyword) << each.schema;
    EXPECT_EQ(refusal.kind, each.kind) << each.schema << refusal.text;
    EXPECT_FALSE(refusal.text.empty());
  }
}

TEST(SchemaFacts, UnknownFormatsMayPass) {
  GrammarSpec spec;
  spec.kind = GrammarKind::kJsonSchema;
  spec.text = R"({"type":"string","format":"color"})";
  spec.schema.unknown_formats_pass = true;
  Fuel fuel;
  EXPECT_EQ(Grammar::Compile(spec, fuel).index(), 0u);
}

}  // namespace
}  // namespace hydrant::grammar
