// What happens to a session's KV when a turn ends and when the next one begins, as the scheduler plans it and the executor
// reads it: each adds the tables and what else it alone knows.
//
// Thread: any (plain data).
#ifndef HYDRANT_KERNELS_STEP_SESSION_OPS_H_
#define HYDRANT_KERNELS_STEP_SESSION_OPS_H_

#include <compare>
#include <cstdint>
#include <utility>

namespace hydrant {

// Names the KV that a turn of a session left. A later turn of the session has a higher number.
struct TurnId {
  uint64_t session = 0;
  uint64_t turn = 0;

  friend auto operator<=>(const TurnId&, const TurnId&) = default;
  template <typename H>
  friend H AbslHashValue(H hash, const TurnId& id) {
    return H::combine(std::move(hash), id.session, id.turn);
  }
};

// Copies the first `live` slots of a sequence that ended out of the pool. What earlier turns of the session left stays.
struct SessionPark {
  TurnId id;
  int32_t cut_from =
      0;  // > 0: slots occupied; they are cut to `live` first, for a victim still waits to be overwritten
  int32_t live = 0;
  int32_t computed = 0;  // logical length
};

// Copies parked slots into the fresh blocks of a sequence that goes on, then makes room there. What is parked stays, so that a
// turn that fails leaves its session as it was.
struct SessionRestore {
  TurnId id;  // the turn that left it
  int32_t live = 0;
  // > 0: it is cut to so many slots, the policy's heavy ones of all but the newest tokens, and those. Done before the next
  // operation: that may get the blocks that become free.
  int32_t cut_to = 0;
  int32_t computed = 0;  // logical length
  int32_t rows = 0;      // tokens that will be computed before the scores are used: they decay by as many rows
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_STEP_SESSION_OPS_H_
