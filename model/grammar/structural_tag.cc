#include "model/grammar/structural_tag.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/grammar/notation/json_tree.h"
#include "model/grammar/regex/steady_map.h"
#include "model/text/str_cat.h"

namespace hydrant::grammar {
namespace {

// What comes behind a format: one of `ends`, unless there are none, and then `next`.
struct Behind {
  std::vector<std::string> ends;
  NodeId next = kReturnNode;
};

// Recursion is bounded by the depth of a JSON text.
class TagBuilder {
 public:
  TagBuilder(JsonTree json, GrammarParts& parts) : json_(std::move(json)), parts_(parts) {}

  std::optional<Refusal> Build() {
    if (json_.at(0).kind != JsonKind::kObject) return Refusal{RefusalKind::kInvalid, "", "", "must be an object"};
    const JsonId type = json_.Find(0, "type");
    if (type != kNoJson && json_.at(type).text != "structural_tag") Fail(type, "'type' must be structural_tag");
    const JsonId format = json_.Find(0, "format");
    NodeId root = kReturnNode;
    if (format != kNoJson) {
      Allow(0, {"type", "format"});
      root = Format(format, {});
    } else {
      root = Structures();
    }
    if (refusal_.has_value()) return refusal_;
    parts_.script.root = root;
    return std::nullopt;
  }

 private:
  using Kind = JsonKind;

  void Fail(JsonId where, std::string text, RefusalKind kind = RefusalKind::kInvalid) {
    if (!refusal_) refusal_ = Refusal{kind, json_.PointerOf(where), "", std::move(text)};
  }
  void Take(Refusal refusal) {
    if (!refusal_) refusal_ = std::move(refusal);
  }
  void Allow(JsonId object, std::initializer_list<std::string_view> members) {
    for (const auto& [name, value] : json_.at(object).members) {
      if (std::ranges::find(members, name) != members.end()) continue;
      Fail(value, StrCat("'", name, "' is not supported here"), RefusalKind::kUnsupportedKeyword);
      refusal_->keyword = name;
    }
  }
  // A member that has to be there. The root, having failed, where it is not, or not of that kind.
  JsonId Member(JsonId object, std::string_view name, Kind kind, std::string_view what) {
    const JsonId member = json_.Find(object, name);
    if (member != kNoJson && json_.at(member).kind == kind) return member;
    Fail(member == kNoJson ? object : member, StrCat("'", name, "' must be ", what));
    return 0;
  }
  std::string String(JsonId object, std::string_view name) {
    return json_.at(Member(object, name, Kind::kString, "a string")).text;
  }
  bool Flag(JsonId object, std::string_view name) {
    const JsonId member = json_.Find(object, name);
    if (member == kNoJson || json_.at(member).kind == Kind::kFalse) return false;
    if (json_.at(member).kind != Kind::kTrue) Fail(member, StrCat("'", name, "' must be a boolean"));
    return true;
  }
  // Those of an array, each once.
  std::vector<std::string> Strings(JsonId object, std::string_view name, bool needed) {
    if (!needed && json_.Find(object, name) == kNoJson) return {};
    std::vector<std::string> strings;
    SteadyMap<std::string_view, bool> known;
    const JsonId array = Member(object, name, Kind::kArray, "an array of strings");
    size_t bytes = 0;
    for (const JsonId item : json_.at(array).items) {
      const JsonNode& node = json_.at(item);
      if (node.kind != Kind::kString || node.text.empty()) Fail(item, "must be a string that is not empty");
      bytes += node.text.size();
      if (known.try_emplace(node.text, true).second) strings.push_back(node.text);
    }
    if (needed && strings.empty()) Fail(array, "must not be empty");
    if (bytes > TriggerTable::kBytesMax) {
      Fail(array, StrCat("more than ", TriggerTable::kBytesMax, " bytes"), RefusalKind::kTooLarge);
    }
    return strings;
  }
  const std::vector<JsonId>& Array(JsonId object, std::string_view name) {
    const JsonId array = Member(object, name, Kind::kArray, "an array");
    if (array != 0 && json_.at(array).items.empty()) Fail(array, "must not be empty");
    if (json_.at(array).items.size() > kTagsMax) {
      Fail(array, StrCat("more than ", kTagsMax, " members"), RefusalKind::kTooLarge);
    }
    return json_.at(array).items;
  }

  NodeId Literal(std::string_view text, NodeId next) {
    parts_.fuel.Spend(static_cast<int64_t>(text.size()));
    return parts_.script.Text(parts_.dfa.arena().Literal(text), next);
  }
  NodeId After(const Behind& behind) {
    if (behind.ends.empty()) return behind.next;
    std::vector<NodeId> ways;
    for (const std::string& end : behind.ends) ways.push_back(Literal(end, behind.next));
    return ways.size() == 1 ? ways[0] : parts_.script.Fork(std::move(ways));
  }
  NodeId Schema(JsonId schema, NodeId next) {
    auto shape = parts_.Schema(json_.Dump(schema), json_.PointerOf(schema));
    if (auto* refusal = std::get_if<Refusal>(&shape)) {
      Take(std::move(*refusal));
      return kReturnNode;
    }
    return parts_.script.Value(std::get<ShapeId>(shape), next);
  }

