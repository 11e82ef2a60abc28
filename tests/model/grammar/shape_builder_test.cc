// Random schemas and values: the machine takes a value, in some order of its keys, exactly if a plain validator of a hundred lines,
// which reads the standard keyword by keyword, finds it valid.
#include "model/grammar/shape_builder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/model/grammar/grammar_checks.h"

namespace hydrant::grammar {
namespace {

using Json = nlohmann::ordered_json;

bool IsOfType(const Json& value, const std::string& type) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_boolean();
  if (type == "string") return value.is_string();
  if (type == "array") return value.is_array();
  if (type == "object") return value.is_object();
  return value.is_number() && (type == "number" || value.is_number_integer());
}
bool Same(const Json& a, const Json& b) {
  if (!a.is_object() || !b.is_object()) return a == b;
  if (a.size() != b.size()) return false;
  return std::all_of(a.items().begin(), a.items().end(),
                     [&](const auto& each) { return b.contains(each.key()) && Same(each.value(), b[each.key()]); });
}
// The patterns that random schemas have, by hand.
bool Finds(const std::string& pattern, const std::string& text) {
  if (pattern == "^a") return text.starts_with("a");
  if (pattern == "b$") return text.ends_with("b");
  if (pattern == "^[ab]?$") return text.empty() || text == "a" || text == "b";
  return text.find("ba") != std::string::npos;
}
const std::vector<std::string> kPatterns = {"^a", "b$", "^[ab]?$", "ba"};

bool IsValid(const Json& schema, const Json& root, const Json& value);

bool ObjectIsValid(const Json& schema, const Json& root, const Json& value) {
  if (schema.contains("required")) {
    for (const auto& name : schema["required"]) {
      if (!value.contains(name)) return false;
    }
  }
  if (schema.contains("minProperties") && value.size() < schema["minProperties"]) return false;
  if (schema.contains("maxProperties") && value.size() > schema["maxProperties"]) return false;
  for (const auto& [key, each] : value.items()) {
    bool matched = false;
    if (schema.contains("properties") && schema["properties"].contains(key)) {
      matched = true;
      if (!IsValid(schema["properties"][key], root, each)) return false;
    }
    if (schema.contains("patternProperties")) {
      for (const auto& [pattern, sub] : schema["patternProperties"].items()) {
        if (!Finds(pattern, key)) continue;
        matched = true;
        if (!IsValid(sub, root, each)) return false;
      }
    }
    if (!matched && schema.contains("additionalProperties") && !IsValid(schema["additionalProperties"], root, each))
      return false;
    if (schema.contains("propertyNames") && !IsValid(schema["propertyNames"], root, key)) return false;
    if (schema.contains("dependentRequired") && schema["dependentRequired"].contains(key)) {
      for (const auto& name : schema["dependentRequired"][key]) {
        if (!value.contains(name)) return false;
      }
    }
  }
  return true;
}

bool ArrayIsValid(const Json& schema, const Json& root, const Json& value) {
  if (schema.contains("minItems") && value.size() < schema["minItems"]) return false;
  if (schema.contains("maxItems") && value.size() > schema["maxItems"]) return false;
  const size_t prefix = schema.contains("prefixItems") ? schema["prefixItems"].size() : 0;
  for (size_t i = 0; i < value.size(); ++i) {
    if (i < prefix && !IsValid(schema["prefixItems"][i], root, value[i])) return false;
    if (i >= prefix && schema.contains("items") && !IsValid(schema["items"], root, value[i])) return false;
  }
  return true;
}

bool IsValid(const Json& schema, const Json& root, const Json& value) {
  if (schema.is_boolean()) return schema.get<bool>();
  const auto has = [&](const char* keyword) { return schema.contains(keyword); };
  const auto fits = [&](const Json& sub) { return IsValid(sub, root, value); };
  if (has("$ref") && !fits(schema["$ref"] == "#" ? root : root["$defs"]["d"])) return false;
  if (has("type")) {
    const Json types = schema["type"].is_array() ? schema["type"] : Json::array({schema["type"]});
    if (std::ranges::none_of(types, [&](const Json& type) { return IsOfType(value, type); })) return false;
  }
  if (has("const") && !Same(schema["const"], value)) return false;
  if (has("enum") && std::ranges::none_of(schema["enum"], [&](const Json& each) { return Same(each, value); }))
    return false;
  if (value.is_number()) {
    const double number = value;
    if (has("minimum") && number < schema["minimum"]) return false;
    if (has("maximum") && number > schema["maximum"]) return false;
    if (has("exclusiveMinimum") && number <= schema["exclusiveMinimum"]) return false;
    if (has("multipleOf") && std::fmod(number, schema["multipleOf"].get<double>()) != 0) return false;
  }
  if (value.is_string()) {
    const std::string text = value;
    if (has("minLength") && text.size() < schema["minLength"]) return false;
    if (has("maxLength") && text.size() > schema["maxLength"]) return false;
    if (has("pattern") && !Finds(schema["pattern"], text)) return false;
  }
  if (value.is_object() && !ObjectIsValid(schema, root, value)) return false;
  if (value.is_array() && !ArrayIsValid(schema, root, value)) return false;
  if (has("allOf") && !std::ranges::all_of(schema["allOf"], fits)) return false;
  if (has("anyOf") && std::ranges::none_of(schema["anyOf"], fits)) return false;
  if (has("oneOf") && std::ranges::count_if(schema["oneOf"], fits) != 1) return false;
  if (has("not") && fits(schema["not"])) return false;
  if (has("if")) {
    const char* branch = fits(schema["if"]) ? "then" : "else";
    if (has(branch) && !fits(schema[branch])) return false;
  }
  return true;
}

class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed) {}

  Json Value(int depth) {
    switch (Below(depth > 0 ? 9 : 6)) {
      case 0:
        return nullptr;
      case 1:
        return Below(2) == 0;
      case 2:
      case 3:
        return Below(5) == 0 ? Json(Below(8) + 0.5) : Json(Below(9) - 2);
      case 4:
      case 5:
        return Text();
      case 6: {
        Json array = Json::array();
        for (int i = Below(4); i > 0; --i) array.push_back(Value(depth - 1));
        return array;
      }
      default: {
        Json object = Json::object();
        for (int i = Below(4); i > 0; --i) object[Key()] = Value(depth - 1);
        return object;
      }
    }
  }

  Json Schema(int depth) {
    if (Below(12) == 0) return Below(3) != 0;
    Json schema = Json::object();
    if (Below(2) == 0) schema["type"] = Type();
    for (int i = 1 + Below(3); i > 0; --i) AddKeyword(schema, depth);
    return schema;
  }

 private:
  int Below(int end) { return static_cast<int>(random_() % static_cast<uint32_t>(end)); }
  std::string Text() {
    std::string text;
    for (int i = Below(4); i > 0; --i) text += Below(2) == 0 ? 'a' : 'b';
    return text;
  }
  std::string Key() { return std::vector<std::string>{"a", "b", "ab", "c"}[static_cast<size_t>(Below(4))]; }
  Json Type() {
    const std::vector<std::string> types = {"null",  "boolean", "integer", "number", "string",
                                            "array", "object",  "object",  "array"};
    const auto any = [&] { return types[static_cast<size_t>(Below(static_cast<int>(types.size())))]; };
    if (Below(3) != 0) return any();
    const std::string one = any(), two = any();
    return one == two ? Json::array({one}) : Json::array({one, two});
  }
  Json Schemas(int depth) {
    Json list = Json::array();
    for (int i = 1 + Below(3); i > 0; --i) list.push_back(Schema(depth - 1));
    return list;
  }
  Json Names() {
    Json names = Json::array({Key()});
    if (Below(3) == 0 && names[0] != "c") names.push_back("c");
    return names;
  }
  void AddKeyword(Json& schema, int depth) {
    const std::string pattern = kPatterns[static_cast<size_t>(Below(4))];
    const auto sub = [&] { return depth > 0 ? Schema(depth - 1) : Json{{"type", Type()}}; };
    switch (Below(depth > 0 ? 26 : 14)) {
      case 0:
        schema["const"] = Value(1);
        break;
      case 1:
        schema["enum"] = Json::array({Value(1), Value(0), Value(0)});
        break;
      case 2:
        schema["minimum"] = Below(5) - 1;
        break;
      case 3:
        schema["maximum"] = Below(6);
        break;
      case 4:
        schema["exclusiveMinimum"] = Below(4) - 1;
        break;
      case 5:
        schema["multipleOf"] = Below(2) == 0 ? Json(2) : Json(0.5);
        break;
      case 6:
        schema["minLength"] = Below(3);
        break;
      case 7:
        schema["maxLength"] = Below(4);
        break;
      case 8:
        schema["pattern"] = pattern;
        break;
      case 9:
        schema["required"] = Names();
        break;
      case 10:
        schema["minItems"] = Below(3);
        break;
      case 11:
        schema["maxItems"] = Below(4);
        break;
      case 12:
        schema["minProperties"] = Below(4);
        break;
      case 13:
        schema["maxProperties"] = Below(4);
        break;
      case 14:
      case 15:
        for (int i = 1 + Below(3); i > 0; --i) schema["properties"][Key()] = sub();
        break;
      case 16:
        schema["additionalProperties"] = sub();
        break;
      case 17:
        schema["patternProperties"][pattern] = sub();
        break;
      case 18:
        schema[Below(2) == 0 ? "items" : "propertyNames"] = sub();
        break;
      case 19:
        schema["prefixItems"] = Schemas(depth);
        break;
      case 20:
        schema["anyOf"] = Schemas(depth);
        break;
      case 21:
        schema["oneOf"] = Schemas(depth);
        break;
      case 22:
        schema["allOf"] = Schemas(depth);
        break;
      case 23:
        schema["not"] = sub();
        break;
      case 24:
        schema["if"] = sub();
        schema["then"] = sub();
        schema["else"] = sub();
        break;
      default:
        if (Below(2) == 0) {
          schema["$ref"] = Below(2) == 0 ? "#" : "#/$defs/d";
        } else {
          schema["dependentRequired"][Key()] = Names();
        }
    }
  }

  std::mt19937 random_;
};

