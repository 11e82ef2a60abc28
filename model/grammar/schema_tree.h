// SchemaTree is a JSON schema with what its references lead to, and schemas that follow from those of the client: what a value must be
// that does not fit another schema, or that equals a value.
//
// Thread: the one that compiles.
#ifndef HYDRANT_MODEL_GRAMMAR_SCHEMA_TREE_H_
#define HYDRANT_MODEL_GRAMMAR_SCHEMA_TREE_H_

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "model/grammar/notation/json_tree.h"
#include "model/grammar/refusal.h"
#include "model/grammar/regex/steady_map.h"

namespace hydrant::grammar {

// Keywords of schemas that follow from others; no client can say them.
inline constexpr std::string_view kNotPattern = "not pattern", kNotFormat = "not format",
                                  kNotMultipleOf = "not multipleOf", kNotWhole = "not integer", kExcluded = "excluded";

class SchemaTree {
 public:
  explicit SchemaTree(JsonTree tree);

  const JsonTree& json() const { return json_; }
  const JsonNode& at(JsonId id) const { return json_.at(id); }
  // A keyword of a schema, or kNoJson. Inner ones are found in schemas that follow from others only, and the others everywhere.
  JsonId Find(JsonId schema, std::string_view keyword) const { return json_.Find(schema, keyword); }
  bool is_inner(JsonId id) const { return id >= client_values_; }
  // Where the client can look: the pointer of a value, or of the one that it follows from.
  std::string PointerOf(JsonId id) const;
  Refusal Refuse(RefusalKind kind, JsonId where, std::string_view keyword, std::string text) const;

  // In drafts 4 to 7 nothing beside $ref counts.
  bool ref_stands_alone() const { return ref_stands_alone_; }
  // What a reference in `schema` leads to; "#…" leads into the nearest schema around it that has a name.
  std::variant<JsonId, Refusal> Target(JsonId schema, std::string_view ref) const;

  // A schema of the values that do not fit `schema`. One step: what it says of parts is "not" them.
  std::variant<JsonId, Refusal> Negated(JsonId schema);
  // A schema of the values that equal `value`, of an object or array.
  JsonId Exactly(JsonId value);

  using Members = std::vector<std::pair<std::string, JsonId>>;
  JsonId NewObject(JsonId from, Members members);
  JsonId NewArray(JsonId from, std::vector<JsonId> items);
  JsonId NewString(JsonId from, std::string text);
  JsonId NewBool(JsonId from, bool value);
  JsonId NewNumber(JsonId from, std::string text);
  // {"keyword": [items]} and the like.
  JsonId Schema(JsonId from, std::string_view keyword, JsonId value) {
    return NewObject(from, {{std::string(keyword), value}});
  }
  JsonId OfType(JsonId from, std::string_view type, Members members);
  JsonId LacksProperty(JsonId from, std::string_view name);
  JsonId HasProperties(JsonId from, const std::vector<std::string>& names);

 private:
  // What one keyword of `schema` asks for, refused to a value; kNoJson where it asks for nothing.
  std::variant<JsonId, Refusal> NegatedKeyword(JsonId schema, std::string_view keyword, JsonId value);
  JsonId NegatedType(JsonId value);
  JsonId NegatedRequired(JsonId value);
  JsonId Add(JsonId from, JsonNode node);
  void FindIdentifiers();
  void AddIdentifier(JsonId schema, std::string_view keyword, const std::string& text);
  // The schema that "#" means there: the nearest that has a name of its own, or the root.
  JsonId DocumentOf(JsonId schema) const;

  JsonTree json_;
  JsonId client_values_;
  std::vector<JsonId> from_;  // of what follows from others, by id - client_values_
  SteadyMap<JsonId, JsonId> negated_, exactly_;
  SteadyMap<std::string, JsonId> identifiers_;  // by $id
  SteadyMap<std::string, JsonId> anchors_;      // by document and "#name"
  SteadyMap<JsonId, bool> documents_;           // those that have a name
  bool ref_stands_alone_ = false;
  bool named_by_id_ = false;  // up to draft 5, and not by $id
};

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_SCHEMA_TREE_H_
