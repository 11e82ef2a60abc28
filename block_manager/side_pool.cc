#include "block_manager/side_pool.h"

#include <cassert>
#include <iterator>
#include <utility>

namespace hydrant {

SidePool::SidePool(int32_t first, int32_t count) : first_(first), total_(count) {
  assert(count >= 0);
  free_.reserve(static_cast<size_t>(count));
  for (int32_t side = first + count - 1; side >= first; --side) free_.push_back(side);
}

std::span<const int32_t> SidePool::FindSnapshot(int32_t block, ScoreKind kind) {
  const auto found = by_block_.find(KeyOf(block, kind));
  if (found == by_block_.end()) return {};
  used_.splice(used_.end(), used_, found->second);
  return found->second->sides;
}

bool SidePool::CanTake(int32_t count, int32_t spared_block, ScoreKind kind) const {
  int32_t there = free() + in_snapshots_;
  if (const auto spared = by_block_.find(KeyOf(spared_block, kind)); spared != by_block_.end()) {
    there -= static_cast<int32_t>(spared->second->sides.size());
  }
  return count <= there;
}

void SidePool::Take(int32_t count, int32_t spared_block, ScoreKind kind, std::vector<int32_t>* out) {
  assert(CanTake(count, spared_block, kind));
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

void SidePool::GiveBack(int32_t side) {
  assert(side >= first_ && side < first_ + total_ && handed_out() > 0);
  free_.push_back(side);
}

void SidePool::Keep(int32_t block, ScoreKind kind, std::vector<int32_t> sides) {
  assert(kind < kScoreKinds && !sides.empty() && static_cast<int32_t>(sides.size()) <= handed_out());
  in_snapshots_ += static_cast<int32_t>(sides.size());
  const auto kept = used_.insert(used_.end(), Snapshot{block, kind, std::move(sides)});
  const bool inserted = by_block_.emplace(KeyOf(block, kind), kept).second;
  assert(inserted);
  (void)inserted;
}

void SidePool::DropSnapshots(int32_t block) {
  if (by_block_.empty()) return;
  for (ScoreKind kind = 0; kind < kScoreKinds; ++kind) {
    const auto found = by_block_.find(KeyOf(block, kind));
    if (found != by_block_.end()) Drop(found->second);
  }
}

void SidePool::Drop(Used::iterator snapshot) {
  free_.insert(free_.end(), snapshot->sides.begin(), snapshot->sides.end());
  in_snapshots_ -= static_cast<int32_t>(snapshot->sides.size());
  by_block_.erase(KeyOf(snapshot->block, snapshot->kind));
  used_.erase(snapshot);
}

}  // namespace hydrant
