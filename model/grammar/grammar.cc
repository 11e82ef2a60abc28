#include "model/grammar/grammar.h"

#include <algorithm>
#include <utility>

#include "model/grammar/gbnf_reader.h"
#include "model/grammar/grammar_parts.h"
#include "model/grammar/message_script.h"
#include "model/grammar/structural_tag.h"
#include "model/grammar/tool_calls.h"
#include "model/text/str_cat.h"

namespace hydrant::grammar {
namespace {

// Texts of an expression, as the only value.
ShapeSet Whole(RegexId texts) {
  ShapeSet shapes;
  shapes.values.push_back({texts, {}, {}});
  shapes.root = 0;
  return shapes;
}

std::optional<Refusal> WholeRegex(const GrammarSpec& spec, GrammarParts& parts) {
  auto texts = parts.Pattern(spec.text, "");
  if (auto* refusal = std::get_if<Refusal>(&texts)) return std::move(*refusal);
  parts.shapes = Whole(std::get<RegexId>(texts));
  return std::nullopt;
}

std::optional<Refusal> WholeChoice(const GrammarSpec& spec, GrammarParts& parts) {
  if (spec.choices.empty()) return Refusal{RefusalKind::kUnsatisfiable, "", "", "there is no choice"};
  if (spec.choices.size() > kChoicesMax) {
    return Refusal{RefusalKind::kTooLarge, "", "", StrCat("more than ", kChoicesMax, " choices")};
  }
  for (const std::string& choice : spec.choices) parts.fuel.Spend(static_cast<int64_t>(choice.size()));
  parts.shapes = Whole(parts.dfa.arena().Strings(spec.choices, 0));
  return std::nullopt;
}

std::optional<Refusal> WholeSchema(std::string_view schema, GrammarParts& parts) {
  auto shapes = BuildShapes(schema, parts.options, parts.dfa, parts.fuel);
  if (auto* refusal = std::get_if<Refusal>(&shapes)) return std::move(*refusal);
  parts.shapes = std::move(std::get<ShapeSet>(shapes));
  return std::nullopt;
}

std::optional<Refusal> Build(const GrammarSpec& spec, GrammarParts& parts) {
  switch (spec.kind) {
    case GrammarKind::kJsonSchema:
      return WholeSchema(spec.text, parts);
    case GrammarKind::kJsonObject:
      return WholeSchema(R"({"type":"object"})", parts);
    case GrammarKind::kRegex:
      return WholeRegex(spec, parts);
    case GrammarKind::kChoice:
      return WholeChoice(spec, parts);
    case GrammarKind::kStructuralTag:
      return BuildStructuralTag(spec.text, parts);
    case GrammarKind::kToolCalls:
      return BuildToolCalls(spec.text, spec.messages, parts);
    case GrammarKind::kGbnf:
      return BuildGbnf(spec.text, parts);
  }
  return std::nullopt;
}

}  // namespace

std::variant<std::shared_ptr<Grammar>, Refusal> Grammar::Compile(const GrammarSpec& spec, Fuel& fuel) {
  const int64_t most = fuel.left;
  GrammarParts parts{{}, {}, {}, spec.schema, fuel};
  if (std::optional<Refusal> refusal = Build(spec, parts)) return *std::move(refusal);
  if (spec.messages.has_value() && spec.kind != GrammarKind::kToolCalls) {
    Script& script = parts.script;
    NodeId form = script.root;
    if (script.empty()) {
      const ValueShape& root = parts.shapes.values[static_cast<size_t>(parts.shapes.root)];
      const bool is_text = root.objects.empty() && root.arrays.empty();  // which may be empty
      form = is_text ? script.Text(root.scalars, kReturnNode) : script.Value(parts.shapes.root, kReturnNode);
    }
    script.root = FormInMessages(*spec.messages, form, parts);
  }
  if (parts.script.too_large()) return Refusal{RefusalKind::kTooLarge, "", "", "too many rules and tags"};
  const bool ends = parts.script.empty() || parts.script.Prune(parts.dfa, fuel);
  if (fuel.empty()) return Refusal{RefusalKind::kTooComplex, "", "", "takes too much work"};
  if (!ends) return Refusal{RefusalKind::kUnsatisfiable, "", "", "no text leads to its end"};
  auto plan = std::make_shared<JsonPlan>(std::move(parts.shapes));
  plan->script = std::move(parts.script);
  plan->keys_may_repeat = spec.keys_may_repeat;
  plan->white_space_max = std::clamp(spec.white_space_max, 0, 255);
  auto grammar = std::make_shared<Grammar>(
      std::make_shared<const GrammarSource>(GrammarSource{std::move(plan), std::move(parts.dfa)}));
  // Every answer begins with this work again, and nobody could refuse it then.
  const int64_t built = fuel.left;
  grammar->Begin(fuel);
  if (!fuel.empty()) return grammar;
  return Refusal{RefusalKind::kTooComplex, "", "",
                 built < most / 2 ? "takes too much work" : "there are too many ways to begin"};
}

Grammar::Grammar(std::shared_ptr<const GrammarSource> source)
    : source_(std::move(source)), machine_(std::make_shared<JsonMachine>(source_->plan, source_->base)) {}

size_t Grammar::bytes() const { return source_->base.bytes() + machine_->bytes() + source_->plan->bytes(); }

size_t GrammarState::bytes() const {
  return configurations_.capacity() * sizeof(Configuration) + (machine_ == nullptr ? 0 : machine_->bytes());
}

GrammarState Grammar::Begin(Fuel& fuel) {
  if (begun_.machine_ == nullptr) {
    GrammarState state;
    state.configurations_ = machine_->Begin(fuel);
    state.machine_ = machine_;
    if (fuel.empty()) return state;
    begun_ = std::move(state);
  }
  return begun_;
}

// Otherwise one that needs much, and one that needs little, would each begin the machine anew for the other.
void Grammar::Remembered::Carry(size_t needed) {
  carried_most = std::max(carried_most, needed);
  carried = std::min(carried + needed, kMovedMax * std::max(carried_most, most));
}

bool Grammar::Renew(GrammarState& state, Fuel& fuel) {
  if (states_.IsTooMuch(machine_->states()) || bytes_.IsTooMuch(machine_->remembered_bytes())) {
    machine_ = std::make_shared<JsonMachine>(source_->plan, source_->base);
    begun_ = {};
    states_.Forget();
    bytes_.Forget();
  }
  if (state.machine_ == machine_) return true;
  const size_t states = machine_->states(), bytes = machine_->remembered_bytes();
  Configurations moved = machine_->Import(*state.machine_, state.configurations_, fuel);
  states_.Carry(machine_->states() - states);
  // New bytes that are told apart have what was known of others forgotten.
  bytes_.Carry(std::max(machine_->remembered_bytes(), bytes) - bytes);
  if (fuel.empty()) return false;
  state.configurations_ = std::move(moved);
  state.machine_ = machine_;
  return true;
}

GrammarState Grammar::Alone(const GrammarSource& source, const GrammarState& state, Fuel& fuel) {
  GrammarState alone;
  if (!fuel.Spend(1 + static_cast<int64_t>(source.base.arena().size()) / kNodesCopiedPerUnit)) return alone;
  alone.machine_ = std::make_shared<JsonMachine>(source.plan, source.base.Bare());
  alone.configurations_ = alone.machine_->Import(*state.machine_, state.configurations_, fuel);
  return alone;
}

Grammar::Verdict Grammar::Advance(GrammarState& state, std::string_view bytes, std::vector<ByteRegion>* regions) {
  Fuel fuel{kAdvanceFuel};
  return Advance(state, bytes, fuel, regions);
}

Grammar::Verdict Grammar::Advance(GrammarState& state, std::string_view bytes, Fuel& fuel,
                                  std::vector<ByteRegion>* regions) {
  if (regions != nullptr) regions->clear();
  if (!Renew(state, fuel)) return Verdict::kLimit;
  Configurations now = state.configurations_, next;
  for (const char byte : bytes) {
    ByteRegion* const region = regions != nullptr ? &regions->emplace_back() : nullptr;
    fuel.Spend(static_cast<int64_t>(now.size()));  // what is remembered of a step costs nothing else
    machine_->Step(now, static_cast<uint8_t>(byte), fuel, next, region);
    if (fuel.empty() || next.size() > kConfigurationsMax) return Verdict::kLimit;
    if (next.empty()) return Verdict::kForbidden;
    now.swap(next);
  }
  state.configurations_ = std::move(now);
  return Verdict::kAllowed;
}

std::optional<int64_t> Grammar::BytesToEnd(GrammarState& state) {
  Fuel fuel{kAdvanceFuel};
  return BytesToEnd(state, fuel);
}

std::optional<int64_t> Grammar::BytesToEnd(GrammarState& state, Fuel& fuel) {
  if (!Renew(state, fuel)) return std::nullopt;
  return machine_->BytesToEnd(state.configurations_, fuel);
}

}  // namespace hydrant::grammar
