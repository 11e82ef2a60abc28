// Pins: which slots of one (layer, KV head) a prompt's cut keeps because its newest rows point at their sentences.
//
// Thread: any one per (layer, KV head); pairs are independent.
#ifndef HYDRANT_KERNELS_CPU_ATTENTION_PINS_H_
#define HYDRANT_KERNELS_CPU_ATTENTION_PINS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention/attention_kernels.h"
#include "kernels/step_batch.h"

namespace hydrant {

struct PinScratch {
  uint64_t* keys;  // [live]
  int32_t* slots;  // [live]
};
// Bytes of it per slot.
inline constexpr size_t kPinBytes = sizeof(uint64_t) + sizeof(int32_t);

// Pins row.policy.pins() slots, or all candidates if there are fewer: their scores get a sign. `sums` [live_after] is what
// the rows that choose give each slot, the numerator of A (kernels/eviction_policy.h). Slots with a position below
// `first_seen` are no candidates. REQUIRES: row.chooses_pins(); `scores` are those after all of the prompt's rows, and no slot
// is pinned.
void ChoosePins(const BatchRow& row, const ScoreView& scores, int32_t first_seen, const float* sums,
                const PinScratch& scratch);

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CPU_ATTENTION_PINS_H_
