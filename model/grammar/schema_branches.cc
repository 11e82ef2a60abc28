#include "model/grammar/schema_branches.h"

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "model/grammar/schema_keywords.h"
#include "model/text/str_cat.h"

namespace hydrant::grammar {
namespace {

constexpr std::array<std::pair<std::string_view, uint8_t>, 7> kTypeNames = {{{"null", kNullType},
                                                                             {"boolean", kBoolType},
                                                                             {"integer", kNumberType},
                                                                             {"number", kNumberType},
                                                                             {"string", kStringType},
                                                                             {"array", kArrayType},
                                                                             {"object", kObjectType}}};

constexpr std::array<std::string_view, 8> kEvaluating = {
    "properties",  "patternProperties", "additionalProperties",  "items",
    "prefixItems", "additionalItems",   "unevaluatedProperties", "unevaluatedItems"};

bool IsComposite(const JsonNode& node) { return node.kind == JsonKind::kArray || node.kind == JsonKind::kObject; }

}  // namespace

std::vector<JsonId> SchemaBranches::Items(JsonId schema, std::string_view keyword) {
  const JsonId value = tree_.Find(schema, keyword);
  if (value == kNoJson) return {};
  if (tree_.at(value).kind != JsonKind::kArray) {
    Refuse(RefusalKind::kInvalid, schema, keyword, StrCat("'", keyword, "' must be an array"));
    return {};
  }
  return tree_.at(value).items;
}

std::vector<JsonId> SchemaBranches::InPlace(JsonId schema) {
  std::vector<JsonId> all;
  if (tree_.at(schema).kind != JsonKind::kObject) return all;
  for (const std::string_view keyword : {"allOf", "anyOf", "oneOf"}) {
    const JsonId list = tree_.Find(schema, keyword);
    if (list != kNoJson) all.insert(all.end(), tree_.at(list).items.begin(), tree_.at(list).items.end());
  }
  for (const std::string_view keyword : {"if", "then", "else"}) {
    if (const JsonId each = tree_.Find(schema, keyword); each != kNoJson) all.push_back(each);
  }
  for (const std::string_view keyword : {"dependentSchemas", "dependencies"}) {
    const JsonId each = tree_.Find(schema, keyword);
    if (each == kNoJson) continue;
    for (const auto& [name, value] : tree_.at(each).members) all.push_back(value);
  }
  if (const JsonId target = TargetOf(schema); target != kNoJson) all.push_back(target);
  return all;
}

std::vector<JsonId> SchemaBranches::InPlaceBelow(JsonId schema) {
  SteadyMap<JsonId, bool> seen;
  std::vector<JsonId> found = {schema};
  for (size_t i = 0; i < found.size() && fuel_.Spend(4); ++i) {
    for (const JsonId inner : InPlace(found[i])) {
      if (seen.try_emplace(inner, true).second && inner != schema) found.push_back(inner);
    }
  }
  return found;
}

bool SchemaBranches::Evaluates(JsonId schema) {
  return std::ranges::any_of(InPlaceBelow(schema), [&](JsonId each) {
    return std::ranges::any_of(kEvaluating, [&](std::string_view name) { return tree_.Find(each, name) != kNoJson; });
  });
}

void SchemaBranches::FindEvaluated() {
  evaluated_.emplace();
  const auto size = static_cast<JsonId>(tree_.json().size());
  for (JsonId id = 0; id < size && !tree_.is_inner(id); ++id) {
    if (tree_.Find(id, "unevaluatedProperties") == kNoJson && tree_.Find(id, "unevaluatedItems") == kNoJson) continue;
    for (const JsonId each : InPlaceBelow(id)) evaluated_->try_emplace(each, true);
  }
}

std::vector<JsonId> SchemaBranches::EvaluatedWith(const SchemaBranch& branch, JsonId schema) {
  std::vector<JsonId> sorted = branch.schemas, found = {schema};
  std::ranges::sort(sorted);
  const auto fits = [&](JsonId id) { return std::ranges::binary_search(sorted, id); };
  const auto add = [&](JsonId id) {
    if (fits(id) && std::ranges::find(found, id) == found.end()) found.push_back(id);
  };
  // The second of the ways that a keyword of this value leads to.
  const auto second_fits = [&](JsonId value) { return made_.contains(value) && fits(made_.at(value).at(1)); };
  for (size_t i = 0; i < found.size() && fuel_.Spend(8); ++i) {
    const JsonId each = found[i];
    for (const std::string_view keyword : {"allOf", "anyOf", "oneOf"}) {
      for (const JsonId inner : Items(each, keyword)) add(inner);
    }
    add(TargetOf(each));
    if (const JsonId condition = tree_.Find(each, "if"); condition != kNoJson) {
      add(condition);
      if (fits(condition)) add(tree_.Find(each, "then"));
      if (second_fits(condition)) add(tree_.Find(each, "else"));
    }
    for (const std::string_view keyword : {"dependentSchemas", "dependencies"}) {
      const JsonId all = tree_.Find(each, keyword);
      if (all == kNoJson) continue;
      for (const auto& [name, value] : tree_.at(all).members) {
        if (second_fits(value)) add(value);
      }
    }
  }
  return found;
}

JsonId SchemaBranches::TargetOf(JsonId schema) const {
  const JsonId ref = tree_.Find(schema, "$ref");
  if (ref == kNoJson || tree_.at(ref).kind != JsonKind::kString) return kNoJson;
  const auto target = tree_.Target(schema, tree_.at(ref).text);
  return target.index() == 0 ? std::get<JsonId>(target) : kNoJson;
}

// One of them has to fit. Where somebody asks what they evaluate, it is each set of those that evaluate anything.
std::vector<JsonId> SchemaBranches::SomeOf(JsonId schema, JsonId list) {
  const std::vector<JsonId> branches = Items(schema, "anyOf");
  if (!evaluated_->contains(schema)) return branches;
  if (made_.contains(list)) return made_.at(list);
  std::vector<JsonId> options, evaluating;
  for (const JsonId each : branches) (Evaluates(each) ? evaluating : options).push_back(each);
  if (evaluating.size() > kEvaluatingMax) {
    Refuse(RefusalKind::kTooComplex, schema, "anyOf",
           StrCat("more than ", kEvaluatingMax, " branches of 'anyOf' have properties or items that are evaluated"));
    return {};
  }
  for (size_t set = 1; set < size_t{1} << evaluating.size(); ++set) {
    std::vector<JsonId> all;
    for (size_t i = 0; i < evaluating.size(); ++i) {
      if ((set >> i & 1) != 0) all.push_back(evaluating[i]);
    }
    options.push_back(all.size() == 1 ? all[0] : tree_.Schema(schema, "allOf", tree_.NewArray(schema, std::move(all))));
  }
  return made_[list] = std::move(options);
}

std::vector<SchemaBranch> SchemaBranches::Of(const Conjunction& schemas) {
  if (!evaluated_) FindEvaluated();
  std::vector<Open> todo(1);
  todo[0].pending = schemas;
  std::vector<SchemaBranch> branches;
  while (!todo.empty() && !refusal_) {
    Open open = std::move(todo.back());
    todo.pop_back();
    bool fits = true;
    while (fits && !refusal_ && open.next < open.pending.size()) fits = Add(open, open.pending[open.next++]);
    if (refusal_) return {};
    if (!fits) continue;
    if (open.choices.empty()) {
      branches.push_back(std::move(open.branch));
    } else {
      // The one with the fewest options first: it narrows types before others multiply.
      const auto least = std::ranges::min_element(open.choices, {}, &std::vector<JsonId>::size);
      const std::vector<JsonId> options = std::move(*least);
      open.choices.erase(least);
      for (size_t i = options.size(); i-- > 0;) {
        todo.push_back(open);
        todo.back().pending.push_back(options[i]);
      }
    }
    if (branches.size() + todo.size() > kBranchesMax) {
      Refuse(RefusalKind::kTooComplex, schemas[0], "", StrCat("more than ", kBranchesMax, " alternatives"));
    }
  }
  return branches;
}

bool SchemaBranches::AddType(Open& open, JsonId schema, JsonId type) {
  uint8_t mask = 0;
  const JsonNode node = tree_.at(type);
  std::vector<JsonId> names = node.items;
  if (node.kind != JsonKind::kArray) names = {type};
  for (const JsonId name : names) {
    const auto found = std::ranges::find(kTypeNames, std::string_view(tree_.at(name).text),
                                         [](const auto& each) { return each.first; });
    if (found == kTypeNames.end() || tree_.at(name).kind != JsonKind::kString) {
      Refuse(RefusalKind::kInvalid, schema, "type",
             "'type' must be one or several of null, boolean, integer, number, string, array and object");
      return false;
    }
    mask |= found->second;
  }
  open.branch.types &= mask;
  return open.branch.types != 0;
}

void SchemaBranches::CheckKeywords(JsonId schema) {
  if (!checked_.try_emplace(schema, true).second || tree_.is_inner(schema)) return;
  const std::vector<std::pair<std::string, JsonId>> members = tree_.at(schema).members;
  for (const auto& [keyword, value] : members) {
    if (UseOf(keyword) != KeywordUse::kRefused) continue;
    // minContains and maxContains without contains say nothing.
    if ((keyword == "minContains" || keyword == "maxContains") && tree_.Find(schema, "contains") == kNoJson) continue;
    if (keyword == "$dynamicAnchor" || keyword == "$recursiveAnchor") continue;  // a name for what is refused itself
    Refuse(RefusalKind::kUnsupportedKeyword, schema, keyword,
           StrCat("'", keyword, "' is not enforced here; remove it or check it yourself"));
  }
}

bool SchemaBranches::Add(Open& open, JsonId schema) {
  if (!fuel_.Spend(20 + 4 * static_cast<int64_t>(open.branch.schemas.size()))) {
    Refuse(RefusalKind::kTooComplex, schema, "", "the schema takes too much work");
    return false;
  }
  const JsonKind kind = tree_.at(schema).kind;
  if (kind == JsonKind::kTrue) return true;
  if (kind == JsonKind::kFalse) return false;
  if (kind != JsonKind::kObject) {
    Refuse(RefusalKind::kInvalid, schema, "", "a schema must be an object or a boolean");
    return false;
  }
  if (std::ranges::find(open.branch.schemas, schema) != open.branch.schemas.end()) return true;
  open.branch.schemas.push_back(schema);
  if (const JsonId ref = tree_.Find(schema, "$ref"); ref != kNoJson) {
    if (tree_.at(ref).kind != JsonKind::kString) {
      Refuse(RefusalKind::kInvalid, schema, "$ref", "'$ref' must be a string");
      return false;
    }
    auto target = tree_.Target(schema, tree_.at(ref).text);
    if (auto* refusal = std::get_if<Refusal>(&target)) {
      Refuse(std::move(*refusal));
      return false;
    }
    open.pending.push_back(std::get<JsonId>(target));
    if (tree_.ref_stands_alone()) {
      open.branch.schemas.pop_back();  // of no effect but that
      return true;
    }
  }
  CheckKeywords(schema);
  if (const JsonId type = tree_.Find(schema, "type"); type != kNoJson && !AddType(open, schema, type)) return false;
  AddValues(open, schema);
  AddCombined(open, schema);
  AddConditions(open, schema);
  for (const std::string_view keyword : {"dependentRequired", "dependentSchemas", "dependencies"})
    AddDependencies(open, schema, keyword);
  return !refusal_;
}

// Objects and arrays among values that are listed become schemas of their own; scalars stay with who makes expressions of them.
void SchemaBranches::AddValues(Open& open, JsonId schema) {
  const JsonId list = tree_.Find(schema, "enum"), single = tree_.Find(schema, "const");
  if (single != kNoJson && IsComposite(tree_.at(single))) open.pending.push_back(tree_.Exactly(single));
  if (list == kNoJson) return;
  const std::vector<JsonId> values = Items(schema, "enum");
  if (std::ranges::none_of(values, [&](JsonId value) { return IsComposite(tree_.at(value)); })) return;
  if (!made_.contains(list)) {
    std::vector<JsonId> scalars, options;
    for (const JsonId value : values) {
      if (IsComposite(tree_.at(value))) {
        options.push_back(tree_.Exactly(value));
      } else {
        scalars.push_back(value);
      }
    }
    if (!scalars.empty()) options.push_back(tree_.Schema(schema, "enum", tree_.NewArray(schema, std::move(scalars))));
    made_[list] = std::move(options);
  }
  open.choices.push_back(made_[list]);
}

void SchemaBranches::AddCombined(Open& open, JsonId schema) {
  for (const JsonId each : Items(schema, "allOf")) open.pending.push_back(each);
  if (const JsonId list = tree_.Find(schema, "anyOf"); list != kNoJson) open.choices.push_back(SomeOf(schema, list));
  if (const JsonId list = tree_.Find(schema, "oneOf"); list != kNoJson && !refusal_) {
    const std::vector<JsonId>& options = OneOf(schema, list);
    if (!refusal_) open.choices.push_back(options);
  }
  if (const JsonId other = tree_.Find(schema, "not"); other != kNoJson && !refusal_) AddNegated(open, other);
}

void SchemaBranches::AddNegated(Open& open, JsonId schema) {
  CheckKeywords(schema);
  if (refusal_) return;
  auto negated = tree_.Negated(schema);
  if (auto* refusal = std::get_if<Refusal>(&negated)) return Refuse(std::move(*refusal));
  open.pending.push_back(std::get<JsonId>(negated));
}

// Each branch where no other fits, too: known by itself, or asked for.
const std::vector<JsonId>& SchemaBranches::OneOf(JsonId schema, JsonId list) {
  if (const auto known = one_of_.find(list); known != one_of_.end()) return known->second;
  const std::vector<JsonId> branches = Items(schema, "oneOf");
  // Asked for while it is being made, or too far down, to see whether other branches are disjoint: there more than fits is as good.
  if (std::ranges::find(one_of_open_, list) != one_of_open_.end() || one_of_open_.size() >= kOneOfDepthMax) {
    return one_of_unproven_ = branches;
  }
  one_of_open_.push_back(list);
  std::vector<std::vector<JsonId>> parts(branches.size());
  std::vector<JsonId> made;
  for (size_t i = 0; i < branches.size() && !refusal_; ++i) {
    for (size_t j = 0; j < i && !refusal_; ++j) {
      if (disjoint_(branches[i], branches[j])) continue;
      for (const auto& [from, other] : {std::pair(i, j), std::pair(j, i)}) {
        parts[from].push_back(tree_.Schema(branches[other], "not", branches[other]));
        if (tree_.Negated(branches[other]).index() == 0) continue;
        Refuse(RefusalKind::kUnprovableOneOf, schema, "oneOf",
               StrCat("branches ", j, " and ", i, " of 'oneOf' may both match; use 'anyOf'"));
      }
    }
  }
  for (size_t i = 0; i < branches.size() && !refusal_; ++i) {
    parts[i].insert(parts[i].begin(), branches[i]);
    made.push_back(parts[i].size() == 1
                       ? branches[i]
                       : tree_.Schema(branches[i], "allOf", tree_.NewArray(branches[i], std::move(parts[i]))));
  }
  one_of_open_.pop_back();
  return one_of_[list] = std::move(made);
}

void SchemaBranches::AddConditions(Open& open, JsonId schema) {
  const JsonId condition = tree_.Find(schema, "if");
  const JsonId then = tree_.Find(schema, "then"), otherwise = tree_.Find(schema, "else");
  if (condition == kNoJson || refusal_) return;
  if (then == kNoJson && otherwise == kNoJson) {
    // It asks for nothing, but what fits it is evaluated.
    if (!evaluated_->contains(schema) || !Evaluates(condition)) return;
    if (!made_.contains(condition)) made_[condition] = {condition, tree_.NewBool(schema, true)};
  } else if (!made_.contains(condition)) {
    const JsonId negated = tree_.Schema(condition, "not", condition);
    std::vector<JsonId> yes = {condition}, no = {negated};
    if (then != kNoJson) yes.push_back(then);
    if (otherwise != kNoJson) no.push_back(otherwise);
    made_[condition] = {tree_.Schema(schema, "allOf", tree_.NewArray(schema, std::move(yes))),
                        tree_.Schema(schema, "allOf", tree_.NewArray(schema, std::move(no)))};
  }
  open.choices.push_back(made_[condition]);
}

// Who has the property has others, too, or fits a schema.
void SchemaBranches::AddDependencies(Open& open, JsonId schema, std::string_view keyword) {
  const JsonId all = tree_.Find(schema, keyword);
  if (all == kNoJson || refusal_) return;
  if (tree_.at(all).kind != JsonKind::kObject) {
    return Refuse(RefusalKind::kInvalid, schema, keyword, StrCat("'", keyword, "' must be an object"));
  }
  const std::vector<std::pair<std::string, JsonId>> members = tree_.at(all).members;
  for (const auto& [name, value] : members) {
    if (!made_.contains(value)) {
      const JsonNode node = tree_.at(value);
      JsonId with = kNoJson;
      if (node.kind == JsonKind::kArray || node.kind == JsonKind::kString) {  // a single name: draft 3
        std::vector<std::string> names = {name};
        if (node.kind == JsonKind::kString) names.push_back(node.text);
        for (const JsonId item : node.items) names.push_back(tree_.at(item).text);
        with = tree_.HasProperties(value, names);
      } else {
        with = tree_.Schema(value, "allOf", tree_.NewArray(value, {tree_.HasProperties(value, {name}), value}));
      }
      std::vector<JsonId> others;
      for (const std::string_view type : {"null", "boolean", "number", "string", "array"}) {
        others.push_back(tree_.NewString(value, std::string(type)));
      }
      made_[value] = {tree_.LacksProperty(value, name), with,
                      tree_.Schema(value, "type", tree_.NewArray(value, std::move(others)))};
    }
    open.choices.push_back(made_[value]);
  }
}

}  // namespace hydrant::grammar
