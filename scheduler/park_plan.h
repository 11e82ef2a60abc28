// What a plan says about KV that leaves the pool between the turns of a session, and comes back.
#ifndef HYDRANT_SCHEDULER_PARK_PLAN_H_
#define HYDRANT_SCHEDULER_PARK_PLAN_H_

#include <cstdint>
#include <vector>

namespace hydrant {

// Copies out the first `live` slots of a sequence that ended, replacing what was parked for its session.
struct PlanPark {
  uint64_t session = 0;
  uint64_t turn = 0;
  int32_t sequence = 0;  // whose policy it is; its index is free for another request afterwards
  int32_t cut_from =
      0;  // > 0: slots occupied; they are cut to `live` first, for a victim still waits to be overwritten
  int32_t live = 0;
  int32_t computed = 0;
  std::vector<int32_t> block_table;
  std::vector<int32_t> side_table;
};

// Copies parked slots into the fresh blocks of a sequence that goes on. What is parked stays, so that a turn that fails
// leaves its session as it was.
struct PlanRestore {
  uint64_t session = 0;
  int32_t sequence = 0;
  int32_t live = 0;
  int32_t cut_to = 0;    // > 0: then they are cut to so many, to make room for the turn
  int32_t computed = 0;  // the logical length
  int32_t rows = 0;      // tokens of the turn's prompt that will be computed: how old the scores will be at its end
  std::vector<int32_t> block_table;
};

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_PARK_PLAN_H_
