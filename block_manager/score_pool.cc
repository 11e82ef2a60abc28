#include "block_manager/score_pool.h"

#include <cassert>
#include <iterator>
#include <utility>

namespace hydrant {

ScorePool::ScorePool(int32_t first, int32_t count) : first_(first), total_(count) {
  assert(count >= 0);
  free_.reserve(static_cast<size_t>(count));
  // A snapshot has a score block at least, and with a quarter to spare tombstones never make the table grow.
  by_block_.reserve(static_cast<size_t>(count) + static_cast<size_t>(count) / 4 + 64);
  for (int32_t score_block = first + count - 1; score_block >= first; --score_block) free_.push_back(score_block);
}

std::span<const int32_t> ScorePool::FindSnapshot(int32_t block, ScoreKind kind) {
  const auto found = by_block_.find(KeyOf(block, kind));
  if (found == by_block_.end()) return {};
  used_.splice(used_.end(), used_, found->second);
  return found->second->score_blocks;
}

bool ScorePool::CanTake(int32_t count, int32_t spared_block, ScoreKind kind) const {
  int32_t there = free() + in_snapshots_;
  if (const auto spared = by_block_.find(KeyOf(spared_block, kind)); spared != by_block_.end()) {
    there -= static_cast<int32_t>(spared->second->score_blocks.size());
  }
  return count <= there;
}

void ScorePool::Take(int32_t count, int32_t spared_block, ScoreKind kind, std::vector<int32_t>* out) {
  assert(CanTake(count, spared_block, kind));
  out->reserve(out->size() + static_cast<size_t>(count));
  auto oldest = used_.begin();
  while (free() < count) {
    const auto next = std::next(oldest);
    if (oldest->block != spared_block || oldest->kind != kind) Drop(oldest);
    oldest = next;
  }
  for (int32_t i = 0; i < count; ++i) {
    out->push_back(free_.back());
    free_.pop_back();
  }
}

void ScorePool::GiveBack(int32_t score_block) {
  assert(score_block >= first_ && score_block < first_ + total_ && handed_out() > 0);
  free_.push_back(score_block);
}

void ScorePool::Keep(int32_t block, ScoreKind kind, std::vector<int32_t>&& score_blocks) {
  assert(kind < kScoreKinds && !score_blocks.empty() && static_cast<int32_t>(score_blocks.size()) <= handed_out());
  const auto kept = used_.emplace(used_.end());  // the one thing that may throw
  in_snapshots_ += static_cast<int32_t>(score_blocks.size());
  *kept = {block, kind, std::move(score_blocks)};
  const bool inserted = by_block_.emplace(KeyOf(block, kind), kept).second;
  assert(inserted);
  (void)inserted;
}

void ScorePool::DropSnapshots(int32_t block) {
  if (by_block_.empty()) return;
  for (ScoreKind kind = 0; kind < kScoreKinds; ++kind) {
    const auto found = by_block_.find(KeyOf(block, kind));
    if (found != by_block_.end()) Drop(found->second);
  }
}

void ScorePool::Drop(Used::iterator snapshot) {
  free_.insert(free_.end(), snapshot->score_blocks.begin(), snapshot->score_blocks.end());
  in_snapshots_ -= static_cast<int32_t>(snapshot->score_blocks.size());
  by_block_.erase(KeyOf(snapshot->block, snapshot->kind));
  used_.erase(snapshot);
}

}  // namespace hydrant
