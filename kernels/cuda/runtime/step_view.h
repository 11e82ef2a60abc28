// A step's batch as kernels read it: plain arrays in device memory, filled by one copy per step.
//
// Which kernel is launched with which grid follows from the host's copy of the same arrays; what a kernel does follows
// from these alone, so that a recorded launch stays right when only their contents change.
#ifndef HYDRANT_KERNELS_CUDA_RUNTIME_STEP_VIEW_H_
#define HYDRANT_KERNELS_CUDA_RUNTIME_STEP_VIEW_H_

#include <cstdint>

#include "kernels/eviction_policy.h"
#include "kernels/step_batch.h"

namespace hydrant::cuda {

// BatchRow as kernels read it: what depends on the row alone is worked out, and its tables and snapshots are places in
// the arrays of StepView.
struct DeviceRow : RowCounts {
  int32_t token_begin;
  int32_t token_count;
  int32_t first_position;  // of the first token in the cache: BatchRow::first_position()
  int32_t live_after;
  int32_t first_scored;    // prefill: logical position of the first prompt row that scores; none: after the last token
  int32_t first_pinning;   // prefill: the same of those that choose pins
  int32_t pins_hold;       // decode: BatchRow::pins_hold()
  int32_t candidates_end;  // decode: slots with a position below it are candidates for the victim
  int64_t tables;          // of StepView::tables: the row's block ids, then (at `score_blocks`) its score blocks
  int64_t score_blocks;
  int32_t first_snapshot;  // of StepView::snapshots
  int32_t snapshots;
  int32_t pins;            // to be chosen at most
  int64_t segment_starts;  // of StepView::tables, where it chooses pins: bit p % 32 of number p / 32 is position p's
  int64_t pin_sums;        // where it does: floats [KV head][live_after rounded up to 16] of the scratch memory
  EvictionPolicy policy;
};

struct StepSnapshot {
  int32_t slots;
  int32_t padding;
  int64_t score_blocks;  // of StepView::tables
};

struct StepView {
  const DeviceRow* rows = nullptr;
  const int32_t* token_ids = nullptr;     // kSampledId: the one in sampled_ids
  const int32_t* sampled_ids = nullptr;   // [state rows]; kNoNextId: its row is left out
  const int32_t* row_of_token = nullptr;  // [tokens]; -1: padding
  const StepSnapshot* snapshots = nullptr;
  const int32_t* tables = nullptr;
};

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_RUNTIME_STEP_VIEW_H_
