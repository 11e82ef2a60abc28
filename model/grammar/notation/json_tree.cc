#include "model/grammar/notation/json_tree.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "model/grammar/regex/char_class.h"
#include "model/grammar/regex/decimal.h"
#include "model/grammar/regex/steady_map.h"
#include "model/text/str_cat.h"

namespace hydrant::grammar {

// What the parser calls. It ends at the first thing that is refused.
class JsonTreeBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  JsonTreeBuilder(JsonTree& tree, const JsonTreeLimits& limits) : tree_(tree), limits_(limits) {}

  bool null() override { return Scalar(JsonKind::kNull, ""); }
  bool boolean(bool value) override { return Scalar(value ? JsonKind::kTrue : JsonKind::kFalse, ""); }
  bool number_integer(number_integer_t value) override { return Scalar(JsonKind::kNumber, StrCat(value)); }
  bool number_unsigned(number_unsigned_t value) override { return Scalar(JsonKind::kNumber, StrCat(value)); }
  bool number_float(number_float_t /*value*/, const string_t& text) override { return Scalar(JsonKind::kNumber, text); }
  bool string(string_t& value) override { return Scalar(JsonKind::kString, value); }
  bool binary(binary_t& /*value*/) override { return false; }
  bool start_object(size_t /*count*/) override { return Open(JsonKind::kObject); }
  bool start_array(size_t /*count*/) override { return Open(JsonKind::kArray); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool key(string_t& value) override {
    if (!keys_.back().try_emplace(value, true).second) {
      error = StrCat("the key \"", value, "\" is twice in one object");
      return false;
    }
    key_ = value;
    return true;
  }
  bool parse_error(size_t position, const std::string& /*token*/, const nlohmann::detail::exception& /*why*/) override {
    error = StrCat("not JSON at byte ", position);
    return false;
  }

  std::string error;

 private:
  std::optional<JsonId> Put(JsonKind kind, std::string text) {
    if (tree_.nodes_.size() >= limits_.values_max) {
      error = StrCat("more than ", limits_.values_max, " values");
      return std::nullopt;
    }
    const JsonId parent = open_.empty() ? kNoJson : open_.back();
    const JsonId id = tree_.Add({kind, std::move(text), {}, {}, parent});
    if (parent != kNoJson) {
      JsonNode& above = tree_.nodes_[static_cast<size_t>(parent)];
      if (above.kind == JsonKind::kObject) {
        above.members.emplace_back(std::move(key_), id);
      } else {
        above.items.push_back(id);
      }
    }
    return id;
  }
  bool Scalar(JsonKind kind, std::string text) { return Put(kind, std::move(text)).has_value(); }
  bool Open(JsonKind kind) {
    if (static_cast<int>(open_.size()) >= limits_.depth_max) {
      error = StrCat("nested deeper than ", limits_.depth_max);
      return false;
    }
    const auto id = Put(kind, "");
    if (!id) return false;
    open_.push_back(*id);
    keys_.emplace_back();
    return true;
  }
  bool Close() {
    open_.pop_back();
    keys_.pop_back();
    return true;
  }

  JsonTree& tree_;
  const JsonTreeLimits& limits_;
  std::vector<JsonId> open_;
  std::vector<SteadyMap<std::string, bool>> keys_;
  std::string key_;
};

std::variant<JsonTree, std::string> JsonTree::Parse(std::string_view text, const JsonTreeLimits& limits) {
  if (text.size() > limits.bytes_max) return StrCat("more than ", limits.bytes_max, " bytes");
  JsonTree tree;
  JsonTreeBuilder builder(tree, limits);
  if (!nlohmann::json::sax_parse(text, &builder)) return std::move(builder.error);
  return tree;
}

JsonId JsonTree::Add(JsonNode node) {
  nodes_.push_back(std::move(node));
  return static_cast<JsonId>(nodes_.size()) - 1;
}

JsonId JsonTree::Find(JsonId object, std::string_view key) const {
  for (const auto& [name, value] : at(object).members) {
    if (name == key) return value;
  }
  return kNoJson;
}

std::string JsonTree::PointerOf(JsonId id) const {
  std::vector<std::string> parts;
  for (JsonId above = at(id).parent; above != kNoJson; id = above, above = at(id).parent) {
    const JsonNode& node = at(above);
    std::string part;
    for (size_t i = 0; i < node.items.size(); ++i) {
      if (node.items[i] == id) part = StrCat(i);
    }
    for (const auto& [name, value] : node.members) {
      if (value != id) continue;
      for (const char c : name) part += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
    }
    parts.push_back(std::move(part));
  }
  std::string pointer;
  for (size_t i = parts.size(); i-- > 0;) pointer += "/" + parts[i];
  return pointer;
}

JsonId JsonTree::Resolve(std::string_view pointer, JsonId from) const {
  JsonId id = from;
  while (!pointer.empty()) {
    if (pointer[0] != '/') return kNoJson;
    const size_t end = std::min(pointer.find('/', 1), pointer.size());
    std::string part;
    for (size_t i = 1; i < end; ++i) {
      const bool escaped = pointer[i] == '~' && i + 1 < end;
      part += !escaped ? pointer[i] : pointer[++i] == '0' ? '~' : '/';
    }
    pointer.remove_prefix(end);
    const JsonNode& node = at(id);
    if (node.kind == JsonKind::kArray) {
      if (part.empty() || part.size() > 6 || !std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; }))
        return kNoJson;
      size_t index = 0;
      for (const char digit : part) index = index * 10 + static_cast<size_t>(digit - '0');
      if (index >= node.items.size()) return kNoJson;
      id = node.items[index];
    } else {
      id = Find(id, part);
      if (id == kNoJson) return kNoJson;
    }
  }
  return id;
}

