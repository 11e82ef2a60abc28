// BlockTable is the list of blocks one sequence holds: slot s lives in blocks()[s / 16] at offset s % 16, in every
// layer and KV head of the table's layer group. Beside each block stands the score block with the scores and positions of
// these slots: the block's own, or a spare one while K and V are another sequence's as well. Only BlockManager changes it.
//
// Thread: engine.
//
// Invariants
//  1. held() <= reserved(): the manager has promised the difference, so taking blocks up to it cannot fail.
//  2. blocks() and score_blocks() do not move while the table grows within its reservation (steps in flight hold spans of them).
//  3. A table is empty, and has no reservation, when it is destroyed or assigned to.
#ifndef HYDRANT_BLOCK_MANAGER_BLOCK_TABLE_H_
#define HYDRANT_BLOCK_MANAGER_BLOCK_TABLE_H_

#include <cassert>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "block_manager/prefix_use.h"

namespace hydrant {

class BlockTable {
 public:
  BlockTable() = default;
  // `layer_group`: which layers this table addresses. All layers share one table now (group 0); budgets per layer give
  // a sequence one table per group.
  explicit BlockTable(int32_t layer_group) : layer_group_(layer_group) {}
  ~BlockTable() { assert(idle()); }

  BlockTable(BlockTable&& other) noexcept
      : layer_group_(other.layer_group_),
        owner_(other.owner_),
        reserved_(std::exchange(other.reserved_, 0)),
        blocks_(std::exchange(other.blocks_, {})),
        score_blocks_(std::exchange(other.score_blocks_, {})),
        copies_(std::exchange(other.copies_, {})),
        published_(std::exchange(other.published_, 0)),
        parent_(std::exchange(other.parent_, 0)),
        publisher_(std::exchange(other.publisher_, 0)),
        generated_(std::exchange(other.generated_, false)) {}
  BlockTable& operator=(BlockTable&& other) noexcept {
    assert(idle() && this != &other);
    layer_group_ = other.layer_group_;
    owner_ = other.owner_;
    reserved_ = std::exchange(other.reserved_, 0);
    blocks_ = std::exchange(other.blocks_, {});
    score_blocks_ = std::exchange(other.score_blocks_, {});
    copies_ = std::exchange(other.copies_, {});
    published_ = std::exchange(other.published_, 0);
    parent_ = std::exchange(other.parent_, 0);
    publisher_ = std::exchange(other.publisher_, 0);
    generated_ = std::exchange(other.generated_, false);
    return *this;
  }

  std::span<const int32_t> blocks() const { return blocks_; }
  std::span<const int32_t> score_blocks() const { return score_blocks_; }  // [size()]
  // Copies that the step in flight makes; their targets are held already.
  std::span<const BlockCopy> copies() const { return copies_; }
  int32_t size() const { return static_cast<int32_t>(blocks_.size()); }
  int32_t held() const { return static_cast<int32_t>(blocks_.size() + copies_.size()); }
  int32_t reserved() const { return reserved_; }  // the most blocks the sequence may come to hold without asking
  int32_t layer_group() const { return layer_group_; }
  // What it publishes next is generated (PrefixIndex).
  bool generated() const { return generated_; }
  bool idle() const { return blocks_.empty() && reserved_ == 0; }

 private:
  friend class BlockManager;

  int32_t layer_group_ = 0;
  int32_t owner_ = 0;  // for whom its blocks are counted, from Admit to Release
  int32_t reserved_ = 0;
  std::vector<int32_t> blocks_;
  std::vector<int32_t> score_blocks_;  // score_blocks_[i] == blocks_[i]: the block's own
  std::vector<BlockCopy> copies_;

  // Where the table stands in the prefix index: its first `published_` blocks are nodes or equal to nodes, the last of
  // them with serial `parent_`.
  int32_t published_ = 0;
  uint64_t parent_ = 0;
  uint64_t publisher_ = 0;  // BlockManager's count of resets when it began; after another reset it publishes no more
  bool generated_ = false;
};

}  // namespace hydrant

#endif  // HYDRANT_BLOCK_MANAGER_BLOCK_TABLE_H_
