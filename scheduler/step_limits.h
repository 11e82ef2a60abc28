// StepLimits bound what a step costs (prefill_cost.h), below the tokens that SchedulerOptions allow, and say what moving KV costs.
// They come from a driver that knows how long tokens and blocks take.
#ifndef HYDRANT_SCHEDULER_STEP_LIMITS_H_
#define HYDRANT_SCHEDULER_STEP_LIMITS_H_

#include <cstdint>
#include <limits>

namespace hydrant {

struct StepLimits {
  static constexpr double kUnbounded = 1e12;  // a cost that no step comes near

  // Cost of prompts: `alone` without decodes beside them, `beside_decodes` with; one block is computed whatever it costs,
  // and the end of a prompt that has Request::tail_tokens.
  double alone = kUnbounded;           // >= kBlockSlots
  double beside_decodes = kUnbounded;  // >= kBlockSlots
  // Cost of all rows, when several tenants have something to compute (step_shares.h).
  double shared = kUnbounded;  // > 0
  double shared_lag = 3.0;     // >= 1: so many such steps one of these tenants may catch up with at once
  // Cost of a block that is parked or restored: everybody waits meanwhile. >= 0, and 0 where nobody knows.
  double block_moved = 0.0;
  // Blocks of sessions that are parked and restored with a step, all of them together: nobody gets a token meanwhile.
  int64_t blocks_moved_max = std::numeric_limits<int64_t>::max();  // >= 2, one each way
};

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_STEP_LIMITS_H_
