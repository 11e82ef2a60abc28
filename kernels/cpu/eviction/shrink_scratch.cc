#include "kernels/cpu/eviction/shrink_scratch.h"

namespace hydrant {
namespace {

constexpr size_t kSlotBytes = sizeof(uint64_t) + 2 * sizeof(int32_t) + sizeof(float);

size_t AreaBytes(int32_t slots_max) { return CacheAligned(static_cast<size_t>(slots_max) * kSlotBytes); }

}  // namespace

size_t ShrinkScratches::Bytes(int threads, const StepBounds& bounds) {
  return static_cast<size_t>(threads) * AreaBytes(WholeBlocks(bounds.slots_max));
}

ShrinkScratches::ShrinkScratches(int threads, const StepBounds& bounds)
    : slots_max_(WholeBlocks(bounds.slots_max)), memory_(Bytes(threads, bounds)) {}

ShrinkScratch ShrinkScratches::Of(int thread) const {
  const auto slots = static_cast<size_t>(slots_max_);
  std::byte* p = static_cast<std::byte*>(memory_.data()) + static_cast<size_t>(thread) * AreaBytes(slots_max_);
  return {.keys = reinterpret_cast<uint64_t*>(p),
          .slots = reinterpret_cast<int32_t*>(p + slots * sizeof(uint64_t)),
          .pooled = reinterpret_cast<float*>(p + slots * (sizeof(uint64_t) + 2 * sizeof(int32_t)))};
}

}  // namespace hydrant
