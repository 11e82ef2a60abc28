// Grammar says what an answer may look like: a JSON schema, any JSON object, a regular expression, one of several texts, or text with
// tags in which something has to follow. A GrammarState is a place in an answer; it is a value, so a draft is tried on a copy that is dropped.
//
// Life cycle: Compile once per specification; Begin for every answer; Advance with the bytes of each token; Accepts says whether the
// answer may end. What is the same specification makes the same grammar, and takes or refuses the same bytes, on every machine.
//
// Work of states and masks is remembered in the grammar; beyond 20,000 things or 32 MiB it is dropped and begun anew, which changes no
// answer. What states brought along that moved there does not count as far as it is four times as much, or four times what one of them
// needed: it is 100,000 things and 160 MiB at most, or 20,000, 32 MiB and four times what the largest state needs, if that is more; and
// what one call adds.
//
// Thread: one at a time for a grammar and all of its states; whoever shares one has a lock. A GrammarSource is for any.
#ifndef HYDRANT_MODEL_GRAMMAR_GRAMMAR_H_
#define HYDRANT_MODEL_GRAMMAR_GRAMMAR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/grammar/json_machine.h"
#include "model/grammar/notation/message_marks.h"
#include "model/grammar/refusal.h"
#include "model/grammar/regex/fuel.h"
#include "model/grammar/shape_builder.h"

namespace hydrant::grammar {

enum class GrammarKind : uint8_t { kJsonSchema, kJsonObject, kRegex, kChoice, kStructuralTag, kToolCalls, kGbnf };

struct GrammarSpec {
  GrammarKind kind = GrammarKind::kJsonObject;
  std::string text;                  // of the schema, expression or tag; of tool calls what tool_calls.h says
  std::vector<std::string> choices;  // the whole answer is one of them
  SchemaOptions schema;
  int white_space_max =
      8;  // bytes of white space in a row between two tokens of JSON; more where that is deep. 0: none
  bool keys_may_repeat = false;  // of an object, those that no schema names
  // The answer is messages, one of which is what is said above; nullopt: it is that alone.
  std::optional<MessageMarks> messages;
};

inline constexpr size_t kChoicesMax = 4096;

// What a specification is compiled to. It never changes.
struct GrammarSource {
  std::shared_ptr<const JsonPlan> plan;
  LazyDfa base;
};

class Grammar;

class GrammarState {
 public:
  GrammarState() = default;
  // About what it takes in memory, and the work behind it that is remembered; others may share that.
  size_t bytes() const;

 private:
  friend class Grammar;
  friend class TokenMasks;
  std::shared_ptr<JsonMachine> machine_;
  Configurations configurations_;
};

class Grammar {
 public:
  static std::variant<std::shared_ptr<Grammar>, Refusal> Compile(const GrammarSpec& spec, Fuel& fuel);
  explicit Grammar(std::shared_ptr<const GrammarSource> source);
  const std::shared_ptr<const GrammarSource>& source() const { return source_; }

  GrammarState Begin() {
    Fuel fuel;
    return Begin(fuel);
  }
  // The same with work taken from `fuel`; if that has ended the state is none.
  GrammarState Begin(Fuel& fuel);
  enum class Verdict : uint8_t {
    kAllowed,
    kForbidden,  // no answer goes on like this
    kLimit,      // more than 64 ways to read what is there, or too much work: what is allowed is not known
  };
  // The state behind `bytes`. Unless they are allowed the state stays as it was. With `regions` it says whose bytes they are, one entry
  // for each.
  Verdict Advance(GrammarState& state, std::string_view bytes, std::vector<ByteRegion>* regions = nullptr);
  // The same with work taken from `fuel`, and no more than that.
  Verdict Advance(GrammarState& state, std::string_view bytes, Fuel& fuel, std::vector<ByteRegion>* regions = nullptr);
  // Whether the answer may end here.
  bool Accepts(const GrammarState& state) const { return state.machine_->Accepts(state.configurations_); }
  // Whether it stands in free text outside of everything, or may only end.
  static bool InText(const GrammarState& state) { return state.machine_->InText(state.configurations_); }
  // Whether it stands inside the arguments of a call, or behind them, up to its end.
  static bool InArguments(const GrammarState& state) { return state.machine_->InArguments(state.configurations_); }

  // The least number of bytes with which the answer may end: 0 exactly where it may end here. Nothing where that is not known: an
  // object that needs several keys that nobody names, or too much work.
  std::optional<int64_t> BytesToEnd(GrammarState& state);
  // The same with work taken from `fuel`: if that has ended it was too much work.
  std::optional<int64_t> BytesToEnd(GrammarState& state, Fuel& fuel);

  // The same place with nothing remembered but what it needs. Nobody may read on in it, but all grammars of this source, of whatever
  // threads, may go on from copies of it. If `fuel` has ended the state is none.
  // It costs a unit for so many expressions of the source, which are copied.
  static constexpr int64_t kNodesCopiedPerUnit = 2;
  static GrammarState Alone(const GrammarSource& source, const GrammarState& state, Fuel& fuel);
  // About what it takes in memory by now.
  size_t bytes() const;

  // How many things, and how many bytes of them, may be remembered before all are dropped, beside those that states brought along:
  // kMovedMax times as much at most.
  static constexpr size_t kStatesMax = 20'000, kBytesMax = size_t{32} << 20;
  void set_states_max(size_t states) { states_.most = states; }
  void set_bytes_max(size_t bytes) { bytes_.most = bytes; }

  // Work of one call, 16 ms: whoever follows tokens has others waiting. A token of a few bytes takes a few hundred.
  static constexpr int64_t kAdvanceFuel = 800'000;

 private:
  friend class TokenMasks;

  // Moves a state to the machine that is in use, which is a new one where the old one has remembered too much. False, and the state
  // stays where it was, if that ends the fuel.
  bool Renew(GrammarState& state, Fuel& fuel);

  const std::shared_ptr<const GrammarSource> source_;
  std::shared_ptr<JsonMachine> machine_;
  // States of the machine, or bytes of them: what others needed that moved to it, together, as far as that is looked at; and the most
  // that one did. Those that do not move again may be gone, so that only some at a time are sure of their place.
  static constexpr size_t kMovedMax = 4;
  struct Remembered {
    size_t most;
    size_t carried = 0, carried_most = 0;

    void Carry(size_t needed);
    bool IsTooMuch(size_t now) const { return now > most + carried; }
    void Forget() { carried = carried_most = 0; }
  };
  Remembered states_{kStatesMax}, bytes_{kBytesMax};
  GrammarState begun_;  // where answers begin, in the machine; none where nobody has asked
};

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_GRAMMAR_H_
