#include "model/run/swapped_kv.h"

#include <sys/mman.h>

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <limits>
#include <new>
#include <utility>

namespace hydrant {
namespace {

constexpr size_t kHugeBytes = size_t{2} << 20;

// The system finds the memory as it is written.
std::byte* TakeRoom(int64_t blocks_max, size_t block_bytes) {
  const auto blocks = static_cast<size_t>(blocks_max);
  if (blocks == 0) return nullptr;
  if (blocks > (std::numeric_limits<size_t>::max() - kHugeBytes) / block_bytes) throw std::bad_alloc();
  const size_t bytes = (blocks * block_bytes + kHugeBytes - 1) / kHugeBytes * kHugeBytes;
  void* memory = std::aligned_alloc(kHugeBytes, bytes);
  if (memory == nullptr) throw std::bad_alloc();
  // Only advice.
  (void)madvise(memory, bytes, MADV_HUGEPAGE);
  return static_cast<std::byte*>(memory);
}

}  // namespace

void SwappedKv::Free::operator()(std::byte* memory) const { std::free(memory); }

SwappedKv::SwappedKv(int64_t blocks_max, size_t block_bytes, size_t state_bytes)
    : block_bytes_(block_bytes),
      state_bytes_(state_bytes),
      room_(TakeRoom(blocks_max, block_bytes)),
      taken_(static_cast<size_t>(blocks_max), false) {}

void SwappedKv::Put(uint64_t id, int32_t blocks) {
  assert(!has(id));
  if (blocks > std::ssize(taken_) - blocks_) throw std::bad_alloc();
  Held held = {std::make_unique_for_overwrite<std::byte[]>(state_bytes_), {}};
  held.places.reserve(static_cast<size_t>(blocks));
  for (size_t place = 0; std::ssize(held.places) < blocks; ++place) {
    if (!taken_[place]) held.places.push_back(place);
  }
  const std::vector<size_t>& places = sequences_.emplace(id, std::move(held)).first->second.places;
  for (const size_t place : places) taken_[place] = true;
  blocks_ += blocks;
}

const SwappedKv::Held& SwappedKv::At(uint64_t id) const {
  const auto found = sequences_.find(id);
  assert(found != sequences_.end());
  return found->second;
}

std::span<std::byte> SwappedKv::State(uint64_t id) { return {At(id).state.get(), state_bytes_}; }

void SwappedKv::ForBlocks(uint64_t id, BlockSlice slice,
                          absl::FunctionRef<void(BlockSlice part, std::byte* bytes)> each) {
  const std::vector<size_t>& places = At(id).places;
  assert(0 <= slice.begin && slice.begin <= slice.end && slice.end <= std::ssize(places));
  while (slice.begin < slice.end) {
    const size_t first = places[static_cast<size_t>(slice.begin)];
    BlockSlice part = {slice.begin, slice.begin + 1};
    while (part.end < slice.end && places[static_cast<size_t>(part.end)] == first + static_cast<size_t>(part.size())) {
      ++part.end;
    }
    each(part, room_.get() + first * block_bytes_);
    slice.begin = part.end;
  }
}

void SwappedKv::Drop(uint64_t id) {
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) return;
  for (const size_t place : found->second.places) taken_[place] = false;
  blocks_ -= std::ssize(found->second.places);
  sequences_.erase(found);
}

}  // namespace hydrant
