// SchemaBranches takes a conjunction of schemas apart into alternatives: sets of schemas whose own keywords all hold, without those that
// combine schemas. A value fits the conjunction exactly if it fits one of them.
//
// Thread: the one that compiles.
#ifndef HYDRANT_MODEL_GRAMMAR_SCHEMA_BRANCHES_H_
#define HYDRANT_MODEL_GRAMMAR_SCHEMA_BRANCHES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/grammar/regex/fuel.h"
#include "model/grammar/regex/steady_map.h"
#include "model/grammar/schema_tree.h"

namespace hydrant::grammar {

// Schemas that all have to fit; sorted, each once.
using Conjunction = std::vector<JsonId>;

enum JsonTypes : uint8_t {
  kNullType = 1,
  kBoolType = 2,
  kNumberType = 4,
  kStringType = 8,
  kArrayType = 16,
  kObjectType = 32,
  kAllTypes = 63
};

struct SchemaBranch {
  std::vector<JsonId> schemas;  // in the order in which they were met
  uint8_t types = kAllTypes;
};

class SchemaBranches {
 public:
  // Whether no value fits a conjunction of two schemas, as far as that can be seen.
  using Disjoint = std::function<bool(JsonId, JsonId)>;

  SchemaBranches(SchemaTree& tree, Fuel& fuel, Disjoint disjoint)
      : tree_(tree), fuel_(fuel), disjoint_(std::move(disjoint)) {}

  // Nothing, and a refusal, where something is not supported.
  std::vector<SchemaBranch> Of(const Conjunction& schemas);
  // The schemas of a branch that say what is evaluated for `unevaluatedProperties` and `unevaluatedItems` of `schema`, which is one of
  // it: itself, and those that it applies in place and that fit. Of values of the branch each of these does.
  std::vector<JsonId> EvaluatedWith(const SchemaBranch& branch, JsonId schema);
  std::optional<Refusal>& refusal() { return refusal_; }
  void Refuse(Refusal refusal) {
    if (!refusal_) refusal_ = std::move(refusal);
  }
  void Refuse(RefusalKind kind, JsonId where, std::string_view keyword, std::string text) {
    if (!refusal_) refusal_ = tree_.Refuse(kind, where, keyword, std::move(text));
  }

  static constexpr size_t kBranchesMax = 256;

 private:
  struct Open {
    SchemaBranch branch;
    std::vector<JsonId> pending;
    size_t next = 0;                           // in pending
    std::vector<std::vector<JsonId>> choices;  // of schemas of which one has to fit
  };

  // False where nothing fits.
  bool Add(Open& open, JsonId schema);
  bool AddType(Open& open, JsonId schema, JsonId type);
  void AddCombined(Open& open, JsonId schema);
  std::vector<JsonId> SomeOf(JsonId schema, JsonId list);
  void AddConditions(Open& open, JsonId schema);
  void AddDependencies(Open& open, JsonId schema, std::string_view keyword);
  void AddValues(Open& open, JsonId schema);
  void CheckKeywords(JsonId schema);
  void AddNegated(Open& open, JsonId schema);
  const std::vector<JsonId>& OneOf(JsonId schema, JsonId branches);
  std::vector<JsonId> Items(JsonId schema, std::string_view keyword);
  // Applied in place, whether they have to fit or may.
  std::vector<JsonId> InPlace(JsonId schema);
  std::vector<JsonId> InPlaceBelow(JsonId schema);
  JsonId TargetOf(JsonId schema) const;  // of its $ref; kNoJson: there is none
  bool Evaluates(JsonId schema);         // any property or item, if it fits
  void FindEvaluated();

  SchemaTree& tree_;
  Fuel& fuel_;
  Disjoint disjoint_;
  std::optional<Refusal> refusal_;
  SteadyMap<JsonId, bool> checked_;
  // Somebody asks what these evaluate. Each branch of `anyOf` that may do so is two: one in which it fits, and one in which
  // nobody counts on it. Where it fits nevertheless the second allows less than the first, and never more.
  std::optional<SteadyMap<JsonId, bool>> evaluated_;
  static constexpr size_t kEvaluatingMax = 6;  // branches of one anyOf: 63 ways
  static constexpr size_t kOneOfDepthMax = 8;
  std::vector<JsonId> one_of_open_, one_of_unproven_;
  SteadyMap<JsonId, std::vector<JsonId>> one_of_, made_;  // options by the value of the keyword
};

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_SCHEMA_BRANCHES_H_