// Every order of the keys of every object in it.
std::vector<std::string> AllOrders(const Json& value) {
  std::vector<std::string> texts;
  if (value.is_array()) {
    texts = {"["};
    for (const Json& item : value) {
      std::vector<std::string> longer;
      for (const std::string& begin : texts) {
        for (const std::string& own : AllOrders(item)) longer.push_back(begin + (begin.size() == 1 ? "" : ",") + own);
      }
      texts = std::move(longer);
    }
    for (std::string& text : texts) text += "]";
    return texts;
  }
  if (!value.is_object()) return {value.dump()};
  std::vector<std::string> keys;
  for (const auto& [key, each] : value.items()) keys.push_back(key);
  std::ranges::sort(keys);
  do {
    std::vector<std::string> begun = {"{"};
    for (const std::string& key : keys) {
      std::vector<std::string> longer;
      for (const std::string& begin : begun) {
        for (const std::string& own : AllOrders(value[key]))
          longer.push_back(begin + (begin.size() == 1 ? "" : ",") + "\"" + key + "\":" + own);
      }
      begun = std::move(longer);
    }
    for (const std::string& text : begun) texts.push_back(text + "}");
  } while (std::ranges::next_permutation(keys).found);
  return texts;
}

TEST(ShapeBuilder, AgreesWithAPlainValidator) {
  int taken = 0, refused = 0, valid = 0;
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    Generator generator(seed);
    Json root = generator.Schema(2);
    if (root.is_object()) root["$defs"]["d"] = generator.Schema(1);
    const Compiled made = CompileSchema(root.dump());
    const auto* grammar = std::get_if<std::shared_ptr<Grammar>>(&made);
    const auto* refusal = std::get_if<Refusal>(&made);
    // A reference to itself that no type stops would not end in the validator.
    const bool circles = root.dump().find("\"$ref\"") != std::string::npos;
    (grammar != nullptr ? taken : refused) += 1;
    const bool invalid = refusal != nullptr && refusal->kind == RefusalKind::kInvalid;
    ASSERT_FALSE(invalid) << root.dump() << refusal->text;
    if (circles || (refusal != nullptr && refusal->kind != RefusalKind::kUnsatisfiable)) continue;
    for (int i = 0; i < 12; ++i) {
      const Json value = generator.Value(2);
      const bool want = IsValid(root, root, value);
      bool limit = false;
      const auto orders = AllOrders(value);
      const bool is = grammar != nullptr && std::ranges::any_of(orders, [&](const std::string& text) {
                        GrammarState state = (*grammar)->Begin();
                        const auto verdict = (*grammar)->Advance(state, text);
                        limit |= verdict == Grammar::Verdict::kLimit;
                        return verdict == Grammar::Verdict::kAllowed && (*grammar)->Accepts(state);
                      });
      if (limit) continue;
      ASSERT_EQ(is, want) << "seed " << seed << "\n" << root.dump() << "\n" << value.dump();
      valid += want ? 1 : 0;
    }
  }
  EXPECT_GT(taken, 600);
  EXPECT_GT(refused, 25);
  EXPECT_GT(valid, 1000);
}

