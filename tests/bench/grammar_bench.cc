// Times what constrains answers, in processor time of one thread: compiling schemas, and masks and steps along instances of them that a tokenizer cuts
// into tokens.
//
//   grammar_bench TOKENIZER SCHEMAS [first] [count]
// TOKENIZER is a directory with a tokenizer; SCHEMAS has one JSON object a line: {"schema": …, "tests": [{"valid": bool, "data": …}]}.
// An instance is walked until it ends or a token of it is not allowed; a mask that forbids what a step allows ends the bench.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/grammar/token_masks.h"
#include "model/vocabulary/directory_tokenizer.h"

namespace hydrant {
namespace {

using Json = nlohmann::ordered_json;
using grammar::Fuel;
using grammar::Grammar;

// This thread's processor time, so that others on the machine do not count.
double NowMicroseconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}
double MicrosecondsSince(double start) { return NowMicroseconds() - start; }

constexpr double kSlow = 8000;  // microseconds: near the bar of 10 ms for any mask

struct Times {
  const char* name;
  std::vector<double> us;
  double limit_p50, limit_p99;  // microseconds

  void Print() {
    if (us.empty()) return;
    std::ranges::sort(us);
    const auto at = [&](double part) {
      return us[std::min(us.size() - 1, static_cast<size_t>(part * static_cast<double>(us.size())))];
    };
    std::printf("%-22s %8zu  p50 %9.1f  p90 %9.1f  p99 %9.1f  max %9.1f us", name, us.size(), at(.5), at(.9), at(.99),
                us.back());
    if (limit_p50 > 0)
      std::printf("  limits %.0f, %.0f: %s", limit_p50, limit_p99,
                  at(.5) <= limit_p50 && at(.99) <= limit_p99 ? "met" : "MISSED");
    std::printf("\n");
  }
};

struct Bench {
  const Tokenizer& tokenizer;
  std::shared_ptr<const grammar::TokenTrie> trie;
  Times compile = {"compile", {}, 0, 0}, first = {"compile, first mask", {}, 2000, 50'000};
  Times masks = {"mask", {}, 15, 1000}, steps = {"step", {}, 3, 3};
  size_t refused = 0, ended = 0, stopped = 0, limits = 0;
  struct Slow {
    double us;
    std::string place;  // line of the schema, and the text before the mask
  };
  std::vector<Slow> slow;  // masks beyond the bar

  static std::string PlaceOf(int row, const std::string& before) {
    return "line " + std::to_string(row + 1) + " behind " +
           before.substr(before.size() - std::min<size_t>(before.size(), 80));
  }
  void Note(double us, int row, const std::string& before) {
    masks.us.push_back(us);
    if (us > kSlow) slow.push_back({us, PlaceOf(row, before)});
  }

  void Walk(int row, Grammar& compiled, grammar::TokenMasks& token_masks, const std::string& text) {
    std::vector<uint32_t> mask(trie->words());
    grammar::GrammarState state = compiled.Begin();
    std::string before;
    for (const int32_t id : tokenizer.Encode(text, {.add_special_tokens = false, .parse_special_tokens = false})) {
      auto start = NowMicroseconds();
      const auto known = token_masks.Mask(state, mask);
      Note(MicrosecondsSince(start), row, before);
      if (known != Grammar::Verdict::kAllowed) {
        ++limits;
        std::printf("a limit in %s\n", PlaceOf(row, before).c_str());
        return;
      }
      before += tokenizer.TokenBytes(id);
      start = NowMicroseconds();
      const bool allowed = compiled.Advance(state, tokenizer.TokenBytes(id)) == Grammar::Verdict::kAllowed;
      steps.us.push_back(MicrosecondsSince(start));
      const auto bit = static_cast<uint32_t>(id);
      if (((mask[bit / 32] >> (bit % 32) & 1) != 0) != allowed) {
        std::printf("a mask and a step differ at token %d\n", id);
        std::exit(1);
      }
      if (!allowed) {
        ++stopped;
        return;
      }
    }
    ++ended;
  }

  void Run(int number, const Json& row) {
    grammar::GrammarSpec spec;
    spec.kind = grammar::GrammarKind::kJsonSchema;
    spec.text = row["schema"].dump();
    const auto start = NowMicroseconds();
    Fuel fuel;
    auto made = Grammar::Compile(spec, fuel);
    compile.us.push_back(MicrosecondsSince(start));
    if (made.index() == 1) {
      ++refused;
      return;
    }
    const std::shared_ptr<Grammar> compiled = std::get<0>(made);
    grammar::TokenMasks token_masks(compiled, trie);
    grammar::GrammarState state = compiled->Begin();
    std::vector<uint32_t> mask(trie->words());
    token_masks.Mask(state, mask);
    first.us.push_back(MicrosecondsSince(start));
    for (const Json& test : row["tests"]) {
      if (test["valid"] == true) Walk(number, *compiled, token_masks, test["data"].dump());
    }
  }
};

int Main(int argc, char** argv) {
  if (argc < 3) {
    std::printf("usage: grammar_bench TOKENIZER SCHEMAS [first] [count]\n");
    return 2;
  }
  std::vector<std::string> warnings;
  const auto directory = WeightDirectory::Open(argv[1]);
  const auto tokenizer =
      directory.ok() ? ReadDirectoryTokenizer(*directory, 1 << 19, {}, warnings) : directory.status();
  std::ifstream rows(argv[2]);
  if (!tokenizer.ok() || !rows) {
    std::printf("skipped: %s is not there\n", tokenizer.ok() ? argv[2] : argv[1]);
    return 0;
  }
  std::vector<std::string> bytes;
  for (int32_t id = 0; id < (*tokenizer)->vocab_size(); ++id) {
    bytes.emplace_back((*tokenizer)->IsSpecial(id) ? "" : (*tokenizer)->TokenBytes(id));
  }
  while (!bytes.empty() && bytes.back().empty()) bytes.pop_back();  // rows of the embedding without a token
  const auto start = NowMicroseconds();
  Bench bench{**tokenizer, std::make_shared<const grammar::TokenTrie>(bytes)};
  std::printf("trie of %zu tokens: %zu nodes, %.0f ms\n", bytes.size(), bench.trie->nodes().size(),
              MicrosecondsSince(start) / 1000);
  const int begin = argc > 3 ? std::atoi(argv[3]) : 0, count = argc > 4 ? std::atoi(argv[4]) : 1000;
  std::string line;
  for (int i = 0; i < begin + count && std::getline(rows, line); ++i) {
    if (i >= begin) bench.Run(i, Json::parse(line));
  }
  for (Times* times : {&bench.compile, &bench.first, &bench.masks, &bench.steps}) times->Print();
  std::ranges::sort(bench.slow, std::greater<>(), &Bench::Slow::us);
  std::printf("%zu masks above %.0f us\n", bench.slow.size(), kSlow);
  for (size_t i = 0; i < std::min<size_t>(bench.slow.size(), 10); ++i) {
    const std::string& place = bench.slow[i].place;
    std::printf("  %9.1f us, %s\n", bench.slow[i].us, place.c_str());
  }
  std::printf("%zu refused; instances: %zu walked to the end, %zu to a token that is not allowed, %zu to a limit\n",
              bench.refused, bench.ended, bench.stopped, bench.limits);
  return 0;
}

}  // namespace
}  // namespace hydrant

int main(int argc, char** argv) { return hydrant::Main(argc, argv); }
