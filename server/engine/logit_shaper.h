// LogitShaper makes the adjustments of a sequence's logits that come before temperature and filters: allowed and banned
// tokens, biases, and penalties for tokens already in the text. It follows the tokens one by one, so a step costs the
// same however long the text is.
//
// Thread: made on any thread, then the engine's.
//
// Invariants
//  1. Memory is bounded by the distinct tokens of prompt and output, and by the longest bad word.
//  2. What Next returns is a function of the rules, the prompt and the tokens pushed.
#ifndef HYDRANT_SERVER_ENGINE_LOGIT_SHAPER_H_
#define HYDRANT_SERVER_ENGINE_LOGIT_SHAPER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "kernels/logit_options.h"
#include "kernels/sampling.h"

namespace hydrant {

// What a request asks for, shared by its sequences: what it said, and what follows from that and the model. Every id is in
// the vocabulary.
struct LogitRules {
  LogitOptions options;
  std::vector<std::vector<int32_t>>
      bad_words;                  // none empty; the last token of none follows the others of it in the output
  std::vector<int32_t> stop_ids;  // not among the first `min_tokens` of the output
  int32_t min_tokens = 0;

  bool counts() const;
  bool neutral() const;  // nothing is asked for
  bool IdsBelow(int32_t vocab) const;
};

class LogitShaper {
 public:
  // Linear in the prompt where it counts for the repetition penalty. `rules` is not null.
  LogitShaper(std::shared_ptr<const LogitRules> rules, std::span<const int32_t> prompt);

  // True if the adjustments depend only on how many tokens came before and how often each occurred; false if they
  // depend on their order, too (a bad word of several tokens).
  bool only_counts() const { return recent_max_ == 0; }
  // The adjustments for the next token or, with `ahead`, for the token after it, before the next one is pushed
  // (LogitAdjustments::counts_last); null if there are none. Valid until the next call of Next or Push. REQUIRES:
  // !ahead || only_counts().
  const LogitAdjustments* Next(bool ahead = false);
  // The sequence's next token, however it was chosen.
  void Push(int32_t token);

  const LogitRules& rules() const { return *rules_; }

 private:
  void Count(int32_t token, int32_t times);
  void CollectBanned(int32_t generated);

  std::shared_ptr<const LogitRules> rules_;
  int32_t generated_ = 0;
  std::vector<int32_t>
      recent_;  // the last tokens of the output, as many as the longest bad word has before its last one
  size_t recent_max_ = 0;
  std::vector<TokenCount> counts_;
  // Where a token is in counts_. A flat_hash_map whose growth fails for want of memory is broken, and this one would take the
  // engine with it.
  std::unordered_map<int32_t, size_t> place_;
  std::vector<int32_t> banned_;
  LogitAdjustments adjustments_;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_ENGINE_LOGIT_SHAPER_H_
