// JsonTree is a JSON text as a client sent it: members in their order, numbers as they were written.
//
// Thread: any (immutable once parsed).
#ifndef HYDRANT_MODEL_GRAMMAR_NOTATION_JSON_TREE_H_
#define HYDRANT_MODEL_GRAMMAR_NOTATION_JSON_TREE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace hydrant::grammar {

enum class JsonKind : uint8_t { kNull, kFalse, kTrue, kNumber, kString, kArray, kObject };

// Index of a value in its tree.
using JsonId = int32_t;
inline constexpr JsonId kNoJson = -1;

struct JsonNode {
  JsonKind kind = JsonKind::kNull;
  std::string text;                                     // of a number, or a string's characters as UTF-8
  std::vector<JsonId> items;                            // of an array
  std::vector<std::pair<std::string, JsonId>> members;  // of an object, each key once
  JsonId parent = kNoJson;
};

struct JsonTreeLimits {
  size_t bytes_max = 256 << 10;
  size_t values_max = 100'000;
  int depth_max = 64;
};

class JsonTree {
 public:
  // The root is value 0. Otherwise why not: not JSON, not UTF-8, a key twice in one object, over a limit.
  static std::variant<JsonTree, std::string> Parse(std::string_view text, const JsonTreeLimits& limits = {});

  const JsonNode& at(JsonId id) const { return nodes_[static_cast<size_t>(id)]; }
  size_t size() const { return nodes_.size(); }
  // A member, or kNoJson where it is no object or has none of that name.
  JsonId Find(JsonId object, std::string_view key) const;
  // JSON Pointer of a value, "" for the root.
  std::string PointerOf(JsonId id) const;
  // What a pointer ("" or "/a/0", unescaped from a URL) leads to from a value on, or kNoJson.
  JsonId Resolve(std::string_view pointer, JsonId from = 0) const;
  // Whether two values are equal as JSON Schema says it: members in any order, numbers by value.
  bool Equal(JsonId a, JsonId b) const;
  // The value as text without white space.
  std::string Dump(JsonId id) const;

  // For schemas that follow from others.
  JsonId Add(JsonNode node);

 private:
  friend class JsonTreeBuilder;
  std::vector<JsonNode> nodes_;
};

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_NOTATION_JSON_TREE_H_
