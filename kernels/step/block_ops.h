// What a step does to blocks besides computing tokens. The block manager decides it, the device carries it out: both
// include this header, and neither the other's.
//
// Thread: any (plain data).
#ifndef HYDRANT_KERNELS_STEP_BLOCK_OPS_H_
#define HYDRANT_KERNELS_STEP_BLOCK_OPS_H_

#include <cstdint>
#include <vector>

namespace hydrant {

// Token slots in a block: one head's tile of 16 x head_dim elements is the unit of every KV kernel, and a block is the
// unit of allocation.
inline constexpr int32_t kBlockSlots = 16;

// The number of blocks that `slots` slots need, and the number of slots in these blocks.
constexpr int64_t BlocksForSlots(int64_t slots) { return (slots + kBlockSlots - 1) / kBlockSlots; }
constexpr int32_t WholeBlocks(int32_t slots) { return (slots + kBlockSlots - 1) / kBlockSlots * kBlockSlots; }

// Before any row: a score block gets the scores of another one, or 0 (`from` -1), and ascending positions from
// `position` on.
struct ScoreInit {
  int32_t from = -1;
  int32_t to = 0;
  int32_t position = 0;
};

// After the forward pass: K and V of a block, with the scores and positions beside it, become those of another one and
// of its own score block, because the sequence is about to change it and others may read it.
struct BlockCopy {
  int32_t from = 0;
  int32_t from_score_block = 0;
  int32_t to = 0;
  int32_t index = 0;  // entry of the sequence's table that becomes `to`; a device does not look at it
};

// On the way through a prompt: where the scores of a row's first `slots` slots go as they are when the tile of 16 rows
// that ends there has been added and nothing after it.
struct ScoreSnapshot {
  int32_t slots = 0;                  // multiple of kBlockSlots, within the row's tokens
  std::vector<int32_t> score_blocks;  // [slots / kBlockSlots]
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_STEP_BLOCK_OPS_H_
