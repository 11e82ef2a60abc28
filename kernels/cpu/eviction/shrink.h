// The cut: which slots of one (layer, KV head) survive, and their move into the lower ones.
//
// Thread: any one per (layer, KV head); pairs are independent.
#ifndef HYDRANT_KERNELS_CPU_EVICTION_SHRINK_H_
#define HYDRANT_KERNELS_CPU_EVICTION_SHRINK_H_

#include <cstdint>

#include "kernels/cpu/eviction/shrink_scratch.h"
#include "kernels/kv_cache_view.h"
#include "kernels/step_batch.h"

namespace hydrant {

// Device::Shrink for one pair. O(live_from), plus a sort when a pooled prompt's slots are not in the order of positions, and
// one for the ranks of a rolling policy.
void ShrinkPair(const ShrinkOp& op, const KvCacheView& kv, int32_t layer, int32_t kv_head,
                const ShrinkScratch& scratch);

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CPU_EVICTION_SHRINK_H_
