// Where an element lies inside one head's tile of 16 slots (kernels/cpu/attention/attention_kernels.h gives the orders), for the
// plain code that moves or reads single tokens.
//
// Thread: any; pure functions.
#ifndef HYDRANT_KERNELS_CPU_ATTENTION_KV_LAYOUT_H_
#define HYDRANT_KERNELS_CPU_ATTENTION_KV_LAYOUT_H_

#include <cstdint>

#include "kernels/kv_cache_view.h"
#include "kernels/types.h"

namespace hydrant {

// Index of an element among the tile's. Elements come after the scales, where there are scales.
inline int64_t KElement(KvType type, int64_t slot, int64_t dim) {
  if (type == KvType::kBF16) return (dim / 2 * kBlockSlots + slot) * 2 + dim % 2;
  return dim * kBlockSlots + slot;
}

inline int64_t VElement(KvType type, int64_t head_dim, int64_t slot, int64_t dim) {
  if (type == KvType::kBF16) return (slot / 2 * head_dim + dim) * 2 + slot % 2;
  return slot * head_dim + dim;
}

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CPU_ATTENTION_KV_LAYOUT_H_
