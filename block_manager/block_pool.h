// BlockPool keeps the state of every block id: free, cached-free (holds a published block that no table uses; the least
// recently used one is taken first) or in use with a reference count. It knows nothing of tables, sequences or
// contents.
//
// Thread: engine. Every operation is O(1) and allocates nothing.
//
// Invariants (asserted at every transition; CheckIntegrity recounts them)
//  1. Every block is in exactly one of free / cached-free / in use, and the three counts add up to the total.
//  2. A block is in use exactly when its reference count is positive.
//  3. A cached-free block is published; a free block is not.
#ifndef HYDRANT_BLOCK_MANAGER_BLOCK_POOL_H_
#define HYDRANT_BLOCK_MANAGER_BLOCK_POOL_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"

namespace hydrant {

class BlockPool {
 public:
  // A block from Take. `was_cached`: it was published and lost its contents, so the index must forget it.
  struct Taken {
    int32_t block = -1;
    bool was_cached = false;
  };

  // REQUIRES: blocks >= 0.
  explicit BlockPool(int32_t blocks);
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // A block with one reference: a free one, the most recently freed first (its lines may still be in a cache); without
  // one, the cached-free block that was released longest ago. REQUIRES: available() > 0.
  Taken Take();

  // One more reference to a block in use, or the first one to a cached-free block. REQUIRES: not free.
  void AddReference(int32_t block);

  // Takes one reference away. Without the last one the block becomes cached-free if published, else free. Returns true
  // when it became available. REQUIRES: in use.
  bool DropReference(int32_t block);

  // From now on the block becomes cached-free, not free, when its last reference goes. REQUIRES: in use.
  void Publish(int32_t block);

  // Takes the mark back; a cached-free block becomes free. REQUIRES: published.
  void Unpublish(int32_t block);

  int32_t total() const { return static_cast<int32_t>(states_.size()); }
  int32_t free() const { return static_cast<int32_t>(free_.size()); }
  int32_t cached() const { return cached_count_; }
  int32_t used() const { return total() - free() - cached(); }
  int32_t available() const { return free() + cached(); }
  int32_t references(int32_t block) const { return states_[static_cast<size_t>(block)].references; }
  bool published(int32_t block) const { return states_[static_cast<size_t>(block)].published; }

  // Blocks taken plus blocks given back since the start.
  uint64_t operations() const { return operations_; }

  // Recounts everything from the lists. O(total).
  absl::Status CheckIntegrity() const;

 private:
  struct State {
    int32_t references = 0;
    bool published = false;
    int32_t older = -1;  // neighbours in the cached-free list
    int32_t newer = -1;
  };

  State& state(int32_t block);
  void LinkCached(int32_t block);
  void UnlinkCached(int32_t block);

  std::vector<State> states_;  // [block]
  std::vector<int32_t> free_;  // stack
  int32_t oldest_ = -1;        // cached-free, least recently released
  int32_t newest_ = -1;
  int32_t cached_count_ = 0;
  uint64_t operations_ = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_BLOCK_MANAGER_BLOCK_POOL_H_
