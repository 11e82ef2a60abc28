#include "server/shapes/compiled_shape.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace hydrant {
namespace {

using grammar::Grammar;
using grammar::GrammarSpec;

// A state of an automaton has about a kilobyte of transitions: what the two of a shape remember is 4 MB each, and 16 more each where many
// answers moved there; more only where the keys of a single answer are, or by what one call adds.
constexpr size_t kStatesMax = 4'000, kBytesMax = size_t{4} << 20;
// So many bytes are read before it is looked at again: as many as a few tokens have.
constexpr size_t kPrefixPiece = 16;

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

// What comes before a form: the head of the message that has it.
std::string BeforeForm(const grammar::MessageMarks& marks) {
  using Begin = grammar::MessageMarks::Begin;
  const std::string head = marks.channel + marks.answer + marks.message;
  switch (marks.begin) {
    case Begin::kStart:
      return marks.start + head;
    case Begin::kHead:
      return head;
    case Begin::kThought:
      return marks.end + marks.start + head;
    case Begin::kText:
      break;
  }
  return "";
}

// Where an answer stands behind the byte that it has to begin with; nothing where several may be first.
std::optional<grammar::GrammarState> BehindOnlyByte(const grammar::GrammarState& begin, Grammar& grammar) {
  std::optional<grammar::GrammarState> behind;
  for (int byte = 0; byte < 256; ++byte) {
    const char one = static_cast<char>(byte);
    grammar::GrammarState next = begin;
    if (grammar.Advance(next, {&one, 1}) != Grammar::Verdict::kAllowed) continue;
    if (behind.has_value()) return std::nullopt;
    behind = std::move(next);
  }
  return behind;
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
    const ConstraintSpec& spec, std::shared_ptr<const ShapeVocabulary> vocabulary,
    const std::optional<grammar::MessageMarks>& messages) {
  grammar::Fuel fuel;
  GrammarSpec grammar_spec = SpecOf(spec);
  grammar_spec.messages = messages;
  auto made = Grammar::Compile(grammar_spec, fuel);
  if (auto* refusal = std::get_if<grammar::Refusal>(&made)) return std::move(*refusal);
  std::shared_ptr<Grammar>& grammar = std::get<0>(made);
  std::shared_ptr<CompiledShape> shape(new CompiledShape(std::move(grammar), std::move(vocabulary), fuel));
  if (fuel.empty()) {
    return grammar::Refusal{grammar::RefusalKind::kTooComplex, "", "", "there are too many ways to begin"};
  }
  // Here nobody waits for it but who asked, and a spec whose first mask is too much work is refused before it has a row.
  std::vector<uint32_t> first(shape->vocabulary().words());
  grammar::GrammarState state = shape->Begin();
  const bool in_message = messages.has_value() && spec.kind != ConstraintKind::kToolCalls;
  if (shape->Advance(state, in_message ? BeforeForm(*messages) : "") == Grammar::Verdict::kLimit ||
      shape->Mask(state, first) == Grammar::Verdict::kLimit) {
    return grammar::Refusal{grammar::RefusalKind::kTooComplex, "", "",
                            "which tokens may come first takes too much work to find out"};
  }
  // So it is with the second, where that is inside of a string or before a key: an answer whose first token is that byte would end
  // with it. Those whose first token is longer might not, and are refused as well.
  std::optional<grammar::GrammarState> second = BehindOnlyByte(state, *shape->masked_);
  if (second.has_value() && shape->Mask(*second, first) == Grammar::Verdict::kLimit) {
    return grammar::Refusal{grammar::RefusalKind::kTooComplex, "", "",
                            "which tokens may come behind the first byte takes too much work to find out"};
  }
  return shape;
}

CompiledShape::CompiledShape(std::shared_ptr<Grammar> grammar, std::shared_ptr<const ShapeVocabulary> vocabulary,
                             grammar::Fuel& fuel)
    : vocabulary_(std::move(vocabulary)),
      source_(grammar->source()),
      followed_(std::make_shared<Grammar>(source_)),
      masked_(std::move(grammar)),
      masks_(masked_, vocabulary_->trie()) {
  for (Grammar* each : {followed_.get(), masked_.get()}) {
    each->set_states_max(kStatesMax);
    each->set_bytes_max(kBytesMax);
  }
  masked_begin_ = masked_->Begin(fuel);
  followed_begin_ = masked_begin_;
  followed_->Advance(followed_begin_, "", fuel);  // moves it
  CountBytes();
}

void CompiledShape::CountBytes() {
  // The automaton that follows tokens sees no more than the one that makes masks.
  bytes_.store(masks_.bytes() + 2 * masked_->bytes(), std::memory_order_relaxed);
}

grammar::GrammarState CompiledShape::BeginFollowed() { return CopyOf(followed_begin_, *followed_); }

Grammar::Verdict CompiledShape::Behind(std::string_view prefix, grammar::GrammarState& behind) const {
  Grammar reader(source_);
  reader.set_states_max(kStatesMax);
  reader.set_bytes_max(kBytesMax);
  grammar::Fuel fuel;
  grammar::GrammarState read = reader.Begin(fuel);
  if (fuel.empty()) return Grammar::Verdict::kLimit;
  for (; !prefix.empty(); prefix.remove_prefix(std::min(prefix.size(), kPrefixPiece))) {
    // No piece is more work than a token may be, so that what one of them leaves behind is bounded, too.
    const int64_t most = std::min(fuel.left, Grammar::kAdvanceFuel);
    grammar::Fuel own{most};
    const Grammar::Verdict verdict = reader.Advance(read, prefix.substr(0, kPrefixPiece), own);
    if (verdict != Grammar::Verdict::kAllowed) return verdict;
    if (!fuel.Spend(most - own.left)) return Grammar::Verdict::kLimit;
  }
  behind = Grammar::Alone(*source_, read, fuel);
  return fuel.empty() ? Grammar::Verdict::kLimit : Grammar::Verdict::kAllowed;
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
