#include "tests/sim/fake_memory.h"

#include <algorithm>

namespace hydrant::sim {

void FakeMemory::Clear(int32_t block) {
  Block& cleared = at(block);
  ScoreBlock& score_block = score_blocks_[static_cast<size_t>(block)];
  for (size_t layer_head = 0; layer_head < static_cast<size_t>(layer_heads_); ++layer_head) {
    cleared.cells[layer_head].fill(Cell());
    score_block.positions[layer_head].fill(-1);
  }
  cleared.sums = {};
  cleared.generated = false;
  cleared.version = ++versions_;
  score_block.state = 0;
  score_block.version = ++versions_;
}

uint64_t FakeMemory::Write(int32_t layer_head, int32_t block, int32_t offset, const Cell& cell, uint64_t share) {
  Block& written = at(block);
  Cell& place = written.cells[static_cast<size_t>(layer_head)][static_cast<size_t>(offset)];
  const uint64_t before = ShareOf(place);
  written.sums[static_cast<size_t>(layer_head)] += share - before;
  written.version = ++versions_;
  place = cell;
  return before;
}

uint64_t FakeMemory::WriteAllPairs(int32_t block, int32_t score_block, int32_t offset, std::span<const Cell> cells,
                                   int32_t position) {
  Block& written = at(block);
  ScoreBlock& beside = score_blocks_[static_cast<size_t>(score_block)];
  uint64_t shares = 0;
  for (const Cell& cell : cells) shares += ShareOf(cell);
  for (size_t layer_head = 0; layer_head < static_cast<size_t>(layer_heads_); ++layer_head) {
    uint64_t before = 0;
    for (size_t i = 0; i < cells.size(); ++i) {
      const size_t place = static_cast<size_t>(offset) + i;
      before += ShareOf(written.cells[layer_head][place]);
      written.cells[layer_head][place] = cells[i];
      beside.positions[layer_head][place] = position + static_cast<int32_t>(i);
    }
    written.sums[layer_head] += shares - before;
  }
  written.version = ++versions_;
  beside.version = ++versions_;
  return shares;
}

void FakeMemory::WritePosition(int32_t layer_head, int32_t score_block, int32_t offset, int32_t position) {
  ScoreBlock& written = score_blocks_[static_cast<size_t>(score_block)];
  written.positions[static_cast<size_t>(layer_head)][static_cast<size_t>(offset)] = position;
  written.version = ++versions_;
}

void FakeMemory::InitScore(int32_t from, int32_t to, int32_t position) {
  ScoreBlock& score_block = score_blocks_[static_cast<size_t>(to)];
  score_block.state = from < 0 ? 0 : score_blocks_[static_cast<size_t>(from)].state;
  for (size_t layer_head = 0; layer_head < static_cast<size_t>(layer_heads_); ++layer_head) {
    for (int32_t i = 0; i < kBlockSlots; ++i) score_block.positions[layer_head][static_cast<size_t>(i)] = position + i;
  }
  score_block.version = ++versions_;
}

void FakeMemory::PutBlock(const Block& from, int32_t to) {
  Block& block = at(to);
  std::copy_n(from.cells.begin(), layer_heads_, block.cells.begin());
  block.sums = from.sums;
  block.generated = from.generated;
  block.version = ++versions_;
}

void FakeMemory::PutScoreBlock(const ScoreBlock& from, int32_t to) {
  ScoreBlock& score_block = score_blocks_[static_cast<size_t>(to)];
  std::copy_n(from.positions.begin(), layer_heads_, score_block.positions.begin());
  score_block.state = from.state;
  score_block.version = ++versions_;
}

}  // namespace hydrant::sim
