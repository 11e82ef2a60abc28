#include "model/grammar/shape_builder.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "model/grammar/notation/json_tree.h"
#include "model/grammar/regex/char_class.h"
#include "model/grammar/regex/steady_map.h"
#include "model/grammar/schema_branches.h"
#include "model/grammar/schema_facts.h"
#include "model/grammar/schema_tree.h"
#include "model/text/str_cat.h"

namespace hydrant::grammar {
namespace {

constexpr size_t kShapesMax = 20'000;
constexpr int kProofDepth = 3;  // properties inside properties that are looked at to see that branches are disjoint

class ShapeBuilder {
 public:
  ShapeBuilder(JsonTree json, const SchemaOptions& options, LazyDfa& dfa, Fuel& fuel)
      : tree_(std::move(json)),
        dfa_(dfa),
        fuel_(fuel),
        branches_(tree_, fuel,
                  [this](JsonId a, JsonId b) {
                    return ProvablyEmpty(Sorted({a, b}), kProofDepth);
                  }),
        facts_(tree_, dfa, fuel, branches_, options.unknown_formats_pass) {}

  std::variant<ShapeSet, Refusal> Build() {
    ShapeSet shapes;
    shapes.root = ShapeOf({0});
    for (size_t next = 0; next < conjunctions_.size() && !refused(); ++next) {
      shapes.values.emplace_back();
      const Conjunction schemas = conjunctions_[next];
      BuildValue(schemas, shapes, shapes.values.back());
      if (conjunctions_.size() > kShapesMax) Complex(schemas, StrCat("more than ", kShapesMax, " shapes"));
      if (fuel_.empty()) Complex(schemas, "the schema takes too much work");
    }
    if (refused()) return std::move(*branches_.refusal());
    const ShapeSet whole = shapes;
    shapes.Prune();
    if (shapes.root == kNoShape) {
      return tree_.Refuse(RefusalKind::kUnsatisfiable, WhatNothingFits(whole), "", "no value fits the schema here");
    }
    // Elsewhere it takes several values to get as many ways to read a text, and that is seen when it happens.
    for (size_t i = 0; i < shapes.values.size(); ++i) {
      if (std::max(shapes.values[i].objects.size(), shapes.values[i].arrays.size()) > kAlternativesMax) {
        Complex(conjunctions_[i], StrCat("more than ", kAlternativesMax, " alternatives that begin alike"));
        return std::move(*branches_.refusal());
      }
    }
    return shapes;
  }

 private:
  bool refused() { return branches_.refusal().has_value(); }
  void Complex(const Conjunction& schemas, std::string text) {
    branches_.Refuse(RefusalKind::kTooComplex, schemas.empty() ? 0 : schemas[0], "", std::move(text));
  }

  static Conjunction Sorted(Conjunction schemas) {
    std::ranges::sort(schemas);
    schemas.erase(std::unique(schemas.begin(), schemas.end()), schemas.end());
    return schemas;
  }
  // What a conjunction comes to without those that say nothing; kNoShape where one of them is `false`.
  ShapeId ShapeOf(Conjunction schemas) {
    schemas = Sorted(std::move(schemas));
    std::erase_if(schemas, [&](JsonId id) { return SaysNothing(id); });
    if (std::ranges::any_of(schemas, [&](JsonId id) { return tree_.at(id).kind == JsonKind::kFalse; })) return kNoShape;
    const auto [found, added] = shape_of_.try_emplace(schemas, static_cast<ShapeId>(conjunctions_.size()));
    if (added) conjunctions_.push_back(std::move(schemas));
    return found->second;
  }
  bool SaysNothing(JsonId id) const {
    const JsonNode& node = tree_.at(id);
    return node.kind == JsonKind::kTrue || (node.kind == JsonKind::kObject && node.members.empty());
  }

  void BuildValue(const Conjunction& schemas, ShapeSet& shapes, ValueShape& value) {
    std::vector<SchemaBranch> branches = schemas.empty() ? std::vector<SchemaBranch>(1) : branches_.Of(schemas);
    ValueShape made;
    std::vector<RegexId> scalars;
    for (const SchemaBranch& branch : branches) {
      const SchemaFacts facts = facts_.Read(branch);
      if (refused()) return;
      scalars.push_back(facts_.Scalars(facts));
      if ((facts.types & kObjectType) != 0) BuildObject(branch, shapes, made);
      if ((facts.types & kArrayType) != 0) BuildArray(branch, shapes, made);
      if (refused() || fuel_.empty()) return;
    }
    made.scalars = dfa_.arena().Or(std::move(scalars));
    value = std::move(made);
  }

