// FakeMemory is what the fake device holds: in every (layer and KV head pair) of every block 16 cells that remember whose
// token is there, and beside a block the score block with positions and scores. Every pair chooses its own victims, so the
// contents really differ per pair.
//
// The position beside a cell is where its key stands: its token's in the text or, under a rolling policy, its rank.
//
// Each block and score block has a version that no other content ever had: whoever found it in order needs to look again
// only when the version is another. What changes a version is in this class alone.
#ifndef HYDRANT_TESTS_SIM_FAKE_MEMORY_H_
#define HYDRANT_TESTS_SIM_FAKE_MEMORY_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "block_manager/kv_budget.h"
#include "tests/sim/fake_model.h"

namespace hydrant::sim {

class FakeMemory {
 public:
  struct Cell {
    uint64_t key = 0;  // CellKey of its token, 0 = nobody's
    int32_t position = -1;
    int32_t token = -1;
  };
  struct Block {
    uint64_t version = 0;
    int32_t holders = 0;     // requests that hold it
    PairSums sums = {};      // of the shares of its cells
    bool generated = false;  // a row that decoded wrote some of it, or of what stands before it
    std::array<std::array<Cell, kBlockSlots>, kPairsMax> cells;
  };
  struct ScoreBlock {
    uint64_t version = 0;  // of the positions
    uint64_t state = 0;    // SimRequest::ScoreState: every row adds to the scores of all slots
    std::array<std::array<int32_t, kBlockSlots>, kPairsMax> positions;
  };

  FakeMemory(int32_t blocks, int32_t spare_score_blocks, int32_t layer_heads)
      : layer_heads_(layer_heads),
        blocks_(static_cast<size_t>(blocks)),
        score_blocks_(static_cast<size_t>(blocks + spare_score_blocks)) {}

  bool has_block(int32_t block) const { return block >= 0 && block < std::ssize(blocks_); }
  bool has_score_block(int32_t score_block) const {
    return score_block >= 0 && score_block < std::ssize(score_blocks_);
  }
  const Block& block(int32_t block) const { return blocks_[static_cast<size_t>(block)]; }
  const ScoreBlock& score_block(int32_t score_block) const { return score_blocks_[static_cast<size_t>(score_block)]; }
  int32_t held_blocks() const { return held_blocks_; }

  void Hold(int32_t block) { held_blocks_ += at(block).holders++ == 0 ? 1 : 0; }
  void Drop(int32_t block) { held_blocks_ -= --at(block).holders == 0 ? 1 : 0; }

  // Puts nothing into a block and the score block of its own.
  void Clear(int32_t block);
  // `share`: of the cell. Returns the share of the cell before.
  uint64_t Write(int32_t layer_head, int32_t block, int32_t offset, const Cell& cell, uint64_t share);
  // The same for cells from `offset` on in all pairs, which stand at `position` and after it. Returns the sum of their
  // shares.
  uint64_t WriteAllPairs(int32_t block, int32_t score_block, int32_t offset, std::span<const Cell> cells,
                         int32_t position);
  void MarkGenerated(int32_t block) { at(block).generated = true; }
  void Erase(int32_t layer_head, int32_t block, int32_t offset) { Write(layer_head, block, offset, Cell(), 0); }
  void WritePosition(int32_t layer_head, int32_t score_block, int32_t offset, int32_t position);
  void SetState(int32_t score_block, uint64_t state) { score_blocks_[static_cast<size_t>(score_block)].state = state; }
  // Score block `to` gets the state of `from` (-1: none) and positions from `position` on.
  void InitScore(int32_t from, int32_t to, int32_t position);
  // The contents alone.
  void PutBlock(const Block& from, int32_t to);
  void PutScoreBlock(const ScoreBlock& from, int32_t to);

 private:
  Block& at(int32_t block) { return blocks_[static_cast<size_t>(block)]; }

  const int32_t layer_heads_;
  std::vector<Block> blocks_;
  std::vector<ScoreBlock> score_blocks_;  // the blocks' own, then spare ones
  int32_t held_blocks_ = 0;
  uint64_t versions_ = 0;
};

// What is in the slot of a token with this identity (SimRequest::keys): where positions roll keys are cached before
// rotation, and nobody else can read those.
inline uint64_t CellKey(uint64_t key, bool rolling) { return rolling ? ~key : key; }

// The share of a cell; of one that is nobody's: 0.
inline uint64_t ShareOf(const FakeMemory::Cell& cell) {
  return cell.position < 0 ? 0 : Share(cell.position, cell.token);
}

}  // namespace hydrant::sim

#endif  // HYDRANT_TESTS_SIM_FAKE_MEMORY_H_
