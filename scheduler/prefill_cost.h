// PrefillCost says what prompt tokens cost to compute, in tokens at the beginning of a prompt: later ones attend to more.
// A chunk of 64 tokens 8,000 tokens deep takes a small model four times as long as the first one does, and it is time that
// a step is bounded by.
//
// Thread: any. Pure.
#ifndef HYDRANT_SCHEDULER_PREFILL_COST_H_
#define HYDRANT_SCHEDULER_PREFILL_COST_H_

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <limits>

namespace hydrant {

class PrefillCost {
 public:
  // Attention to `slots_per_token` slots costs as much as everything else of a token; 0: attention costs nothing.
  explicit PrefillCost(int32_t slots_per_token)
      : per_slot_(slots_per_token > 0 ? 1.0 / static_cast<double>(slots_per_token) : 0.0) {}

  // The cost of `tokens` tokens after `live` slots.
  double Of(int32_t live, int32_t tokens) const { return tokens * (1.0 + per_slot_ * (live + 0.5 * tokens)); }

  // The most tokens after `live` slots that cost no more than `cost`, which is not negative.
  int32_t TokensFor(int32_t live, double cost) const {
    assert(cost >= 0.0);
    // The positive root of per_slot / 2 n² + (1 + per_slot live) n = cost, in the form that also holds for per_slot = 0.
    const double one = 1.0 + per_slot_ * live;
    const double tokens = 2.0 * cost / (one + std::sqrt(one * one + 2.0 * per_slot_ * cost));
    return static_cast<int32_t>(std::clamp<double>(tokens, 0.0, std::numeric_limits<int32_t>::max()));
  }

 private:
  double per_slot_;
};

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_PREFILL_COST_H_