  // --- objects

  struct Keys {
    RegexId keys;
    Conjunction schemas;
    bool matched = false;  // by a pattern of the schema that is being looked at
    bool by_pattern = false;
  };

  JsonId Member(JsonId schema, std::string_view keyword) {
    const JsonId value = tree_.Find(schema, keyword);
    if (value != kNoJson && tree_.at(value).kind != JsonKind::kObject) {
      branches_.Refuse(RefusalKind::kInvalid, schema, keyword, StrCat("'", keyword, "' must be an object"));
      return kNoJson;
    }
    return value;
  }
  // What is left to `unevaluatedProperties`, or to `unevaluatedItems`, of one schema of a branch.
  struct Unevaluated {
    JsonId value = kNoJson;
    std::vector<JsonId> with;  // schemas that evaluate some
  };
  // Those that have any effect: not where another keyword evaluates all that is left.
  std::vector<Unevaluated> UnevaluatedOf(const SchemaBranch& branch, std::string_view keyword,
                                         std::string_view evaluates_rest) {
    std::vector<Unevaluated> all;
    for (const JsonId schema : branch.schemas) {
      const JsonId value = tree_.is_inner(schema) ? kNoJson : tree_.Find(schema, keyword);
      if (value == kNoJson) continue;
      std::vector<JsonId> with = branches_.EvaluatedWith(branch, schema);
      const auto leaves_none = [&](JsonId each) {
        const JsonId rest = tree_.Find(each, evaluates_rest);
        // A list of items is a prefix, and another keyword evaluates what is behind it.
        const bool is_prefix = evaluates_rest == "items" && rest != kNoJson && tree_.at(rest).kind == JsonKind::kArray;
        return (is_prefix ? tree_.Find(each, "additionalItems") : rest) != kNoJson ||
               (each != schema && tree_.Find(each, keyword) != kNoJson);
      };
      if (std::ranges::none_of(with, leaves_none)) all.push_back({value, std::move(with)});
    }
    return all;
  }
  bool HasProperty(JsonId schema, const std::string& name) {
    if (const JsonId properties = Member(schema, "properties"); properties != kNoJson) {
      if (tree_.Find(properties, name) != kNoJson) return true;
    }
    const JsonId patterns = Member(schema, "patternProperties");
    return patterns != kNoJson && std::ranges::any_of(tree_.at(patterns).members, [&](const auto& each) {
             const RegexId keys = facts_.Pattern(patterns, "patternProperties", each.first);
             return dfa_.Matches(keys, EncodedText(name, TextEncoding::kJsonString), fuel_);
           });
  }
  // What all schemas of a branch say of the value of a property.
  Conjunction PropertySchemas(const SchemaBranch& branch, const std::vector<Unevaluated>& unevaluated,
                              const std::string& name) {
    Conjunction schemas;
    for (const JsonId schema : branch.schemas) AddPropertySchemas(schema, name, schemas);
    for (const Unevaluated& left : unevaluated) {
      if (std::ranges::none_of(left.with, [&](JsonId each) { return HasProperty(each, name); })) {
        schemas.push_back(left.value);
      }
    }
    return schemas;
  }
  std::vector<Unevaluated> UnevaluatedProperties(const SchemaBranch& branch) {
    return UnevaluatedOf(branch, "unevaluatedProperties", "additionalProperties");
  }
  // What one schema says of the value of a property.
  void AddPropertySchemas(JsonId schema, const std::string& name, Conjunction& out) {
    bool matched = false;
    if (const JsonId properties = Member(schema, "properties"); properties != kNoJson) {
      const JsonId value = tree_.Find(properties, name);
      matched = value != kNoJson;
      if (matched) out.push_back(value);
    }
    if (const JsonId patterns = Member(schema, "patternProperties"); patterns != kNoJson) {
      const std::vector<std::pair<std::string, JsonId>> members = tree_.at(patterns).members;
      for (const auto& [pattern, value] : members) {
        const RegexId keys = facts_.Pattern(patterns, "patternProperties", pattern);
        if (!dfa_.Matches(keys, EncodedText(name, TextEncoding::kJsonString), fuel_)) continue;
        matched = true;
        out.push_back(value);
      }
    }
    const JsonId rest = tree_.Find(schema, "additionalProperties");
    if (!matched && rest != kNoJson) out.push_back(rest);
  }

