// A schema of any bytes is refused with a reason, or becomes a grammar whose every state goes on or may end: bytes chosen by the rest of
// the input are taken while they are allowed, and a copy of a state agrees with the state.
#include <string>
#include <string_view>
#include <variant>

#include "model/grammar/grammar.h"
#include "tests/fuzz/fuzz.h"

namespace hydrant {
namespace grammar {

// The schema ends at the first zero byte; what is behind it chooses among the bytes that are allowed.
void CheckSchema(std::string_view input) {
  const size_t end = input.find('\0');
  GrammarSpec spec;
  spec.kind = GrammarKind::kJsonSchema;
  spec.text = std::string(input.substr(0, end));
  const std::string_view choices = end == std::string_view::npos ? "\x01\x50\xff\x20" : input.substr(end + 1);
  Fuel fuel{500'000};
  auto made = Grammar::Compile(spec, fuel);
  if (const auto* refusal = std::get_if<Refusal>(&made)) return Require(!refusal->text.empty(), "a refusal says why");
  Grammar& grammar = *std::get<0>(made);
  grammar.set_states_max(200);
  GrammarState state = grammar.Begin();
  for (const char choice : choices.substr(0, 64)) {
    bool taken = false;
    for (int i = 0; i < 256 && !taken; ++i) {
      const std::string byte(1, static_cast<char>(static_cast<uint8_t>(choice) + i));
      GrammarState copy = state;
      const auto verdict = grammar.Advance(copy, byte);
      if (verdict == Grammar::Verdict::kLimit) return;
      taken = verdict == Grammar::Verdict::kAllowed;
      if (!taken) continue;
      Require(grammar.Advance(state, byte) == Grammar::Verdict::kAllowed, "a state allows what its copy did");
      Require(grammar.Accepts(state) == grammar.Accepts(copy), "and ends where its copy does");
    }
    if (taken) continue;
    Require(grammar.Accepts(state), "a state that does not go on is the end");
    return;
  }
}

}  // namespace grammar

void Fuzz(std::string_view input) { grammar::CheckSchema(input); }

}  // namespace hydrant
