// A pattern of any bytes is refused, with a column inside it, or becomes an expression whose states are what they say: one that is
// not nothing has a text, that text belongs to it, and not to its complement.
#include <string>
#include <string_view>
#include <variant>

#include "model/grammar/regex/char_class.h"
#include "model/grammar/regex/lazy_dfa.h"
#include "model/grammar/regex/regex_parser.h"
#include "tests/fuzz/fuzz.h"

namespace hydrant {
namespace grammar {

// The pattern ends at the first zero byte; what is behind it is read.
void CheckPattern(std::string_view input) {
  const size_t end = input.find('\0');
  const std::string_view pattern = input.substr(0, end);
  const std::string_view text = end == std::string_view::npos ? "" : input.substr(end + 1);
  for (const TextEncoding encoding : {TextEncoding::kUtf8, TextEncoding::kJsonString}) {
    LazyDfa dfa;
    Fuel fuel{300'000};
    const auto parsed = ParseRegex(pattern, dfa.arena(), encoding, RegexExtent::kSearch, fuel);
    if (const auto* refusal = std::get_if<RegexRefusal>(&parsed)) {
      Require(refusal->column >= 1 && refusal->column <= pattern.size() + 1, "the column is in the pattern");
      Require(!refusal->text.empty(), "a refusal says why");
      return;
    }
    RegexArena& arena = dfa.arena();
    const RegexId id = std::get<RegexId>(parsed);
    const RegexId none = arena.And({AnyText(arena, encoding), arena.Not(id)});
    RegexId state = id, other = none;
    size_t read = 0;
    for (; read < text.size() && state != kNothing; ++read) {
      state = dfa.Step(state, static_cast<uint8_t>(text[read]), fuel);
      if (other != kNothing) other = dfa.Step(other, static_cast<uint8_t>(text[read]), fuel);
      if (fuel.empty()) return;
      Require(!(arena.nullable(state) && arena.nullable(other)), "no text is in an expression and in its complement");
    }
    const auto shortest = dfa.Shortest(state, fuel);
    if (fuel.empty()) return;
    Require(shortest.has_value() == (state != kNothing) || state == id, "a state that is not nothing has a text");
    if (!shortest) continue;
    Require(dfa.Matches(state, *shortest, fuel) || fuel.empty(), "the shortest text belongs to it");
    const RegexId rest = dfa.StepAll(id, std::string(text.substr(0, read)) + *shortest, fuel);
    Require(arena.nullable(rest) || fuel.empty(), "and so it does behind what was read");
  }
}

}  // namespace grammar

void Fuzz(std::string_view input) { grammar::CheckPattern(input); }

}  // namespace hydrant
