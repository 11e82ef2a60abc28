#include "model/grammar/tool_calls.h"

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/grammar/message_script.h"
#include "model/grammar/notation/argument_types.h"
#include "model/grammar/notation/json_tree.h"
#include "model/grammar/notation/tool_format.h"
#include "model/grammar/regex/char_class.h"
#include "model/grammar/regex/marker_bytes.h"
#include "model/text/str_cat.h"

namespace hydrant::grammar {
namespace {

// The channel of what is said before calls.
constexpr std::string_view kPreamble = "commentary";
constexpr std::string_view kAnyName = "[A-Za-z0-9_.\\-]{1,64}";

// A reader takes as much as there is; who is held to a call must not be able to write nothing else.
struct CallBounds {
  std::string_view any, some;
};
constexpr CallBounds kBounds[] = {{R"(\s*)", R"(\s{0,8})"},
                                  {R"x("[^"\\]*")x", R"x("[^"\\\n]{0,64}")x"},
                                  {R"x(([^"\\]|\\[^\n])*")x", R"x(([^"\\\n]|\\[^\n]){0,256}")x"},
                                  {R"([A-Za-z0-9+.\-]+))*)", R"([A-Za-z0-9+.\-]{1,64})){0,4})"},
                                  {"[A-Za-z0-9]*", "[A-Za-z0-9]{0,64}"}};

