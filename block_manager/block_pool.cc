#include "block_manager/block_pool.h"

#include <cassert>

#include "absl/strings/str_cat.h"

namespace hydrant {

BlockPool::BlockPool(int32_t blocks) : states_(static_cast<size_t>(blocks)) {
  // Lowest ids on top of the stack: a young pool is used from its start, which keeps dumps readable.
  free_.reserve(states_.size());
  for (int32_t block = blocks - 1; block >= 0; --block) free_.push_back(block);
}

BlockPool::State& BlockPool::state(int32_t block) {
  assert(block >= 0 && block < total());
  return states_[static_cast<size_t>(block)];
}

BlockPool::Taken BlockPool::Take() {
  assert(available() > 0);
  Taken taken;
  if (!free_.empty()) {
    taken.block = free_.back();
    free_.pop_back();
  } else {
    taken.block = oldest_;
    taken.was_cached = true;
    UnlinkCached(taken.block);
    state(taken.block).published = false;
  }
  State& taken_state = state(taken.block);
  assert(taken_state.references == 0 && !taken_state.published);
  taken_state.references = 1;
  ++operations_;
  return taken;
}

void BlockPool::AddReference(int32_t block) {
  State& block_state = state(block);
  if (block_state.references == 0) {
    assert(block_state.published);
    UnlinkCached(block);
    ++operations_;
  }
  ++block_state.references;
}

bool BlockPool::DropReference(int32_t block) {
  State& block_state = state(block);
  assert(block_state.references > 0);
  if (--block_state.references > 0) return false;
  if (block_state.published) {
    LinkCached(block);
  } else {
    free_.push_back(block);
  }
  ++operations_;
  return true;
}

void BlockPool::Publish(int32_t block) {
  assert(state(block).references > 0);
  state(block).published = true;
}

void BlockPool::Unpublish(int32_t block) {
  State& block_state = state(block);
  assert(block_state.published);
  block_state.published = false;
  if (block_state.references > 0) return;
  UnlinkCached(block);
  free_.push_back(block);
}

void BlockPool::LinkCached(int32_t block) {
  State& block_state = state(block);
  assert(block_state.older == -1 && block_state.newer == -1);
  block_state.older = newest_;
  if (newest_ >= 0) {
    state(newest_).newer = block;
  } else {
    oldest_ = block;
  }
  newest_ = block;
  ++cached_count_;
}

void BlockPool::UnlinkCached(int32_t block) {
  State& block_state = state(block);
  if (block_state.older >= 0) {
    state(block_state.older).newer = block_state.newer;
  } else {
    assert(oldest_ == block);
    oldest_ = block_state.newer;
  }
  if (block_state.newer >= 0) {
    state(block_state.newer).older = block_state.older;
  } else {
    assert(newest_ == block);
    newest_ = block_state.older;
  }
  block_state.older = -1;
  block_state.newer = -1;
  --cached_count_;
}

absl::Status BlockPool::CheckIntegrity() const {
  std::vector<bool> listed(states_.size(), false);
  for (int32_t block : free_) {
    if (block < 0 || block >= total() || listed[static_cast<size_t>(block)]) {
      return absl::InternalError(absl::StrCat("free list: block ", block, " is out of range or listed twice"));
    }
    listed[static_cast<size_t>(block)] = true;
    if (references(block) != 0 || published(block)) {
      return absl::InternalError(absl::StrCat("free block ", block, " is referenced or published"));
    }
  }
  int32_t cached = 0;
  for (int32_t block = oldest_; block >= 0; block = states_[static_cast<size_t>(block)].newer) {
    if (listed[static_cast<size_t>(block)]) {
      return absl::InternalError(absl::StrCat("cached-free list: block ", block, " is listed twice"));
    }
    listed[static_cast<size_t>(block)] = true;
    ++cached;
    if (references(block) != 0 || !published(block)) {
      return absl::InternalError(absl::StrCat("cached-free block ", block, " is referenced or not published"));
    }
  }
  if (cached != cached_count_) {
    return absl::InternalError(
        absl::StrCat("cached-free list has ", cached, " blocks, the count says ", cached_count_));
  }
  for (int32_t block = 0; block < total(); ++block) {
    if (!listed[static_cast<size_t>(block)] && references(block) <= 0) {
      return absl::InternalError(absl::StrCat("block ", block, " is lost: in no list and without a reference"));
    }
  }
  return absl::OkStatus();
}

}  // namespace hydrant
