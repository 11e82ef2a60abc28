#include "model/grammar/schema_keywords.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/model/grammar/grammar_checks.h"

namespace hydrant::grammar {
namespace {

// All that drafts 4, 6, 7, 2019-09 and 2020-12 define.
const std::vector<std::string_view> kOfTheDrafts = {"$schema",
                                                    "$id",
                                                    "id",
                                                    "$ref",
                                                    "$anchor",
                                                    "$dynamicRef",
                                                    "$dynamicAnchor",
                                                    "$recursiveRef",
                                                    "$recursiveAnchor",
                                                    "$vocabulary",
                                                    "$comment",
                                                    "$defs",
                                                    "definitions",
                                                    "allOf",
                                                    "anyOf",
                                                    "oneOf",
                                                    "not",
                                                    "if",
                                                    "then",
                                                    "else",
                                                    "dependentSchemas",
                                                    "dependentRequired",
                                                    "dependencies",
                                                    "prefixItems",
                                                    "items",
                                                    "additionalItems",
                                                    "contains",
                                                    "minContains",
                                                    "maxContains",
                                                    "properties",
                                                    "patternProperties",
                                                    "additionalProperties",
                                                    "propertyNames",
                                                    "unevaluatedItems",
                                                    "unevaluatedProperties",
                                                    "type",
                                                    "enum",
                                                    "const",
                                                    "multipleOf",
                                                    "maximum",
                                                    "exclusiveMaximum",
                                                    "minimum",
                                                    "exclusiveMinimum",
                                                    "maxLength",
                                                    "minLength",
                                                    "pattern",
                                                    "maxItems",
                                                    "minItems",
                                                    "uniqueItems",
                                                    "maxProperties",
                                                    "minProperties",
                                                    "required",
                                                    "format",
                                                    "contentEncoding",
                                                    "contentMediaType",
                                                    "contentSchema",
                                                    "title",
                                                    "description",
                                                    "default",
                                                    "deprecated",
                                                    "readOnly",
                                                    "writeOnly",
                                                    "examples"};

TEST(SchemaKeywords, EachKeywordOfTheDraftsIsInTheTableOnce) {
  std::multiset<std::string_view> table;
  for (const Keyword& keyword : SchemaKeywords()) table.insert(keyword.name);
  for (const std::string_view name : kOfTheDrafts) EXPECT_EQ(table.count(name), 1u) << name;
  EXPECT_EQ(table.size(), kOfTheDrafts.size());
}

TEST(SchemaKeywords, WhatIsRefusedIsRefusedByNameAndPlace) {
  for (const Keyword& keyword : SchemaKeywords()) {
    if (keyword.use != KeywordUse::kRefused) continue;
    // Without `contains` its counts say nothing, and an anchor is a name for a reference that is refused itself.
    if (keyword.name.ends_with("Anchor")) continue;
    const bool counts = keyword.name == "minContains" || keyword.name == "maxContains";
    const std::string name(keyword.name), beside = counts ? R"("contains":{},)" : "";
    const Refusal refusal =
        MustRefuse(R"({"properties":{"x":{"items":{)" + beside + "\"" + name + "\":" + (counts ? "1" : "{}") + "}}}}");
    EXPECT_EQ(refusal.kind, RefusalKind::kUnsupportedKeyword) << name;
    EXPECT_EQ(refusal.pointer, "/properties/x/items") << name;
    EXPECT_EQ(refusal.keyword, counts ? "contains" : name);
  }
}

TEST(SchemaKeywords, WhatIsUnknownIsAnAnnotation) {
  EXPECT_EQ(UseOf("x-kubernetes-list-type"), KeywordUse::kAnnotation);
  EXPECT_EQ(UseOf("minimun"), KeywordUse::kAnnotation);
  EXPECT_NE(MustCompile(R"({"type":"null","x-thing":{"uniqueItems":true},"excluded":[null],"not pattern":3})"),
            nullptr);
}

}  // namespace
}  // namespace hydrant::grammar