// As patterns of formats have a text.
std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (std::string_view("[](){}|.*+?^$\\").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

class CallsBuilder {
 public:
  CallsBuilder(JsonTree json, const std::optional<MessageMarks>& messages, GrammarParts& parts)
      : json_(std::move(json)), messages_(messages), parts_(parts), script_(parts.script) {}

  std::optional<Refusal> Build() {
    if (!Read()) return refusal_;
    if (messages_.has_value() && !FindMessageFormats(format_->name).empty()) {
      BuildMessages();
      return refusal_;
    }
    if (format_->trigger.empty()) {
      BuildWhole();
    } else {
      BuildTriggered();
    }
    if (answer_ != kNoJson) script_.root = script_.Fork({script_.root, Answer()});
    if (messages_.has_value()) script_.root = FormInMessages(*messages_, script_.root, parts_);
    return refusal_;
  }

 private:
  struct Tool {
    std::string name;
    JsonId parameters = kNoJson;
  };

  bool Fail(JsonId where, std::string text, RefusalKind kind = RefusalKind::kInvalid) {
    if (!refusal_) refusal_ = Refusal{kind, json_.PointerOf(where), "", std::move(text)};
    return false;
  }

  bool Read() {
    if (json_.at(0).kind != JsonKind::kObject) return Fail(0, "must be an object");
    const JsonId format = json_.Find(0, "format"), choice = json_.Find(0, "choice"), tools = json_.Find(0, "tools");
    any_tool_ = tools == kNoJson;
    const JsonId loose = json_.Find(0, "loose");
    const bool is_loose = loose != kNoJson && json_.at(loose).kind == JsonKind::kTrue;
    if (format != kNoJson) format_ = FindToolFormat(json_.at(format).text);
    if (format_ != nullptr) {
      known_markers_ = format_->markers;
      // Who holds a model to a schema between marks leaves it no other spelling of those.
      const bool as_read = any_tool_ || (is_loose && format_->style != ArgumentStyle::kMarkup);
      formats_ = as_read ? FindReadFormats(format_->name) : std::span(format_, 1);
    }
    if (!formats_.empty()) format_ = &formats_.front();
    if (format_ == nullptr) return Fail(0, "'format' names no format of tool calls");
    const std::string said = choice == kNoJson ? "" : json_.at(choice).text;
    if (said != "auto" && said != "required") return Fail(0, "'choice' must be auto or required");
    if (const JsonId markers = json_.Find(0, "markers"); markers != kNoJson) {
      const std::span<const std::string_view> known = known_markers_;
      for (const JsonId marker : json_.at(markers).items) {
        const std::string& text = json_.at(marker).text;
        const auto place = static_cast<size_t>(std::ranges::find(known, text) - known.begin());
        if (text.empty() || place == known.size()) {
          return Fail(marker, StrCat("no marker of the format ", format_->name));
        }
        markers_.emplace_back(text, MarkerByte(place));
      }
    }
    answer_ = json_.Find(0, "answer");
    // Whatever is no call is the answer.
    required_ = said == "required" || answer_ != kNoJson;
    const JsonId parallel = json_.Find(0, "parallel");
    parallel_ = parallel == kNoJson || json_.at(parallel).kind == JsonKind::kTrue;
    if (any_tool_) return true;
    if (json_.at(tools).items.empty()) return Fail(tools, "there is no tool");
    if (json_.at(tools).items.size() > kToolsMax) {
      return Fail(tools, StrCat("more than ", kToolsMax, " tools"), RefusalKind::kTooLarge);
    }
    for (const JsonId tool : json_.at(tools).items) {
      const JsonId name = json_.Find(tool, "name");
      if (name == kNoJson || json_.at(name).text.empty()) return Fail(tool, "a tool must have a name");
      const auto same = [&](const Tool& other) { return other.name == json_.at(name).text; };
      if (std::ranges::any_of(tools_, same)) {
        return Fail(tool, StrCat("there are two tools of the name '", json_.at(name).text, "'"));
      }
      tools_.push_back({json_.at(name).text, json_.Find(tool, "parameters")});
    }
    return true;
  }

  // --- around calls

  // Text, and calls behind the trigger.
  void BuildTriggered() {
    const NodeId again = script_.Reserve();  // behind the last call of a trigger
    std::vector<std::string> triggers;
    std::vector<NodeId> begins;  // behind each
    for (size_t i = 0; i < formats_.size();) {
      triggers.emplace_back(formats_[i].trigger);
      std::vector<NodeId> ways;
      for (; i < formats_.size() && formats_[i].trigger == triggers.back(); ++i) {
        format_ = &formats_[i];
        ways.push_back(Pattern(format_->before_pattern, Calls(Pattern(format_->after_pattern, again))));
      }
      begins.push_back(script_.Fork(std::move(ways)));
    }
    const std::string spelled = triggers.front(), own = WithMarkers(spelled);
    const NodeId trigger = script_.Text(Literal(own), begins.front(), Region::kMarkup);
    const NodeId spaced = Pattern("[ \n]{0,2}", trigger);
    if (own != spelled) {
      triggers = {own, spelled};
      begins = {begins.front(), kNoNode};
    }
    const NodeId text = script_.Free(triggers, std::move(begins), kReturnNode);
    if (!parallel_ || !format_->text_follows) {
      script_.Fill(again, {kReturnNode});
    } else {
      script_.Fill(again, required_ ? std::vector{kReturnNode, spaced} : std::vector{text});
    }
    script_.root = required_ ? spaced : text;
  }

  // Calls or text, from the first byte on.
  void BuildWhole() {
    const NodeId calls = Pattern(format_->before_pattern, Calls(Pattern(format_->after_pattern, kReturnNode)));
    if (required_) {
      script_.root = calls;
      return;
    }
    RegexArena& arena = parts_.dfa.arena();
    // Text begins otherwise. Names count, so that an answer may be JSON, or a list.
    std::vector<RegexId> names;
    for (const Tool& tool : tools_) names.push_back(arena.Literal(tool.name));
    if (any_tool_) names.push_back(PatternOf(kAnyName));
    const RegexId begin =
        arena.Concat(std::vector{PatternOf(format_->before_pattern), PatternOf(format_->call_pattern),
                                 arena.Or(std::move(names)), PatternOf(format_->arguments_pattern), kAnything});
    RegexId text = arena.Not(begin);
    if (!markers_.empty()) text = arena.And({text, arena.Star(arena.Bytes(ByteSet::Range(0, kMarkerFirst - 1)))});
    script_.root = script_.Fork({calls, script_.Text(text, kReturnNode)});
  }

  // Messages of calls and of text.
  void BuildMessages() {
    // What text spells is read back as a call.
    MessageScript messages(*messages_, parts_, {std::string(format_->trigger)});
    const NodeId head = script_.Reserve();
    // Behind a call there is no other answer.
    const NodeId again = answer_ == kNoJson ? head : script_.Reserve();
    const NodeId behind = parallel_ ? script_.Fork({kReturnNode, messages.Next(again)}) : kReturnNode;
    std::vector<NodeId> ways;
    for (const ToolFormat& each : FindMessageFormats(format_->name)) {
      format_ = &each;
      ways.push_back(script_.Text(Literal(WithMarkers(each.trigger)), Names(behind), Region::kCall));
    }
    if (again != head) messages.FillHead(again, ways);
    NodeId text = messages.Next(head);  // required: of a message that has begun there is no more
    if (answer_ != kNoJson) {
      text = Answer();
      ways.push_back(messages.On(messages_->answer, text));
    } else if (!required_) {
      text = messages.FreeText(head);
      ways.push_back(messages.On(kPreamble, text));
      ways.push_back(messages.On(messages_->answer, messages.FreeText(kNoNode)));
    }
    messages.FillHead(head, std::move(ways));
    script_.root = messages.Root(head, text);
  }

  // A value of the answer's schema.
  NodeId Answer() {
    auto shape = parts_.Schema(json_.Dump(answer_), "");
    if (auto* refusal = std::get_if<Refusal>(&shape)) {
      if (!refusal_) refusal_ = std::move(*refusal);
      return kReturnNode;
    }
    return script_.Value(std::get<ShapeId>(shape), kReturnNode);
  }

  NodeId Calls(NodeId after) {
    const bool one = !parallel_ || format_->next_pattern == "-";
    const NodeId behind = one ? after : script_.Reserve();
    const NodeId call = Pattern(format_->call_pattern, Names(behind), Region::kCall);
    if (!one) script_.Fill(behind, {after, Pattern(format_->next_pattern, call)});
    return call;
  }

  NodeId Names(NodeId behind) {
    if (any_tool_) {
      const NodeId rest = Call({}, behind);
      return script_.Text(PatternOf(kAnyName), rest, Region::kName);
    }
    std::vector<std::pair<std::string, NodeId>> ways;
    for (const Tool& tool : tools_) ways.emplace_back(tool.name, Call(tool, behind));
    return OneOf(std::move(ways), Region::kName);
  }

  NodeId Call(const Tool& tool, NodeId behind) {
    const NodeId end = Pattern(format_->end_pattern, behind, Region::kEnd);
    NodeId arguments = end;
    if (format_->style == ArgumentStyle::kJson) {
      arguments = script_.Value(ObjectOf(tool), end, Region::kArguments);
    } else {
      const std::string_view rest = format_->rest_of_end_pattern;
      arguments = Arguments(tool, end, rest.empty() ? end : Pattern(rest, behind, Region::kEnd));
    }
    return Pattern(format_->arguments_pattern, arguments);
  }

  // One of several texts, each with what comes behind it: byte by byte where they begin alike, so that only what can be told apart is
  // read side by side.
  NodeId OneOf(std::vector<std::pair<std::string, NodeId>> ways, Region region) {
    std::ranges::sort(ways);
    struct Group {
      size_t begin, end, depth;
      NodeId node;
    };
    const NodeId root = script_.Reserve();
    std::vector<Group> todo = {{0, ways.size(), 0, root}};
    while (!todo.empty() && !script_.too_large()) {
      const Group group = todo.back();
      todo.pop_back();
      std::vector<NodeId> forks;
      for (size_t i = group.begin; i < group.end;) {
        const std::string& text = ways[i].first;
        if (text.size() == group.depth) {
          forks.push_back(ways[i++].second);
          continue;
        }
        size_t end = i + 1;
        while (end < group.end && ways[end].first[group.depth] == text[group.depth]) ++end;
        // As far as all of these are the same.
        size_t depth = group.depth + 1;
        const std::string& last = ways[end - 1].first;
        while (depth < text.size() && depth < last.size() && text[depth] == last[depth]) ++depth;
        const NodeId below = script_.Reserve();
        todo.push_back({i, end, depth, below});
        forks.push_back(
            script_.Text(Literal(std::string_view(text).substr(group.depth, depth - group.depth)), below, region));
        i = end;
      }
      if (forks.size() > kAlternativesMax) Fail(0, "too many names that begin differently", RefusalKind::kTooComplex);
      script_.Fill(group.node, std::move(forks));
    }
    return root;
  }

  // --- arguments

  ShapeId SchemaShape(JsonId schema) {
    auto shape = schema == kNoJson ? parts_.Schema(R"({"type":"object"})", "")
                                   : parts_.Schema(json_.Dump(schema), json_.PointerOf(schema));
    if (auto* refusal = std::get_if<Refusal>(&shape)) {
      if (!refusal_) refusal_ = std::move(*refusal);
      return kNoShape;
    }
    return std::get<ShapeId>(shape);
  }

  // Arguments are an object, whatever else a schema allows.
  ShapeId ObjectOf(const Tool& tool) {
    if (const auto known = objects_.find(tool.parameters); known != objects_.end()) return known->second;
    const ShapeId whole = SchemaShape(tool.parameters);
    if (whole == kNoShape) return kNoShape;
    ValueShape object = parts_.shapes.values[static_cast<size_t>(whole)];
    object.scalars = kNothing;
    object.arrays.clear();
    if (object.objects.empty()) Fail(tool.parameters, "no object fits the schema", RefusalKind::kUnsatisfiable);
    parts_.shapes.values.push_back(std::move(object));
    const auto shape = static_cast<ShapeId>(parts_.shapes.values.size()) - 1;
    objects_[tool.parameters] = shape;
    return shape;
  }

  // Those that the schema names in its order; any, where it is not known.
  NodeId Arguments(const Tool& tool, NodeId end, NodeId rest_of_end) {
    const JsonId properties = tool.parameters == kNoJson ? kNoJson : json_.Find(tool.parameters, "properties");
    if (tool.parameters == kNoJson) return AnyArguments(end, rest_of_end);
    const auto shape = ObjectOf(tool);
    if (refusal_.has_value()) return kReturnNode;
    // What the schema says of all arguments together is enforced as far as one after the other can keep to it.
    for (const auto& [name, value] : json_.at(tool.parameters).members) {
      static constexpr std::string_view kKnown[] = {"type",        "properties", "required", "additionalProperties",
                                                    "description", "title",      "$schema",  "$defs",
                                                    "definitions", "strict"};
      if (std::ranges::find(kKnown, name) != std::end(kKnown)) continue;
      Fail(value, StrCat("'", name, "' of all arguments is not enforced in the format ", format_->name),
           RefusalKind::kUnsupportedKeyword);
    }
    const ValueShape& object = parts_.shapes.values[static_cast<size_t>(shape)];
    const ObjectShape& own = parts_.shapes.objects[static_cast<size_t>(object.objects[0])];
    const std::vector<PropertyShape> shapes = own.properties;
    const size_t count = properties == kNoJson ? 0 : json_.at(properties).members.size();
    std::vector<std::string> keys;
    for (size_t i = 0; i < count; ++i) keys.push_back(QuotedKey(json_.at(properties).members[i].first));
    std::ranges::sort(keys);
    const auto is_named = [&](const PropertyShape& each) {
      return !each.required || std::ranges::binary_search(keys, each.key);
    };
    if (!std::ranges::all_of(shapes, is_named)) {
      const JsonId names = json_.Find(tool.parameters, "required");
      Fail(names == kNoJson ? tool.parameters : names,
           StrCat("an argument that 'properties' does not name is not enforced in the format ", format_->name),
           RefusalKind::kUnsupportedKeyword);
      return kReturnNode;
    }
    // What may come from an argument on, behind another and as the first.
    NodeId after_some = end, after_none = end;
    size_t optional = 0;
    for (size_t i = count; i-- > 0;) {
      const auto& [key, schema] = json_.at(properties).members[i];
      const auto found = std::ranges::find(shapes, QuotedKey(key), &PropertyShape::key);
      const bool required = found != shapes.end() && found->required;
      if (found == shapes.end() || found->value == kNoShape) continue;
      optional = required ? 0 : optional + 1;
      if (optional >= kAlternativesMax) {
        Fail(properties, "too many optional arguments in a row", RefusalKind::kTooComplex);
        return kReturnNode;
      }
      const NodeId some = Argument(key, schema, tool.parameters, found->value, after_some);
      const NodeId later = Pattern(format_->between_pattern, some);
      after_none = required ? some : script_.Fork({some, after_none});
      after_some = required ? later : script_.Fork({later, after_some});
    }
    return after_none;
  }

  // As JSON writes a key, without its quotes: what shapes have.
  static std::string QuotedKey(std::string_view key) { return EncodedText(key, TextEncoding::kJsonString); }

  NodeId Argument(std::string_view key, JsonId schema, JsonId root, ShapeId shape, NodeId next) {
    const NodeId value_end = script_.Text(Literal(format_->value_end), next, Region::kMarkup);
    NodeId value = kReturnNode;
    if (format_->style == ArgumentStyle::kMarkup && MayBeString(shape)) {
      value = MarkedString(schema, root, next);
    } else {
      value = script_.Value(shape, value_end, Region::kValue);
    }
    const NodeId behind_key = Pattern(format_->key_end_pattern, value);
    const NodeId named = script_.Text(Literal(key), behind_key, Region::kKey);
    return script_.Text(Literal(format_->key_begin), named, Region::kMarkup);
  }

  bool MayBeString(ShapeId shape) {
    const RegexId scalars = parts_.shapes.values[static_cast<size_t>(shape)].scalars;
    return parts_.dfa.Step(scalars, '"', parts_.fuel) != kNothing;
  }

  // The characters of a string as they are, up to the mark behind it.
  NodeId MarkedString(JsonId schema, JsonId root, NodeId next) {
    auto texts = BareTextsOf(json_, schema, root);
    if (const auto* bound = std::get_if<BareTextBound>(&texts)) {
      Fail(bound->value, StrCat("'", bound->name, "' of a string is not enforced in the format ", format_->name),
           RefusalKind::kUnsupportedKeyword);
      return kReturnNode;
    }
    auto& own = std::get<BareTexts>(texts);
    if (own.any) return script_.Free({std::string(format_->value_end)}, {next}, kNoNode, Region::kString);
    const NodeId end = script_.Text(Literal(format_->value_end), next, Region::kMarkup);
    std::vector<std::pair<std::string, NodeId>> ways;
    for (std::string& text : own.texts) ways.emplace_back(std::move(text), end);
    return OneOf(std::move(ways), Region::kString);
  }

  NodeId AnyArguments(NodeId end, NodeId rest_of_end) {
    const bool marked = format_->style == ArgumentStyle::kMarkup;
    const NodeId again = script_.Reserve(), key_begun = script_.Reserve();
    NodeId value = kReturnNode;
    if (marked) {
      value = AnyMarkedText(again, key_begun, rest_of_end);
    } else {
      if (any_value_ == kNoShape) {
        auto shape = parts_.Schema("{}", "");
        if (std::holds_alternative<ShapeId>(shape)) any_value_ = std::get<ShapeId>(shape);
      }
      // Programs spell three words otherwise, and quote strings as they like.
      value = script_.Fork({script_.Value(any_value_, again, Region::kValue),
                            Pattern(R"(True|False|None|'([^'\\]|\\[^\n])*')", again, Region::kValue)});
    }
    const NodeId behind_key = Pattern(format_->key_end_pattern, value);
    const NodeId key = Pattern(marked ? "[^<>\n]{1,64}" : "[A-Za-z_][A-Za-z0-9_]{0,63}", behind_key, Region::kKey);
    script_.Fill(key_begun, {key});
    const NodeId one = script_.Text(Literal(format_->key_begin), key, Region::kMarkup);
    script_.Fill(again, {end, Pattern(format_->between_pattern, one)});
    return script_.Fork({one, end});
  }

  // `key_begun`: behind the beginning of the next key.
  NodeId AnyMarkedText(NodeId again, NodeId key_begun, NodeId rest_of_end) {
    std::vector<std::string> ends = {std::string(format_->value_end)};
    std::vector<NodeId> ways = {again};
    for (const std::string_view end : format_->ends_at_key) {
      if (end.empty()) continue;
      ends.emplace_back(end);
      ways.push_back(key_begun);
    }
    for (const std::string_view end : format_->ends_at_end) {
      if (end.empty()) continue;
      ends.emplace_back(end);
      ways.push_back(rest_of_end);
    }
    return script_.Free(ends, std::move(ways), kNoNode, Region::kString);
  }

  RegexId Literal(std::string_view text) {
    parts_.fuel.Spend(static_cast<int64_t>(text.size()));
    return parts_.dfa.arena().Literal(text);
  }
  std::string WithMarkers(std::string_view text) const {
    std::string own(text);
    for (const auto& [marker, byte] : markers_) {
      for (size_t at = 0; (at = own.find(marker, at)) != own.npos;) own.replace(at, marker.size(), 1, byte);
    }
    return own;
  }
  // REQUIRES: one of a format's, which all are right.
  RegexId PatternOf(std::string_view pattern) {
    std::string bounded(pattern);
    for (const auto& [any, some] : kBounds) {
      for (size_t at = 0; !any_tool_ && (at = bounded.find(any, at)) != bounded.npos; at += some.size()) {
        bounded.replace(at, any.size(), some);
      }
    }
    auto texts = parts_.Pattern(bounded, "");
    if (auto* refusal = std::get_if<Refusal>(&texts)) {
      if (!refusal_) refusal_ = std::move(*refusal);
      return kEmptyText;
    }
    return std::get<RegexId>(texts);
  }
  // With its markers, each of which is a part of the pattern's sequence, or begins an optional one: (marker and more)?
  NodeId Pattern(std::string_view pattern, NodeId next, Region region = Region::kMarkup) {
    for (const auto& [marker, byte] : markers_) {
      const std::string spelled = Escaped(marker);
      const size_t at = pattern.rfind(spelled);
      if (at == pattern.npos) continue;
      std::string_view before = pattern.substr(0, at), behind = pattern.substr(at + spelled.size());
      const bool optional = before.ends_with('(');
      const size_t end = optional ? behind.find(")?") : behind.npos;
      const NodeId rest = end == behind.npos ? next : Pattern(behind.substr(end + 2), next, region);
      const NodeId more = Pattern(behind.substr(0, end), rest, region);
      const NodeId own = script_.Text(Literal({&byte, 1}), more, region);
      before.remove_suffix(optional ? 1 : 0);
      return Pattern(before, optional ? script_.Fork({own, rest}) : own, region);
    }
    return script_.Text(PatternOf(pattern), next, region);
  }

  JsonTree json_;
  const std::optional<MessageMarks>& messages_;
  GrammarParts& parts_;
  Script& script_;
  std::optional<Refusal> refusal_;
  std::span<const ToolFormat> formats_;  // by which calls are written, side by side
  const ToolFormat* format_ = nullptr;   // of the call that is being made
  bool required_ = false, parallel_ = true, any_tool_ = true;
  std::vector<Tool> tools_;
  using Marker = std::pair<std::string, char>;  // its text, and its byte
  std::vector<Marker> markers_;
  std::span<const std::string_view> known_markers_;  // of the format that is asked for
  JsonId answer_ = kNoJson;
  std::map<JsonId, ShapeId> objects_;  // of the schemas of tools
  ShapeId any_value_ = kNoShape;
};

}  // namespace

std::optional<Refusal> BuildToolCalls(std::string_view text, const std::optional<MessageMarks>& messages,
                                      GrammarParts& parts) {
  auto json = JsonTree::Parse(text, {.bytes_max = kToolsBytesMax + 4096, .values_max = 100'000, .depth_max = 68});
  if (auto* error = std::get_if<std::string>(&json)) {
    const bool large = error->starts_with("more than") || error->starts_with("nested");
    return Refusal{large ? RefusalKind::kTooLarge : RefusalKind::kInvalid, "", "", std::move(*error)};
  }
  return CallsBuilder(std::move(std::get<JsonTree>(json)), messages, parts).Build();
}

}  // namespace hydrant::grammar