struct EvaluatedCase {
  const char* schema;
  std::vector<const char*> valid, invalid;
};
const std::vector<EvaluatedCase> kEvaluatedCases = {
    {R"({"properties":{"a":true},"patternProperties":{"^b":true},"unevaluatedProperties":{"type":"integer"}})",
     {R"({"a":"x","b":"x","c":1})", R"({"bb":[]})", "[]"},
     {R"({"c":"x"})"}},
    {R"({"unevaluatedProperties":false,"additionalProperties":{"type":"integer"}})", {R"({"a":1})"}, {R"({"a":"x"})"}},
    // What another schema beside it evaluates does not count, what it applies itself does.
    {R"({"allOf":[{"properties":{"a":true}},{"unevaluatedProperties":false}]})", {"{}"}, {R"({"a":1})"}},
    {R"({"allOf":[{"properties":{"a":true}}],"unevaluatedProperties":false})", {R"({"a":1})"}, {R"({"b":1})"}},
    {R"({"$ref":"#/$defs/d","$defs":{"d":{"properties":{"a":true}}},"unevaluatedProperties":false})",
     {R"({"a":1})"},
     {R"({"b":1})"}},
    {R"({"allOf":[{"unevaluatedProperties":true}],"unevaluatedProperties":false})", {R"({"a":1})"}, {}},
    // All branches that fit count, not one alone.
    {R"({"anyOf":[{"properties":{"a":{"const":1}}},{"properties":{"b":{"const":1}}}],"unevaluatedProperties":false})",
     {R"({"a":1,"b":1})", R"({"a":1})"},
     {R"({"a":2,"b":1})", R"({"a":1,"b":2})", R"({"a":2})", R"({"c":1})"}},
    {R"({"anyOf":[{"required":["a"]},{"required":["b"]}],"unevaluatedProperties":{"const":1}})",
     {R"({"a":1})", R"({"b":1})"},
     {"{}", R"({"a":2})"}},
    {R"({"oneOf":[{"properties":{"a":{"const":1}},"required":["a"]},{"properties":{"b":{"const":1}},"required":["b"]}],
         "unevaluatedProperties":false})",
     {R"({"a":1})", R"({"b":1})"},
     {R"({"a":1,"b":1})", R"({"a":1,"b":2})"}},
    {R"({"if":{"properties":{"a":{"const":1}},"required":["a"]},"then":{"properties":{"b":true}},
         "else":{"properties":{"c":true}},"unevaluatedProperties":false})",
     {R"({"a":1,"b":1})", R"({"c":1})"},
     {R"({"a":1,"c":1})", R"({"b":1})", R"({"a":2})"}},
    {R"({"if":{"properties":{"a":{"const":1}}},"unevaluatedProperties":false})",
     {R"({"a":1})", "{}"},
     {R"({"a":2})", R"({"b":1})"}},
    {R"({"dependentSchemas":{"a":{"properties":{"a":true,"b":true}}},"unevaluatedProperties":false})",
     {R"({"a":1,"b":1})", "{}"},
     {R"({"b":1})"}},
    // Nor what is behind two `not`, or what a constant has.
    {R"({"not":{"not":{"properties":{"a":true}}},"unevaluatedProperties":false})", {"{}"}, {R"({"a":1})"}},
    {R"({"const":{"a":1},"unevaluatedProperties":{"const":1}})", {R"({"a":1})"}, {}},
    {R"({"prefixItems":[true],"unevaluatedItems":{"type":"integer"}})", {R"(["x",1,2])", "{}"}, {R"(["x","y"])"}},
    {R"({"allOf":[{"prefixItems":[true,{"type":"null"}]}],"unevaluatedItems":false})",
     {"[1,null]"},
     {"[1,null,1]", "[1,1]"}},
    {R"({"allOf":[{"items":true}],"unevaluatedItems":false})", {"[1,2]"}, {}},
    {R"({"anyOf":[{"prefixItems":[{"const":1}]},{"prefixItems":[true,{"const":2}]}],"unevaluatedItems":false})",
     {"[1]", "[0,2]", "[1,2]"},
     {"[1,3]", "[1,2,3]"}},
    {R"({"if":{"prefixItems":[{"const":1}]},"else":{"type":"array","maxItems":1},"unevaluatedItems":{"const":5}})",
     {"[1,5]", "[5]"},
     {"[1,1]", "[2]", "[2,5]"}},
};

