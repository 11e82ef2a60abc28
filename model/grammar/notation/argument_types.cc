#include "model/grammar/notation/argument_types.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "model/grammar/notation/python_literal.h"
#include "model/grammar/regex/char_class.h"
#include "model/text/text_pieces.h"

namespace hydrant::grammar {
namespace {

// Schemas within schemas, by name or in place. Beyond them anything may be.
constexpr int kDepthMax = 32;
// Schemas found by name in one tool.
constexpr int kReferencesMax = 256;

// Members of a schema that bound no value.
constexpr std::string_view kSaysNothing[] = {"description", "title", "default", "examples", "example"};

constexpr JsonKinds kBooleans = JsonKinds::Of(JsonKind::kFalse) | JsonKinds::Of(JsonKind::kTrue);

JsonKinds KindsOfType(std::string_view type) {
  if (type == "string") return JsonKinds::Of(JsonKind::kString);
  if (type == "integer" || type == "number") return JsonKinds::Of(JsonKind::kNumber);
  if (type == "boolean") return kBooleans;
  if (type == "null") return JsonKinds::Of(JsonKind::kNull);
  if (type == "array") return JsonKinds::Of(JsonKind::kArray);
  if (type == "object") return JsonKinds::Of(JsonKind::kObject);
  return JsonKinds::All();
}

// Goes through the schemas of one tool, each once.
class KindsOfSchemas {
 public:
  explicit KindsOfSchemas(const JsonTree& tree, JsonId root) : tree_(tree), root_(root), known_(tree.size()) {}

  JsonKinds Of(JsonId schema, int depth = 0) {
    if (depth > kDepthMax || tree_.at(schema).kind != JsonKind::kObject) return JsonKinds::All();
    std::optional<JsonKinds>& known = known_[static_cast<size_t>(schema)];
    if (known.has_value()) return *known;
    known = JsonKinds::All();  // who names itself says nothing by that
    JsonKinds kinds = JsonKinds::All();
    for (const auto& [key, value] : tree_.at(schema).members) kinds = kinds & OfMember(key, value, depth);
    return *(known = kinds);
  }

 private:
  JsonKinds OfMember(std::string_view key, JsonId value, int depth) {
    const JsonNode& node = tree_.at(value);
    if (key == "$ref") return OfReference(node.text, depth);
    if (key == "const") return JsonKinds::Of(node.kind);
    if (key == "type" && node.kind == JsonKind::kString) return KindsOfType(node.text);
    const bool is_union = key == "type" || key == "enum" || key == "anyOf" || key == "oneOf";
    if (node.kind != JsonKind::kArray || (!is_union && key != "allOf")) return JsonKinds::All();
    JsonKinds kinds = is_union ? JsonKinds::None() : JsonKinds::All();
    for (const JsonId item : node.items) {
      const JsonNode& one = tree_.at(item);
      const JsonKinds own = key == "enum"   ? JsonKinds::Of(one.kind)
                            : key == "type" ? KindsOfType(one.text)
                                            : Of(item, depth + 1);
      kinds = is_union ? kinds | own : kinds & own;
    }
    return kinds;
  }

  JsonKinds OfReference(std::string_view name, int depth) {
    if (!name.starts_with('#') || ++references_ > kReferencesMax) return JsonKinds::All();
    const JsonId found = tree_.Resolve(name.substr(1), root_);
    return found == kNoJson ? JsonKinds::All() : Of(found, depth + 1);
  }

