// KvBudget says *how many* slots a sequence occupies, and when. It is pure arithmetic on counts: the same numbers hold
// in every layer and KV head, never depend on data, and so are known before a step runs. *Which* tokens sit in the
// slots is the device's business (kernels/eviction_policy.h).
//
// Thread: any.
//
// The life of the count `live`, with P prompt tokens (kernels/eviction_policy.h says which of them go):
//
//   prompt      live grows to P; in the step that computes the last prompt token, P > keep is cut to keep. With a stride
//               (prefill "budgeted") the same happens whenever the number of tokens computed reaches a multiple of it, so
//               that a prompt of any length needs keep + stride slots. Where it is cut follows from the budget alone.
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
#include <limits>

#include "kernels/step/block_ops.h"

namespace hydrant {

// The stride of prefill "budgeted". A chunk's rows are one matrix product, and below about this many it is bound by the
// weights' way through memory; twice as many would double what a small budget needs.
inline constexpr int32_t kBudgetedPrefillStride = 256;

// What one decode step does to the counts of its sequence.
struct DecodeCounts {
  int32_t live_after = 0;      // slots occupied when the step's token is in, before any cut
  bool reuse_victim = false;   // the token overwrites the victim chosen by the step before
  bool choose_victim = false;  // the device chooses the slot the next token overwrites
  int32_t shrink_to = 0;       // > 0: the step ends with a cut to this many slots
};

struct KvBudget {
  int32_t keep = 0;           // slots that survive a cut; 0 = unlimited (dense)
  int32_t slack = 1;          // slots above `keep` a decoding sequence may reach: 1 for exact, beta for periodic
  bool periodic = false;      // cut every `slack` tokens instead of reusing one victim per token
  int32_t prompt_stride = 0;  // > 0: a prompt is cut after every so many tokens, not only at its end
  int32_t turn_heavy = 0;     // > 0: a session makes room for a turn's tokens first, but keeps so many slots at least
  int32_t floor = 0;          // `keep` may be lowered to this while the sequence runs; as much as `keep`: a guarantee

  static constexpr KvBudget Unlimited() { return KvBudget(); }
  static constexpr KvBudget Exact(int32_t keep) { return KvBudget{.keep = keep, .floor = keep}; }
  static constexpr KvBudget Periodic(int32_t keep, int32_t beta) {
    return KvBudget{.keep = keep, .slack = beta, .periodic = true, .floor = keep};
  }

  constexpr bool limited() const { return keep > 0; }
  constexpr bool elastic() const { return floor < keep; }
  constexpr bool valid() const {
    return keep >= 0 && slack >= 1 && (periodic || slack == 1) && prompt_stride >= 0 &&
           (prompt_stride == 0 || limited()) && turn_heavy >= 0 && turn_heavy <= keep &&
           (limited() ? floor >= 1 && floor <= keep : floor == 0);
  }
  constexpr KvBudget Lowered(int32_t to) const {
    KvBudget lowered = *this;
    lowered.keep = to;
    return lowered;
  }

  // Where a prompt of which `computed` tokens are computed is cut next, if it is then too long. No chunk crosses it.
  constexpr int32_t PromptStop(int32_t computed, int32_t prompt_length) const {
    if (prompt_stride == 0) return prompt_length;
    const int64_t next = (int64_t{computed} / prompt_stride + 1) * prompt_stride;
    return static_cast<int32_t>(std::min<int64_t>(next, prompt_length));
  }

  // The cut at such a place: slots to keep of `live`, or 0 when they fit.
  constexpr int32_t PromptCut(int32_t live) const { return limited() && live > keep ? keep : 0; }

  // Tokens computed when a prompt that starts from nothing is cut first; 0: never.
  constexpr int32_t FirstCut(int32_t prompt_length) const {
    if (PromptCut(prompt_length) == 0) return 0;
    return PromptStop(prompt_stride == 0 ? 0 : keep / prompt_stride * prompt_stride, prompt_length);
  }

  // What a session with `live` slots is cut to before the `tokens` of its next turn come, so that they fit; 0: nothing.
  constexpr int32_t TurnCut(int32_t live, int32_t tokens) const {
    if (turn_heavy == 0 || int64_t{live} + tokens <= keep) return 0;
    const int32_t room = std::max(turn_heavy, keep - tokens);
    return room < live ? room : 0;
  }

  struct PromptSlots {
    int64_t peak = 0;   // at any moment
    int32_t after = 0;  // when the prompt is computed and cut
  };
  // What the rest of a prompt needs, of which `computed` tokens are computed and `live` slots occupied.
  constexpr PromptSlots PlayPrompt(int32_t live, int32_t computed, int32_t prompt_length) const {
    PromptSlots slots = {live, live};
    while (computed < prompt_length) {
      const int32_t stop = PromptStop(computed, prompt_length);
      slots.after += stop - computed;
      slots.peak = std::max<int64_t>(slots.peak, slots.after);
      if (const int32_t cut = PromptCut(slots.after); cut > 0) slots.after = cut;
      computed = stop;
    }
    return slots;
  }

  // REQUIRES: `live` is a count this budget can produce.
  constexpr DecodeCounts Decode(int32_t live) const {
    DecodeCounts counts;
    counts.reuse_victim = limited() && !periodic && live == keep + 1;
    counts.live_after = counts.reuse_victim ? live : live + 1;
    counts.choose_victim = limited() && !periodic && counts.live_after == keep + 1;
    if (limited() && periodic && counts.live_after == keep + slack) counts.shrink_to = keep;
    return counts;
  }

