// What a plan says about sequences that step aside (swapping.h), and about what comes back of them.
//
// Thread: engine.
#ifndef HYDRANT_SCHEDULER_SWAP_PLAN_H_
#define HYDRANT_SCHEDULER_SWAP_PLAN_H_

#include <cstdint>
#include <span>

#include "kernels/step/swap_ops.h"

namespace hydrant {

// The tables are of all slices.
struct PlanSwapOut : SwapOut {
  int32_t sequence = 0;
  int32_t payer = 0;  // the tenant that is charged for the move: for whose sake it is made
  std::span<const int32_t> block_table = {};
  std::span<const int32_t> score_table = {};
};

struct PlanSwapIn : SwapIn {
  int32_t sequence = 0;
  int32_t payer = 0;
  std::span<const int32_t> block_table = {};
};

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_SWAP_PLAN_H_
