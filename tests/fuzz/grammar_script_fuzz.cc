// A grammar of rules, a structural tag or a list of tools of any bytes is refused with a reason, or becomes a grammar whose every state
// goes on or may end: bytes chosen by the rest of the input are taken while they are allowed. What is read of them, whole and byte by byte,
// is the same text and the same calls.
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/grammar/call_reader.h"
#include "model/grammar/grammar.h"
#include "tests/fuzz/fuzz.h"

namespace hydrant {
namespace grammar {

std::vector<CallEvent> Joined(const std::vector<CallEvent>& events) {
  std::vector<CallEvent> joined;
  for (const CallEvent& event : events) {
    const bool goes_on = !joined.empty() && joined.back().kind == event.kind &&
                         (event.kind == CallEvent::Kind::kText || event.kind == CallEvent::Kind::kArguments);
    if (goes_on) {
      joined.back().text += event.text;
    } else {
      joined.push_back(event);
    }
  }
  return joined;
}

std::vector<CallEvent> Read(Grammar& grammar, std::string_view answer, size_t piece) {
  GrammarState state = grammar.Begin();
  CallReader reader;
  std::vector<CallEvent> events;
  std::vector<ByteRegion> regions;
  for (size_t at = 0; at < answer.size(); at += piece) {
    const std::string_view bytes = answer.substr(at, piece);
    Require(grammar.Advance(state, bytes, &regions) == Grammar::Verdict::kAllowed, "what was allowed is allowed again");
    reader.Push(bytes, regions, events);
  }
  reader.Finish(grammar.Accepts(state), events);
  return Joined(events);
}

// The first byte chooses the kind; the text ends at the first zero byte; what is behind it chooses among the bytes that are allowed.
void CheckScript(std::string_view input) {
  if (input.empty()) return;
  const size_t end = input.find('\0');
  GrammarSpec spec;
  spec.kind = input[0] == 'g'   ? GrammarKind::kGbnf
              : input[0] == 't' ? GrammarKind::kToolCalls
                                : GrammarKind::kStructuralTag;
  spec.text = std::string(input.substr(1, end == std::string_view::npos ? end : end - 1));
  const std::string_view choices = end == std::string_view::npos ? "\x01\x50\xff\x20" : input.substr(end + 1);
  Fuel fuel{500'000};
  auto made = Grammar::Compile(spec, fuel);
  if (const auto* refusal = std::get_if<Refusal>(&made)) return Require(!refusal->text.empty(), "a refusal says why");
  Grammar& grammar = *std::get<0>(made);
  grammar.set_states_max(200);
  GrammarState state = grammar.Begin();
  std::string answer;
  for (const char choice : choices.substr(0, 64)) {
    bool taken = false;
    for (int i = 0; i < 256 && !taken; ++i) {
      const std::string byte(1, static_cast<char>(static_cast<uint8_t>(choice) + i));
      const auto verdict = grammar.Advance(state, byte);
      if (verdict == Grammar::Verdict::kLimit) return;
      taken = verdict == Grammar::Verdict::kAllowed;
      if (taken) answer += byte;
    }
    if (taken) continue;
    Require(grammar.Accepts(state), "a state that does not go on is the end");
    break;
  }
  Require(Read(grammar, answer, 1) == Read(grammar, answer, 7), "pieces make no difference");
}

}  // namespace grammar

void Fuzz(std::string_view input) { grammar::CheckScript(input); }

}  // namespace hydrant
