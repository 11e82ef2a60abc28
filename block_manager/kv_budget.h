// KvBudget says *how many* slots a sequence occupies, and when. It is pure arithmetic on counts: the same numbers hold
// in every layer and KV head, never depend on data, and so are known before a step runs. *Which* tokens sit in the
// slots is the device's business (kernels/eviction_policy.h).
//
// Thread: any.
//
// The life of the count `live`, with P prompt tokens (kernels/eviction_policy.h says which of them go):
//
//   prompt      live grows to P; in the step that computes the last prompt token, P > keep is cut to keep.
//   exact       a decode step with live == keep + 1 puts its token into the victim's slot, so live stays; below that it
//               takes slot `live`. A step that ends with live == keep + 1 has the device choose the next victim.
//   periodic    a decode step always takes slot `live`; one that reaches keep + slack is cut to keep at its end.
//   unlimited   a decode step always takes slot `live`.
//
// The last generated token is never fed back, so a sequence runs at most max_tokens - 1 decode steps.
#ifndef HYDRANT_BLOCK_MANAGER_KV_BUDGET_H_
#define HYDRANT_BLOCK_MANAGER_KV_BUDGET_H_

#include <algorithm>
#include <cstdint>

namespace hydrant {

// Token slots in a block. The same number as kBlockSlots in kernels/device.h, which this folder may not include;
// server/engine_core.cc, which sees both, asserts that they agree.
inline constexpr int32_t kSlotsPerBlock = 16;

constexpr int64_t BlocksForSlots(int64_t slots) { return (slots + kSlotsPerBlock - 1) / kSlotsPerBlock; }

// What one decode step does to the counts of its sequence.
struct DecodeCounts {
  int32_t live_after = 0;      // slots occupied when the step's token is in, before any cut
  bool reuse_victim = false;   // the token overwrites the victim chosen by the step before
  bool choose_victim = false;  // the device chooses the slot the next token overwrites
  int32_t shrink_to = 0;       // > 0: the step ends with a cut to this many slots
};

struct KvBudget {
  int32_t keep = 0;       // slots that survive a cut; 0 = unlimited (dense)
  int32_t slack = 1;      // slots above `keep` a decoding sequence may reach: 1 for exact, beta for periodic
  bool periodic = false;  // cut every `slack` tokens instead of reusing one victim per token

  static constexpr KvBudget Unlimited() { return KvBudget(); }
  static constexpr KvBudget Exact(int32_t keep) { return KvBudget{keep, 1, false}; }
  static constexpr KvBudget Periodic(int32_t keep, int32_t beta) { return KvBudget{keep, beta, true}; }

  constexpr bool limited() const { return keep > 0; }
  constexpr bool valid() const { return keep >= 0 && slack >= 1 && (periodic || slack == 1); }

  // The cut at the end of a prompt: slots to keep, or 0 when the prompt fits.
  constexpr int32_t PromptCut(int32_t prompt_length) const { return limited() && prompt_length > keep ? keep : 0; }

  // REQUIRES: `live` is a count this budget can produce.
  constexpr DecodeCounts Decode(int32_t live) const {
    DecodeCounts counts;
    counts.reuse_victim = limited() && !periodic && live == keep + 1;
    counts.live_after = counts.reuse_victim ? live : live + 1;
    counts.choose_victim = limited() && !periodic && counts.live_after == keep + 1;
    if (limited() && periodic && counts.live_after == keep + slack) counts.shrink_to = keep;
    return counts;
  }

  // The most slots a decoding sequence with `live` slots occupies at any moment of its next `steps` decode steps.
  constexpr int64_t PeakSlots(int32_t live, int64_t steps) const {
    const int64_t grown = int64_t{live} + steps;
    return limited() ? std::max<int64_t>(live, std::min<int64_t>(grown, int64_t{keep} + slack)) : grown;
  }
};

// Decode steps of a request: the first token comes from the prompt's last row.
constexpr int64_t DecodeSteps(int64_t max_tokens) { return std::max<int64_t>(0, max_tokens - 1); }

// The most blocks a sequence holds once its prompt is done, and in its whole life. The second is what admission
// reserves; a request for which it exceeds the pool can never run (400 `kv_capacity_exceeded`).
constexpr int64_t PeakBlocksAfterPrompt(int32_t prompt_length, int64_t max_tokens, const KvBudget& budget) {
  const int32_t cut = budget.PromptCut(prompt_length);
  return BlocksForSlots(budget.PeakSlots(cut > 0 ? cut : prompt_length, DecodeSteps(max_tokens)));
}
constexpr int64_t PeakBlocks(int32_t prompt_length, int64_t max_tokens, const KvBudget& budget) {
  return std::max(BlocksForSlots(prompt_length), PeakBlocksAfterPrompt(prompt_length, max_tokens, budget));
}

// The same for a sequence whose blocks others may read. Before its first eviction it copies what it keeps, and what it
// leaves behind may stay in use: so it needs what it held until then, and beside that what it holds afterwards.
constexpr int64_t PeakBlocksShared(int32_t prompt_length, int64_t max_tokens, const KvBudget& budget) {
  const int64_t peak = PeakBlocks(prompt_length, max_tokens, budget);
  if (!budget.limited()) return peak;
  if (budget.PromptCut(prompt_length) > 0) {
    return BlocksForSlots(prompt_length) + PeakBlocksAfterPrompt(prompt_length, max_tokens, budget);
  }
  const int64_t first_eviction = int64_t{budget.keep} + budget.slack;  // slots when it comes
  if (int64_t{prompt_length} + DecodeSteps(max_tokens) < first_eviction) return peak;
  return 2 * BlocksForSlots(first_eviction);
}

}  // namespace hydrant

#endif  // HYDRANT_BLOCK_MANAGER_KV_BUDGET_H_
