// What happens to a session's KV when a turn ends and when the next one begins, as the scheduler plans it and the executor
// reads it: each adds the tables and what else it alone knows.
//
// Thread: any (plain data).
#ifndef HYDRANT_KERNELS_STEP_SESSION_OPS_H_
#define HYDRANT_KERNELS_STEP_SESSION_OPS_H_

#include <cstdint>

namespace hydrant {

// Copies the first `live` slots of a sequence that ended out of the pool, in the place of what was parked for its session.
struct SessionPark {
  uint64_t session = 0;
  int32_t cut_from =
      0;  // > 0: slots occupied; they are cut to `live` first, for a victim still waits to be overwritten
  int32_t live = 0;
  int32_t computed = 0;  // logical length
};

// Copies parked slots into the fresh blocks of a sequence that goes on, then makes room there. What is parked stays, so that a
// turn that fails leaves its session as it was.
struct SessionRestore {
  uint64_t session = 0;
  int32_t live = 0;
  // > 0: it is cut to so many slots, the policy's heavy ones of all but the newest tokens, and those. Done before the next
  // operation: that may get the blocks that become free.
  int32_t cut_to = 0;
  int32_t computed = 0;  // logical length
  int32_t rows = 0;      // tokens that will be computed before the scores are used: they decay by as many rows
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_STEP_SESSION_OPS_H_