  const JsonTree& tree_;
  const JsonId root_;
  std::vector<std::optional<JsonKinds>> known_;  // by JsonId
  int references_ = 0;
};

// What a JSON text is.
JsonKind KindOf(std::string_view json) {
  switch (json[std::min(json.find_first_not_of(kWhiteSpace), json.size() - 1)]) {
    case '{':
      return JsonKind::kObject;
    case '[':
      return JsonKind::kArray;
    case '"':
      return JsonKind::kString;
    case 't':
      return JsonKind::kTrue;
    case 'f':
      return JsonKind::kFalse;
    case 'n':
      return JsonKind::kNull;
    default:
      return JsonKind::kNumber;
  }
}

// Goes through what a schema allows, as far as bare texts can tell it.
class BareTextReader {
 public:
  BareTextReader(const JsonTree& tree, JsonId root) : tree_(tree), root_(root), kinds_(tree, root) {}

  std::variant<BareTexts, BareTextBound> Read(JsonId schema) {
    Allow(schema, 0);
    if (bound_.has_value()) return *std::move(bound_);
    BareTexts texts;
    texts.any = whole_.Has(JsonKind::kString);
    const JsonKinds all = kinds_.Of(schema);
    for (const auto& [choice, member] : choices_) {
      const JsonNode& node = tree_.at(choice);
      // Where any text may come, one that reads as a number, say, must be one that fits.
      if (texts.any && node.kind != JsonKind::kNull && !whole_.Has(node.kind)) return member;
      if (texts.any) continue;
      const std::string text = node.kind == JsonKind::kString ? node.text : tree_.Dump(choice);
      if (JsonOfArgument(text, all) == tree_.Dump(choice)) texts.texts.push_back(text);
    }
    if (texts.any) return texts;
    if (whole_.Has(JsonKind::kNull)) texts.texts.emplace_back("null");
    if (whole_.Has(JsonKind::kTrue)) texts.texts.insert(texts.texts.end(), {"true", "false"});
    std::ranges::sort(texts.texts);
    texts.texts.erase(std::unique(texts.texts.begin(), texts.texts.end()), texts.texts.end());
    const bool has_more =
        whole_.Has(JsonKind::kNumber) || whole_.Has(JsonKind::kArray) || whole_.Has(JsonKind::kObject);
    if (has_more || texts.texts.empty()) return BareTextBound{"type", schema};
    return texts;
  }

 private:
  void Allow(JsonId schema, int depth) {
    if (depth > kDepthMax || ++schemas_ > kReferencesMax) return Bound("$ref", schema);
    if (tree_.at(schema).kind == JsonKind::kTrue) whole_ = JsonKinds::All();
    BareTextBound choice, name, joined;
    for (const auto& [key, value] : tree_.at(schema).members) {
      const bool is_name = key == "$ref", is_join = key == "anyOf" || key == "oneOf",
                 is_choice = key == "enum" || key == "const";
      if (key == "type" || std::ranges::find(kSaysNothing, key) != std::end(kSaysNothing)) continue;
      BareTextBound& own = is_name ? name : is_join ? joined : choice;
      if (own.value != kNoJson || (!is_name && !is_join && !is_choice)) return Bound(key, value);
      own = {key, value};
    }
    const bool is_one = (choice.value != kNoJson) + (name.value != kNoJson) + (joined.value != kNoJson) <= 1;
    const JsonId type = tree_.Find(schema, "type");
    if (!is_one || (type != kNoJson && (name.value != kNoJson || joined.value != kNoJson)))
      return Bound("type", schema);
    if (choice.value != kNoJson) return AllowChoices(schema, choice);
    if (name.value != kNoJson) return AllowNamed(name, depth);
    if (joined.value != kNoJson) return AllowJoined(joined, depth);
    const JsonKinds kinds = kinds_.Of(schema);
    if (type != kNoJson && NamesIntegers(type)) return Bound("type", type);
    whole_ = whole_ | kinds;
  }

  // A number that is none of them would read as one.
  bool NamesIntegers(JsonId type) const {
    const JsonNode& node = tree_.at(type);
    return node.text == "integer" ||
           std::ranges::any_of(node.items, [&](JsonId item) { return tree_.at(item).text == "integer"; });
  }

