#include "model/tokenizer/merge_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <functional>

namespace hydrant {
namespace {

// Up to here looking at every pair for every merge beats a heap; nearly all words of running text are shorter.
constexpr size_t kShortWord = 48;

}  // namespace

MergeTable::MergeTable(size_t merges)
    : shift_(64 - std::bit_width(2 * merges + 1)), entries_(size_t{1} << (64 - shift_)) {}

void MergeTable::Add(int32_t left, int32_t right, uint32_t rank, int32_t merged) {
  assert(rank != kNoRank);
  const uint64_t key = Key(left, right);
  size_t slot = Slot(key);
  while (entries_[slot].key != kFree && entries_[slot].key != key) slot = (slot + 1) & (entries_.size() - 1);
  entries_[slot] = {key, rank, merged};
}

const MergeTable::Entry& MergeTable::Find(int32_t left, int32_t right) const {
  const uint64_t key = Key(left, right);
  size_t slot = Slot(key);
  while (entries_[slot].key != key && entries_[slot].key != kFree) slot = (slot + 1) & (entries_.size() - 1);
  return entries_[slot];
}

void MergeTable::Apply(std::vector<int32_t>& symbols) const {
  if (symbols.size() < 2) return;
  if (symbols.size() <= kShortWord) {
    ApplyToShort(symbols);
  } else {
    ApplyToLong(symbols);
  }
}

void MergeTable::ApplyToShort(std::vector<int32_t>& symbols) const {
  std::array<uint32_t, kShortWord> rank;   // of the pair that begins at a symbol
  std::array<int32_t, kShortWord> merged;  // what that pair becomes
  size_t count = symbols.size();
  const auto look_up = [&](size_t i) {
    const Entry& entry = Find(symbols[i], symbols[i + 1]);
    rank[i] = entry.rank;
    merged[i] = entry.merged;
  };
  for (size_t i = 0; i + 1 < count; ++i) look_up(i);
  while (count > 1) {
    const size_t best = static_cast<size_t>(
        std::min_element(rank.begin(), rank.begin() + static_cast<ptrdiff_t>(count) - 1) - rank.begin());
    if (rank[best] == kNoRank) break;
    symbols[best] = merged[best];
    for (size_t i = best + 1; i + 1 < count; ++i) {
      symbols[i] = symbols[i + 1];
      rank[i] = rank[i + 1];
      merged[i] = merged[i + 1];
    }
    --count;
    if (best > 0) look_up(best - 1);
    if (best + 1 < count) look_up(best);
  }
  symbols.resize(count);
}

void MergeTable::ApplyToLong(std::vector<int32_t>& symbols) const {
  // A doubly linked list over the symbols, by place; a merged symbol keeps its left part's place. The heap holds every
  // pair that was a merge when it arose, as rank << 32 | place; one whose pair has changed since is passed over.
  assert(symbols.size() < UINT32_MAX);
  const auto count = static_cast<uint32_t>(symbols.size());
  constexpr uint32_t kNone = UINT32_MAX;
  struct Links {
    uint32_t before, after;
  };
  std::vector<Links> links(count);
  std::vector<uint64_t> heap;
  heap.reserve(count);
  for (uint32_t i = 0; i < count; ++i) links[i] = {i == 0 ? kNone : i - 1, i + 1 == count ? kNone : i + 1};
  const auto pair_at = [&](uint32_t i) -> const Entry& { return Find(symbols[i], symbols[links[i].after]); };
  for (uint32_t i = 0; i + 1 < count; ++i) {
    if (const Entry& entry = pair_at(i); entry.rank != kNoRank)
      heap.push_back(static_cast<uint64_t>(entry.rank) << 32 | i);
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  const auto push = [&](uint32_t i) {
    const Entry& entry = pair_at(i);
    if (entry.rank == kNoRank) return;
    heap.push_back(static_cast<uint64_t>(entry.rank) << 32 | i);
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  constexpr int32_t kGone = -1;  // the symbol was merged into the one before it
  while (!heap.empty()) {
    const uint64_t top = heap.front();
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.pop_back();
    const auto at = static_cast<uint32_t>(top);
    if (symbols[at] == kGone || links[at].after == kNone) continue;
    const Entry& entry = pair_at(at);
    if (entry.rank != top >> 32) continue;
    const uint32_t gone = links[at].after;
    symbols[at] = entry.merged;
    symbols[gone] = kGone;
    links[at].after = links[gone].after;
    if (links[at].after != kNone) {
      links[links[at].after].before = at;
      push(at);
    }
    if (links[at].before != kNone) push(links[at].before);
  }
  symbols.erase(std::remove(symbols.begin(), symbols.end(), kGone), symbols.end());
}

}  // namespace hydrant