  // Names in the schema's order, those that are only required behind them.
  std::vector<std::pair<std::string, bool>> NamesOf(const SchemaBranch& branch) {
    std::vector<std::pair<std::string, bool>> names;
    SteadyMap<std::string, size_t> place;
    const auto add = [&](const std::string& name, bool required) {
      const auto [found, added] = place.try_emplace(name, names.size());
      if (added) names.emplace_back(name, false);
      names[found->second].second |= required;
    };
    for (const JsonId schema : branch.schemas) {
      if (const JsonId properties = Member(schema, "properties"); properties != kNoJson) {
        for (const auto& [name, value] : tree_.at(properties).members) add(name, false);
      }
    }
    for (const JsonId schema : branch.schemas) {
      const JsonId required = tree_.Find(schema, "required");
      if (required == kNoJson) continue;
      const JsonKind kind = tree_.at(required).kind;
      if (kind == JsonKind::kTrue || kind == JsonKind::kFalse) continue;  // draft 3: of a property, and ignored since
      for (const JsonId name : tree_.at(required).items) {
        if (tree_.at(name).kind != JsonKind::kString) kind_error(schema);
        add(tree_.at(name).text, true);
      }
      if (kind != JsonKind::kArray) kind_error(schema);
    }
    return names;
  }
  void kind_error(JsonId schema) {
    branches_.Refuse(RefusalKind::kInvalid, schema, "required", "'required' must be an array of strings");
  }

  // Keys that fit all of `propertyNames`.
  RegexId AllowedKeys(const SchemaBranch& branch) {
    RegexId allowed = facts_.AnyKey();
    for (const JsonId schema : branch.schemas) {
      const JsonId names = tree_.Find(schema, "propertyNames");
      if (names == kNoJson) continue;
      std::vector<RegexId> parts;
      for (const SchemaBranch& each : branches_.Of({names})) {
        const SchemaFacts facts = facts_.Read(each);
        RegexId texts = facts_.Texts(facts);
        if (facts.values) {
          std::vector<std::string> listed;
          for (const JsonId value : *facts.values) {
            if (tree_.at(value).kind == JsonKind::kString) {
              listed.push_back(EncodedText(tree_.at(value).text, TextEncoding::kJsonString));
            }
          }
          texts = dfa_.arena().And({texts, dfa_.arena().Strings(std::move(listed), 3)});
        }
        parts.push_back(texts);
      }
      allowed = dfa_.arena().And({allowed, dfa_.arena().Or(std::move(parts))});
    }
    return allowed;
  }

  // Splits the keys so that one set of schemas holds for each part.
  std::vector<Keys> ExtraKeys(const SchemaBranch& branch, const std::vector<Unevaluated>& unevaluated, RegexId allowed,
                              std::vector<std::string> names) {
    RegexArena& arena = dfa_.arena();
    const bool limited = allowed != facts_.AnyKey();
    std::vector<Keys> cells = {
        {arena.And({allowed, arena.Not(arena.Strings(std::move(names), 3))}), {}, false, limited}};
    for (const JsonId schema : branch.schemas) {
      for (Keys& cell : cells) cell.matched = false;
      if (const JsonId patterns = Member(schema, "patternProperties"); patterns != kNoJson) {
        const std::vector<std::pair<std::string, JsonId>> members = tree_.at(patterns).members;
        for (const auto& [pattern, value] : members) {
          SplitKeys(cells, patterns, pattern, value);
          if (refused() || fuel_.empty()) return {};
        }
      }
      const JsonId rest = tree_.Find(schema, "additionalProperties");
      for (Keys& cell : cells) {
        if (rest != kNoJson && !cell.matched) cell.schemas.push_back(rest);
      }
      EraseForbidden(cells);
    }
    for (const Unevaluated& left : unevaluated) {
      for (Keys& cell : cells) cell.matched = false;
      for (const JsonId schema : left.with) {
        const JsonId patterns = Member(schema, "patternProperties");
        if (patterns == kNoJson) continue;
        const std::vector<std::pair<std::string, JsonId>> members = tree_.at(patterns).members;
        for (const auto& [pattern, value] : members) {
          SplitKeys(cells, patterns, pattern, kNoJson);
          if (refused() || fuel_.empty()) return {};
        }
      }
      for (Keys& cell : cells) {
        if (!cell.matched) cell.schemas.push_back(left.value);
      }
      EraseForbidden(cells);
    }
    std::erase_if(cells, [&](const Keys& cell) { return dfa_.IsEmpty(cell.keys, fuel_); });
    return cells;
  }
  void EraseForbidden(std::vector<Keys>& cells) const {
    std::erase_if(cells, [&](const Keys& cell) {
      return std::ranges::any_of(cell.schemas, [&](JsonId id) { return tree_.at(id).kind == JsonKind::kFalse; });
    });
  }
  // `value`: what the pattern says of those that match; kNoJson: nothing.
  void SplitKeys(std::vector<Keys>& cells, JsonId patterns, const std::string& pattern, JsonId value) {
    RegexArena& arena = dfa_.arena();
    const RegexId with = facts_.Pattern(patterns, "patternProperties", pattern);
    const RegexId without = facts_.WithoutPattern(patterns, "patternProperties", pattern);
    std::vector<Keys> split;
    for (const Keys& cell : cells) {
      Keys inside = cell, outside = cell;
      inside.keys = arena.And({cell.keys, with});
      if (value != kNoJson) inside.schemas.push_back(value);
      inside.matched = inside.by_pattern = true;
      outside.keys = arena.And({cell.keys, without});
      for (Keys& part : {std::ref(inside), std::ref(outside)}) {
        if (!dfa_.IsEmpty(part.keys, fuel_)) split.push_back(std::move(part));
      }
    }
    cells = std::move(split);
    if (cells.size() > 64)
      branches_.Refuse(RefusalKind::kTooComplex, value == kNoJson ? 0 : value, "patternProperties",
                       "patterns that overlap in more than 64 ways");
  }

