// What grammars make of schemas that somebody collected, for grammar.py.
//
//   grammar_judge judge SCHEMAS     a line for each schema: "right", "strict" (rejects a valid instance), "lax" (accepts an invalid
//                                   one), "limit", or "refused" with place and reason
//   grammar_judge write SCHEMAS n   n random answers to each schema that is taken: its number and a text a line; "dead" and what is
//                                   there where no byte may follow
//   grammar_judge serve VOCABULARY  answers lines, for grammar_oracle.py: "compile SCHEMA", "begin", "mask", "push TOKEN", "end TOKEN"
//                                   (a whole answer that goes on with it). VOCABULARY has the bytes of a token a line, in hexadecimal.
// SCHEMAS has one JSON object a line: {"schema": …, "tests": [{"valid": bool, "data": …}]}.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "model/grammar/grammar.h"
#include "model/grammar/token_masks.h"

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

// One grammar at a time, and one answer.
class Server {
 public:
  explicit Server(std::vector<std::string> tokens)
      : tokens_(std::move(tokens)), trie_(std::make_shared<const grammar::TokenTrie>(tokens_)) {}

  std::string Answer(const std::string& line) {
    const size_t space = std::min(line.find(' '), line.size());
    const std::string what = line.substr(0, space), rest = line.substr(std::min(space + 1, line.size()));
    if (what == "compile") return MakeGrammar(rest);
    if (what == "begin") {
      state_ = grammar_->Begin();
      text_.clear();
      return "ok";
    }
    if (what == "mask") return Mask();
    const auto token = static_cast<size_t>(std::atoi(rest.c_str()));
    if (what == "push") {
      const bool allowed = grammar_->Advance(state_, tokens_.at(token)) == Grammar::Verdict::kAllowed;
      if (allowed) text_ += tokens_.at(token);
      return allowed ? "ok" : "forbidden";
    }
    return what == "end" ? End(tokens_.at(token)) : "unknown";
  }

 private:
  std::string MakeGrammar(const std::string& schema) {
    Json row;
    row["schema"] = Json::parse(schema);
    const Compiled made = Compile(row, 0);
    if (const auto* refusal = std::get_if<grammar::Refusal>(&made)) return "refused " + refusal->text;
    grammar_ = std::get<0>(made);
    masks_.emplace(grammar_, trie_);
    return "ok";
  }

  // A word in hexadecimal after the other, and whether the answer may end.
  std::string Mask() {
    std::vector<uint32_t> bits(trie_->words());
    if (masks_->Mask(state_, bits) != Grammar::Verdict::kAllowed) return "limit";
    std::string out;
    char word[9];
    for (const uint32_t each : bits) {
      std::snprintf(word, sizeof(word), "%08x", each);
      out += word;
    }
    return out + (grammar_->Accepts(state_) ? " ends" : " goes on");
  }

  std::string End(const std::string& token) {
    GrammarState state = state_;
    std::string text = text_ + token;
    if (grammar_->Advance(state, token) != Grammar::Verdict::kAllowed) return "-";
    for (auto left = grammar_->BytesToEnd(state); left != 0 && text.size() < 4000;) {
      int byte = 0;
      for (; byte < 256; ++byte) {
        const char one = static_cast<char>(byte);
        GrammarState next = state;
        if (grammar_->Advance(next, {&one, 1}) != Grammar::Verdict::kAllowed) continue;
        const auto there = grammar_->BytesToEnd(next);
        if (!there.has_value() || (left.has_value() && *there >= *left)) continue;
        left = there;
        state = next;
        text += one;
        break;
      }
      if (byte == 256) return "-";
    }
    return text;
  }

  std::vector<std::string> tokens_;
  std::shared_ptr<const grammar::TokenTrie> trie_;
  std::shared_ptr<Grammar> grammar_;
  std::optional<grammar::TokenMasks> masks_;
  GrammarState state_;
  std::string text_;
};

int Serve(const char* vocabulary) {
  std::ifstream file(vocabulary);
  std::vector<std::string> tokens;
  for (std::string line; std::getline(file, line);) {
    std::string& bytes = tokens.emplace_back();
    for (size_t i = 0; i + 1 < line.size(); i += 2)
      bytes += static_cast<char>(std::stoi(line.substr(i, 2), nullptr, 16));
  }
  Server server(std::move(tokens));
  for (std::string line; std::getline(std::cin, line);) std::cout << server.Answer(line) << std::endl;
  return 0;
}

int Main(int argc, char** argv) {
  const std::string_view what = argc > 2 ? argv[1] : "";
  if (what == "serve") return Serve(argv[2]);
  if (what != "judge" && !(what == "write" && argc > 3)) {
    std::printf("usage: grammar_judge judge SCHEMAS | write SCHEMAS n | serve VOCABULARY\n");
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
