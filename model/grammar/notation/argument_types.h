// ArgumentTypes says what kinds of values the arguments of each tool may be, as its schema declares them. A format that writes every
// argument as bare text leaves it to the schema whether 42 is a number or a string.
//
// It is what a schema says of a value alone: its type, its choices, and those of schemas that it names or joins. Where that cannot be
// told, any kind may be.
//
// Thread: any (immutable once built).
#ifndef HYDRANT_MODEL_GRAMMAR_NOTATION_ARGUMENT_TYPES_H_
#define HYDRANT_MODEL_GRAMMAR_NOTATION_ARGUMENT_TYPES_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/grammar/notation/json_tree.h"

namespace hydrant::grammar {

// Kinds of JSON values, a bit for each. An integer is a number.
class JsonKinds {
 public:
  static constexpr JsonKinds All() { return JsonKinds(0b111'1111); }
  static constexpr JsonKinds None() { return JsonKinds(0); }
  static constexpr JsonKinds Of(JsonKind kind) { return JsonKinds(static_cast<uint8_t>(1 << static_cast<int>(kind))); }

  constexpr bool Has(JsonKind kind) const { return (*this & Of(kind)) != None(); }
  constexpr JsonKinds operator|(JsonKinds other) const { return JsonKinds(static_cast<uint8_t>(bits_ | other.bits_)); }
  constexpr JsonKinds operator&(JsonKinds other) const { return JsonKinds(static_cast<uint8_t>(bits_ & other.bits_)); }
  constexpr bool operator==(const JsonKinds&) const = default;

 private:
  explicit constexpr JsonKinds(uint8_t bits) : bits_(bits) {}
  uint8_t bits_;
};

class ArgumentTypes {
 public:
  // Adds a tool, {"name": …, "parameters": the schema of its arguments}; what is something else adds none.
  void Add(std::string_view tool);
  // What kinds an argument may be: all where the tool, or its argument, is not known.
  JsonKinds Of(std::string_view tool, std::string_view argument) const;

 private:
  using Arguments = std::map<std::string, JsonKinds, std::less<>>;
  std::map<std::string, Arguments, std::less<>> tools_;
};

// An argument that came as bare text, as JSON of one of those kinds: itself where it is JSON of another kind than a string; where the
// kinds are known, too, what a Python program means by it; a string of it else.
std::string JsonOfArgument(std::string_view text, JsonKinds kinds);

// The texts that JsonOfArgument makes values of a schema of.
struct BareTexts {
  bool any = false;                // all of them
  std::vector<std::string> texts;  // otherwise these
};
// What keeps a schema from having such: a member of it.
struct BareTextBound {
  std::string name;
  JsonId value = kNoJson;
};
// `root`: the schema of `tree` in which names of others are looked for.
std::variant<BareTexts, BareTextBound> BareTextsOf(const JsonTree& tree, JsonId schema, JsonId root);

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_NOTATION_ARGUMENT_TYPES_H_