  void BuildObject(const SchemaBranch& branch, ShapeSet& shapes, ValueShape& value) {
    ObjectShape object;
    const RegexId allowed = AllowedKeys(branch);
    const std::vector<Unevaluated> unevaluated = UnevaluatedProperties(branch);
    std::vector<std::string> keys;
    for (const auto& [name, required] : NamesOf(branch)) {
      if (!fuel_.Spend(50 * static_cast<int64_t>(branch.schemas.size()))) return;
      std::string key = EncodedText(name, TextEncoding::kJsonString);
      Conjunction schemas = PropertySchemas(branch, unevaluated, name);
      if (refused()) return;
      const ShapeId shape = dfa_.Matches(allowed, key, fuel_) ? ShapeOf(std::move(schemas)) : kNoShape;
      if (required && shape == kNoShape) return;  // no object fits
      keys.push_back(key);
      object.properties.push_back({std::move(key), shape, required});
    }
    for (const JsonId schema : branch.schemas) {
      object.least = std::max(object.least, facts_.Count(schema, "minProperties", 0));
      object.most = std::min(object.most, facts_.Count(schema, "maxProperties", kNoLimit));
    }
    for (Keys& cell : ExtraKeys(branch, unevaluated, allowed, std::move(keys))) {
      const ShapeId shape = ShapeOf(std::move(cell.schemas));
      if (shape == kNoShape) continue;
      // A few keys are properties, so that those that are left are known to be endless.
      const auto few = cell.by_pattern ? dfa_.AllTexts(cell.keys, 64, fuel_) : std::nullopt;
      if (!few) {
        object.extras.push_back({cell.keys, shape});
        continue;
      }
      for (const std::string& key : *few) object.properties.push_back({key, shape, false});
    }
    if (refused()) return;
    value.objects.push_back(static_cast<int32_t>(shapes.objects.size()));
    shapes.objects.push_back(std::move(object));
  }

  // --- arrays

  std::vector<JsonId> PrefixOf(JsonId schema) {
    for (const std::string_view keyword : {"prefixItems", "items"}) {
      const JsonId value = tree_.Find(schema, keyword);
      if (value != kNoJson && tree_.at(value).kind == JsonKind::kArray) return tree_.at(value).items;
    }
    return {};
  }
  // What a schema says of items behind its prefix, or kNoJson.
  JsonId RestOf(JsonId schema) {
    const JsonId items = tree_.Find(schema, "items");
    if (items == kNoJson) return kNoJson;
    return tree_.at(items).kind == JsonKind::kArray ? tree_.Find(schema, "additionalItems") : items;
  }

