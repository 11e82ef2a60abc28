#include "model/grammar/grammar.h"

#include <algorithm>
#include <utility>

#include "model/grammar/regex/regex_parser.h"
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

std::variant<ShapeSet, Refusal> WholeRegex(const GrammarSpec& spec, LazyDfa& dfa, Fuel& fuel) {
  auto parsed = ParseRegex(spec.text, dfa.arena(), TextEncoding::kUtf8, RegexExtent::kWhole, fuel);
  if (const auto* refusal = std::get_if<RegexRefusal>(&parsed)) {
    return Refusal{RefusalKind::kInvalidRegex, "", "", StrCat("column ", refusal->column, ": ", refusal->text)};
  }
  const RegexId texts = std::get<RegexId>(parsed);
  if (dfa.IsEmpty(texts, fuel)) return Refusal{RefusalKind::kUnsatisfiable, "", "", "no text matches the expression"};
  return Whole(texts);
}

std::variant<ShapeSet, Refusal> WholeChoice(const GrammarSpec& spec, LazyDfa& dfa, Fuel& fuel) {
  if (spec.choices.empty()) return Refusal{RefusalKind::kUnsatisfiable, "", "", "there is no choice"};
  if (spec.choices.size() > kChoicesMax) {
    return Refusal{RefusalKind::kTooLarge, "", "", StrCat("more than ", kChoicesMax, " choices")};
  }
  for (const std::string& choice : spec.choices) fuel.Spend(static_cast<int64_t>(choice.size()));
  return Whole(dfa.arena().Strings(spec.choices, 0));
}

}  // namespace

std::variant<std::shared_ptr<Grammar>, Refusal> Grammar::Compile(const GrammarSpec& spec, Fuel& fuel) {
  LazyDfa dfa;
  std::variant<ShapeSet, Refusal> shapes;
  switch (spec.kind) {
    case GrammarKind::kJsonSchema:
      shapes = BuildShapes(spec.text, spec.schema, dfa, fuel);
      break;
    case GrammarKind::kJsonObject:
      shapes = BuildShapes(R"({"type":"object"})", spec.schema, dfa, fuel);
      break;
    case GrammarKind::kRegex:
      shapes = WholeRegex(spec, dfa, fuel);
      break;
    case GrammarKind::kChoice:
      shapes = WholeChoice(spec, dfa, fuel);
      break;
  }
  if (auto* refusal = std::get_if<Refusal>(&shapes)) return std::move(*refusal);
  if (fuel.empty()) return Refusal{RefusalKind::kTooComplex, "", "", "takes too much work"};
  auto plan = std::make_shared<JsonPlan>(std::move(std::get<ShapeSet>(shapes)));
  plan->white_space_max = std::clamp(spec.white_space_max, 0, 255);
  return std::shared_ptr<Grammar>(new Grammar(std::move(plan), std::move(dfa)));
}

Grammar::Grammar(std::shared_ptr<const JsonPlan> plan, LazyDfa dfa)
    : plan_(std::move(plan)), base_(std::move(dfa)), machine_(std::make_shared<JsonMachine>(plan_, base_)) {}

GrammarState Grammar::Begin() {
  GrammarState state;
  state.machine_ = machine_;
  state.configurations_ = machine_->Begin();
  return state;
}

void Grammar::Renew(GrammarState& state) {
  if (machine_->states() > states_max_) machine_ = std::make_shared<JsonMachine>(plan_, base_);
  if (state.machine_ == machine_) return;
  for (Configuration& each : state.configurations_) each = machine_->Import(*state.machine_, each);
  std::ranges::sort(state.configurations_);
  state.machine_ = machine_;
}

Grammar::Verdict Grammar::Advance(GrammarState& state, std::string_view bytes) {
  Renew(state);
  Fuel fuel{kAdvanceFuel};
  Configurations now = state.configurations_, next;
  for (const char byte : bytes) {
    machine_->Step(now, static_cast<uint8_t>(byte), fuel, next);
    if (fuel.empty() || next.size() > kConfigurationsMax) return Verdict::kLimit;
    if (next.empty()) return Verdict::kForbidden;
    now.swap(next);
  }
  state.configurations_ = std::move(now);
  return Verdict::kAllowed;
}

std::optional<int64_t> Grammar::BytesToEnd(GrammarState& state) {
  Renew(state);
  Fuel fuel{kAdvanceFuel};
  return machine_->BytesToEnd(state.configurations_, fuel);
}

}  // namespace hydrant::grammar
