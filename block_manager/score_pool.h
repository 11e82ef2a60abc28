// ScorePool keeps the spare score blocks. A score block holds the scores and positions of 16 slots in every layer and KV head.
// Every block has one of its own (score block b belongs to block b); a sequence that shares another one's block needs a
// score block from here, because all sequences share the K and V of a prefix, but each has running scores of its own.
//
// Spare score blocks that no sequence needs keep *score snapshots*: the scores of a prefix's slots as they were when
// its last token had been computed. With the causal mask they depend on the prefix alone, so a later request starts
// from them instead of computing the prefix's rows again. A snapshot belongs to the published block that ends its
// prefix and is dropped with it, or when its score blocks are needed, the least recently used first.
//
// Thread: engine. Pure.
//
// Invariants
//  1. Every spare score block is free, in one snapshot, or handed out.
//  2. A snapshot of a prefix of n blocks has n score blocks; per block and kind there is at most one.
#ifndef HYDRANT_BLOCK_MANAGER_SCORE_POOL_H_
#define HYDRANT_BLOCK_MANAGER_SCORE_POOL_H_

#include <cstdint>
#include <list>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace hydrant {

// Which formula made the scores (how query heads are joined, squares or not): only equal kinds can use each other's
// snapshots. The server chooses the numbers, below kScoreKinds.
using ScoreKind = uint8_t;
inline constexpr ScoreKind kScoreKinds = 8;

class ScorePool {
 public:
  // Score blocks [first, first + count).
  ScorePool(int32_t first, int32_t count);

  // A snapshot of this prefix and kind; empty without one. Marks it as used now. Valid until the next change.
  std::span<const int32_t> FindSnapshot(int32_t block, ScoreKind kind);
  bool HasSnapshot(int32_t block, ScoreKind kind) const { return by_block_.contains(KeyOf(block, kind)); }

  // Whether Take(count) can succeed without dropping the snapshot (spared_block, kind); -1 spares none.
  bool CanTake(int32_t count, int32_t spared_block, ScoreKind kind) const;

  // Appends `count` score blocks to `out`, dropping snapshots as needed, that of (spared_block, kind) last of all and never
  // when CanTake said so. Throws std::bad_alloc, and nothing has happened. REQUIRES: CanTake(count, spared_block, kind).
  void Take(int32_t count, int32_t spared_block, ScoreKind kind, std::vector<int32_t>* out);
  void GiveBack(int32_t score_block);

  // `score_blocks` become the snapshot of (block, kind). Throws std::bad_alloc, and nothing has happened. REQUIRES: they were handed
  // out, and there is none yet.
  void Keep(int32_t block, ScoreKind kind, std::vector<int32_t>&& score_blocks);

  // The block lost its contents: its snapshots are meaningless.
  void DropSnapshots(int32_t block);

  int32_t first() const { return first_; }
  int32_t total() const { return total_; }
  int32_t free() const { return static_cast<int32_t>(free_.size()); }
  int32_t in_snapshots() const { return in_snapshots_; }
  int32_t handed_out() const { return total_ - free() - in_snapshots_; }
  int32_t snapshots() const { return static_cast<int32_t>(used_.size()); }

 private:
  struct Snapshot {
    int32_t block = -1;
    ScoreKind kind = 0;
    std::vector<int32_t> score_blocks;
  };
  using Used = std::list<Snapshot>;

  static uint64_t KeyOf(int32_t block, ScoreKind kind) {
    return uint64_t{static_cast<uint32_t>(block)} * kScoreKinds + kind;
  }
  void Drop(Used::iterator snapshot);

  const int32_t first_;
  const int32_t total_;
  std::vector<int32_t> free_;
  Used used_;  // least recently used first
  absl::flat_hash_map<uint64_t, Used::iterator> by_block_;
  int32_t in_snapshots_ = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_BLOCK_MANAGER_SCORE_POOL_H_