bool JsonTree::Equal(JsonId a, JsonId b) const {
  std::vector<std::pair<JsonId, JsonId>> todo = {{a, b}};
  while (!todo.empty()) {
    const auto [one, two] = todo.back();
    todo.pop_back();
    const JsonNode &x = at(one), &y = at(two);
    if (x.kind != y.kind || x.items.size() != y.items.size() || x.members.size() != y.members.size()) return false;
    if (x.kind == JsonKind::kNumber) {
      const auto number = Decimal::Parse(x.text), other = Decimal::Parse(y.text);
      if (number && other ? *number != *other : x.text != y.text) return false;
    } else if (x.text != y.text) {
      return false;
    }
    for (size_t i = 0; i < x.items.size(); ++i) todo.emplace_back(x.items[i], y.items[i]);
    for (const auto& [name, value] : x.members) {
      const JsonId other = Find(two, name);
      if (other == kNoJson) return false;
      todo.emplace_back(value, other);
    }
  }
  return true;
}

std::string JsonTree::Dump(JsonId id) const {
  // What is to be written next: a value, or text that stands between.
  std::vector<std::pair<JsonId, std::string>> todo = {{id, ""}};
  std::string out;
  while (!todo.empty()) {
    const auto [next, between] = std::move(todo.back());
    todo.pop_back();
    if (next == kNoJson) {
      out += between;
      continue;
    }
    const JsonNode& node = at(next);
    switch (node.kind) {
      case JsonKind::kNull:
        out += "null";
        break;
      case JsonKind::kFalse:
        out += "false";
        break;
      case JsonKind::kTrue:
        out += "true";
        break;
      case JsonKind::kNumber:
        out += node.text;
        break;
      case JsonKind::kString:
        out += "\"" + EncodedText(node.text, TextEncoding::kJsonString) + "\"";
        break;
      case JsonKind::kArray:
        todo.emplace_back(kNoJson, "]");
        for (size_t i = node.items.size(); i-- > 0;) {
          todo.emplace_back(node.items[i], "");
          todo.emplace_back(kNoJson, i == 0 ? "[" : ",");
        }
        if (node.items.empty()) todo.emplace_back(kNoJson, "[");
        break;
      case JsonKind::kObject:
        todo.emplace_back(kNoJson, "}");
        for (size_t i = node.members.size(); i-- > 0;) {
          todo.emplace_back(node.members[i].second, "");
          todo.emplace_back(kNoJson, StrCat(i == 0 ? "{" : ",", "\"",
                                            EncodedText(node.members[i].first, TextEncoding::kJsonString), "\":"));
        }
        if (node.members.empty()) todo.emplace_back(kNoJson, "{");
        break;
    }
  }
  return out;
}

}  // namespace hydrant::grammar
