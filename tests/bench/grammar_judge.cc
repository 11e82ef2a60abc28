// What grammars make of schemas that somebody collected, for grammar.py.
//
//   grammar_judge judge SCHEMAS     a line for each schema: "right", "strict" (rejects a valid instance), "lax" (accepts an invalid
//                                   one), "limit", or "refused" with place and reason
//   grammar_judge write SCHEMAS n   n random answers to each schema that is taken: its number and a text a line; "dead" and what is
//                                   there where no byte may follow
// SCHEMAS has one JSON object a line: {"schema": …, "tests": [{"valid": bool, "data": …}]}.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <variant>

#include "model/grammar/grammar.h"

namespace hydrant {
namespace {

using grammar::Grammar;
using grammar::GrammarState;
using Json = nlohmann::ordered_json;
using Compiled = std::variant<std::shared_ptr<Grammar>, grammar::Refusal>;

Compiled Compile(const Json& row, int white_space_max) {
  grammar::GrammarSpec spec;
  spec.kind = grammar::GrammarKind::kJsonSchema;
  spec.text = row["schema"].dump();
  spec.white_space_max = white_space_max;
  grammar::Fuel fuel;
  return Grammar::Compile(spec, fuel);
}

void Judge(const Json& row) {
  const Compiled made = Compile(row, 8);
  if (const auto* refusal = std::get_if<grammar::Refusal>(&made)) {
    std::printf("refused '%s' %s\n", refusal->pointer.c_str(), refusal->text.c_str());
    return;
  }
  Grammar& compiled = *std::get<0>(made);
  bool strict = false, lax = false, limit = false;
  for (const Json& test : row["tests"]) {
    GrammarState state = compiled.Begin();
    const auto verdict = compiled.Advance(state, test["data"].dump());
    const bool accepted = verdict == Grammar::Verdict::kAllowed && compiled.Accepts(state);
    limit |= verdict == Grammar::Verdict::kLimit;
    strict |= test["valid"] == true && !accepted;
    lax |= test["valid"] == false && accepted;
  }
  std::printf("%s\n", lax ? "lax" : limit ? "limit" : strict ? "strict" : "right");
}

// A byte that is likely to go on with JSON, the later the likelier to end it.
char Likely(std::mt19937& random, size_t length) {
  constexpr std::string_view kAny = "\"\"\"\"}],:{[0129-.tfnabcxyzAZ_/ @e+\\", kEnds = "\"}],:0";
  return length > 200 ? kEnds[random() % kEnds.size()] : kAny[random() % kAny.size()];
}

void Write(const Json& row, int number, int answers) {
  const Compiled made = Compile(row, 0);
  const auto* taken = std::get_if<0>(&made);
  if (taken == nullptr) return;
  Grammar& compiled = **taken;
  std::mt19937 random(static_cast<uint32_t>(number));
  for (int i = 0; i < answers; ++i) {
    GrammarState state = compiled.Begin();
    std::string text;
    const auto take = [&](char byte) {
      if (compiled.Advance(state, std::string_view(&byte, 1)) != Grammar::Verdict::kAllowed) return false;
      text += byte;
      return true;
    };
    bool goes_on = true;
    while (goes_on && text.size() < 2000 && !(compiled.Accepts(state) && (text.size() > 3 || random() % 4 == 0))) {
      goes_on = false;
      for (int tries = 0; tries < 30 && !goes_on; ++tries) goes_on = take(Likely(random, text.size()));
      const auto first = static_cast<uint8_t>(random());
      for (int j = 0; j < 256 && !goes_on; ++j) goes_on = take(static_cast<char>(first + j));
    }
    if (compiled.Accepts(state)) {
      std::printf("%d %s\n", number, text.c_str());
    } else if (!goes_on) {
      std::printf("dead %d %s\n", number, text.c_str());
    }
  }
}

int Main(int argc, char** argv) {
  const std::string_view what = argc > 2 ? argv[1] : "";
  if (what != "judge" && !(what == "write" && argc > 3)) {
    std::printf("usage: grammar_judge judge SCHEMAS | write SCHEMAS n\n");
    return 2;
  }
  std::ifstream rows(argv[2]);
  std::string line;
  for (int number = 0; std::getline(rows, line); ++number) {
    const Json row = Json::parse(line);
    if (what == "judge") {
      Judge(row);
    } else {
      Write(row, number, std::atoi(argv[3]));
    }
  }
  return 0;
}

}  // namespace
}  // namespace hydrant

int main(int argc, char** argv) { return hydrant::Main(argc, argv); }
