#include "model/grammar/schema_tree.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "model/grammar/regex/decimal.h"
#include "model/grammar/schema_keywords.h"
#include "model/text/str_cat.h"

namespace hydrant::grammar {
namespace {

std::string UnescapeUrl(std::string_view text) {
  std::string out;
  const auto hex = [](char c) { return c <= '9' ? c - '0' : (c | 32) - 'a' + 10; };
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f'); };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && is_hex(text[i + 1]) && is_hex(text[i + 2])) {
      out += static_cast<char>(hex(text[i + 1]) * 16 + hex(text[i + 2]));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

// Where one of so many items must not fit, it is looked for at each place by itself.
constexpr size_t kPrefixMax = 32;

// Members whose values are no schemas, though they may look like some.
bool HoldsData(std::string_view keyword) {
  return keyword == "enum" || keyword == "const" || keyword == "default" || keyword == "examples" ||
         keyword == "example";
}

}  // namespace

SchemaTree::SchemaTree(JsonTree tree) : json_(std::move(tree)), client_values_(static_cast<JsonId>(json_.size())) {
  const JsonId draft = json_.Find(0, "$schema");
  if (draft != kNoJson) {
    for (const std::string_view old : {"draft-03", "draft-04", "draft-05", "draft-06", "draft-07"}) {
      if (at(draft).text.find(old) == std::string::npos) continue;
      ref_stands_alone_ = true;
      named_by_id_ = old < "draft-06";
    }
  }
  FindIdentifiers();
}

void SchemaTree::FindIdentifiers() {
  std::vector<JsonId> todo = {0};
  while (!todo.empty()) {
    const JsonId id = todo.back();
    todo.pop_back();
    std::vector<std::string> anchors;
    for (const auto& [name, value] : at(id).members) {
      const JsonNode& node = at(value);
      const bool is_string = node.kind == JsonKind::kString;
      if (is_string && (name == "$id" || name == "id")) {
        if (node.text.starts_with('#')) {
          anchors.push_back(node.text);
        } else {
          AddIdentifier(id, name, node.text);
        }
      } else if (is_string && name == "$anchor") {
        anchors.push_back("#" + node.text);
      } else if (!HoldsData(name)) {
        todo.push_back(value);
      }
    }
    for (const JsonId item : at(id).items) todo.push_back(item);
    for (const std::string& anchor : anchors) anchors_.try_emplace(StrCat(DocumentOf(id), anchor), id);
  }
}

void SchemaTree::AddIdentifier(JsonId schema, std::string_view keyword, const std::string& text) {
  identifiers_.try_emplace(text, schema);
  // In older drafts an id with a fragment is an anchor; an empty one is none.
  const size_t hash = text.find('#');
  if (hash != text.npos && hash + 1 < text.size()) return;
  identifiers_.try_emplace(text.substr(0, hash), schema);
  const bool counts =
      keyword == (named_by_id_ ? "id" : "$id") && !(ref_stands_alone_ && Find(schema, "$ref") != kNoJson);
  if (counts) documents_.try_emplace(schema, true);
}

JsonId SchemaTree::DocumentOf(JsonId schema) const {
  while (is_inner(schema)) schema = from_[static_cast<size_t>(schema - client_values_)];
  while (schema != 0 && !documents_.contains(schema)) schema = at(schema).parent;
  return schema;
}

std::string SchemaTree::PointerOf(JsonId id) const {
  while (is_inner(id)) id = from_[static_cast<size_t>(id - client_values_)];
  return json_.PointerOf(id);
}

Refusal SchemaTree::Refuse(RefusalKind kind, JsonId where, std::string_view keyword, std::string text) const {
  return {kind, PointerOf(where), std::string(keyword), std::move(text)};
}

std::variant<JsonId, Refusal> SchemaTree::Target(JsonId schema, std::string_view ref) const {
  if (const std::string name(ref); identifiers_.contains(name)) return identifiers_.at(name);
  const size_t hash = std::min(ref.find('#'), ref.size());
  const std::string base(ref.substr(0, hash));
  JsonId document = 0;
  if (base.empty()) {
    document = DocumentOf(schema);
  } else if (identifiers_.contains(base)) {
    document = identifiers_.at(base);
  } else {
    return Refuse(RefusalKind::kUnsupportedKeyword, schema, "$ref", StrCat("'", ref, "' leads outside of the schema"));
  }
  const std::string fragment = UnescapeUrl(ref.substr(std::min(hash + 1, ref.size())));
  JsonId target = kNoJson;
  if (fragment.empty() || fragment[0] == '/') {
    target = json_.Resolve(fragment, document);
  } else if (const std::string anchor = StrCat(document, "#", fragment); anchors_.contains(anchor)) {
    target = anchors_.at(anchor);
  }
  if (target == kNoJson) return Refuse(RefusalKind::kInvalid, schema, "$ref", StrCat("'", ref, "' leads nowhere"));
  return target;
}

JsonId SchemaTree::Add(JsonId from, JsonNode node) {
  from_.push_back(from);
  return json_.Add(std::move(node));
}
JsonId SchemaTree::NewObject(JsonId from, Members members) {
  return Add(from, {JsonKind::kObject, "", {}, std::move(members), kNoJson});
}
JsonId SchemaTree::NewArray(JsonId from, std::vector<JsonId> items) {
  return Add(from, {JsonKind::kArray, "", std::move(items), {}, kNoJson});
}
JsonId SchemaTree::NewString(JsonId from, std::string text) {
  return Add(from, {JsonKind::kString, std::move(text), {}, {}, kNoJson});
}
JsonId SchemaTree::NewBool(JsonId from, bool value) {
  return Add(from, {value ? JsonKind::kTrue : JsonKind::kFalse, "", {}, {}, kNoJson});
}
JsonId SchemaTree::NewNumber(JsonId from, std::string text) {
  return Add(from, {JsonKind::kNumber, std::move(text), {}, {}, kNoJson});
}
JsonId SchemaTree::OfType(JsonId from, std::string_view type, Members members) {
  members.insert(members.begin(), {"type", NewString(from, std::string(type))});
  return NewObject(from, std::move(members));
}

JsonId SchemaTree::LacksProperty(JsonId from, std::string_view name) {
  return OfType(from, "object", {{"properties", NewObject(from, {{std::string(name), NewBool(from, false)}})}});
}
JsonId SchemaTree::HasProperties(JsonId from, const std::vector<std::string>& names) {
  std::vector<JsonId> items;
  for (const std::string& name : names) items.push_back(NewString(from, name));
  return OfType(from, "object", {{"required", NewArray(from, std::move(items))}});
}

JsonId SchemaTree::Exactly(JsonId value) {
  if (const auto found = exactly_.find(value); found != exactly_.end()) return found->second;
  const JsonNode node = at(value);
  JsonId made = kNoJson;
  if (node.kind == JsonKind::kObject) {
    Members properties;
    std::vector<JsonId> required;
    for (const auto& [name, each] : node.members) {
      properties.emplace_back(name, Schema(value, "const", each));
      required.push_back(NewString(value, name));
    }
    const JsonId all = NewObject(value, std::move(properties)), names = NewArray(value, std::move(required));
    made = OfType(value, "object",
                  {{"properties", all}, {"required", names}, {"additionalProperties", NewBool(value, false)}});
  } else {
    std::vector<JsonId> items;
    for (const JsonId each : node.items) items.push_back(Schema(value, "const", each));
    const JsonId count = NewNumber(value, StrCat(items.size())), all = NewArray(value, std::move(items));
    made = OfType(value, "array", {{"prefixItems", all}, {"minItems", count}, {"items", NewBool(value, false)}});
  }
  exactly_[value] = made;
  return made;
}

JsonId SchemaTree::NegatedType(JsonId value) {
  constexpr std::array<std::string_view, 6> kTypes = {"null", "boolean", "number", "string", "array", "object"};
  const JsonNode types = at(value);
  const auto has = [&](std::string_view type) {
    return types.text == type || std::ranges::any_of(types.items, [&](JsonId item) { return at(item).text == type; });
  };
  std::vector<JsonId> others;
  for (const std::string_view type : kTypes) {
    const bool is_number = type == "number";
    if (!has(type) && !(is_number && has("integer"))) others.push_back(NewString(value, std::string(type)));
  }
  std::vector<JsonId> choices;
  if (!others.empty()) choices.push_back(Schema(value, "type", NewArray(value, std::move(others))));
  if (has("integer") && !has("number")) {
    choices.push_back(OfType(value, "number", {{std::string(kNotWhole), NewBool(value, true)}}));
  }
  return choices.empty() ? NewBool(value, false) : Schema(value, "anyOf", NewArray(value, std::move(choices)));
}

JsonId SchemaTree::NegatedRequired(JsonId value) {
  const JsonNode names = at(value);
  std::vector<JsonId> choices;
  for (const JsonId name : names.items) choices.push_back(LacksProperty(value, at(name).text));
  return choices.empty() ? NewBool(value, false) : Schema(value, "anyOf", NewArray(value, std::move(choices)));
}

std::variant<JsonId, Refusal> SchemaTree::NegatedKeyword(JsonId schema, std::string_view keyword, JsonId value) {
  const JsonNode node = at(value);
  const auto of = [&](std::string_view type, std::string_view other, JsonId what) {
    return OfType(value, type, {{std::string(other), what}});
  };
  const auto list_of_nots = [&](std::string_view other) {
    std::vector<JsonId> items;
    for (const JsonId item : node.items) items.push_back(Schema(value, "not", item));
    return Schema(value, other, NewArray(value, std::move(items)));
  };
  if (keyword == "type") return NegatedType(value);
  if (keyword == "enum" || keyword == kExcluded) return Schema(value, keyword == "enum" ? kExcluded : "enum", value);
  if (keyword == "const") return Schema(value, kExcluded, NewArray(value, {value}));
  if (keyword == "not") return value;
  if (keyword == "anyOf") return list_of_nots("allOf");
  if (keyword == "allOf") return list_of_nots("anyOf");
  if (keyword == "required" && node.kind == JsonKind::kArray) return NegatedRequired(value);
  const auto is_exclusive = [&](std::string_view other) {  // as draft 4 says it
    const JsonId flag = Find(schema, other);
    return flag != kNoJson && at(flag).kind == JsonKind::kTrue;
  };
  if (keyword == "minimum")
    return of("number", is_exclusive("exclusiveMinimum") ? "maximum" : "exclusiveMaximum", value);
  if (keyword == "maximum")
    return of("number", is_exclusive("exclusiveMaximum") ? "minimum" : "exclusiveMinimum", value);
  if (keyword.starts_with("exclusiveM") && node.kind != JsonKind::kNumber) return NewBool(value, false);
  if (keyword == "exclusiveMinimum" && node.kind == JsonKind::kNumber) return of("number", "maximum", value);
  if (keyword == "exclusiveMaximum" && node.kind == JsonKind::kNumber) return of("number", "minimum", value);
  if (keyword == "multipleOf") return of("number", kNotMultipleOf, value);
  if (keyword == "pattern") return of("string", kNotPattern, value);
  if (keyword == "format" && node.kind == JsonKind::kString) return of("string", kNotFormat, value);
  if (keyword == kNotPattern) return of("string", "pattern", value);
  constexpr std::array<std::array<std::string_view, 3>, 3> kCounts = {{{"string", "minLength", "maxLength"},
                                                                       {"array", "minItems", "maxItems"},
                                                                       {"object", "minProperties", "maxProperties"}}};
  for (const auto& [type, least, most] : kCounts) {
    if (keyword != least && keyword != most) continue;
    const auto count = node.kind == JsonKind::kNumber ? Decimal::Parse(node.text) : std::nullopt;
    const auto whole = count ? count->Integer() : std::nullopt;
    if (!whole || *whole < 0) break;
    if (keyword == most) return of(type, least, NewNumber(value, StrCat(*whole + 1)));
    return *whole == 0 ? NewBool(value, false) : of(type, most, NewNumber(value, StrCat(*whole - 1)));
  }
  if (keyword == "properties" && node.kind == JsonKind::kObject) {
    std::vector<JsonId> choices;
    for (const auto& [name, each] : node.members) {
      const JsonId names = NewArray(value, {NewString(value, name)});
      const JsonId properties = NewObject(value, {{name, Schema(value, "not", each)}});
      choices.push_back(OfType(value, "object", {{"required", names}, {"properties", properties}}));
    }
    return choices.empty() ? NewBool(value, false) : Schema(value, "anyOf", NewArray(value, std::move(choices)));
  }
  if (keyword == "prefixItems" && node.kind == JsonKind::kArray && node.items.size() <= kPrefixMax) {
    std::vector<JsonId> choices, before;
    for (const JsonId item : node.items) {
      std::vector<JsonId> items = before;
      items.push_back(Schema(value, "not", item));
      const JsonId least = NewNumber(value, StrCat(items.size()));
      choices.push_back(
          OfType(value, "array", {{"minItems", least}, {"prefixItems", NewArray(value, std::move(items))}}));
      before.push_back(NewBool(value, true));
    }
    return choices.empty() ? NewBool(value, false) : Schema(value, "anyOf", NewArray(value, std::move(choices)));
  }
  if (node.kind == JsonKind::kTrue && (keyword == "additionalProperties" || keyword == "items"))
    return NewBool(value, false);
  return Refuse(RefusalKind::kUnsupportedKeyword, schema, keyword,
                StrCat("'", keyword,
                       "' cannot be enforced below 'not', or in branches of 'oneOf' that may both match, or in 'if'"));
}

std::variant<JsonId, Refusal> SchemaTree::Negated(JsonId schema) {
  if (const auto found = negated_.find(schema); found != negated_.end()) return found->second;
  const JsonNode node = at(schema);
  JsonId made = kNoJson;
  if (node.kind != JsonKind::kObject) {
    made = NewBool(schema, node.kind == JsonKind::kFalse);
  } else {
    std::vector<JsonId> choices;
    const JsonId ref = Find(schema, "$ref");
    if (ref != kNoJson) {
      auto target = Target(schema, at(ref).text);
      if (target.index() == 1) return target;
      choices.push_back(Schema(schema, "not", std::get<JsonId>(target)));
    }
    for (const auto& [keyword, value] : node.members) {
      if (keyword == "$ref" || (ref != kNoJson && ref_stands_alone_)) continue;
      const bool inner = is_inner(schema) && (keyword == kNotPattern || keyword == kExcluded || keyword == kNotFormat ||
                                              keyword == kNotWhole || keyword == kNotMultipleOf);
      const bool defines =
          keyword == "$defs" || keyword == "definitions" || keyword == "$anchor" || keyword == "$id" || keyword == "id";
      if (!inner && (defines || UseOf(keyword) == KeywordUse::kAnnotation)) continue;
      auto choice = NegatedKeyword(schema, keyword, value);
      if (choice.index() == 1) return choice;
      choices.push_back(std::get<JsonId>(choice));
    }
    made = choices.empty()       ? NewBool(schema, false)
           : choices.size() == 1 ? choices[0]
                                 : Schema(schema, "anyOf", NewArray(schema, std::move(choices)));
  }
  negated_[schema] = made;
  return made;
}

}  // namespace hydrant::grammar
