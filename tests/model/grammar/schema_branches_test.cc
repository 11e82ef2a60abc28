#include "model/grammar/schema_branches.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

namespace hydrant::grammar {
namespace {

struct Taken {
  std::vector<uint8_t> types;  // of each branch
  std::optional<Refusal> refusal;
};
Taken Take(const std::string& schema, bool disjoint = true) {
  SchemaTree tree(std::get<JsonTree>(JsonTree::Parse(schema)));
  Fuel fuel;
  SchemaBranches branches(tree, fuel, [disjoint](JsonId, JsonId) { return disjoint; });
  Taken taken;
  for (const SchemaBranch& branch : branches.Of({0})) taken.types.push_back(branch.types);
  taken.refusal = branches.refusal();
  return taken;
}

TEST(SchemaBranches, AlternativesOfDifferentTypesFallAway) {
  EXPECT_EQ(Take("true").types, (std::vector<uint8_t>{kAllTypes}));
  EXPECT_TRUE(Take("false").types.empty());
  EXPECT_EQ(Take(R"({"type":"string","anyOf":[{"type":"number"},{"type":["string","null"]},{}]})").types.size(), 2u);
  EXPECT_EQ(Take(R"({"allOf":[{"type":["string","null"]},{"type":["null","number"]}]})").types,
            (std::vector<uint8_t>{kNullType}));
  EXPECT_TRUE(Take(R"({"allOf":[{"type":"string"},{"type":"number"}]})").types.empty());
  EXPECT_EQ(Take(R"({"if":{"type":"string"},"then":{"minLength":1},"else":{"type":"null"}})").types,
            (std::vector<uint8_t>{kStringType, kNullType}));
}

TEST(SchemaBranches, AskForOtherBranchesToFailWhereTheyOverlap) {
  const std::string schema = R"({"oneOf":[{"type":"string"},{"type":["string","null"]}]})";
  EXPECT_EQ(Take(schema).types, (std::vector<uint8_t>{kStringType, kStringType | kNullType}));
  EXPECT_EQ(Take(schema, false).types, (std::vector<uint8_t>{kNullType}));
  const Taken refused = Take(R"({"oneOf":[{"items":{"type":"null"}},{"items":{"type":"string"}}]})", false);
  ASSERT_TRUE(refused.refusal.has_value());
  EXPECT_EQ(refused.refusal->kind, RefusalKind::kUnprovableOneOf);
  EXPECT_NE(refused.refusal->text.find("branches 0 and 1"), std::string::npos);
}

TEST(SchemaBranches, CirclesOfReferencesEnd) {
  EXPECT_EQ(Take(R"({"$ref":"#"})").types.size(), 1u);
  EXPECT_EQ(
      Take(R"({"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"anyOf":[{"$ref":"#"},{"type":"null"}]}}})").types.size(),
      2u);
  EXPECT_EQ(Take(R"({"oneOf":[{"$ref":"#"},{"type":"null"}]})").types.size(), 2u);
}

TEST(SchemaBranches, ThereIsALimit) {
  std::string all;
  for (int i = 0; i < 24; ++i) all += std::string(i == 0 ? "" : ",") + R"({"anyOf":[{"minimum":1},{"maximum":2}]})";
  const Taken taken = Take("{\"allOf\":[" + all + "]}");
  ASSERT_TRUE(taken.refusal.has_value());
  EXPECT_EQ(taken.refusal->kind, RefusalKind::kTooComplex);
}

TEST(SchemaBranches, WhatIsNoSchemaIsRefused) {
  for (const char* schema : {"3", R"({"type":"int"})", R"({"type":3})", R"({"allOf":{}})", R"({"$ref":1})",
                             R"({"anyOf":[1]})", R"({"dependentRequired":[]})"}) {
    const Taken taken = Take(schema);
    ASSERT_TRUE(taken.refusal.has_value()) << schema;
    EXPECT_EQ(taken.refusal->kind, RefusalKind::kInvalid) << schema;
  }
}

}  // namespace
}  // namespace hydrant::grammar
