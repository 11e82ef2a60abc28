#include "server/shapes/compiled_shape.h"

#include <utility>
#include <vector>

namespace hydrant {
namespace {

using grammar::Grammar;
using grammar::GrammarSpec;

// A state of an automaton has about a kilobyte of transitions: what the two of a shape remember is bounded by megabytes.
constexpr size_t kStatesMax = 4'000;

GrammarSpec SpecOf(const ConstraintSpec& spec) {
  GrammarSpec made;
  switch (spec.kind) {
    case ConstraintKind::kJsonSchema:
      made.kind = grammar::GrammarKind::kJsonSchema;
      break;
    case ConstraintKind::kJsonObject:
      made.kind = grammar::GrammarKind::kJsonObject;
      break;
    case ConstraintKind::kRegex:
      made.kind = grammar::GrammarKind::kRegex;
      break;
    case ConstraintKind::kChoice:
      made.kind = grammar::GrammarKind::kChoice;
      break;
    case ConstraintKind::kStructuralTag:
      made.kind = grammar::GrammarKind::kStructuralTag;
      break;
    case ConstraintKind::kGrammar:
      made.kind = grammar::GrammarKind::kGbnf;
      break;
    case ConstraintKind::kToolCalls:
      made.kind = grammar::GrammarKind::kToolCalls;
      break;
  }
  made.text = spec.text;
  made.choices = spec.choices;
  made.schema.unknown_formats_pass = spec.unknown_formats_pass;
  made.white_space_max = spec.white_space_max;
  return made;
}

// Reads nothing, but moves both to what the automaton remembers now. Where there is no memory for that `state` stays as it was.
grammar::GrammarState CopyOf(grammar::GrammarState& state, Grammar& grammar) {
  grammar::GrammarState moved = state;
  grammar.Advance(moved, "");
  grammar::GrammarState copy = moved;
  state = std::move(moved);
  return copy;
}

}  // namespace

std::variant<std::shared_ptr<CompiledShape>, grammar::Refusal> CompiledShape::Compile(
    const ConstraintSpec& spec, std::shared_ptr<const ShapeVocabulary> vocabulary) {
  grammar::Fuel fuel;
  auto made = Grammar::Compile(SpecOf(spec), fuel);
  if (auto* refusal = std::get_if<grammar::Refusal>(&made)) return std::move(*refusal);
  std::shared_ptr<Grammar>& grammar = std::get<0>(made);
  std::shared_ptr<CompiledShape> shape(new CompiledShape(std::move(grammar), std::move(vocabulary)));
  // Here nobody waits for it but who asked, and a spec whose first mask is too much work is refused before it has a row.
  std::vector<uint32_t> first(shape->vocabulary().words());
  grammar::GrammarState state = shape->Begin();
  if (shape->Mask(state, first) == Grammar::Verdict::kLimit) {
    return grammar::Refusal{grammar::RefusalKind::kTooComplex, "", "",
                            "which tokens may come first takes too much work to find out"};
  }
  return shape;
}

CompiledShape::CompiledShape(std::shared_ptr<Grammar> grammar, std::shared_ptr<const ShapeVocabulary> vocabulary)
    : vocabulary_(std::move(vocabulary)),
      followed_(grammar->Twin()),
      masked_(std::move(grammar)),
      masks_(masked_, vocabulary_->trie()) {
  for (Grammar* each : {followed_.get(), masked_.get()}) each->set_states_max(kStatesMax);
  followed_begin_ = followed_->Begin();
  masked_begin_ = masked_->Begin();
  CountBytes();
}

void CompiledShape::CountBytes() {
  // The automaton that follows tokens sees no more than the one that makes masks.
  bytes_.store(masks_.bytes() + 2 * masked_->bytes(), std::memory_order_relaxed);
}

grammar::GrammarState CompiledShape::BeginFollowed() { return CopyOf(followed_begin_, *followed_); }

Grammar::Verdict CompiledShape::Behind(std::string_view prefix, grammar::GrammarState& behind) const {
  const std::shared_ptr<Grammar> reader = masked_->Twin();
  behind = reader->Begin();
  grammar::Fuel fuel;
  return reader->Advance(behind, prefix, fuel);
}

grammar::GrammarState CompiledShape::Begin() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return CopyOf(masked_begin_, *masked_);
}

Grammar::Verdict CompiledShape::Advance(grammar::GrammarState& state, std::string_view bytes, grammar::Fuel& fuel) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return masked_->Advance(state, bytes, fuel);
}

Grammar::Verdict CompiledShape::Mask(grammar::GrammarState& state, std::span<uint32_t> bits,
                                     std::optional<int64_t> bytes_left) {
  grammar::Fuel fuel;
  return Mask(state, bits, bytes_left, fuel);
}

Grammar::Verdict CompiledShape::Mask(grammar::GrammarState& state, std::span<uint32_t> bits,
                                     std::optional<int64_t> bytes_left, grammar::Fuel& fuel) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Grammar::Verdict verdict =
      bytes_left.has_value() ? masks_.MaskWithin(state, *bytes_left, bits, fuel) : masks_.Mask(state, bits, fuel);
  CountBytes();
  if (verdict != Grammar::Verdict::kAllowed || !masked_->Accepts(state)) return verdict;
  for (const int32_t end : vocabulary_->ends()) grammar::AllowToken(bits, end);
  return verdict;
}

std::optional<int64_t> CompiledShape::BytesToEnd(grammar::GrammarState& state, grammar::Fuel& fuel) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return masked_->BytesToEnd(state, fuel);
}

}  // namespace hydrant
