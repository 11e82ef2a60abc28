// BlockManager is the only mutator of the pool and the tables. Admission is by reservation: a table is admitted with
// the most blocks it may ever hold, and everything it does later within that number succeeds.
//
// Thread: engine. Pure: no clock, no I/O, no device. Nothing allocates after a table's first admission at its size.
//
// Invariants (asserted at every transition; CheckIntegrity recounts them, the simulator provokes them)
//  1. Every block is in exactly one of free / cached-free / in use; the counts add up to the total.
//  2. refcount(b) = number of block tables that hold b.
//  3. promised() = sum over tables of reserved() - size(), and available() >= promised(): growth never fails, so nobody
//     is ever preempted for lack of foresight.
//  4. A reservation only falls.
//
// Prefix sharing (Publish) and parking (Park, Restore) join here: the pool already has references and the cached-free
// state, and a table's reservation already counts the fresh blocks of a copy-before-write.
#ifndef HYDRANT_BLOCK_MANAGER_BLOCK_MANAGER_H_
#define HYDRANT_BLOCK_MANAGER_BLOCK_MANAGER_H_

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "block_manager/block_pool.h"
#include "block_manager/block_table.h"
#include "block_manager/kv_budget.h"

namespace hydrant {

class BlockManager {
 public:
  // REQUIRES: blocks >= 0.
  explicit BlockManager(int32_t blocks) : pool_(blocks) {}

  bool CanAdmit(int64_t reserved_blocks) const { return reserved_blocks <= pool_.available() - promised_; }

  // Promises `reserved_blocks` to the table. REQUIRES: table.idle(), reserved_blocks >= 1, CanAdmit(reserved_blocks).
  void Admit(BlockTable& table, int32_t reserved_blocks);

  // Takes blocks until the table covers `slots` slots. REQUIRES: they are within the reservation.
  void Extend(BlockTable& table, int32_t slots);

  // Gives back the blocks behind the first `slots` slots and lowers the reservation. Returns how many blocks became
  // available. REQUIRES: the table covers `slots`; BlocksForSlots(slots) <= reserved_blocks <= table.reserved().
  int32_t Shrink(BlockTable& table, int32_t slots, int32_t reserved_blocks);

  // Gives back everything, the reservation too. Returns how many blocks became available.
  int32_t Release(BlockTable& table);

  const BlockPool& pool() const { return pool_; }
  int32_t promised() const { return promised_; }

  // Checks the invariants against all admitted tables. O(blocks + their sizes); for tests and idle moments.
  absl::Status CheckIntegrity(std::span<const BlockTable* const> tables) const;

 private:
  int32_t Truncate(BlockTable& table, int32_t size);

  BlockPool pool_;
  int32_t promised_ = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_BLOCK_MANAGER_BLOCK_MANAGER_H_
