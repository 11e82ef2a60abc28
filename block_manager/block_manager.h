// BlockManager is the only mutator of the pools, the tables and the prefix index. Admission is by reservation: a table is
// admitted with as many blocks as it may take without asking, and everything it does later within that number succeeds.
// Beyond it the table asks (Grow), and may be told no.
//
// A prefix that another sequence computed is shared without copying: the blocks of a match enter the new table as they
// are. Before a sequence drops or overwrites tokens, whatever others may read is copied into fresh blocks (PlanCopies,
// FinishCopies), and these are part of its reservation.
//
// Every table has an owner, to whom its blocks are counted. What can be shared is always of one owner: the salts of a prefix see to
// that.
//
// Thread: engine. Pure: no clock, no I/O, no device. Nothing allocates for a table that was prepared, except for score
// snapshots.
//
// Invariants (asserted at every transition; CheckIntegrity recounts them, the simulator provokes them)
//  1. Every block is in exactly one of free / cached-free / in use; the counts add up to the total.
//  2. refcount(b) = number of block tables that hold b.
//  3. promised() = sum over tables of reserved() - held(), and available() >= promised(): what is reserved is there.
//  4. A reservation rises only by Grow.
//  5. A published block is full, and what is in it does not change while it is published.
//  6. overlap(o) = blocks in the tables of owner o, less the distinct ones; all tables that hold a block have the same owner.
//  7. Every spare score block is free, in a snapshot, or in one table.
#ifndef HYDRANT_BLOCK_MANAGER_BLOCK_MANAGER_H_
#define HYDRANT_BLOCK_MANAGER_BLOCK_MANAGER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "block_manager/block_pool.h"
#include "block_manager/block_table.h"
#include "block_manager/kv_budget.h"
#include "block_manager/prefix_index.h"
#include "block_manager/prefix_use.h"
#include "block_manager/score_pool.h"

namespace hydrant {

class BlockManager {
 public:
  // REQUIRES: blocks >= 0, spare_score_blocks >= 0. `hash_mask`: PrefixIndex.
  explicit BlockManager(int32_t blocks, int32_t spare_score_blocks = 0, uint64_t hash_mask = ~uint64_t{0})
      : pool_(blocks), index_(blocks, hash_mask), score_blocks_(blocks, spare_score_blocks) {
    taken_score_blocks_.reserve(static_cast<size_t>(spare_score_blocks));
  }

  // The longest prefix of `prompt` that the request may take over now. `match` keeps its memory. Valid until the next
  // change.
  void Match(const PrefixUse& use, std::span<const int32_t> prompt, PrefixMatch* match);
  // How many blocks of `match`, which Match made for `use`, are found even when all that nobody uses are taken: a match ends only
  // where there are scores to start from.
  size_t InUseOf(const PrefixUse& use, const PrefixMatch& match) const;

  bool CanAdmit(int64_t reserved_blocks) const { return reserved_blocks <= pool_.available() - promised_; }
  bool CanAdmit(int64_t reserved_blocks, const PrefixMatch& match) const {
    return CanAdmit(reserved_blocks - static_cast<int64_t>(match.blocks.size()) + match.revived);
  }

  // Takes from the host what the table needs to be admitted for `owner` with up to `reserved_blocks`, and, with `copies`, for copies
  // of what it shares: these calls allocate nothing then. Throws std::bad_alloc, and the table is as it was. REQUIRES: table.idle().
  void Prepare(BlockTable& table, int32_t reserved_blocks, bool copies, int32_t owner);

  // Promises `reserved_blocks` to the table, which begins with the blocks of the match. Appends to `starts` the score blocks
  // to prepare before any row of the next step, in this order.
  // REQUIRES: table.idle(), reserved_blocks >= 1 and >= the match's, CanAdmit(reserved_blocks, match), owner >= 0.
  void Admit(BlockTable& table, int32_t reserved_blocks, const PrefixMatch& match, std::vector<ScoreInit>* starts,
             int32_t owner = 0);
  void Admit(BlockTable& table, int32_t reserved_blocks, int32_t owner = 0);

  // Raises the reservation to `reserved_blocks` and returns true; or returns false, and nothing happens: so much is neither held nor
  // promised. REQUIRES: the table was prepared for as many; reserved_blocks >= table.reserved(), which is > 0.
  bool Grow(BlockTable& table, int32_t reserved_blocks);

  // Takes blocks until the table covers `slots` slots. REQUIRES: they are within the reservation.
  void Extend(BlockTable& table, int32_t slots);

  // Makes the table's full blocks among the first `tokens` slots findable, where slot i holds token i of the sequence:
  // nothing was evicted yet. `tokens_of(i)` gives the 16 tokens of block i. What is not among the first `prompt` tokens was
  // decoded. A block whose identity is known already stays unknown itself.
  template <typename TokensOf>
  void Publish(BlockTable& table, const PrefixSalt& salt, int32_t prompt, int32_t tokens, const TokensOf& tokens_of) {
    if (!MayPublish(table)) return;
    for (int32_t end; (end = (table.published_ + 1) * kBlockSlots) <= tokens;) {
      table.generated_ |= end > prompt;
      PublishNext(table, salt, tokens_of(table.published_));
    }
  }

