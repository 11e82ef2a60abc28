// SoloRun is the oracle: a request computed alone, with plain sets of positions, from the text of the paper (arXiv
// 2306.14048). It knows nothing of blocks, slots, steps shared with others, or of the code under test.
#ifndef HYDRANT_TESTS_SIM_SOLO_RUN_H_
#define HYDRANT_TESTS_SIM_SOLO_RUN_H_

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "server/engine/engine_core.h"
#include "tests/sim/fake_model.h"

namespace hydrant::sim {

// What is special about a request's life besides its SequenceRequest.
struct Fate {
  int32_t fail_generated = -1;  // the row that samples this token (0 = first) fails
  bool fail_by_id = false;      // … with an id outside the vocabulary instead of non-finite logits
  int32_t fail_prompt = -1;     // the log-probability of this prompt token is not finite
  int32_t score_bits = FakeRanks::kScoreBits;
  int32_t text_end = -1;   // the driver ends the sequence with this token
  int32_t unread_max = 0;  // > 0: its reader is slow, and more unread tokens than these pause it
};

// What is true of a decode step.
struct DecodeFacts {
  int32_t live = 0;             // slots occupied before it
  int32_t live_in = 0;          // … when its token is in
  int32_t cut_to = 0;           // it ends with a cut to so many; 0: none
  bool chooses_victim = false;  // for the next one to overwrite
  bool victim_waits = false;    // the slot to overwrite was chosen one step before
  PairSums sums = {};           // of the tokens that may still be read, before the step
};

// Where a prompt may be cut: after every stride of its budget, and at its end.
struct PromptStop {
  int32_t end = 0;     // tokens computed
  int32_t cut_to = 0;  // 0: everything fits
  PairSums sums = {};  // of the tokens that stay
};

struct SoloRun {
  std::vector<int32_t> text;  // prompt, then what is generated
  int32_t prompt_length = 0;
  FinishReason finish = FinishReason::kNone;
  int32_t stop_token = -1;
  std::vector<PromptStop> stops;     // by ascending ends; the last is the prompt's
  int32_t first_pruned = -1;         // the first position that is computed when something was evicted; -1: none
  int32_t begin = 0;                 // tokens that were computed before this run
  int32_t live_before = 0;           // slots they occupied
  int32_t cut_before = 0;            // what they are cut to before anything else; 0: they stay
  std::vector<DecodeFacts> decodes;  // decodes[i] computes text[prompt_length + i]

  // What is kept, when it ends by itself, in every pair: `kept_count` tokens, all there are or those of `kept`.
  int32_t kept_count = 0;
  bool pruned = false;
  std::array<std::vector<uint64_t>, kPairsMax> kept = {};  // their ranks, oldest token first

  // The stop at or after `computed` tokens of the prompt.
  const PromptStop& StopAfter(int32_t computed) const {
    size_t i = 0;
    while (stops[i].end < computed) ++i;
    return stops[i];
  }
  // Tokens that are computed when it ends by itself: the last one is never fed back.
  int32_t computed() const { return prompt_length + static_cast<int32_t>(decodes.size()); }
  int32_t generated() const { return static_cast<int32_t>(text.size()) - prompt_length; }
  // Slots it goes on from.
  int32_t live_begin() const { return cut_before > 0 ? cut_before : live_before; }
};

// A budget that falls while its sequence runs: with decode step `step` it becomes `keep`.
struct Shrinking {
  int32_t step = 0;
  int32_t keep = 0;
};

// `policy` with fewer slots: recent ones as large a part of them as they were asked to be, at least one; the heavy ones that
// are kept without a score are a number of their own.
EvictionPolicy PolicyWith(int32_t keep, const EvictionPolicy& policy);

class SoloRunner {
 public:
  SoloRunner(int32_t layer_heads, int32_t vocab, std::vector<int32_t> eos_ids)
      : layer_heads_(layer_heads), vocab_(vocab), eos_ids_(std::move(eos_ids)) {}

  // `ranks`: the request's. With `before` it goes on where that run ended. `memory`: a run nobody needs any more.
  SoloRun Run(const SequenceRequest& request, const Fate& fate, FakeRanks& ranks, const SoloRun* before,
              std::span<const Shrinking> shrinkings, SoloRun memory);

 private:
  void Begin(const SoloRun* before);
  void RunPrompt(const KvBudget& budget);
  void RunDecodes(const Request& request, std::span<const Shrinking> shrinkings);
  void End();
  void Append(int32_t position);
  void CutTo(int32_t count, int32_t logical_length, int32_t recent);
  void CutPair(size_t layer_head, size_t count, size_t candidates);
  PairSums sums() const;
  int32_t size() const { return run_.pruned ? static_cast<int32_t>(run_.kept[0].size()) : size_; }
  uint64_t ShareAt(int32_t position) const { return Share(position, run_.text[static_cast<size_t>(position)]); }

  const int32_t layer_heads_;
  const int32_t vocab_;
  const std::vector<int32_t> eos_ids_;

  // The run in progress. Until something is evicted all pairs keep the same: all tokens.
  const SequenceRequest* request_ = nullptr;
  const Fate* fate_ = nullptr;
  FakeRanks* ranks_ = nullptr;
  SoloRun run_;
  EvictionPolicy policy_;
  int32_t size_ = 0;
  uint64_t sum_ = 0;
  PairSums pruned_sums_ = {};
  uint64_t read_ = 0;  // by the row that samples the next token
  std::vector<uint64_t> worst_first_;
};

// Slots the request would occupy at most if it used all of max_tokens, going on from `live` slots of `begin` tokens.
int32_t SoloPeakSlots(const SequenceRequest& request, int32_t begin, int32_t live);

// What a session's `live` slots are cut to so that `tokens` more come to fit into the budget; 0: nothing has to go.
int32_t SoloTurnCut(const KvBudget& budget, int32_t live, int32_t tokens);

}  // namespace hydrant::sim

#endif  // HYDRANT_TESTS_SIM_SOLO_RUN_H_