  // The same for the step with which the budget falls to `to` < keep: a victim chosen before is overwritten, none is chosen, and
  // what is then above `to` is cut.
  constexpr DecodeCounts DecodeAndLower(int32_t live, int32_t to) const {
    DecodeCounts counts = Decode(live);
    counts.choose_victim = false;
    counts.shrink_to = counts.live_after > to ? to : 0;
    return counts;
  }

  // How many decode steps from `live` slots on evict nothing, choose no victim and end with no cut.
  constexpr int32_t StepsBeforeEviction(int32_t live) const {
    if (!limited()) return std::numeric_limits<int32_t>::max();
    return std::max(0, (periodic ? keep + slack - 1 : keep) - live);
  }

  // The most slots a decoding sequence with `live` slots occupies at any moment of its next `steps` decode steps.
  constexpr int64_t PeakSlots(int32_t live, int64_t steps) const {
    const int64_t grown = int64_t{live} + steps;
    return limited() ? std::max<int64_t>(live, std::min<int64_t>(grown, int64_t{keep} + slack)) : grown;
  }
};

// What an elastic budget may be lowered to: `keep_max` slots, and budgets a block smaller each down to its floor, `count` in all.
// `keep_max` is the largest below its own that may free a block; the most slots that each of them allows fill whole blocks.
struct LowerBudgets {
  int32_t keep_max = 0;
  int32_t count = 0;
};
constexpr LowerBudgets LowerBudgetsOf(const KvBudget& budget) {
  const int32_t most = (budget.keep - 1 + budget.slack) / kBlockSlots;
  const int32_t least = static_cast<int32_t>(BlocksForSlots(int64_t{budget.floor} + budget.slack));
  return {most * kBlockSlots - budget.slack, std::max(0, most - least + 1)};
}

// Decode steps of a request: the first token comes from the prompt's last row.
constexpr int64_t DecodeSteps(int64_t max_tokens) { return std::max<int64_t>(0, max_tokens - 1); }

// The most slots a sequence occupies from here on, which also bounds the ranks of its tokens: of its prompt, `computed` tokens
// are computed and `live` slots occupied. And the most blocks it holds.
constexpr int64_t PeakSlotsFrom(int32_t live, int32_t computed, int32_t prompt_length, int64_t max_tokens,
                                const KvBudget& budget) {
  const KvBudget::PromptSlots prompt = budget.PlayPrompt(live, computed, prompt_length);
  return std::max(prompt.peak, budget.PeakSlots(prompt.after, DecodeSteps(max_tokens)));
}
constexpr int64_t PeakBlocksFrom(int32_t live, int32_t computed, int32_t prompt_length, int64_t max_tokens,
                                 const KvBudget& budget) {
  return BlocksForSlots(PeakSlotsFrom(live, computed, prompt_length, max_tokens, budget));
}

// The same as PeakSlotsFrom up to its `steps`-th decode step from here on: what it may come to occupy so soon.
constexpr int64_t SlotsWithin(int32_t live, int32_t computed, int32_t prompt_length, int64_t max_tokens, int64_t steps,
                              const KvBudget& budget) {
  return PeakSlotsFrom(live, computed, prompt_length, std::min(max_tokens, steps + 1), budget);
}

// The same for a turn that continues from `parked` slots of its session.
constexpr int64_t PeakSlotsResumed(int32_t parked, int32_t computed, int32_t prompt_length, int64_t max_tokens,
                                   const KvBudget& budget) {
  const int32_t cut = budget.TurnCut(parked, prompt_length - computed);
  const int64_t peak = PeakSlotsFrom(cut > 0 ? cut : parked, computed, prompt_length, max_tokens, budget);
  return std::max<int64_t>(peak, parked);
}

// The most blocks a sequence that starts from nothing holds in its whole life. A request for which it exceeds the pool can
// never run (400 `kv_capacity_exceeded`).
constexpr int64_t PeakBlocks(int32_t prompt_length, int64_t max_tokens, const KvBudget& budget) {
  return PeakBlocksFrom(0, 0, prompt_length, max_tokens, budget);
}

// The most blocks of a decoding sequence whose blocks others may read, with `live` slots and `steps` steps to go, of which
// nothing was evicted yet: at its first eviction it copies what it keeps. REQUIRES: live < budget.keep + budget.slack.
constexpr int64_t SharedDecodeBlocks(int32_t live, int64_t steps, const KvBudget& budget) {
  const int64_t first_eviction = int64_t{budget.keep} + budget.slack;  // slots when it comes
  return live + steps < first_eviction ? BlocksForSlots(live + steps) : 2 * BlocksForSlots(first_eviction);
}

// The same for a sequence whose blocks others may read. Before its first eviction it copies what it keeps, and what it
// leaves behind may stay in use: so it needs what it held until then, and beside that what it holds afterwards.
constexpr int64_t PeakBlocksShared(int32_t prompt_length, int64_t max_tokens, const KvBudget& budget) {
  const int64_t peak = PeakBlocks(prompt_length, max_tokens, budget);
  if (!budget.limited()) return peak;
  if (const int32_t cut_at = budget.FirstCut(prompt_length); cut_at > 0) {
    return BlocksForSlots(cut_at) + PeakBlocksFrom(budget.keep, cut_at, prompt_length, max_tokens, budget);
  }
  return SharedDecodeBlocks(prompt_length, DecodeSteps(max_tokens), budget);
}

}  // namespace hydrant

#endif  // HYDRANT_BLOCK_MANAGER_KV_BUDGET_H_