  void AllowChoices(JsonId schema, const BareTextBound& member) {
    const JsonKinds kinds = kinds_.Of(schema);
    const auto allow = [&](JsonId choice) {
      if (kinds.Has(tree_.at(choice).kind)) choices_.emplace_back(choice, member);
    };
    if (member.name == "const") return allow(member.value);
    for (const JsonId choice : tree_.at(member.value).items) allow(choice);
  }

  void AllowNamed(const BareTextBound& name, int depth) {
    const std::string_view text = tree_.at(name.value).text;
    const JsonId found = text.starts_with('#') ? tree_.Resolve(text.substr(1), root_) : kNoJson;
    if (found == kNoJson) return Bound(name.name, name.value);
    Allow(found, depth + 1);
  }

  void AllowJoined(const BareTextBound& joined, int depth) {
    JsonKinds seen = JsonKinds::None();
    for (const JsonId one : tree_.at(joined.value).items) {
      const JsonKinds own = kinds_.Of(one);
      // What fits two of them fits `oneOf` no more.
      if (joined.name == "oneOf" && (seen & own) != JsonKinds::None()) return Bound(joined.name, joined.value);
      seen = seen | own;
      Allow(one, depth + 1);
    }
  }

  void Bound(std::string_view name, JsonId value) {
    if (!bound_.has_value()) bound_ = {std::string(name), value};
  }

  const JsonTree& tree_;
  const JsonId root_;
  KindsOfSchemas kinds_;
  JsonKinds whole_ = JsonKinds::None();                    // all values of these kinds fit
  std::vector<std::pair<JsonId, BareTextBound>> choices_;  // and these, each with the member that has it
  std::optional<BareTextBound> bound_;
  int schemas_ = 0;
};

}  // namespace

std::variant<BareTexts, BareTextBound> BareTextsOf(const JsonTree& tree, JsonId schema, JsonId root) {
  return BareTextReader(tree, root).Read(schema);
}

void ArgumentTypes::Add(std::string_view tool) {
  const auto json = JsonTree::Parse(tool, {.bytes_max = 1 << 20});
  const auto* tree = std::get_if<JsonTree>(&json);
  if (tree == nullptr) return;
  const JsonId name = tree->Find(0, "name"), schema = tree->Find(0, "parameters");
  const JsonId properties = schema == kNoJson ? kNoJson : tree->Find(schema, "properties");
  if (name == kNoJson || properties == kNoJson) return;
  KindsOfSchemas kinds(*tree, schema);
  Arguments arguments;
  for (const auto& [key, value] : tree->at(properties).members) {
    const JsonKinds own = kinds.Of(value);
    if (own != JsonKinds::None()) arguments.emplace(key, own);
  }
  tools_.insert_or_assign(tree->at(name).text, std::move(arguments));
}

JsonKinds ArgumentTypes::Of(std::string_view tool, std::string_view argument) const {
  const auto arguments = tools_.find(tool);
  if (arguments == tools_.end()) return JsonKinds::All();
  const auto found = arguments->second.find(argument);
  return found == arguments->second.end() ? JsonKinds::All() : found->second;
}

std::string JsonOfArgument(std::string_view text, JsonKinds kinds) {
  const auto quoted = [text] { return '"' + EncodedText(text, TextEncoding::kJsonString) + '"'; };
  if (kinds == JsonKinds::Of(JsonKind::kString)) return quoted();
  std::optional<std::string> value;
  PythonReader reader(text);
  if (IsJson(text)) {
    value = text;
  } else if (kinds != JsonKinds::All()) {  // where nothing is known of it, what is no JSON is a text
    value = reader.Value();
    if (!reader.AtEnd()) return quoted();
  }
  if (!value.has_value()) return quoted();
  const JsonKind kind = KindOf(*value);
  const bool may_be_string = kinds.Has(JsonKind::kString);
  return kind == JsonKind::kString || (may_be_string && !kinds.Has(kind)) ? quoted() : *value;
}

}  // namespace hydrant::grammar
