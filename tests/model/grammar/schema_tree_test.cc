#include "model/grammar/schema_tree.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>

namespace hydrant::grammar {
namespace {

SchemaTree Tree(const char* text) { return SchemaTree(std::get<JsonTree>(JsonTree::Parse(text))); }

TEST(SchemaTree, ReferencesLeadToSchemas) {
  const SchemaTree tree = Tree(
      R"({"$id":"http://x/s.json","$defs":{"a":{"$anchor":"here","type":"null"},"b/c":{"$id":"#old"},"d":{"$id":"http://x/d.json"}},)"
      R"("properties":{"%":{"enum":[{"$id":"#no"}]}}})");
  const auto target = [&](const char* ref) {
    const auto found = tree.Target(0, ref);
    return found.index() == 0 ? tree.PointerOf(std::get<JsonId>(found)) : "refused";
  };
  EXPECT_EQ(target("#"), "");
  EXPECT_EQ(target("#/$defs/a"), "/$defs/a");
  EXPECT_EQ(target("#/%24defs/b~1c"), "/$defs/b~1c");
  EXPECT_EQ(target("#here"), "/$defs/a");
  EXPECT_EQ(target("#old"), "/$defs/b~1c");
  EXPECT_EQ(target("http://x/d.json"), "/$defs/d");
  EXPECT_EQ(target("http://x/s.json#/properties/%25"), "/properties/%");
  EXPECT_EQ(target("#/nowhere"), "refused");
  EXPECT_EQ(target("#no"), "refused");
  EXPECT_EQ(std::get<Refusal>(tree.Target(0, "http://elsewhere/s")).kind, RefusalKind::kUnsupportedKeyword);
}

// A schema that has its own name is a document of its own, wherever it stands.
TEST(SchemaTree, FragmentsBelongToTheNearestNamedSchema) {
  const auto target = [](const char* text, const char* from, const char* ref) {
    const SchemaTree tree = Tree(text);
    const auto found = tree.Target(tree.json().Resolve(from), ref);
    return found.index() == 0 ? tree.PointerOf(std::get<JsonId>(found)) : "refused";
  };
  const char* bundled =
      R"({"$id":"http://x/root","$defs":{"t":{"$anchor":"a"},"u":{},"s":{"$id":"http://x/s#","$defs":{"t":{"$anchor":"a"},)"
      R"("v":{"$id":"#b"}},"properties":{"p":{}}}}})";
  EXPECT_EQ(target(bundled, "/$defs/s/properties/p", "#/$defs/t"), "/$defs/s/$defs/t");
  EXPECT_EQ(target(bundled, "/$defs/s", "#/$defs/t"), "/$defs/s/$defs/t");
  EXPECT_EQ(target(bundled, "/$defs/s/properties/p", "#a"), "/$defs/s/$defs/t");
  EXPECT_EQ(target(bundled, "/$defs/s/properties/p", "#"), "/$defs/s");
  EXPECT_EQ(target(bundled, "/$defs/s/$defs/v", "#b"), "/$defs/s/$defs/v");
  EXPECT_EQ(target(bundled, "/$defs/s", "#/$defs/u"), "refused");
  EXPECT_EQ(target(bundled, "/$defs/s", "http://x/root#/$defs/u"), "/$defs/u");
  EXPECT_EQ(target(bundled, "/$defs/u", "#/$defs/t"), "/$defs/t");
  EXPECT_EQ(target(bundled, "/$defs/u", "#a"), "/$defs/t");
  EXPECT_EQ(target(bundled, "/$defs/u", "#b"), "refused");
  EXPECT_EQ(target(bundled, "/$defs/u", "http://x/s"), "/$defs/s");
  EXPECT_EQ(target(bundled, "/$defs/u", "http://x/s#/$defs/v"), "/$defs/s/$defs/v");
  EXPECT_EQ(target(bundled, "/$defs/u", "http://x/s#a"), "/$defs/s/$defs/t");
  // 'id' names schemas up to draft 4, and until draft 7 no name counts beside '$ref'.
  const std::string old = R"({"$schema":"http://json-schema.org/draft-04/schema#",)";
  const std::string named = R"("definitions":{"t":{},"s":{"id":"s","definitions":{"t":{}},"items":{}}}})";
  EXPECT_EQ(target((old + named).c_str(), "/definitions/s/items", "#/definitions/t"), "/definitions/s/definitions/t");
  EXPECT_EQ(target(("{" + named).c_str(), "/definitions/s/items", "#/definitions/t"), "/definitions/t");
  const std::string anchored = R"("definitions":{"t":{},"s":{"id":"http://x/root#s","items":{}}}})";
  EXPECT_EQ(target((old + anchored).c_str(), "/definitions/s/items", "#/definitions/t"), "/definitions/t");
  const std::string beside = R"("definitions":{"t":{},"s":{"id":"s","$ref":"#/definitions/t"}}})";
  EXPECT_EQ(target((old + beside).c_str(), "/definitions/s", "#/definitions/t"), "/definitions/t");
}

TEST(SchemaTree, NegatesOneStepAtATime) {
  const auto negated = [](const char* text) {
    SchemaTree tree = Tree(text);
    const auto made = tree.Negated(0);
    return made.index() == 0 ? tree.json().Dump(std::get<JsonId>(made)) : "refused: " + std::get<Refusal>(made).keyword;
  };
  EXPECT_EQ(negated("true"), "false");
  EXPECT_EQ(negated("false"), "true");
  EXPECT_EQ(negated(R"({"title":"x"})"), "false");
  EXPECT_EQ(negated(R"({"minimum":3})"), R"({"type":"number","exclusiveMaximum":3})");
  EXPECT_EQ(negated(R"({"maxLength":3})"), R"({"type":"string","minLength":4})");
  EXPECT_EQ(negated(R"({"minItems":0})"), "false");
  EXPECT_EQ(negated(R"({"not":{"type":"null"}})"), R"({"type":"null"})");
  EXPECT_EQ(negated(R"({"anyOf":[true,{"minimum":1}]})"), R"({"allOf":[{"not":true},{"not":{"minimum":1}}]})");
  EXPECT_EQ(negated(R"({"type":["number","object"]})"), R"({"anyOf":[{"type":["null","boolean","string","array"]}]})");
  EXPECT_EQ(negated(R"({"required":["a"]})"), R"({"anyOf":[{"type":"object","properties":{"a":false}}]})");
  EXPECT_EQ(negated(R"({"items":{"type":"null"}})"), "refused: items");
  EXPECT_EQ(negated(R"({"oneOf":[true]})"), "refused: oneOf");
}

TEST(SchemaTree, WhatFollowsFromOthersPointsToThem) {
  SchemaTree tree = Tree(R"({"a":{"required":["x","y"]}})");
  const JsonId from = tree.json().Resolve("/a");
  const JsonId made = std::get<JsonId>(tree.Negated(from));
  EXPECT_TRUE(tree.is_inner(made));
  EXPECT_EQ(tree.PointerOf(made), "/a/required");
}

TEST(SchemaTree, AValueIsASchema) {
  SchemaTree tree = Tree(R"({"a":{"k":[1]}})");
  const JsonId made = tree.Exactly(tree.json().Resolve("/a"));
  EXPECT_EQ(tree.json().Dump(made),
            R"({"type":"object","properties":{"k":{"const":[1]}},"required":["k"],"additionalProperties":false})");
}

}  // namespace
}  // namespace hydrant::grammar
