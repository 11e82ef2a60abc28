// BlockTable is the list of blocks one sequence holds: slot s lives in blocks()[s / 16] at offset s % 16, in every
// layer and KV head of the table's layer group. Only BlockManager changes it.
//
// Thread: engine.
//
// Invariants
//  1. size() <= reserved(): the manager has promised the difference, so growing up to it cannot fail.
//  2. blocks() does not move while the table grows within its reservation (steps in flight hold spans of it).
//  3. A table is empty, and has no reservation, when it is destroyed or assigned to.
#ifndef HYDRANT_BLOCK_MANAGER_BLOCK_TABLE_H_
#define HYDRANT_BLOCK_MANAGER_BLOCK_TABLE_H_

#include <cassert>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

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
        reserved_(std::exchange(other.reserved_, 0)),
        blocks_(std::exchange(other.blocks_, {})) {}
  BlockTable& operator=(BlockTable&& other) noexcept {
    assert(idle() && this != &other);
    layer_group_ = other.layer_group_;
    reserved_ = std::exchange(other.reserved_, 0);
    blocks_ = std::exchange(other.blocks_, {});
    return *this;
  }

  std::span<const int32_t> blocks() const { return blocks_; }
  int32_t size() const { return static_cast<int32_t>(blocks_.size()); }
  int32_t reserved() const { return reserved_; }  // the most blocks the sequence may still come to hold
  int32_t layer_group() const { return layer_group_; }
  bool idle() const { return blocks_.empty() && reserved_ == 0; }

 private:
  friend class BlockManager;

  int32_t layer_group_ = 0;
  int32_t reserved_ = 0;
  std::vector<int32_t> blocks_;
};

}  // namespace hydrant

#endif  // HYDRANT_BLOCK_MANAGER_BLOCK_TABLE_H_
