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

// Blocks [begin, end) of those that a session's KV fills: what one step moves of it. The slices of a move come in their
// order, and the last ends with the last block.
struct BlockSlice {
  int32_t begin = 0;
  int32_t end = 0;
  int32_t size() const { return end - begin; }
};

// Copies a slice of the first `live` slots of a sequence that ended out of the pool. What earlier turns of the session
// left stays.
struct SessionPark {
  TurnId id;
  bool begins =
      false;  // nothing of it was done: memory is taken for all of it before the first slice, which may be empty
  // > 0, where it begins: slots occupied; they are cut to `live` first, for a victim still waits to be overwritten.
  int32_t cut_from = 0;
  int32_t live = 0;
  int32_t computed = 0;  // logical length
  BlockSlice slice;
};

// Copies a slice of parked slots into the fresh blocks of a sequence that goes on, and makes room there with the last.
// What is parked stays, so that a turn that fails leaves its session as it was.
struct SessionRestore {
  TurnId id;  // the turn that left it
  int32_t live = 0;
  BlockSlice slice;
  // > 0, with the last slice: it is cut to so many slots, the policy's heavy ones of all but the newest tokens, and
  // those. Done before the next operation: that may get the blocks that become free.
  int32_t cut_to = 0;
  int32_t computed = 0;  // logical length
  int32_t rows = 0;      // tokens that will be computed before the scores are used: they decay by as many rows
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_STEP_SESSION_OPS_H_
