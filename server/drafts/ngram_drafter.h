// NgramDrafter guesses that a text goes on as it did the last time that it said what it says now: it looks for the text's last tokens
// further up, in prompt and answer, and proposes what followed them there.
//
// How many it proposes is what pays: a row more costs a part of a step, and a guess is worth its chance to be right together with
// all those before it. The chance is measured on the sequence itself, so that a text which never repeats itself is left alone but for a
// try now and then.
//
// Invariants
//  1. What it proposes follows from the text and from what was learnt, never from the clock.
//  2. A proposal costs a look at each token of the text at most, and lookup_max at each. However long the text, and whoever wrote it,
//     the looks at all of it are one, and no more than a constant times the steps, and another times the guesses that were right.
#ifndef HYDRANT_SERVER_DRAFTS_NGRAM_DRAFTER_H_
#define HYDRANT_SERVER_DRAFTS_NGRAM_DRAFTER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "scheduler/request/token_ids.h"
#include "scheduler/scheduler_counters.h"
#include "server/drafts/drafter.h"

namespace hydrant {

// What --speculative-config says; its names are vLLM's.
struct NgramOptions {
  int32_t tokens = 0;      // num_speculative_tokens: most in one row; 0: nothing is guessed
  int32_t lookup_max = 0;  // prompt_lookup_max: most tokens that are looked for
  int32_t lookup_min = 0;  // prompt_lookup_min: fewest, >= 1
};

// What `tokens` may be.
inline constexpr int32_t kNgramTokensMax = kDraftsPerRowMax;

// Rows of a step from which on nothing is guessed: there the processor has no time left over beside reading the weights.
inline constexpr int32_t kDraftRowsMax = 4;

class NgramDrafter : public Drafter {
 public:
  // Throws std::bad_alloc.
  NgramDrafter(const NgramOptions& options, TokenIds prompt);

  std::span<const int32_t> Propose(int32_t most, int32_t rows) override;
  // Without memory for it the sequence goes on without guesses.
  void Push(int32_t token) override;
  void Learn(int32_t computed, int32_t right) override;

 private:
  int32_t WorthTrying(int32_t most);
  size_t Match();
  // The text is the prompt and the answer so far.
  size_t size() const { return prompt_.size() + answer_.size(); }
  int32_t at(size_t i) const { return i < prompt_.size() ? prompt_[i] : answer_[i - prompt_.size()]; }

  const NgramOptions options_;
  const TokenIds prompt_;  // shared with the request
  std::vector<int32_t> answer_;
  std::vector<int32_t> proposal_;
  double chance_;          // of a guess to be right if those before it are
  int64_t looks_due_ = 0;  // tokens looked at that are not paid for yet: until they are it proposes nothing
  int32_t left_out_ = 0;   // proposals in a row that did not seem to pay
  bool is_lost_ = false;   // the answer is not complete
};

// Null where the options have no tokens, or there is no memory for it: the sequence goes on without guesses.
std::shared_ptr<Drafter> MakeNgramDrafter(const NgramOptions& options, TokenIds prompt) noexcept;

}  // namespace hydrant

#endif  // HYDRANT_SERVER_DRAFTS_NGRAM_DRAFTER_H_