  // --- {"structures", "triggers"}

  NodeId Structures() {
    Allow(0, {"type", "structures", "triggers"});
    const std::vector<std::string> triggers = Strings(0, "triggers", true);
    std::vector<std::vector<NodeId>> ways(triggers.size());
    const NodeId loop = parts_.script.Reserve();
    for (const JsonId structure : Array(0, "structures")) {
      if (refusal_.has_value()) break;
      if (json_.at(structure).kind != Kind::kObject) Fail(structure, "must be an object");
      Allow(structure, {"begin", "schema", "end"});
      const std::string begin = String(structure, "begin"), end = String(structure, "end");
      const JsonId schema = json_.Find(structure, "schema");
      if (schema == kNoJson) Fail(structure, "'schema' is missing");
      if (refusal_.has_value()) break;
      AddWays(structure, begin, triggers, Schema(schema, Literal(end, loop)), ways);
    }
    if (refusal_.has_value()) return kReturnNode;
    parts_.script.Fill(loop, {FreeText(triggers, ways, json_.Find(0, "triggers"), {{}, kReturnNode})});
    return loop;
  }

  // Behind each trigger that `begin` begins with, what is left of it.
  void AddWays(JsonId where, std::string_view begin, const std::vector<std::string>& triggers, NodeId behind,
               std::vector<std::vector<NodeId>>& ways) {
    bool fits = false;
    for (size_t i = 0; i < triggers.size(); ++i) {
      if (!begin.starts_with(triggers[i])) continue;
      ways[i].push_back(Literal(begin.substr(triggers[i].size()), behind));
      fits = true;
    }
    if (!fits) Fail(where, StrCat("no trigger is what '", begin, "' begins with"));
  }

  // Free text in which the first triggers lead to `ways`, those behind them are excluded, and ends lead behind it.
  NodeId FreeText(std::vector<std::string> triggers, const std::vector<std::vector<NodeId>>& ways, JsonId where,
                  const Behind& behind, const std::vector<std::string>& excluded = {}) {
    std::vector<NodeId> nodes;
    for (size_t i = 0; i < triggers.size(); ++i) {
      if (ways[i].empty()) Fail(where, StrCat("nothing begins with the trigger '", triggers[i], "'"));
      nodes.push_back(parts_.script.Fork(ways[i]));
    }
    for (const std::string& end : behind.ends) {
      triggers.push_back(end);
      nodes.push_back(behind.next);
    }
    for (const std::string& text : excluded) {
      triggers.push_back(text);
      nodes.push_back(kNoNode);
    }
    size_t bytes = 0;
    for (const std::string& trigger : triggers) bytes += trigger.size();
    if (bytes > TriggerTable::kBytesMax) {
      Fail(where, StrCat("triggers, ends and excludes have more than ", TriggerTable::kBytesMax, " bytes"),
           RefusalKind::kTooLarge);
      return kReturnNode;
    }
    if (!parts_.fuel.Spend(static_cast<int64_t>(TriggerTable::CellsMax(triggers)))) return kReturnNode;
    TriggerTable table(triggers);
    parts_.fuel.Spend(static_cast<int64_t>(table.fired_count()));
    return parts_.script.Free(std::move(table), std::move(nodes), behind.ends.empty() ? behind.next : kNoNode);
  }

  // --- {"format"}

  NodeId Format(JsonId format, const Behind& behind) {
    if (json_.at(format).kind != Kind::kObject) Fail(format, "a format must be an object");
    const std::string type = String(format, "type");
    if (refusal_.has_value() || parts_.fuel.empty()) return kReturnNode;
    if (type == "const_string") {
      Allow(format, {"type", "value"});
      return Literal(String(format, "value"), After(behind));
    }
    if (type == "json_schema") {
      Allow(format, {"type", "json_schema"});
      const JsonId schema = json_.Find(format, "json_schema");
      if (schema == kNoJson) Fail(format, "'json_schema' is missing");
      return refusal_ ? kReturnNode : Schema(schema, After(behind));
    }
    if (type == "regex") {
      Allow(format, {"type", "pattern"});
      auto texts = parts_.Pattern(String(format, "pattern"), json_.PointerOf(format) + "/pattern");
      if (auto* refusal = std::get_if<Refusal>(&texts)) Take(std::move(*refusal));
      return refusal_ ? kReturnNode : parts_.script.Text(std::get<RegexId>(texts), After(behind));
    }
    if (type == "any_text") {
      Allow(format, {"type", "excludes"});
      return FreeText({}, {}, format, behind, Strings(format, "excludes", false));
    }
    if (type == "sequence") return Sequence(format, behind);
    if (type == "or") {
      Allow(format, {"type", "elements"});
      std::vector<NodeId> ways;
      for (const JsonId element : Array(format, "elements")) ways.push_back(Format(element, behind));
      return parts_.script.Fork(std::move(ways));
    }
    if (type == "tag") return Literal(BeginOf(format), TagBehindBegin(format, After(behind)));
    if (type == "triggered_tags") return TriggeredTags(format, behind);
    if (type == "tags_with_separator") return SeparatedTags(format, behind);
    Fail(json_.Find(format, "type"), StrCat("a format of type '", type, "' is not supported"),
         RefusalKind::kUnsupportedKeyword);
    return kReturnNode;
  }

