// What lower budgets would cost one (layer, KV head): the share of its score mass that each cut would drop.
//
// Thread: any one per (layer, KV head); pairs are independent.
#ifndef HYDRANT_KERNELS_CPU_EVICTION_SHRINK_LOSS_H_
#define HYDRANT_KERNELS_CPU_EVICTION_SHRINK_LOSS_H_

#include <cstdint>
#include <span>

#include "kernels/cpu/eviction/shrink.h"
#include "kernels/kv_cache_view.h"
#include "kernels/step_batch.h"

namespace hydrant {

// losses[i] is that of the cut to op.keep_max - i * kBlockSlots slots, as ShrinkPair would make it. One sort and one walk over
// the slots, however many cuts are asked about. REQUIRES: losses.size() == op.losses.size().
void MeasurePairLosses(const LossOp& op, const KvCacheView& kv, int32_t layer, int32_t kv_head,
                       const ShrinkScratch& scratch, std::span<double> losses);

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CPU_EVICTION_SHRINK_LOSS_H_
