// CompiledShape is a ConstraintSpec made into an automaton, shared by all sequences whose answers are held to it.
//
// An automaton belongs to one thread at a time, and the engine must not wait for a mask. So there are two over one plan: one follows
// tokens on the engine's thread and has no lock; the other makes masks, under a lock that workers wait for.
//
// Thread: as said of each member.
#ifndef HYDRANT_SERVER_SHAPES_COMPILED_SHAPE_H_
#define HYDRANT_SERVER_SHAPES_COMPILED_SHAPE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "api/request/constraint.h"
#include "model/grammar/grammar.h"
#include "model/grammar/refusal.h"
#include "model/grammar/regex/fuel.h"
#include "model/grammar/token_masks.h"
#include "server/shapes/shape_vocabulary.h"

namespace hydrant {

class CompiledShape {
 public:
  // Any thread; at most Fuel::kCompile of work, and that of a mask. `messages`: the answer is these, one of which keeps to the spec.
  static std::variant<std::shared_ptr<CompiledShape>, grammar::Refusal> Compile(
      const ConstraintSpec& spec, std::shared_ptr<const ShapeVocabulary> vocabulary,
      const std::optional<grammar::MessageMarks>& messages = std::nullopt);

  const ShapeVocabulary& vocabulary() const { return *vocabulary_; }

  // The engine's thread.
  grammar::Grammar& followed() { return *followed_; }
  grammar::GrammarState BeginFollowed();
  // A state of followed() for the other automaton to go on from copies of; none if the fuel has ended.
  grammar::GrammarState Alone(const grammar::GrammarState& state, grammar::Fuel& fuel) const {
    return grammar::Grammar::Alone(*source_, state, fuel);
  }

  // Any thread, and nobody waits: where an answer stands that has begun with `prefix`, and whether it may. The state belongs to an
  // automaton of its own, in which nothing is read again; copies of it may go on in both of the others. At most Fuel::kCompile of work,
  // some megabytes while it reads, and behind that what the state needs and the shape's expressions.
  grammar::Grammar::Verdict Behind(std::string_view prefix, grammar::GrammarState& behind) const;

  // Any other thread; both wait for each other. Work is taken from `fuel`, or as much as one call may take.
  // Where the answer stands behind `bytes`; what it says of a state as Grammar::Advance does.
  grammar::GrammarState Begin();
  grammar::Grammar::Verdict Advance(grammar::GrammarState& state, std::string_view bytes) {
    grammar::Fuel fuel{grammar::Grammar::kAdvanceFuel};
    return Advance(state, bytes, fuel);
  }
  grammar::Grammar::Verdict Advance(grammar::GrammarState& state, std::string_view bytes, grammar::Fuel& fuel);
  // The tokens that may come next, and the ends of text iff the answer may end. REQUIRES: bits has vocabulary().words() words.
  // Of tokens with `bytes_left` those behind which the answer can end with as many bytes.
  grammar::Grammar::Verdict Mask(grammar::GrammarState& state, std::span<uint32_t> bits,
                                 std::optional<int64_t> bytes_left = std::nullopt);
  grammar::Grammar::Verdict Mask(grammar::GrammarState& state, std::span<uint32_t> bits,
                                 std::optional<int64_t> bytes_left, grammar::Fuel& fuel);
  std::optional<int64_t> BytesToEnd(grammar::GrammarState& state, grammar::Fuel& fuel);

  // About what it takes in memory by now. Any thread.
  size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  // If `fuel` has ended it is none.
  CompiledShape(std::shared_ptr<grammar::Grammar> grammar, std::shared_ptr<const ShapeVocabulary> vocabulary,
                grammar::Fuel& fuel);
  void CountBytes();

  const std::shared_ptr<const ShapeVocabulary> vocabulary_;
  const std::shared_ptr<const grammar::GrammarSource> source_;  // of automata that others need
  // The engine's, once it is compiled. To find out where an answer begins may take a while; of that there is a copy.
  const std::shared_ptr<grammar::Grammar> followed_;
  grammar::GrammarState followed_begin_;
  std::mutex mutex_;
  const std::shared_ptr<grammar::Grammar> masked_;  // guarded by mutex_
  grammar::GrammarState masked_begin_;              // likewise
  grammar::TokenMasks masks_;                       // likewise
  std::atomic<size_t> bytes_ = 0;                   // relaxed: a number, nothing is published through it
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SHAPES_COMPILED_SHAPE_H_
