// What a plan says about KV that leaves the pool between the turns of a session, and comes back.
#ifndef HYDRANT_SCHEDULER_PARK_PLAN_H_
#define HYDRANT_SCHEDULER_PARK_PLAN_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/step/session_ops.h"

namespace hydrant {

struct PlanPark : SessionPark {
  int32_t sequence = 0;  // where it begins: whose policy it is; the index is free for another request afterwards
  int32_t tenant = 0;
  std::vector<int32_t> block_table;
  std::vector<int32_t> score_table;
};

struct PlanRestore : SessionRestore {
  int32_t sequence = 0;
  std::span<const int32_t> block_table = {};  // of all slices
};

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_PARK_PLAN_H_
