#include "model/grammar/notation/argument_types.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>

namespace hydrant::grammar {
namespace {

constexpr JsonKinds kString = JsonKinds::Of(JsonKind::kString), kNumber = JsonKinds::Of(JsonKind::kNumber),
                    kNull = JsonKinds::Of(JsonKind::kNull), kArray = JsonKinds::Of(JsonKind::kArray),
                    kBoolean = JsonKinds::Of(JsonKind::kTrue) | JsonKinds::Of(JsonKind::kFalse);

// What the argument `a` may be that has this schema.
JsonKinds KindsOf(const std::string& schema, const std::string& beside = "") {
  ArgumentTypes types;
  types.Add(R"({"name":"f","parameters":{"type":"object","properties":{"a":)" + schema + "}" + beside + "}}");
  return types.Of("f", "a");
}

TEST(ArgumentTypes, AreWhatASchemaSaysOfAValue) {
  EXPECT_EQ(KindsOf(R"({"type":"string"})"), kString);
  EXPECT_EQ(KindsOf(R"({"type":"integer","minimum":3})"), kNumber);
  EXPECT_EQ(KindsOf(R"({"type":["boolean","null"]})"), kBoolean | kNull);
  EXPECT_EQ(KindsOf(R"({"enum":["x","1"]})"), kString);
  EXPECT_EQ(KindsOf(R"({"enum":["x",1,null]})"), kString | kNumber | kNull);
  EXPECT_EQ(KindsOf(R"({"const":"x"})"), kString);
  EXPECT_EQ(KindsOf(R"({"anyOf":[{"type":"string"},{"type":"null"}]})"), kString | kNull);
  EXPECT_EQ(KindsOf(R"({"oneOf":[{"type":"array"},{"type":"number"}],"default":3})"), kArray | kNumber);
  EXPECT_EQ(KindsOf(R"({"allOf":[{"type":["string","number"]},{"type":["string","null"]}]})"), kString);
  EXPECT_EQ(KindsOf(R"({"type":["string","null"],"enum":["x",null,3]})"), kString | kNull);
  EXPECT_EQ(KindsOf(R"({"type":["string",{}]})"), JsonKinds::All()) << "nobody knows";
}

TEST(ArgumentTypes, GoByTheNamesOfOtherSchemas) {
  const std::string names =
      R"(,"$defs":{"path":{"type":"string"},"it":{"$ref":"#/$defs/it"},"b":{"$ref":"#/$defs/path"}})";
  EXPECT_EQ(KindsOf(R"({"$ref":"#/$defs/path"})", names), kString);
  EXPECT_EQ(KindsOf(R"({"$ref":"#/$defs/b"})", names), kString);
  EXPECT_EQ(KindsOf(R"({"anyOf":[{"$ref":"#/$defs/b"},{"type":"null"}]})", names), kString | kNull);
  EXPECT_EQ(KindsOf(R"({"$ref":"#/$defs/it"})", names), JsonKinds::All()) << "it names itself";
  EXPECT_EQ(KindsOf(R"({"$ref":"#/$defs/none"})", names), JsonKinds::All());
  EXPECT_EQ(KindsOf(R"({"$ref":"https://example.com/a"})", names), JsonKinds::All());
}

TEST(ArgumentTypes, WhatIsNotKnownMayBeAnything) {
  ArgumentTypes types;
  types.Add(
      R"({"name":"f","parameters":{"properties":{"a":{"type":"string"},"none":{"allOf":[{"type":"null"},{"type":"array"}]}}}})");
  types.Add("no JSON");
  types.Add(R"({"name":"h","parameters":{"properties":["a"]}})");
  types.Add(R"({"name":"i","parameters":[]})");
  types.Add(R"({"name":"j"})");
  EXPECT_EQ(types.Of("f", "a"), kString);
  EXPECT_EQ(types.Of("f", "none"), JsonKinds::All()) << "a schema that nothing fits";
  for (const char* tool : {"g", "h", "i", "j"}) EXPECT_EQ(types.Of(tool, "a"), JsonKinds::All()) << tool;
  EXPECT_EQ(types.Of("f", "b"), JsonKinds::All());
  EXPECT_EQ(KindsOf("true"), JsonKinds::All());
}

// Doubled at each of 60 levels it would be 2^60 schemas; and deep ones have an end.
TEST(ArgumentTypes, GoThroughEachSchemaOnce) {
  std::string defs = R"("d0":{"type":"string"})";
  for (int i = 1; i < 60; ++i) {
    const std::string below = R"({"$ref":"#/$defs/d)" + std::to_string(i - 1) + R"("})";
    defs += ",\"d" + std::to_string(i) + R"(":{"anyOf":[)" + below + "," + below + "]}";
  }
  EXPECT_EQ(KindsOf(R"({"$ref":"#/$defs/d9"})", ",\"$defs\":{" + defs + "}"), kString);
  EXPECT_EQ(KindsOf(R"({"$ref":"#/$defs/d59"})", ",\"$defs\":{" + defs + "}"), JsonKinds::All()) << "too deep";
}

TEST(JsonOfArgument, IsAStringWhereItMayBeAndNothingElseFits) {
  for (const char* text : {"42", "null", "{\"a\":1}", "True", "", "a"}) {
    EXPECT_EQ(JsonOfArgument(text, kString),
              text == std::string("{\"a\":1}") ? R"("{\"a\":1}")" : "\"" + std::string(text) + "\"");
  }
  EXPECT_EQ(JsonOfArgument("42", kNumber), "42");
  EXPECT_EQ(JsonOfArgument("42", kNumber | kString), "42");
  EXPECT_EQ(JsonOfArgument("null", kNumber | kString), "\"null\"");
  EXPECT_EQ(JsonOfArgument("None", kNumber | kNull), "null");
  EXPECT_EQ(JsonOfArgument("None", kString | kNull), "null") << "as templates write it";
  EXPECT_EQ(JsonOfArgument("True", kBoolean), "true");
  EXPECT_EQ(JsonOfArgument("False", kBoolean | kString), "false");
  EXPECT_EQ(JsonOfArgument("None", JsonKinds::All()), "\"None\"") << "nobody knows";
  const JsonKinds object = JsonKinds::Of(JsonKind::kObject);
  EXPECT_EQ(JsonOfArgument("{'a': True}", object), R"({"a": true})");
  for (const char* text : {R"({"a":1,"a":2})", R"({"a":"\ud83d"})", R"([1e400])"}) {
    EXPECT_EQ(JsonOfArgument(text, object), text) << "JSON that a strict reader refuses is no string";
  }
  const std::string large = "[" + std::string(300'000, ' ') + "]";
  EXPECT_EQ(JsonOfArgument(large, kArray), large);
  EXPECT_EQ(JsonOfArgument("three", kNumber), "\"three\"") << "what the model wrote is not lost";
  EXPECT_EQ(JsonOfArgument("[1]", kNumber), "[1]") << "it is no number, and no string either";
  EXPECT_EQ(JsonOfArgument("\"a\"", JsonKinds::All()), "\"\\\"a\\\"\"");
  EXPECT_EQ(JsonOfArgument("a\nb", JsonKinds::All()), "\"a\\nb\"");
}

// The texts, or "any", or "!" and the name of what bounds them.
std::string TextsOf(const std::string& schema) {
  const auto json = JsonTree::Parse(schema);
  const auto read = BareTextsOf(std::get<JsonTree>(json), 0, 0);
  if (const auto* bound = std::get_if<BareTextBound>(&read)) return "!" + bound->name;
  const auto& texts = std::get<BareTexts>(read);
  std::string all = texts.any ? "any" : "";
  for (const std::string& text : texts.texts) all += text + ";";
  return all;
}

TEST(BareTexts, AreThoseThatReadAsValuesOfTheSchema) {
  EXPECT_EQ(TextsOf(R"({"type":"string","description":"d","title":"t","default":"x"})"), "any");
  EXPECT_EQ(TextsOf(R"({"anyOf":[{"type":"string"},{"type":"null"}],"default":null,"title":"t"})"), "any");
  EXPECT_EQ(TextsOf(R"({"type":["string","null","number","array"]})"), "any");
  EXPECT_EQ(TextsOf(R"({"description":"anything"})"), "any");
  EXPECT_EQ(TextsOf("true"), "any");
  EXPECT_EQ(TextsOf(R"({"type":"string","enum":["b","a b",""]})"), ";a b;b;");
  EXPECT_EQ(TextsOf(R"({"const":"x","type":"string"})"), "x;");
  EXPECT_EQ(TextsOf(R"({"anyOf":[{"enum":["a","b"],"type":"string"},{"type":"null"}]})"), "a;b;null;");
  EXPECT_EQ(TextsOf(R"({"$ref":"#/$defs/c","$defs":{"c":{"enum":["a",null,2]}}})"), "!$defs");
  EXPECT_EQ(TextsOf(R"({"anyOf":[{"enum":["a",null,2]},{"type":"boolean"}]})"), "2;a;false;null;true;");
  EXPECT_EQ(TextsOf(R"({"enum":["null",null]})"), "null;") << "it reads as null, which fits, too";
  EXPECT_EQ(TextsOf(R"({"enum":["true","no",false]})"), "false;no;true;") << "true is none of its booleans";
  EXPECT_EQ(TextsOf(R"({"type":"string","enum":["a",2]})"), "a;");
}

TEST(BareTexts, WhatCannotBeToldByTextsIsBound) {
  EXPECT_EQ(TextsOf(R"({"type":"string","maxLength":3})"), "!maxLength");
  EXPECT_EQ(TextsOf(R"({"type":["string","integer"]})"), "!type") << "4.5 would read as a number";
  EXPECT_EQ(TextsOf(R"({"anyOf":[{"type":"string"},{"type":"integer"}]})"), "!type");
  EXPECT_EQ(TextsOf(R"({"anyOf":[{"type":"string"},{"type":"array","items":{}}]})"), "!items");
  EXPECT_EQ(TextsOf(R"({"anyOf":[{"type":"string"},{"enum":[1,2]}]})"), "!enum") << "3 would read as a number";
  EXPECT_EQ(TextsOf(R"({"anyOf":[{"enum":["a"]},{"type":"number"}]})"), "!type");
  EXPECT_EQ(TextsOf(R"({"oneOf":[{"type":"string"},{}]})"), "!oneOf");
  EXPECT_EQ(TextsOf(R"({"oneOf":[{"type":"string"},{"type":"null"}]})"), "any");
  EXPECT_EQ(TextsOf(R"({"type":"string","anyOf":[{"const":"a"}]})"), "!type");
  EXPECT_EQ(TextsOf(R"({"$ref":"#"})"), "!$ref");
  EXPECT_EQ(TextsOf(R"({"$ref":"other"})"), "!$ref");
}

}  // namespace
}  // namespace hydrant::grammar
