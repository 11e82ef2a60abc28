// How the live slots of a row of generated tokens are divided among units of attention work: splits of `slots` each, of which the
// last takes up to `tail` more, so that a sequence one past a round budget does not pay for another one. The borders depend on the
// row alone; every device has sizes of its own.
//
// Thread: any (pure). Always inlined: kernels of every instruction set include it.
#ifndef HYDRANT_KERNELS_DECODE_SPLITS_H_
#define HYDRANT_KERNELS_DECODE_SPLITS_H_

#include <cstdint>

namespace hydrant {

// REQUIRES: live >= 1.
inline __attribute__((always_inline)) constexpr int32_t DecodeSplitCount(int32_t slots, int32_t tail, int32_t live) {
  return live <= slots + tail ? 1 : (live - tail + slots - 1) / slots;
}

// The first slot after split number `split` of `splits`.
inline __attribute__((always_inline)) constexpr int32_t DecodeSplitEnd(int32_t slots, int32_t split, int32_t splits,
                                                                       int32_t live) {
  return split + 1 == splits ? live : (split + 1) * slots;
}

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_DECODE_SPLITS_H_
