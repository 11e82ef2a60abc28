// LazyDfa reads bytes by derivatives: what may follow a byte is an expression again. A state is a RegexId; its row of transitions is
// filled when somebody asks, so an automaton of 2^24 states costs what is visited.
//
// Copies are independent of each other, and ids of the one mean the same in the other.
//
// Thread: one at a time.
#ifndef HYDRANT_MODEL_GRAMMAR_REGEX_LAZY_DFA_H_
#define HYDRANT_MODEL_GRAMMAR_REGEX_LAZY_DFA_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/grammar/regex/fuel.h"
#include "model/grammar/regex/regex_arena.h"
#include "model/grammar/regex/steady_map.h"

namespace hydrant::grammar {

class LazyDfa {
 public:
  RegexArena& arena() { return arena_; }
  const RegexArena& arena() const { return arena_; }

  // What may follow `byte` in the texts of `state`; kNothing where none begins with it. All that is made or looked at costs fuel; once
  // there is none the result is kNothing, and the caller looks at the fuel.
  RegexId Step(RegexId state, uint8_t byte, Fuel& fuel);
  // The same for every byte of `text`.
  RegexId StepAll(RegexId state, std::string_view text, Fuel& fuel);
  bool Matches(RegexId state, std::string_view text, Fuel& fuel) { return arena_.nullable(StepAll(state, text, fuel)); }
  // Whether no text belongs to it. False where the fuel ends.
  bool IsEmpty(RegexId state, Fuel& fuel);
  // Its texts in order of length, or nullopt if there are more than `most`, or endless ones, or the fuel ends.
  std::optional<std::vector<std::string>> AllTexts(RegexId state, size_t most, Fuel& fuel);
  // A text of it that has the fewest bytes; nullopt if it has none or the fuel ends.
  std::optional<std::string> Shortest(RegexId state, Fuel& fuel);

  // About what it takes in memory.
  size_t bytes() const;

  // Copies an expression of another arena into this one. REQUIRES: the same base, that is ids below `shared` mean the same in both.
  RegexId Import(const RegexArena& from, RegexId id, RegexId shared);
  // The same expressions, and nothing remembered about them.
  LazyDfa Bare() const;

 private:
  RegexId Derive(RegexId id, int byte_class, Fuel& fuel);
  // One expression's derivative from those of its parts; nullopt, and what is missing on top of todo_, where they are unknown.
  std::optional<RegexId> TryDerive(RegexId id, int byte_class);
  const RegexId* Known(RegexId id, int byte_class);
  void FollowClasses();

  enum class Texts : uint8_t { kUnknown, kSome, kNone };

  RegexArena arena_;
  int classes_ = 0;                           // of which the tables below speak
  SteadyMap<uint64_t, RegexId> derivatives_;  // id << 8 | class, of any expression
  std::vector<int32_t> row_of_;               // of states: index of their row, or -1
  std::vector<RegexId> rows_;                 // [row, class], -1: unknown
  std::vector<Texts> texts_;
  std::vector<RegexId> todo_;
};

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_REGEX_LAZY_DFA_H_