TEST(ShapeBuilder, WhatIsNotEvaluatedKeepsToItsOwnSchema) {
  for (const EvaluatedCase& each : kEvaluatedCases) {
    const auto grammar = MustCompile(each.schema);
    for (const char* value : each.valid) EXPECT_TRUE(IsAnswer(*grammar, value)) << each.schema << ": " << value;
    for (const char* value : each.invalid) EXPECT_FALSE(IsAnswer(*grammar, value)) << each.schema << ": " << value;
  }
  const std::string each = R"({"properties":{"a":true}},)";
  std::string many;
  for (int i = 0; i < 7; ++i) many += each;
  many.pop_back();
  const Refusal refusal = MustRefuse("{\"unevaluatedProperties\":false,\"anyOf\":[" + many + "]}");
  EXPECT_EQ(refusal.kind, RefusalKind::kTooComplex);
  EXPECT_EQ(refusal.keyword, "anyOf");
  EXPECT_EQ(MustRefuse(R"({"not":{"unevaluatedProperties":false}})").keyword, "unevaluatedProperties");
  // Beside a reference the rest of a schema counts below `not`, too.
  const auto both = MustCompile(R"({"not":{"$ref":"#/$defs/d","maximum":3},"$defs":{"d":{"type":"integer"}}})");
  EXPECT_TRUE(IsAnswer(*both, "4"));
  EXPECT_FALSE(IsAnswer(*both, "3"));
}

// Python's '.' is any character but \n, and its '$' is before one at the end, too; that of the standard is neither.
TEST(ShapeBuilder, WhatAPatternIsNotFoundInIsSoForAllReadings) {
  const auto keys = MustCompile(R"({"patternProperties":{"^a.b$":{"type":"integer"}}})");
  for (const char* value : {R"({"axb":1})", R"({"axc":"x"})", R"({"ax":"x"})"})
    EXPECT_TRUE(IsAnswer(*keys, value)) << value;
  for (const char* value :
       {R"({"axb":"x"})", R"({"a\rb":"x"})", R"({"axb\n":"x"})", R"({"a\rb":1})", "{\"a\u2028b\":[]}"})
    EXPECT_FALSE(IsAnswer(*keys, value)) << value;
  EXPECT_EQ(MustRefuse(R"({"type":"string","not":{"pattern":"^.*$"}})").kind, RefusalKind::kUnsatisfiable);
  // Elsewhere a line end is a character like others.
  for (const std::string pattern : {"^x-", R"(^x\\.y)", "^[.$]x", R"(\\$)"}) {
    EXPECT_TRUE(IsAnswer(*MustCompile("{\"patternProperties\":{\"" + pattern + "\":{\"type\":\"integer\"}}}"),
                         R"({"a\nb":"x"})"))
        << pattern;
  }
}

TEST(ShapeBuilder, AMailboxHasANameOf64CharactersAtMost) {
  const auto mail = MustCompile(R"({"type":"string","format":"email"})");
  const std::string name(32, 'a');
  EXPECT_TRUE(IsAnswer(*mail, "\"" + name + "." + name.substr(1) + "@b.org\""));
  EXPECT_FALSE(IsAnswer(*mail, "\"" + name + "." + name + "@b.org\""));
}

// What is not written in the validator's way: references that go in circles.
TEST(ShapeBuilder, ReferencesMayGoInCircles) {
  const auto list = MustCompile(
      R"({"type":"object","properties":{"v":{"type":"integer"},"next":{"$ref":"#"}},"required":["v"],"additionalProperties":false})");
  EXPECT_TRUE(IsAnswer(*list, R"({"v":1,"next":{"v":2,"next":{"v":3}}})"));
  EXPECT_FALSE(IsAnswer(*list, R"({"v":1,"next":{"next":{"v":3}}})"));
  EXPECT_EQ(MustRefuse(R"({"type":"object","properties":{"x":{"$ref":"#"}},"required":["x"]})").kind,
            RefusalKind::kUnsatisfiable);
  EXPECT_EQ(MustRefuse(R"({"$ref":"http://example.org/x"})").keyword, "$ref");
  EXPECT_TRUE(
      IsAnswer(*MustCompile(R"({"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"type":"null"}}})"), "null"));
  // In the old drafts nothing beside a reference counts.
  const std::string schema = R"("$ref":"#/definitions/a","maximum":3,"definitions":{"a":{"type":"integer"}}})";
  EXPECT_TRUE(IsAnswer(*MustCompile(R"({"$schema":"http://json-schema.org/draft-07/schema#",)" + schema), "4"));
  EXPECT_FALSE(IsAnswer(*MustCompile("{" + schema), "4"));
}

}  // namespace
}  // namespace hydrant::grammar