  // How many of the table's first blocks are findable, as Publish made them; -1: it makes none findable any more.
  int32_t Published(const BlockTable& table) const { return MayPublish(table) ? table.published_ : -1; }

  // Score blocks for a snapshot of the table's first `slots` slots, appended to `out`. False, and nothing happens, when
  // there is one already or no room for it. Throws std::bad_alloc, and nothing has happened. REQUIRES: slots is a multiple of
  // kBlockSlots.
  bool BeginSnapshot(const BlockTable& table, int32_t slots, ScoreKind kind, std::vector<int32_t>* out);
  // They hold the scores now and become a snapshot if the table's block before `slots` is published and the host has memory for
  // it; else they are given back.
  void FinishSnapshot(const BlockTable& table, int32_t slots, ScoreKind kind, std::vector<int32_t> score_blocks);

  // `count` spare score blocks for Hold, appended to `out`. False, and nothing happens, when there is no room. Throws
  // std::bad_alloc, and nothing has happened.
  bool TakeScoreBlocks(int32_t count, std::vector<int32_t>* out);
  void GiveBackScoreBlocks(std::span<const int32_t> score_blocks);
  // `holder` holds the table's first blocks too, one for each of `score_blocks`, which are its own from now on, and can
  // hold no more: whoever changes one of these blocks copies it first. Allocates nothing. REQUIRES: `holder` was prepared
  // for as many, for the table's owner; TakeScoreBlocks gave the score blocks; the table has so many blocks.
  void Hold(const BlockTable& table, std::span<const int32_t> score_blocks, BlockTable* holder);

  // Takes a fresh block for every full one among the first `slots` slots of a table with `full_slots` slots: the step in
  // flight copies them. REQUIRES: within the reservation; no copies are planned.
  void PlanCopies(BlockTable& table, int32_t slots, int32_t full_slots);
  // The copies are made: the table owns them, and no longer what they were made from. Returns how many blocks became
  // available. What others still hold did not, so the reservation must fall at once, by Shrink: by at least what the table
  // held before the copies.
  int32_t FinishCopies(BlockTable& table);

  // Gives back the blocks after the first `slots` slots and lowers the reservation. Returns how many blocks became
  // available. REQUIRES: the table covers `slots`; BlocksForSlots(slots) <= reserved_blocks <= table.reserved().
  int32_t Shrink(BlockTable& table, int32_t slots, int32_t reserved_blocks);

  // Gives back everything, the reservation too. Returns how many blocks became available.
  int32_t Release(BlockTable& table);

  // Forgets every published block and every snapshot. Tables keep their blocks; what they hold is published no more.
  void ResetPrefixes();

  // How many of the table's blocks other tables hold, too, or would if they began with `prefix`. O(its blocks).
  int32_t BlocksOthersUse(const BlockTable& table, std::span<const int32_t> prefix = {}) const;

  const BlockPool& pool() const { return pool_; }
  const PrefixIndex& index() const { return index_; }
  const ScorePool& score_blocks() const { return score_blocks_; }
  int32_t promised() const { return promised_; }
  // Rises with everything that may change what a prompt matches or how much of that is in use; > 0.
  uint64_t changes() const { return changes_; }
  // How much more the tables of an owner hold than there are blocks in them: a block that k of them hold is there once.
  int64_t overlap(int32_t owner) const {
    return static_cast<size_t>(owner) < overlaps_.size() ? overlaps_[static_cast<size_t>(owner)] : 0;
  }

  // Checks the invariants against all admitted tables. O(blocks + their sizes); for tests and idle moments.
  absl::Status CheckIntegrity(std::span<const BlockTable* const> tables) const;

 private:
  bool MayEndBehind(const PrefixUse& use, int32_t block, size_t count) const;
  int32_t TakeBlock();
  void Forget(int32_t block);
  bool MayPublish(const BlockTable& table) const { return table.publisher_ == resets_; }
  void PublishNext(BlockTable& table, const PrefixSalt& salt, BlockTokens tokens);
  void DropScoreBlock(int32_t block, int32_t score_block);
  bool DropBlock(const BlockTable& table, int32_t block);
  int32_t Truncate(BlockTable& table, int32_t size);
  int32_t DropCopies(BlockTable& table);

  BlockPool pool_;
  PrefixIndex index_;
  ScorePool score_blocks_;
  int32_t promised_ = 0;
  uint64_t resets_ = 0;
  uint64_t changes_ = 1;
  std::vector<int64_t> overlaps_;            // [owner]; grows with the owners
  std::vector<int32_t> taken_score_blocks_;  // scratch of Admit
};

}  // namespace hydrant

#endif  // HYDRANT_BLOCK_MANAGER_BLOCK_MANAGER_H_