  void BuildArray(const SchemaBranch& branch, ShapeSet& shapes, ValueShape& value) {
    ArrayShape array;
    size_t prefix = 0;
    JsonId unique = kNoJson;
    Conjunction rest;
    for (const JsonId schema : branch.schemas) {
      prefix = std::max(prefix, PrefixOf(schema).size());
      if (const JsonId each = RestOf(schema); each != kNoJson) rest.push_back(each);
      array.least = std::max(array.least, facts_.Count(schema, "minItems", 0));
      array.most = std::min(array.most, facts_.Count(schema, "maxItems", kNoLimit));
      const JsonId flag = tree_.Find(schema, "uniqueItems");
      if (flag != kNoJson && tree_.at(flag).kind == JsonKind::kTrue) unique = schema;
    }
    std::vector<std::pair<size_t, JsonId>> behind;  // what is said of items from a place on
    for (const Unevaluated& left : UnevaluatedOf(branch, "unevaluatedItems", "items")) {
      size_t evaluated = 0;
      for (const JsonId schema : left.with) evaluated = std::max(evaluated, PrefixOf(schema).size());
      behind.emplace_back(evaluated, left.value);
      rest.push_back(left.value);
    }
    for (size_t i = 0; i < prefix; ++i) {
      Conjunction item;
      for (const auto& [from, schema] : behind) {
        if (i >= from) item.push_back(schema);
      }
      for (const JsonId schema : branch.schemas) {
        const std::vector<JsonId> own = PrefixOf(schema);
        const JsonId each = i < own.size() ? own[i] : RestOf(schema);
        if (each != kNoJson) item.push_back(each);
      }
      array.prefix.push_back(ShapeOf(std::move(item)));
    }
    array.rest = ShapeOf(std::move(rest));
    if (array.rest == kNoShape) array.most = std::min(array.most, static_cast<int64_t>(prefix));
    if (unique != kNoJson && array.most > 1) {
      branches_.Refuse(RefusalKind::kUnsupportedKeyword, unique, "uniqueItems",
                       "'uniqueItems' is not enforced here; remove it or check it yourself");
    }
    if (refused()) return;
    value.arrays.push_back(static_cast<int32_t>(shapes.arrays.size()));
    shapes.arrays.push_back(std::move(array));
  }

  // --- what has no value

  // Whether no value fits, as far as types, scalars and required properties tell.
  bool ProvablyEmpty(const Conjunction& schemas, int depth) {
    for (const SchemaBranch& branch : branches_.Of(schemas)) {
      const SchemaFacts facts = facts_.Read(branch);
      if (refused() || fuel_.empty()) return false;
      if ((facts.types & kArrayType) != 0) return false;
      if ((facts.types & kObjectType) != 0 && !ObjectIsEmpty(branch, depth)) return false;
      if (facts_.Scalars(facts) != kNothing) return false;
    }
    return !refused();
  }
  bool ObjectIsEmpty(const SchemaBranch& branch, int depth) {
    const std::vector<Unevaluated> unevaluated = UnevaluatedProperties(branch);
    for (const auto& [name, required] : NamesOf(branch)) {
      if (!required) continue;
      const Conjunction schemas = Sorted(PropertySchemas(branch, unevaluated, name));
      if (std::ranges::any_of(schemas, [&](JsonId id) { return tree_.at(id).kind == JsonKind::kFalse; })) return true;
      // One schema alone is taken to be of use.
      if (depth > 0 && schemas.size() > 1 && ProvablyEmpty(schemas, depth - 1)) return true;
      if (refused()) return false;
    }
    return false;
  }

  // Where a schema without any value says so: down along what is required.
  JsonId WhatNothingFits(const ShapeSet& shapes) const {
    JsonId where = 0;
    ShapeId shape = shapes.root;
    for (int i = 0; i < 64 && shape != kNoShape; ++i) {
      if (const Conjunction& schemas = conjunctions_[static_cast<size_t>(shape)]; !schemas.empty())
        where = schemas.back();
      const ValueShape& value = shapes.values[static_cast<size_t>(shape)];
      shape = kNoShape;
      if (value.objects.size() != 1) break;
      for (const PropertyShape& property : shapes.objects[static_cast<size_t>(value.objects[0])].properties) {
        ShapeSet below = shapes;
        below.root = property.value;
        below.Prune();
        if (property.required && below.root == kNoShape) {
          shape = property.value;
          break;
        }
      }
    }
    return where;
  }

  SchemaTree tree_;
  LazyDfa& dfa_;
  Fuel& fuel_;
  SchemaBranches branches_;
  FactReader facts_;
  std::vector<Conjunction> conjunctions_;  // by ShapeId
  SteadyMap<Conjunction, ShapeId> shape_of_;
};

}  // namespace

std::variant<ShapeSet, Refusal> BuildShapes(std::string_view schema, const SchemaOptions& options, LazyDfa& dfa,
                                            Fuel& fuel) {
  auto json = JsonTree::Parse(schema);
  if (auto* error = std::get_if<std::string>(&json)) {
    const bool large = error->starts_with("more than") || error->starts_with("nested");
    return Refusal{large ? RefusalKind::kTooLarge : RefusalKind::kInvalid, "", "", std::move(*error)};
  }
  return ShapeBuilder(std::move(std::get<JsonTree>(json)), options, dfa, fuel).Build();
}

}  // namespace hydrant::grammar
