// What is asked: conversations, each a first prompt and possibly further turns. Conversation i of a seed is the same
// however many others there are and in whatever order they are made, so a load needs no memory and is repeatable.
//
// Thread: any (immutable after construction).
#ifndef HYDRANT_LOADGEN_LOAD_WORKLOAD_H_
#define HYDRANT_LOADGEN_LOAD_WORKLOAD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "loadgen/load/distribution.h"

namespace hydrant {

enum class Dataset { kRandom, kShareGpt, kSonnet, kPrefixRepetition, kMultiTurn };

struct TenantSpec {
  std::string name = "default";
  std::string key;    // bearer token; empty: none
  double weight = 1;  // what it is entitled to: fairness is measured against it
  double load = 0;    // its share of the conversations; 0: as its weight
};

struct WorkloadSpec {
  Dataset dataset = Dataset::kRandom;
  std::string path;  // of kShareGpt and kSonnet
  uint64_t seed = 0;
  // The lengths, in tokens, of what a dataset draws. kShareGpt: prompts are the file's, and so are the outputs unless
  // output_tokens is given.
  Distribution input_tokens{1024};
  std::optional<Distribution> output_tokens;
  int32_t prefix_tokens = 0;  // shared: at the front of every prompt, or of those with the same prefix
  int32_t prefixes = 1;       // different shared prefixes, drawn evenly
  // Conversations with several turns: how many, and the seconds between an answer and the next question.
  Distribution turns{1};
  Distribution think_s{0};
  // Prompts of these ids, [first, second), instead of words: lengths are then exact. Only kRandom and
  // kPrefixRepetition, for /v1/completions.
  std::optional<std::pair<int32_t, int32_t>> token_ids;
  std::vector<TenantSpec> tenants{TenantSpec()};
  // Prompt and output tokens of each conversation, when a trace gives them. Used in order, then from the start.
  std::vector<std::pair<int32_t, int32_t>> lengths;
};

struct Turn {
  std::string text;                // what the user says
  std::vector<int32_t> token_ids;  // instead of text, when not empty
  int32_t input_tokens = 0;        // asked for; the server's count may differ a little
  int32_t output_tokens_max = 0;
  double think_s = 0;  // before this turn
};

struct Conversation {
  size_t tenant_idx = 0;
  std::string system;  // a shared prefix that stands before the first turn; of chats their system message
  int32_t system_tokens = 0;
  std::vector<Turn> turns;  // not empty
};

class Workload {
 public:
  // Reads the file of a dataset that has one. Errors: NOT_FOUND, INVALID_ARGUMENT, one line that names the file.
  static absl::StatusOr<Workload> Make(WorkloadSpec spec);

  Conversation At(size_t conversation_idx) const;
  const WorkloadSpec& spec() const { return spec_; }

 private:
  explicit Workload(WorkloadSpec spec) : spec_(std::move(spec)) {}
  Turn SyntheticTurn(Random* random, size_t conversation_idx, int32_t turn_idx) const;
  Conversation FromShareGpt(Random* random, size_t conversation_idx) const;
  void AddPrefix(Random* random, Conversation* conversation) const;
  std::string Lines(Random* random, int32_t tokens) const;

  WorkloadSpec spec_;
  std::vector<double> load_ends_;  // cumulated shares of the tenants, the last one 1
  // kShareGpt: what the two sides say in turn, the user first.
  std::vector<std::vector<std::string>> chats_;
  std::vector<std::string> lines_;  // kSonnet
};

}  // namespace hydrant

#endif  // HYDRANT_LOADGEN_LOAD_WORKLOAD_H_
