// PrefixUse says how one request may use the prefix cache, and PrefixMatch what it found there.
#ifndef HYDRANT_BLOCK_MANAGER_PREFIX_USE_H_
#define HYDRANT_BLOCK_MANAGER_PREFIX_USE_H_

#include <cstdint>
#include <vector>

#include "block_manager/kv_budget.h"
#include "block_manager/prefix_index.h"
#include "block_manager/score_pool.h"

namespace hydrant {

// What a sequence needs beside the shared K and V of a prefix it did not compute itself.
enum class ScoreNeed : uint8_t {
  kNothing,   // it never evicts: neither scores nor positions are read
  kZeros,     // score blocks of its own, with scores that start at 0: none are kept, or the prefix's rows do not count
  kSnapshot,  // score blocks of its own that start from a score snapshot of the prefix
};

struct PrefixUse {
  bool publishes = false;  // its blocks may be found by others
  bool looks_up = false;   // it may use what others computed
  // Generated blocks, too (PrefixIndex): nobody compares its answer with one for which they were computed again.
  bool takes_generated = false;
  PrefixSalt salt;
  ScoreNeed scores = ScoreNeed::kNothing;
  ScoreKind score_kind = 0;       // of the snapshots it reads and leaves
  int32_t rows_computed_min = 1;  // the last rows of the prompt that must be computed whatever is cached; >= 1
};

// The longest usable prefix of a prompt, in whole blocks.
struct PrefixMatch {
  std::vector<int32_t> blocks;  // computed, published, in order
  int32_t revived = 0;          // of them cached-free: using them makes them unavailable to others
  int32_t score_blocks = 0;     // score blocks its sequence will need
  ScoreKind score_kind = 0;
  bool from_snapshot = false;

  int32_t tokens() const { return static_cast<int32_t>(blocks.size()) * kBlockSlots; }
  void clear() {
    blocks.clear();
    revived = score_blocks = 0;
    from_snapshot = false;
  }
};

}  // namespace hydrant

#endif  // HYDRANT_BLOCK_MANAGER_PREFIX_USE_H_
