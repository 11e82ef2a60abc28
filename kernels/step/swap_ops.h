// What happens to a sequence in progress that steps aside: it leaves the pool whole and comes back later to other blocks
// and another state row, as the scheduler plans it and the executor reads it. Each adds the tables.
//
// A park (session_ops.h) cuts and forgets what the next turn does not need. This does not: of a sequence that is swapped
// out and in again every later logit and score has the bits that it would have had. So slots keep their order, which is
// the order of fp32 sums, and the device's state row comes along (Device::ExportState says what is in one).
//
// Thread: any (plain data).
#ifndef HYDRANT_KERNELS_STEP_SWAP_OPS_H_
#define HYDRANT_KERNELS_STEP_SWAP_OPS_H_

#include <cstdint>

#include "kernels/step/block_ops.h"
#include "kernels/step/session_ops.h"

namespace hydrant {

// Copies a slice of a sequence's slots, and what stands beside them, out of the pool. It has no row until it is in again.
// The pool is left as it is: what the slices were copied from may be another's after the last one, and the state row
// once it has begun.
struct SwapOut {
  uint64_t id = 0;  // names the sequence while it is out; the request's
  // Nothing of it was done: memory is taken for all of it, and the state row is copied, before the first slice, which may
  // be empty.
  bool begins = false;
  int32_t live = 0;       // slots occupied, all of which go
  int32_t state_row = 0;  // where it begins
  BlockSlice slice;       // of [0, BlocksForSlots(live))
};

// Copies a slice back into fresh blocks that belong to the sequence alone. With the last slice its state row is filled,
// it may have a row in the same step, and nothing of it is out of the pool any more.
struct SwapIn {
  uint64_t id = 0;
  int32_t live = 0;       // as it was swapped out
  int32_t state_row = 0;  // from now on; filled with the last slice
  BlockSlice slice;

  bool ends() const { return slice.end == BlocksForSlots(live); }
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_STEP_SWAP_OPS_H_