  NodeId Sequence(JsonId format, const Behind& behind) {
    Allow(format, {"type", "elements"});
    const std::vector<JsonId>& elements = Array(format, "elements");
    Behind next = behind;
    for (size_t i = elements.size(); i-- > 0 && !refusal_;) {
      // Free text before a text that is written down ends with the first one of those.
      const JsonId type = json_.Find(elements[i], "type");
      const bool is_literal = type != kNoJson && json_.at(type).text == "const_string";
      const std::string literal = is_literal && i > 0 ? String(elements[i], "value") : "";
      const JsonId before = i > 0 ? json_.Find(elements[i - 1], "type") : kNoJson;
      const bool is_free = before != kNoJson && json_.at(before).text == "any_text";
      next = is_free && !literal.empty() ? Behind{{literal}, After(next)} : Behind{{}, Format(elements[i], next)};
    }
    return After(next);
  }

  std::string BeginOf(JsonId tag) {
    if (json_.at(tag).kind != Kind::kObject) Fail(tag, "a tag must be an object");
    if (const JsonId type = json_.Find(tag, "type"); type != kNoJson && json_.at(type).text != "tag") {
      Fail(type, "must be 'tag'");
    }
    Allow(tag, {"type", "begin", "content", "end"});
    return String(tag, "begin");
  }
  NodeId TagBehindBegin(JsonId tag, NodeId next) {
    const JsonId end = json_.Find(tag, "end");
    const bool several = end != kNoJson && json_.at(end).kind == Kind::kArray;
    std::vector<std::string> ends = several ? Strings(tag, "end", true) : std::vector{String(tag, "end")};
    if (ends == std::vector<std::string>{""}) ends.clear();
    const JsonId content = Member(tag, "content", Kind::kObject, "a format");
    return refusal_ ? kReturnNode : Format(content, {std::move(ends), next});
  }

  NodeId TriggeredTags(JsonId format, const Behind& behind) {
    Allow(format, {"type", "triggers", "tags", "at_least_one", "stop_after_first", "excludes"});
    const std::vector<std::string> triggers = Strings(format, "triggers", true);
    const bool at_least_one = Flag(format, "at_least_one"), stops = Flag(format, "stop_after_first");
    const std::vector<std::string> excluded = Strings(format, "excludes", false);
    // Behind a tag.
    const NodeId text = parts_.script.Reserve();
    const NodeId after = stops ? After(behind) : text;
    std::vector<std::vector<NodeId>> ways(triggers.size());
    std::vector<NodeId> whole;
    for (const JsonId tag : Array(format, "tags")) {
      const std::string begin = BeginOf(tag);
      if (refusal_.has_value()) return kReturnNode;
      const NodeId content = TagBehindBegin(tag, after);
      AddWays(tag, begin, triggers, content, ways);
      whole.push_back(Literal(begin, content));
    }
    if (refusal_.has_value()) return kReturnNode;
    parts_.script.Fill(text, {FreeText(triggers, ways, json_.Find(format, "triggers"), behind, excluded)});
    return at_least_one ? parts_.script.Fork(std::move(whole)) : text;
  }

  NodeId SeparatedTags(JsonId format, const Behind& behind) {
    Allow(format, {"type", "tags", "separator", "at_least_one", "stop_after_first"});
    const std::string separator = String(format, "separator");
    const bool at_least_one = Flag(format, "at_least_one"), stops = Flag(format, "stop_after_first");
    const NodeId end = After(behind), again = parts_.script.Reserve();
    std::vector<NodeId> tags;
    for (const JsonId tag : Array(format, "tags")) {
      const std::string begin = BeginOf(tag);
      if (refusal_.has_value()) return kReturnNode;
      tags.push_back(Literal(begin, TagBehindBegin(tag, again)));
    }
    const NodeId one = parts_.script.Fork(std::move(tags));
    parts_.script.Fill(again, stops ? std::vector{end} : std::vector{end, Literal(separator, one)});
    return at_least_one ? one : parts_.script.Fork({one, end});
  }

  JsonTree json_;
  GrammarParts& parts_;
  std::optional<Refusal> refusal_;
};

}  // namespace

std::optional<Refusal> BuildStructuralTag(std::string_view text, GrammarParts& parts) {
  auto json = JsonTree::Parse(text);
  if (auto* error = std::get_if<std::string>(&json)) {
    const bool large = error->starts_with("more than") || error->starts_with("nested");
    return Refusal{large ? RefusalKind::kTooLarge : RefusalKind::kInvalid, "", "", std::move(*error)};
  }
  return TagBuilder(std::move(std::get<JsonTree>(json)), parts).Build();
}

}  // namespace hydrant::grammar
