// SoloRun is the oracle: a request computed alone, with plain sets of positions, from the text of the paper (arXiv 2306.14048). It knows nothing
// of blocks, slots, steps shared with others, or of the code under test.
#ifndef HYDRANT_TESTS_SIM_SOLO_RUN_H_
#define HYDRANT_TESTS_SIM_SOLO_RUN_H_

#include <array>
#include <cstdint>
#include <vector>

#include "server/engine_core.h"
#include "tests/sim/fake_model.h"

namespace hydrant::sim {

// What is special about a request's life besides its EngineRequest.
struct Fate {
  int32_t fail_generated = -1;  // the row that samples this token (0 = first) fails
  bool fail_by_id = false;      // … with an id outside the vocabulary instead of non-finite logits
  int32_t fail_prompt = -1;     // the log-probability of this prompt token is not finite
  int32_t score_levels_log2 = 64;
  int32_t text_end = -1;  // the driver ends the sequence with this token
};

// What is true of a decode step.
struct DecodeFacts {
  int32_t live = 0;                             // slots occupied before it
  int32_t live_in = 0;                          // … when its token is in
  int32_t live_after = 0;                       // … when it is over
  int32_t cut_to = 0;                           // it ends with a cut to so many; 0: none
  bool chooses_victim = false;                  // for the next one to overwrite
  bool victim_waits = false;                    // the slot to overwrite was chosen one step before
  std::array<uint64_t, kPairsMax> shares = {};  // of the tokens that may still be read, before the step
};

// Where a prompt may be cut: after every stride of its budget, and at its end.
struct PromptStop {
  int32_t end = 0;                              // tokens computed
  int32_t cut_to = 0;                           // 0: everything fits
  std::array<uint64_t, kPairsMax> shares = {};  // of the tokens that stay
};

struct SoloRun {
  std::vector<int32_t> text;  // prompt, then what is generated
  int32_t prompt_length = 0;
  FinishReason finish = FinishReason::kNone;
  int32_t stop_token = -1;
  std::vector<PromptStop> stops;  // by ascending ends; the last is the prompt's
  int32_t peak_slots = 0;
  int32_t first_pruned = -1;  // the first position that is computed when something was evicted; -1: none
  int32_t begin = 0;          // tokens that were computed before this run
  int32_t live_before = 0;    // slots they occupy
  std::array<std::vector<int32_t>, kPairsMax> kept = {};  // positions that stay when it ends by itself
  std::vector<DecodeFacts> decodes;                       // decodes[i] computes text[prompt_length + i]

  // The stop at or behind `computed` tokens of the prompt.
  const PromptStop& StopAfter(int32_t computed) const {
    size_t i = 0;
    while (stops[i].end < computed) ++i;
    return stops[i];
  }
  // Tokens that are computed when it ends by itself: the last one is never fed back.
  int32_t computed() const { return prompt_length + static_cast<int32_t>(decodes.size()); }
  int32_t generated() const { return static_cast<int32_t>(text.size()) - prompt_length; }
};

// A budget that falls while its sequence runs: with decode step `step` it becomes `keep`.
struct Shrinking {
  int32_t step = 0;
  int32_t keep = 0;
};

// `policy` with fewer slots: recent ones as large a part of them as they were asked to be, at least one; the heavy ones that
// are kept without a score are a number of their own.
EvictionPolicy PolicyWith(int32_t keep, const EvictionPolicy& policy);

// With `before` the request goes on where that run ended.
SoloRun RunSolo(const EngineRequest& request, const Fate& fate, int32_t pairs, int32_t vocab,
                const std::vector<int32_t>& eos_ids, const SoloRun* before = nullptr,
                const std::vector<Shrinking>& shrinkings = {});

// Slots the request would occupy at most if it used all of max_tokens.
int32_t SoloPeakSlots(const EngineRequest& request, int32_t begin, int32_t live);

}  // namespace hydrant::sim

#endif  // HYDRANT_TESTS_SIM_SOLO_RUN_H_
